"""The site of docs/: it can be built, has every page, and asks no other server for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.heliostat_only("it is our site"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings_handlers.python", reason="mkdocstrings is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
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
        loaded = re.findall(r'<(?:script|link|img)[^>]*?(?:src|href)="(https?:[^"]*)"', html)
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
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=240, check=False)
    assert done.returncode, "the site itself is built in the same way"
