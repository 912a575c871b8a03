"""F10: datasets. Ray needs the packages ``polars`` (joins) and ``datasketches`` (summaries) for these."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray.data
from kit import outcome, snippet
from ray.data.datatype import DataType
from ray.data.expressions import col, lit, star, udf, unnest

ray.data.DataContext.get_current().enable_progress_bars = False

NUMBERS = [{"i": 7, "f": 2.5, "b": True}, {"i": -7, "f": -0.5, "b": False}, {"i": None, "f": None}]
TEXTS = [{"s": "Hello World"}, {"s": " ab1 "}, {"s": ""}, {"s": None}, {"s": "É€x"}]


def values(rows: list[dict[str, Any]], expression: Any) -> Any:
    """What the expression is for each of the rows, which lie in one block."""

    def made() -> list[Any]:
        dataset = ray.data.from_items(rows, override_num_blocks=1)
        return [readable(row["made"]) for row in dataset.with_column("made", expression).take_all()]

    return outcome(made)


def readable(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return readable(value.tolist())
    if isinstance(value, list):
        return [readable(part) for part in value]
    if isinstance(value, dict):
        return {key: readable(part) for key, part in value.items()}
    if isinstance(value, float):
        return "nan" if value != value else round(value, 9)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def of_table(table: Any, expression: Any) -> Any:
    """What the expression is for the rows of an Arrow table."""

    def made() -> Any:
        dataset = ray.data.from_arrow(table).with_column("made", expression)
        return [readable(row["made"]) for row in dataset.take_all()]

    return outcome(made)


def each(rows: list[dict[str, Any]], **expressions: Any) -> dict[str, Any]:
    return {name: values(rows, expression) for name, expression in expressions.items()}


def rows_of(dataset: Any) -> list[Any]:
    made = [readable(dict(row)) for row in dataset.take_all()]
    return sorted(made, key=lambda row: repr(sorted(row.items())))


@snippet("F10.09", limit_s=300)
def arithmetic() -> Any:
    i, f = col("i"), col("f")
    return each(
        NUMBERS,
        add=i + 1, radd=1 + i, sub=i - f, rsub=1 - i, mul=i * 2, rmul=2 * f, div=i / 2, rdiv=14 / i,
        floor=i // 2, floor_f=f // 2, rfloor=15 // i, mod=i % 3, mod_f=f % 2, rmod=5 % i,
        div_zero=i / 0, text=col("b") == lit(True), null=i + None,
    )  # fmt: skip


@snippet("F10.09", limit_s=300)
def comparisons() -> Any:
    i, f, b = col("i"), col("f"), col("b")
    return each(
        NUMBERS,
        gt=i > 0, ge=i >= 7, lt=f < 0, le=f <= 2.5, eq=i == 7, ne=i != 7,
        both=(i > 0) & b, either=(i > 0) | b, neither=~b,
        null=i.is_null(), there=i.is_not_null(), member=i.is_in([7, 8]), absent=i.not_in([7, 8]),
        member_null=i.is_in([7, None]), none_of=i.is_in([]),
    )  # fmt: skip


@snippet("F10.09", limit_s=300)
def mathematics() -> Any:
    i, f = col("i"), col("f")
    return each(
        NUMBERS,
        abs=i.abs(), negate=f.negate(), sign=f.sign(), ceil=f.ceil(), floor=f.floor(),
        round=f.round(), trunc=f.trunc(), power=i.power(2), power_f=f.power(2), exp=f.exp(),
        ln=f.ln(), log2=f.log2(), log10=f.log10(), sin=f.sin(), cos=f.cos(), tan=f.tan(),
        asin=f.asin(), acos=f.acos(), atan=f.atan(), cast=i.cast(DataType.float64()),
        unsafe=f.cast(DataType.int64(), safe=False), lossy=f.cast(DataType.int64()),
        text=i.cast(DataType.string()),
    )  # fmt: skip


@snippet("F10.09", limit_s=300)
def texts() -> Any:
    s = col("s").str
    return each(
        TEXTS,
        len=s.len(), byte_len=s.byte_len(), upper=s.upper(), lower=s.lower(),
        capitalize=s.capitalize(), title=s.title(), swapcase=s.swapcase(), reverse=s.reverse(),
        is_alnum=s.is_alnum(), is_alpha=s.is_alpha(), is_ascii=s.is_ascii(),
        is_decimal=s.is_decimal(), is_digit=s.is_digit(), is_lower=s.is_lower(),
        is_numeric=s.is_numeric(), is_printable=s.is_printable(), is_space=s.is_space(),
        is_title=s.is_title(), is_upper=s.is_upper(),
        strip=s.strip(), lstrip=s.lstrip(), rstrip=s.rstrip("d "), strip_some=s.strip("H1 "),
        starts=s.starts_with("He"), ends=s.ends_with("ld"), contains=s.contains("o"),
        contains_any_case=s.contains("WORLD", ignore_case=True), match=s.match("%W%"),
        match_regex=s.match_regex("[0-9]"), find=s.find("o"), find_regex=s.find_regex("[a-z]"),
        count=s.count("l"), count_regex=s.count_regex("[lo]"), replace=s.replace("l", "L"),
        replace_once=s.replace("l", "L", max_replacements=1),
        replace_regex=s.replace_regex("[lo]+", "_"), replace_slice=s.replace_slice(0, 2, "__"),
        slice=s.slice(1, 4), slice_step=s.slice(start=0, stop=6, step=2), split=s.split(" "),
        split_regex=s.split_regex("[ o]"), split_whitespace=s.split_whitespace(),
        extract=s.extract("(?P<first>[A-Za-z])"), pad=s.pad(6, "*"), pad_left=s.pad(6, "*", "left"),
        pad_both=s.pad(6, side="both"), lpad=s.lpad(6, "."), rpad=s.rpad(6, "."),
        center=s.center(6, "."), repeat=s.repeat(2), add=col("s") + "!", before="<" + col("s"),
    )  # fmt: skip


@snippet("F10.09", limit_s=300)
def lists_structs_maps() -> Any:
    rows = [{"l": [3, 1, 2], "n": [[1], [2, 3]], "s": {"a": 1, "b": {"c": "x"}}}]
    rows += [{"l": [], "n": [], "s": {"a": 2, "b": None}}, {"l": None, "n": None, "s": None}]
    full = [{"l": [3, None, 1]}, {"l": [5, 6, 7]}]
    one, struct = col("l").list, col("s").struct
    wrong = outcome(lambda: col("l").list.sort(order="up"))
    pairs = pa.table(
        {"m": pa.array([[("a", 1), ("b", 2)], [], None], pa.map_(pa.string(), pa.int64()))}
    )
    fixed = pa.table({"m": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2))})

    return {
        **each(
            rows,
            len=one.len(), flat=col("n").list.flatten(), sort=one.sort(), field=struct.field("a"),
            bracket=struct["b"].struct["c"], number=struct.field_by_index(0), cut=one.slice(0, 2),
            bracket_cut=one[1:3], get_short=one.get(0),
        ),
        **{f"full {n}": r for n, r in each(
            full, get=one.get(1), bracket=one[0], last=one.get(-1), step=one.slice(0, 3, 2),
            down=one.sort("descending", "at_start"),
        ).items()},
        "wrong order": wrong,
        "keys": of_table(pairs, col("m").map.keys()),
        "values": of_table(pairs, col("m").map.values()),
        "key lengths": of_table(pairs, col("m").map.keys().list.len()),
        "map of numbers": values(NUMBERS, col("i").map.keys()),
        "to list": of_table(fixed, col("m").arr.to_list()),
        "sorted": of_table(fixed, col("m").arr.to_list().list.sort("descending")),
        "arr of numbers": values(NUMBERS, col("i").arr.to_list()),
    }  # fmt: skip


@snippet("F10.09", limit_s=300)
def times() -> Any:
    moments = pa.array([datetime.datetime(2026, 2, 3, 4, 35, 46), None], pa.timestamp("us"))
    t = col("m").dt
    parts = {
        "year": t.year(), "month": t.month(), "day": t.day(), "hour": t.hour(),
        "minute": t.minute(), "second": t.second(), "text": t.strftime("%Y/%m/%d"),
        "ceil": t.ceil("hour"), "floor": t.floor("day"), "round": t.round("hour"),
    }  # fmt: skip
    return {name: of_table(pa.table({"m": moments}), part) for name, part in parts.items()}


@snippet("F10.08", "F10.09", limit_s=300)
def columns_of_structs() -> Any:
    @udf(return_dtype=DataType.struct([("sum", DataType.int64()), ("product", DataType.int64())]))
    def both(a: Any, b: Any) -> Any:
        parts = [pc.add(a, b).combine_chunks(), pc.multiply(a, b).combine_chunks()]
        return pa.StructArray.from_arrays(parts, ["sum", "product"])

    @udf(return_dtype=DataType.int64())
    class Plus:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: Any) -> Any:
            return pc.add(x, self.n)

    items = [{"a": 2, "b": 10}, {"a": 3, "b": 20}]
    dataset = ray.data.from_items(items, override_num_blocks=1)
    nested = ray.data.from_items([{"id": 1, "s": {"x": 1, "y": {"z": 2}}}])
    parts = unnest(both(col("a"), col("b")))

    def made(call: Callable[[], Any], *says: str) -> Any:
        return outcome(lambda: [readable(dict(row)) for row in call().take_all()], *says)

    five = Plus(5)
    return {
        "function": made(lambda: dataset.with_columns(parts)),
        "mixed": made(lambda: dataset.with_columns({"c": col("a") * 2}, parts)),
        "after": made(lambda: dataset.with_columns(parts, {"c": col("a") * 2})),
        "struct column": made(lambda: nested.with_columns(unnest(col("s")))),
        "two levels": made(
            lambda: (
                nested.with_columns(unnest(col("s"))).materialize().with_columns(unnest(col("y")))
            )
        ),
        "twice": outcome(lambda: unnest(unnest(col("s")))),
        "no struct": made(lambda: dataset.with_columns(unnest(col("a")))),
        "not an expression": outcome(lambda: unnest(3)),
        "named": made(lambda: dataset.with_columns({"c": unnest(col("s"))})),
        "with_column": made(lambda: dataset.with_column("c", unnest(col("s")))),
        "aliased": outcome(lambda: unnest(col("s")).alias("x")),
        "same name": made(lambda: dataset.with_columns({"sum": col("a")}, parts)),
        "over a column": made(
            lambda: ray.data.from_items([{"x": 9, "s": {"x": 1}}]).with_columns(unnest(col("s")))
        ),
        "nothing": made(lambda: dataset.with_columns()),
        "empty": made(lambda: dataset.with_columns({})),
        "not a mapping": outcome(lambda: dataset.with_columns([col("a")])),
        "column is no expression": made(lambda: dataset.with_columns({"c": 3})),
        "with_column is no expression": made(lambda: dataset.with_column("c", 3)),
        "earlier column": made(lambda: dataset.with_columns({"c": col("a") + 1, "d": col("c")})),
        "swap": made(lambda: dataset.with_columns({"a": col("b"), "b": col("a")})),
        "class": made(lambda: dataset.with_column("c", five(col("a")))),
        "class inside": made(lambda: dataset.with_column("c", five(col("a")) * 2)),
        "class, pool": made(
            lambda: dataset.with_column(
                "c", five(col("a")), compute=ray.data.ActorPoolStrategy(size=1), num_cpus=1
            )
        ),
        "star": outcome(lambda: star() + 1),
        "star as column": made(lambda: dataset.with_column("c", star())),
        "star named": outcome(lambda: star().alias("x")),
        "alias": made(lambda: dataset.with_column("c", col("a").alias("z"))),
        "missing": made(lambda: dataset.with_column("c", col("zz")), "zz"),
        "select an expression": outcome(lambda: dataset.select_columns([col("a")])),
        "literal": made(lambda: dataset.with_column("c", lit("x"))),
        "literal list": made(lambda: dataset.with_column("c", lit([1, 2]))),
    }


@snippet("F10.14", limit_s=300)
def joins() -> Any:
    left = ray.data.from_items(
        [{"id": k, "v": f"l{k}", "l": i} for i, k in enumerate([0, 1, 1, None, 2])]
    )
    right = ray.data.from_items(
        [{"id": k, "v": f"r{k}", "r": i} for i, k in enumerate([1, 2, 2, None, 3])]
    )
    other = right.rename_columns({"id": "key"})
    kinds = ["inner", "left_outer", "right_outer", "full_outer"]
    kinds += ["left_semi", "right_semi", "left_anti", "right_anti"]
    plain = left.drop_columns(["v"]), right.drop_columns(["v"])
    floats = ray.data.from_items([{"id": 1.0, "f": 1}, {"id": 2.5, "f": 2}])
    empty = right.filter(lambda row: False)
    two = ray.data.from_items([{"a": 1, "b": "x", "l": 1}, {"a": 1, "b": "y", "l": 2}])
    three = ray.data.from_items([{"a": 1, "c": "x", "r": 1}, {"a": 2, "c": "y", "r": 2}])

    def made(call: Callable[[], Any], *says: str) -> Any:
        return outcome(lambda: rows_of(call()), *says)

    suffixes = {"left_suffix": "_l", "right_suffix": "_r"}
    return {
        **{kind: made(lambda k=kind: plain[0].join(plain[1], k, 2)) for kind in kinds},
        **{
            f"{kind} suffixes": made(lambda k=kind: left.join(right, k, 2, **suffixes))
            for kind in kinds
        },
        **{
            f"{kind} other name": made(
                lambda k=kind: left.join(other, k, 2, on=("id",), right_on=("key",), **suffixes)
            )
            for kind in kinds
        },
        "order": outcome(lambda: left.join(right, "inner", 1, **suffixes).take(1)[0].keys()),
        "no suffix": made(lambda: left.join(right, "inner", 2)),
        "left suffix": made(lambda: left.join(right, "inner", 2, left_suffix="_l")),
        "right suffix": made(lambda: left.join(right, "inner", 2, right_suffix="_r")),
        "equal suffixes": made(
            lambda: left.join(right, "inner", 2, left_suffix="_x", right_suffix="_x")
        ),
        "two keys": made(lambda: two.join(three, "inner", 2, on=("a", "b"), right_on=("a", "c"))),
        "key as text": made(lambda: plain[0].join(plain[1], "inner", 2, on="id")),
        "float key": made(lambda: plain[0].join(floats, "inner", 2)),
        "empty right": made(lambda: plain[0].join(empty, "left_outer", 2, right_suffix="_r")),
        "unknown kind": outcome(lambda: left.join(right, "sideways", 2)),
        "keys do not match": outcome(
            lambda: left.join(right, "inner", 2, on=("id", "l"), right_on=("id",))
        ),
        "missing key": made(lambda: left.join(right, "inner", 2, on=("zz",), **suffixes), "zz"),
        "missing key, checked": outcome(
            lambda: left.join(right, "inner", 2, on=("zz",), validate_schemas=True), "zz"
        ),
        "no partitions": outcome(lambda: left.join(right, "inner", 0, **suffixes)),
        "negative partitions": outcome(lambda: left.join(right, "inner", -1, **suffixes)),
        "partitions": outcome(
            lambda: plain[0].join(plain[1], "inner", 3).materialize().num_blocks()
        ),
    }


@snippet("F10.12", limit_s=300)
def summaries() -> Any:
    day = pa.array([datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2), None])
    table = pa.table(
        {
            "n": [0, 2, 4], "f": [1.5, None, 2.5], "s": ["a", None, "a"], "t": day,
            "l": [[1], [2], [2]], "x": [b"u", b"u", b"v"],
        }
    )  # fmt: skip
    dataset = ray.data.from_arrow(table)
    truths = ray.data.from_items([{"b": True}, {"b": False}, {"b": True}], override_num_blocks=1)

    def frame(call: Callable[[], Any]) -> Any:
        def made() -> Any:
            found = call()
            return {
                "columns": [str(c) for c in found.columns],
                "rows": [[_cell(v) for v in row] for row in found.to_numpy().tolist()],
            }

        return outcome(made)

    from ray.data.aggregate import Count, Sum

    numbers = ray.data.range(10, override_num_blocks=1)
    mapping = {DataType.int64(): lambda column: [Count(on=column), Sum(on=column)]}
    return {
        "all": frame(lambda: dataset.summary().to_pandas()),
        "one": frame(lambda: dataset.summary(["n"]).to_pandas()),
        "stats of n": frame(lambda: dataset.summary().get_column_stats("n")),
        "stats of s": frame(lambda: dataset.summary().get_column_stats("s")),
        "stats of none": outcome(lambda: dataset.summary().get_column_stats("zz")),
        "unknown column": outcome(lambda: dataset.summary(["zz"])),
        "columns": outcome(lambda: sorted(dataset.summary(["s", "n"]).columns)),
        "own": frame(lambda: dataset.summary(["n"], mapping).to_pandas()),
        "schema": outcome(lambda: dataset.summary(["n"]).dataset_schema.names),
        "truths": frame(lambda: truths.summary().to_pandas()),
        "numbers": frame(lambda: numbers.summary().to_pandas()),
        "empty": frame(lambda: numbers.filter(lambda row: False).summary().to_pandas()),
    }


@snippet("F10.01", "F10.02", limit_s=300)
def sources() -> Any:
    import numpy as np
    import pandas as pd

    rd = ray.data

    def made(call: Callable[[], Any]) -> Any:
        return outcome(lambda: [readable(dict(row)) for row in call().take_all()])

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    return {
        "dicts": made(lambda: rd.from_items([{"a": 1}, {"a": 2}])),
        "scalars": made(lambda: rd.from_items([1, 2])),
        "nothing": outcome(lambda: rd.from_items([]).count()),
        "uneven": made(lambda: rd.from_items([{"a": 1}, {"b": 2}], override_num_blocks=1)),
        "blocks": outcome(lambda: rd.from_items([1, 2, 3], override_num_blocks=2).num_blocks()),
        "more blocks": outcome(lambda: rd.from_items([1, 2], override_num_blocks=5).num_blocks()),
        "range": made(lambda: rd.range(3)),
        "range of none": outcome(lambda: rd.range(0).count()),
        "tensors": made(lambda: rd.range_tensor(2, shape=(2,))),
        "numpy": made(lambda: rd.from_numpy(np.ones((2, 2)))),
        "numpy list": made(lambda: rd.from_numpy([np.arange(2), np.arange(1)])),
        "pandas": made(lambda: rd.from_pandas(frame)),
        "pandas list": outcome(lambda: rd.from_pandas([frame, frame]).count()),
        "arrow": made(lambda: rd.from_arrow(pa.table({"a": [1]}))),
        "missing file": outcome(lambda: rd.read_csv("/nowhere/x.csv").take(1)),
        "no items": outcome(lambda: rd.from_items(3)),
    }


@snippet("F10.06", "F10.07", "F10.08", "F10.11", limit_s=300)
def transforms() -> Any:
    rd = ray.data
    dataset = rd.range(4, override_num_blocks=2)

    class Keep:
        def __call__(self, row: Any) -> Any:
            return row

    def made(call: Callable[[], Any], *says: str) -> Any:
        return outcome(lambda: rows_of(call()), *says)

    return {
        "map": made(lambda: dataset.map(lambda r: {"x": r["id"] + 1})),
        "map to no dict": made(lambda: dataset.map(lambda r: 1)),
        "flat_map": made(lambda: dataset.flat_map(lambda r: [r, r])),
        "flat_map to no list": made(lambda: dataset.flat_map(lambda r: r)),
        "filter": made(lambda: dataset.filter(lambda r: r["id"] > 1)),
        "filter neither": outcome(lambda: dataset.filter()),
        "filter both": outcome(lambda: dataset.filter(lambda r: True, expr=col("id") > 1)),
        "filter alias": made(lambda: dataset.filter(expr=(col("id") > 2).alias("z"))),
        "batches": made(lambda: dataset.map_batches(lambda b: {"x": b["id"] * 2})),
        "batches of two": made(
            lambda: dataset.map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=2)
        ),
        "batch to no batch": made(lambda: dataset.map_batches(lambda b: 1)),
        "batch to uneven": made(lambda: dataset.map_batches(lambda b: {"a": [1], "b": [1, 2]})),
        "batch of zero": outcome(lambda: dataset.map_batches(lambda b: b, batch_size=0)),
        "unknown format": outcome(lambda: dataset.map_batches(lambda b: b, batch_format="x")),
        "gpus without size": outcome(lambda: dataset.map_batches(lambda b: b, num_gpus=1)),
        "class": made(lambda: dataset.map(Keep)),
        "class with tasks": outcome(lambda: dataset.map(Keep, compute=rd.TaskPoolStrategy())),
        "constructor of a function": outcome(
            lambda: dataset.map(lambda r: r, fn_constructor_args=(1,))
        ),
        "both": outcome(
            lambda: dataset.map(Keep, compute=rd.ActorPoolStrategy(size=1), concurrency=1)
        ),
        "drop": made(lambda: dataset.drop_columns("id")),
        "drop missing": made(lambda: dataset.drop_columns(["zz"]), "zz"),
        "drop twice": outcome(lambda: dataset.drop_columns(["id", "id"])),
        "select": made(lambda: dataset.select_columns("id")),
        "select missing": made(lambda: dataset.select_columns(["zz"]), "zz"),
        "select twice": outcome(lambda: dataset.select_columns(["id", "id"])),
        "select none": outcome(lambda: dataset.select_columns([]).count()),
        "rename": made(lambda: dataset.rename_columns({"id": "x"})),
        "rename list": made(lambda: dataset.rename_columns(["x"])),
        "rename missing": made(lambda: dataset.rename_columns({"zz": "x"})),
        "rename wrong length": made(lambda: dataset.rename_columns(["x", "y"])),
        "rename none": outcome(lambda: dataset.rename_columns({})),
        "limit": made(lambda: dataset.limit(2)),
        "limit none": outcome(lambda: dataset.limit(0).count()),
        "limit negative": outcome(lambda: dataset.limit(-1).count()),
        "sample": outcome(lambda: dataset.random_sample(2)),
        "sort": outcome(lambda: [r["id"] for r in dataset.sort("id", descending=True).take_all()]),
        "sort by none": outcome(lambda: dataset.sort(None)),
        "sort by missing": outcome(lambda: dataset.sort("zz").take_all()),
        "repartition": outcome(lambda: dataset.repartition(3).materialize().num_blocks()),
        "repartition by nothing": outcome(lambda: dataset.repartition()),
        "repartition by both": outcome(lambda: dataset.repartition(2, 2)),
        "repartition to none": outcome(lambda: dataset.repartition(0).materialize().num_blocks()),
        "add_column": made(lambda: dataset.add_column("x", lambda df: df["id"] + 1)),
        "add_column format": outcome(
            lambda: dataset.add_column("x", lambda b: b, batch_format="torch")
        ),
    }


@snippet("F10.12", "F10.16", "F10.19", "F10.20", "F10.21", limit_s=300)
def consuming() -> Any:
    rd = ray.data
    dataset = rd.range(5, override_num_blocks=2)
    pairs = rd.from_items([{"k": i % 2, "v": i} for i in range(4)])
    empty = rd.range(3).filter(lambda row: False)

    def parts(call: Callable[[], Any]) -> Any:
        return outcome(lambda: [[r["id"] for r in part.take_all()] for part in call()])

    return {
        "take": outcome(lambda: dataset.take(2)),
        "take_all": outcome(lambda: len(dataset.take_all())),
        "take_all limit": outcome(lambda: dataset.take_all(2)),
        "take_batch": outcome(lambda: readable(dataset.take_batch(2))),
        "take_batch empty": outcome(lambda: empty.take_batch()),
        "count": outcome(dataset.count),
        "columns": outcome(dataset.columns),
        "schema": outcome(lambda: dataset.schema().names),
        "schema types": outcome(lambda: [str(t) for t in dataset.schema().types]),
        "num_blocks": outcome(lambda: dataset.num_blocks()),
        "size": outcome(lambda: dataset.materialize().size_bytes()),
        "input_files": outcome(dataset.input_files),
        "rows": outcome(lambda: [r["id"] for r in dataset.iter_rows()]),
        "batches": outcome(lambda: [b["id"].tolist() for b in dataset.iter_batches(batch_size=2)]),
        "dropped": outcome(
            lambda: [len(b["id"]) for b in dataset.iter_batches(batch_size=2, drop_last=True)]
        ),
        "to_pandas": outcome(lambda: dataset.to_pandas()["id"].tolist()),
        "to_pandas limit": outcome(lambda: len(dataset.to_pandas(limit=2))),
        "len": outcome(lambda: len(dataset)),
        "iter": outcome(lambda: iter(dataset)),
        "split": parts(lambda: dataset.split(2)),
        "split equal": parts(lambda: dataset.split(2, equal=True)),
        "split none": outcome(lambda: dataset.split(0)),
        "split at": parts(lambda: dataset.split_at_indices([2, 4])),
        "split at none": outcome(lambda: dataset.split_at_indices([])),
        "split at wrong": outcome(lambda: dataset.split_at_indices([3, 2])),
        "split at negative": outcome(lambda: dataset.split_at_indices([-1])),
        "shares": parts(lambda: dataset.split_proportionately([0.4, 0.2])),
        "shares over one": outcome(lambda: dataset.split_proportionately([0.6, 0.6])),
        "shares none": outcome(lambda: dataset.split_proportionately([])),
        "test": parts(lambda: dataset.train_test_split(0.4)),
        "test rows": parts(lambda: dataset.train_test_split(2)),
        "test too many": outcome(lambda: dataset.train_test_split(9)),
        "test share": outcome(lambda: dataset.train_test_split(1.5)),
        "sum": outcome(lambda: dataset.sum("id")),
        "sum all": outcome(dataset.sum),
        "sum two": outcome(lambda: pairs.sum(["k", "v"])),
        "mean of none": outcome(lambda: empty.mean("id")),
        "unique": outcome(lambda: sorted(pairs.unique("k"))),
        "group": outcome(lambda: rows_of(pairs.groupby("k").sum("v"))),
        "group all": outcome(lambda: rows_of(pairs.groupby("k").mean())),
        "group two": outcome(lambda: rows_of(pairs.groupby("k").max(["v", "k"]))),
        "group missing": outcome(lambda: pairs.groupby("zz").count().take_all()),
        "group by none": outcome(lambda: rows_of(pairs.groupby(None).count())),
        "groups": outcome(
            lambda: rows_of(pairs.groupby("k").map_groups(lambda g: {"n": [len(g["v"])]}))
        ),
    }


@snippet("F10.13", limit_s=300)
def aggregators() -> Any:
    from ray.data import aggregate as agg

    rows = [
        {"k": i % 2, "v": v, "s": s} for i, (v, s) in enumerate(zip(VALUES, "abacad", strict=True))
    ]
    blocks = {n: ray.data.from_items(rows, override_num_blocks=n) for n in (1, 3)}
    lists = ray.data.from_items([{"l": [1, 2]}, {"l": [2]}, {"l": [1, 2]}], override_num_blocks=1)
    empty = ray.data.range(3).filter(lambda row: False)

    def given(kind: Any, *args: Any, **options: Any) -> dict[str, Any]:
        def whole(n: int) -> Any:
            return lambda: _result(blocks[n].aggregate(kind(*args, **options)))

        def grouped() -> Any:
            found = blocks[3].groupby("k").aggregate(kind(*args, **options)).take_all()
            return [_result(row) for row in sorted(found, key=lambda row: row["k"])]

        return {"1": outcome(whole(1)), "3": outcome(whole(3)), "groups": outcome(grouped)}

    kept = {"ignore_nulls": False}
    return {
        "count": given(agg.Count), "count on": given(agg.Count, "v"),
        "count there": given(agg.Count, "v", ignore_nulls=True),
        "sum": given(agg.Sum, "v"), "sum kept": given(agg.Sum, "v", **kept),
        "min": given(agg.Min, "v"), "max kept": given(agg.Max, "v", **kept),
        "max text": given(agg.Max, "s"), "mean": given(agg.Mean, "v"),
        "mean kept": given(agg.Mean, "v", **kept), "std": given(agg.Std, "v"),
        "std 0": given(agg.Std, "v", ddof=0), "abs_max": given(agg.AbsMax, "v"),
        "quantile": given(agg.Quantile, "v", 0.3), "unique": given(agg.Unique, "v"),
        "unique kept": given(agg.Unique, "v", **kept),
        "unique there": given(agg.Unique, "v", ignore_nulls=True),
        "distinct": given(agg.CountDistinct, "v"),
        "distinct kept": given(agg.CountDistinct, "v", **kept),
        "list": given(agg.AsList, "v"), "list there": given(agg.AsList, "v", ignore_nulls=True),
        "counter": given(agg.ValueCounter, "s"), "missing": given(agg.MissingValuePercentage, "v"),
        "zero": given(agg.ZeroPercentage, "v"), "zero kept": given(agg.ZeroPercentage, "v", **kept),
        "approx quantile": given(agg.ApproximateQuantile, "v", [0.1, 0.5, 0.9]),
        "top": given(agg.ApproximateTopK, "s", 1), "alias": given(agg.Sum, "v", alias_name="x"),
        "no column": given(agg.Sum, "zz"), "text sum": given(agg.Sum, "s"),
        "none": outcome(lambda: _result(empty.aggregate(agg.Count(), agg.Sum("id")))),
        "unique lists": outcome(lambda: _result(lists.aggregate(agg.Unique("l", encode_lists=False)))),
        "unique in lists": outcome(lambda: _result(lists.aggregate(agg.Unique("l")))),
        "distinct in lists": outcome(lambda: _result(lists.aggregate(agg.CountDistinct("l")))),
        "top in lists": outcome(
            lambda: _result(lists.aggregate(agg.ApproximateTopK("l", 1, encode_lists=True)))
        ),
    }  # fmt: skip


VALUES = [3, None, -4, 0, 3, 1]


def _result(found: Any) -> Any:
    """Lists whose order means nothing, sorted."""
    made = readable(dict(found))
    return {
        name: sorted(value, key=repr) if isinstance(value, list) and "approx" not in name else value
        for name, value in made.items()
    }


def _cell(value: Any) -> Any:
    if value is None or value != value:
        return None
    return str(value) if not isinstance(value, int | float | str) else readable(value)
