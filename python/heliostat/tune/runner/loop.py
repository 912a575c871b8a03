"""The loop that drives a search: it starts actors, passes results to the search, and does what it says.

An actor runs trials one after the other where the trainable allows it, so that a trial costs a call and
not a process. Each running trial has one call under way, whose answer brings the next reports.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import heliostat as ray
from heliostat.exceptions import ObjectLostError, RayError, RayTaskError
from heliostat.train.scores import ScoreCheck
from heliostat.tune.aliases import Report
from heliostat.tune.callback import Callback, CallbackList
from heliostat.tune.config import CheckpointConfig
from heliostat.tune.environment import Variables
from heliostat.tune.execution.placement_groups import PlacementGroupFactory
from heliostat.tune.logger import LoggerCallback
from heliostat.tune.logger.files import CSVLoggerCallback, JsonLoggerCallback, ResultFiles
from heliostat.tune.logger.tensorboardx import TBXLoggerCallback
from heliostat.tune.progress import Progress
from heliostat.tune.result import SHOULD_CHECKPOINT
from heliostat.tune.runner.arrivals import Arrivals
from heliostat.tune.runner.callback_thread import CallbackThread, hooks_of
from heliostat.tune.runner.search import CONTINUE, PAUSE, STOP, Search
from heliostat.tune.runner.store import SEARCHER, Store
from heliostat.tune.runner.trial import RUNNING, Trial, best_checkpoints
from heliostat.tune.trainable.actor import TrialActor
from heliostat.tune.trainable.output import LogFiles
from heliostat.tune.trainable.spec import Batch, Spec
from heliostat.tune.trainable.timing import counts_of
from heliostat.tune.trainable.util import is_class, large_modules

logger = logging.getLogger("heliostat")

WAIT_S = 0.5  # the longest sleep: the time budget is looked at in between
SEARCHER_WAIT_S = 0.05  # between questions to a searcher that has nothing now
# A wait looks at each open call, about 0.8 us. Where there are so many, they are listened to instead.
MANY = 50
CONCURRENT_MAX = 10_000
# Modules that each process of a trial loads, and the number of trials from which one has them loaded.
WARM, WORTH = "heliostat.tune.trainable.actor", 8
# Trials that may wait, where nothing learns from them, so that a cluster grows fast.
AUTO_PENDING_MIN = 200
# A process that has not begun after this long may wait for what an idle one holds: what others use of the
# cluster is not known here.
GIVE_WAY_S = 2.0
LITTLE = 1e-6  # ten tenths of a GPU are one


class Place:
    """A trial that runs: its actor and the call that is under way."""

    def __init__(
        self,
        trial: Trial,
        actor: Any,
        resources: PlacementGroupFactory,
        group: Any,
        is_new: bool,
    ) -> None:
        self.trial, self.actor, self.resources, self.group = trial, actor, resources, group
        self.since = time.monotonic()
        # Answered when the actor's process has begun; `None` where that is known.
        self.begins = actor.__ray_ready__.remote() if is_new else None
        self.made: Any = None  # the object of the checkpoint that the call makes
        self.handed: str | None = None  # the checkpoint whose object it was given
        self.decision: str | None = None  # what the call under way was about, when it ends the run


class Loop:
    """Runs a search to its end."""

    def __init__(
        self,
        search: Search,
        store: Store,
        trainable: object,
        experiment_name: str,
        checkpoints: CheckpointConfig,
        callbacks: CallbackList,
        reuse_actors: bool,
        max_concurrent: int,
        save_searcher: Callable[[str], None] | None,
        log_files: LogFiles | None,
        variables: Variables,
    ) -> None:
        self._search, self._store, self._name = search, store, experiment_name
        self._trainable = trainable
        self._trainable_ref: Any = None
        self._checkpoints, self._callbacks = checkpoints, callbacks
        self._scores = ScoreCheck(checkpoints.checkpoint_score_attribute)
        for trial in search.get_trials():
            for _, metrics in trial.checkpoints:
                self._scores.add(metrics)
        self._reuse = reuse_actors
        self._max_concurrent = max_concurrent if max_concurrent > 0 else CONCURRENT_MAX
        self._save_searcher, self._saved_at = save_searcher, time.monotonic()
        self._log_files = log_files
        self._variables = variables
        self._ending: list[tuple[float, Any]] = []  # when a process that ends by itself is killed
        self._moved_at = time.monotonic()  # when something last began or came back
        self._places: dict[Any, Place] = {}
        self._arrivals: Arrivals | None = None  # of the places' calls, where they are many
        self._idle: dict[PlacementGroupFactory, list[tuple[Any, Any]]] = defaultdict(list)
        self._running: Counter[PlacementGroupFactory] = Counter()  # what the places take
        self._turn = 0  # those that are over
        self._pending_max = 0
        self._cluster: dict[str, float] = {}
        self._looked_at = -math.inf
        self._is_class = is_class(trainable)
        self._modules = self._preloaded()
        self._asked_to_save: set[str] = set()  # trials of which a callback wants a checkpoint
        self._lockstep = self._is_class or search.scheduler.decides or search.stopper.decides
        # Checkpoints as objects, by their paths, where they would be downloaded.
        self._hands = search.scheduler.hands_checkpoints and store.storage is not None
        self._objects: dict[str, Any] = {}
        self._told: dict[str, list[Callback]] = {}  # who hears of what, in the loop
        self._beside = self._divide()
        search.on_added, search.on_ended = store.added, self._stopped
        search.saves_on_request, search.reuses_actors = self._is_class, reuse_actors
        search.total_resources = ray.cluster_resources

    def run(self, progress: Progress) -> None:
        """Run until the search is over, and show how it goes."""
        with _heap_frozen():
            self._run(progress)

    def _run(self, progress: Progress) -> None:
        self._trainable_ref = ray.put(self._trainable)
        self._pending_max = self._suggested_pending()
        try:
            while not self._search.is_over:
                self._tell("on_step_begin")
                self._fill()
                self._wait()
                self._give_way()
                self._turn += 1
                self._tell("on_step_end")
                self._beside.pass_on()
                self._beside.check()
                progress.show(self._search)
                self._save()
                self._end_late()
                if self._search.stopper.stop_all():
                    self._search.is_stopping = True
                if self._search.is_stopping:
                    self._interrupt()
        finally:
            for place in list(self._places.values()):
                self._end_actor(place.actor, place.group)
            self._end_idle()
            try:
                self._save(at_once=True)
            finally:
                self._beside.tell("on_left", trial=None)
                self._beside.close()
        self._warn_of_scores()
        self._beside.check()

    def _preloaded(self) -> list[str] | None:
        """Return the modules with which processes of trials are forked; None: a process that has
        them is not worth its time.
        """
        large = large_modules(self._trainable)
        total = self._search.source.total
        is_large = total is None or total >= WORTH
        return [WARM, *large] if is_large else large or None

    def _divide(self) -> CallbackThread:
        """Divide the callbacks into those that are told in the loop, and those in a thread: loggers
        that only write, each in a class of ours.
        """
        for one in self._callbacks:
            if isinstance(one, JsonLoggerCallback):
                one.is_of_search = True
        beside = [one for one in self._callbacks if type(one).__dict__.get("_runs_beside")]
        files = [one for one in beside if isinstance(one, CSVLoggerCallback | TBXLoggerCallback)]
        inline = [one for one in self._callbacks if one not in beside]
        for one in inline:
            for hook in hooks_of(one):
                self._told.setdefault(hook, []).append(one)
        self._may_change = any(_is_of_program(one) for one in self._told.get("on_trial_result", ()))
        # Callbacks use a checkpoint while it is there.
        self._copies_checkpoints = any(
            isinstance(one, LoggerCallback)
            and type(one).log_trial_save is not LoggerCallback.log_trial_save
            for one in beside
        )
        others = [one for one in beside if one not in files]
        behind = CallbackThread(others) if others else None
        return CallbackThread([ResultFiles(), *files], behind, makes_texts=True)

    # --- starting trials ---

    def _fill(self) -> None:
        # A scheduler looks through all trials for one that waits.
        if self._search.source.is_finished and len(self._places) >= self._search.live_count:
            return
        while len(self._places) < self._max_concurrent and self._has_room():
            began = time.monotonic()
            trial = self._search.choose()
            self._took("The choice of the next trial", began)
            if trial is None:
                return
            self._start(trial)
            self._moved_at = time.monotonic()

    def _has_room(self) -> bool:
        """Whether another trial like those that run would fit, or may wait; the first always may begin."""
        if not self._places:
            return True
        now = time.monotonic()
        if now - self._looked_at > self._variables.refresh_s:
            self._cluster, self._looked_at = ray.cluster_resources(), now
        last = next(reversed(self._places.values())).resources
        kinds = [(kind.required_resources, count) for kind, count in self._running.items()]
        fits = all(
            self._cluster.get(name, 0) + LITTLE
            >= amount + sum(count * needs.get(name, 0) for needs, count in kinds)
            for name, amount in last.required_resources.items()
            if amount > 0
        )
        return fits or self._waiting() < self._pending_max

    def _suggested_pending(self) -> int:
        """The number of trials that may wait: the variable's, or what searcher and cluster suggest."""
        wanted = self._variables.pending_max
        if wanted is not None:
            return wanted
        if self._search.has_searcher:  # it learns from what has ended
            return getattr(self._search.searcher, "max_concurrent", 0) or 1
        return max(AUTO_PENDING_MIN, int(ray.cluster_resources().get("CPU", 1.0) * 1.1))

    def _waiting(self) -> int:
        """The number of begun trials that have to wait for resources."""
        if not self._pending_max:
            return 0
        left, waiting = dict(self._cluster), 0
        for kind, count in self._running.items():
            needs = {name: need for name, need in kind.required_resources.items() if need > 0}
            fitting = min(
                (int((left.get(name, 0) + LITTLE) / need) for name, need in needs.items()),
                default=count,
            )
            taken = min(fitting, count)
            waiting += count - taken
            for name, need in needs.items():
                left[name] = left.get(name, 0) - taken * need
        return waiting

    def _start(self, trial: Trial) -> None:
        resources = trial.placement_group_factory
        idle = self._idle[resources]
        if not idle:
            self._end_idle()  # they may hold what this trial needs
        is_new = not idle
        actor, group = self._make_actor(resources) if is_new else idle.pop()
        place = Place(trial, actor, resources, group, is_new)
        config = self._checkpoints
        self._change(trial)
        spec = Spec(
            trial_id=trial.trial_id,
            trial_name=str(trial),
            experiment_name=self._name,
            config=trial.config,
            folder=os.path.join(self._store.folder, trial.folder),
            resources=resources,
            is_lockstep=self._lockstep,
            checkpoint=trial.checkpoint_path,
            checkpoints=trial.checkpoint_count,
            iteration=trial.restore_iteration,
            total_s=trial.restore_total_s if trial.checkpoint_path else 0.0,
            counts=trial.restore_counts if trial.checkpoint_path else {},
            checkpoint_frequency=config.checkpoint_frequency or 0,
            checkpoint_at_end=bool(config.checkpoint_at_end),
            log_files=self._log_files,
            storage=self._store.storage,
            hands=self._hands,
            thread_s=self._variables.thread_s,
        )
        self._search.started(trial)
        self._store.begun(trial, actor._actor_id.hex(), dict(resources.required_resources))
        self._store.status(trial)
        self._tell_all("on_trial_start", trial)
        if trial.checkpoint_path:
            self._tell_all("on_trial_restore", trial)
        self._running[resources] += 1
        handed = self._objects.get(trial.checkpoint_path or "")
        place.handed = trial.checkpoint_path if handed is not None else None
        self._call(place, "start", spec, handed)

    def _call(self, place: Place, method: str, *given: object) -> None:
        """Have a method of the trial's process under way."""
        if self._hands:
            call = place.actor.both.options(num_returns=2)
            ref, place.made = call.remote(method, *given)
        else:
            ref = getattr(place.actor, method).remote(*given)
        self._places[ref] = place
        if self._arrivals is not None:
            self._arrivals.expect(ref)

    def _change(self, trial: Trial) -> None:
        """Take over what a scheduler has given the trial, before it starts."""
        if trial.is_changed:
            trial.is_changed = False
            self._store.configured(trial)
        if trial.handed is not None:
            handed, trial.handed = trial.handed, None
            trial.checkpoint_path, trial.restore_counts = handed.checkpoint_path, handed.counts
            trial.restore_iteration, trial.restore_total_s = handed.iteration, handed.total_s
            self._store.checkpointed(trial)

    def _make_actor(self, resources: PlacementGroupFactory) -> tuple[Any, Any]:
        bundles = resources.bundles
        head = {} if resources.head_bundle_is_empty else dict(bundles[0])
        options: dict[str, object] = {
            "num_cpus": head.pop("CPU", 0),
            "num_gpus": head.pop("GPU", 0),
            "memory": int(head.pop("memory", 0)) or None,
            "resources": head,
            "_preload": self._modules,
        }
        group = None
        # A trial that takes nothing itself has a group, too: what it starts is to find room there.
        if len(bundles) > 1 or (resources.head_bundle_is_empty and bundles[0]):
            from heliostat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            group = resources.to_placement_group()
            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                group, 0, placement_group_capture_child_tasks=True
            )
        actor = ray.remote(TrialActor).options(**options).remote(self._trainable_ref)
        return actor, group

    # --- what comes back ---

    def _wait(self) -> None:
        if not self._places:
            if not self._search.is_over:
                time.sleep(SEARCHER_WAIT_S)  # the searcher has nothing now
            return
        come = self._come()
        if not come:
            self._say_what_is_missing()
            return
        self._moved_at = time.monotonic()
        answered = [(ref, self._places.pop(ref), answer) for ref, answer in come]
        try:
            decisions = [
                self._reports(place.trial, answer, place.made) for _, place, answer in answered
            ]
            self._store.flush()  # before a trial hears that its report is taken
            for (_, place, answer), decision in zip(answered, decisions, strict=True):
                self._go_on(place, answer, decision)
        except BaseException:
            for ref, place, _ in answered:  # whose processes end with the search
                self._places.setdefault(ref, place)
            raise

    def _reports(self, trial: Trial, answer: Batch | BaseException, made: object) -> str:
        """Take in a trial's reports; what becomes of it."""
        decision = CONTINUE
        if isinstance(answer, BaseException):
            return decision
        last = answer.results[-1] if answer.results else None
        for result in answer.results:
            decision = self._reported(trial, result, made if result is last else None)
            if decision != CONTINUE:
                break  # what came behind it was made in vain
        return decision

    def _come(self) -> list[tuple[Any, Batch | BaseException]]:
        """The answers that have come; an error where there is no answer."""
        if self._arrivals is None and len(self._places) >= MANY:
            self._arrivals = Arrivals()
            for ref in self._places:
                self._arrivals.expect(ref)
        if self._arrivals is not None:
            return self._arrivals.take(WAIT_S, len(self._places))
        ready, _ = ray.wait(list(self._places), num_returns=1, timeout=WAIT_S)
        if ready:
            ready, _ = ray.wait(list(self._places), num_returns=len(self._places), timeout=0)
        return [(ref, _answer(ref)) for ref in ready]

    def _go_on(self, place: Place, batch: Batch | BaseException, decision: str) -> None:
        """Do what was decided about a trial, or what its end asks for."""
        if isinstance(batch, RayError):
            return self._lost(place, batch)
        if isinstance(batch, BaseException):
            raise batch
        trial = place.trial
        if batch.checkpoint:
            self._checkpointed(trial, batch.checkpoint, place.made)
        if batch.end == "failed":
            error = RayTaskError(str(trial), batch.error_text, pickle.loads(batch.error))
            cause = error.as_instanceof_cause()
            return self._failed(place, cause, batch.error_text, batch.is_restoring)
        if batch.end is None and decision == STOP:
            place.decision = STOP
            self._call(place, "stop")
            return None
        if batch.end is None and decision == PAUSE:
            place.decision = PAUSE
            self._call(place, "pause")
            return None
        is_asked = trial.trial_id in self._asked_to_save
        self._asked_to_save.discard(trial.trial_id)
        if batch.end is None and (is_asked or self._search.is_saving(trial)):
            self._call(place, "save")
            return None
        if batch.end is None:
            told = CONTINUE if self._lockstep else None
            self._call(place, "next", told)
            return None
        self._release(place, batch.is_clean)
        if place.decision == PAUSE or decision == PAUSE:
            self._search.paused(trial)
        else:
            if not trial.last_result:  # it ended without a report
                named = {"trial_id": trial.trial_id, "experiment_tag": trial.experiment_tag}
                trial.last_result = {**named, "config": trial.config}
            self._search.completed(trial)
            self._tell_all("on_trial_complete", trial, ends=True)
        self._store.status(trial)
        return None

    def _reported(self, trial: Trial, result: Report, made: object) -> str:
        result["config"] = trial.config
        result["experiment_tag"] = trial.experiment_tag
        name = result.get("checkpoint_dir_name")
        if name:  # before the scheduler is asked, who may hand it to another trial
            trial.last_result = result
            self._note_checkpoint(trial, name, made)
        began = time.monotonic()
        decision = self._search.reported(trial, result)
        self._took("What scheduler and searcher do with a result", began)
        self._store.reported(trial, result)
        before = dict(result) if self._may_change else result
        self._tell("on_trial_result", trial=trial, result=result)  # they may change it
        if before is not result and (
            result.keys() != before.keys() or any(result[k] is not before[k] for k in before)
        ):
            self._store.reported(trial, result, is_changed=True)
        self._tell_beside("on_trial_result", trial=trial, result=dict(result))
        if self._is_class and not name and result.get(SHOULD_CHECKPOINT):
            self._asked_to_save.add(trial.trial_id)
        if name:
            self._tell_checkpoint(trial)
        return decision

    def _checkpointed(self, trial: Trial, name: str, made: object) -> None:
        self._note_checkpoint(trial, name, made)
        self._tell_checkpoint(trial)

    def _note_checkpoint(self, trial: Trial, name: str, made: object) -> None:
        path = self._store.checkpoint_path(trial, name)
        trial.checkpoint_count += 1
        if path != trial.checkpoint_path:
            trial.checkpoint_path = path
            trial.restore_iteration = int(trial.last_result.get("training_iteration", 0))
            trial.restore_total_s = float(trial.last_result.get("time_total_s", 0.0))
            trial.restore_counts = counts_of(trial.last_result)
            self._scores.add(trial.last_result)
            trial.checkpoints.append((path, self._kept_of(trial.last_result)))
            self._keep_best(trial)
        if made is not None:
            self._objects[path] = made
        self._search.saved(trial)
        if self._objects:
            self._forget_objects()

    def _forget_objects(self) -> None:
        """Keep those of checkpoints that a trial may go on from."""
        live = self._search.get_live_trials()
        wanted = {trial.checkpoint_path for trial in live}
        wanted |= {trial.handed.checkpoint_path for trial in live if trial.handed is not None}
        for path in self._objects.keys() - wanted:
            del self._objects[path]

    def _kept_of(self, result: Report) -> Report:
        score = self._checkpoints.checkpoint_score_attribute
        if not self._variables.keeps_score_only or score is None:
            return result
        names = (score, score.split("/")[0], "training_iteration", "time_total_s")
        return {name: result[name] for name in names if name in result}

    def _tell_checkpoint(self, trial: Trial) -> None:
        self._store.checkpointed(trial)
        self._tell_beside("on_checkpoint", trial=trial, checkpoint=trial.checkpoint)
        if self._copies_checkpoints:
            self._beside.drain()
        try:
            self._tell("on_checkpoint", trial=trial, checkpoint=trial.checkpoint)
        except Exception:
            # The checkpoint is there all the same. Other hooks end the search.
            logger.warning("A callback failed with %s's new checkpoint:", trial, exc_info=True)
        self._tell_all("on_trial_save", trial)

    def _keep_best(self, trial: Trial) -> None:
        """Remove the checkpoints that are too many; the latest stays, a restart begins from it."""
        best = best_checkpoints(trial, self._checkpoints)
        kept = {path for path, _ in (*best, trial.checkpoints[-1])}
        dropped = [path for path, _ in trial.checkpoints if path not in kept]
        trial.checkpoints = [pair for pair in trial.checkpoints if pair[0] in kept]
        if dropped:
            self._warn_of_scores()
        for path in dropped:
            if not self._is_used(path, trial):
                self._store.remove_checkpoint(path)

    def _warn_of_scores(self) -> None:
        text = self._scores.warning()
        if text is not None:
            logger.warning("%s.", text)

    def _is_used(self, path: str, owner: Trial) -> bool:
        """Whether another trial goes on from a checkpoint."""
        others = (trial for trial in self._search.get_live_trials() if trial is not owner)
        return any(
            path == trial.checkpoint_path or (trial.handed and path == trial.handed.checkpoint_path)
            for trial in others
        )

    def _lost(self, place: Place, error: RayError) -> None:
        """The actor died, or its constructor raised."""
        if isinstance(error, ObjectLostError) and self._objects.pop(place.handed or "", None):
            # The run never began: the object that it was to get is gone, and is in the storage.
            self._left(place)
            self._end_actor(place.actor, place.group)
            self._search.postponed(place.trial)
            self._store.status(place.trial)
            return
        self._failed(place, error, f"{type(error).__name__}: {error}")

    def _failed(
        self, place: Place, error: BaseException, text: str, restoring: bool = False
    ) -> None:
        trial = place.trial
        self._left(place)
        self._end_actor(place.actor, place.group)
        if self._variables.prints_errors:
            logger.error("%s failed:\n%s", trial, text.rstrip())
        again = self._search.failed(trial, error, text, restoring)
        self._store.failed(trial)
        self._store.status(trial)
        self._tell_all("on_trial_recover" if again else "on_trial_error", trial, ends=True)

    def _stopped(self, trial: Trial) -> None:
        """A scheduler has ended a trial that waited."""
        self._store.status(trial)
        self._tell_all("on_trial_complete", trial, ends=True)

    # --- ending ---

    def _left(self, place: Place) -> None:
        self._beside.tell("on_left", trial=place.trial)
        self._running[place.resources] -= 1
        if not self._running[place.resources]:
            del self._running[place.resources]

    def _release(self, place: Place, is_usable: bool) -> None:
        is_awaited = self._waiting() > 0  # another trial's process waits for what this one has
        self._left(place)
        may_stay = self._reuse
        # One of another size may wait for what an idle process would keep.
        others = any(kind != place.resources for kind in self._running)
        if is_usable and may_stay and not others and not is_awaited:
            self._idle[place.resources].append((place.actor, place.group))
        else:
            self._end_actor(place.actor, place.group)

    def _end_actor(self, actor: Any, group: Any) -> None:
        if self._is_class:
            actor.close.remote()
            actor.__ray_terminate__.remote()
            self._ending.append((time.monotonic() + self._variables.cleanup_s, actor))
        else:
            ray.kill(actor)
        if group is not None:
            from heliostat.util.placement_group import remove_placement_group

            remove_placement_group(group)

    def _end_late(self) -> None:
        """Kill what was to end by itself and had its time; the others' handles are let go with the loop."""
        now = time.monotonic()
        while self._ending and self._ending[0][0] <= now:
            ray.kill(self._ending.pop(0)[1])

    def _end_idle(self) -> None:
        for actors in self._idle.values():
            for actor, group in actors:
                self._end_actor(actor, group)
            actors.clear()

    def _give_way(self) -> None:
        """End idle processes while that of a trial cannot begin."""
        if not any(self._idle.values()):
            return
        now = time.monotonic()
        late = {
            place.begins: place
            for place in self._places.values()
            if place.begins is not None and now - place.since > GIVE_WAY_S
        }
        if not late:
            return
        begun, waiting = ray.wait(list(late), num_returns=len(late), timeout=0)
        for ref in begun:
            late[ref].begins = None
        if waiting:
            self._end_idle()

    def _interrupt(self) -> None:
        """The search ends before its trials do."""
        for place in self._places.values():
            ray.kill(place.actor)
            self._search.interrupted(place.trial)
            self._store.status(place.trial)
        self._places.clear()
        self._running.clear()
        for trial in self._search.get_live_trials():
            if trial.status != RUNNING:
                self._search.interrupted(trial)
                self._store.status(trial)

    # --- the rest ---

    def _save(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._saved_at < self._variables.save_every_s:
            return
        self._saved_at = now
        if self._save_searcher is not None:
            self._save_searcher(os.path.join(self._store.folder, SEARCHER))
        self._callbacks.save_to_dir(self._store.folder)

    def _tell(self, hook: str, **about: object) -> None:
        """Tell those who are told in the loop."""
        trials = self._search.get_trials()
        for callback in self._told.get(hook, ()):
            began = time.monotonic()
            getattr(callback, hook)(iteration=self._turn, trials=trials, **about)
            self._took(hook, began, callback)

    def _tell_beside(self, hook: str, **about: object) -> None:
        """Tell those who are told in a thread."""
        self._beside.tell(hook, iteration=self._turn, trials=self._search.get_trials(), **about)

    def _tell_all(self, hook: str, trial: Trial, ends: bool = False) -> None:
        """Tell everybody of a trial; of its end when its files are written, which a program may read."""
        self._tell_beside(hook, trial=trial)
        if ends and any(_is_of_program(one) for one in self._told.get(hook, ())):
            self._beside.drain()
        self._tell(hook, trial=trial)

    def _took(self, what: str, began: float, callback: Callback | None = None) -> None:
        """Warn of what holds up the search."""
        took = time.monotonic() - began
        if took > self._variables.slow_s:
            of = f"{type(callback).__name__}." if callback is not None else ""
            logger.warning("%s%s took %.3f s, in which the search waited.", of, what, took)

    def _say_what_is_missing(self) -> None:
        """Warn where nothing has begun or come back for long, and the cluster lacks something."""
        now = time.monotonic()
        if now - self._moved_at < self._variables.stuck_s:
            return
        self._moved_at = now
        has = ray.cluster_resources()
        for place in self._places.values():
            needs = place.resources.required_resources
            lacks = {name: need for name, need in needs.items() if need > has.get(name, 0) + LITTLE}
            if lacks:
                logger.warning(
                    "No trial has begun or reported for %.0f s. %s asks for %s, and the cluster has %s. "
                    "Give trials less with tune.with_resources, or add nodes.",
                    self._variables.stuck_s,
                    place.trial,
                    lacks,
                    {name: has.get(name, 0) for name in lacks},
                )
                return


def _answer(ref: object) -> Batch | RayError:
    try:
        batch: Batch = ray.get(ref)
    except RayError as error:
        return error
    return batch


@contextlib.contextmanager
def _heap_frozen() -> Iterator[None]:
    """Keep what is there before the block out of the collector's rounds, of which reports, made by
    the thousand, cause many. A program that does so itself is left alone.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _is_of_program(callback: Callback) -> bool:
    return not type(callback).__module__.startswith("heliostat.")
