"""Every program of ``programs`` gives its answer.

A file's programs run in one process, with one cluster where they can.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.helpers import harness
from tests.strangers import shelf
from tests.strangers.__main__ import verdict

pytestmark = pytest.mark.timeout(shelf.LIMIT_S + 60)

ALL = [entry for theme in shelf.themes() for entry in shelf.entries(theme)]


@cache
def results(theme: str) -> tuple[dict[str, Any], str]:
    return shelf.run(theme)


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: f"{entry.theme}-{entry.name}")
def test_a_strangers_program(entry: shelf.Entry) -> None:
    rows, printed = results(entry.theme)
    kind, text = verdict(entry, rows.get(entry.name), not harness.IS_HELIOSTAT)
    if kind == "skipped":
        pytest.skip(text)
    if kind == "expected":
        pytest.xfail(text)
    assert kind == "right", f"{entry.source}: {text}\n--- printed\n{printed[-6000:]}"


def test_no_program_is_there_twice() -> None:
    names = [entry.name for entry in ALL]
    assert sorted(set(names)) == sorted(names)
