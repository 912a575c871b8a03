"""The pages below docs/: what they show runs and prints what they say, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ray import exceptions

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
# Pages for users; the others are about the inside, and have no programs.
PAGES = sorted([DOCS / "index.md", *DOCS.glob("guide/*.md")])

pytestmark = pytest.mark.heliostat_only("they are our pages")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.mark.timeout(270)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_programs_of_a_page_print_what_they_say(
    run_driver: Any, tmp_path: Path, page: Path
) -> None:
    program = "\n".join(BLOCK.findall(page.read_text()))
    if "import torch" in program or "iter_torch" in program:
        pytest.importorskip("torch")
    done = run_driver(program, timeout=240)
    done.check()
    expected = SAID.findall(program)
    assert expected, "a page shows something"
    found = [line for line in done.stdout.splitlines() if line in expected]
    assert found == expected, done.stdout


def test_every_page_is_reached_and_every_link_leads_somewhere() -> None:
    linked = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            target = (page.parent / link).resolve()
            assert target.exists(), f"{name_of(page)}: {link}"
            linked.add(target)
    assert {page for page in PAGES if page.name != "index.md"} <= linked


def test_every_error_is_explained() -> None:
    text = (DOCS / "guide/errors.md").read_text()
    public = [
        name
        for name, found in vars(exceptions).items()
        if isinstance(found, type) and issubclass(found, exceptions.RayError)
    ]
    missing = [name for name in public if name != "RayError" and f"`{name}`" not in text]
    assert not missing
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(set(rows) & set(public)), "each is there, once"
