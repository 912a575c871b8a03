"""Population based training: bad trials go on from good ones, with their configuration changed."""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heliostat.tune.aliases import Config, Report, Space
from heliostat.tune.error import TuneError
from heliostat.tune.schedulers.comparing import ComparingScheduler
from heliostat.tune.schedulers.trial_scheduler import FIFOScheduler, may_grow
from heliostat.tune.search.sample import Domain, Function
from heliostat.tune.search.variant_generator import formatted

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial

logger = logging.getLogger("heliostat")


@dataclass
class _State:
    """The state of a trial of the population."""

    tag: str  # its experiment tag at the beginning, which the policy's files name it by
    score: float | None = None  # the higher the better
    perturbed_at: float = 0
    trained_to: float = 0
    waits_for: str | None = None  # the trial whose checkpoint is being saved for this one


class PopulationBasedTraining(ComparingScheduler):
    """Replaces the worst trials by copies of the best, with other values of hyperparameters.

    A trial of the lower quantile takes over checkpoint and configuration of a random one of the upper
    quantile. Each hyperparameter of the copy is drawn anew with ``resample_probability``; else numbers
    are multiplied by one of ``perturbation_factors``, and values of a list move to a neighbour.
    Trainables have to make checkpoints: functions report them, classes have ``save_checkpoint``. Each
    exploit is a line of JSON in ``pbt_global.txt`` and ``pbt_policy_<trial id>.txt`` in the search's
    folder.

    Args:
        time_attr: What counts as time, in results. Default: ``time_total_s``.
        metric: What trials are compared by. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        perturbation_interval: A trial is judged after so much time, in units of ``time_attr``.
        burn_in_period: No trial is judged before.
        hyperparam_mutations: For each name a list or tuple of values, a domain such as
            ``tune.uniform(0, 1)``, a function without arguments, or a dict of these. Names that the search
            space lacks are drawn from here.
        quantile_fraction: How large both quantiles are, from 0 to 0.5.
        resample_probability: How often a value is drawn anew.
        perturbation_factors: What numbers are multiplied by.
        custom_explore_fn: A function of the changed configuration that returns the one to use.
        log_config: Whether the policy's files are written.
        require_attrs: Raise when a result lacks ``time_attr`` or ``metric``; False: let it pass.
        synch: Judge all trials at once when each has come to the same time.

    Raises:
        TypeError: A value of ``hyperparam_mutations`` is none of these.
        ValueError: ``quantile_fraction``, ``perturbation_interval`` or ``mode`` makes no sense, or
            ``tune.sample_from`` is among ``hyperparam_mutations``.
        TuneError: Neither ``hyperparam_mutations`` nor ``custom_explore_fn`` is given.

    Examples:
        >>> import ray
        >>> from ray import tune
        >>> from ray.tune.schedulers import PopulationBasedTraining
        >>> scheduler = PopulationBasedTraining(
        ...     time_attr="training_iteration",
        ...     perturbation_interval=5,
        ...     hyperparam_mutations={"lr": tune.loguniform(1e-4, 1e-1)},
        ... )
    """

    hands_checkpoints = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Space | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, float] = (1.2, 0.8),
        custom_explore_fn: Callable[[Config], Config] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
    ) -> None:
        mutations = dict(hyperparam_mutations or {})
        for name, choices in mutations.items():
            _check_choices(name, choices)
        if not mutations and custom_explore_fn is None:
            raise TuneError(
                "You must specify at least one of `hyperparam_mutations` or `custom_explore_fn` to use PBT."
            )
        if not 0 <= quantile_fraction <= 0.5:
            raise ValueError(f"quantile_fraction={quantile_fraction!r} must be from 0 to 0.5.")
        if perturbation_interval <= 0:
            raise ValueError(f"perturbation_interval={perturbation_interval!r} must be above 0.")
        super().__init__(time_attr, metric, mode)
        self._interval, self._burn_in = perturbation_interval, burn_in_period
        self._mutations, self._custom = mutations, custom_explore_fn
        self._quantile, self._resample = quantile_fraction, resample_probability
        self._factors = tuple(perturbation_factors)
        self._log, self._require, self._synch = log_config, require_attrs, synch
        self._next_sync = max(perturbation_interval, burn_in_period)
        self._states: dict[str, _State] = {}
        self._saves = self._perturbations = 0

    # --- what the search says ---

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        if getattr(tune_controller, "has_searcher", False):
            raise ValueError(
                f"Search algorithms cannot be used with {type(self).__name__}: leave out search_alg."
            )
        super().on_trial_add(tune_controller, trial)
        self._states[trial.trial_id] = _State(trial.experiment_tag)
        self._complete(trial)

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        for name in (self._time_attr, self._metric):
            if name in result:
                continue
            if self._require:
                raise RuntimeError(
                    f"{name!r} is not in the result of {trial}, which has {sorted(result)}. Report it, or "
                    f"set require_attrs=False of {type(self).__name__}."
                )
            return self.CONTINUE
        time, state = result[self._time_attr], self._states[trial.trial_id]
        if time < self._burn_in or time - state.perturbed_at < self._interval:
            return self.CONTINUE
        value = float(result[self._metric or ""])
        state.score = value if self._mode == "max" else -value
        state.trained_to = time
        self._note(trial, time, state.score)
        if self._synch:
            self._perturb_all_when_there(tune_controller)
            return self.PAUSE
        state.perturbed_at = time
        lower, upper = self._quantiles(tune_controller)
        self._save_or_exploit(tune_controller, trial, lower, upper)
        others_wait = may_grow(tune_controller) or any(
            other.status in ("PENDING", "PAUSED") for other in tune_controller.get_live_trials()
        )
        is_copy = trial.handed is not None or state.waits_for is not None
        return self.PAUSE if is_copy or others_wait else self.CONTINUE

    def on_trial_saved(self, tune_controller: Search, trial: Trial) -> None:
        self._serve_those_who_wait(tune_controller, trial)

    def on_trial_complete(self, tune_controller: Search, trial: Trial, result: Report) -> None:
        self._ended(tune_controller, trial)

    def on_trial_error(self, tune_controller: Search, trial: Trial) -> None:
        self._ended(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Search) -> Trial | None:
        """Return the trial that waits and has trained least."""
        waiting: list[tuple[float, int, Trial]] = []
        for trial in tune_controller.get_live_trials():
            state = self._states[trial.trial_id]
            if trial.status not in ("PENDING", "PAUSED") or state.waits_for is not None:
                continue
            if not self._synch or state.trained_to < self._next_sync:
                waiting.append((state.trained_to, len(waiting), trial))
        return min(waiting)[2] if waiting else None

    def last_scores(self, trials: list[Trial]) -> list[float]:
        """Return the last score of each trial that has one and has not ended; larger ones are better.

        Args:
            trials: The trials.
        """
        states = [self._states[one.trial_id] for one in trials if not one.is_finished()]
        return [state.score for state in states if state.score is not None]

    def reset_stats(self) -> None:
        """Count checkpoints and changes from zero on."""
        self._saves = self._perturbations = 0

    def debug_string(self) -> str:
        return f"PopulationBasedTraining: {self._saves} checkpoints, {self._perturbations} perturbs"

    # --- what other ways to choose hyperparameters replace ---

    def _complete(self, trial: Trial) -> None:
        """Draw the hyperparameters that the search space lacks."""
        for name, choices in self._mutations.items():
            if name not in trial.config:
                trial.config[name] = trial.evaluated_params[name] = _drawn(choices)

    def _note(self, trial: Trial, time: float, score: float) -> None:
        """A trial has come to where it is judged."""

    def _new_config(self, trial: Trial, best: Trial) -> Config:
        """Return the configuration of a trial that takes over from another one."""
        return explored(best.config, self._mutations, self._resample, self._factors, self._custom)

    # --- judging ---

    def _quantiles(self, controller: Search) -> tuple[list[Trial], list[Trial]]:
        """The worst and the best of those that run or wait and were judged."""

        def score(trial: Trial) -> float:
            found = self._states[trial.trial_id].score
            return math.nan if found is None else found

        known = [trial for trial in controller.get_live_trials() if not math.isnan(score(trial))]
        known.sort(key=score)
        if len(known) <= 1:
            return [], []
        size = min(math.ceil(len(known) * self._quantile), len(known) // 2)
        return known[:size], known[len(known) - size :]

    def _perturb_all_when_there(self, controller: Search) -> None:
        trials = controller.get_live_trials()
        states = [self._states[trial.trial_id] for trial in trials]
        if (
            not trials
            or may_grow(controller)
            or any(state.trained_to < self._next_sync for state in states)
        ):
            return
        lower, upper = self._quantiles(controller)
        for state in states:
            state.perturbed_at = state.trained_to
        # The best first, so that their checkpoints are asked for before somebody takes them over.
        for trial in (*upper, *lower):
            self._save_or_exploit(controller, trial, lower, upper)
        furthest = max(state.trained_to for state in states)
        self._next_sync = max(self._next_sync + self._interval, furthest)
        if all(state.trained_to >= self._next_sync for state in states):
            # Trials of a restored search have come farther than a new scheduler counts.
            self._next_sync = furthest + self._interval

    def _save_or_exploit(
        self, controller: Search, trial: Trial, lower: list[Trial], upper: list[Trial]
    ) -> None:
        if trial in upper:
            controller.save(trial)
            self._saves += 1
        elif trial in lower:
            self._exploit(controller, trial, random.choice(upper))

    def _exploit(self, controller: Search, trial: Trial, best: Trial) -> None:
        if best.checkpoint_path is None and not controller.is_saving(best):
            logger.info("%s has no checkpoint: %s goes on as it is.", best, trial)
            return
        config = self._new_config(trial, best)
        state, good = self._states[trial.trial_id], self._states[best.trial_id]
        logger.info("PBT: %s goes on from %s with %s", trial, best, config)
        if self._log and trial.local_experiment_path:
            self._write_policy(trial, best, config)
        tag = formatted({(name,): config[name] for name in self._mutations})
        trial.set_config(config, f"{state.tag}@perturbed[{tag}]")
        state.perturbed_at, state.trained_to = good.perturbed_at, good.trained_to
        self._perturbations += 1
        if controller.is_saving(best):
            state.waits_for = best.trial_id
        else:
            trial.take_over(best)

    def _write_policy(self, trial: Trial, best: Trial, config: Config) -> None:
        """Write one more line into the files that a replay reads; a copy has the history of its original."""
        folder = trial.local_experiment_path
        line = json.dumps(
            [
                self._states[trial.trial_id].tag,
                self._states[best.trial_id].tag,
                trial.last_result.get("training_iteration", 0),
                best.last_result.get("training_iteration", 0),
                best.config,
                config,
            ],
            default=_plain,
        )
        with open(os.path.join(folder, "pbt_global.txt"), "a") as file:
            file.write(line + "\n")
        own, other = (
            os.path.join(folder, f"pbt_policy_{one.trial_id}.txt") for one in (trial, best)
        )
        if os.path.exists(other):
            shutil.copyfile(other, own)
        with open(own, "a") as file:
            file.write(line + "\n")

    def _serve_those_who_wait(self, controller: Search, saved: Trial) -> None:
        for trial in controller.get_live_trials():
            state = self._states[trial.trial_id]
            if state.waits_for == saved.trial_id:
                state.waits_for = None
                if saved.checkpoint_path is not None:
                    trial.take_over(saved)

    def _ended(self, controller: Search, trial: Trial) -> None:
        self._serve_those_who_wait(controller, trial)
        if self._synch:  # it may have been the last one that the others waited for
            self._perturb_all_when_there(controller)


class PopulationBasedTrainingReplay(FIFOScheduler):
    """Runs one trial with the configurations that a trial of PBT came through, at the same iterations.

    Args:
        policy_file: ``pbt_policy_<trial id>.txt`` in the folder of the search that ran PBT.

    Raises:
        ValueError: There is no such file, or it is not a policy.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.schedulers import PopulationBasedTrainingReplay
        >>> def again(objective, folder, trial_id):  # of a search that ran PopulationBasedTraining
        ...     replay = PopulationBasedTrainingReplay(f"{folder}/pbt_policy_{trial_id}.txt")
        ...     return tune.Tuner(objective, tune_config=tune.TuneConfig(scheduler=replay)).fit()
        >>> try:
        ...     PopulationBasedTrainingReplay("no/such/policy.txt")
        ... except ValueError:
        ...     print("there is no such policy")
        there is no such policy
    """

    def __init__(self, policy_file: str) -> None:
        path = os.path.abspath(os.path.expanduser(os.fspath(policy_file)))
        if not os.path.exists(path):
            raise ValueError(f"Policy file not found: {path}")
        self.policy_file = path
        self.config, self._policy = _read_policy(path)
        self.current_config = self.config
        self._trial_id: str | None = None
        self._step = self._perturbations = 0

    @property
    def decides(self) -> bool:
        return True

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        if self._trial_id not in (None, trial.trial_id):
            raise ValueError(
                "PBT replay runs one trial: use num_samples=1 and no grid, or the schedule would run "
                "several times."
            )
        self._trial_id = trial.trial_id
        if self.config is None and not trial.config:
            raise ValueError(
                f"{self.policy_file} is empty and the trial has no configuration: pass param_space."
            )
        if self.config is not None:
            if trial.config:
                logger.warning("PBT replay: the policy's configuration replaces %s", trial.config)
            trial.config = self.config

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        self._step = result.get("training_iteration", self._step)
        if self._perturbations == len(self._policy):
            return self.CONTINUE
        change_at, config = self._policy[self._perturbations]
        if self._step < change_at:
            return self.CONTINUE
        self._perturbations += 1
        self.current_config = config
        tag = formatted({(name,): value for name, value in config.items()})
        name = os.path.basename(self.policy_file)
        trial.set_config(config, f"replay_{name}@perturbed[{tag}]")
        return self.PAUSE

    def debug_string(self) -> str:
        return f"PopulationBasedTraining replay: Step {self._step}, perturb {self._perturbations}"


def explored(
    config: Mapping[str, Any],
    mutations: Mapping[str, object],
    resample_probability: float,
    factors: tuple[float, ...],
    custom: Callable[[Config], Config] | None = None,
) -> Config:
    """A copy of a configuration with its hyperparameters changed."""
    changed: Config = copy.deepcopy(dict(config))
    for name, choices in mutations.items():
        value = config[name]
        if isinstance(choices, Mapping):
            changed[name] = explored(value, choices, resample_probability, factors)
            continue
        anew = random.random() < resample_probability
        if isinstance(choices, list | tuple):
            if anew or value not in choices:
                changed[name] = random.choice(choices)
            else:
                place = choices.index(value) + random.choice((-1, 1))
                changed[name] = choices[min(max(place, 0), len(choices) - 1)]
            continue
        moved = _drawn(choices) if anew else value * random.choice(factors)
        if isinstance(value, bool):
            moved = bool(moved)
        elif isinstance(value, int):
            moved = round(moved)
        changed[name] = moved
    if custom is not None:
        given = custom(changed)
        if given is None:
            raise TuneError("custom_explore_fn returned None: it has to return a configuration.")
        changed = given
    return changed


def _drawn(choices: Any) -> Any:
    if isinstance(choices, Mapping):
        return {name: _drawn(inner) for name, inner in choices.items()}
    if isinstance(choices, list | tuple):
        return random.choice(choices)
    return choices.sample() if isinstance(choices, Domain) else choices()


def _check_choices(name: str, choices: object) -> None:
    if isinstance(choices, Function):
        raise ValueError(
            f"hyperparam_mutations[{name!r}] is a tune.sample_from, which has no trial to look at: use a "
            "function without arguments, or a domain such as tune.uniform."
        )
    if not (isinstance(choices, Mapping | list | tuple | Domain) or callable(choices)):
        raise TypeError(
            f"hyperparam_mutations[{name!r}]={choices!r} must be a list, a tuple, a dict, a domain such as "
            "tune.uniform(0, 1), or a function without arguments."
        )
    if isinstance(choices, Mapping):
        for inner, deeper in choices.items():
            _check_choices(f"{name}/{inner}", deeper)


def _read_policy(path: str) -> tuple[Config | None, list[tuple[int, Config]]]:
    """The first configuration, and those that follow with the iterations at which they begin."""
    lines = []
    with open(path) as file:
        for line in file:
            try:
                tag, best, _, step, old, new = json.loads(line)
            except (ValueError, TypeError):
                raise ValueError(f"Could not read PBT policy file: {path}.") from None
            lines.append((tag, best, step, old, new))
    first: Config | None = None
    policy: list[tuple[int, Config]] = []
    follows: str | None = None
    for tag, best, step, old, new in reversed(lines):
        if follows is not None and tag != follows:
            break  # what came before was replaced by a copy of another trial
        follows, first = best, old
        policy.insert(0, (step, new))
    return first, policy


def _plain(value: object) -> Any:
    """numpy's numbers as Python's; other objects as text."""
    item = getattr(value, "tolist", None)
    return item() if callable(item) else str(value)
