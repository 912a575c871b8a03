"""Replacing a replica group while the others go on.

A loss is told to the coordinator at once: it has the others finish their step without the group. What
is left of the group (where it has several workers) ends its function; then all of its ranks
are started again, on fresh workers where the process is gone. A group whose function fails again before
it is in is given time: what it wants, such as its storage, may be away.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import heliostat as ray
from heliostat.train.backend import Replicas
from heliostat.train.controller.failures import RankFailure
from heliostat.train.controller.pauses import Pauses
from heliostat.train.group.worker_group import WorkerGroup
from heliostat.train.messages import Outcome


@dataclass
class _Broken:
    """A group that is being replaced."""

    # Ranks whose functions still run, and until when they may.
    running: set[int]
    deadline: float
    # When it is started again, once none of them does.
    begins_at: float
    # Ranks whose processes can be used again.
    reusable: set[int] = field(default_factory=set)
    # The rank that was slow, whose machine may be the cause.
    slow: int | None = None

    @property
    def due(self) -> float:
        """The time at which something has to be done about the loss."""
        return self.deadline if self.running else self.begins_at


class Replacer:
    """Replaces groups of one attempt."""

    def __init__(
        self,
        group: WorkerGroup,
        replicas: Replicas,
        unwind_s: float,
        tell_lost: Callable[[int, bool], bool],
        start: Callable[[int, int], Any],
        may_allow: Callable[[RankFailure], bool],
        allow: Callable[[RankFailure], None],
        renewed: Callable[[int], None],
        grow: Callable[[range], list[Any] | None],
    ) -> None:
        self._group = group
        self._replicas = replicas
        self._unwind_s = unwind_s
        self._tell_lost = tell_lost
        self._start = start
        self._may_allow = may_allow
        self._allow = allow
        self._renewed = renewed
        # Starts the function on workers that have joined; None: there is nothing left to do for them.
        self._grow = grow
        self._is_closed = False
        self._broken: dict[int, _Broken] = {}
        self._incarnations: dict[int, int] = {}
        # Groups that have been replaced and are not in again.
        self._outside: set[int] = set()
        self._pauses: defaultdict[int, Pauses] = defaultdict(Pauses)
        # Where fresh workers run, as soon as they can say.
        self.infos: dict[Any, int] = {}

    def group_of(self, rank: int) -> int:
        """The replica group of a rank."""
        return rank // self._replicas.size

    def lost(self, failure: RankFailure, refs: dict[Any, int], reusable: bool) -> bool:
        """A rank has failed or died. False: its group cannot be replaced, the attempt has failed."""
        number = failure.rank // self._replicas.size
        broken = self._broken.get(number)
        if broken is not None:
            self._ended(number, failure.rank, refs, reusable)
            return True
        groups = len(self._group) // self._replicas.size
        if groups - len(self._broken) - 1 < max(1, self._replicas.least):
            return False
        if not self._may_allow(failure) or not self._tell_lost(number, True):
            return False
        self._allow(failure)
        failed_again = number in self._outside and not failure.died
        pause_s = self._pauses[number].next_s() if failed_again else 0.0
        self._break(number, failure.rank, refs, reusable, pause_s)
        return True

    def retire(self, rank: int, refs: dict[Any, int]) -> bool:
        """Replace the group of a rank that is slow. False: it stays, since too few others are there."""
        number = rank // self._replicas.size
        groups = len(self._group) // self._replicas.size
        if self._broken or self._outside or groups - 1 < max(1, self._replicas.least):
            return False
        if not self._tell_lost(number, False):
            return False
        self._break(number, rank, refs, False, slow=rank)
        return True

    def _break(
        self,
        number: int,
        rank: int,
        refs: dict[Any, int],
        reusable: bool,
        pause_s: float = 0.0,
        slow: int | None = None,
    ) -> None:
        """The first rank of a group has ended: the others of the group are to follow."""
        running = {r for r in refs.values() if r // self._replicas.size == number}
        now = time.monotonic()
        self._broken[number] = _Broken(running, now + self._unwind_s, now + pause_s, slow=slow)
        self._ended(number, rank, refs, reusable)

    def unwound(self, rank: int, refs: dict[Any, int], outcome: Outcome) -> None:
        """A function has been ended from outside."""
        number = rank // self._replicas.size
        if number not in self._broken:
            # The worker could not get the state of a peer, and has another try; or the training is over.
            if not self._tell_lost(number, True):
                return
            self._break(number, rank, refs, outcome.reusable)
            return
        self._ended(number, rank, refs, outcome.reusable)

    def _ended(self, number: int, rank: int, refs: dict[Any, int], reusable: bool) -> None:
        broken = self._broken[number]
        broken.running.discard(rank)
        if reusable:
            broken.reusable.add(rank)
        if not broken.running and time.monotonic() >= broken.begins_at:
            self._restart(number, refs)

    def tick(self, refs: dict[Any, int]) -> float | None:
        """Replace what has not ended in time; in how many seconds to look again."""
        self._take_in(refs)
        now = time.monotonic()
        for number, broken in list(self._broken.items()):
            if now < broken.due:
                continue
            for ref in [ref for ref, rank in refs.items() if rank in broken.running]:
                del refs[ref]
            broken.running.clear()
            self._restart(number, refs)
        waits = [b.due - now for b in self._broken.values()]
        return max(0.0, min(waits)) if waits else None

    def _restart(self, number: int, refs: dict[Any, int]) -> None:
        broken = self._broken.pop(number)
        self._outside.add(number)
        incarnation = self._incarnations[number] = self._incarnations.get(number, 0) + 1
        size = self._replicas.size
        for rank in range(number * size, (number + 1) * size):
            if rank not in broken.reusable:
                self.infos[self._group.renew(rank, rank == broken.slow)] = rank
            else:
                self._renewed(rank)
            refs[self._start(rank, incarnation)] = rank

    def _take_in(self, refs: dict[Any, int]) -> None:
        """Make groups of the recruits that are ready; they begin beside the others."""
        size = self._replicas.size
        while not self._is_closed and self._group.recruits.ready >= size:
            ranks = self._group.enlarge(size)
            if not ranks:
                return
            started = self._grow(ranks)
            if started is None:
                self._is_closed = True
                return
            self._outside.add(ranks.start // size)
            refs.update(zip(started, ranks, strict=True))

    def admitted(self, groups: list[int]) -> None:
        """Replaced groups train again."""
        self._outside.difference_update(groups)
        for group in groups:
            self._pauses[group].over()

    def are_late(self, ranks: Iterable[int]) -> bool:
        """Whether all of ``ranks`` belong to groups that have been lost and are not in again."""
        late = self._outside | set(self._broken)
        return all(rank // self._replicas.size in late for rank in ranks)

    def arrived(self, ref: Any) -> None:
        """A fresh worker says where it runs."""
        rank = self.infos.pop(ref)
        worker = self._group.workers[rank]
        worker.is_awaited = False
        try:
            worker.info = ray.get(ref)
        except ray.exceptions.RayError:
            return  # it died as well; its call says so
        self._renewed(rank)
