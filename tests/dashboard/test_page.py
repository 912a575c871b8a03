"""The page: that it is served, is no older than its sources, and shows what there is."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from web import Head

pytestmark = [
    pytest.mark.contract("F6.05", "F6.26"),
    pytest.mark.heliostat_only("the page is our own"),
]

SOURCES = Path(__file__).parents[2] / "crates" / "helio-dashboard" / "page"


@pytest.fixture
def cookie(head: Head) -> dict[str, str]:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    entered = head.ask("POST", "/login", urlencode({"token": head.token}), form, token=False)
    return {"Cookie": entered.headers["set-cookie"].partition(";")[0]}


def test_the_page_was_built_from_its_sources() -> None:
    """What is served is committed; after a change of its sources: `npm ci && npm run build`."""
    names = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"]
    sources = [str(path.relative_to(SOURCES)) for path in (SOURCES / "src").rglob("*")]
    digest = hashlib.sha256()
    for name in sorted([*names, *sources]):
        path = SOURCES / name
        if path.is_file():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    built = (SOURCES / "dist" / "sources.sha256").read_text().strip()
    assert built == digest.hexdigest(), (
        "run `npm ci && npm run build` in crates/helio-dashboard/page"
    )


def test_a_browser_gets_the_page(head: Head, cookie: dict[str, str]) -> None:
    page = head.ask("GET", "/", headers=cookie, token=False)
    assert page.status == 200
    assert "<noscript>" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    parts = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(parts) == 2
    for part in parts:
        assert head.ask("GET", part, token=False).status == 401
        plain = head.ask("GET", part, headers=cookie, token=False)
        packed = head.ask("GET", part, headers={**cookie, "Accept-Encoding": "gzip"}, token=False)
        assert gzip.decompress(packed.body) == plain.body
    assert head.ask("GET", "/static/..%2fCargo.toml").status == 404


BROWSER = os.environ.get("HELIOSTAT_BROWSER", "")


@pytest.mark.skipif(not BROWSER, reason="HELIOSTAT_BROWSER names no Chromium")
def test_a_real_browser_shows_the_cluster(head: Head) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    head.ask(
        "POST", "/api/jobs/", '{"entrypoint": "echo seen in the page", "submission_id": "shown"}'
    )
    link = head.run("dashboard").stdout.strip()
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda said: problems.append(said.text) if said.type == "error" else None
        )
        page.goto(link)
        page.get_by_text("ALIVE").first.wait_for(timeout=60_000)
        for part, text in (
            ("nodes", "head"),
            ("jobs", "shown"),
            ("jobs/shown", "seen in the page"),
            ("actors", "No actors here"),
            ("tasks", "By function"),
            ("logs", "node.err"),
        ):
            page.goto(f"{head.url}/#/{part}")
            page.get_by_text(text).first.wait_for(timeout=60_000)
        browser.close()
    assert problems == []
