"""Writes ``docs/compatibility.md``: each line of the contract, who tests it, and what differs.

``python compatibility.py`` writes it; ``--check`` says whether it is up to date. It is made from
``docs/contract.toml``, ``docs/differences.toml``, and the ids that tests and snippets cite.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import documented

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
TESTS = ROOT / "tests"
SNIPPETS = TESTS / "differential" / "snippets"
ID = re.compile(r"\bF\d{1,2}\.\d{2}\b")

HEAD = """\
# Compatibility with Ray

<!-- Written by tests/differential/compatibility.py: run it after a change, do not edit here. -->

What users of Ray's API rely on, line by line. The weight says how much daily use depends on a line:
**S** is used by the programs this project set out to run, **C** is common, P is peripheral. `tests` are
the files that fail without it, `compared` the snippets that `make differential` runs on both systems.
A line that names neither is not shown to work.
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


def page() -> str:
    """The page as it should be."""
    contract = documented.contract()
    tests, snippets = cited(TESTS, skip=TESTS / "differential"), cited(SNIPPETS)
    unknown = sorted({*tests, *snippets} - {i for group in contract for i in group.lines})
    if unknown:
        raise SystemExit(f"cited, but not in docs/contract.toml: {', '.join(unknown)}")
    parts = [HEAD, *_differences(), "\n## The lines\n"]
    for group in contract:
        parts.append(f"\n### {group.name} {group.title}\n")
        parts.append("\n| id | weight | subject | tests | compared |\n|---|---|---|---|---|\n")
        for contract_id, (weight, subject) in group.lines.items():
            mark = weight if weight == "P" else f"**{weight}**"
            by = ", ".join(_short(name) for name in tests.get(contract_id, [])) or "-"
            compared = ", ".join(_short(name) for name in snippets.get(contract_id, [])) or "-"
            parts.append(f"| {contract_id} | {mark} | {subject} | {by} | {compared} |\n")
    return "".join(parts)


def _short(name: str) -> str:
    name = name.removeprefix("differential/snippets/").removesuffix(".py")
    return name.replace("/test_", "/")


def _differences() -> Iterator[str]:
    yield "\n## What differs, and why\n\n"
    for entry in documented.entries():
        yield f"- {', '.join(entry['ids'])}: {entry['reason']}\n"


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE} is out of date: run python tests/differential/compatibility.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
