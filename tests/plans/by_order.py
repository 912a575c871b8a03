"""Operators of rows' order and place: sort, limit, shuffles, repartition, materialize."""

from __future__ import annotations

import random

import pandas as pd

from .known import Known, need
from .operator import Args, Operator, operator
from .values import ORDERED, sort_key


def key_names(known: Known) -> list[str]:
    """Columns that rows may be sorted, grouped or joined by."""
    return known.certain_names(*ORDERED)


def codes(known: Known, name: str) -> pd.Series:
    """Numbers in the order of a column's values, equal for equal values; NaN is 10⁹, None 10⁹ + 1."""
    values = sorted({sort_key(row[name]) for row in known.rows if sort_key(row[name])[0] == 0})
    places = {value: i for i, value in enumerate(values)}
    last = {1: 10**9, 2: 10**9 + 1}
    return pd.Series(
        [last.get(k[0], places.get(k, 0)) for k in (sort_key(row[name]) for row in known.rows)],
        dtype="int64",
    )


@operator("sort")
class Sort(Operator):
    """By several keys, each in its own direction; missing values come last in both."""

    weight = 5.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        names = key_names(known)
        need(names, "no key")
        keys = rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3])))
        descending = rng.choice([False, True, [rng.random() < 0.5 for _ in keys]])
        return {"keys": keys, "descending": descending}

    def lines(self, args: Args, number: int) -> list[str]:
        keys = args["keys"] if len(args["keys"]) > 1 else args["keys"][0]
        descending = args["descending"]
        if isinstance(descending, list) and len(descending) == 1:
            descending = descending[0]
        return [f"ds = ds.sort({keys!r}, descending={descending!r})"]

    def apply(self, args: Args, known: Known) -> Known:
        keys, descending = args["keys"], args["descending"]
        for name in keys:
            known.column(name, *ORDERED)
            need(known.certain(name), "keys are not certain")
        down = descending if isinstance(descending, list) else [descending] * len(keys)
        frame = pd.DataFrame({i: codes(known, n) for i, n in enumerate(keys)})
        for i, falls in enumerate(down):
            if falls:
                frame[i] = frame[i].map(lambda code: code if code >= 10**9 else -code)
        frame = frame.sort_values(list(frame.columns), kind="stable")
        ranks = frame.ne(frame.shift()).any(axis=1).cumsum().tolist()
        return known.derive([known.rows[i] for i in frame.index], ranks=ranks)

    def simpler(self, args: Args) -> list[Args]:
        if len(args["keys"]) == 1:
            return []
        return [{"keys": [key], "descending": False} for key in args["keys"]]


@operator("limit")
class Limit(Operator):
    """The first rows."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        need(not known.some, "some rows only")
        ends = [i for i in range(1, len(known)) if known.ranks[i - 1] != known.ranks[i]]
        return {"count": rng.choice([0, len(known), len(known) + 5, *(ends or [0])])}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.limit({args['count']})"]

    def apply(self, args: Args, known: Known) -> Known:
        return known.first(args["count"])


@operator("random_shuffle")
class RandomShuffle(Operator):
    """All rows in another order."""

    def draw(self, rng: random.Random, known: Known) -> Args:
        return {"seed": rng.choice([None, rng.randint(0, 99)])}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.random_shuffle(seed={args['seed']})"]

    def apply(self, args: Args, known: Known) -> Known:
        return known.unordered()


@operator("randomize_block_order")
class RandomizeBlockOrder(RandomShuffle):
    """Blocks in another order."""

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.randomize_block_order(seed={args['seed']})"]


@operator("repartition")
class Repartition(Operator):
    """Other blocks of the same rows: by number, by size, by keys."""

    weight = 4.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        form = rng.choice(["blocks", "blocks", "shuffle", "rows", "keys"])
        args: Args = {"form": form, "count": rng.choice([1, 2, 3, 7])}
        if form == "keys":
            names = [n for n in key_names(known) if known.columns[n].kind in ("int", "str", "bool")]
            need(names, "no key")
            args["key"] = rng.choice(names)
        return args

    def lines(self, args: Args, number: int) -> list[str]:
        count = args["count"]
        given = {
            "blocks": f"{count}",
            "shuffle": f"{count}, shuffle=True",
            "rows": f"target_num_rows_per_block={count}",
            "keys": f"{count}, keys=[{args.get('key')!r}]",
        }
        return [f"ds = ds.repartition({given[args['form']]})"]

    def apply(self, args: Args, known: Known) -> Known:
        if args["form"] == "keys":
            known.column(args["key"], "int", "str", "bool")
            need(known.certain(args["key"]), "keys are not certain")
        return known if args["form"] in ("blocks", "rows") else known.unordered()


@operator("materialize")
class Materialize(Operator):
    """Execute up to here; the rest goes on from the blocks."""

    weight = 1.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        return {}

    def lines(self, args: Args, number: int) -> list[str]:
        return ["ds = ds.materialize()"]

    def apply(self, args: Args, known: Known) -> Known:
        return known


@operator("random_sample")
class RandomSample(Operator):
    """Some of the rows."""

    weight = 0.7

    def draw(self, rng: random.Random, known: Known) -> Args:
        return {"fraction": rng.choice([0.0, 0.3, 0.5, 1.0]), "seed": rng.choice([None, 3])}

    def lines(self, args: Args, number: int) -> list[str]:
        return [f"ds = ds.random_sample({args['fraction']}, seed={args['seed']})"]

    def apply(self, args: Args, known: Known) -> Known:
        need(len(known), "of no rows it is an error")
        if args["fraction"] == 1.0:
            return known
        if args["fraction"] == 0.0:
            return known.pick([])
        return Known(known.columns, known.rows, known.ranks, some=True)
