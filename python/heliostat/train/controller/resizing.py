"""The rules for forming a group anew: it grows into room, and moves off nodes that will be taken away.

The workers that join start beside the others. When they are there, the next checkpoint ends the attempt, and
the next one begins with them. A node that is taken away has a deadline: where no checkpoint has come by then,
the attempt is ended without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.train.config import ScalingConfig
from heliostat.train.coordinator.attempt import ranks_text
from heliostat.train.group.nodes import Leaving, NodeWatch
from heliostat.train.group.worker_group import WorkerGroup
from heliostat.train.preemption import PreemptionInfo

# Room that does not come within so many seconds is not there: a move does not wait for it any longer.
_ROOM_S = 2.0
# Recruits that are ready wait for those that start, but no longer.
_TOGETHER_S = 5.0
# This part of the time that a node has left is for the move, at most so much beside what survivors may take
# to leave their functions.
_MOVE_PART, _MOVE_S = 0.25, 1.0


@dataclass
class _Notice:
    """A node of the group will be taken away."""

    leaving: Leaving
    seen_at: float
    # By the monotonic clock; None: when what runs there has ended.
    deadline: float | None

    def checkpoint_at(self) -> float | None:
        """The time at which to stop waiting for room."""
        return None if self.deadline is None else (self.seen_at + self.deadline) / 2

    def end_at(self, unwind_s: float, grace_s: float) -> float | None:
        """The time at which to end the attempt, with or without a checkpoint."""
        if self.deadline is None:
            return None
        if grace_s:
            return self.deadline + grace_s
        reserve = min(unwind_s + _MOVE_S, (self.deadline - self.seen_at) * _MOVE_PART)
        return self.deadline - reserve


class Resizer:
    """Decides for one run; asks the coordinator to end an attempt behind its next checkpoint."""

    def __init__(
        self,
        scaling: ScalingConfig,
        group: WorkerGroup,
        unwind_s: float,
        note: Callable[[str], None],
        has_replica_groups: bool,
        grace_s: float = 0.0,
    ) -> None:
        # Seconds that the functions may run on with the rest of the group after a node has gone.
        self._grace_s = grace_s
        # Lost replica groups are replaced one by one, while the others go on: none moves before.
        self._stays = has_replica_groups
        self._scaling = scaling
        self._group = group
        self._unwind_s = unwind_s
        self._note = note
        self._nodes = NodeWatch()
        self._coordinator: Any = None
        self._number = -1
        self._notices: dict[str, _Notice] = {}
        # Nodes of the run that were to be taken away, at any time, and when (by the monotonic clock).
        self._announced: dict[str, float | None] = {}
        self._asked: PreemptionInfo | str | None = None
        self._ready_since: float | None = None
        self._said_no_room: set[str] = set()
        # The node of the driver, with which the run ends.
        self._home = ""
        # Whether the attempt is to end now, since a node goes before a checkpoint has come.
        self.is_overdue = False

    # ---- the attempt ----

    def begin(self, number: int, coordinator: Any) -> None:
        """An attempt runs."""
        self._number, self._coordinator = number, coordinator
        self._notices, self._asked, self._ready_since = {}, None, None
        self.is_overdue = False
        self._home = ray.get_runtime_context().get_node_id()
        self._group.recruits.attempt_begins()
        self._nodes.look()
        self.tick()

    def refs(self) -> list[Any]:
        """Return the references that are waited for beside those of the workers."""
        changes = [] if self._nodes.pending is None else [self._nodes.pending]
        return changes + self._group.recruits.refs()

    def take(self, ref: Any) -> bool:
        """Take in a reference of ``refs`` that is ready; False: it is none of them."""
        if ref is self._nodes.pending:
            try:
                self._nodes.changed()
            except ray.exceptions.RayError as error:
                self._note(f"changes of the cluster's nodes are not followed: {error}")
            return True
        return self._group.recruits.take(ref)

    def tick(self) -> float | None:
        """See what is to be done; in how many seconds to see again, None: when something happens."""
        now = time.monotonic()
        self._take_notice(now)
        if self._stays:
            self._recruit_groups()
            if self._notices:
                self._ask("the others go on while its replica groups are replaced", False)
            elif self._asked is not None:
                self._take_back()
            return None
        size, recruits = len(self._group), self._group.recruits
        moving = self.moving
        places = [*moving]
        if self._scaling.elasticity_enabled:
            places += range(size, self._scaling.max_workers)
        recruits.want(places)
        if recruits.ready and self._ready_since is None:
            self._ready_since = now
        if not recruits.ready:
            self._ready_since = None
        why = self._why_now(now, moving)
        if why is not None:
            self._ask(why, True)
        elif self._home in self._notices:
            # Nobody moves without a driver: the state is saved, for whoever runs the script again.
            self._ask("a checkpoint is asked for", False)
        elif self._asked is not None and not moving and not recruits.ready:
            self._take_back()
        ends = [
            at
            for n in self._notices.values()
            if (at := n.end_at(self._unwind_s, self._grace_s)) is not None
        ]
        if moving and ends and now >= min(ends):
            self.is_overdue = True
        return self._next_look(now, ends)

    @property
    def moving(self) -> list[int]:
        """The ranks on nodes that will be taken away."""
        workers = self._group.workers
        return [rank for rank, w in enumerate(workers) if w.info.node_id in self._notices]

    @property
    def info(self) -> PreemptionInfo:
        """Return the nodes that will be taken away, as the workers are told."""
        ranks: dict[str, list[int]] = {node_id: [] for node_id in self._notices}
        for rank in self.moving:
            ranks[self._group.workers[rank].info.node_id].append(rank)
        deadlines = [n.leaving.deadline_ms for n in self._notices.values() if n.leaving.deadline_ms]
        return PreemptionInfo(min(deadlines, default=None), ranks)

    @property
    def leaving_nodes(self) -> list[str]:
        """The nodes of the cluster that will be taken away, and have no ranks."""
        return [node for node in self._nodes.all_leaving() if node not in self._notices]

    def was_leaving(self, node_id: str) -> bool:
        """Whether it was known that the node would be taken away."""
        return node_id in self._announced

    def grace_until(self, node_id: str) -> float | None:
        """Until when those may run whom a node that was taken away has left; None: its time is not known."""
        deadline = self._announced.get(node_id)
        return None if deadline is None else deadline + self._grace_s

    def is_gone(self, node_id: str) -> bool:
        """Whether the node has left the cluster or died."""
        self._nodes.look()
        return not self._nodes.is_alive(node_id)

    def describe(self) -> str:
        """Return the reason for which the attempt has ended, in words."""
        moving, joining = self.moving, self._group.recruits.with_room
        if moving:
            where = f"{ranks_text(moving)} {'moves' if len(moving) == 1 else 'move'} to other nodes"
            if joining < len(moving):
                where = (
                    f"{ranks_text(moving)} {'leaves' if len(moving) == 1 else 'leave'} the group"
                )
                if not self._scaling.elasticity_enabled:
                    where = (
                        f"{ranks_text(moving)} {'waits' if len(moving) == 1 else 'wait'} for room"
                    )
            return where
        return "the group grows"

    # ---- inside ----

    def _recruit_groups(self) -> None:
        """More replica groups join as there is room for them; groups that were lost come first."""
        if not self._scaling.elasticity_enabled:
            return
        size, recruits = len(self._group), self._group.recruits
        most = self._scaling.max_workers
        if any(worker.is_awaited for worker in self._group.workers):
            most = min(most, size + recruits.with_room)
        recruits.want(range(size, most), self._group.unit)

    def _take_notice(self, now: float) -> None:
        nodes = {self._home, *(w.info.node_id for w in self._group.workers)}
        found = {leaving.node_id: leaving for leaving in self._nodes.leaving(nodes)}
        for node_id in set(self._notices) - set(found):
            notice = self._notices.pop(node_id)
            if self._nodes.stays(node_id):
                self._note(f"node {notice.leaving.host} stays after all: nobody has to move")
        # Also where that was said between two attempts: what dies there from now on has failed.
        for node_id in [n for n in self._announced if self._nodes.stays(n)]:
            del self._announced[node_id]
        for node_id, leaving in found.items():
            known = self._notices.get(node_id)
            if known is not None and known.leaving == leaving:
                continue
            left_s = leaving.deadline_ms / 1000 - time.time() if leaving.deadline_ms else None
            seen_at = now if known is None else known.seen_at
            deadline = None if left_s is None else now + max(0.0, left_s)
            self._notices[node_id] = _Notice(leaving, seen_at, deadline)
            self._announced[node_id] = deadline
            if known is None:
                self._say(leaving, left_s)
            if self._asked is not None:
                self._asked = ""  # the workers are told of this one, too

    def _say(self, leaving: Leaving, left_s: float | None) -> None:
        ranks = [
            rank
            for rank, worker in enumerate(self._group.workers)
            if worker.info.node_id == leaving.node_id
        ]
        when = (
            "when what runs there has ended" if left_s is None else f"in {max(0.0, left_s):.0f} s"
        )
        why = f" ({leaving.reason})" if leaving.reason else ""
        then = f"{ranks_text(ranks)} {'has' if len(ranks) == 1 else 'have'} to move to other nodes"
        if self._stays:
            then = f"{ranks_text(ranks)} {'goes' if len(ranks) == 1 else 'go'} with it"
        if leaving.node_id == self._home:
            then = (
                "the program that called fit() ends with it. Run it again elsewhere with the same "
                "name and storage_path: it goes on from the last checkpoint"
            )
        self._note(f"node {leaving.host} will be taken away {when}{why}: {then}")

    def _why_now(self, now: float, moving: list[int]) -> str | None:
        """Why the attempt is to end behind its next checkpoint; None: it is not."""
        recruits = self._group.recruits
        if moving:
            return self._why_move(now, moving)
        if recruits.ready and (not recruits.starting or self._has_waited(now)):
            return "there is room for more workers: the group grows after its next checkpoint"
        return None

    def _why_move(self, now: float, moving: list[int]) -> str | None:
        recruits = self._group.recruits
        ask = f"{ranks_text(moving)} {'moves' if len(moving) == 1 else 'move'} after the next checkpoint"
        if recruits.ready >= len(moving):
            return ask
        due = [at for n in self._notices.values() if (at := n.checkpoint_at()) is not None]
        if due and now >= min(due):
            return ask
        newest = max(n.seen_at for n in self._notices.values())
        if recruits.starting or now < newest + _ROOM_S:
            return None
        left = len(self._group) - len(moving) + recruits.ready
        if self._scaling.elasticity_enabled and left >= self._scaling.min_workers:
            return (
                f"there is no room elsewhere for {ranks_text(moving)}: the group goes on with {left} "
                f"worker{'s' if left != 1 else ''} after its next checkpoint"
            )
        for node_id in set(self._notices) - self._said_no_room:
            self._said_no_room.add(node_id)
            self._note(
                f"there is no room elsewhere for {ranks_text(moving)} yet: training goes on "
                + ("where it is meanwhile" if not due else "there as long as the node has time")
            )
        return None

    def _has_waited(self, now: float) -> bool:
        return self._ready_since is not None and now - self._ready_since >= _TOGETHER_S

    def _ask(self, why: str, ends: bool) -> None:
        """Have the workers hear of leaving nodes, and the attempt end behind its next checkpoint."""
        info = self.info if self._notices else None
        wanted = info if info is not None else "grow"
        if self._asked == wanted:
            return
        if self._asked is None:
            self._note(why)
        self._asked = wanted
        self._coordinator.request_resize.remote(self._number, ends, info)

    def _take_back(self) -> None:
        """Tell the workers that the resize which they were asked for is not needed any more."""
        self._asked = None
        self._coordinator.request_resize.remote(self._number, False, None)

    def _next_look(self, now: float, ends: list[float]) -> float | None:
        times = [*ends]
        times += [at for n in self._notices.values() if (at := n.checkpoint_at()) is not None]
        times += [n.seen_at + _ROOM_S for n in self._notices.values()]
        if self._ready_since is not None:
            times.append(self._ready_since + _TOGETHER_S)
        waits = [at - now for at in times if at > now]
        return min(waits) if waits else None
