"""The coordinator's side of replica groups: carries out what ``replicas.quorum`` decides.

It also holds the meeting point at which process groups are made, so that it goes with no worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import heliostat as ray
from heliostat.train.replicas.messages import (
    Abort,
    Action,
    Admit,
    Announce,
    Arrival,
    Dissolve,
    End,
    Form,
    Join,
    Progress,
    Refuse,
)
from heliostat.train.replicas.quorum import Quorum

# How long those who are through wait for a group that is being replaced.
_LAST_WAIT_S = 30.0
# A push is waited for so long, then the rank asks again.
_LISTEN_S = 5.0


class RefusedError(ValueError):
    """A rank cannot take part. The text says why."""


def open_store() -> tuple[str, int, Any]:
    """Open the meeting point of process groups; returns its address, and what keeps it open."""
    from torch.distributed import TCPStore

    address = ray.util.get_node_ip_address()
    store = TCPStore(
        address, 0, is_master=True, timeout=timedelta(seconds=60), wait_for_workers=False
    )
    return address, int(store.port), store


class QuorumService:
    """The quorum of an attempt: ranks that wait for an answer, and the messages to send."""

    def __init__(
        self,
        groups: int,
        size: int,
        least: int,
        emit: Callable[[str, dict[str, Any]], None],
        admitted: Callable[[list[int]], None],
        is_elastic: bool = False,
    ) -> None:
        self.quorum = Quorum(groups, size, least, is_elastic)
        self._groups = groups
        self._size = size
        self._emit = emit
        self._admitted = admitted
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._pushes: dict[int, asyncio.Queue[Any]] = {}
        # The state that newcomers take: by quorum and shard, a reference to the state of the donor.
        self._states: dict[tuple[int, int], asyncio.Future[Any]] = {}
        # How many newcomers have not read it yet.
        self._takers: dict[tuple[int, int], int] = {}
        # The last admission of newcomers: its quorum, and the group whose state they take.
        self._donor: tuple[int, int | None] = (0, None)
        # The donors of quorums up to this one are gone: who asks for their state only now hears so.
        self._orphaned = 0
        self._timer: asyncio.TimerHandle | None = None
        self._told_quorum = -1
        # Ranks of groups that were replaced and are not in again.
        self.outside: set[int] = set()

    def close(self) -> None:
        """The attempt is over: everybody who waits hears so."""
        for future in [*self._answers.values(), *self._states.values()]:
            if not future.done():
                future.set_result(None)
        for queue in self._pushes.values():
            queue.put_nowait(None)
        if self._timer is not None:
            self._timer.cancel()

    # ---- ranks ----

    async def join(self, rank: int, incarnation: int, join: Join) -> Any:
        """Wait to be let in; None: it is too late."""
        return await self._ask(rank, self.quorum.join(rank, incarnation, join))

    async def edge(self, rank: int, incarnation: int, arrival: Arrival) -> Any:
        """Wait for the others between two steps; None: the attempt is over."""
        return await self._ask(rank, self.quorum.edge(rank, incarnation, arrival))

    async def listen(self, rank: int, incarnation: int) -> list[Any] | None:
        """Wait for what this rank has to hear; None: nothing any more."""
        if incarnation != self.quorum.incarnation(rank):
            return None
        queue = self._queue(rank)
        found: list[Any] = []
        with contextlib.suppress(asyncio.TimeoutError):
            found.append(await asyncio.wait_for(queue.get(), _LISTEN_S))
        while not queue.empty():
            found.append(queue.get_nowait())
        return None if None in found else found

    def failed(self, rank: int, incarnation: int, quorum: int) -> None:
        """``rank`` cannot reach some member."""
        self._do(self.quorum.failed(rank, incarnation, quorum))

    def answer(self, rank: int, incarnation: int, quorum: int, progress: Progress) -> None:
        """``rank`` has given its quorum up."""
        self._do(self.quorum.answer(rank, incarnation, quorum, progress))

    def finish(self, rank: int, incarnation: int, progress: Progress) -> None:
        """The training function of ``rank`` has returned."""
        self._do(self.quorum.finish(rank, incarnation, progress))

    def give(self, quorum: int, rank: int, state: Any) -> None:
        """A donor's state for the newcomers of ``quorum``."""
        if quorum <= self._orphaned:
            return
        future = self._state(quorum, rank % self._size)
        if not future.done():
            future.set_result(state)

    async def take(self, quorum: int, rank: int) -> Any:
        """Wait for the donor's state; None: the donor is gone."""
        if quorum <= self._orphaned:
            return None
        return await asyncio.shield(self._state(quorum, rank % self._size))

    def taken(self, quorum: int, rank: int) -> None:
        """``rank`` has read what it took; the last one's state is let go."""
        key = (quorum, rank % self._size)
        self._takers[key] = self._takers.get(key, 1) - 1
        if self._takers[key] <= 0:
            self._states.pop(key, None)
            self._takers.pop(key)

    # ---- the driver ----

    def opened(self, group: int) -> None:
        """Begin one more group beside the others."""
        self.quorum.opened(group)
        self.outside.update(self.quorum.ranks(group))
        self._groups += 1

    def lost(self, group: int) -> None:
        """The workers of ``group`` are gone."""
        for rank in self.quorum.ranks(group):
            self.outside.add(rank)
            queue = self._pushes.pop(rank, None)
            if queue is not None:
                queue.put_nowait(None)
            future = self._answers.pop(rank, None)
            if future is not None and not future.done():
                future.set_result(None)
        if group == self._donor[1]:
            self._orphaned = self._donor[0]
            for future in self._states.values():
                if not future.done():
                    future.set_result(None)
            self._states.clear()
        self._do(self.quorum.lost(group))

    # ---- inside ----

    async def _ask(self, rank: int, actions: list[Action]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[rank] = future
        self._do(actions)
        self._watch_the_end()
        answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _do(self, actions: list[Action]) -> None:
        inside: list[int] = []
        for action in actions:
            if isinstance(action, Dissolve):
                self._emit("dissolved", {"text": action.text})
            elif isinstance(action, Abort | Form | Announce):
                if isinstance(action, Form):
                    formed = action.formation
                    self._tell_quorum(formed.quorum, formed.groups, None)
                self._queue(action.rank).put_nowait(action)
            elif isinstance(action, Admit):
                inside.append(action.rank)
                admitted = action.admission
                self._tell_quorum(admitted.quorum, admitted.groups, admitted.step)
                self._reply(action.rank, action.admission)
            elif isinstance(action, Refuse):
                self._reply(action.rank, RefusedError(action.text))
            elif isinstance(action, End):
                self._reply(action.rank, None)
        admissions = [a.admission for a in actions if isinstance(a, Admit)]
        if admissions:
            self._let_in(admissions[0], inside)
        self._watch_the_end()

    def _tell_quorum(self, number: int, groups: tuple[int, ...], step: int | None) -> None:
        """Have the driver know who takes the steps from now on, once for each quorum."""
        if number > self._told_quorum:
            self._told_quorum = number
            about = {"number": number, "groups": groups, "step": step, "of": self._groups}
            self._emit("quorum", {**about, "size": self._size})

    def _let_in(self, admission: Any, ranks: list[int]) -> None:
        if admission.donor is not None:
            self._donor = admission.quorum, admission.donor
        for shard in range(self._size):
            self._takers[admission.quorum, shard] = len(admission.newcomers)
        again = [rank for rank in ranks if rank in self.outside]
        self.outside.difference_update(again)
        if again:
            self._admitted(again)
            groups = sorted({rank // self._size for rank in again})
            self._emit("admitted", {"groups": groups, "step": admission.step})

    def _reply(self, rank: int, answer: Any) -> None:
        future = self._answers.pop(rank, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def _queue(self, rank: int) -> asyncio.Queue[Any]:
        return self._pushes.setdefault(rank, asyncio.Queue())

    def _state(self, quorum: int, shard: int) -> asyncio.Future[Any]:
        key = (quorum, shard)
        future = self._states.get(key)
        if future is None:
            for old in [k for k in self._states if k[0] < quorum]:
                del self._states[old]
            future = self._states[key] = asyncio.get_running_loop().create_future()
        return future

    def _watch_the_end(self) -> None:
        if self.quorum.waits_for_replacements:
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(_LAST_WAIT_S, self._give_up_waiting)
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up_waiting(self) -> None:
        self._timer = None
        self._do(self.quorum.give_up_waiting())
