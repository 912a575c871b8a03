"""groupby: aggregations of groups and of the whole dataset, and functions of groups."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .by_order import codes
from .by_row import POOLS
from .known import Column, Known, Row, need, new_name
from .operator import Args, Operator, operator
from .values import freeze, is_nan, sort_key

Values = list[Any]
GROUPED = ("int", "big", "str", "bool", "ts", "float", "decimal")


def _present(values: Values) -> Values:
    return [v for v in values if v is not None]


def _moments(name: str) -> Callable[[Values], Any]:
    """mean and std by pandas; NaN among the values gives NaN."""

    def compute(values: Values) -> Any:
        if any(is_nan(v) or abs(v) == math.inf for v in values):
            return _arithmetic(name, values)
        return float(getattr(pd.Series(values, dtype="float64"), name)())

    return compute


def _arithmetic(name: str, values: Values) -> Any:
    """The same of values with NaN or infinity, by the rules of floats."""
    if name == "std":
        return math.nan
    return sum(values) / len(values)


def _extreme(choose: Callable[[Values], Any]) -> Callable[[Values], Any]:
    """min and max; NaN only where there is nothing else."""

    def compute(values: Values) -> Any:
        numbers = [v for v in values if not is_nan(v)]
        return choose(numbers) if numbers else math.nan

    return compute


def _sum(values: Values) -> Any:
    return sum(values[1:], values[0])


# name of the class: (name of the result, kinds, function of values that are not None, kind of the result)
AGGREGATIONS: dict[str, tuple[str, tuple[str, ...], Callable[[Values], Any], str]] = {
    "Sum": ("sum", ("int", "float"), _sum, "same"),
    "Min": ("min", ("int", "big", "float", "str", "bool", "ts"), _extreme(min), "same"),
    "Max": ("max", ("int", "big", "float", "str", "bool", "ts"), _extreme(max), "same"),
    "Mean": ("mean", ("int", "float"), _moments("mean"), "float"),
    "Std": ("std", ("int", "float"), _moments("std"), "float"),
    "AbsMax": ("abs_max", ("int",), lambda values: max(map(abs, values)), "same"),
    "Quantile": ("quantile", ("int",), lambda values: float(np.quantile(values, 0.5)), "float"),
}
METHODS = {"Sum": "sum", "Min": "min", "Max": "max", "Mean": "mean", "Std": "std"}
# Those with other rules for None.
OTHERS = ("Count", "CountOf", "CountDistinct", "MissingValuePercentage", "ZeroPercentage", "AsList")

Aggregation = tuple[str, str, bool]  # class, column, whether nulls are left out


def draw_aggregation(rng: random.Random, known: Known, keys: list[str]) -> Aggregation:
    """A random aggregation."""
    if rng.random() < 0.3:
        name = rng.choice(OTHERS)
        if name == "Count":
            return (name, "", False)
        kinds = ("int",) if name in ("ZeroPercentage", "AsList") else ("int", "str", "bool")
        names = [n for n in known.certain_names(*kinds) if n not in keys]
        need(names, "no column")
        return (name, rng.choice(names), rng.random() < 0.7)
    name = rng.choice(list(AGGREGATIONS))
    names = [n for n in known.certain_names(*AGGREGATIONS[name][1]) if n not in keys]
    need(names, "no column")
    return (name, rng.choice(names), rng.random() < 0.7)


def check_aggregation(made: Aggregation, known: Known) -> None:
    """Raise Inapplicable unless the dataset has the column with certain values."""
    if not made[1]:
        return
    kinds = AGGREGATIONS[made[0]][1] if made[0] in AGGREGATIONS else ("int", "str", "bool")
    known.column(made[1], *kinds)
    need(known.certain(made[1]), "values are not certain")
    if made[0] == "Std":  # of NaN: NaN or None, by how the rows lie in blocks
        need(not known.has_nan(made[1]), "NaN")


def aggregation_text(made: Aggregation) -> str:
    """The text of the object."""
    name, column, ignore = made
    if name == "Count":
        return "agg.Count()"
    if name == "MissingValuePercentage":
        return f'agg.MissingValuePercentage("{column}")'
    kind = "Count" if name == "CountOf" else name
    on = f'on="{column}"' if kind == "Count" else f'"{column}"'
    return f"agg.{kind}({on}, ignore_nulls={ignore})"


def result_name(made: Aggregation) -> str:
    """The name of the result's column."""
    name, column, _ = made
    stem = {
        "Count": "count",
        "CountOf": "count",
        "CountDistinct": "count_distinct",
        "MissingValuePercentage": "missing_pct",
        "ZeroPercentage": "zero_pct",
        "AsList": "list",
    }
    return f"{stem.get(name) or AGGREGATIONS[name][0]}({column})"


