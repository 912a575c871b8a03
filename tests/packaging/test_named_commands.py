"""Every command that a text of ours names is there, with the options that the text gives it.

Texts: the README, the documentation, the changelog, messages and docstrings of the sources, examples. Each
command is run, with ``--help`` behind its words: the parser reads them, and nothing else happens.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.harness import clean_env

pytestmark = [
    pytest.mark.timeout(700),
    pytest.mark.heliostat_only("they are our texts"),
]

ROOT = Path(__file__).parents[2]
PROGRAMS = "heliostat|ray|serve"

TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / ".github").rglob("*.md"),
    *(ROOT / "python").rglob("*.py"),
    *(ROOT / "examples").rglob("*"),
    *(path for path in (ROOT / "crates").rglob("*.rs") if "tests" not in path.parts),
]

# In backticks, in a line of a terminal, or at the beginning of a line of a block.
QUOTED = re.compile(rf"`(?:\$ )?((?:{PROGRAMS})(?: [^`]*)?)`")
TYPED = re.compile(rf"^\s*\$ ((?:{PROGRAMS}) .*)$", re.MULTILINE)
PLAIN = re.compile(rf"^((?:{PROGRAMS}) [a-z][a-z-]*(?: .*)?)$", re.MULTILINE)

# What a text says not to be there, or does not mean as a command.
NOT_HERE = {
    "ray up": "clusters in a cloud are started by other means",
    "ray down": "as above",
    "ray attach": "as above",
    "ray exec": "as above",
    "ray submit": "as above",
    "ray rsync-up": "as above",
    "ray rsync-down": "as above",
    "ray microbenchmark": "Ray's own, which figures are compared with",
}


def blocks(text: str) -> Iterator[str]:
    """The fenced blocks of a page that are of no language, or a shell's."""
    fence, lines = None, list[str]()
    for line in text.splitlines():
        if not line.startswith("```"):
            lines.append(line)
            continue
        if fence in ("```", "```bash", "```sh", "```shell", "```console", "```text"):
            yield "\n".join(lines)
        fence, lines = (line.strip() if fence is None else None), []


def commands(text: str) -> Iterator[str]:
    """The commands that a text names, each in one line and without what stands behind it."""
    text = text.replace("\\\n", " ")
    found = [*QUOTED.findall(text), *TYPED.findall(text)]
    for block in blocks(text):
        found += PLAIN.findall(block)
    for command in found:
        line = re.sub(r"<[^>]*>", lambda place: place[0].replace(" ", "_"), command)
        words = re.split(r"\s#|[|;&]|  +| > | < ", line.replace("\n", " "))[0].split()
        # `serve.run`, `ray` alone, or prose that begins so.
        if len(words) > 1 and re.fullmatch(r"[a-z][a-z-]*", words[1]):
            yield " ".join(words)


@functools.cache
def named() -> dict[str, str]:
    """Each command, and the first file that names it."""
    found: dict[str, str] = {}
    for path in TEXTS:
        if path.is_file() and path.suffix in (".md", ".py", ".rs", ".yaml"):
            for command in commands(path.read_text()):
                found.setdefault(command, str(path.relative_to(ROOT)))
    return found


@functools.cache
def ask(*words: str) -> tuple[int, str]:
    """How the parser takes the words, and what it prints."""
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run(
        [program, *words[1:]], capture_output=True, text=True, env=clean_env(), timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def test_some_are_found() -> None:
    assert {"ray memory", "heliostat why <id>"} <= set(named())
    sample = (
        "text `ray list tasks --filter a=b` and\n```bash\n$ ray stop   # at once\nray status\n```\n"
    )
    assert list(commands(sample)) == ["ray list tasks --filter a=b", "ray stop", "ray status"]


def test_a_word_that_is_no_command_is_seen() -> None:
    assert ask("ray", "no-such-command", "--help")[0] != 0
    assert ask("ray", "start", "--no-such-option", "--help")[0] != 0
    assert ask("serve", "no-such-command", "--help")[0] != 0


@pytest.mark.parametrize("command", sorted(named()), ids=str)
def test_it_is_there(command: str) -> None:
    words = command.split()
    where = named()[command]
    if " ".join(words[:2]) in NOT_HERE:
        return
    # What an entry point gets is its own business.
    words = words[: words.index("--")] if "--" in words else words
    if words[-1].startswith("--") and ask(*words[:2], words[-1], "--help")[0] != 0:
        words[-1] += "=1"  # a text that names the option means whatever value
    code, said = ask(*words, "--help")
    assert code == 0, f"{where} names `{command}`: {said}"
    for option in (word.partition("=")[0].strip("[].,") for word in words[2:]):
        if option.startswith("--"):
            assert option in said or _is_known(words[:2], option), (
                f"{where} names `{command}`: {option}"
            )


def _is_known(words: list[str], option: str) -> bool:
    """Whether an option that help does not show is taken nevertheless."""
    code, _ = ask(*words, option, "--help")
    if code != 0:
        code, _ = ask(*words, f"{option}=1", "--help")
    return code == 0 and words[1] not in ("job", "debug", "memory") and words[0] != "serve"
