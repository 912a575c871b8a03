"""Expressions of columns: their values are those that Ray 2.60 gives."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import ray

NUMBERS = [{"i": 7, "f": 2.5}, {"i": -7, "f": -0.5}, {"i": None, "f": None}]


def values(rd: Any, rows: list[dict[str, Any]] | pa.Table, **expressions: Any) -> dict[str, Any]:
    """What each of the expressions is for the rows."""
    table = pa.Table.from_pylist(rows) if isinstance(rows, list) else rows
    found = rd.from_arrow(table).with_columns(expressions).take_all()
    return {name: [row[name] for row in found] for name in expressions}


@pytest.mark.contract("F10.09")
def test_expressions(rd: Any) -> None:
    from ray.data.expressions import col

    dataset = rd.from_items([{"n": 1, "s": "ab"}, {"n": None, "s": "b"}, {"n": 7, "s": "abc"}])

    def kept(expression: Any) -> list[str]:
        return [row["s"] for row in dataset.filter(expr=expression).take_all()]

    assert kept(col("n") > 1) == ["abc"]
    assert kept((col("n") >= 1) & (col("s") == "ab")) == ["ab"]
    assert kept((col("n") == 7) | col("n").is_null()) == ["b", "abc"]
    assert kept(~col("s").is_in(["ab", "b"])) == ["abc"]
    assert kept(col("s").str.starts_with("ab")) == ["ab", "abc"]
    assert kept(col("s").str.len() == 1) == ["b"]
    assert kept(col("n") % 2 == 1) == ["ab", "abc"]


@pytest.mark.contract("F10.09")
def test_expressions_as_text(rd: Any) -> None:
    with pytest.warns(DeprecationWarning, match="String expressions"):
        dataset = rd.range(10).filter(expr="id > 3 and id < 7")
    assert [row["id"] for row in dataset.take_all()] == [4, 5, 6]


@pytest.mark.contract("F10.09")
@pytest.mark.filterwarnings("ignore:String expressions")
def test_functions_in_expressions_as_text(rd: Any) -> None:
    rows = [{"n": 1.0, "s": "a"}, {"n": None, "s": "b"}, {"n": 3.0, "s": None}]
    dataset = rd.from_items(rows, override_num_blocks=1)

    def kept(text: str) -> list[Any]:
        return [(row["n"], row["s"]) for row in dataset.filter(expr=text).take_all()]

    first, second, third = [(row["n"], row["s"]) for row in rows]
    assert kept("is_null(n)") == [second]
    assert kept("is_valid(n) and is_not_null(s)") == [first]
    assert kept("not is_null(s)") == [first, second]
    assert kept("is_in(s, ['a', 'z']) or n > 2") == [first, third]
    for wrong in (
        "is_null()",
        "is_null(n, s)",
        "is_in(s)",
        "is_valid(n, s)",
        "is_null(n) and upper(s) == 'A'",
        "random() > 0.5",
    ):
        with pytest.raises(ValueError, match=r"\(\)"):
            dataset.filter(expr=wrong)


@pytest.mark.contract("F10.09")
@pytest.mark.filterwarnings("ignore:String expressions")
def test_columns_with_dots_in_expressions_as_text(rd: Any) -> None:
    dataset = rd.from_items([{"user.age": n} for n in range(4)])
    kept = dataset.filter(expr="user.age > 1 and user.age in [2, 7]").take_all()
    assert kept == [{"user.age": 2}]


@pytest.mark.contract("F10.09")
def test_functions_in_expressions(rd: Any) -> None:
    from ray.data.datatype import DataType
    from ray.data.expressions import col, udf

    @udf(return_dtype=DataType.int64())
    def plus_one(values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.compute.add(values, 1)

    made = rd.range(3).with_column("y", plus_one(col("id")))
    assert [row["y"] for row in made.take_all()] == [1, 2, 3]


@pytest.mark.contract("F10.09", "F10.12")
def test_expressions_that_make_values(rd: Any, tmp_path: Any) -> None:
    from ray.data import expressions as ex

    dataset = rd.range(6, override_num_blocks=3)

    def values(expression: Any) -> list[Any]:
        return [row["m"] for row in dataset.with_column("m", expression).take_all()]

    assert len(set(values(ex.monotonically_increasing_id()))) == 6
    assert len(set(values(ex.uuid()))) == 6
    assert all(0 <= value < 1 for value in values(ex.random()))
    (tmp_path / "x").write_bytes(b"content")
    files = rd.from_items([{"uri": str(tmp_path / "x")}])
    assert files.with_column("b", ex.download("uri")).take(1)[0]["b"] == b"content"
    grouped = rd.from_items([{"k": 1, "v": 2}, {"k": 2, "v": 4}]).groupby("k")
    rows = grouped.with_column("m", ex.col("v") * 2).take_all()
    assert sorted((row["k"], row["m"]) for row in rows) == [(1, 4), (2, 8)]


@pytest.mark.contract("F10.09")
def test_arithmetic(rd: Any) -> None:
    from ray.data.datatype import DataType
    from ray.data.expressions import col

    i, f = col("i"), col("f")
    assert values(
        rd, NUMBERS,
        add=i + 1, after=1 - i, mixed=i - f, quotient=i / 2, inverse=14 / i, rest=f % 2,
        floor=f // 2, absolute=i.abs(), negative=f.negate(), sign=f.sign(), half=f.round(),
        cut=f.trunc(), up=f.ceil(), down=f.floor(), square=i.power(2), none=i + None,
        whole=f.cast(DataType.int64(), safe=False),
    ) == {
        "add": [8, -6, None], "after": [-6, 8, None], "mixed": [4.5, -6.5, None],
        "quotient": [3, -3, None], "inverse": [2, -2, None], "rest": [0.5, 1.5, None],
        "floor": [1, -1, None], "absolute": [7, 7, None], "negative": [-2.5, 0.5, None],
        "sign": [1, -1, None], "half": [2, 0, None], "cut": [2, 0, None], "up": [3, 0, None],
        "down": [2, -1, None], "square": [49, 49, None], "none": [None] * 3,
        "whole": [2, 0, None],
    }  # fmt: skip


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only("Ray cuts quotients of negative integers before it rounds them down")
def test_floor_division_is_that_of_python(rd: Any) -> None:
    from ray.data.expressions import col

    rows = [{"a": a, "b": b} for a in (7, -7, 6, 0) for b in (2, -2, 3, -3)]
    found = values(rd, rows, floor=col("a") // col("b"), rest=col("a") % col("b"))
    assert found["floor"] == [row["a"] // row["b"] for row in rows]
    assert found["rest"] == [row["a"] % row["b"] for row in rows]


@pytest.mark.contract("F10.09")
def test_unknown_values_in_conditions(rd: Any) -> None:
    from ray.data.expressions import col

    i = col("i")
    assert values(
        rd, NUMBERS,
        greater=i > 0, either=(i > 0) | i.is_null(), both=(i < 0) & (col("f") > 1), member=i.is_in([7, 8]),
        null=i.is_in([7, None]), absent=i.not_in([7]), nothing=i.is_in([]), there=i.is_not_null(),
    ) == {
        "greater": [True, False, None], "either": [True, False, True], "both": [False, False, None],
        "member": [True, False, False], "null": [True, False, True], "absent": [False, True, True],
        "nothing": [False] * 3, "there": [True, True, False],
    }  # fmt: skip


@pytest.mark.contract("F10.09")
def test_functions_of_texts(rd: Any) -> None:
    from ray.data.expressions import col

    s = col("s").str
    rows = [{"s": "Hello World"}, {"s": " ab1 "}, {"s": None}]
    assert values(
        rd, rows,
        len=s.len(), strip=s.strip(), some=s.strip("H1 "), find=s.find("o"), count=s.count("l"),
        any_case=s.contains("WORLD", ignore_case=True), like=s.match("%W%"), cut=s.slice(1, 4),
        once=s.replace("l", "L", max_replacements=1), regex=s.replace_regex("[lo]+", "_"),
        over=s.replace_slice(0, 2, "__"), split=s.split(" "), words=s.split_whitespace(),
        first=s.extract("(?P<first>[A-Za-z])"), left=s.pad(6, "*", "left"), both=s.pad(6, side="both"),
        twice=s.repeat(2), swap=s.swapcase(), lower=s.is_lower(), plus=col("s") + "!",
    ) == {
        "len": [11, 5, None], "strip": ["Hello World", "ab1", None],
        "some": ["ello World", "ab", None], "find": [4, -1, None], "count": [3, 0, None],
        "any_case": [True, False, None], "like": [True, False, None], "cut": ["ell", "ab1", None],
        "once": ["HeLlo World", " ab1 ", None], "regex": ["He_ W_r_d", " ab1 ", None],
        "over": ["__llo World", "__b1 ", None], "split": [["Hello", "World"], ["", "ab1", ""], None],
        "words": [["Hello", "World"], ["", "ab1", ""], None], "first": [{"first": "H"}, {"first": "a"}, None],
        "left": ["Hello World", "* ab1 ", None], "both": ["Hello World", " ab1  ", None],
        "twice": ["Hello WorldHello World", " ab1  ab1 ", None], "swap": ["hELLO wORLD", " AB1 ", None],
        "lower": [False, True, None], "plus": ["Hello World!", " ab1 !", None],
    }  # fmt: skip


@pytest.mark.contract("F10.09")
def test_functions_of_times(rd: Any) -> None:
    from ray.data.expressions import col

    moment = datetime.datetime(2026, 2, 3, 4, 35, 46)
    t = col("t").dt
    assert values(
        rd, pa.table({"t": pa.array([moment, None], pa.timestamp("us"))}),
        year=t.year(), month=t.month(), day=t.day(), hour=t.hour(), minute=t.minute(),
        second=t.second(), text=t.strftime("%Y/%m/%d"), ceil=t.ceil("hour"), floor=t.floor("day"),
        round=t.round("hour"),
    ) == {
        "year": [2026, None], "month": [2, None], "day": [3, None], "hour": [4, None],
        "minute": [35, None], "second": [46, None], "text": ["2026/02/03", None],
        "ceil": [datetime.datetime(2026, 2, 3, 5), None],
        "floor": [datetime.datetime(2026, 2, 3), None],
        "round": [datetime.datetime(2026, 2, 3, 5), None],
    }  # fmt: skip


@pytest.mark.contract("F10.09")
def test_functions_of_lists_and_structs(rd: Any) -> None:
    from ray.data.expressions import col

    one, struct = col("l").list, col("s").struct
    rows = [
        {"l": [3, None, 1], "n": [[1], [2, 3]], "s": {"a": 1, "b": {"c": "x"}}},
        {"l": [5, 6, 7], "n": [], "s": {"a": 2, "b": None}},
        {"l": None, "n": None, "s": None},
    ]
    assert values(
        rd, rows,
        len=one.len(), flat=col("n").list.flatten(), sort=one.sort(), get=one.get(1), first=one[0],
        cut=one[1:3], step=one.slice(0, 3, 2), down=one.sort("descending", "at_start"),
        field=struct.field("a"), deep=struct["b"].struct["c"], number=struct.field_by_index(0),
    ) == {
        "len": [3, 3, None], "flat": [[1, 2, 3], [], None], "sort": [[1, 3, None], [5, 6, 7], None],
        "get": [None, 6, None], "first": [3, 5, None], "cut": [[None, 1], [6, 7], None],
        "step": [[3, 1], [5, 7], None], "down": [[None, 3, 1], [7, 6, 5], None],
        "field": [1, 2, None], "deep": ["x", None, None], "number": [1, 2, None],
    }  # fmt: skip
    with pytest.raises(ValueError, match="order"):
        one.sort("up")


@pytest.mark.contract("F10.09")
def test_maps_and_lists_of_a_fixed_length(rd: Any) -> None:
    from ray.data.expressions import col

    pairs = pa.array([[("a", 1), ("b", 2)], [], None], pa.map_(pa.string(), pa.int64()))
    fixed = pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2))
    m, a = col("m").map, col("a").arr
    found = values(
        rd, pa.table({"m": pairs, "a": fixed}), keys=m.keys(), values=m.values(), lists=a.to_list()
    )
    assert [None if v is None else list(v) for v in found["lists"]] == [[1, 2], [3, 4], None]
    assert found["keys"] == [["a", "b"], [], None]
    assert found["values"] == [[1, 2], [], None]
    for wrong in (col("m").arr.to_list().struct["zz"], col("n").map.keys(), col("n").arr.to_list()):
        with pytest.raises(ray.exceptions.RayTaskError):
            rd.from_items([{"n": 1, "m": 2}]).with_column("x", wrong).take_all()


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only("pyarrow, and so Ray, has no negative positions")
def test_positions_from_the_end_of_lists(rd: Any) -> None:
    from ray.data.expressions import col

    rows = [{"l": [1, 2]}, {"l": [3]}, {"l": None}]
    assert values(rd, rows, last=col("l").list[-1]) == {"last": [2, 3, None]}
    with pytest.raises(ray.exceptions.RayTaskError, match="out of bounds"):
        values(rd, rows, last=col("l").list.get(-2))


@pytest.mark.contract("F10.08", "F10.09")
def test_columns_of_a_struct(rd: Any) -> None:
    from ray.data.datatype import DataType
    from ray.data.expressions import col, udf, unnest

    kind = DataType.struct([("sum", DataType.int64()), ("product", DataType.int64())])

    @udf(return_dtype=kind)
    def both(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.Array:
        parts = [pc.add(a, b).combine_chunks(), pc.multiply(a, b).combine_chunks()]
        return pa.StructArray.from_arrays(parts, ["sum", "product"])

    dataset = rd.from_items([{"a": 2, "b": 10}])
    parts = unnest(both(col("a"), col("b")))
    made = dataset.with_columns(parts, {"c": col("a") * 2}).take(1)[0]
    assert list(made.items()) == [("a", 2), ("b", 10), ("sum", 12), ("product", 20), ("c", 4)]
    assert dataset.with_columns({"sum": col("a")}, parts).take(1)[0]["sum"] == 12
    nested = rd.from_items([{"x": 9, "s": {"x": 1, "y": {"z": 2}}}])
    assert nested.with_columns(unnest(col("s"))).take(1) == [
        {"x": 1, "s": {"x": 1, "y": {"z": 2}}, "y": {"z": 2}}
    ]
    for wrong in (
        lambda: unnest(parts), lambda: unnest(3), lambda: parts.alias("x"),
        lambda: dataset.with_column("x", parts), lambda: dataset.with_columns({"x": parts}),
        lambda: dataset.with_columns(unnest(col("a"))), lambda: dataset.with_columns([col("a")]),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.contract("F10.08", "F10.09")
def test_expressions_see_the_columns_as_they_came(rd: Any) -> None:
    from ray.data.expressions import col

    dataset = rd.from_items([{"a": 1, "b": 2}])
    assert dataset.with_columns({"a": col("b"), "b": col("a")}).take(1) == [{"a": 2, "b": 1}]
    assert dataset.with_columns({}).take(1) == dataset.with_columns().take(1) == [{"a": 1, "b": 2}]
    with pytest.raises(ray.exceptions.UserCodeException, match="c"):
        dataset.with_columns({"c": col("a"), "d": col("c")}).take_all()


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only("on Ray the whole of the columns has no value")
def test_all_columns_as_one(rd: Any) -> None:
    from ray.data.expressions import star

    made = rd.from_items([{"a": 1, "b": "x"}]).with_column("all", star())
    assert made.take(1) == [{"a": 1, "b": "x", "all": {"a": 1, "b": "x"}}]


@pytest.mark.contract("F10.09")
def test_classes_in_expressions_run_in_actors(rd: Any) -> None:
    from ray.data.datatype import DataType
    from ray.data.expressions import col, udf

    @udf(return_dtype=DataType.int64())
    class Plus:
        def __init__(self, n: int) -> None:
            self.n, self.actor = n, ray.get_runtime_context().get_actor_id()

        def __call__(self, x: pa.ChunkedArray) -> pa.ChunkedArray:
            assert self.actor is not None
            return pc.add(x, self.n)

    five = Plus(5)
    made = rd.range(3).with_column("y", five(col("id")) * 2)
    assert [row["y"] for row in made.take_all()] == [10, 12, 14]
    pool = rd.range(3).with_column("y", five(col("id")), compute=rd.ActorPoolStrategy(size=1))
    assert sorted(row["y"] for row in pool.take_all()) == [5, 6, 7]


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only("Ray's filters run in tasks, which have no instance of the class")
def test_classes_in_conditions(rd: Any) -> None:
    from ray.data.datatype import DataType
    from ray.data.expressions import col, udf

    @udf(return_dtype=DataType.bool())
    class Above:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: pa.ChunkedArray) -> pa.ChunkedArray:
            return pc.greater(x, self.n)

    kept = rd.range(3).filter(expr=Above(1)(col("id")))
    assert [row["id"] for row in kept.take_all()] == [2]


@pytest.mark.contract("F10.09")
def test_random_numbers_of_each_execution(rd: Any) -> None:
    from ray.data.expressions import random

    def numbers(**options: Any) -> list[Any]:
        made = rd.range(6, override_num_blocks=2).with_column("r", random(seed=3, **options))
        return [[row["r"] for row in made.take_all()] for _ in range(2)]

    once, again = numbers(reseed_after_execution=False)
    assert once == again
    assert len(set(once)) == 6
    once, again = numbers()
    assert once != again


@pytest.mark.contract("F10.09")
def test_row_numbers_of_a_task_of_several_blocks(rd: Any) -> None:
    """A filter's table is cut in three within one task: numbers go on, they do not begin again."""
    from ray.data.expressions import monotonically_increasing_id, random

    pieces = rd.range(30, override_num_blocks=1).map_batches(lambda b: b, batch_size=10)
    made = pieces.with_columns({"n": monotonically_increasing_id(), "r": random(seed=1)})
    rows = made.take_all()
    assert [row["n"] for row in rows] == list(range(30))
    assert len({row["r"] for row in rows}) == 30


