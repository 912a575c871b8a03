"""Workers that start while others train: they join a group when it is formed anew.

A recruit first waits for room, then its process starts. Room is asked for as a placement group of its own,
so the control service gives it at the moment in which a node joins or something ends: nobody polls.

Those who can only join together ask for the room of all first, and give it back for rooms of their own, since
each may be given back alone later. So nothing is held for a group that does not fit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import heliostat as ray
from heliostat.train.config import ScalingConfig
from heliostat.train.group.placement import Reservation
from heliostat.train.messages import WorkerInfo

# A recruit that dies while it starts is tried again; so many in a row, and no more are tried in this attempt.
_MAX_DEATHS = 5
# So many at a time; a group that lacks more grows in several steps.
_MAX_RECRUITS = 64
# How long a recruit may take to say that it lives, when it joins.
_ANSWER_S = 5.0
# Room that was there for all and has not come for each within so many seconds went to somebody else.
_ROOM_S = 2.0


@dataclass
class Recruit:
    """A worker to be."""

    # The recruit's number in a whole group, which says what the labels of its node must be.
    place: int
    room: Reservation
    # Ready when it has its room; None: it has it.
    placed: Any
    actor: Any = None
    # Ready when it says where it runs; None: it has said so, or has no process yet.
    started: Any = None
    info: WorkerInfo | None = None
    asked_at: float = field(default_factory=time.monotonic)


@dataclass
class _Whole:
    """The room of recruits that can only join together, before each has its own."""

    places: list[int]
    room: Reservation
    placed: Any


class Recruits:
    """The recruits of one run."""

    def __init__(
        self,
        scaling: ScalingConfig,
        create: Callable[[int, dict[str, Any]], Any],
        note: Callable[[str], None],
    ) -> None:
        self._scaling = scaling
        self._create = create
        self._note = note
        self._recruits: list[Recruit] = []
        self._wholes: list[_Whole] = []
        self._deaths = 0

    @property
    def ready(self) -> int:
        """The number of workers that could join now."""
        return sum(r.info is not None for r in self._recruits)

    @property
    def starting(self) -> int:
        """The number of workers with room and a process that starts."""
        return sum(r.started is not None for r in self._recruits)

    @property
    def with_room(self) -> int:
        """The number of workers with room."""
        return self.ready + self.starting

    def want(self, places: Sequence[int], together: int = 1) -> None:
        """Have a recruit for each of these places in the group, also where it still waits for room.

        ``together``: So many join at a time; nothing is held while there is no room for as many.
        """
        most = max(together, _MAX_RECRUITS - _MAX_RECRUITS % together)
        wanted = [] if self._deaths >= _MAX_DEATHS else list(places)[:most]
        if not isinstance(self._scaling.label_selector, list):
            wanted = [0] * len(wanted)  # one place is as good as another
        if together > 1:
            self._let_go_of_parts(together)
        for recruit in sorted(self._recruits, key=_progress, reverse=True):
            if recruit.place in wanted:
                wanted.remove(recruit.place)
            else:
                self._drop(recruit)
        for whole in list(self._wholes):
            if all(whole.places.count(place) <= wanted.count(place) for place in whole.places):
                for place in whole.places:
                    wanted.remove(place)
            else:
                self._drop_whole(whole)
        while wanted:
            # A single recruit takes the place of a worker that has died.
            some, wanted = wanted[:together], wanted[together:]
            if 1 < together == len(some):
                room = Reservation()
                self._wholes.append(_Whole(some, room, room.reserve(self._scaling, some)))
            else:
                self._ask_for_each(some)

    def _ask_for_each(self, places: Sequence[int]) -> None:
        for place in places:
            room = Reservation()
            placed = room.reserve(self._scaling, [place])
            self._recruits.append(Recruit(place, room, placed))

    def _let_go_of_parts(self, together: int) -> None:
        """Give back the places of recruits that wait for others for which there is no room."""
        waiting = [r for r in self._recruits if r.placed is not None]
        has_waited = time.monotonic() - _ROOM_S
        if not waiting or any(r.asked_at > has_waited for r in waiting):
            return
        there = sorted((r for r in self._recruits if r.placed is None), key=_progress)
        for recruit in [*waiting, *there[: len(there) % together]]:
            self._drop(recruit)

    def __len__(self) -> int:
        return len(self._recruits)

    def refs(self) -> list[Any]:
        """Return the references that are waited for."""
        refs = [r.placed for r in self._recruits] + [r.started for r in self._recruits]
        refs += [w.placed for w in self._wholes]
        return [ref for ref in refs if ref is not None]

    def take(self, ref: Any) -> bool:
        """Go on with the recruit for which ``ref`` stands; False: it stands for none."""
        for recruit in self._recruits:
            if recruit.placed is ref:
                self._is_placed(recruit)
                return True
            if recruit.started is ref:
                self._has_started(recruit)
                return True
        for whole in self._wholes:
            if whole.placed is ref:
                self._fits(whole)
                return True
        return False

    def _fits(self, whole: _Whole) -> None:
        """Release the whole room, so that each asks for its own and finds it there."""
        try:
            ray.get(whole.placed)
        except ray.exceptions.RayError:
            self._drop_whole(whole)
            return
        self._ask_for_each(whole.places)
        self._drop_whole(whole)

    def _is_placed(self, recruit: Recruit) -> None:
        ref, recruit.placed = recruit.placed, None
        try:
            ray.get(ref)
        except ray.exceptions.RayError:
            self._drop(recruit)
            return
        recruit.actor = self._create(recruit.place, recruit.room.options(0))
        recruit.started = recruit.actor.info.remote()

    def _has_started(self, recruit: Recruit) -> None:
        ref, recruit.started = recruit.started, None
        try:
            recruit.info = ray.get(ref)
            self._deaths = 0
        except ray.exceptions.RayError as error:
            self._died(recruit, error)

    def _died(self, recruit: Recruit, error: Exception) -> None:
        self._deaths += 1
        text = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        end = "" if self._deaths < _MAX_DEATHS else " No more are started in this attempt."
        self._note(f"a worker that was to join died while it started: {text}{end}")
        self._drop(recruit)

    def wait(self, count: int, waiting: Callable[[], None], timeout_s: float) -> None:
        """Wait until ``count`` are ready, or nothing more comes of those that have room."""
        refs = self.refs()
        while self.ready < count and refs:
            done, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
            waiting()
            if not done:
                return
            for ref in done:
                self.take(ref)
            refs = self.refs()

    def adopt(self, most: int) -> list[Recruit]:
        """Hand over up to ``most`` that are ready, and live."""
        taken = [r for r in self._recruits if r.info is not None][: max(0, most)]
        asked = {r.actor.info.remote(): r for r in taken}
        if not asked:
            return []
        answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S)
        adopted = []
        for ref in answered:
            try:
                asked[ref].info = ray.get(ref)
            except ray.exceptions.RayError as error:
                self._died(asked[ref], error)
                continue
            adopted.append(asked[ref])
        for ref in silent:
            self._drop(asked[ref])
        self._recruits = [r for r in self._recruits if r not in adopted]
        return adopted

    def put_back(self, adopted: list[Recruit]) -> None:
        """Put recruits back that are not needed yet."""
        self._recruits += adopted

    def attempt_begins(self) -> None:
        """Deaths of before do not count any more."""
        self._deaths = 0

    def close(self) -> None:
        """Let all of them go."""
        for recruit in list(self._recruits):
            self._drop(recruit)
        for whole in list(self._wholes):
            self._drop_whole(whole)

    def _drop_whole(self, whole: _Whole) -> None:
        whole.room.release()
        self._wholes = [w for w in self._wholes if w is not whole]

    def _drop(self, recruit: Recruit) -> None:
        if recruit.actor is not None:
            with contextlib.suppress(Exception):
                ray.kill(recruit.actor)
        recruit.room.release()
        self._recruits = [r for r in self._recruits if r is not recruit]


def _progress(recruit: Recruit) -> int:
    """Return the order: recruits that wait for room first, those that are ready last."""
    return 2 if recruit.info is not None else 1 if recruit.actor is not None else 0
