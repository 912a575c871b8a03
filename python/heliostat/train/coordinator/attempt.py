"""The state of one attempt inside the coordinator: its meeting points and who waits at them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heliostat.train.coordinator.rendezvous import Rendezvous, Round
from heliostat.train.messages import Reply
from heliostat.train.worker.stack_reader import Place

REPORT, COLLECTIVE = "report", "collective"


@dataclass
class Attempt:
    """A run of the training function by a group of workers."""

    number: int
    world_size: int
    meetings: dict[str, Rendezvous] = field(default_factory=dict)
    waiters: dict[tuple[str, int], asyncio.Future[Reply]] = field(default_factory=dict)
    # The call that each rank's training function is blocked in.
    blocked: dict[int, tuple[str, int]] = field(default_factory=dict)
    # Per rank: what its control thread shall do next.
    commands: dict[int, asyncio.Queue[str]] = field(default_factory=dict)
    # Per rank: how often its control thread has called; it does so every few seconds while it lives.
    beats: dict[int, int] = field(default_factory=dict)
    stacks: dict[int, str] = field(default_factory=dict)
    # The places at which the stacks of ranks that do not answer can be read.
    places: dict[int, Place] = field(default_factory=dict)
    # Ranks whose collective operation has timed out, with what they were doing.
    timed_out: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    # Excused ranks that came back: what to add to their own count of reports.
    offsets: dict[int, int] = field(default_factory=dict)
    # How often a rank has been replaced within this attempt.
    incarnations: dict[int, int] = field(default_factory=dict)
    group_size: int = 1
    # A library in the workers decides who trains together.
    has_foreign_quorum: bool = False
    # Replaced workers of which nobody knows at which report they are.
    unaligned: set[int] = field(default_factory=set)
    next_report: int = 0
    # By rank: how many reports it has made, and when the last one; of those that the driver has not heard.
    reported: dict[int, tuple[int, float]] = field(default_factory=dict)
    # Ranks whose training function has returned.
    returned: set[int] = field(default_factory=set)
    # Ranks that went with a node that was taken away, and for whom nobody waits.
    lost: set[int] = field(default_factory=set)
    over: bool = False
    # The attempt ends behind the checkpoint that was just published: nothing has failed.
    is_dismissed: bool = False

    def __post_init__(self) -> None:
        self.meetings = {k: Rendezvous(self.world_size) for k in (REPORT, COLLECTIVE)}
        self.commands = {r: asyncio.Queue() for r in range(self.world_size)}

    def waiter(self, kind: str, index: int) -> asyncio.Future[Reply]:
        """Return the future that all ranks at this call wait for."""
        future = self.waiters.get((kind, index))
        if future is None:
            future = self.waiters[kind, index] = asyncio.get_running_loop().create_future()
        return future

    def settle(self, kind: str, round_: Round, reply: Reply) -> None:
        """End a round: every rank that waits in this call gets the reply."""
        self.meetings[kind].close(round_)
        for rank in round_.arrived:
            self.blocked.pop(rank, None)
        future = self.waiters.pop((kind, round_.index), None)
        if future is not None and not future.done():
            future.set_result(reply)

    def end(self) -> None:
        """The attempt is over: everybody who waits hears so."""
        self.over = True
        for future in self.waiters.values():
            if not future.done():
                future.set_result(Reply(go_on=False))
        self.waiters.clear()
        self.interrupt()

    def dismiss(self) -> None:
        """Have the training functions end where they are, of which none has failed."""
        self.is_dismissed = True
        self.interrupt()

    def interrupt(self) -> None:
        """Have the training functions end where they are."""
        for queue in self.commands.values():
            queue.put_nowait("end")

    def vacate(self, ranks: Iterable[int]) -> list[tuple[str, Round]]:
        """Workers are lost and will be replaced; returns the rounds that waited for them only.

        What is left of them, or of their group, is told to end.
        """
        for rank in ranks:
            self.incarnations[rank] = self.incarnations.get(rank, 0) + 1
            self.returned.discard(rank)
            self.commands[rank].put_nowait("end")
            self.commands[rank] = asyncio.Queue()
            self.blocked.pop(rank, None)
            self.beats.pop(rank, None)
            self.timed_out.pop(rank, None)
            self.offsets.pop(rank, None)
            # The rank may have counted a step that the others make anew without its group.
            self.meetings[REPORT].withdraw(rank)
        return self.leave(*ranks)

    def leave(self, *ranks: int) -> list[tuple[str, Round]]:
        """``ranks`` make no further call; returns the rounds that waited for them only."""
        return [(kind, r) for kind, m in self.meetings.items() for r in m.leave(*ranks)]

    def grow(self, ranks: range) -> None:
        """Workers have joined the group; they take part in reports and collectives once they are let in."""
        self.world_size = ranks.stop
        for meeting in self.meetings.values():
            meeting.grow(ranks.stop)
        for rank in ranks:
            self.commands[rank] = asyncio.Queue()

    @property
    def has_leavers(self) -> bool:
        """Whether some training function has returned."""
        return any(self.meetings[REPORT].gone - self.unaligned)

    def align(self, rank: int) -> bool:
        """Have a replaced worker take part again, if others wait at the report that it makes.

        Where all workers have been replaced, it begins a count of its own.
        """
        others = set(range(self.world_size)) - self.unaligned - self.meetings[REPORT].gone
        round_ = self.meetings[REPORT].rounds.get(self.next_report)
        if others and (round_ is None or not round_.arrived):
            return False
        self.unaligned.discard(rank)
        self.let_in([rank])
        return True

    def let_in(self, ranks: list[int]) -> None:
        """Replaced workers take part in reports and collectives again."""
        for rank in ranks:
            for meeting in self.meetings.values():
                meeting.gone.discard(rank)
                meeting.excused.discard(rank)

    def everyone_blocked(self) -> bool:
        """Whether no rank can move any more: each waits in some call that others do not make."""
        gone = self.meetings[REPORT].gone
        return all(r in self.blocked or r in gone for r in range(self.world_size))

    def describe_blocked(self) -> str:
        """Return which ranks wait at which call, in words."""
        names: dict[str, list[int]] = {}
        for rank, (kind, index) in sorted(self.blocked.items()):
            round_ = self.meetings[kind].rounds.get(index)
            what = "report()"
            if kind == COLLECTIVE and round_ is not None:
                what = f"collective.{round_.arrived[rank][0]}()"
            names.setdefault(what, []).append(rank)
        return "; ".join(f"{ranks_text(ranks)} in {what}" for what, ranks in names.items())


def ranks_text(ranks: list[int]) -> str:
    """``rank 3`` or ``ranks 0, 2``."""
    return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(map(str, ranks))}"


# Where a member of a quorum waits for the others.
_OWN_WAITS = ("train/torch/replica/ring.py", "train/torch/replica/link.py")


def looks_blocked_in_collective(stack: str) -> bool:
    """Whether a stack's innermost call is a collective operation, or a backward pass with one."""
    own = stack.partition("What its process ")[0]
    frames = [line for line in own.splitlines() if line.lstrip().startswith("File ")]
    if not frames:
        return False
    inner = frames[-1].replace("\\", "/")
    if any("/torchft/" in frame.replace("\\", "/") for frame in frames):
        return True  # its quorum waits for all workers that live
    if any(p in frame for frame in frames[-3:] for p in _OWN_WAITS):
        return True
    if "torch/nn/parallel/distributed.py" in inner:
        return "in forward" not in inner and "in _run_ddp_forward" not in inner
    return any(p in inner for p in ("torch/distributed/", "torch/autograd/", "torch/_tensor.py"))


def pick(entries: dict[int, Any]) -> Any:
    """Rank 0's contribution, or that of the lowest rank that made one."""
    return entries[min(entries)]
