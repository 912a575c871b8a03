"""A plan: a source, operators, a consumer. Drawn from a seed, written as a script, with its answer."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from . import by_batch, by_column, by_order, by_row, combine, files, groups, sources, splits
from .consumers import CONSUMERS
from .known import Inapplicable, Known
from .operator import OPERATORS, Args, Step
from .sources import Source

MODULES = (by_batch, by_column, by_order, by_row, combine, files, groups, splits)  # register all
MAX_ROWS = 600

HEADER = """\
import concurrent.futures, contextlib, csv, datetime, decimal, functools, glob, io, json, os, sqlite3
import numpy as np, pandas as pd, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
import ray
import ray.data
import ray.data.aggregate as agg
from ray.data.expressions import col, lit
"""
ENDING = """\

if __name__ == "__main__":
    import tempfile
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.default_hash_shuffle_parallelism = 3
    with tempfile.TemporaryDirectory() as folder:
        print(plan(folder))
"""


@dataclass(frozen=True)
class Plan:
    """One plan."""

    source: Source
    steps: list[Step]
    consumer: str
    args: Args
    seed: str = ""

    def known(self) -> Known:
        """The answer before the consumer; raises Inapplicable if the plan makes no sense."""
        known = self.source.known()
        for step in self.steps:
            known = step.apply(known)
            if len(known) > MAX_ROWS:
                raise Inapplicable("too many rows")
        CONSUMERS[self.consumer].valid(self.args, known)
        return known

    def check(self, found: Any) -> None:
        """Raise Mismatch unless ``found`` is the answer."""
        CONSUMERS[self.consumer].check(self.args, found, self.known())

    def function(self) -> str:
        """The text of the function that builds and consumes the dataset."""
        lines = self.source.lines("ds")
        for number, step in enumerate(self.steps):
            lines += step.lines(number)
        lines += CONSUMERS[self.consumer].lines(self.args)
        return "def plan(folder):\n" + "".join(f"    {line}\n" for line in lines)

    def script(self, reason: str = "") -> str:
        """A program of its own that runs the plan."""
        comment = "".join(f"# {line}\n" for line in f"{self.seed}\n{reason}".splitlines())
        return f"{comment}{HEADER}\n\n{self.function()}\n{ENDING}"

    def parts(self) -> list[tuple[str, str]]:
        """What the plan covers: its source, operators, consumer and kinds of column."""
        found = [("source", self.source.name)]
        found += [("operator", step.op) for step in self.steps]
        found.append(("consumer", self.consumer))
        found += [("kind", kind) for kind in sorted(set(self.source.kinds.values()))]
        return found


def draw(seed: str) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    source = sources.draw(rng)
    known = source.known()
    steps: list[Step] = []
    wanted = rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 6])
    names = sorted(OPERATORS)  # whatever the order in which their modules were imported
    weights = [OPERATORS[name].weight for name in names]
    for _ in range(40):
        if len(steps) >= wanted:
            break
        name = rng.choices(names, weights)[0]
        try:
            step = Step(name, OPERATORS[name].draw(rng, known))
            after = step.apply(known)
        except Inapplicable:
            continue
        if len(after) <= MAX_ROWS:
            known = after
            steps.append(step)
    return Plan(source, steps, *_consumer(rng, known), seed)


def _consumer(rng: random.Random, known: Known) -> tuple[str, Args]:
    names = sorted(CONSUMERS)
    weights = [CONSUMERS[name].weight for name in names]
    while True:
        name = rng.choices(names, weights)[0]
        try:
            args = CONSUMERS[name].draw(rng, known)
            CONSUMERS[name].valid(args, known)
        except Inapplicable:
            continue
        return name, args


def smaller(plan: Plan) -> list[Plan]:
    """Plans that are simpler by one thing and still make sense."""
    found = [
        replace(plan, steps=plan.steps[:i] + plan.steps[i + 1 :]) for i in range(len(plan.steps))
    ]
    found += [replace(plan, source=source) for source in plan.source.smaller()]
    for i, step in enumerate(plan.steps):
        for args in OPERATORS[step.op].simpler(step.args):
            changed = [*plan.steps[:i], Step(step.op, args), *plan.steps[i + 1 :]]
            found.append(replace(plan, steps=changed))
    if plan.consumer != "take_all":
        found.insert(0, replace(plan, consumer="take_all", args={}))
    return [p for p in found if _makes_sense(p)]


def _makes_sense(plan: Plan) -> bool:
    try:
        plan.known()
    except (Inapplicable, KeyError, IndexError, TypeError, AttributeError, ValueError):
        return False
    return True
