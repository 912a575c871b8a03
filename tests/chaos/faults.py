"""Faults drawn from a seed, and what injects them into a field of machines."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, Machine, Machines

HEAD = 0
# So many machines are in trouble at once: the head always has more than half of the others or knows it.
TROUBLED_MAX = 2
# The control service may be away for 60 s before nodes give up their workers. Faults that follow each
# other may count as one silence, so that each is far shorter.
HEAD_AWAY_MAX_S = 8.0
WEIGHTS = {
    "cut": 3,
    "half-cut": 2,
    "hang": 3,
    "power-off": 2,
    "kill-worker": 4,
    "kill-daemon": 2,
    "drain": 1,
    "stop": 1,
}
LASTING = ("cut", "half-cut", "hang")
# A silence that costs nothing: the verdict falls after 5 s, counted from the heartbeat before it.
FORGIVEN_S = 4.0
# A node that was declared dead hears of it when its fault is over, and what was begun there meanwhile ends.
JOINED_S = 10.0


@dataclass(frozen=True)
class Step:
    """One fault: so long after the one before, on this machine, for so long where it lasts."""

    pause_s: float
    kind: str
    machine: int
    seconds: float = 0.0
    # One direction: the machines that hear nothing of this one.
    deaf: tuple[int, ...] = ()
    # Which of the machine's workers, modulo how many there are.
    which: int = 0

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        deaf = f", unheard by {','.join(map(str, self.deaf))}" if self.deaf else ""
        return f"{self.kind} machine {self.machine}{lasts}{deaf}"


def draw(seed: int, seconds: float, machines: int) -> list[Step]:
    """More faults than fit into so many seconds; the same for the same seed."""
    drawn = random.Random(seed)
    plan: list[Step] = []
    while sum(step.pause_s for step in plan) < seconds:
        kind = drawn.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        lasting = kind in LASTING
        # The head keeps its processes: the driver lives there, and its end is another contract.
        may_be_head = lasting or kind == "kill-worker"
        machine = drawn.randrange(HEAD if may_be_head else HEAD + 1, machines)
        # Below and above the 5 s after which a machine is declared dead.
        span = drawn.choice([(0.2, 2.0), (2.0, 6.0), (6.0, 14.0)])
        length = drawn.uniform(*span) if lasting else 0.0
        others = [index for index in range(machines) if index != machine]
        plan.append(
            Step(
                pause_s=drawn.uniform(0.5, 5.0),
                kind=kind,
                machine=machine,
                seconds=min(length, HEAD_AWAY_MAX_S) if machine == HEAD else length,
                deaf=tuple(sorted(drawn.sample(others, drawn.randint(1, len(others)))))
                if kind == "half-cut"
                else (),
                which=drawn.randrange(1000),
            )
        )
    return plan


@dataclass(frozen=True)
class Silence:
    """The head and a machine did not hear each other, through a fault of the machine or of the head."""

    machine: int
    began: float
    over: float
    is_heads: bool = False


def verdicts(silences: list[Silence]) -> list[tuple[int, float, float]]:
    """What may have had a machine declared dead: the machine, from when and until when.

    Silences that follow each other may be one: a connection tries again when about as long has passed as it
    was silent. Nobody is declared dead for a silence of the head alone.
    """
    found = []
    for machine in sorted({silence.machine for silence in silences}):
        row = sorted((one for one in silences if one.machine == machine), key=lambda one: one.began)
        while row:
            began, over, is_heads = row[0].began, row[0].over, row[0].is_heads
            row.pop(0)
            while row and row[0].began <= over + min(over - began, FORGIVEN_S):
                over, is_heads = max(over, row[0].over), is_heads and row[0].is_heads
                row.pop(0)
            if over - began > FORGIVEN_S and not is_heads:
                found.append((machine, began, over))
    return found


@dataclass
class Injector:
    """Injects the steps of a plan, and mends what they did."""

    field_of: Machines
    say: Callable[[str], None]
    injected: Counter[str] = field(default_factory=Counter)
    # Of each machine that hung: when it woke up, by the clock that all machines share.
    woken: list[tuple[int, float]] = field(default_factory=list)
    # What may have ended a process, and with it what only the process or its machine had: the machine, when
    # the fault began and when it was over.
    ending: list[tuple[int, float, float]] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    # When it is over, when it began, what it is.
    _active: list[tuple[float, float, Step]] = field(default_factory=list)

    def run(self, plan: list[Step], seconds: float, is_well: Callable[[], bool]) -> None:
        """Inject until the time is over or the workload has ended, then mend everything."""
        until = time.monotonic() + seconds
        try:
            for step in plan:
                if not self._rest(min(until, time.monotonic() + step.pause_s), is_well):
                    break
                if time.monotonic() >= until:
                    break
                self._inject(step)
        finally:
            while self._active:
                self._mend_oldest()

    def _rest(self, until: float, is_well: Callable[[], bool]) -> bool:
        """Wait, mending what is due meanwhile; false when the workload has ended."""
        while (now := time.monotonic()) < until:
            if not is_well():
                return False
            if self._active and self._active[0][0] <= now:
                self._mend_oldest()
                continue
            time.sleep(min(0.05, until - now))
        return True

    def _inject(self, step: Step) -> None:
        blocks = step.kind not in LASTING
        while (
            len(self._active) >= TROUBLED_MAX
            or any(other.machine == step.machine for *_, other in self._active)
            # Who joins or leaves needs the head.
            or (blocks and any(other.machine == HEAD for *_, other in self._active))
        ):
            self._mend_oldest()
        self.say(str(step))
        self.injected[step.kind if step.machine != HEAD else f"{step.kind} of the head"] += 1
        machine = self.field_of.all[step.machine]
        began = time.monotonic()
        if not blocks:
            if step.kind == "cut":
                machine.cut()
            elif step.kind == "hang":
                machine.hang()
            else:
                machine.stop_sending_to(*(self.field_of.all[index] for index in step.deaf))
            self._active.append((time.monotonic() + step.seconds, began, step))
            self._active.sort(key=lambda entry: entry[0])
        elif step.kind == "power-off":
            machine.power_off()
            self._join(self.field_of.replace(machine))
        elif step.kind == "kill-worker":
            self._kill_worker(machine, step.which)
        elif step.kind == "kill-daemon":
            for pid in pids(daemons(machine)):
                machine.run("kill", "-9", pid, check=False)
            harness.wait_until(
                lambda: not machine.processes(), what="the workers end with their daemon"
            )
            self._join(machine)
        else:
            self._leave(machine, step.kind)
        if blocks:
            self.ending.append((step.machine, began, time.monotonic()))

    def may_have_ended(self, machine: int, since: float, at: float) -> bool:
        """Whether a fault may have ended what was on the machine between these times."""
        return any(
            index == machine and began <= at and since <= over + JOINED_S
            for index, began, over in [*self.ending, *verdicts(self.silences)]
        )

    def _mend_oldest(self) -> None:
        due, began, step = self._active.pop(0)
        time.sleep(max(0.0, due - time.monotonic()))
        machine = self.field_of.all[step.machine]
        self.say(f"machine {step.machine}: the {step.kind} is over")
        if step.kind == "hang":
            self.woken.append((step.machine, time.monotonic()))
            machine.wake_up()
        else:
            machine.heal()
        # Others may have been blocking meanwhile, so that it lasted for longer than was meant.
        over = time.monotonic()
        if step.machine != HEAD:
            self.silences.append(Silence(step.machine, began, over))
        elif step.kind != "hang":  # what is sent to a head that hangs waits there
            others = step.deaf or range(HEAD + 1, len(self.field_of.all))
            self.silences += [Silence(other, began, over, is_heads=True) for other in others]

    def _kill_worker(self, machine: Machine, which: int) -> None:
        workers = [line for line in machine.processes() if "ray::" in line]
        if not workers:
            self.say(f"machine {machine.index} has no worker")
            return
        victim = workers[which % len(workers)]
        self.say(f"machine {machine.index}: SIGKILL to {victim.strip()}")
        machine.run("kill", "-9", *pids([victim]), check=False)

    def _leave(self, machine: Machine, kind: str) -> None:
        """In order, by either command; then the machine joins as a new node."""
        if kind == "drain":
            head = self.field_of.all[HEAD]
            for node_id in alive(head).get(machine.ip, []):
                head.run(
                    *(str(HELIOSTAT), "drain-node", "--node-id", node_id),
                    *("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "chaos"),
                    *("--deadline-remaining-seconds", "8"),
                    check=False,  # it may have been declared dead since
                )
            harness.wait_until(lambda: not daemons(machine), what="the end of a drained daemon")
        else:
            machine.run(str(HELIOSTAT), "stop", "--grace-period", "8")
        harness.wait_until(lambda: not machine.processes(), what="the end of its processes")
        self._join(machine)

    def _join(self, machine: Machine) -> None:
        machine.join(self.field_of.all[HEAD])


def daemons(machine: Machine) -> list[str]:
    """The node daemons of a machine, as lines of ps."""
    return [line for line in machine.processes() if "heliostat" in line and " node " in line]


def pids(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines]


def alive(head: Machine) -> dict[str, list[str]]:
    """The nodes that are alive, by address, as the control service has them."""
    listed = head.run(
        *(str(HELIOSTAT), "list", "nodes", "--format", "json", "--filter", "state=ALIVE")
    )
    found: dict[str, list[str]] = {}
    for row in json.loads(listed.stdout):
        found.setdefault(row["node_ip"], []).append(row["node_id"])
    return found
