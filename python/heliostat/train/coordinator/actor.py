"""The coordinator: the actor at which the ranks of a run meet, and which publishes checkpoints.

A rank calls it once per report and is answered when all ranks have arrived and the checkpoint is
published (TRAIN-BARRIER-1, CKPT-1): what `report` returned from is never forgotten. The driver
listens for events with one long call, so nothing is polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import replace
from typing import Any

from heliostat.train.config import FailureConfig
from heliostat.train.coordinator.attempt import COLLECTIVE, REPORT, Attempt, pick
from heliostat.train.coordinator.checkpoint_book import CheckpointBook, Entry
from heliostat.train.coordinator.entries import differing_steps, failed, nans, uneven
from heliostat.train.coordinator.publish import Publisher, new_name
from heliostat.train.coordinator.rendezvous import Round
from heliostat.train.coordinator.replicas import QuorumService, open_store
from heliostat.train.coordinator.saving import SaveRound
from heliostat.train.coordinator.steps import StepMonitor
from heliostat.train.coordinator.validations import Validations
from heliostat.train.coordinator.watch import Watch
from heliostat.train.memory.versions import Progress as MemoryProgress
from heliostat.train.memory.versions import Version
from heliostat.train.messages import PREEMPTION, SAVE, Event, Reply, ReportedRow, ReportEntry
from heliostat.train.preemption import PreemptionInfo
from heliostat.train.replicas.messages import Arrival, Join, Progress
from heliostat.train.reported import ReportedCheckpointStatus as Status
from heliostat.train.settings import TrainSettings
from heliostat.train.steps.messages import Beat
from heliostat.train.storage.base import Storage
from heliostat.train.validation import ValidationConfig, ValidationTaskConfig
from heliostat.train.worker.stack_reader import Place

# Events that the driver has not fetched yet; older ones are dropped.
_MAX_EVENTS = 100_000

# Workers show that they live no more often, whatever the settings say.
_BEAT_MIN_S = 0.1

# The driver hears of what happens in so short a time at once: woken by every report of a fast loop, it
# takes the processor from the ranks.
_GATHER_S = 0.01

# Ranks that were asked to save, and whose files could not be stored, are asked again after this.
_SAVE_AGAIN_S = 1.0


class TrainCoordinator:
    """The actor that a run's ranks wait in. All methods are coroutines, so any number can wait."""

    def __init__(
        self,
        storage: Storage,
        book: CheckpointBook,
        settings: TrainSettings,
        callbacks: bool,
        validation: ValidationConfig | None = None,
        failures: FailureConfig | None = None,
    ) -> None:
        self._settings = settings
        self._failures = failures or FailureConfig()
        self._publisher = Publisher(storage, book)
        self._validations = Validations(validation, self._validated)
        self._callbacks = callbacks
        self._attempt: Attempt | None = None
        self._watch: asyncio.Task[None] | None = None
        self._looker: Watch | None = None
        self._events: deque[Event] = deque(maxlen=_MAX_EVENTS)
        self._news = asyncio.Event()
        self._resize = False
        self._preemption: PreemptionInfo | None = None
        self._saving: SaveRound | None = None
        self._quorum_service: QuorumService | None = None
        self._memory = MemoryProgress()
        self._noted: set[str] = set()
        # Reports that a loss has made complete, and whose checkpoints are being published.
        self._completing: set[asyncio.Task[None]] = set()
        self._steps: StepMonitor | None = None
        # How often each rank has been replaced for being slow.
        self._replacements: dict[int, int] = {}
        self._store: tuple[str, int, Any] | None = None

    # ---- the driver's side ----

    async def begin(self, number: int, world_size: int) -> tuple[str | None, int | None]:
        """Start an attempt; returns the checkpoint to begin from, and how many workers had saved it."""
        await self.end()
        if self._attempt is not None:
            # Uploads to a store without renaming that were cut off lie there under these names.
            self._publisher.discard(self._attempt.names.values())
        self._attempt = Attempt(number, world_size)
        self._memory = MemoryProgress()
        self._publisher.book.held = None  # it goes with the next one that is stored
        self._resize, self._preemption = False, None
        await self._publisher.clear_staging()
        for entry in self._publisher.book.entries:  # those that an earlier coordinator has left
            self._validate(entry)
        steps = StepMonitor(
            world_size, self._failures, self._replacements, self._emit, self._ask_to_save
        )
        self._steps = steps
        self._looker = Watch(self._attempt, self._settings, self._emit, self._complete, steps)
        self._watch = asyncio.ensure_future(self._looker.run())
        latest = self._publisher.book.latest
        return self._publisher.latest, latest.world_size if latest is not None else None

    async def end(self) -> None:
        """End the current attempt: calls that wait return, training functions are told to end."""
        if self._attempt is not None:
            self._attempt.end()
        if self._looker is not None:
            self._looker.tell_reports()
        if self._saving is not None:
            self._saving.end()
            self._saving = None
        if self._quorum_service is not None:
            self._quorum_service.close()
            self._quorum_service = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        await self._publisher.settle()

    async def begin_replicas(
        self, groups: int, size: int, least: int, has_quorum: bool, is_elastic: bool = False
    ) -> tuple[str, int]:
        """The attempt has replica groups; returns the meeting point of their process groups."""
        attempt = self._attempt
        assert attempt is not None
        attempt.group_size = size
        attempt.has_foreign_quorum = not has_quorum
        # A worker that is replaced within the attempt begins where the others have begun.
        self._publisher.book.held = self._publisher.latest
        assert self._steps is not None
        self._steps.replaces_at_once = True
        if has_quorum:
            self._quorum_service = QuorumService(
                groups, size, least, self._emit, self._let_in, is_elastic
            )
        if self._store is None:
            self._store = await asyncio.to_thread(open_store)
        return self._store[:2]

    async def replica_lost(self, number: int, group: int, is_gone: bool = True) -> bool:
        """The workers of a replica group are gone; who is left of it is told to end.

        Returns whether it can be replaced: not once the steps of the run are done. Where ``is_gone`` is
        False it trains still, and goes on if it cannot be replaced.
        """
        attempt, service = self._attempt, self._quorum_service
        if attempt is None or attempt.number != number or attempt.over:
            return False
        # Once the steps are done there is none at which it could join. Nobody waits for it at a report.
        is_late = service.quorum.is_finishing if service is not None else attempt.has_leavers
        if is_late and not is_gone:
            return False
        if service is not None and not is_late:
            service.lost(group)
        ranks = range(group * attempt.group_size, (group + 1) * attempt.group_size)
        if self._steps is not None:
            self._steps.lost(ranks)
        if service is None:
            attempt.unaligned.update(ranks)
        if complete := attempt.vacate(ranks):
            # The driver replaces the group meanwhile, however long the storage takes.
            task = asyncio.ensure_future(self._complete_all(attempt, complete))
            self._completing.add(task)
            task.add_done_callback(self._completing.discard)
        return not is_late

    async def replica_opened(self, number: int, group: int) -> bool:
        """Begin one more replica group, the next by number; whether there are steps that it can take."""
        attempt, service = self._attempt, self._quorum_service
        if attempt is None or attempt.number != number or attempt.over:
            return False
        if service.quorum.is_finishing if service is not None else attempt.has_leavers:
            return False
        ranks = range(group * attempt.group_size, (group + 1) * attempt.group_size)
        attempt.grow(ranks)
        if service is not None:
            service.opened(group)
        else:
            attempt.unaligned.update(ranks)
        if self._steps is not None:
            self._steps.grow(ranks.stop)
        return True

    async def go_on_without(self, number: int, ranks: list[int]) -> None:
        """These ranks went with a node that was taken away: the others do not wait for them.

        The attempt ends behind their next checkpoint.
        """
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return
        self._resize = True
        attempt.lost.update(ranks)
        await self._complete_all(attempt, attempt.leave(*ranks))

    async def _complete_all(self, attempt: Attempt, rounds: list[tuple[str, Round]]) -> None:
        for kind, round_ in rounds:
            await self._complete(attempt, kind, round_)

    async def request_resize(
        self, number: int, wanted: bool, preemption: PreemptionInfo | None
    ) -> None:
        """End the attempt right after its next checkpoint, so that no step is lost; or do not, after all.

        ``preemption``: which nodes will be taken away, for the workers to know.
        """
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return
        was_wanted, was_asked = self._resize, self._resize or self._preemption is not None
        self._resize, self._preemption = wanted, preemption
        # A state that was saved when the ranks heard of a node is old when the attempt is to end.
        if (wanted and not was_wanted) or (preemption is not None and not was_asked):
            self._ask_to_save()

    async def events(self, wait_s: float) -> list[Event]:
        """Return what happened since the last call; waits up to ``wait_s`` for something.

        What is there is returned at once; what was waited for, with what follows in ten milliseconds.
        """
        if not self._events and wait_s > 0:
            self._news.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait_s)
                await asyncio.sleep(_GATHER_S)
        batch = list(self._events)
        self._events.clear()
        return batch

    async def checkpoints(self, validated: bool, timeout_s: float | None = None) -> CheckpointBook:
        """Return the record of all checkpoints, when all are validated or the time is over."""
        if validated:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._validations.wait(), timeout_s)
        await self._publisher.settle()
        return self._publisher.book

    async def finish(self, validated: bool) -> CheckpointBook:
        """The run is over: return the record of its checkpoints, of which only those to keep are left."""
        await self.checkpoints(validated)
        with contextlib.suppress(Exception):  # storage that is away keeps one more
            await self._publisher.release()
        self._publisher.prune_soon(self._emit)
        return await self.checkpoints(False)

    # ---- the workers' side ----

    async def report(
        self, number: int, rank: int, index: int, entry: ReportEntry, blocking: bool = True
    ) -> Reply:
        """Meet the other ranks at a report; returns when its checkpoint is published."""
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return Reply(go_on=False)
        if self._is_outside(rank):
            return Reply()
        meeting = attempt.meetings[REPORT]
        if attempt.has_foreign_quorum and rank in meeting.excused:
            attempt.unaligned.add(rank)
        if rank in attempt.unaligned:
            # A library lets it in, unseen here. When others wait at a report, it is at the same one,
            # since all take the same steps; else nobody knows which it is.
            if not attempt.align(rank):
                return Reply()
            attempt.offsets[rank] = attempt.next_report - index
            entry.staged = False  # under another number
        index += attempt.offsets.get(rank, 0)
        if rank in meeting.excused:
            meeting.excused.discard(rank)
            attempt.offsets[rank] = attempt.next_report - index
            index = attempt.next_report
            entry.staged = False
        return await self._arrive(attempt, REPORT, rank, index, entry, blocking)

    async def storing(self, number: int, rank: int, index: int) -> None:
        """``rank`` begins to store the checkpoint of a report."""
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over or self._is_outside(rank):
            return
        index += attempt.offsets.get(rank, 0)
        if index >= attempt.next_report:  # else the report was complete before this came
            self._emit("storing", {"report": index, "rank": rank})

    async def collective(self, number: int, rank: int, index: int, kind: str, data: Any) -> Reply:
        """Meet the other ranks; returns what rank 0 brought."""
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return Reply(go_on=False)
        if self._is_outside(rank) or rank in attempt.unaligned:
            return _reply_outside(kind)
        return await self._arrive(attempt, COLLECTIVE, rank, index, (kind, data), True)

    async def checkpoint_name(self, number: int, index: int, dir_name: str | None) -> str:
        """The final name of a report's checkpoint, for storage that cannot rename."""
        attempt = self._attempt
        if attempt is None or attempt.number != number:
            return dir_name or new_name()
        name = attempt.names.setdefault(index, dir_name or new_name())
        await self._publisher.claim(name)
        return name

    async def memory_kept(
        self, number: int, part: int, parts: int, version: Version
    ) -> Version | None:
        """A part of the state is in peers' memory; returns the latest version that is there whole."""
        if self._attempt is None or self._attempt.number != number:
            return None
        is_first = self._memory.whole is None
        whole = self._memory.kept(version, part, parts)
        if is_first and whole is not None:
            self._emit("kept", {})
        return whole

    async def note(self, number: int, text: str) -> None:
        """Have the user read a sentence, once."""
        if self._attempt is not None and self._attempt.number == number:
            self._note(text)

    async def leave(self, number: int, rank: int, beat: Beat | None = None) -> None:
        """The training function of ``rank`` has returned."""
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return
        if self._steps is not None and beat is not None:
            self._steps.beat(rank, beat, time.monotonic())
            self._steps.tell()
        if self._looker is not None:
            self._looker.tell_reports()
        attempt.returned.add(rank)
        await self._complete_all(attempt, attempt.leave(rank))
        self._emit("left", {"rank": rank})

    async def is_dismissed(self, number: int) -> bool:
        """Whether the attempt ends without a failure: what a rank raises then comes from others' ends."""
        attempt = self._attempt
        return attempt is not None and attempt.number == number and attempt.is_dismissed

    async def control(
        self,
        number: int,
        rank: int,
        incarnation: int = 0,
        beat: Beat | None = None,
        place: Place | None = None,
    ) -> str:
        """Wait for something that the control thread of ``rank`` shall do; "again" after a while."""
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return "end"
        if incarnation != attempt.incarnations.get(rank, 0):
            return "end"
        attempt.beats[rank] = attempt.beats.get(rank, 0) + 1
        if self._steps is not None:
            self._steps.beat(rank, beat, time.monotonic())
        if place is not None:
            attempt.places[rank] = place
        wait_s = max(_BEAT_MIN_S, self._settings.health_interval_s)
        try:
            return await asyncio.wait_for(attempt.commands[rank].get(), wait_s)
        except asyncio.TimeoutError:
            return "again"

    async def save_asked(self, number: int, rank: int, round_: int, made: int | None) -> None:
        """``rank`` has been asked to save, and will have made so many steps; None: it counts none."""
        if (saving := self._saving_of(number, round_)) is not None:
            saving.heard(rank, made)

    async def save_target(self, number: int, round_: int, made: int) -> int | None:
        """Wait until it is known behind how many steps all save; None: the attempt is over."""
        saving = self._saving_of(number, round_)
        target = made if saving is None else await saving.target(made)
        attempt = self._attempt
        is_over = attempt is None or attempt.number != number or attempt.over
        return None if is_over else target

    async def stack(self, number: int, rank: int, text: str) -> None:
        """Take the stack that was asked for."""
        if self._attempt is not None and self._attempt.number == number:
            self._attempt.stacks[rank] = text

    async def timed_out(
        self, number: int, rank: int, stack: str, seconds: float, replaces: bool
    ) -> str:
        """A collective operation of ``rank`` has timed out; returns who is missing, with all stacks.

        ``replaces``: those who are missing are taken for dead, and their replica groups replaced.
        """
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over or self._looker is None:
            return ""
        text, missing = await self._looker.explain_collective(rank, stack, seconds)
        if replaces and missing:
            self._emit("hung", {"ranks": missing, "text": text})
        return text

    # ---- replica groups: the workers' side (see ``QuorumService``) ----

    async def replica_join(self, number: int, rank: int, incarnation: int, join: Join) -> Any:
        """Wait to be let in; None: the attempt is over, or it is too late."""
        service = self._quorum_service_of(number)
        return None if service is None else await service.join(rank, incarnation, join)

    async def replica_edge(self, number: int, rank: int, incarnation: int, at: Arrival) -> Any:
        """Wait for the others between two steps; None: the attempt is over."""
        service = self._quorum_service_of(number)
        return None if service is None else await service.edge(rank, incarnation, at)

    async def replica_listen(self, number: int, rank: int, incarnation: int) -> list[Any] | None:
        """Wait for what ``rank`` has to hear; None: nothing any more."""
        service = self._quorum_service_of(number)
        return None if service is None else await service.listen(rank, incarnation)

    async def replica_failed(self, number: int, rank: int, incarnation: int, quorum: int) -> None:
        """``rank`` cannot reach some member of its quorum."""
        if (service := self._quorum_service_of(number)) is not None:
            service.failed(rank, incarnation, quorum)

    async def replica_answer(
        self, number: int, rank: int, incarnation: int, quorum: int, progress: Progress
    ) -> None:
        """``rank`` has given its quorum up."""
        if (service := self._quorum_service_of(number)) is not None:
            service.answer(rank, incarnation, quorum, progress)

    async def replica_finish(
        self, number: int, rank: int, incarnation: int, progress: Progress
    ) -> None:
        """The steps of ``rank`` are done."""
        if (service := self._quorum_service_of(number)) is not None:
            service.finish(rank, incarnation, progress)

    async def replica_give(self, number: int, quorum: int, rank: int, state: Any) -> None:
        """The state of a donor, for the newcomers of ``quorum``."""
        if (service := self._quorum_service_of(number)) is not None:
            service.give(quorum, rank, state)

    async def replica_taken(self, number: int, quorum: int, rank: int) -> None:
        """``rank`` has read the state that it took."""
        if (service := self._quorum_service_of(number)) is not None:
            service.taken(quorum, rank)

    async def replica_take(self, number: int, quorum: int, rank: int) -> Any:
        """Wait for the state of the donor; None: it is gone."""
        service = self._quorum_service_of(number)
        return None if service is None else await service.take(quorum, rank)

    # ---- inside ----

    def _ask_to_save(self) -> None:
        """Have the ranks save, where they can by themselves: the attempt ends behind it."""
        attempt = self._attempt
        if attempt is None or attempt.over:
            return
        before = self._saving.number if self._saving is not None else 0
        self._saving = SaveRound(before + 1, attempt.world_size)
        for queue in attempt.commands.values():
            queue.put_nowait(f"{SAVE}{self._saving.number}")

    def _is_outrun(self, step: int | None) -> bool:
        """Whether a checkpoint is of a step before that behind which the ranks were asked to save."""
        return self._saving is not None and self._saving.is_later(step)

    def _save_later(self) -> None:
        """Note that the state which the ranks were asked to save could not be stored: ask again, if
        it is still wanted then.
        """
        saving = self._saving
        if saving is None:
            return
        saving.failed()

        def again() -> None:
            is_due = self._steps is not None and self._steps.is_due
            if self._saving is saving and (self._resize or self._preemption is not None or is_due):
                self._ask_to_save()

        asyncio.get_running_loop().call_later(_SAVE_AGAIN_S, again)

    def _saving_of(self, number: int, round_: int) -> SaveRound | None:
        if self._attempt is None or self._attempt.number != number or self._saving is None:
            return None
        return self._saving if self._saving.number == round_ else None

    def _quorum_service_of(self, number: int) -> QuorumService | None:
        attempt = self._attempt
        if attempt is None or attempt.number != number or attempt.over:
            return None
        return self._quorum_service

    def _is_outside(self, rank: int) -> bool:
        """Whether a replaced worker is not yet let in: the others do not wait for it."""
        return self._quorum_service is not None and rank in self._quorum_service.outside

    def _let_in(self, ranks: list[int]) -> None:
        if self._attempt is not None:
            self._attempt.let_in(ranks)

    async def _arrive(
        self, attempt: Attempt, kind: str, rank: int, index: int, payload: Any, blocking: bool
    ) -> Reply:
        meeting = attempt.meetings[kind]
        round_ = meeting.arrive(rank, index, payload, time.monotonic())
        if kind == REPORT:
            attempt.reported[rank] = index + 1, time.time()
        waiter = attempt.waiter(kind, index)
        if blocking:
            attempt.blocked[rank] = (kind, index)
        if meeting.is_complete(round_):
            await self._complete(attempt, kind, round_)
        reply = waiter.result() if waiter.done() else await asyncio.shield(waiter)
        if kind == REPORT and attempt.offsets.get(rank):
            # From its next report on it counts as the others do, also in the names of its files.
            attempt.offsets[rank] = 0
            reply = replace(reply, made=index + 1)
        return reply

    async def _complete(self, attempt: Attempt, kind: str, round_: Round) -> None:
        if attempt.meetings[kind].rounds.get(round_.index) is not round_ or not round_.arrived:
            return  # it has been completed meanwhile, or all that had come to it are lost
        if kind == COLLECTIVE:
            reply = _collective_reply(round_)
            if reply.error is None and pick(round_.arrived)[0] == PREEMPTION:
                reply.value = self._preemption  # what it is now, the same for all
            attempt.settle(kind, round_, reply)
            return
        # Not to be completed twice while publishing waits for the storage.
        attempt.meetings[REPORT].rounds.pop(round_.index, None)
        attempt.next_report = max(attempt.next_report, round_.index + 1)
        entries: dict[int, ReportEntry] = round_.arrived
        reply = Reply()
        if text := differing_steps(entries):
            attempt.settle(REPORT, round_, Reply(error=ValueError(text)))
            return
        if text := nans(entries) or self._uneven(attempt, entries):
            self._note(text)
        book = self._publisher.book
        row = ReportedRow(book.reports, time.time(), pick(entries).metrics)
        book.reports += 1
        reply.failed = failed(entries)
        if reply.failed:
            name = attempt.names.pop(round_.index, None)
            await self._publisher.abandon(f"{attempt.number}-{round_.index}", name)
            self._emit("publish_failed", {"error": reply.failed, "report": round_.index})
        elif any(e.staged or e.external for e in entries.values()):
            start = time.perf_counter()
            stage = f"{attempt.number}-{round_.index}"
            name = attempt.names.pop(round_.index, None)
            try:
                reply.checkpoint = await self._publisher.publish(
                    stage, entries, name, row.index, attempt.world_size
                )
            except Exception as error:  # whatever the storage raises is the report's answer
                if any(e.may_fail for e in entries.values()):
                    reply.failed = str(error) or repr(error)
                else:
                    reply.error = error
                if name is not None:
                    attempt.names[round_.index] = name
                self._emit("publish_failed", {"error": repr(error), "report": round_.index})
            row.publish_s = time.perf_counter() - start
            row.checkpoint = reply.checkpoint
        if reply.error is None:
            if self._callbacks:
                row.all_metrics = [entries[r].metrics for r in sorted(entries)]
            self._emit("report", {"row": row, "report": round_.index})
            if row.checkpoint is not None:
                self._validate(book.entries[-1])
            if row.checkpoint is not None and not self._is_outrun(pick(entries).step):
                is_replaced = self._steps is not None and self._steps.take_due()
                reply.go_on = not (self._resize or is_replaced)
        if reply.failed and not self._is_outrun(pick(entries).step):
            self._save_later()
        if not reply.go_on:
            attempt.dismiss()  # ranks whose uploads wait for this go on meanwhile
        attempt.settle(REPORT, round_, reply)
        self._publisher.prune_soon(self._emit)

    def _uneven(self, attempt: Attempt, entries: dict[int, ReportEntry]) -> str:
        """Said once: of the next report the same is true."""
        if (
            self._quorum_service is not None
            or attempt.has_foreign_quorum
            or "uneven" in self._noted
        ):
            return ""  # who is missing in a replica group was lost
        meeting = attempt.meetings[REPORT]
        returned = (meeting.gone & meeting.seen) - attempt.lost - set(entries)
        text = uneven(entries, sorted(returned))
        if text:
            self._noted.add("uneven")
        return text

    def _validate(self, entry: Entry) -> None:
        if entry.pending is not None:
            checkpoint = self._publisher.checkpoint(entry.name)
            self._validations.submit(entry.name, checkpoint, ValidationTaskConfig(**entry.pending))

    async def _validated(
        self, name: str, status: Status, metrics: dict[str, Any], text: str
    ) -> None:
        await self._publisher.validated(name, status, metrics)
        self._emit("validated", {"checkpoint": name, "metrics": metrics, "text": text})
        self._publisher.prune_soon(self._emit)

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._emit("note", {"text": text})

    def _emit(self, kind: str, data: dict[str, Any]) -> None:
        self._events.append(Event(kind, time.time(), data))
        self._news.set()


def _reply_outside(kind: str) -> Reply:
    if kind in ("barrier", PREEMPTION):
        return Reply()
    return Reply(
        error=RuntimeError(
            f"A replaced worker called collective.{kind}() before it was let in: the others have "
            "made that call long ago. Call it after the first step."
        )
    )


def _collective_reply(round_: Round) -> Reply:
    kinds: dict[str, list[int]] = {}
    for rank, (kind, _) in sorted(round_.arrived.items()):
        kinds.setdefault(kind, []).append(rank)
    if len(kinds) > 1:
        calls = ", ".join(f"{kind}() on ranks {ranks}" for kind, ranks in kinds.items())
        return Reply(error=RuntimeError(f"The ranks call different collectives: {calls}."))
    kind, data = pick(round_.arrived)
    if kind == "gather":
        return Reply(value={rank: brought for rank, (_, brought) in round_.arrived.items()})
    if kind not in ("barrier", PREEMPTION) and 0 not in round_.arrived:
        return Reply(error=RuntimeError("Rank 0 has left its training function already."))
    return Reply(value=data)
