"""The site of docs/: it can be built, has every page, is found, and asks no other server for anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.heliostat_only("it is our site"), pytest.mark.timeout(1000)]

# Where the site and the repository would lie.
HERE = "https://heliostat.example/docs/"
REPOSITORY = "https://git.example/field/heliostat"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings_handlers.python", reason="mkdocstrings is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "SITE_URL": HERE,
            "REPOSITORY_URL": REPOSITORY,
        },
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts]
    for page in pages:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert re.search(rf"- {re.escape(name)}$", navigation, re.MULTILINE), name
        assert (site / name).with_suffix(".html").exists(), name


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        html = page.read_text()
        loads = r'<(?:script|img|link rel="(?!canonical))[^>]*?(?:src|href)="(https?:[^"]*)"'
        loaded = [url for url in re.findall(loads, html) if not url.startswith(HERE)]
        assert 'data-md-component="source"' not in html, "it asks the repository's server"
        assert not loaded, (page.name, loaded)


def test_a_link_that_leads_nowhere_ends_the_build(site: Path, tmp_path: Path) -> None:
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("[nowhere](nowhere.md)\n")
    config = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[0]
    config = config.replace("[python]", f"[{ROOT}/python]")
    config = config.replace("xtask/", f"{ROOT}/xtask/").replace(
        "docs_dir: docs", f"docs_dir: {pages}"
    )
    (tmp_path / "mkdocs.yml").write_text(config)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=900, check=False)
    assert done.returncode, "the site itself is built in the same way"


def test_programs_and_servers_find_all_pages(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    assert (
        f"- [Tutorial: from a script to three machines]({HERE}guide/tutorial.html): One program"
        in listed
    )
    assert "## API" in listed
    assert "max_ongoing_requests" in (site / "llms-full.txt").read_text()
    places = (site / "sitemap.xml").read_text()
    assert f"<loc>{HERE}guide/tasks.html</loc>" in places
    assert "There is no such page" in (site / "404.html").read_text()
    assert f"{REPOSITORY}/edit/main/docs/guide/tasks.md" in (site / "guide/tasks.html").read_text()
    # Of a folder, scripts read no other files: the index is a script, too.
    assert (site / "search/search_index.js").read_text().startswith("var __index = ")
    assert not list(site.glob("*.toml")), "data of tests are no pages"


def test_versions_stand_side_by_side(tmp_path: Path) -> None:
    built, sites = tmp_path / "built", tmp_path / "sites"
    built.mkdir()
    for version, latest in (
        ("0.9.0", "0.9.0"),
        ("0.10.0", "0.10.0"),
        ("0.9.1", "0.10.0"),
        ("main", "0.10.0"),
    ):
        (built / "index.html").write_text(version)
        (built / "404.html").write_text(version)
        script = ROOT / "xtask/site_versions.py"
        subprocess.run([sys.executable, script, built, version, sites], check=True, timeout=60)
        assert (sites / "latest/index.html").read_text() == latest
        assert (sites / "404.html").read_text() == latest, "servers look for it in the root alone"
    rows = json.loads((sites / "versions.json").read_text())
    assert [row["version"] for row in rows] == ["0.10.0", "0.9.1", "0.9.0", "main"]
    assert [row["aliases"] for row in rows] == [["latest"], [], [], []]
    assert "latest/index.html" in (sites / "index.html").read_text()


def test_drawings_are_what_their_script_draws() -> None:
    command = [sys.executable, ROOT / "xtask/drawings.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
