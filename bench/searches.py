"""What a search costs: trials and reports a second, and the driver's share of a core.

    python bench/searches.py

Prints a line for each figure. With `tensorboardX` installed its files are written, too.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat import tune


def own_s() -> float:
    """Seconds of the processor that this process has taken."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def search(trainable: Any, trials: int, **config: Any) -> tuple[float, float]:
    """How long a search took, and how much of the processor the driver took, in seconds."""
    run = tune.RunConfig(name="s", storage_path=tempfile.mkdtemp(), verbose=0)
    began, used = time.perf_counter(), own_s()
    options = tune.TuneConfig(num_samples=trials, metric="score", mode="max", **config)
    grid = tune.Tuner(trainable, tune_config=options, run_config=run).fit()
    took, used = time.perf_counter() - began, own_s() - used
    assert grid.num_errors == 0, grid.errors[0]
    return took, used


def nothing(config: dict[str, Any]) -> dict[str, Any]:
    return {"score": 1}


def many(count: int) -> Callable[[dict[str, Any]], None]:
    def reports(config: dict[str, Any]) -> None:
        for n in range(count):
            tune.report({"score": n, "loss": 1 / (n + 1), "accuracy": n / 2})

    return reports


def main() -> None:
    ray.init(num_cpus=4, log_to_driver=False)
    search(nothing, 4)
    for reuse in (True, False):
        took, used = search(nothing, 100, reuse_actors=reuse)
        print(
            f"100 trials of nothing, reuse_actors={reuse}: {took * 10:.1f} ms each, {used:.2f} s of driver"
        )
    loggers = "with" if importlib.util.find_spec("tensorboardX") else "without"
    for count in (1000, 10_000):
        took, used = search(many(count), 4)
        print(
            f"4 x {count} reports {loggers} TensorBoard: {took:.2f} s, {4 * count / took:.0f}/s, "
            f"{used:.2f} s of driver"
        )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
