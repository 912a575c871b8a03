"""Operators with a function of a row: map, flat_map, filter."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from . import expressions
from .known import Column, Known, Row, need, new_name
from .operator import Args, Operator, operator

# kind of the argument: (text with v, kind of the result)
FUNCTIONS: dict[str, list[tuple[str, str]]] = {
    "int": [
        ("v * 2 + 1", "int"),
        ("v / 4", "float"),
        ("v % 2 == 0", "bool"),
        ("str(v)", "str"),
        ("[v] * (v % 3)", "list"),
        ("{'x': v, 'y': 'q'}", "struct"),
        ("complex(v, 1)", "object"),
        ("np.full((2, 2), v / 2)", "tensor"),
        ("np.ones((v % 3 + 1, 2))", "ragged"),
        ("datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(v) % 1000)", "ts"),
        ("np.int64(v)", "int"),
        ("float('nan') if v % 2 else float(v)", "float"),
    ],
    "big": [("v - 1", "big")],
    "float": [("v * 2.0", "float"), ("v > 0", "bool"), ("np.float64(v)", "float")],
    "str": [("v.upper()", "str"), ("len(v)", "int"), ("v + '!'", "str"), ("v.encode()", "bytes")],
    "bool": [("not v", "bool"), ("int(v)", "int")],
    "ts": [("v.year", "int"), ("v + datetime.timedelta(days=1)", "ts")],
    "date": [("v.year", "int")],
    "list": [("len(v)", "int"), ("list(v) + [7]", "list"), ("{'x': len(v), 'y': 'l'}", "struct")],
    "struct": [("v['x']", "int"), ("v['y']", "str")],
    "deep": [("len(v['p'])", "int"), ("v['s']['t']", "str"), ("v['s']['u'][0]", "str")],
    "decimal": [("v + 1", "decimal"), ("float(v)", "float"), ("int(v)", "int")],
    "tensor": [("float(v.sum())", "float"), ("v * 2", "tensor")],
    "ragged": [("v.shape[0]", "int")],
    "bytes": [("len(v)", "int"), ("v + b'x'", "bytes")],
    "object": [("v.real", "float"), ("v * 2", "object")],
}
# Conditions that keep some rows, by kind.
CONDITIONS: dict[str, str] = {
    "int": "v % 2 == 0",
    "big": "v > 0",
    "float": "v > 0",
    "str": "v < 'b'",
    "bool": "v",
    "ts": "v.hour < 12",
    "date": "v.day < 15",
    "list": "len(v) > 1",
    "struct": "v['x'] is not None",
    "deep": "len(v['p']) > 1",
    "decimal": "v > 1",
    "tensor": "v[0, 0] > 2",
    "ragged": "len(v) > 1",
    "bytes": "len(v) > 1",
    "object": "v.real > 1",
}
NAMES = {"np": np, "datetime": datetime}
# Pools of actors: of one size, and such as grow and shrink.
POOLS = (
    "concurrency=1",
    "concurrency=(1, 2)",
    "compute=ray.data.ActorPoolStrategy(min_size=1, max_size=3, max_tasks_in_flight_per_actor=1)",
    "concurrency=2",
    "concurrency=(1, 3, 2)",
)


def evaluated(text: str) -> Callable[..., Any]:
    """The function of a text."""
    made: Callable[..., Any] = eval(text, dict(NAMES))  # the plan's own text
    return made


def of_value(text: str, column: str) -> str:
    """The text of a function of a value applied to a row's column, None where the value is."""
    return f"(lambda v: None if v is None else {text})(r[{column!r}])"


def drawn(rng: random.Random, known: Known) -> tuple[str, str, str]:
    """A column, a function of its values, and the kind of the result."""
    names = known.certain_names()
    need(names, "no column with certain values")
    name = rng.choice(names)
    text, kind = rng.choice(FUNCTIONS[known.columns[name].kind])
    return name, text, kind


def calls(method: str, function: str, way: str, number: int) -> list[str]:
    """Ways to pass a function of a row to a method."""
    if way == "class":
        return [
            f"class F{number}:",
            "    def __init__(self, extra=0): self.extra = extra",
            f"    def __call__(self, r): return ({function})(r)",
            (
                f"ds = ds.{method}(F{number}, {POOLS[number % len(POOLS)]}, "
                "fn_constructor_kwargs={'extra': 1}, num_cpus=0.1)"
            ),
        ]
    if way == "arguments":
        return [
            f"ds = ds.{method}(lambda r, f, *, k: f(r), fn_args=[{function}], fn_kwargs={{'k': 1}})"
        ]
    if way == "tasks":
        return [f"ds = ds.{method}({function}, concurrency=2, num_cpus=0.5)"]
    return [f"ds = ds.{method}({function})"]


def way(rng: random.Random) -> str:
    """How the function is passed; actors take longer to start, so they are rare."""
    return rng.choices(["plain", "arguments", "tasks", "class"], [20, 3, 3, 1])[0]


