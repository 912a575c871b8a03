"""What plans have reached: pairs of source, operator, consumer and kind of column."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from .consumers import CONSUMERS
from .operator import OPERATORS
from .plan import Plan
from .sources import MAKERS
from .values import KINDS

Part = tuple[str, str]


def _holds(source: str, kind: str) -> bool:
    """Whether the source has columns of that kind."""
    maker = MAKERS[source]
    fixed = {"int" if k == "id" else k for k in maker.fixed_columns.values()}
    return kind in (maker.allowed if not fixed or "" in fixed else fixed)


class Coverage:
    """Counts pairs of parts that occurred in one plan."""

    def __init__(self) -> None:
        self.plans = 0
        self.pairs: Counter[tuple[Part, Part]] = Counter()
        self.steps: Counter[tuple[str, str]] = Counter()

    def add(self, plan: Plan) -> None:
        """Count a plan."""
        self.plans += 1
        parts = sorted(set(plan.parts()))
        self.pairs.update(combinations(parts, 2))
        names = [step.op for step in plan.steps]
        self.steps.update(zip(names, names[1:], strict=False))

    def _count(self, a: Part, b: Part) -> int:
        return self.pairs[min(a, b), max(a, b)]

    def table(self) -> str:
        """The pairs as tables, and those that were never reached."""
        names = {
            "source": list(MAKERS),
            "operator": list(OPERATORS),
            "consumer": list(CONSUMERS),
            "kind": list(KINDS),
        }
        text = [
            f"# What {self.plans} plans reached\n",
            'Written by `make plans ARGS="--plans 5000 --seed final --coverage tests/plans/coverage.md"`.\n',
            "In how many plans two things occurred together; - where a source cannot have the kind.\n",
        ]
        never: list[str] = []
        for first, second in combinations(names, 2):
            text.append(f"## {first} and {second}\n")
            text += self._grid(first, names[first], second, names[second], never)
        text.append("## operator and the next operator\n")
        text += self._follows(names["operator"], never)
        text.append(f"## Never reached: {len(never)}\n")
        text += [f"- {pair}" for pair in never]
        return "\n".join(text) + "\n"

    def _grid(
        self, first: str, rows: list[str], second: str, columns: list[str], never: list[str]
    ) -> list[str]:
        lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for row in rows:
            counts = [self._count((first, row), (second, c)) for c in columns]
            there = [(first, second) != ("source", "kind") or _holds(row, c) for c in columns]
            never += [
                f"{row} with {c}"
                for c, n, possible in zip(columns, counts, there, strict=True)
                if possible and not n
            ]
            shown = [str(n) if p else "-" for n, p in zip(counts, there, strict=True)]
            lines.append(f"| {row} | {' | '.join(shown)} |")
        return [*lines, ""]

    def _follows(self, names: list[str], never: list[str]) -> list[str]:
        lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for row in names:
            counts = [self.steps[row, name] for name in names]
            never += [f"{row} then {n}" for n, c in zip(names, counts, strict=True) if not c]
            lines.append(f"| {row} | {' | '.join(map(str, counts))} |")
        return [*lines, ""]
