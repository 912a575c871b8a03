"""A run from the driver's side: attempts until the training function has returned everywhere.

The driver decides and records; the coordinator actor is only the meeting point of the ranks. Both
a worker's death and a report wake the one wait of the driver, so nothing is polled.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import heliostat as ray
from heliostat.core.platform.user_errors import user_error
from heliostat.train.backend import Replicas
from heliostat.train.callbacks import TrainRunContext
from heliostat.train.controller.attempt import AttemptResult, AttemptRunner, EventStream
from heliostat.train.controller.callbacks import CallbackFailed, Callbacks
from heliostat.train.controller.checks import checkpoint_of, open_run
from heliostat.train.controller.failures import FailurePolicy, RankFailure, by_cause, describe
from heliostat.train.controller.interrupts import Interrupts
from heliostat.train.controller.launch import CoordinatorLost, Launcher
from heliostat.train.controller.newcomers import Newcomers
from heliostat.train.controller.page_row import RunRow
from heliostat.train.controller.pauses import Pauses
from heliostat.train.controller.record import (
    AttemptRecord,
    Failure,
    QuorumRecord,
    RunRecord,
    WorkerSpan,
)
from heliostat.train.controller.replacing import Replacer
from heliostat.train.controller.resizing import Resizer
from heliostat.train.controller.results import ResultBuilder
from heliostat.train.controller.sizes import Sizes
from heliostat.train.controller.spec import RunSpec
from heliostat.train.controller.state_rows import StateRows
from heliostat.train.coordinator.actor import TrainCoordinator
from heliostat.train.coordinator.attempt import ranks_text
from heliostat.train.coordinator.checkpoint_book import CheckpointBook
from heliostat.train.errors import (
    ControllerError,
    RemoteTraceback,
    TrainingFailedError,
    WorkerGroupError,
    WorkerStartError,
)
from heliostat.train.group.worker_group import Worker, WorkerGroup
from heliostat.train.measurements import RunMeasurements
from heliostat.train.memory.keepers import Keepers
from heliostat.train.messages import Event, ReportedRow
from heliostat.train.preemption import PreemptionError
from heliostat.train.result import Result
from heliostat.train.scores import ScoreCheck
from heliostat.train.view import open_view

# Decisions after a failure.
_RESTART = "restarting from the latest checkpoint"
_GO_ON = "the other replica groups go on, and this one is replaced"
_GIVE_UP = "giving up"


class TrainRun:
    """Executes a ``RunSpec``."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._callbacks = Callbacks(spec.run_config.callbacks or [])
        self._context = TrainRunContext(
            spec.run_config, spec.scaling, spec.job.config, spec.backend_config, spec.run_id
        )
        latest = spec.book.latest
        self.record = RunRecord(
            name=spec.storage.name,
            run_id=spec.run_id,
            path=spec.storage.path,
            config=spec.describe(),
            resumed_from=latest.name if latest else None,
        )
        self._view = open_view(self.record, spec.settings.view)
        self._rows = StateRows(spec, self.record)
        self._told = RunRow(self.record)
        self._measured = RunMeasurements(self.record.name, spec.run_id)
        assert spec.run_config.failure_config is not None
        self._policy = FailurePolicy(spec.run_config.failure_config)
        self._backend = spec.backend_config.backend_cls()
        replicas = self._backend.replicas(spec.scaling.max_workers, spec.backend_config)
        unit = replicas.size if replicas is not None else 1
        self._sizes = Sizes(spec.scaling, unit)
        self._group = WorkerGroup(
            spec.scaling,
            spec.run_config.worker_runtime_env,
            _preload(spec, self._backend.has_replica_groups),
            spec.settings.start_timeout_s,
            self._note,
            self._view.refresh,
            unit,
        )
        # Between attempts that end by an exception before they have reported.
        self._pauses = Pauses()
        self._results = ResultBuilder(spec, self.record)
        self._book: CheckpointBook = spec.book
        self._scores = ScoreCheck(spec.book.score_attribute)
        for entry in spec.book.entries:
            self._scores.add(entry.metrics)
        self._keepers = Keepers()
        self._coordinator: Any = None
        self._job: Any = None
        self._values: dict[int, Any] = {}
        self._runner: AttemptRunner | None = None
        self._resizer = Resizer(
            spec.scaling,
            self._group,
            spec.settings.unwind_s,
            self._note,
            self._backend.has_replica_groups,
            spec.run_config.failure_config.preemption_grace_s,
        )
        self._newcomers = Newcomers(self.record, self._group, self._resizer, self._note)
        # Whether room comes back from workers that ended.
        self._room_comes_back = True
        # Ranks for which the others do not wait any more, since they went with a node.
        self._excused: set[int] = set()
        # Replica groups that have come beside the others, and are not in yet.
        self._joining: set[int] = set()
        # Ranks whose workers are replaced behind the checkpoint that ends the attempt.
        self._slow: set[int] = set()

    def execute(self) -> Result:
        """Train. Raises TrainingFailedError, or KeyboardInterrupt after a Ctrl-C."""
        with Interrupts():
            error: BaseException | None = None
            self._view.start()
            try:
                self._job = Launcher.store(self._spec.job)
                self._start_coordinator()
                self._rows.begin(self._coordinator)
                self._told.begin()
                while not self._attempt():
                    pass
                self.record.state = "finished"
            except KeyboardInterrupt as interrupt:
                self.record.state, error = "interrupted", interrupt
            except TrainingFailedError as failure:
                self.record.state, error = "failed", failure
            except WorkerStartError as failure:
                # No cause: a traceback would print the same text twice, and has no frame of the user's.
                self.record.state, error = "failed", ControllerError(failure)
            except CallbackFailed as failure:
                self.record.state, error = "failed", _callback_error(failure)
            except Exception as failure:
                self.record.state, error = "failed", ControllerError(failure)
                error.__cause__ = failure
            return self._finish(error)

    # ---- attempts ----

    def _attempt(self) -> bool:
        """Run one attempt; True when training is done."""
        number = len(self.record.attempts)
        try:
            there = len(self._group) + self._group.recruits.with_room
            size = self._sizes.choose(there, settles=self._room_comes_back)
            self._room_comes_back = True
            self.record.attempts.append(AttemptRecord(number, time.time(), size))
            self._enter("scheduling")
            with self._measured.starting():
                size = self.record.attempt.world_size = self._group.start(size)
            self._rows.group_started(self._group)
            self._tell_size(size)
            result = self._run_group(number, size)
        except WorkerStartError as error:
            # The first start tells the user; a restart may wait for a node that comes back.
            if number == 0 or not self._policy.allows_controller_restart():
                raise
            self._note(f"the run waits for room for its workers. {error}")
            self._group.stop()
            self._group.wait_for_room(self.record.attempts.pop().world_size)
            return False
        except CoordinatorLost as lost:
            result = AttemptResult(coordinator_error=lost.error)
        except ray.exceptions.RayError as error:
            if self._newcomers.have_kept_from_beginning():
                self.record.attempt.ended_at = time.time()
                return False
            result = AttemptResult(failed_at=time.time())
            result.failures.append(_start_failure(self._group, error))
        self.record.attempt.ended_at = time.time()
        self.record.storing.clear()  # what is not published by now will not be
        if result.coordinator_error is not None:
            self._replace_coordinator(result.coordinator_error)
            return False
        if result.failures:
            self._after_failure(result)
            return False
        if result.overdue:
            self._after_deadline(result)
            return False
        if result.unwound:
            self._enter("resizing")
            if self._slow:
                who = ranks_text(sorted(self._slow))
                self._note(f"{who}: a fresh worker goes on from the checkpoint just saved")
            else:
                self._note(f"{self._resizer.describe()}, from the checkpoint just saved")
            self._keep(result)
            return False
        self._values = result.values
        return True

    def _tell_size(self, size: int) -> None:
        earlier = [a.world_size for a in self.record.attempts[:-1] if a.started_at is not None]
        if earlier and earlier[-1] != size:
            workers = "worker" if size == 1 else "workers"
            self._note(f"the group has {size} {workers}, and had {earlier[-1]}")
            self._callbacks.call("on_world_size_change", self._context, earlier[-1], size)

    def _keep(self, result: AttemptResult) -> None:
        """End the workers that cannot be used again, are slow, or would go with their nodes."""
        moving = set(self._resizer.moving)
        kept = result.reusable - moving - self._slow
        self._room_comes_back = bool(set(range(len(self._group))) - kept - moving)
        self._group.keep(kept, self._slow)
        self._slow.clear()

    def _after_deadline(self, result: AttemptResult) -> None:
        """A node goes before a checkpoint has come: the run goes on from the one before."""
        info = self._resizer.info
        goes_on = self._policy.allows_preemption()
        budget = self._policy.budget(preempted=True)
        self._note(
            "no checkpoint has come within the time that the node had left: call report() with a "
            f"checkpoint when get_preemption_info() returns something ({budget})"
        )
        if not goes_on:
            self.record.state = "failed"
            raise PreemptionError(info, drain_timed_out=True)
        self._enter("recovering")
        self._keep(result)

    def _run_group(self, number: int, size: int) -> AttemptResult:
        spec, attempt = self._spec, self.record.attempt
        begun = self._coordinator.begin.remote(number, size)
        launcher = Launcher(spec, self._backend, self._group, self._keepers)
        latest = launcher.prepare(begun)
        replicas = launcher.open_replicas(self._coordinator)
        replacer = self._replacer_for(number, replicas, launcher) if replicas else None
        refs = launcher.run(number, latest, self._job, self._coordinator)
        attempt.started_at = time.time()
        attempt.from_checkpoint = latest
        if launcher.memory is not None:
            step = launcher.memory.version.step
            self._note(
                f"the state after {step} steps is in peers' memory: the workers take it from there"
            )
        self.record.reported.clear()
        attempt.workers = [
            WorkerSpan.of(i, w.info, w.fresh) for i, w in enumerate(self._group.workers)
        ]
        self._enter("running")
        self._results.attempt_started()
        self._view.attempt_started()
        self._runner = runner = AttemptRunner(
            self._group,
            self._coordinator,
            self._events,
            spec.settings.unwind_s,
            self._tick,
            self._worker_ended,
            self._note,
            self._resizer,
            replacer,
            self._grace_until,
        )
        self._excused = set()
        self._joining = set()
        self._resizer.begin(number, self._coordinator)
        result = runner.wait(refs)
        self._events.drain()
        self.record.slow_replaced += runner.retired
        return result

    # ---- replica groups ----

    def _replacer_for(self, number: int, replicas: Replicas, launcher: Launcher) -> Replacer:
        return Replacer(
            self._group,
            replicas,
            self._spec.settings.unwind_s,
            lambda group, is_gone: self._tell_lost(number, group, is_gone),
            launcher.start,
            lambda failure: self._policy.would_allow(self._was_announced(failure)),
            self._group_lost,
            self._renewed,
            lambda ranks: self._grow(number, ranks, replicas.size, launcher),
        )

    def _tell_lost(self, number: int, group: int, is_gone: bool) -> bool:
        try:
            told: bool = ray.get(self._coordinator.replica_lost.remote(number, group, is_gone))
        except ray.exceptions.RayError:
            return False  # without a coordinator the attempt ends
        return told

    def _group_lost(self, failure: RankFailure) -> None:
        """Count and show the loss of a replica group that is replaced."""
        policy, preempted = self._policy, self._was_announced(failure)
        if preempted:
            policy.allows_preemption()
        else:
            policy.allows_restart()
        text = describe([failure], self.record.attempt.world_size, policy, preempted)
        number, ranks = self.record.attempt.number, [failure.rank]
        row = Failure(time.time(), number, ranks, failure.title(), text, went_on=True)
        self.record.failures.append(row)
        self._view.failed(row, policy.budget(preempted), _GO_ON)
        exceptions = {failure.rank: _with_traceback(failure)}
        self._callbacks.call(
            "after_exception", run_context=self._context, worker_exceptions=exceptions
        )

    def _grow(self, number: int, ranks: range, size: int, launcher: Launcher) -> list[Any] | None:
        """Start one more replica group on workers that have joined; None: the training is over."""
        opened = self._coordinator.replica_opened.remote(number, ranks.start // size)
        try:
            if not ray.get(opened):
                return None
        except ray.exceptions.RayError:
            return None  # without a coordinator the attempt ends
        started = [launcher.add(rank) for rank in ranks]
        self.record.attempt.world_size = ranks.stop
        self._joining.add(ranks.start // size)
        self._rows.group_started(self._group)
        for rank in ranks:
            self._renewed(rank)
        self._callbacks.call("on_world_size_change", self._context, ranks.start, ranks.stop)
        return started

    def _renewed(self, rank: int) -> None:
        """A replaced worker runs."""
        worker = self._group.workers[rank]
        self.record.attempt.workers.append(WorkerSpan.of(rank, worker.info, worker.fresh))
        self._view.refresh()

    def _admitted(self, groups: list[int], step: int) -> None:
        replicas = self._backend.replicas(len(self._group), self._spec.backend_config)
        assert replicas is not None
        if self._runner is not None:
            self._runner.admitted(groups)
        for group in groups:
            lost = [
                f
                for f in self.record.failures
                if f.went_on and f.replaced_s is None and f.ranks[0] // replicas.size == group
            ]
            for failure in lost:
                failure.replaced_s = time.time() - failure.time
            after = f", {lost[-1].replaced_s:.2f} s after its loss" if lost else ""
            what = "joins" if group in self._joining else "trains again"
            self._joining.discard(group)
            self._note(f"replica group {group} {what} from step {step} on{after}")

    def _after_failure(self, result: AttemptResult) -> None:
        failures = by_cause(result.failures)
        if failures[0].died:
            fallen = {f.rank for f in failures if not f.died}
            for span in self.record.attempt.workers:
                span.state = "ended" if span.rank in fallen else span.state
        if self._newcomers.have_failed_alone(failures):
            self._keep(result)
            return
        exceptions = {f.rank: _with_traceback(f) for f in failures}
        preempted = self._was_announced(failures[0])
        policy = self._policy
        restart = policy.allows_preemption() if preempted else policy.allows_restart()
        workers = self.record.attempt.world_size
        text = describe(failures, workers, policy, preempted, result.not_replaced)
        failure = Failure(
            time=result.failed_at or time.time(),
            attempt=self.record.attempt.number,
            ranks=[f.rank for f in failures],
            title=failures[0].title(),
            detail=text,
        )
        self.record.failures.append(failure)
        if restart:
            self._enter("recovering")
        else:
            self.record.state = "failed"
        self._view.failed(failure, policy.budget(preempted), _RESTART if restart else _GIVE_UP)
        self._callbacks.call(
            "after_exception", run_context=self._context, worker_exceptions=exceptions
        )
        if not restart and preempted:
            raise PreemptionError(self._resizer.info) from failures[0].error
        if not restart:
            raise WorkerGroupError(text, exceptions)  # the text has the tracebacks
        self._keep(result)
        if not failures[0].died and not self.record.has_reported:
            self._pause(self._pauses.next_s(), "training failed again before its first report.")

    def _was_announced(self, failure: RankFailure) -> bool:
        """Whether a worker has died with a node of which it was known that it would be taken away."""
        info = failure.info
        return failure.died and info is not None and self._resizer.was_leaving(info.node_id)

    def _grace_until(self, failures: list[RankFailure]) -> float | None:
        """Until when the others may run on after a node was taken away with some ranks.

        What they are about to store counts. None: they are told to end now, as after any other failure.
        """
        config = self._policy.config
        relaxes = config.relax_collectives_on_preemption
        lost = [f for f in failures if f.died]
        if not (relaxes or config.preemption_grace_s) or not lost:
            return None
        if not all(self._was_announced(f) for f in lost):
            return None
        ends = [self._resizer.grace_until(f.info.node_id) for f in lost if f.info is not None]
        ranks = {f.rank for f in failures} - self._excused
        if relaxes and ranks:
            self._excused |= ranks
            self._note(f"{ranks_text(sorted(ranks))} went with their node: nobody waits for them")
            self._coordinator.go_on_without.remote(self.record.attempt.number, sorted(ranks))
        return min((end for end in ends if end is not None), default=None)

    # ---- the coordinator ----

    def _start_coordinator(self) -> None:
        spec = self._spec
        actor = ray.remote(TrainCoordinator)
        # With replica groups it holds the meeting point of process groups, which is torch's.
        preload = spec.backend_config.preload if self._backend.has_replica_groups else []
        most = spec.scaling.max_workers
        options: dict[str, Any] = {"_preload": preload} if preload else {}
        actor = actor.options(num_cpus=0, max_concurrency=8 * most + 32, **options)
        self._coordinator = actor.remote(
            spec.storage,
            self._book,
            spec.settings,
            bool(self._callbacks),
            spec.job.validation,
            spec.run_config.failure_config,
        )
        self._events = EventStream(self._coordinator, self._hear)

    def _replace_coordinator(self, error: Exception) -> None:
        """The snapshot in the storage holds all it knew that matters."""
        if not self._policy.allows_controller_restart():
            raise ControllerError(error)
        self._note(f"the coordinator is replaced, since it failed: {error}")
        self._group.stop()
        with contextlib.suppress(Exception):
            ray.kill(self._coordinator)
        self._book = self._reopened()
        self._start_coordinator()

    def _reopened(self) -> CheckpointBook:
        """Open the storage's run again; one that is away or full is waited for, as long as failures
        are allowed.
        """
        pauses = Pauses()
        while True:
            try:
                return open_run(self._spec.storage, self._spec.run_config)
            except ValueError as error:
                is_away = isinstance(error.__cause__, OSError)
                if not is_away or not self._policy.allows_controller_restart():
                    raise
                self._pause(pauses.next_s(), f"the run waits for its storage. {error}")

    def _pause(self, seconds: float, why: str) -> None:
        text = f"{why} It is tried again in {seconds:.0f} s"
        if seconds and text not in [last for _, last in self.record.notes[-1:]]:
            self._note(text)
        self._tick()
        time.sleep(seconds)

    # ---- what happens meanwhile ----

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            if event.kind == "report":
                self.record.stored(event.data["report"], event.data["row"])
                self._reported(event.data["row"])
            elif event.kind == "storing":
                self.record.begin_storing(event.data["report"], event.data["rank"], event.time)
            elif event.kind == "quorum":
                number = self.record.attempt.number
                self.record.quorums.append(QuorumRecord(event.time, number, **event.data))
            elif event.kind == "deleted":
                self.record.deleted.update(event.data["names"])
                self._warn_of_scores()
            elif event.kind == "validated":
                self._validated(**event.data)
            elif event.kind in ("missing", "excused", "note"):
                self._note(event.data["text"])
            elif event.kind == "hung" and self._runner is not None:
                for rank in event.data["ranks"]:
                    self._runner.hung(rank, event.data["text"])
            elif event.kind == "silent" and self._runner is not None:
                self._runner.silent(**event.data)
            elif event.kind == "reported":
                if event.data["attempt"] == self.record.attempt.number:
                    self.record.reported.update(event.data["ranks"])
            elif event.kind == "steps":
                self.record.step_times = event.data["times"]
            elif event.kind == "slow":
                self._is_slow(**event.data)
            elif event.kind == "publish_failed":
                self.record.stored(event.data["report"])
                self._note(f"a checkpoint could not be stored: {event.data['error']}")
            elif event.kind == "kept":
                # The parts that keepers of leaving nodes had are in memory elsewhere, in a newer state.
                self._keepers.leave(self._resizer.leaving_nodes)
            elif event.kind == "admitted":
                self._admitted(**event.data)
            elif event.kind == "dissolved" and self._runner is not None:
                self._runner.dissolved(event.data["text"])
        if events:
            self._view.refresh()

    def _reported(self, row: ReportedRow) -> None:
        pid = self.record.attempt.workers[0].pid if self.record.attempt.workers else 0
        self._newcomers.reported()
        self._pauses.over()
        self._results.reported(row, pid)
        self.record.add_report(row)
        self._view.reported(row)
        if row.checkpoint:
            self._scores.add(row.metrics)
        if self._callbacks:
            self._callbacks.call(
                "after_report",
                run_context=self._context,
                metrics=row.all_metrics or [row.metrics],
                checkpoint=checkpoint_of(self._spec.storage, row.checkpoint)
                if row.checkpoint
                else None,
            )

    def _is_slow(self, rank: int, text: str) -> None:
        """A rank is replaced: now, or behind the checkpoint that has just ended the attempt."""
        if self._backend.has_replica_groups and self._runner is not None:
            self._note(f"{text}: its replica group is replaced while the others go on")
            self._runner.slow(rank)
        else:
            self._slow.add(rank)
            self.record.slow_replaced += 1

    def _validated(self, checkpoint: str, metrics: dict[str, Any], text: str) -> None:
        for row in self.record.checkpoints:
            if row.checkpoint == checkpoint:
                row.metrics = {**row.metrics, **metrics}
        self._scores.add(metrics)
        if text:
            self._note(text)

    def _tick(self) -> None:
        self._view.refresh()
        self._told.refresh()

    def _worker_ended(self, worker: Worker, state: str) -> None:
        for span in self.record.attempt.workers:
            if span.rank == worker.rank and span.end is None:
                span.end, span.state = time.time(), state
        self._view.refresh()

    def _warn_of_scores(self) -> None:
        text = self._scores.warning()
        if text is not None:
            self._note(text)

    def _enter(self, state: str) -> None:
        self.record.state = state
        self._measured.entered(state)
        self._rows.changed()
        self._told.refresh()

    def _note(self, text: str) -> None:
        self.record.notes.append((time.time(), text))
        self._view.note(text)

    # ---- the end ----

    def _finish(self, error: BaseException | None) -> Result:
        if self._coordinator is not None and self.record.attempts:
            try:
                # A run that has succeeded waits for its validations.
                last = self._coordinator.finish.remote(error is None)
                self._book = ray.get(last, timeout=None if error is None else 30)
                self._events.drain()
            except CallbackFailed as failure:
                if error is None:
                    self.record.state, error = "failed", _callback_error(failure)
            except Exception:
                pass  # the run is over without the coordinator, too
        if error is None and self._group.workers:
            with contextlib.suppress(Exception):
                self._backend.on_shutdown(self._group, self._spec.backend_config)
        with self._measured.stopping():
            self._group.stop()
        self._keepers.close()
        if self._coordinator is not None:
            with contextlib.suppress(Exception):
                ray.kill(self._coordinator)
        self.record.finished_at = time.time()
        self._measured.entered(self.record.state)
        for span in self.record.attempts[-1].workers if self.record.attempts else []:
            span.end = span.end or self.record.finished_at
            span.state = "ended" if span.state == "running" else span.state
        self._warn_of_scores()
        self._rows.changed(error)
        self._told.end()
        problem = self._results.write_page(error)
        if problem:
            self._note(problem)
        if isinstance(error, ControllerError):
            self._view.note(f"failure: {str(error).splitlines()[0]}")
        self._view.finish()
        if error is not None:
            raise error.with_traceback(None)  # its frames are of this loop; a cause keeps its own
        return self._results.build(self._book, self._values)


def _preload(spec: RunSpec, has_replica_groups: bool) -> list[str]:
    """Return the modules that workers import while they start; with copies in memory also those
    that take the copies back.
    """
    modules: list[str] = list(spec.backend_config.preload)
    options = spec.run_config.checkpoint_config
    keeps_copies = options is not None and options.memory_every_n_steps is not None
    if keeps_copies and not has_replica_groups:  # those take the state as newcomers do
        modules.append("heliostat.train.torch.resume.run")
    return modules


def _with_traceback(failure: RankFailure) -> Exception:
    if failure.traceback:
        failure.error.__cause__ = RemoteTraceback(failure.traceback)
    return failure.error


def _callback_error(failure: CallbackFailed) -> ControllerError:
    error = ControllerError(failure.error, _where=failure.where)
    error.__cause__ = failure.error
    return error


def _start_failure(group: WorkerGroup, error: Exception) -> RankFailure:
    """A worker was lost while the group started."""
    group.stop()
    text = str(error).strip() or type(error).__name__
    cause = user_error(error)
    return RankFailure(0, cause if isinstance(cause, Exception) else error, text)
