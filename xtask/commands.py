"""Writes ``docs/commands.md``: every command with its arguments and options, as the programs themselves tell.

``python xtask/commands.py`` writes the page; ``--check`` says whether it is up to date. The programs stand
beside the interpreter that runs this: those of the environment with Heliostat.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"

HEAD = """\
# Commands

<!-- Written by xtask/commands.py from what the programs say with --help; do not edit here. -->

`heliostat` and `ray` are the same program; `serve` and `tune` are Ray's commands of these names.
`COMMAND --help` prints what stands here. Which environment variables they read is in [Settings](settings.md).
"""

PROGRAMS = ("heliostat", "serve", "tune")


class Help(NamedTuple):
    """What a program says of one of its commands."""

    about: str
    usage: str
    commands: list[tuple[str, str]]
    arguments: list[tuple[str, str]]
    options: list[tuple[str, str]]


def ask(words: tuple[str, ...]) -> str:
    """What the program prints for these words with --help, in long lines."""
    program = Path(sys.executable).with_name(words[0])
    environment = {**os.environ, "COLUMNS": "2000", "NO_COLOR": "1"}
    done = subprocess.run(
        [program, *words[1:], "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=600,
    )
    return done.stdout


def sections(said: str) -> dict[str, list[str]]:
    """Lines by the heading above them; those of the beginning stand below "about"."""
    found: dict[str, list[str]] = {"about": []}
    heading = "about"
    for line in said.splitlines():
        title = re.fullmatch(r"([A-Za-z][A-Za-z ]*):", line)
        if title:
            heading = title[1].lower()
            found.setdefault(heading, [])
        elif line.lower().startswith("usage: "):
            found["usage"] = [line[len("usage: ") :]]
            heading = "after"
            found.setdefault(heading, [])
        else:
            found[heading].append(line)
    return found


def items(lines: list[str]) -> list[tuple[str, str]]:
    """Names with what is said of them, which stands behind two spaces or in the lines below, further in."""
    found: list[tuple[str, str]] = []
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent >= 8 and found:
            name, text = found[-1]
            found[-1] = (name, f"{text} {line.strip()}".strip())
        else:
            name, _, text = re.sub(r" {2,}", "\0", line.strip(), count=1).partition("\0")
            found.append((name, text.strip()))
    return found


def read(words: tuple[str, ...]) -> Help:
    """The help of one command."""
    parts = sections(ask(words))
    about = " ".join(line.strip() for line in [*parts["about"], *parts.get("after", [])]).strip()
    positional = items(parts.get("positional arguments", []))
    # argparse lists commands below a line of all their names; newer releases write options in a shorter form.
    listed = [one for one in positional if "|" in one[0] or one[0].startswith("{")]
    below = positional[positional.index(listed[0]) + 1 :] if listed else []
    own = [one for one in positional if one not in below and one not in listed]
    options = [
        (re.sub(r"(-\w) (\S+), (--\S+) \2", r"\1, \3 \2", name), text)
        for name, text in items(parts.get("options", []))
    ]
    return Help(
        about=about,
        usage=" ".join(parts["usage"]),
        commands=[*items(parts.get("commands", [])), *below],
        arguments=[*items(parts.get("arguments", [])), *own],
        options=[one for one in options if not one[0].startswith(("-h", "--help"))],
    )


def cell(text: str) -> str:
    """A text as a table's cell: words such as <PORT> are no tags."""
    text, _, values = (
        re.sub(r"\s+", " ", text).replace("|", "\\|").partition(" Possible values: - ")
    )
    text += f". One of: {values.replace(' - ', '; ')}" if values else ""
    parts = text.split("`")
    parts[::2] = [
        part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") for part in parts[::2]
    ]
    return "`".join(parts)


def code(name: str) -> str:
    return "`" + name.replace("|", "\\|") + "`"


def table(head: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield f"\n| {head} | meaning |\n|---|---|\n"
        for name, text in rows:
            yield f"| {code(name)} | {cell(text)} |\n"


def section(words: tuple[str, ...]) -> Iterator[str]:
    """A command's part of the page, and those of the commands below it."""
    told = read(words)
    yield f"\n{'#' * (len(words) + 1)} {' '.join(words)}\n"
    yield f"\n{cell(told.about)}\n" if told.about else ""
    if told.commands:
        yield from table("command", [one for one in told.commands if one[0] != "help"])
    else:
        yield from table("argument", told.arguments)
        yield from table("option", told.options)
    for name, _ in told.commands:
        if name != "help":
            yield from section((*words, name.split(" ")[0]))


def page() -> str:
    """The page as it should be."""
    return "".join([HEAD, *(part for name in PROGRAMS for part in section((name,)))])


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE} is out of date: run .venv/bin/python xtask/commands.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
