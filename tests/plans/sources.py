"""Sources: how a random table becomes a dataset, in memory or from files the plan writes first."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import values
from .known import Column, Known, Row
from .values import literal

# What a source needs of its values, beyond the kind: text that survives the format, and so on.
Fix = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Source:
    """A table and how it is cut into blocks or files; ``layout`` has the rows of each."""

    name: str
    kinds: dict[str, str]
    rows: list[Row]
    layout: list[int]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> list[list[Row]]:
        """The rows of each block or file."""
        ends = np.cumsum([0, *self.layout]).tolist()
        return [self.rows[a:b] for a, b in zip(ends, ends[1:], strict=False)]

    def lines(self, target: str) -> list[str]:
        """The statements that make the dataset and assign it to ``target``."""
        return MAKERS[self.name].lines(self, target)

    def known(self) -> Known:
        """The answer: what a user finds in the dataset."""
        return MAKERS[self.name].known(self)

    def smaller(self) -> list[Source]:
        """Sources that are simpler by one thing, for the shrinker."""
        found = []
        count = len(self.rows)
        for size in (count // 2, count // 4, 1):
            for begin in range(0, count, max(size, 1)) if 0 < size < count else ():
                rest = self.rows[:begin] + self.rows[begin + size :]
                found.append(replace(self, rows=rest, layout=_cut(self.layout, begin, size)))
        if len(self.layout) > 1 and self.name != "read_binary_files":
            found.append(replace(self, layout=[count]))
            merged = [self.layout[0] + self.layout[1], *self.layout[2:]]
            found.append(replace(self, layout=merged))
        if not MAKERS[self.name].fixed_columns:
            for name in self.kinds if len(self.kinds) > 1 else ():
                kinds = {n: k for n, k in self.kinds.items() if n != name}
                rows = [{n: v for n, v in row.items() if n != name} for row in self.rows]
                found.append(replace(self, kinds=kinds, rows=rows))
        for key, value in self.options.items():
            if value:
                found.append(replace(self, options={**self.options, key: None}))
        return found


def _cut(layout: list[int], begin: int, size: int) -> list[int]:
    """The layout without the rows from ``begin``."""
    made, at = [], 0
    for rows in layout:
        gone = max(0, min(at + rows, begin + size) - max(at, begin))
        made.append(rows - gone)
        at += rows
    return made


# --- random tables -----------------------------------------------------------------------------------


def random_size(rng: random.Random) -> int:
    """Rows of a table: often few, sometimes none, sometimes many."""
    return rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 25, rng.randint(30, 80), rng.randint(5, 20)])


def random_layout(rng: random.Random, count: int, most: int = 5) -> list[int]:
    """Rows of each block: even, skewed, some empty."""
    parts = rng.randint(1, most)
    if rng.random() < 0.3:  # nearly all in one block
        layout = [0] * parts
        for _ in range(min(count, parts // 2)):
            layout[rng.randrange(parts)] += 1
        layout[rng.randrange(parts)] += count - sum(layout)
        return layout
    cuts = sorted(rng.randint(0, count) for _ in range(parts - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, count], strict=True)]


def random_kinds(rng: random.Random, allowed: tuple[str, ...]) -> dict[str, str]:
    """Names and kinds of a table's columns; sometimes very many."""
    count = rng.choice([1, 2, 3, 3, 4, 5]) if rng.random() < 0.95 else 40
    names = [chr(ord("a") + i) if i < 26 else f"col{i}" for i in range(count)]
    kinds = {name: rng.choice(allowed) for name in names}
    if "int" in allowed and rng.random() < 0.7:
        kinds["id"] = "id"
    return kinds


def random_column(rng: random.Random, kind: str, layout: list[int], nulls: bool) -> list[Any]:
    """Values of a column: none missing, some, all, or all of one block."""
    count = sum(layout)
    if kind == "id":
        return list(range(count))
    mode = rng.choice(["none", "none", "some", "some", "block", "all"]) if nulls else "none"
    share = {"none": 0.0, "some": 0.25, "block": 0.0, "all": 1.0}[mode]
    nan = rng.random() < 0.4
    made = [None if rng.random() < share else values.draw(kind, rng, nan) for _ in range(count)]
    if kind == "str" and rng.random() < 0.05:  # wide rows
        made = [v if v is None else v * 5000 for v in made]
    if mode == "block" and layout:
        part = rng.randrange(len(layout))
        begin = sum(layout[:part])
        made[begin : begin + layout[part]] = [None] * layout[part]
    return made


def random_table(
    rng: random.Random,
    kinds: dict[str, str],
    layout: list[int],
    fix: Fix,
    no_nulls: tuple[str, ...],
) -> list[Row]:
    """The rows of a table."""
    count = sum(layout)
    columns = {
        name: [
            fix(kind, v) for v in random_column(rng, kind, layout, kind not in (*no_nulls, "id"))
        ]
        for name, kind in kinds.items()
    }
    return [{name: column[i] for name, column in columns.items()} for i in range(count)]


