"""What the files of ``programs`` are written with: the mark of a program, and the loop that runs them.

A program returns plain data, its answer. What is right stands in its mark, so that a reader sees question
and answer together; an exception that leaves a program is a failure, whatever it says.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

IS_HELIOSTAT = find_spec("heliostat") is not None

# How long one program may take: a deadline against a hang.
LIMIT_S = float(os.environ.get("STRANGERS_LIMIT_S", 90))

SHARED: dict[str, Any] = {"num_cpus": 4}
_SAME = object()


class Hung(BaseException):
    """A program that did not end in time; no ``except Exception`` of its own swallows it."""


@dataclass(frozen=True)
class Program:
    """One program and what is known of it."""

    run: Callable[[], Any]
    # Where the question comes from: an issue of Ray's tracker ("ray#123"), or a page's name.
    source: str
    answer: Any
    # Options of ``ray.init`` for a cluster of its own; empty: the file's; None: it starts clusters by itself.
    cluster: Mapping[str, Any] | None
    # Ray's answer where it is another one, on purpose, and the reason.
    on_ray: Any
    why: str
    # Why Heliostat does not give the answer yet; a program that gives it all the same is reported.
    fails: str
    # Packages that it imports; where one is missing the program is passed over.
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def right(self) -> Any:
        return self.answer if IS_HELIOSTAT or self.on_ray is _SAME else self.on_ray


_programs: list[Program] = []


def stranger(
    source: str,
    answer: Any,
    *,
    cluster: Mapping[str, Any] | None = SHARED,
    on_ray: Any = _SAME,
    why: str = "",
    fails: str = "",
    needs: tuple[str, ...] = (),
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Marks a function as a program; its docstring says what the stranger wanted."""
    assert bool(why) == (on_ray is not _SAME), (
        "a difference has its reason, and a reason a difference"
    )

    def mark(run: Callable[[], Any]) -> Callable[[], Any]:
        assert run.__doc__, f"{run.__name__} does not say what the stranger wanted"
        _programs.append(Program(run, source, answer, cluster, on_ray, why, fails, needs))
        return run

    return mark


def raised(call: Callable[[], Any]) -> Exception:
    """The exception that the call ends with."""
    try:
        value = call()
    except Exception as error:
        return error
    raise AssertionError(f"no exception, but {value!r}")


def until(probe: Callable[[], Any], what: str = "") -> Any:
    """What ``probe`` returns once that is true."""
    deadline = time.monotonic() + LIMIT_S * 2 / 3
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true: {what or probe}; last value {value!r}")
        time.sleep(0.05)
    return value


# Running -----------------------------------------------------------------------------------------


@contextmanager
def _limit() -> Iterator[None]:
    def ring(*_: Any) -> None:
        faulthandler.dump_traceback(all_threads=True)
        raise Hung(f"no answer within {LIMIT_S:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    # A program that stands where no signal is served ends the process; the reader misses the rest.
    faulthandler.dump_traceback_later(LIMIT_S + 30, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Cluster:
    """The cluster that programs share until one wants another."""

    options: Mapping[str, Any] | None = None

    def __init__(self, started: Callable[[], object]) -> None:
        self.started = started

    def want(self, options: Mapping[str, Any] | None) -> None:
        import ray

        if options is not None and options == self.options and ray.is_initialized():
            return
        self.stop()
        if options is not None:
            ray.init(**{"include_dashboard": False, "address": "local", **options})
            self.options = options
            if options == SHARED:
                self.started()

    def stop(self) -> None:
        import ray

        self.options = None
        serve = sys.modules.get("ray.serve")
        if serve is not None and ray.is_initialized():
            serve.shutdown()
        ray.shutdown()


def _outcome(program: Program, cluster: _Cluster) -> dict[str, Any]:
    """One program's result: ``ok``, ``skipped`` or what is wrong."""
    missing = [name for name in program.needs if find_spec(name) is None]
    if missing:
        return {"skipped": f"no {', '.join(missing)}"}
    began = time.monotonic()
    try:
        with _limit():
            cluster.want(program.cluster)
            answer = program.run()
            wrong = "" if answer == program.right else f"{answer!r}, not {program.right!r}"
    except (Exception, Hung, SystemExit, KeyboardInterrupt) as error:
        wrong = "".join(traceback.format_exception(error))
        # What it left may disturb the next one.
        cluster.stop()
    return {"wrong": wrong, "seconds": round(time.monotonic() - began, 2)}


def main(started: Callable[[], object] = lambda: None) -> None:
    """Runs the file's programs: ``python FILE [RESULTS [NAME,…]]``, a line of JSON each in RESULTS.

    Those that share the file's cluster come first, so that it is started once; ``started`` is called then.
    """
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    names = set(sys.argv[2].split(",")) if len(sys.argv) > 2 else set()
    del sys.argv[1:]
    cluster = _Cluster(started)
    for program in sorted(_programs, key=lambda one: one.cluster != SHARED):
        if names and program.name not in names:
            continue
        row = {"name": program.name, **_outcome(program, cluster)}
        if results is not None:
            with results.open("a") as out:
                out.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    cluster.stop()
