"""Which lines of workers the driver shows, and which it counts."""

from __future__ import annotations

import re

import pytest
from heliostat.core.driver.logs import Folder, Line


def line(pid: int, text: str, host: str = "") -> Line:
    return Line(pid, host, "f", False, text)


def shown(folder: Folder, lines: list[tuple[float, Line]]) -> list[str]:
    return [out.text for now, given in lines for out in folder.take(given, now)]


@pytest.mark.contract("F0.17")
def test_several_processes_that_say_the_same_are_folded() -> None:
    folder = Folder()
    assert shown(folder, [(0.1 * pid, line(pid, "same")) for pid in range(4)]) == ["same"]
    assert not list(folder.due(4.0))
    (late,) = folder.due(5.5)
    assert late.text.startswith("same [repeated 3x across cluster]")
    assert late.pid == 3, "the line is the latest one's"


@pytest.mark.contract("F0.17")
def test_numbers_make_no_difference() -> None:
    folder = Folder()
    assert shown(folder, [(0, line(1, "rank 1 of 4")), (0, line(2, "rank 2 of 4"))]) == [
        "rank 1 of 4"
    ]


@pytest.mark.contract("F0.17")
def test_one_process_may_repeat_itself() -> None:
    folder = Folder()
    lines = [(0.1 * i, line(1, f"step {i}")) for i in range(5)]
    assert shown(folder, lines) == [f"step {i}" for i in range(5)]
    assert not list(folder.due(60.0))


@pytest.mark.contract("F0.17")
def test_after_the_window_a_line_is_new() -> None:
    folder = Folder()
    assert shown(folder, [(0, line(1, "same"))]) == ["same"]
    assert not list(folder.due(6.0))
    assert shown(folder, [(7, line(2, "same"))]) == ["same"]


@pytest.mark.contract("F0.17")
def test_nothing_is_lost_at_the_end() -> None:
    folder = Folder()
    shown(folder, [(0, line(pid, "same")) for pid in range(3)])
    (last,) = folder.due(0.1, everything=True)
    assert "[repeated 2x across cluster]" in last.text


@pytest.mark.contract("F0.17")
def test_settings() -> None:
    lines = [(0.0, line(pid, "same")) for pid in range(3)]
    assert shown(Folder(enabled=False), lines) == ["same"] * 3
    assert shown(Folder(allow=re.compile("sa")), lines) == ["same"] * 3
    assert shown(Folder(skip=re.compile("sa")), lines) == []
    assert shown(Folder(), [(0, line(1, " ")), (0, line(2, " "))]) == [" ", " "]


def test_a_flood_of_different_lines_is_shown_and_not_remembered() -> None:
    folder = Folder()
    flood = [(0.0, line(1, "x" * i)) for i in range(1, 10_500)]
    assert len(shown(folder, flood)) == len(flood)
    assert len(folder._seen) <= 10_000, "LIMIT-1"


@pytest.mark.contract("F0.17")
def test_prefixes() -> None:
    assert line(3, "").prefix == "(f pid=3)"
    assert line(3, "", "10.0.0.2").prefix == "(f pid=3, ip=10.0.0.2)"
    assert Line(3, "", "", False, "").prefix == "(pid=3)"