@pytest.mark.contract("F10.09")
def test_wrong_functions_of_columns(rd: Any) -> None:
    from ray.data.expressions import col

    with pytest.raises(ray.exceptions.UserCodeException, match="zz"):
        rd.range(3).with_column("x", col("zz")).take_all()
    with pytest.raises((TypeError, AttributeError)):
        rd.range(3).with_column("x", 3)


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only("Ray takes the first rows of what is too long")
def test_functions_that_return_too_few_values(rd: Any) -> None:
    from ray.data.expressions import col, udf

    short = udf(return_dtype=pa.int64())(lambda x: [1])
    with pytest.raises(ray.exceptions.RayTaskError, match="one for each"):
        rd.range(3, override_num_blocks=1).with_column("x", short(col("id"))).take_all()
    with pytest.raises(TypeError, match="truth value"):
        bool(col("id") > 1)
    with pytest.raises(TypeError, match="one truth value a row"):
        rd.range(3).filter(expr=3)


@pytest.mark.contract("F10.09")
def test_expressions_of_pyarrow() -> None:
    import pyarrow.dataset as pds
    from ray.data.datatype import DataType
    from ray.data.expressions import col, lit, random, star, udf

    table = pa.table({"i": [7, -7, None, 4], "s": ["a", "b", "c", None]})

    def kept(expression: Any) -> list[int]:
        made = expression.to_pyarrow()
        assert isinstance(made, pc.Expression)
        return pds.dataset(table).to_table(filter=made).column("i").to_pylist()

    assert kept(col("i") > 4) == [7]
    assert kept((1 - col("i") == -6) | (col("i") // 2 == -4)) == [7, -7]
    assert kept(col("i") % 2 == 1) == [7, -7]
    assert kept(~col("s").is_in(["a", "c"]) & col("i").is_not_null()) == [-7, 4]
    assert kept(col("s").is_in([])) == []
    assert kept("x" + col("s") + "y" == "xby") == [-7]
    assert kept(col("s").str.upper() == "A") == [7]
    assert kept(col("i").cast(DataType.string()) == "4") == [4]
    assert kept(lit(True)) == [7, -7, None, 4]

    @udf(return_dtype=DataType.int64())
    def same(values: Any) -> Any:
        return values

    for foreign in (same(col("i")), random(), star(), col("i") + random()):
        with pytest.raises(TypeError, match="pyarrow"):
            foreign.to_pyarrow()


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only("what a plan asks of an expression is ours")
def test_expressions_can_be_looked_into() -> None:
    from ray.data.datatype import DataType
    from ray.data.expressions import col, lit, random, star, udf

    condition = (col("a") + 1 > col("b")) & col("s").str.starts_with("x")
    assert condition.columns() == {"a", "b", "s"}
    assert lit(3).columns() == frozenset()
    assert star().columns() is None
    assert condition.movable
    same = udf(return_dtype=DataType.int64())(lambda values: values)
    for foreign in (random(), star(), same(col("a")) + 1):
        assert not foreign.movable
    assert condition.structurally_equals((col("a") + 1 > col("b")) & col("s").str.starts_with("x"))
    for other in (
        col("a"),
        (col("a") + 2 > col("b")) & col("s").str.starts_with("x"),
        condition & True,
    ):
        assert not condition.structurally_equals(other)
    moved = condition.replaced({"a": col("z") * 2})
    assert repr(moved) == "(((col('z') * 2) + 1) > col('b')) & col('s').str.starts_with('x')"
    assert repr((col("a") > 1).is_null()) == "(col('a') > 1).is_null()"
    table = pa.table({"z": [1, 5], "b": [3, 3], "s": ["xy", "xz"]})
    assert moved.column(table).to_pylist() == [False, True]
    called = same(col("a")).replaced({"a": col("z")})
    assert called.column(table).to_pylist() == [1, 5]


@pytest.mark.contract("F10.08", "F10.09")
@pytest.mark.heliostat_only("Ray names the columns that there are, not the nearest ones")
def test_a_column_that_is_not_there_is_named_with_the_nearest(rd: Any) -> None:
    from ray.data.expressions import col

    dataset = rd.from_items([{"price": 1.0, "amount": 2}])
    for wrong in (
        lambda: dataset.filter(expr=col("prise") > 1).take_all(),
        lambda: dataset.with_column("x", col("prise")).take_all(),
        lambda: dataset.select_columns(["prise"]).take_all(),
        lambda: dataset.drop_columns(["prise"]).take_all(),
        lambda: dataset.rename_columns({"prise": "p"}).take_all(),
        lambda: dataset.sort("prise").take_all(),
        lambda: dataset.groupby("prise").count().take_all(),
        lambda: dataset.sum("prise"),
        lambda: dataset.join(dataset, "inner", 1, on=("prise",)).take_all(),
    ):
        with pytest.raises(Exception, match=r"no column 'prise' \(did you mean 'price'\?\)"):
            wrong()


@pytest.mark.contract("F10.09")
def test_the_nodes_of_expressions() -> None:
    from ray.data import expressions as nodes
    from ray.data.expressions import Operation, col

    both = (col("a") + 1 > 2) & ~col("b").is_null()
    assert isinstance(both, nodes.BinaryExpr)
    assert (both.op, type(both.left), type(both.right)) == (
        Operation.AND,
        nodes.BinaryExpr,
        nodes.UnaryExpr,
    )
    assert both.left.op is Operation.GT
    assert both.right.op is Operation.NOT
    assert both.right.operand.op is Operation.IS_NULL
    assert isinstance(both.left.left.left, nodes.ColumnExpr)
    assert isinstance(both.left.right, nodes.LiteralExpr)
    assert both.left.right.value == 2
    made = nodes.BinaryExpr(
        Operation.AND, col("a") + 1 > 2, nodes.UnaryExpr(Operation.NOT, col("b").is_null())
    )
    assert made.structurally_equals(both)
    among = col("a").is_in([1, 2])
    assert (among.op, among.right.value) == (Operation.IN, [1, 2])
    named = col("a").alias("b")
    assert isinstance(named, nodes.AliasExpr)
    assert named.expr.name == "a"
    for one, kind in (
        (nodes.star(), nodes.StarExpr),
        (nodes.unnest(col("a")), nodes.UnnestExpr),
        (nodes.uuid(), nodes.UUIDExpr),
        (nodes.random(), nodes.RandomExpr),
        (nodes.monotonically_increasing_id(), nodes.MonotonicallyIncreasingIdExpr),
        (nodes.download("a"), nodes.DownloadExpr),
    ):
        assert isinstance(one, kind)
    assert [(o.name, o.value) for o in Operation][:3] == [
        ("ADD", "add"),
        ("SUB", "sub"),
        ("MUL", "mul"),
    ]


@pytest.mark.heliostat_only("Ray makes such expressions and fails where they are evaluated")
def test_operations_with_other_operands_are_refused() -> None:
    from ray.data.expressions import BinaryExpr, Operation, UnaryExpr, col

    with pytest.raises(TypeError, match="has not two operands"):
        BinaryExpr(Operation.NOT, col("a"), col("b"))
    with pytest.raises(TypeError, match="has not one operand"):
        UnaryExpr(Operation.ADD, col("a"))
    with pytest.raises(TypeError, match="a literal of one"):
        BinaryExpr(Operation.IN, col("a"), col("b"))
