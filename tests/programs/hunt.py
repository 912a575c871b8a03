"""Runs random programs and reports those that fail: ``python -m tests.programs --help``."""

from __future__ import annotations

import argparse
import concurrent.futures
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.programs import emit
from tests.programs.coverage import Coverage
from tests.programs.draw import draw
from tests.programs.model import Program
from tests.programs.oracle import Oracle
from tests.programs.pool import HANG_S, Host, Result, run_batch, sessions_of
from tests.programs.shrink import Shrinker

CHUNK = 800
BATCH = 80
# As many begin in one session; the rest in another, perhaps beside it.
SESSION_MAX = 3 * BATCH
# Side by side in one session; those with a small store would fill it with what each may hold.
THREADS = {"usual": 4, "small": 1, "nodes": 2, "afar": 2}
PAGE = Path(__file__).parent / "reached.md"


@dataclass
class Failure:
    """A program that failed, and the script that shows it."""

    program: Program
    error: str
    script: str = ""


@dataclass
class Hunt:
    """What a run is asked for, and what it has found."""

    python: str = sys.executable
    session: str = ""
    shrink_s: float = 180.0
    limit_s: float = HANG_S
    threads: int = 0
    jobs: int = 2
    coverage: Coverage = field(default_factory=Coverage)
    failures: list[Failure] = field(default_factory=list)
    # A session's results are noted by the thread that feeds it.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, programs: list[Program]) -> None:
        """Run the programs, grouped by the session that they want, a few sessions side by side."""
        parts = [
            (session, group[i : i + SESSION_MAX])
            for (session, _), group in sessions_of(programs).items()
            for i in range(0, len(group), SESSION_MAX)
        ]
        # The slow ones first, so that none of them is left at the end.
        parts.sort(key=lambda part: (THREADS[part[0]], -len(part[1])))
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for done in [pool.submit(self.in_sessions, *part) for part in parts]:
                done.result()

    def in_sessions(self, session: str, programs: list[Program]) -> None:
        while programs:
            programs = self.in_session(session, programs)

    def in_session(self, session: str, programs: list[Program]) -> list[Program]:
        """Run programs in one session; returns those that its end left over."""
        host = Host(self.python, session, self.threads or THREADS[session], self.limit_s)
        rest = programs
        while rest:
            batch, rest = rest[:BATCH], rest[BATCH:]
            results, left = run_batch(host, batch)
            done = {result.program.seed for result in results}
            rest = [program for program in batch if program.seed not in done] + rest
            for result in results:
                self.note(result)
            if left:
                self.find_leaver(batch, left)
            if any(result.is_hang for result in results):
                host.kill()
                return rest
        ended = host.close()
        if ended:
            with self.lock:
                self.failures.append(Failure(programs[-1], ended))
            print(ended, flush=True)
        return rest

    def note(self, result: Result) -> None:
        if result.error:
            self.fail(result.program, result.error)
            return
        oracle = Oracle(result.program)
        for op in result.program.ops:
            oracle.apply(op)
        with self.lock:
            self.coverage.add(oracle.reached)

    def find_leaver(self, programs: list[Program], left: str) -> None:
        """Which of the programs leaves something: by halves."""
        error = f"left: {left}"
        seeds = [program.seed for program in programs]
        # It may not happen again, and the halves take minutes.
        print(f"\none of the seeds {min(seeds)}..{max(seeds)} {error}", flush=True)
        while len(programs) > 1:
            half = programs[: len(programs) // 2]
            found = self.leaves(half)
            if not found:
                half = programs[len(programs) // 2 :]
                found = self.leaves(half)
            if not found:
                break
            programs, error = half, found
        self.fail(programs[0], error)

    def leaves(self, programs: list[Program]) -> str:
        host = Host(self.python, programs[0].session, THREADS[programs[0].session], self.limit_s)
        _, left = run_batch(host, programs)
        host.close()
        return f"left: {left}" if left else ""

    def fail(self, program: Program, error: str) -> None:
        """Report a failure, with a script that is as small as the time allows."""
        print(f"\nseed {program.seed}: {error}", flush=True)
        if self.shrink_s:
            shrinker = Shrinker(program, error, self.shrink_s, self.python)
            again = shrinker.fails(program)
            if again:
                program, error = shrinker.run(), shrinker.error
            else:
                shrinker.drop_host()
                print("did not fail again alone", flush=True)
        head = f"Fails: {' '.join(error.split())[:300]}".replace('"""', "'''").replace("\\", "/")
        script = emit.script_of(program, head)
        with self.lock:
            self.failures.append(Failure(program, error, script))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="programs", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long; without it --programs counts")
    parser.add_argument("--programs", type=int, default=300, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument(
        "--session", default="", help="usual, small, nodes or afar: all in that one"
    )
    parser.add_argument("--ray", help="run them on the Ray of this Python interpreter instead")
    parser.add_argument("--show", action="store_true", help="print the script of the seed only")
    parser.add_argument("--shrink", type=float, default=180.0, help="seconds for each failure")
    parser.add_argument("--limit", type=float, default=HANG_S, help="seconds: a hang after it")
    parser.add_argument("--threads", type=int, default=0, help="programs side by side")
    parser.add_argument("--jobs", type=int, default=2, help="sessions side by side")
    parser.add_argument("--failures", type=int, default=5, help="end after so many")
    parser.add_argument("--out", type=Path, help="a folder for the scripts of failures")
    parser.add_argument("--coverage", type=Path, help="a file to add the coverage to")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name} from --coverage")
    return parser.parse_args(arguments)


HEAD = """\
# What random programs have reached

`make programs` writes random programs with known answers, runs them and compares
([decision 0030](../../docs/decisions/0030-random-programs.md)). This page counts the readings of
programs that gave what they must, by every pair of: who made the value, how large it is, where it was
read, how, and which fault it met. `make programs ARGS="--programs 0 --coverage FILE --page"` writes it from
what earlier runs have added to the file.
"""


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    if given.show:
        print(emit.script_of(draw(given.seed, given.session)))
        return 0
    hunt = Hunt(
        given.ray or sys.executable,
        given.session,
        given.shrink,
        given.limit,
        given.threads,
        given.jobs,
    )
    end = time.monotonic() + 60 * given.minutes if given.minutes else None
    seed, began = given.seed, time.monotonic()
    if given.coverage:
        hunt.coverage.merge(given.coverage)
    earlier_s = hunt.coverage.seconds
    while len(hunt.failures) < given.failures:
        n = CHUNK if end else min(CHUNK, given.seed + given.programs - seed)
        if n <= 0 or (end and time.monotonic() > end):
            break
        known = len(hunt.failures)
        programs = [draw(s, given.session) for s in range(seed, seed + n)]
        if given.ray:
            # Ray's client is another program than its driver.
            programs = [
                replace(one, session="usual") if one.session == "afar" else one for one in programs
            ]
        hunt.run(programs)
        seed += n
        for failure in hunt.failures[known:]:
            show(failure, given.out)
        hunt.coverage.seconds = earlier_s + time.monotonic() - began
        if given.coverage:
            hunt.coverage.save(given.coverage)
        rate = (seed - given.seed) / (time.monotonic() - began)
        print(
            f"seeds {given.seed}..{seed - 1}: {len(hunt.failures)} failures, {rate:.1f} a second",
            flush=True,
        )
    print(hunt.coverage.summary())
    if given.page:
        PAGE.write_text(hunt.coverage.page(HEAD))
    return 1 if hunt.failures else 0


def show(failure: Failure, folder: Path | None) -> None:
    print(f"\n--- seed {failure.program.seed} fails: {failure.error}")
    if folder is None:
        print(failure.script)
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed_{failure.program.seed}.py"
    path.write_text(failure.script)
    print(f"reproduced by {path}", flush=True)
