"""Writes ``docs/compatibility.md``, which tells users what differs from Ray, and ``lines.md`` beside this
file: which tests show which line of the contract.

``python compatibility.py`` writes them; ``--check`` says whether they are up to date. They are made from
``contract.toml`` and ``differences.toml`` beside this file, and the ids that tests and snippets cite.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import documented

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
BY_LINE = Path(__file__).with_name("lines.md")
TESTS = ROOT / "tests"
SNIPPETS = TESTS / "differential" / "snippets"
ID = re.compile(r"\bF\d{1,2}\.\d{2}\b")

HEAD = """\
# Compatibility with Ray

<!-- Written by tests/differential/compatibility.py: run it after a change, do not edit here. -->

Heliostat has Ray 2.60's names, arguments, defaults and errors. This page lists where it does something
else, and, for each part of the API, what tests show to be the same. A program that relies on nothing in
the tables runs unchanged.
"""

BY_LINE_HEAD = """\
# Lines of the contract, and what shows them

<!-- Written by tests/differential/compatibility.py: run it after a change, do not edit here. -->

The weight says how much daily use depends on a line: **S** is used by the programs this project set out
to run, **C** is common, P is peripheral. `tests` are the files that fail without it, `compared` the
snippets that `make differential` runs on both systems. A line that names neither is not shown to work.
"""


def cited(folder: Path, skip: Path | None = None) -> dict[str, list[str]]:
    """The ids that Python files of the folder name, each with those files, from ``tests/``."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        if skip is not None and path.is_relative_to(skip):
            continue
        for contract_id in sorted(set(ID.findall(path.read_text()))):
            found.setdefault(contract_id, []).append(path.relative_to(TESTS).as_posix())
    return found


def pages() -> dict[Path, str]:
    """Both pages as they should be."""
    contract = documented.contract()
    tests, snippets = cited(TESTS, skip=TESTS / "differential"), cited(SNIPPETS)
    unknown = sorted({*tests, *snippets} - {i for group in contract for i in group.lines})
    if unknown:
        raise SystemExit(
            f"cited, but not in tests/differential/contract.toml: {', '.join(unknown)}"
        )
    shown = {*tests, *snippets}
    return {
        PAGE: "".join([HEAD, *_for_users(contract, shown)]),
        BY_LINE: "".join([BY_LINE_HEAD, *_by_line(contract, tests, snippets)]),
    }


def _for_users(contract: list[documented.Group], shown: set[str]) -> Iterator[str]:
    """Each part: a table of what differs, and what is as on Ray."""
    entries = documented.entries()
    for group in contract:
        yield f"\n## {group.title}\n"
        # A difference stands in the part that it names first.
        differ = [entry for entry in entries if entry["ids"][0] in group.lines]
        if differ:
            yield "\n| Operation | Ray | Heliostat |\n|---|---|---|\n"
            for entry in differ:
                cells = (entry[name].replace("|", "\\|") for name in documented.CELLS)
                yield f"| {' | '.join(cells)} |\n"
        of_tests = [line for i, (_, line) in group.lines.items() if i in shown]
        others = [line for i, (_, line) in group.lines.items() if i not in shown]
        if of_tests:
            rest = "Otherwise as on Ray" if differ else "As on Ray"
            yield f"\n{rest}, and shown by tests: {', '.join(of_tests)}.\n"
        if others:
            yield f"\nNo test shows: {', '.join(others)}.\n"


def _by_line(
    contract: list[documented.Group], tests: dict[str, list[str]], snippets: dict[str, list[str]]
) -> Iterator[str]:
    for group in contract:
        yield f"\n## {group.name} {group.title}\n"
        yield "\n| id | weight | subject | tests | compared |\n|---|---|---|---|---|\n"
        for contract_id, (weight, subject) in group.lines.items():
            mark = weight if weight == "P" else f"**{weight}**"
            by = ", ".join(_short(name) for name in tests.get(contract_id, [])) or "-"
            compared = ", ".join(_short(name) for name in snippets.get(contract_id, [])) or "-"
            yield f"| {contract_id} | {mark} | {subject} | {by} | {compared} |\n"


def _short(name: str) -> str:
    name = name.removeprefix("differential/snippets/").removesuffix(".py")
    return name.replace("/test_", "/")


def main() -> int:
    """Write the pages, or check them."""
    stale = [path for path, text in pages().items() if not _is(path, text)]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(pages()[path])
        return 0
    for path in stale:
        print(f"{path} is out of date: run python tests/differential/compatibility.py")
    return 1 if stale else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
