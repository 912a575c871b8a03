"""The page of commands is what the programs say of themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.modules import loaded

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/commands.md"

pytestmark = pytest.mark.heliostat_only("they are our commands")

# Commands of the binary, and one of each kind that Python runs; the others are made by the same function,
# and asking all of them takes 12 s.
ASKED = ["start", "stop", "drain-node", "status", "why", "list", "get", "summary", "timeline"]
OF_PYTHON = [("heliostat", "memory"), ("serve", "run")]


@pytest.fixture(scope="module")
def commands() -> Any:
    return loaded(ROOT / "xtask/commands.py")


def test_every_command_has_its_part(commands: Any) -> None:
    parts = set(re.findall(r"^#{2,4} (.*)$", PAGE.read_text(), re.MULTILINE))
    for program in commands.PROGRAMS:
        assert program in parts
        for name, _ in commands.read((program,)).commands:
            assert name == "help" or f"{program} {name.split(' ')[0]}" in parts, (program, name)


@pytest.mark.parametrize(
    "words", [*(("heliostat", name) for name in ASKED), *OF_PYTHON], ids=" ".join
)
def test_a_part_is_what_the_program_says(commands: Any, words: tuple[str, ...]) -> None:
    part = "".join(commands.section(words))
    assert part in PAGE.read_text(), "run .venv/bin/python xtask/commands.py"
    assert "| option |" in part


def test_help_of_both_parsers_is_read(commands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "ask", lambda words: SAID[words])
    told = commands.read(("clap",))
    assert told.about == "Shows it"
    assert told.arguments == [("<ID>", "Which one")]
    assert told.options[0] == ("--as <FORM>", "How Possible values: - table: A table - json")
    assert "How. One of: table: A table; json" in "".join(commands.section(("clap",)))
    told = commands.read(("argparse",))
    assert [name for name, _ in told.commands] == ["run", "stop (end)"]
    assert told.options == [("-n, --name NAME", "whose")]


SAID = {
    ("clap",): """\
Shows it

Usage: it show [OPTIONS] <ID>

Arguments:
  <ID>
          Which one

Options:
      --as <FORM>
          How

          Possible values:
          - table: A table
          - json

  -h, --help
          Print help
""",
    ("argparse",): """\
usage: it [-h] [-n NAME] run|stop ...

Does it.

positional arguments:
  run|stop
    run         begin
    stop (end)  end it

options:
  -h, --help            show this help message and exit
  -n NAME, --name NAME  whose
""",
    ("argparse", "run"): "usage: it run\n\nBegin.\n",
    ("argparse", "stop"): "usage: it stop\n\nEnd it.\n",
}
