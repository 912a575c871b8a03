"""Measures the pairs of docs/guide/recipes.md: a mistake and what to write in its place.

``python bench/recipes.py`` prints the table of the page, ``--write`` puts it there. Each pair is run by
turns, three times; the figures are the medians of seconds by the clock and of CPU seconds of the driver.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import heliostat as ray
import numpy as np
from heliostat.util import ActorPool

PAGE = Path(__file__).parents[1] / "docs/guide/recipes.md"
MARKS = "<!-- measured by bench/recipes.py -->", "<!-- end of what was measured -->"
ROUNDS = 3

BIG = np.ones(2_000_000)  # 16 MB


@ray.remote
def wait(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@ray.remote
def add(n: int) -> int:
    return n + 1


@ray.remote
def add_all(numbers: list[int]) -> list[int]:
    return [n + 1 for n in numbers]


@ray.remote
def total(array: np.ndarray, n: int) -> float:
    return float(array[n])


def load() -> float:
    time.sleep(0.2)
    return 1.0


@ray.remote
def load_and_predict(n: int) -> float:
    return load() * n


@ray.remote
class Model:
    def __init__(self) -> None:
        self.factor = load()

    def predict(self, n: int) -> float:
        return self.factor * n

    def slow(self, seconds: float) -> None:
        time.sleep(seconds)


def one_by_one() -> None:
    for _ in range(8):
        ray.get(wait.remote(0.1))


def all_at_once() -> None:
    ray.get([wait.remote(0.1) for _ in range(8)])


def tiny() -> None:
    ray.get([add.remote(n) for n in range(10_000)])


def batched() -> None:
    ray.get([add_all.remote(list(range(n, n + 1000))) for n in range(0, 10_000, 1000)])


def by_value() -> None:
    ray.get([total.remote(BIG, n) for n in range(20)])


def by_reference() -> None:
    array = ray.put(BIG)
    ray.get([total.remote(array, n) for n in range(20)])


def captured() -> None:
    for n in range(5):
        array = BIG + n

        @ray.remote
        def first(array: np.ndarray = array) -> float:
            return float(array[0])

        ray.get(first.remote())


def passed() -> None:
    @ray.remote
    def first(array: np.ndarray) -> float:
        return float(array[0])

    for n in range(5):
        ray.get(first.remote(BIG + n))


def loaded_each_time() -> None:
    ray.get([load_and_predict.remote(n) for n in range(40)])


def loaded_once() -> None:
    pool = ActorPool([Model.remote() for _ in range(4)])
    list(pool.map(lambda model, n: model.predict.remote(n), range(40)))


UNEVEN = [0.4, 0.1, 0.1, 0.1] * 3


def dealt() -> None:
    models = [Model.remote() for _ in range(4)]
    ray.get([models[n % 4].slow.remote(seconds) for n, seconds in enumerate(UNEVEN)])


def pooled() -> None:
    pool = ActorPool([Model.remote() for _ in range(4)])
    list(pool.map_unordered(lambda model, seconds: model.slow.remote(seconds), UNEVEN))


def in_order() -> None:
    references = [wait.remote(seconds) for seconds in (0.4, 0.1, 0.1, 0.1)]
    for reference in references:
        ray.get(reference)
        time.sleep(0.1)  # what the program does with each value


def as_they_come() -> None:
    waiting = [wait.remote(seconds) for seconds in (0.4, 0.1, 0.1, 0.1)]
    while waiting:
        ready, waiting = ray.wait(waiting, num_returns=1)
        ray.get(ready[0])
        time.sleep(0.1)


class Pair(NamedTuple):
    """A row of the table."""

    says: str
    mistake: Callable[[], None]
    better: Callable[[], None]


PAIRS = [
    Pair("[`get` in the loop](#get-in-the-loop): 8 calls of 0.1 s", one_by_one, all_at_once),
    Pair("[calls that are too small](#calls-that-are-too-small): 10,000 additions", tiny, batched),
    Pair(
        "[a large argument, by value](#a-large-argument-by-value): 16 MB, 20 calls",
        by_value,
        by_reference,
    ),
    Pair(
        "[a large value in the function](#a-large-value-in-the-function): 16 MB, 5 times",
        captured,
        passed,
    ),
    Pair(
        "[loading in every call](#loading-in-every-call): 0.2 s, 40 calls",
        loaded_each_time,
        loaded_once,
    ),
    Pair(
        "[dealing work out beforehand](#dealing-work-out-beforehand): 12 uneven pieces",
        dealt,
        pooled,
    ),
    Pair(
        "[results in the order of the calls](#results-in-the-order-of-the-calls): the first is slow",
        in_order,
        as_they_come,
    ),
]


def measured(act: Callable[[], None]) -> tuple[float, float]:
    clock, before = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - clock, time.process_time() - before


def table() -> str:
    ray.init(num_cpus=8, logging_level="error", include_dashboard=False)
    ray.get([wait.remote(0.2) for _ in range(8)])  # workers are there
    rows = [
        "| pattern | mistake: time, driver's CPU | better: time, driver's CPU |",
        "|---|---|---|",
    ]
    for pair in PAIRS:
        rounds = [(measured(pair.mistake), measured(pair.better)) for _ in range(ROUNDS)]
        cells = []
        for side in (0, 1):
            clock = statistics.median(one[side][0] for one in rounds)
            used = statistics.median(one[side][1] for one in rounds)
            cells.append(f"{clock:.2f} s, {used:.2f} s")
        rows.append(f"| {pair.says} | {' | '.join(cells)} |")
    ray.shutdown()
    return "\n".join(rows)


def main() -> None:
    """Print the table, or write it into the page."""
    made = table()
    print(made)
    if "--write" in sys.argv[1:]:
        begin, end = map(re.escape, MARKS)
        text = re.sub(
            rf"({begin}\n).*?({end})",
            lambda found: f"{found[1]}\n{made}\n\n{found[2]}",
            PAGE.read_text(),
            flags=re.DOTALL,
        )
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
