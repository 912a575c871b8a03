"""Run random plans and compare each with its answer; print the smallest plan that fails.

``python -m tests.plans --plans 500 --seed 1``, or ``make plans ARGS="…"``. Under an
interpreter that has Ray instead, the same plans run on Ray: what fails there is an expectation to
look at.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import logging
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.data

from . import coverage, excused
from .check import Mismatch
from .plan import HEADER, Plan, draw, smaller

DEADLINE_S = 90
LAST_DEADLINE_S = 900  # of a second attempt: on a machine that is busy the first says little


class OutOfTime(BaseException):
    """A plan did not end in time."""


@dataclass
class Failure:
    """How a plan failed."""

    plan: Plan
    reason: str  # the kind of failure, the same for what is likely the same fault
    text: str


@contextlib.contextmanager
def _deadline(seconds: int) -> Iterator[None]:
    def ring(*_: Any) -> None:
        faulthandler.dump_traceback(all_threads=True)
        raise OutOfTime(f"not within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _as_written() -> Iterator[None]:
    """Datasets made meanwhile are executed without a change of their plan."""
    context = ray.data.DataContext.get_current()
    context._optimizes = False
    try:
        yield
    finally:
        context._optimizes = True


def attempt(
    plan: Plan, *, as_written: bool = False, deadline_s: int = DEADLINE_S
) -> Failure | None:
    """Run one plan, or just what was written without the optimiser; None if it gave its answer."""
    how = _as_written() if as_written else contextlib.nullcontext()
    try:
        with how, _deadline(deadline_s), tempfile.TemporaryDirectory() as folder:
            names: dict[str, Any] = {"__name__": "__main__"}
            exec(compile(HEADER + plan.function(), "plan", "exec"), names)  # the plan's own text
            found = names["plan"](folder)
            plan.check(found)
    except Mismatch as error:
        return Failure(plan, "mismatch", str(error))
    except OutOfTime as error:
        if deadline_s < LAST_DEADLINE_S:
            return attempt(plan, as_written=as_written, deadline_s=LAST_DEADLINE_S)
        return Failure(plan, "deadline", str(error))
    except Exception as error:
        return Failure(plan, _kind(error), traceback.format_exc()[-4000:])
    return None


def _kind(error: Exception) -> str:
    """The class of an error and the last line of its text, without numbers."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {re.sub(r'[0-9]+', '#', lines[-1] if lines else '')[:120]}"


def shrink(failure: Failure, within_s: float = 60.0) -> Failure:
    """The smallest plan found in that time that fails in the same way."""
    end = time.monotonic() + within_s
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for plan in smaller(failure.plan):
            if time.monotonic() > end:
                break
            again = attempt(plan)
            if again is not None and again.reason == failure.reason:
                failure, changed = again, True
                break
    return failure


def prepare() -> None:
    """A session for many plans, without progress and without Ray's notes on how to do better."""
    warnings.simplefilter("ignore")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    if not ray.is_initialized():
        ray.init(
            "local", num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False
        )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    context.default_hash_shuffle_parallelism = 3


def main() -> int:
    """The command."""
    options = argparse.ArgumentParser(prog="plans", description=__doc__.splitlines()[0])
    options.add_argument("--plans", type=int, help="how many; without it and --minutes: 500")
    options.add_argument("--minutes", type=float, help="go on for so long")
    options.add_argument("--seed", default="0", help="plans are those of SEED/0, SEED/1, …")
    options.add_argument("--begin", type=int, default=0, help="the number of the first plan")
    options.add_argument("--only", help="one plan, such as 0/17")
    options.add_argument("--show", action="store_true", help="print the script of --only")
    options.add_argument("--out", type=Path, help="folder for scripts of plans that fail")
    options.add_argument("--coverage", type=Path, help="file for the table of what was reached")
    options.add_argument("--failures", type=int, default=20, help="stop after so many")
    options.add_argument(
        "--both", action="store_true", help="run each plan as written, too (not on Ray)"
    )
    options.add_argument("--no-shrink", action="store_true", help="report failures as drawn")
    given = options.parse_args()
    if given.only and given.show:
        print(draw(given.only).script())
        return 0
    prepare()
    return _run(given)


def _run(given: argparse.Namespace) -> int:
    begin, reached, failures = time.monotonic(), coverage.Coverage(), []
    number = 0
    excuses: Counter[str] = Counter()
    total = given.plans or (10**9 if given.minutes else 500)
    while number < total and len(failures) < given.failures:
        if given.minutes and time.monotonic() - begin > 60 * given.minutes:
            break
        plan = draw(given.only or f"{given.seed}/{given.begin + number}")
        number += 1
        failure = attempt(plan)
        if given.both and failure is None:
            failure = attempt(plan, as_written=True)
        why = failure and excused.reason(failure)
        if why:
            excuses[why] += 1
        elif failure is not None:
            failures.append(_reported(failure, given, len(failures)))
        reached.add(plan)
        if given.only:
            break
        if number % 500 == 0:
            print(
                f"{number} plans, {time.monotonic() - begin:.0f} s, {len(failures)} failed",
                flush=True,
            )
    spent = time.monotonic() - begin
    print(
        f"{number} plans in {spent:.0f} s ({number / spent:.1f} a second), {len(failures)} failed"
    )
    for why, count in excuses.most_common():
        print(f"  {count} excused: {why}")
    if given.coverage:
        given.coverage.write_text(reached.table())
    return 1 if failures else 0


def _reported(failure: Failure, given: argparse.Namespace, number: int) -> Failure:
    if not given.no_shrink and failure.reason != "deadline":
        failure = shrink(failure)
    if given.both:
        other = attempt(failure.plan, as_written=True)
        print(
            f"As written, without the optimiser: {other.reason if other else 'the right answer'}."
        )
    text = failure.plan.script(f"{failure.reason}\n{failure.text}")
    print(
        f"\n=== {failure.plan.seed}: {failure.reason}\n{failure.text[-1500:]}\n{failure.plan.function()}"
    )
    sys.stdout.flush()
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"plan{number}.py").write_text(text)
    return failure
