"""What the README shows runs as it stands there and prints what its comments say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.heliostat_only("it is our README")
@pytest.mark.parametrize("program", PROGRAMS, ids=["tasks", "training"])
def test_a_program(run_driver: Any, tmp_path: Path, program: str) -> None:
    if "torch" in program:
        pytest.importorskip("torch")
    # Runs are kept below HOME unless a script says otherwise; the token is there, too.
    program = program.replace('name="first"', f'name="first", storage_path={str(tmp_path)!r}')
    done = run_driver(program)
    done.check()
    said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert said
    assert done.stdout.splitlines()[-len(said) :] == said


def test_links_and_commands_lead_somewhere() -> None:
    root = Path(__file__).parents[2]
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / link).exists(), link
    tasks = re.search(r"^TASKS := (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert tasks is not None
    for task in re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE):
        assert task in tasks.group(1).split(), task
