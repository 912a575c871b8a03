"""Which pairs of maker, size, place, consumer and fault programs have reached."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

DIMENSIONS = ("maker", "size", "place", "consumer", "fault")
PAIRS = tuple(itertools.combinations(range(len(DIMENSIONS)), 2))


class Coverage:
    """Counts readings by every pair of two dimensions."""

    def __init__(self) -> None:
        self.n_programs = 0
        self.seconds = 0.0
        self.counts: Counter[tuple[int, int, str, str]] = Counter()

    def add(self, readings: list[tuple[str, str, str, str, str]]) -> None:
        """The readings of one program."""
        self.n_programs += 1
        for reading in readings:
            for i, j in PAIRS:
                self.counts[i, j, reading[i], reading[j]] += 1

    def merge(self, path: Path) -> None:
        """Add what an earlier run has written."""
        if path.exists():
            found = json.loads(path.read_text())
            self.n_programs += found["programs"]
            self.seconds += found["seconds"]
            for i, j, one, other, count in found["pairs"]:
                self.counts[i, j, one, other] += count

    def save(self, path: Path) -> None:
        pairs = [[*pair, count] for pair, count in sorted(self.counts.items())]
        found = {"programs": self.n_programs, "seconds": self.seconds, "pairs": pairs}
        path.write_text(json.dumps(found))

    def values(self, dimension: int) -> list[str]:
        """What was seen of one dimension."""
        found = set()
        for i, j, one, other in self.counts:
            if dimension in (i, j):
                found.add(one if dimension == i else other)
        return sorted(found)

    def never(self) -> list[tuple[int, int, str, str]]:
        """Pairs of values, each seen, that no reading had together."""
        return [
            (i, j, one, other)
            for i, j in PAIRS
            for one in self.values(i)
            for other in self.values(j)
            if not self.counts[i, j, one, other]
        ]

    def summary(self) -> str:
        never = self.never()
        pairs = sum(len(self.values(i)) * len(self.values(j)) for i, j in PAIRS)
        return (
            f"{self.n_programs} programs reached {pairs - len(never)} of {pairs} pairs of "
            f"{', '.join(DIMENSIONS)}"
        )

    def page(self, head: str) -> str:
        """The tables, as a page of the documentation."""
        rate = self.n_programs / max(self.seconds, 1.0)
        pace = f"They ran at {rate:.1f} programs a second, beside whatever else the machine did."
        lines = [head.rstrip(), "", f"{self.summary()}. {pace}", ""]
        for i, j in PAIRS:
            columns, rows = self.values(i), self.values(j)
            if len(columns) > len(rows):
                i, j, columns, rows = j, i, rows, columns
            lines += [f"## {DIMENSIONS[j]} by {DIMENSIONS[i]}", ""]
            lines += ["| " + " | ".join(["", *columns]) + " |", "|---" * (len(columns) + 1) + "|"]
            for row in rows:
                cells = [str(self.at(i, j, column, row) or "") for column in columns]
                lines.append("| " + " | ".join([row, *cells]) + " |")
            lines.append("")
        lines += ["## Pairs never reached", ""]
        for i, j in PAIRS:
            missing = [(a, b) for k, m, a, b in self.never() if (k, m) == (i, j)]
            if missing:
                lines += [f"{DIMENSIONS[i]} and {DIMENSIONS[j]}:", ""]
                for one, group in itertools.groupby(missing, key=lambda pair: pair[0]):
                    lines.append(f"- {one}: {', '.join(other for _, other in group)}")
                lines.append("")
        return "\n".join(lines).rstrip() + "\n"

    def at(self, i: int, j: int, one: str, other: str) -> int:
        if i < j:
            return self.counts[i, j, one, other]
        return self.counts[j, i, other, one]
