"""The order of rows and joins of sides of different sizes: the same by every way there is."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ours = pytest.mark.heliostat_only("which library does the work is ours to say")

VALUES: dict[str, tuple[Any, list[Any]]] = {
    "f": (pa.float64(), [1.5, -2.0, float("nan"), 0.0, -0.0, float("inf"), None]),
    "g": (pa.float32(), [0.25, float("nan"), None]),
    "i": (pa.int16(), [1, -3, 3, None]),
    "u": (pa.uint64(), [1, 2**64 - 1, None]),
    "s": (pa.string(), ["a", "B", "é", "", "zz", None]),
    "b": (pa.bool_(), [True, False, None]),
    "d": (pa.date32(), [datetime.date(2020, 1, 1), datetime.date(1960, 1, 1), None]),
    "t": (pa.timestamp("us"), [datetime.datetime(2020, 1, 1), datetime.datetime(1960, 1, 1), None]),
    "n": (pa.null(), [None]),
    "x": (pa.binary(), [b"a", b"\x00", None]),
}


@pytest.mark.contract("F10.11")
@ours
def test_rows_are_in_the_same_order_with_and_without_polars(monkeypatch: Any) -> None:
    pytest.importorskip("polars")
    from heliostat.data import ordering

    monkeypatch.setattr(ordering, "POLARS_ROWS_MIN", 0)
    rng = random.Random(7)
    for _ in range(400):
        names = rng.sample(list(VALUES), rng.randint(1, 3))
        rows = rng.randint(0, 12)
        columns = {
            n: pa.array([rng.choice(VALUES[n][1]) for _ in range(rows)], VALUES[n][0])
            for n in names
        }
        table = pa.table({**columns, "other": pa.nulls(rows)})
        order = [(n, rng.choice(["ascending", "descending"])) for n in names]
        found = ordering.indices(table, order).tolist()
        with monkeypatch.context() as patch:
            patch.setattr(ordering, "polars", lambda: None)
            assert found == ordering.indices(table, order).tolist(), (order, table.to_pydict())


WIDTHS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize("width", WIDTHS)
@ours
def test_keys_that_are_looked_up_find_what_a_join_finds(width: str, monkeypatch: Any) -> None:
    """Numbers near each other, the least and the greatest of their type, missing ones, in pieces."""
    from heliostat.data.execute import joins

    kind = getattr(pa, width)()
    bits = kind.bit_width
    ends = (0, 2**bits - 1) if width.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    rng = random.Random(width)

    def near(low: int, high: int) -> list[int]:
        return [n for n in range(low, high + 1) if ends[0] <= n <= ends[1]]

    low, high = ends
    places = [near(-6, 9), near(low, low + 9), near(high - 9, high), [low, 1, high]]
    for values in places * 12:
        theirs = rng.sample(values, rng.randint(0, len(values)))
        pieces = [
            pa.array(
                [rng.choice([None, *values, low, high, 0]) for _ in range(rng.randint(0, 9))], kind
            )
            for _ in range(rng.randint(1, 3))
        ]
        left = pa.table({"k": pa.chunked_array(pieces, kind)})
        left = left.append_column("x", pa.array(range(len(left))))
        right = pa.table({"k": pa.array(theirs, kind), "y": pa.array(theirs, kind)})
        for how in joins.WHOLE_RIGHT:
            join = joins.Join(how, ["k"], ["k"], 2, None, None)
            found = joins.joined(left, right, join).to_pylist()
            with monkeypatch.context() as patch:
                patch.setattr(joins, "_looked_up", lambda *_: None)
                wanted = joins.joined(left, right, join).to_pylist()
            assert found == sorted(wanted, key=lambda row: row["x"])


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize("kind", [
    "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi", "left_anti",
    "right_anti",
])  # fmt: skip
@ours
def test_a_small_side_of_a_join_goes_whole_to_the_other(
    rd: Any, kind: str, monkeypatch: Any
) -> None:
    from heliostat.data.execute import joins

    rng = random.Random(3)
    large = [{"k": rng.choice([None, *range(9)]), "x": n, "c": 1} for n in range(300)]
    small = [{"k": k, "y": k * 10, "c": 2} for k in (*range(3, 12), 5)]

    def made(left: list[Any], right: list[Any]) -> list[str]:
        sides = [rd.from_items(rows, override_num_blocks=3) for rows in (left, right)]
        joined = sides[0].join(sides[1], kind, 2, on=("k",), left_suffix="_l", right_suffix="_r")
        count = joined.count()
        rows = joined.take_all()
        assert count == len(rows)
        return sorted(map(repr, rows))

    once = {row["k"]: row for row in small}  # each key once: rows are looked up
    several = [
        made(*sides) for sides in ((large, small), (small, large), (large, [*once.values()]))
    ]
    monkeypatch.setattr(joins, "WHOLE_BYTES_MAX", 0)
    assert several == [
        made(*sides) for sides in ((large, small), (small, large), (large, [*once.values()]))
    ]


@pytest.mark.contract("F10.14", "F10.20")
@ours
def test_a_read_a_join_with_little_and_what_follows_are_one_task(rd: Any, tmp_path: Any) -> None:
    for name, rows in (("large", 50_000), ("small", 10)):
        (tmp_path / name).mkdir()
        table = pa.table({"k": [n % 20 for n in range(rows)], name: list(range(rows))})
        pq.write_table(table, tmp_path / name / "a.parquet", row_group_size=10_000)
    large, small = (rd.read_parquet(str(tmp_path / name)) for name in ("large", "small"))
    made = large.join(small, "inner", 2, on=("k",))
    assert made.count() == 25_000
    assert "ReadParquet->Join(inner)[small right]->Count" in made.stats()
    rows = small.join(large, "left_anti", 2, on=("k",)).take_all()
    assert rows == []
    rows = made.filter(expr=_col("small") == 3).take(2)
    assert rows == [{"k": 3, "large": 3, "small": 3}, {"k": 3, "large": 23, "small": 3}]
    with pytest.raises(ValueError, match="suffix"):
        large.join(large.limit(3), "inner", 2, on=("k",)).take_all()


def _col(name: str) -> Any:
    from ray.data.expressions import col

    return col(name)


@pytest.mark.contract("F10.14", "F10.20")
@ours
def test_a_join_reads_the_columns_that_are_needed(
    rd: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        table = pa.table({"k": [1, 2], "v": [name, name], "w": [0, 0]})
        pq.write_table(table, tmp_path / name / "a.parquet")
    left, right = (rd.read_parquet(str(tmp_path / name)) for name in ("left", "right"))
    joined = left.join(right, "inner", 2, on=("k",), right_suffix="_r")
    made = joined.select_columns(["v_r"])
    made.explain()
    assert capsys.readouterr().out.count("ReadParquet[columns=[k, v]]") == 2
    assert made.take_all() == [{"v_r": "right"}, {"v_r": "right"}]


@pytest.mark.contract("F10.24")
@ours
def test_only_columns_with_repetitions_are_written_as_dictionaries(rd: Any, tmp_path: Any) -> None:
    rows = [{"f": n / 7, "few": n % 3, "s": f"name-{n % 5}", "l": [n]} for n in range(500)]
    for names in (["f", "few", "s"], ["f", "l"]):
        folder = tmp_path / names[-1]
        dataset = rd.from_items(rows, override_num_blocks=1).select_columns(names)
        dataset.write_parquet(str(folder))
        assert rd.read_parquet(str(folder)).take_all() == dataset.take_all()
    about = pq.ParquetFile(next((tmp_path / "s").glob("*.parquet"))).metadata.row_group(0)
    has = {about.column(i).path_in_schema: about.column(i).has_dictionary_page for i in range(3)}
    assert has == {"f": False, "few": True, "s": True}