def draw(rng: random.Random, name: str | None = None) -> Source:
    """A random source."""
    names = sorted(MAKERS)
    name = name or rng.choices(names, [MAKERS[n].weight for n in names])[0]
    return MAKERS[name].draw(name, rng)


# --- how each is made --------------------------------------------------------------------------------


class Maker:
    """One way to make a dataset."""

    weight = 2
    allowed: tuple[str, ...] = values.KINDS
    no_nulls: tuple[str, ...] = ()  # kinds whose columns have no missing values here
    fixed_columns: dict[str, str] = {}  # noqa: RUF012
    min_rows = 0
    empty_parts = True

    def options(self, rng: random.Random, kinds: dict[str, str]) -> dict[str, Any]:
        """Options of this source, by name."""
        return {}

    def fix(self, kind: str, value: Any) -> Any:
        """The value as this source can hold it."""
        return value

    def draw(self, name: str, rng: random.Random) -> Source:
        """A random source of this sort."""
        kinds = self.fixed_columns or random_kinds(rng, self.allowed)
        if self.fixed_columns and "" in kinds.values():
            kinds = dict.fromkeys(kinds, rng.choice(self.allowed))
        size = max(self.min_rows, random_size(rng))
        layout = random_layout(rng, size)
        if not self.empty_parts:
            layout = [n for n in layout if n] or [size]
        rows = random_table(rng, kinds, layout, self.fix, self.no_nulls)
        options = self.options(rng, kinds)
        kinds = {n: "int" if k == "id" else k for n, k in kinds.items()}
        return Source(name, kinds, rows, layout, options)

    def known(self, source: Source) -> Known:
        """What a user finds in the dataset."""
        return Known({n: Column(k) for n, k in source.kinds.items()}, source.rows)

    def lines(self, source: Source, target: str) -> list[str]:
        """The statements that make it."""
        raise NotImplementedError


class FromItems(Maker):
    """Dicts, blocks of equal size."""

    weight = 6

    def known(self, source: Source) -> Known:
        return super().known(source) if source.rows else Known({}, [])

    def lines(self, source: Source, target: str) -> list[str]:
        blocks = len(source.layout)
        return [
            f"{target} = ray.data.from_items({literal(source.rows)}, override_num_blocks={blocks})"
        ]


class FromScalars(FromItems):
    """Values that are no dicts: the column "item"."""

    weight = 1
    fixed_columns = {"item": ""}  # noqa: RUF012
    allowed = ("int", "float", "str", "bool", "ts")
    no_nulls = allowed

    def lines(self, source: Source, target: str) -> list[str]:
        items = [row["item"] for row in source.rows]
        return [
            f"{target} = ray.data.from_items({literal(items)}, override_num_blocks={len(source.layout)})"
        ]


class Range(Maker):
    """``range``: the rows follow from their number."""

    fixed_columns = {"id": "id"}  # noqa: RUF012

    def known(self, source: Source) -> Known:
        return Known({"id": Column("int")}, [{"id": i} for i in range(len(source.rows))])

    def lines(self, source: Source, target: str) -> list[str]:
        rows, blocks = len(source.rows), len(source.layout)
        return [f"{target} = ray.data.range({rows}, override_num_blocks={blocks})"]


class RangeTensor(Maker):
    """``range_tensor``."""

    weight = 1
    fixed_columns = {"data": "tensor"}  # noqa: RUF012
    no_nulls = ("tensor",)

    def known(self, source: Source) -> Known:
        rows: list[Row] = [{"data": np.full((2, 1), i)} for i in range(len(source.rows))]
        return Known({"data": Column("tensor")}, rows)

    def lines(self, source: Source, target: str) -> list[str]:
        rows, blocks = len(source.rows), len(source.layout)
        return [
            f"{target} = ray.data.range_tensor({rows}, shape=(2, 1), override_num_blocks={blocks})"
        ]


PANDAS_TYPES = {
    "int": "int64",
    "big": "int64",
    "float": "float64",
    "bool": "bool",
    "ts": "datetime64[us]",
    "str": "str",
}


class FromPandas(Maker):
    """One frame or several."""

    weight = 3
    allowed = tuple(k for k in values.KINDS if k != "date")

    def options(self, rng: random.Random, kinds: dict[str, str]) -> dict[str, Any]:
        return {"refs": rng.random() < 0.2, "blocks": rng.random() < 0.2}

    def known(self, source: Source) -> Known:
        rows = [{n: None if values.is_missing(v) else v for n, v in r.items()} for r in source.rows]
        made = Known({n: Column(k) for n, k in source.kinds.items()}, rows)
        return made.derive(columns=made.loosened())

    def lines(self, source: Source, target: str) -> list[str]:
        frames = [self._frame(source, part) for part in source.parts]
        if source.options.get("refs"):
            puts = ", ".join(f"ray.put({f})" for f in frames)
            return [f"{target} = ray.data.from_pandas_refs([{puts}])"]
        if source.options.get("blocks"):
            return [f"{target} = ray.data.from_blocks([{', '.join(frames)}])"]
        text = frames[0] if len(frames) == 1 else f"[{', '.join(frames)}]"
        return [f"{target} = ray.data.from_pandas({text})"]

    def _frame(self, source: Source, rows: list[Row]) -> str:
        parts = []
        for name, kind in source.kinds.items():
            column = [row[name] for row in rows]
            dtype = PANDAS_TYPES.get(kind, "object")
            if any(v is None for v in column):
                dtype = {"int64": "Int64", "bool": "object"}.get(dtype, dtype)
            parts.append(f'"{name}": pd.Series({literal(column)}, dtype="{dtype}")')
        return "pd.DataFrame({" + ", ".join(parts) + "})"


