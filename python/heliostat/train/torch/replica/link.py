"""A rank's link to the coordinator: it hears of deaths in a thread of its own, while the function works.

When a quorum breaks, the thread gives it up, answers how far this rank has come, and makes the process
groups of the next quorum, so that a rank which computes meanwhile does not notice.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import heliostat as ray
from heliostat.train.errors import AttemptEnded
from heliostat.train.replicas.member import Member
from heliostat.train.replicas.messages import (
    Abort,
    Admission,
    Announce,
    Arrival,
    Form,
    Join,
    Vote,
)
from heliostat.train.torch.replica.ring import Door, Ring
from heliostat.train.worker.session import WorkerSession

# Waits look up so often, so that a signal can end them.
_LOOK_S = 0.2


class Link:
    """A training function's connection to the coordinator. ``member`` is read and changed under one lock."""

    def __init__(self, session: WorkerSession) -> None:
        seat = session.assignment.seat
        assert seat is not None
        self.seat = seat
        self._session = session
        self._coordinator = session.coordinator
        self._me = (session.assignment.attempt, session.assignment.world_rank, seat.incarnation)
        self._member = Member()
        self._changed = threading.Condition()
        self._ring: Ring | None = None
        self._ports: set[int] = set()
        self._is_over = False
        self._door = Door(ray.util.get_node_ip_address())
        self._failure: Exception | None = None

    # ---- the main thread ----

    def world_size_changed(self, before: int, now: int) -> None:
        """Tell the hooks how many workers take the next step, and had taken the one before."""
        self._session.world_size_changed(before, now)

    def join(self, signature: tuple[Any, ...]) -> Admission:
        """Ask to be let in, and wait for it."""
        threading.Thread(target=self._listen, name="train-replicas", daemon=True).start()
        join = Join(signature, self._door.port)
        answer = self._ask(self._coordinator.replica_join.remote(*self._me, join))
        return self._enter(answer)

    def edge(self, step: int, last: bool = False) -> Admission:
        """Wait for the other members between two steps, and for who is let in there."""
        arrival = Arrival(step, self.round, self._session.counts, last)
        return self._enter(self._ask(self._coordinator.replica_edge.remote(*self._me, arrival)))

    def _enter(self, admission: Admission) -> Admission:
        is_new = self.seat.group in admission.newcomers
        with self._changed:
            before = self._member.quorum
            self._member.admit(admission, is_new)
            if self._member.quorum != before and self._member.is_open:
                self._make(admission.addresses)
            self._changed.notify_all()
        if is_new:
            self._session.align(admission.counts)
        return admission

    def _ask(self, ref: Any) -> Admission:
        try:
            answer = ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ValueError):  # refused: the sentence alone
                raise ValueError(str(error.cause)) from None
            raise
        if answer is None:
            raise AttemptEnded("the attempt is over")
        found: Admission = answer
        return found

    @property
    def round(self) -> int:
        """The last complete round."""
        return self._member.progress.round

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits to be let in."""
        return self._member.is_awaited

    def ready_ring(self) -> Ring | None:
        """The ring of the current quorum, if it is there already."""
        return self._ring if self._member.is_open else None

    def ring(self) -> Ring:
        """Wait for the ring of the current quorum."""
        with self._changed:
            while self._ring is None or not self._member.is_open:
                self._check()
                self._changed.wait(_LOOK_S)
            return self._ring

    def complete(self, ring: Ring, vote: Vote) -> bool:
        """All have voted; whether that counts."""
        with self._changed:
            return self._member.complete(ring.quorum, vote)

    def settle(self, ring: Ring, number: int) -> Vote | None:
        """``ring`` has broken within round ``number``: wait for what becomes of it.

        Returns the vote of the round when it is complete all the same, None when it is made anew.
        """
        if not ring.is_cut:
            self._coordinator.replica_failed.remote(*self._me, ring.quorum)
        with self._changed:
            while self._member.quorum <= ring.quorum or not self._member.is_open:
                self._check()
                self._changed.wait(_LOOK_S)
            return self._member.outcome(number)

    def give(self, quorum: int, state: Any) -> None:
        """Hand this rank's state to newcomers."""
        number, rank, _ = self._me
        self._coordinator.replica_give.remote(number, quorum, rank, state)

    def take(self, quorum: int) -> Any:
        """Wait for a donor's state. Raises AttemptEnded, to begin anew, when the donor is gone."""
        number, rank, _ = self._me
        state = ray.get(self._coordinator.replica_take.remote(number, quorum, rank))
        if state is None:
            raise AttemptEnded("the group that gave its state is gone")
        return state

    def taken(self, quorum: int) -> None:
        """The donor's state has been read: it can be forgotten."""
        number, rank, _ = self._me
        self._coordinator.replica_taken.remote(number, quorum, rank)

    def leave(self) -> None:
        """The function has failed: peers that wait for this rank hear of it at once."""
        with self._changed:
            self._is_over = True
            ring, self._ring = self._ring, None
        if ring is not None:
            ring.give_up()
        self._door.cut(self._ports)

    def finish(self) -> None:
        """The steps are done."""
        with self._changed:
            self._is_over = True
            progress = self._member.progress
        self._coordinator.replica_finish.remote(*self._me, progress)

    def _check(self) -> None:
        if self._is_over:
            raise AttemptEnded("the attempt is over")
        if self._failure is not None:
            raise self._failure

    # ---- the thread ----

    def _listen(self) -> None:
        try:
            while True:
                found = ray.get(self._coordinator.replica_listen.remote(*self._me))
                if found is None:
                    break
                for message in found:
                    self._hear(message)
        except Exception as error:  # the coordinator is gone; the driver deals with that
            self._failure = error if isinstance(error, RuntimeError) else None
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _hear(self, message: Any) -> None:
        if isinstance(message, Abort):
            with self._changed:
                progress = self._member.abort(message.quorum)
                ring, self._ring = self._ring, None
            if progress is None:
                return
            if ring is not None:
                ring.give_up()
            # Before the answer: what connects afterwards belongs to the next quorum.
            self._door.cut(self._ports)
            self._coordinator.replica_answer.remote(*self._me, message.quorum, progress)
        elif isinstance(message, Form):
            with self._changed:
                before = self._member.quorum
                self._member.form(message.formation)
                if self._member.quorum != before and self.seat.group in self._member.groups:
                    self._make(message.formation.addresses)
                self._changed.notify_all()
        elif isinstance(message, Announce):
            with self._changed:
                self._member.announce(message.quorum)

    def _make(self, addresses: dict[int, Any]) -> None:
        """Begin to connect to the members of the current quorum."""
        self._ring = None
        self._ports |= {port for port in addresses.values() if port is not None}
        number, groups = self._member.quorum, self._member.groups
        prefix = f"replicas/{self._me[0]}"
        threading.Thread(
            target=self._connect,
            args=(prefix, number, groups),
            name=f"train-quorum-{number}",
            daemon=True,
        ).start()

    def _connect(self, prefix: str, number: int, groups: tuple[int, ...]) -> None:
        try:
            ring = Ring(prefix, number, groups, self.seat, self._door)
        except Exception:
            # A member is gone, or the quorum was given up meanwhile.
            with self._changed:
                is_current = self._member.quorum == number and self._member.is_open
            if is_current:
                with contextlib.suppress(Exception):
                    self._coordinator.replica_failed.remote(*self._me, number)
            return
        with self._changed:
            if self._member.quorum == number and self._member.is_open:
                self._ring = ring
            self._changed.notify_all()
