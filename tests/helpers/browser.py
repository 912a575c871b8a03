"""The page of a head in a real browser."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.web import Head

WAIT = 120_000

BROWSER = os.environ.get("HELIOSTAT_BROWSER", "")


@contextlib.contextmanager
def opened(head: Head, answers: frozenset[int] | set[int] = frozenset()) -> Iterator[Any]:
    """The page in a browser, which must report no problem; ``answers``: statuses that are none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    link = head.run("dashboard").stdout.strip()
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        expected = tuple(f"the server responded with a status of {status}" for status in answers)

        def heard(said: Any) -> None:
            if said.type == "error" and not any(text in said.text for text in expected):
                problems.append(said.text)

        page.on("console", heard)
        page.goto(link)
        page.get_by_text("ALIVE").first.wait_for(timeout=60_000)
        yield page
        browser.close()
    assert problems == []


def goto(page: Any, head: Head, part: str) -> None:
    page.goto(f"{head.url}/#/{part}")


def fits(page: Any, width: int) -> None:
    """Nothing is wider than the window."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(
        "width => document.documentElement.scrollWidth <= width", arg=width, timeout=WAIT
    )


def accessible(page: Any) -> None:
    """axe finds nothing in the page as it is."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not here")
    # Rows come and go while axe looks: what it says of an element that is gone is looked at again.
    for _ in range(3):
        found = axe.Axe().run(page)
        if found.violations_count == 0:
            return
    raise AssertionError(found.generate_report())
