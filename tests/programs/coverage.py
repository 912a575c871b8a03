"""Which pairs of maker, size, place, consumer and fault programs have reached."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

DIMENSIONS = ("maker", "size", "place", "consumer", "fault")
PAIRS = tuple(itertools.combinations(range(len(DIMENSIONS)), 2))


# What says which values of two dimensions can meet at all. Each rule: where it applies, by the names
# of the values of those dimensions, and whether they meet.
LOOPS = ("loop of a driver", "loop in a thread")
DRIVERS = ("driver", "thread of a driver", "another driver", *LOOPS)
ACTORS = ("plain actor", "threaded actor", "async actor", "grouped actor")
INSIDE = ("argument", "keyword argument", "inside", "closure")
OF_A_CALL = ("error", "crash", "exit", "cancelled", "TaskCancelled", "RayActor", "max_calls")


def can_meet(reading: Mapping[str, str]) -> bool:
    """Whether a reading may have these values of two dimensions: what the oracle and Ray allow."""
    maker, size, place, consumer, fault = (reading.get(name, "") for name in DIMENSIONS)
    is_put = maker.startswith("put")
    on_loop = consumer.startswith("aby_") or ", aby_" in consumer
    if maker and place:
        # What a body puts it reads itself; it travels as a part of other values.
        wanted = {"put in a task": ("task",), "put in an actor": ACTORS}
        return place in wanted.get(maker, (place,))
    if maker and consumer:
        if consumer.startswith("closure"):
            return maker == "put"  # whatever a function captures is kept for good
        if maker.startswith("put in"):
            return not consumer.startswith(INSIDE) and not (on_loop and maker == "put in a task")
    if maker and fault:
        return _can_have(maker, fault, is_put)
    if place and consumer:
        if place in DRIVERS:
            return not consumer.startswith(INSIDE) and on_loop == (place in LOOPS)
        if consumer.startswith("closure"):
            return place == "task"
        return not on_loop or place in ("async actor", "grouped actor")
    if place and fault:
        # Who reads what the body of a call has made is a body.
        return fault != "owner may be dead" or place not in DRIVERS
    if consumer and fault:
        if consumer.startswith("closure"):
            return fault in ("none", "spill")
        return fault != "owner may be dead" or not consumer.startswith(INSIDE)
    # Objects that fill a store are made in sessions that spill.
    return (size, fault) != ("spill", "none")


def _can_have(maker: str, fault: str, is_put: bool) -> bool:
    of_actor = "actor" in maker and not is_put
    if is_put and fault.startswith(OF_A_CALL):
        return False
    if fault == "owner may be dead":
        return maker in ("task", "task of several", "put in a task", "put in an actor")
    if fault == "max_calls":
        return not of_actor
    if fault == "cancelled":  # by a body that waits for it
        return maker in ("task", "task of several")
    if fault == "TaskCancelledError":  # methods are cancelled on a loop, streams by no reference
        loops = ("async", "grouped", "detached", "restarting")
        return "generator" not in maker and (not of_actor or any(kind in maker for kind in loops))
    if "generator" in maker:
        # Items that went with their process, and work of a group that was removed: nobody knows.
        return fault not in ("crash", "exit") and (fault != "RayActorError" or of_actor)
    if of_actor and fault in ("crash retried", "exit retried"):
        return "restarting" in maker or "detached" in maker
    return True


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

    def pairs(self) -> list[tuple[int, int, str, str]]:
        """Pairs of values, each seen, that can meet."""
        values = [self.values(i) for i in range(len(DIMENSIONS))]
        return [
            (i, j, one, other)
            for i, j in PAIRS
            for one in values[i]
            for other in values[j]
            if can_meet({DIMENSIONS[i]: one, DIMENSIONS[j]: other})
        ]

    def never(self) -> list[tuple[int, int, str, str]]:
        """Those that no reading had together."""
        return [pair for pair in self.pairs() if not self.counts[pair]]

    def summary(self) -> str:
        never = self.never()
        pairs = len(self.pairs())
        return (
            f"{self.n_programs} programs reached {pairs - len(never)} of {pairs} pairs of "
            f"{', '.join(DIMENSIONS)} that can meet"
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
                cells = [self.cell(i, j, column, row) for column in columns]
                lines.append("| " + " | ".join([row, *cells]) + " |")
            lines.append("")
        lines += ["## Pairs never reached", ""]
        never = self.never()
        for i, j in PAIRS:
            missing = [(a, b) for k, m, a, b in never if (k, m) == (i, j)]
            if missing:
                lines += [f"{DIMENSIONS[i]} and {DIMENSIONS[j]}:", ""]
                for one, group in itertools.groupby(missing, key=lambda pair: pair[0]):
                    lines.append(f"- {one}: {', '.join(other for _, other in group)}")
                lines.append("")
        return "\n".join(lines).rstrip() + "\n"

    def cell(self, i: int, j: int, one: str, other: str) -> str:
        """The count; a dash where the two cannot meet."""
        count = self.at(i, j, one, other)
        if count or can_meet({DIMENSIONS[i]: one, DIMENSIONS[j]: other}):
            return str(count or "")
        return "-"

    def at(self, i: int, j: int, one: str, other: str) -> int:
        if i < j:
            return self.counts[i, j, one, other]
        return self.counts[j, i, other, one]
