"""The order of test files: those that take longest begin, so that none is left at the end beside idle ones.

``tests/longest.txt`` has them, with the seconds that they took beside three others on two cores. A whole run
of ``make test`` writes ``target/longest.txt`` in the same form; take it over when the order has changed much.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
# Files that take less begin in any order.
SHORTEST_S = 10.0


def recorded() -> dict[str, float]:
    """Seconds by file, below this folder."""
    rows = (line.split() for line in (HERE / "longest.txt").read_text().splitlines())
    return {name: float(seconds) for seconds, name in rows}


class Longest:
    """A plugin: puts tests in order where they are divided among processes, and adds up what they took."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """In each of the processes alike; where there is one alone, the order stays."""
        if hasattr(config, "workerinput"):
            seconds = recorded()
            items.sort(key=lambda item: -seconds.get(_name(item.nodeid), 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up the seconds of every phase of a test."""
        self.seconds[_name(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session: Any) -> None:
        """Write the seconds of each file, in the process that divided the tests among others."""
        config = session.config
        if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
            return
        rows = [row for row in self.seconds.most_common() if row[1] >= SHORTEST_S]
        target = HERE.parent / "target"
        target.mkdir(exist_ok=True)
        text = "".join(f"{round(seconds)} {name}\n" for name, seconds in rows)
        (target / "longest.txt").write_text(text)


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")