class ByRow(Operator):
    """An operator with a function of a row, whose text is both run and used for the answer."""

    method = ""

    def lines(self, args: Args, number: int) -> list[str]:
        return calls(self.method, self.text(args), args["way"], number)

    def text(self, args: Args) -> str:
        """The function's text."""
        raise NotImplementedError

    def simpler(self, args: Args) -> list[Args]:
        return [{**args, "way": "plain"}] if args["way"] != "plain" else []


@operator("map")
class Map(ByRow):
    """A function gives one row for each."""

    weight = 4.0
    method = "map"

    def draw(self, rng: random.Random, known: Known) -> Args:
        form = rng.choice(["add", "add", "replace", "only", "same", "types"])
        args: Args = {"form": form, "way": way(rng)}
        if form == "same":
            return args
        if form == "types":
            exact = [n for n in known.certain_names() if known.columns[n].kind != "ts"]
            need(exact, "no exact column")
            return {**args, "column": rng.choice(exact), "new": new_name(known, "type")}
        name, text, kind = drawn(rng, known)
        new = name if form == "replace" else new_name(known, "m")
        own = known.columns[name].kind
        return {**args, "column": name, "own": own, "text": text, "kind": kind, "new": new}

    def text(self, args: Args) -> str:
        if args["form"] == "same":
            return "lambda r: r"
        if args["form"] == "types":
            return f"lambda r: {{**r, {args['new']!r}: type(r[{args['column']!r}]).__name__}}"
        value = of_value(args["text"], args["column"])
        rest = "" if args["form"] == "only" else "**r, "
        return f"lambda r: {{{rest}{args['new']!r}: {value}}}"

    def apply(self, args: Args, known: Known) -> Known:
        form = args["form"]
        if form == "same":
            return known
        function = evaluated(self.text(args))
        known.column(args["column"], *([args["own"]] if "own" in args else []))
        need(known.certain(args["column"]), "values are not certain")
        if form == "types":
            need(known.columns[args["column"]].exact, "types are not certain")
        rows = [function(row) for row in known.rows]
        rest = {} if form == "only" else known.columns
        return known.derive(rows, {**rest, args["new"]: Column(args.get("kind", "str"))})


@operator("flat_map")
class FlatMap(ByRow):
    """A function gives any number of rows for each."""

    method = "flat_map"

    def draw(self, rng: random.Random, known: Known) -> Args:
        args: Args = {"form": rng.choice(["twice", "numbered", "by value"]), "way": way(rng)}
        if args["form"] == "by value":
            names = known.certain_names("int")
            need(names, "no column of integers")
            return {**args, "column": rng.choice(names)}
        return {**args, "new": new_name(known, "j")}

    def text(self, args: Args) -> str:
        if args["form"] == "twice":
            return "lambda r: [r, r]"
        if args["form"] == "numbered":
            return f"lambda r: [{{**r, {args['new']!r}: j}} for j in range(3)]"
        return f"lambda r: [r] * ((r[{args['column']!r}] or 0) % 3)"

    def apply(self, args: Args, known: Known) -> Known:
        if args["form"] == "by value":
            need(known.column(args["column"], "int") and known.certain(args["column"]))
        function = evaluated(self.text(args))
        rows: list[Row] = []
        ranks: list[int] = []
        alone = known.total_order
        for row, rank in zip(known.rows, known.ranks, strict=True):
            for made in function(row):
                ranks.append(len(rows) if alone else rank)
                rows.append(made)
        columns = dict(known.columns)
        if args["form"] == "numbered":
            columns[args["new"]] = Column("int")
        return known.derive(rows, columns, ranks)


@operator("filter(fn)")
class Filter(ByRow):
    """A function says which rows stay."""

    weight = 3.0
    method = "filter"

    def draw(self, rng: random.Random, known: Known) -> Args:
        if rng.random() < 0.15:
            return {"all": rng.random() < 0.3, "way": way(rng)}
        names = known.certain_names()
        need(names, "no column with certain values")
        name = rng.choice(names)
        return {"column": name, "own": known.columns[name].kind, "way": way(rng)}

    def text(self, args: Args) -> str:
        if "all" in args:
            return f"lambda r: {args['all']}"
        return f"lambda r: bool({of_value(CONDITIONS[args['own']], args['column'])})"

    def apply(self, args: Args, known: Known) -> Known:
        if "column" in args:
            known.column(args["column"], args["own"])
            need(known.certain(args["column"]), "values are not certain")
        function = evaluated(self.text(args))
        return known.pick([i for i, row in enumerate(known.rows) if function(row)])


@operator("filter(expr)")
class FilterExpr(Operator):
    """An expression says which rows stay; those for which it is null do not."""

    weight = 3.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        return {"expr": expressions.draw(rng, known, "bool", 2)}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.filter(expr={expressions.text(args['expr'])})"]

    def apply(self, args: Args, known: Known) -> Known:
        need(known.columns, "no columns")
        expressions.check(args["expr"], known)
        kept = [i for i, row in enumerate(known.rows) if expressions.value(args["expr"], row)]
        return known.pick(kept)