def result_kind(made: Aggregation, known: Known) -> str:
    """The kind of the result's column."""
    if made[0] in AGGREGATIONS:
        kind = AGGREGATIONS[made[0]][3]
        return known.columns[made[1]].kind if kind == "same" else kind
    if made[0] == "AsList":
        return "list"
    return "float" if made[0].endswith("Percentage") else "int"


def aggregated(made: Aggregation, rows: list[Row]) -> Any:
    """The result for some rows."""
    name, column, ignore = made
    if name == "Count":
        return len(rows)
    values = [row[column] for row in rows]
    present = _present(values)
    if name == "CountOf":
        return len(present) if ignore else len(values)
    if name == "CountDistinct":
        return len({freeze(v) for v in (present if ignore else values)})
    if name == "MissingValuePercentage":
        return 100 * sum(v is None or is_nan(v) for v in values) / len(values) if values else None
    if name == "ZeroPercentage":
        base = present if ignore else values
        return 100 * sum(v == 0 for v in present) / len(base) if base else None
    if name == "AsList":
        return present if ignore else values
    if not present or (not ignore and len(present) < len(values)):
        return None
    return AGGREGATIONS[name][2](present)


def group_names(known: Known) -> list[str]:
    """Columns that rows may be grouped by."""
    return known.certain_names(*GROUPED)


def split(known: Known, keys: list[str]) -> list[tuple[Row, list[int]]]:
    """Groups by pandas: the keys' values and the places of the rows, in the order of the keys."""
    if not keys:
        return [({}, list(range(len(known))))] if known.rows else []
    frame = pd.DataFrame({i: codes(known, n) for i, n in enumerate(keys)})
    groups = frame.groupby(list(frame.columns), sort=True).indices.values()
    return [({n: known.rows[g[0]][n] for n in keys}, sorted(map(int, g))) for g in groups]


class Grouped(Operator):
    """An operator of groups."""

    def keys(self, rng: random.Random, known: Known) -> list[str]:
        """Random keys."""
        names = group_names(known)
        need(names and not known.some, "no key")
        return rng.sample(names, min(len(names), rng.choice([1, 1, 1, 2])))

    def check(self, args: Args, known: Known) -> None:
        """Raise Inapplicable unless the dataset has the keys."""
        need(not known.some and known.columns, "some rows only")
        for name in args["keys"]:
            known.column(name, *GROUPED)
            need(known.certain(name), "keys are not certain")

    def by(self, args: Args) -> str:
        """The text of the keys."""
        return repr(args["keys"] if len(args["keys"]) > 1 else args["keys"][0])


@operator("groupby.aggregate")
class Aggregate(Grouped):
    """One row for each group, by aggregations."""

    weight = 5.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        keys = self.keys(rng, known)
        made = [draw_aggregation(rng, known, keys) for _ in range(rng.choice([1, 1, 2, 3]))]
        unique = list({result_name(a): a for a in made}.values())
        short = len(unique) == 1 and unique[0][0] in (*METHODS, "Count") and rng.random() < 0.6
        return {"keys": keys, "made": unique, "method": short}

    def lines(self, args: Args, number: int) -> list[str]:
        grouped = f"ds.groupby({self.by(args)})"
        if args["method"]:
            name, column, ignore = args["made"][0]
            if name == "Count":
                return [f"ds = {grouped}.count()"]
            return [f"ds = {grouped}.{METHODS[name]}({column!r}, ignore_nulls={ignore})"]
        made = ", ".join(aggregation_text(a) for a in args["made"])
        return [f"ds = {grouped}.aggregate({made})"]

    def apply(self, args: Args, known: Known) -> Known:
        self.check(args, known)
        for made in args["made"]:
            check_aggregation(made, known)
            need(made[0] != "AsList" or known.total_order, "order of the list is not certain")
            need(result_name(made) not in args["keys"], "names")
        rows = []
        for key, places in split(known, args["keys"]):
            group = [known.rows[i] for i in places]
            rows.append({**key, **{result_name(a): aggregated(a, group) for a in args["made"]}})
        columns = {n: known.columns[n] for n in args["keys"]}
        for made in args["made"]:
            exact = not made[1] or known.columns[made[1]].exact
            columns[result_name(made)] = Column(result_kind(made, known), exact)
        return known.derive(rows, columns, [0] * len(rows))

    def simpler(self, args: Args) -> list[Args]:
        found = [{**args, "made": [made]} for made in args["made"]] if len(args["made"]) > 1 else []
        if len(args["keys"]) > 1:
            found += [{**args, "keys": [key]} for key in args["keys"]]
        return found


