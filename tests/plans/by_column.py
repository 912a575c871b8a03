"""Operators of columns: expressions, adding, dropping, selecting, renaming."""

from __future__ import annotations

import random

from . import expressions
from .by_batch import VECTORS
from .by_row import evaluated
from .known import Column, Known, Row, need, new_name
from .operator import Args, Operator, operator


@operator("with_column")
class WithColumn(Operator):
    """A column computed by an expression, new or in the place of another."""

    weight = 5.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        kind = rng.choice(expressions.MADE)
        expr = expressions.draw(rng, known, kind, 3)
        new = rng.choice(list(known.columns)) if rng.random() < 0.2 else new_name(known, "w")
        return {"expr": expr, "kind": kind, "new": new}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f'ds = ds.with_column("{args["new"]}", {expressions.text(args["expr"])})']

    def apply(self, args: Args, known: Known) -> Known:
        need(known.columns, "no columns")
        return _computed(known, {args["new"]: args["expr"]}, {args["new"]: args["kind"]})

    def simpler(self, args: Args) -> list[Args]:
        expr = args["expr"]
        if expr[0] in ("col", "lit"):
            return []
        result = expressions.OPS[expr[0]][2]
        return [
            {**args, "expr": e}
            for e in expr[1:]
            if e[0] not in ("col", "lit") and expressions.OPS[e[0]][2] == result
        ]


def _computed(known: Known, exprs: dict[str, expressions.Expr], kinds: dict[str, str]) -> Known:
    for expr in exprs.values():
        expressions.check(expr, known)
    rows: list[Row] = [
        {**row, **{n: expressions.value(e, row) for n, e in exprs.items()}} for row in known.rows
    ]
    return known.derive(rows, {**known.columns, **{n: Column(k) for n, k in kinds.items()}})


@operator("with_columns")
class WithColumns(Operator):
    """Several expressions at once; all see the columns as they were."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        kinds = {new_name(known, f"w{i}"): rng.choice(expressions.MADE) for i in range(2)}
        return {
            "kinds": kinds,
            "exprs": {n: expressions.draw(rng, known, k, 2) for n, k in kinds.items()},
        }

    def lines(self, args: Args, number: int) -> list[str]:
        made = ", ".join(f'"{n}": {expressions.text(e)}' for n, e in args["exprs"].items())
        return [f"ds = ds.with_columns({{{made}}})"]

    def apply(self, args: Args, known: Known) -> Known:
        need(known.columns, "no columns")
        return _computed(known, args["exprs"], args["kinds"])


@operator("add_column")
class AddColumn(Operator):
    """A function of a batch gives a column."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        usable = [
            (v, n) for v in VECTORS for n in known.names(v[0]) if v[3] and not known.missing(n)
        ]
        need(usable, "no column for a function of Series")
        vector, name = rng.choice(usable)
        return {"vector": vector, "column": name, "new": new_name(known, "added")}

    def lines(self, args: Args, number: int) -> list[str]:
        function = f"(lambda c: {args['vector'][3]})(b[{args['column']!r}])"
        return [f'ds = ds.add_column("{args["new"]}", lambda b: {function})']

    def apply(self, args: Args, known: Known) -> Known:
        big = [n for n in known.names("big") if known.missing(n)]
        need(not big, "floats do not hold these integers")
        known.column(args["column"], args["vector"][0])
        need(not known.missing(args["column"]), "missing values")
        function = evaluated(f"lambda v: {args['vector'][1]}")
        rows = [{**row, args["new"]: function(row[args["column"]])} for row in known.rows]
        return known.derive(rows, {**known.loosened(), args["new"]: Column(args["vector"][5])})


@operator("drop_columns")
class DropColumns(Operator):
    """Some columns go; at least one stays."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(len(known.columns) > 1, "one column")
        count = rng.randint(1, min(3, len(known.columns) - 1))
        return {"names": rng.sample(list(known.columns), count)}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.drop_columns({args['names']!r})"]

    def apply(self, args: Args, known: Known) -> Known:
        for name in args["names"]:
            known.column(name)
        return _kept(known, [n for n in known.columns if n not in args["names"]])


@operator("select_columns")
class SelectColumns(Operator):
    """Some columns stay, in the order that is given."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        count = rng.randint(1, min(4, len(known.columns)))
        return {"names": rng.sample(list(known.columns), count)}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.select_columns({args['names']!r})"]

    def apply(self, args: Args, known: Known) -> Known:
        for name in args["names"]:
            known.column(name)
        return _kept(known, args["names"])


def _kept(known: Known, names: list[str]) -> Known:
    need(names, "no column is left")
    rows = [{n: row[n] for n in names} for row in known.rows]
    return known.derive(rows, {n: known.columns[n] for n in names})


@operator("rename_columns")
class RenameColumns(Operator):
    """By a dict, which may swap names, or by a list of all names."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(known.columns, "no columns")
        names = list(known.columns)
        form = rng.choice(["dict", "swap", "list"])
        if form == "swap" and len(names) > 1:
            a, b = rng.sample(names, 2)
            return {"names": {a: b, b: a}}
        if form == "list":
            return {"names": {n: f"r_{n}" for n in names}, "list": True}
        return {"names": {rng.choice(names): new_name(known, "renamed")}}

    def lines(self, args: Args, number: int) -> list[str]:
        names = args["names"]
        given = list(names.values()) if args.get("list") else names
        return [f"ds = ds.rename_columns({given!r})"]

    def apply(self, args: Args, known: Known) -> Known:
        names = args["names"]
        for name in names:
            known.column(name)
        if args.get("list"):
            need(list(names) == list(known.columns), "other columns")
        new = [names.get(n, n) for n in known.columns]
        need(len(set(new)) == len(new), "one name twice")
        rows = [{names.get(n, n): v for n, v in row.items()} for row in known.rows]
        return known.derive(rows, {names.get(n, n): c for n, c in known.columns.items()})