DEEP = (  # the fields of a struct of lists of structs, and of a struct
    '("p", pa.list_(pa.struct([("q", pa.int64())]))), '
    '("s", pa.struct([("t", pa.string()), ("u", pa.list_(pa.string()))]))'
)
ARROW_TYPES = {
    "int": ["pa.int64()", "pa.int32()"],
    "big": ["pa.int64()"],
    "float": ["pa.float64()"],
    "str": ["pa.string()", "pa.string()", "pa.large_string()"],
    "bool": ["pa.bool_()"],
    "ts": ['pa.timestamp("us")', 'pa.timestamp("us")', 'pa.timestamp("ns")'],
    "date": ["pa.date32()"],
    "bytes": ["pa.binary()"],
    "list": ["pa.list_(pa.int64())", "pa.large_list(pa.int64())"],
    "struct": ['pa.struct([("x", pa.int64()), ("y", pa.string())])'],
    "deep": [f"pa.struct([{DEEP}])"],
    "decimal": ["pa.decimal128(10, 2)", "pa.decimal128(20, 5)"],
}


def arrow_table(source: Source, rows: list[Row], without: str = "") -> str:
    """The text of a table of those rows."""
    types = source.options.get("types") or {}
    parts = [
        f'"{n}": pa.array({literal([row[n] for row in rows])}, {types.get(n) or ARROW_TYPES[k][0]})'
        for n, k in source.kinds.items()
        if n != without
    ]
    return "pa.table({" + ", ".join(parts) + "})"


def _arrow_types(rng: random.Random, kinds: dict[str, str]) -> dict[str, str]:
    return {n: rng.choice(ARROW_TYPES["int" if k == "id" else k]) for n, k in kinds.items()}


class FromArrow(Maker):
    """One table or several, with types that are given."""

    weight = 4
    allowed = tuple(ARROW_TYPES)

    def options(self, rng: random.Random, kinds: dict[str, str]) -> dict[str, Any]:
        return {
            "types": _arrow_types(rng, kinds),
            "refs": rng.random() < 0.2,
            "blocks": rng.random() < 0.2,
        }

    def lines(self, source: Source, target: str) -> list[str]:
        tables = [arrow_table(source, part) for part in source.parts]
        if source.options.get("refs"):
            puts = ", ".join(f"ray.put({t})" for t in tables)
            return [f"{target} = ray.data.from_arrow_refs([{puts}])"]
        if source.options.get("blocks"):
            return [f"{target} = ray.data.from_blocks([{', '.join(tables)}])"]
        text = tables[0] if len(tables) == 1 else f"[{', '.join(tables)}]"
        return [f"{target} = ray.data.from_arrow({text})"]


def array_text(kind: str, rows: list[Row]) -> str:
    """The text of a numpy array of a column "data"."""
    data = [row["data"] for row in rows]
    dtype = {"int": "np.int64", "big": "np.int64", "bool": "np.bool_"}.get(kind, "np.float64")
    if kind == "tensor":
        return f"np.array({literal([v.tolist() for v in data])}, {dtype}).reshape(-1, 2, 2)"
    return f"np.array({literal(data)}, {dtype})"


class FromNumpy(Maker):
    """One array or several: the column "data"."""

    fixed_columns = {"data": ""}  # noqa: RUF012
    allowed = ("int", "big", "float", "bool", "tensor")
    no_nulls = allowed

    def options(self, rng: random.Random, kinds: dict[str, str]) -> dict[str, Any]:
        return {"refs": rng.random() < 0.3}

    def lines(self, source: Source, target: str) -> list[str]:
        arrays = [array_text(source.kinds["data"], part) for part in source.parts]
        if source.options.get("refs"):
            puts = ", ".join(f"ray.put({a})" for a in arrays)
            return [f"{target} = ray.data.from_numpy_refs([{puts}])"]
        text = arrays[0] if len(arrays) == 1 else f"[{', '.join(arrays)}]"
        return [f"{target} = ray.data.from_numpy({text})"]


MAKERS: dict[str, Maker] = {
    "from_items": FromItems(),
    "from_items (scalars)": FromScalars(),
    "range": Range(),
    "range_tensor": RangeTensor(),
    "from_pandas": FromPandas(),
    "from_arrow": FromArrow(),
    "from_numpy": FromNumpy(),
}