@operator("groupby.map_groups")
class MapGroups(Grouped):
    """A function of all rows of a group."""

    weight = 3.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        args: Args = {
            "keys": self.keys(rng, known),
            "format": rng.choice(["numpy", "pandas", "pyarrow"]),
            "form": rng.choice(["same", "count", "largest", "none"]),
            "way": rng.choices(
                ["plain", "tasks", "generator", "async", "class", "arguments"], [8, 3, 2, 2, 2, 1]
            )[0],
            "parts": rng.choice([None, None, None, 1, 2, 5]),
        }
        if args["form"] == "largest":
            names = [n for n in known.names("int", "str") if not known.missing(n)]
            need(names, "no column")
            args["column"] = rng.choice(names)
        if args["form"] == "count":
            args["new"] = new_name(known, "rows")
        return args

    def lines(self, args: Args, number: int) -> list[str]:
        made, way, name = self._made(args), args["way"], f"f{number}"
        options = ""
        if way == "class":
            function = [f"class {name}:", f"    def __call__(self, g): return {made}"]
            options = f", {POOLS[number % len(POOLS)]}, num_cpus=0.1"
        elif way == "generator":
            function = [f"def {name}(g):", f"    yield {made}"]
        elif way == "async":
            function = [f"async def {name}(g): return {made}"]
        elif way == "arguments":
            function = [f"def {name}(g, one, *, two): return {made}"]
            options = ", fn_args=[1], fn_kwargs={'two': 2}, zero_copy_batch=False"
        else:
            function = [f"def {name}(g): return {made}"]
            options = ", concurrency=2, num_cpus=0.5" if way == "tasks" else ""
        parts = f", num_partitions={args['parts']}" if args["parts"] else ""
        given = f'batch_format="{args["format"]}"{options}'
        return [
            *function,
            f"ds = ds.groupby({self.by(args)}{parts}).map_groups({name}, {given})",
        ]

    def _made(self, args: Args) -> str:
        form, key = args["form"], args["keys"][0]
        if form == "same":
            return "g"
        if form == "none":
            return {"numpy": "{k: v[:0] for k, v in g.items()}", "pandas": "g.iloc[:0]"}.get(
                args["format"], "g.slice(0, 0)"
            )
        if form == "count":
            count = f"len(g[{key!r}])" if args["format"] != "pyarrow" else "g.num_rows"
            return f"{{{args['new']!r}: [{count}]}}"
        column = args["column"]
        value = (
            f"max(g[{column!r}].to_pylist())"
            if args["format"] == "pyarrow"
            else f"max(g[{column!r}])"
        )
        return f"{{'largest': [{value}]}}"

    def apply(self, args: Args, known: Known) -> Known:
        self.check(args, known)
        groups = split(known, args["keys"])
        form = args["form"]
        loose = known.columns if args["format"] == "pyarrow" else known.loosened()
        if args["format"] != "pyarrow":
            need(not [n for n in known.names("big") if known.missing(n)], "floats are not exact")
        if form in ("same", "none"):
            kept = known if form == "same" else known.pick([])
            return kept.derive(columns=loose).unordered()
        if form == "count":
            rows = [{args["new"]: len(places)} for _, places in groups]
            return known.derive(rows, {args["new"]: Column("int")}, [0] * len(rows))
        column = known.column(args["column"], "int", "str")
        need(not known.missing(args["column"]), "missing values")
        rows = [
            {"largest": max((known.rows[i][args["column"]] for i in places), key=sort_key)}
            for _, places in groups
        ]
        return known.derive(rows, {"largest": Column(column.kind)}, [0] * len(rows))

    def simpler(self, args: Args) -> list[Args]:
        found = [{**args, "keys": [key]} for key in args["keys"]] if len(args["keys"]) > 1 else []
        if args["way"] != "plain":
            found.append({**args, "way": "plain"})
        return found
