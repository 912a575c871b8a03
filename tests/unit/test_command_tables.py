"""Lines of the commands written in Python: as wide as a terminal, whole for a file or a pipe."""

from __future__ import annotations

from collections import Counter

import pytest

pytestmark = [
    pytest.mark.heliostat_only("the modules are Heliostat's own"),
    pytest.mark.contract("F6.17"),
]

pytest.importorskip("heliostat", reason="Heliostat's own modules")

from heliostat.util.commands import shortened, table, width_of  # noqa: E402
from heliostat.util.state.logs_command import listing  # noqa: E402
from heliostat.util.state.top_lines import (  # noqa: E402
    SORTS,
    Calls,
    Line,
    Look,
    Node,
    View,
    lines,
    summary,
)

NAMES = (
    "f",
    "A.method_with_a_name_that_is_longer_than_a_line_of_a_terminal_of_eighty",
    "évaluer",
    "訓練する関数",
)
WIDTHS = (1, 4, 20, 40, 79, 80, 100, 160, 300)


@pytest.mark.parametrize("text", NAMES)
def test_a_text_is_cut_in_its_middle(text: str) -> None:
    for width in range(width_of(text) + 3):
        cut = shortened(text, width)
        assert width_of(cut) <= width
        assert (cut == text) == (width >= width_of(text))
    if width_of(text) > 20:
        assert shortened(text, 21)[0] == text[0]
        assert shortened(text, 21)[-1] == text[-1]


def test_signs_of_two_columns() -> None:
    assert width_of("訓練") == 4
    assert width_of("e\u0301") == 1
    assert shortened("訓練する関数", 5) == "訓…数"


def test_a_table_fits_and_is_whole_without_a_width() -> None:
    rows = [["name", "n", "id"], *([name, "10", "0123456789abcdef" * 4] for name in NAMES)]
    whole = table(rows)
    assert [line.split()[0] for line in whole[1:]] == list(NAMES)
    assert all(line.endswith("f") for line in whole[1:])
    assert len({width_of(line) for line in whole[1:]}) == 1
    for width in WIDTHS:
        shown = table(rows, width, gives_way=(0, 2), to_right=(1,))
        assert all(width_of(line) <= width for line in shown), width
    # Both long columns are cut alike, and the other is whole.
    shown = table(rows, 60, gives_way=(0, 2), to_right=(1,))
    assert [line.split()[1] for line in shown[1:]] == ["10"] * len(NAMES)
    assert table(rows, 300, gives_way=(0, 2)) == whole


def test_a_listing_of_logs() -> None:
    name = f"python-core-worker-{'0123456789abcdef' * 4}_31545.log"
    actor = {"actor_id": "ab" * 16, "actor": "Counter", "actor_name": "kept"}
    file = {"size": 12345, "modified_ms": 0, "node_ip": "10.0.0.1", "node_id": "cd" * 14}
    files = [{**file, "name": name, "owner": actor}, {**file, "name": "node.log", "owner": None}]
    whole = listing(files, None)
    assert whole[1].endswith(f"  {name}  actor Counter 'kept' {'ab' * 16}")
    assert len(whole) == 3
    for width in (80, 100, 160):
        cut = listing(files, width)
        assert all(width_of(line) <= width for line in cut)
        assert "_31545.log" in cut[1]
        assert ("--wide" in cut[-1]) == ("…" in cut[1])
        assert cut[1].endswith("actor 'kept'")
    assert name in listing(files, 160)[1]


def look() -> Look:
    calls = [
        Calls(name, running=n, waiting=3 - n, finished=n * 7, rate=1.0)
        for n, name in enumerate(NAMES)
    ]
    calls[0].failed = 2
    node = Node("a-machine-with-a-name.that.is.long", True, {"CPU": (2, 2), "memory": (0, 2**34)})
    return Look(0.0, [node], 1, calls, {name: Counter(ALIVE=3, DEAD=1) for name in NAMES}, 2)


def text(line: Line) -> str:
    return "".join(part for part, _ in line)


@pytest.mark.parametrize("width", WIDTHS)
def test_top_fits_into_any_terminal(width: int) -> None:
    shown = [*summary(look(), width, "every 2 s"), *lines(look(), width, View())]
    assert all(width_of(text(line)) <= width for line in shown)


def test_top_is_whole_in_a_pipe() -> None:
    shown = [text(line) for line in [*summary(look(), None), *lines(look(), None)]]
    for name in NAMES:
        assert sum(line.split()[:1] == [name] for line in shown) == 2, name
    assert "1 dead" in shown[0]
    assert "2 processes did not answer" in shown[0]
    assert "6 running  6 waiting  42 finished  2 failed  4 per second" in shown[1]


def test_top_leaves_columns_out_before_names() -> None:
    heads = {
        width: next(text(line) for line in lines(look(), width) if "function" in text(line))
        for width in (80, 50, 30)
    }
    assert "per second" in heads[80]
    assert "per second" not in heads[50]
    assert "running" in heads[30]


@pytest.mark.parametrize(
    ("sort", "first"),
    [("running", NAMES[3]), ("waiting", NAMES[0]), ("failed", NAMES[0]), ("function", NAMES[1])],
)
def test_top_is_sorted_by_a_column(sort: str, first: str) -> None:
    def order(view: View) -> list[str]:
        shown = [text(line) for line in lines(look(), None, view)]
        begin = shown.index("Calls")
        assert f"{sort} {'▲' if view.is_reversed else '▼'}" in shown[begin + 1]
        return [line.split()[0] for line in shown[begin + 2 : begin + 2 + len(NAMES)]]

    assert sort in SORTS
    assert order(View(sort))[0] == first
    assert order(View(sort, is_reversed=True)) == order(View(sort))[::-1]


def test_what_is_used_up_has_a_colour() -> None:
    node = next(line for line in lines(look(), 100) if "a-machine" in text(line))
    styles = [style for part, style in node if "█" in part or "░" in part]
    assert styles == ["hot", "good"]
