"""Runs a workload of known answers on machines that fail in every way, and judges what came of it."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.faults import HEAD, Injector, alive, daemons, draw
from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, Machines, why_not

MACHINES = 5
WORKLOAD = Path(__file__).with_name("workload.py")
# After the last fault: until the nodes are back, and until the driver has read, judged and cleared away all.
BACK_S = 120.0
ENDED_S = 400.0
# A process that wakes up with its machine may go on with a call before it is told that it was replaced. Its
# answer counts for nobody, but what the call does outside the cluster is done.
WAKING_S = 10.0
# What the contract allows to be lost, by what it was and the error that says so, and why.
ALLOWED = {
    ("task without retries", "WorkerCrashedError"): "its worker ended and it has no retries",
    ("task without retries", "NodeDiedError"): "its node ended and it has no retries",
    ("task without retries", "ObjectLostError"): "the only copy was on a node that ended",
    ("task without retries", "ObjectReconstructionFailedError"): "the only copy ended, no retries",
    ("held without retries", "WorkerCrashedError"): "its worker ended and it has no retries",
    ("held without retries", "NodeDiedError"): "its node ended and it has no retries",
    ("held without retries", "ObjectLostError"): "the only copy was on a node that ended",
    ("held without retries", "ObjectReconstructionFailedError"): "the only copy ended, no retries",
    ("put by a task", "OwnerDiedError"): "the worker that put it ended",
    ("put by a task", "ObjectLostError"): "the only copy was on a node that ended",
    ("put by a task", "ObjectReconstructionFailedError"): "a put cannot be made again",
    ("mortal actor", "ActorDiedError"): "its process or node ended and it has no restarts",
    ("mortal actor", "ActorUnavailableError"): "the call was under way and has no retries",
}


@dataclass
class Verdict:
    """What a run has shown."""

    seed: int
    seconds: float
    injected: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    # Calls that a process of a machine which hung ended as it woke up; nobody was answered.
    late_calls: int = 0

    def text(self) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{n} {name}" for name, n in sorted(counts.items())) or "none"

        lines = [
            f"seed {self.seed}: {sum(self.injected.values())} faults ({listed(self.injected)})",
            f"  answers: {listed(self.done)}",
            f"  losses that the contract allows: {listed(self.losses)}",
            f"  calls that ended as their machine woke up: {self.late_calls}",
            *(f"  FAILURE: {failure}" for failure in self.failures),
        ]
        if self.failures:
            lines.append(
                f"  again: make chaos ARGS='--seconds {self.seconds:g} --seed {self.seed}'"
            )
        return "\n".join(lines)


def run(seed: int, seconds: float, keep_logs: Path | None = None) -> Verdict:
    """One cluster, its faults and its workload, from the first to the last process."""
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)

    verdict = Verdict(seed, seconds)
    machines = Machines(MACHINES)
    try:
        _run(machines, verdict, say)
    except Exception as error:
        verdict.failures.append(f"{type(error).__name__}: {error}")
    finally:
        if verdict.failures and keep_logs is not None:
            keep_logs.mkdir(parents=True, exist_ok=True)
            for machine in machines.all:
                path = keep_logs / f"seed{seed}-machine{machine.index}.log"
                path.write_text(machine.logs())
            said = machines.all[HEAD].directory / "workload.stdout"
            if said.exists():
                shutil.copy(said, keep_logs / f"seed{seed}-driver.log")
            say(f"the logs of the machines and of the driver are in {keep_logs}")
        machines.close()
    return verdict


def _run(machines: Machines, verdict: Verdict, say: Any) -> None:
    head = machines.all[HEAD]
    head.start_head()
    for machine in machines.all[HEAD + 1 :]:
        machine.join(head)
    calls, stop = head.directory / "calls", head.directory / "stop"
    calls.touch()
    env = {
        "SEED": str(verdict.seed),
        "MACHINES": str(MACHINES),
        "CALLS": str(calls),
        "STOP": str(stop),
    }
    driver = head.start_script(WORKLOAD.read_text(), name="workload", env=env)
    driver.wait_line("ready")
    say("the workload runs")
    injector = Injector(machines, say)
    plan = draw(verdict.seed, verdict.seconds, MACHINES)
    try:
        injector.run(plan, verdict.seconds, lambda: driver.process.poll() is None)
        say("the faults are over")
        ips = {machine.ip for machine in machines.all}
        harness.wait_until(
            lambda: set(alive(head)) == ips, within=BACK_S, what="all nodes are back"
        )
        say("all nodes are back")
        stop.touch()
        ended = driver.finish(ENDED_S)
        if ended.rc or "ended=1" not in ended.stdout:
            verdict.failures.append(f"the driver ended with {ended.rc}: {ended.stderr[-3000:]}")
    finally:
        driver.kill()
        verdict.injected = injector.injected
        read_lines(driver.stdout(), injector, verdict)
        judge_the_named(calls.read_text(), injector, verdict)
    for machine in machines.all:
        if len(daemons(machine)) != 1:
            verdict.failures.append(f"machine {machine.index}: daemons {daemons(machine)}")
    for machine in reversed(machines.all):
        machine.run(str(HELIOSTAT), "stop", "--force")
        harness.wait_until(
            lambda machine=machine: not machine.processes(),
            what=f"the end of all processes of machine {machine.index}: {machine.processes()}",
        )
    say("nothing is left")


def read_lines(output: str, injector: Injector, verdict: Verdict) -> None:
    """The lines that the driver wrote. A loss needs a fault that hit its machine while it was there."""
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        said = json.loads(line)
        if "loss" in said:
            why = ALLOWED.get((said["loss"], said["error"]))
            where = (said["machine"], said["since"], said["at"])
            if why is None:
                verdict.failures.append(f"must not be lost: {line}")
            elif not injector.may_have_ended(*where):
                verdict.failures.append(f"lost, and no fault has hit its machine: {line}")
            else:
                verdict.losses[f"{said['loss']} ({said['error']}: {why})"] += 1
        elif "wrong" in said or "unanswered" in said or "left" in said:
            verdict.failures.append(line)
        elif "done" in said:
            verdict.done.update(said["done"])


def judge_the_named(calls: str, injector: Injector, verdict: Verdict) -> None:
    """Never two actors of one name: no call of an incarnation begins after the first call of a later one."""
    latest = 0
    for line in calls.splitlines():
        born, at, machine = line.split()[:3]
        if int(born) >= latest:
            latest = int(born)
            continue
        woke = [when for index, when in injector.woken if machine == f"machine{index}"]
        if any(0 <= int(at) / 1e9 - when < WAKING_S for when in woke):
            verdict.late_calls += 1
        else:
            verdict.failures.append(f"two named actors: {line} after a call of {latest}")


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="for how long, in all")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first run; the next has the next"
    )
    parser.add_argument("--seconds", type=float, help="one run alone, with faults for so long")
    parser.add_argument("--round", type=float, default=120.0, help="seconds of faults in each run")
    parser.add_argument("--logs", type=Path, default=Path("target/chaos"), help="of runs that fail")
    options = parser.parse_args(args)
    if reason := why_not():
        print(f"machines of namespaces cannot be made: {reason}")
        return 2
    until = time.monotonic() + 60 * options.minutes
    failed, seed = [], options.seed
    while True:
        verdict = run(seed, options.seconds or options.round, options.logs)
        print(verdict.text(), flush=True)
        if verdict.failures:
            failed.append(seed)
        seed += 1
        if options.seconds or time.monotonic() >= until:
            break
    print(f"{seed - options.seed} runs, failed: {failed or 'none'}")
    return 1 if failed else 0
