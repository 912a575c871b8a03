"""A worker's session: `report` and the collectives as calls to the coordinator."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import Session, TrainContext, the_dataset
from heliostat.train.errors import AttemptEnded
from heliostat.train.measurements import WorkerMeasurements
from heliostat.train.memory.versions import Version
from heliostat.train.messages import Assignment, Reply, ReportEntry
from heliostat.train.metrics import checked
from heliostat.train.reported import CheckpointUploadMode, ReportedCheckpoint
from heliostat.train.steps.clock import Fetched, current_clock
from heliostat.train.steps.messages import COMMUNICATION
from heliostat.train.storage.base import Storage, files_below
from heliostat.train.validation import ValidationConfig, ValidationTaskConfig
from heliostat.train.worker.uploads import Uploads


class WorkerSession(Session):
    """The session of a worker in an attempt. `report` may be called from any thread of the function."""

    def __init__(
        self,
        assignment: Assignment,
        coordinator: Any,
        validation: ValidationConfig | None = None,
    ) -> None:
        self._validation = validation
        self.assignment = assignment
        self.coordinator = coordinator
        self._number = assignment.attempt
        self._rank = assignment.world_rank
        self._coordinator = coordinator
        self._storage: Storage = assignment.storage
        self._shards = assignment.shards
        self._latest: Checkpoint | None = (
            _checkpoint(self._storage, assignment.checkpoint) if assignment.checkpoint else None
        )
        self._reports = 0
        self._collectives = 0
        self._lock = threading.Lock()
        self._uploads = Uploads()
        self._measured = WorkerMeasurements(
            assignment.experiment_name,
            assignment.run_id,
            assignment.world_rank,
            ray.get_runtime_context().get_actor_id() or "",
        )
        # Why the latest checkpoint that may fail did so.
        self._not_stored = ""
        self._at_end: list[Callable[[], None]] = []
        self._size_hooks: list[Callable[[int, int], None]] = []
        # The workers that had saved the state from which the function goes on.
        self._saved_by = assignment.saved_by
        # The number of the newest round in which the ranks are asked to save, and who answers for this one.
        self.save_round = 0
        self._saver: Callable[[int], int] | None = None
        self.context = TrainContext(
            world_rank=assignment.world_rank,
            world_size=assignment.world_size,
            local_rank=assignment.local_rank,
            local_world_size=assignment.local_world_size,
            node_rank=assignment.node_rank,
            experiment_name=assignment.experiment_name,
            storage=self._storage,
        )

    @property
    def counts(self) -> tuple[int, int]:
        """Reports and collectives that this rank has made."""
        return self._reports, self._collectives

    def align(self, counts: tuple[int, int]) -> None:
        """Count on from where the other ranks are: this one takes the place of another."""
        self._reports, self._collectives = counts

    def report(
        self,
        metrics: dict[str, Any],
        checkpoint: Checkpoint | None,
        *,
        dir_name: str | None = None,
        mode: CheckpointUploadMode = CheckpointUploadMode.SYNC,
        delete: bool | None = None,
        upload_fn: Any = None,
        validation: bool | ValidationTaskConfig = False,
        written: Callable[[], Checkpoint] | None = None,
        step: int | None = None,
        **_: Any,
    ) -> None:
        """See ``heliostat.train.report``.

        Args:
            written: Waits for the checkpoint's files, in a thread, and returns it. Training goes on
                where that fails.
            step: The step that is reported, the same on every rank.
        """
        entry = ReportEntry(checked(metrics), dir_name=dir_name, step=step)
        entry.may_fail = written is not None
        if validation:
            if self._validation is None:
                raise ValueError(
                    "report(validation=...) needs a trainer with "
                    "validation_config=ValidationConfig(fn=...)."
                )
            entry.validation = self._validation.task(validation)
        with self._measured.reporting():
            self._hand_over(entry, checkpoint, mode, delete, upload_fn, written)

    def _hand_over(
        self,
        entry: ReportEntry,
        checkpoint: Checkpoint | None,
        mode: CheckpointUploadMode,
        delete: bool | None,
        upload_fn: Any,
        written: Callable[[], Checkpoint] | None,
    ) -> None:
        """Report in this thread, or in that of uploads where the function need not wait."""
        with self._lock:
            index, self._reports = self._reports, self._reports + 1
        if written is not None or (
            checkpoint is not None and mode is not CheckpointUploadMode.NO_UPLOAD
        ):
            # Nobody waits for the answer: it is for whoever looks at the run.
            self._coordinator.storing.remote(self._number, self._rank, index)
        if written is not None:
            self._uploads.raise_failure()
            self._uploads.submit(lambda: self._store_and_call(index, entry, written))
            return
        asynchronous = mode is CheckpointUploadMode.ASYNC and checkpoint is not None
        if asynchronous or self._uploads.busy:
            # Also a report that follows uploads which are still under way: the order is kept.
            take = delete if delete is not None else asynchronous
            self._uploads.raise_failure()
            self._uploads.submit(
                lambda: self._upload_and_call(index, entry, checkpoint, upload_fn, take, False)
            )
            if checkpoint is not None and not asynchronous:
                self._uploads.flush()
            return
        if checkpoint is None:
            self._call(index, entry, True)
            return
        if mode is CheckpointUploadMode.NO_UPLOAD:
            entry.external = (checkpoint.path, None)
            self._call(index, entry, True)
            return
        self._upload_and_call(index, entry, checkpoint, upload_fn, bool(delete), True)

    def _store_and_call(
        self, index: int, entry: ReportEntry, written: Callable[[], Checkpoint]
    ) -> None:
        """Store the checkpoint of sharded state in the thread of uploads, then report it."""
        checkpoint: Checkpoint | None = None
        try:
            checkpoint = written()
            final = ""
            if self._storage.filesystem is not None:
                final = self._get(
                    self._coordinator.checkpoint_name.remote(self._number, index, entry.dir_name)
                )
            self._bring(checkpoint, f"{self._number}-{index}", final, True, entry)
        except Exception as error:  # the others hear of it; the next checkpoint may do better
            entry.failed = str(error) or repr(error)
            if checkpoint is not None:
                shutil.rmtree(checkpoint.path, ignore_errors=True)
        self._call(index, entry, False)

    def _upload_and_call(
        self,
        index: int,
        entry: ReportEntry,
        checkpoint: Checkpoint | None,
        upload_fn: Any,
        take: bool,
        blocking: bool,
    ) -> None:
        if checkpoint is not None:
            stage = f"{self._number}-{index}"
            final = entry.dir_name or ""
            if self._storage.filesystem is not None or upload_fn is not None:
                final = self._get(
                    self._coordinator.checkpoint_name.remote(self._number, index, entry.dir_name)
                )
            if upload_fn is not None:
                stored = upload_fn(checkpoint, final)
                if not isinstance(stored, Checkpoint):
                    raise ValueError(
                        "checkpoint_upload_fn must return the Checkpoint that it has stored, not "
                        f"{stored!r}: return Checkpoint(path, filesystem)."
                    )
                entry.external = (stored.path, None)
                if take:
                    shutil.rmtree(checkpoint.path, ignore_errors=True)
            else:
                self._bring(checkpoint, stage, final, take, entry)
        self._call(index, entry, blocking)

    def _bring(
        self, checkpoint: Checkpoint, stage: str, final: str, take: bool, entry: ReportEntry
    ) -> None:
        names = self.assignment.may_lose_ranks
        with self._measured.transferring():
            if take:
                folder = os.fspath(checkpoint)
                entry.files = files_below(folder) if names else None
                self._storage.take(folder, stage, final)
            else:
                with checkpoint.as_directory() as folder:
                    entry.files = files_below(folder) if names else None
                    self._storage.upload(folder, stage, final)
        entry.staged = True

    def _call(self, index: int, entry: ReportEntry, blocking: bool) -> None:
        has_checkpoint = entry.staged or entry.external is not None
        with self._measured.syncing() if has_checkpoint else contextlib.nullcontext():
            reply = self._get(
                self._coordinator.report.remote(self._number, self._rank, index, entry, blocking)
            )
        if reply.made is not None:
            with self._lock:
                self._reports += reply.made - (index + 1)
        if entry.may_fail:
            self._not_stored = reply.failed
        if reply.checkpoint is not None:
            self._latest = _checkpoint(self._storage, reply.checkpoint)
        self._obey(reply)

    def meet(self, kind: str, data: Any) -> Any:
        """Meet the other ranks; returns what rank 0 brought."""
        with self._lock:
            index, self._collectives = self._collectives, self._collectives + 1
        call = self._coordinator.collective
        reply = self._get(call.remote(self._number, self._rank, index, kind, data))
        self._obey(reply)
        return reply.value

    def gather(self, data: Any) -> dict[int, Any]:
        """Meet the other ranks; returns what each has brought."""
        found: dict[int, Any] = self.meet("gather", data)
        return found

    def memory_kept(self, version: Version, part: int, parts: int) -> Version | None:
        """A part of the state is in peers' memory; returns the latest that is there whole."""
        call = self._coordinator.memory_kept.remote(self._number, part, parts, version)
        whole: Version | None = self._get(call)
        return whole

    def note(self, text: str) -> None:
        """Have the user read a sentence."""
        self._get(self._coordinator.note.remote(self._number, text))

    def on_world_size_change(self, hook: Callable[[int, int], None]) -> None:
        """See ``heliostat.train.on_world_size_change``."""
        self._size_hooks.append(hook)
        before, now = self._saved_by, self.assignment.world_size
        if before is not None and before != now:
            hook(before, now)

    def world_size_changed(self, before: int, now: int) -> None:
        """The group has another size, while the function runs."""
        for hook in self._size_hooks:
            hook(before, now)

    def restored_from(self, world_size: int) -> None:
        """The function goes on from the state of so many workers, in peers' memory."""
        self._saved_by = world_size

    def answer_saves(self, saver: Callable[[int], int]) -> None:
        """Have ``saver(round)`` say how many steps will have been made, when the ranks are asked to save."""
        self._saver = saver

    def ask_to_save(self, round_: int) -> int | None:
        """The ranks are asked to save; how many steps this one will have made. Called in another thread."""
        if self._saver is not None:
            return self._saver(round_)
        self.save_round = round_
        return None

    def save_target(self, round_: int, made: int) -> int:
        """Wait until it is known behind how many steps all ranks save."""
        target: int | None = self._get(
            self._coordinator.save_target.remote(self._number, round_, made)
        )
        if target is None:
            raise AttemptEnded("the attempt is over")
        return target

    def flush(self) -> None:
        """Wait for the reports that are under way; raises what went wrong, and that the attempt is over."""
        self._uploads.flush()

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call it when the training function is over, however it ends."""
        self._at_end.append(callback)

    @staticmethod
    def _get(ref: Any) -> Any:
        """Return the answer; until then this rank waits, mostly for others."""
        clock = current_clock()
        if clock is None:
            return ray.get(ref)
        with clock.within(COMMUNICATION):
            return ray.get(ref)

    @staticmethod
    def _obey(reply: Reply) -> None:
        if reply.error is not None:
            raise reply.error
        if not reply.go_on:
            raise AttemptEnded("the attempt is over")

    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint of the run."""
        return self._latest

    def shard(self, name: str | None) -> Any:
        """A dataset shard of this rank."""
        if not self._shards:
            return None
        from heliostat.data.iterate.iterator import set_around

        set_around(Fetched)
        return self._shards[the_dataset(self._shards, name)]

    def reported(self, validated: bool, timeout_s: float | None) -> list[ReportedCheckpoint]:
        """All checkpoints of the run, when those of this worker are stored."""
        with contextlib.suppress(TimeoutError):
            self._uploads.flush(timeout_s)
        book = self._get(self._coordinator.checkpoints.remote(validated, timeout_s))
        return [
            ReportedCheckpoint(_checkpoint(self._storage, e.name), e.metrics, e.status)
            for e in book.entries
        ]

    def finish(self) -> None:
        """Wait for uploads that are under way; raises what went wrong with one."""
        self._uploads.flush()
        self._uploads.raise_failure()
        if self._not_stored:
            raise RuntimeError(f"The last checkpoint could not be stored: {self._not_stored}")

    def close(self) -> None:
        """Give up uploads that have not begun."""
        while self._at_end:
            with contextlib.suppress(Exception):
                self._at_end.pop()()
        self._uploads.close()


def _checkpoint(storage: Storage, name: str) -> Checkpoint:
    path = name if os.path.isabs(name) else storage.join(name)
    return Checkpoint(path, storage.filesystem)
