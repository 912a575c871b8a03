"""The base of algorithms: runners, learners, and what a training iteration is."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import heliostat
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.rllib.algorithms import metrics_names as names
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.algorithms.page_row import AlgorithmRow
from heliostat.rllib.callbacks.callbacks import Callbacks
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.learner.learner_group import LearnerGroup
from heliostat.rllib.env.env_runner_group import EnvRunnerGroup
from heliostat.rllib.env.making import creator
from heliostat.rllib.utils import old_names
from heliostat.rllib.utils.checkpoints import Checkpointable, chosen
from heliostat.rllib.utils.metrics.metrics_logger import MetricsLogger
from heliostat.tune.trainable.trainable import Trainable

_log = logging.getLogger("ray.rllib")


# Attributes of the old API stack: what takes their place.
_GONE = {
    "workers": "algo.env_runner_group",
    "evaluation_workers": "algo.eval_env_runner_group",
    "add_policy": "algo.add_module()",
    "remove_policy": "algo.remove_module()",
    "get_default_policy_class": "AlgorithmConfig.get_default_rl_module_spec()",
    "export_policy_model": "torch.save(algo.get_module(), path)",
    "export_policy_checkpoint": "algo.get_module().save_to_path(path)",
    "restore_workers": "fault_tolerance(restart_failed_env_runners=True), which replaces runners by itself",
    "merge_algorithm_configs": "AlgorithmConfig.update_from_dict()",
    "evaluate_offline": "algo.evaluate() with an environment",
    "validate_env": "environment(disable_env_checking=False), which checks the first one",
}


class Algorithm(Checkpointable, Trainable):
    """Runners that sample environments, learners that train modules, and the loop around them.

    Make it by ``config.build_algo()``, or let Tune make it: ``Tuner("PPO", param_space=config)``. Override
    :meth:`training_step` for an algorithm of your own.

    Args:
        config: Its settings: an ``AlgorithmConfig``, or a dict of what differs from the default.
        env: The environment, where the settings have none.
        *arguments: Further arguments of ``tune.Trainable``.
        **keywords: Further keywords of it.

    Attributes:
        config: The settings, frozen.
        env_runner_group: The runners.
        eval_env_runner_group: The runners of evaluation, or None.
        learner_group: The learners.
        metrics: What results are made of.

    Raises:
        ValueError: Settings do not fit; the message says what to change.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
        >>> config = config.training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        >>> algo = config.build_algo()
        >>> result = algo.train()
        >>> result["training_iteration"], result["num_env_steps_sampled_lifetime"]
        (1, 64)
        >>> folder = algo.save_to_path()  # go on later: Algorithm.from_checkpoint(folder)
        >>> algo.stop()
    """

    config: Any

    METADATA_FILE_NAME = "rllib_checkpoint.json"
    STATE_FILE_NAME = "algorithm_state"

    def __init__(
        self, config: Any = None, env: Any = None, *arguments: Any, **keywords: Any
    ) -> None:
        if isinstance(config, Mapping):
            config = self.get_default_config().update_from_dict(config)
        config = self.get_default_config() if config is None else config
        if not isinstance(config, AlgorithmConfig):
            raise ValueError(
                f"config must be an AlgorithmConfig or a dict, not {type(config).__name__}."
            )
        if config.is_frozen:
            config = config.copy(copy_frozen=False)
        if env is not None:
            config.env = env
        config.algo_class = type(self)
        if config._validate_config:
            config.validate()
        if config.env is not None:
            config.env_creator = config.env_creator or creator(config.env)
        elif config.is_online and config.env_runner_cls is None:
            raise ValueError(
                f"{type(self).__name__} has no environment: set config.environment('CartPole-v1') or another."
            )
        config.freeze()
        self.metrics = MetricsLogger(root=True)
        self._timesteps = 0
        self._weights_ref: Any = None
        self._has_failed = False
        super().__init__(config, *arguments, **keywords)

    # --- Tune's side ---

    @classmethod
    def get_default_config(cls) -> AlgorithmConfig:
        """Return the default settings.

        Raises:
            NotImplementedError: The algorithm is of the program's own and has none.
        """
        raise NotImplementedError(f"{cls.__name__} has no get_default_config().")

    @classmethod
    def default_resource_request(cls, config: Any) -> Any:
        """Return what the algorithm, its runners and its learners take of a cluster."""
        from heliostat.tune import PlacementGroupFactory

        if not isinstance(config, AlgorithmConfig):
            config = cls.get_default_config().update_from_dict(config)
        main = {"CPU": config.num_cpus_for_main_process, **config.custom_resources_for_main_process}
        if config.num_learners == 0 and config.num_gpus_per_learner:
            main["GPU"] = config.num_gpus_per_learner
        bundles = [main]
        runner = {
            "CPU": config.num_cpus_per_env_runner,
            "GPU": config.num_gpus_per_env_runner,
            **config.custom_resources_per_env_runner,
        }
        samples = config.env is not None or config.env_runner_cls is not None
        count = config.num_env_runners if samples else 0
        if config.evaluation_interval:
            count += config.evaluation_num_env_runners
        bundles += [runner] * count
        cpus = config.num_cpus_per_learner
        cpus = (0 if config.num_gpus_per_learner else 1) if cpus == "auto" else cpus
        learner = {
            "CPU": cpus,
            "GPU": config.num_gpus_per_learner,
            **config.custom_resources_per_learner,
        }
        bundles += [learner] * config.num_learners
        wanted = [{k: v for k, v in bundle.items() if v} or {"CPU": 0} for bundle in bundles]
        return PlacementGroupFactory(wanted, strategy=config.placement_strategy)

    def setup(self, config: Any) -> None:
        """Make runners and learners."""
        config = self.config
        self.callbacks = Callbacks(config)
        # A trial is told of by its search; without actors nobody begins a cluster to tell of it.
        self._told: Any = None
        if self._spec is None and (
            config.num_env_runners or config.num_learners or heliostat.is_initialized()
        ):
            begin_unless_begun()
            name = (
                f"{type(self).__name__}_{getattr(config.env, '__name__', config.env) or 'offline'}"
            )
            self._told = AlgorithmRow(name, config, str(self.logdir or "no folder"))
        self.env_runner_group: Any = None
        self.eval_env_runner_group: Any = None
        spaces = None
        if config.env is not None or (config.is_online and config.env_runner_cls is not None):
            # In an algorithm with actors, the runner of this process has spaces and the module to ask for.
            self.env_runner_group = EnvRunnerGroup(config=config, told=self._told)
            spaces = self.env_runner_group.get_spaces()
        else:
            spaces = self._spaces_without_env()
        if config.evaluation_interval:
            evaluation = config.get_evaluation_config_object()
            if evaluation.env is not None:
                self.eval_env_runner_group = EnvRunnerGroup(config=evaluation)
        self.learner_group = LearnerGroup(
            config=config,
            module_spec=config.get_multi_rl_module_spec(spaces=spaces),
            told=self._told,
        )
        self.publish_weights()
        self._evaluation: dict[str, Any] = {}
        self.callbacks.call("on_algorithm_init", algorithm=self, metrics_logger=self.metrics)

    def _spaces_without_env(self) -> Any:
        config = self.config
        if config.observation_space is None or config.action_space is None:
            raise ValueError(
                "Without an environment the spaces must be given: "
                "environment(observation_space=..., action_space=...)."
            )
        own = (config.observation_space, config.action_space)
        return dict.fromkeys(config.policies, own)

    def cleanup(self) -> None:
        """End runners and learners."""
        for group in (self.env_runner_group, self.eval_env_runner_group):
            if group is not None:
                group.stop()
        self.learner_group.shutdown()
        if self._told is not None:
            self._told.end(self._has_failed)

    def train(self) -> dict[str, Any]:
        """Run one iteration.

        Returns:
            The result: ``env_runners`` (of it ``episode_return_mean``), ``learners`` by module,
            ``num_env_steps_sampled_lifetime``, ``training_iteration``, and more.
        """
        self._has_failed = True  # unless it returns
        result: dict[str, Any] = Trainable.train(self)
        self._has_failed = False
        return result

    def step(self) -> dict[str, Any]:
        """Run ``training_step`` until an iteration is long enough, and evaluate when it is time."""
        config = self.config
        began = time.perf_counter()
        calls, sampled = 0, self._timesteps
        trained = self._trained_steps()
        with self.metrics.log_time((names.TIMERS, "training_iteration")):
            while True:
                with self.metrics.log_time((names.TIMERS, "training_step")):
                    self.training_step()
                calls += 1
                seconds = time.perf_counter() - began
                if (
                    seconds >= (config.min_time_s_per_iteration or 0)
                    and self._timesteps - sampled >= config.min_sample_timesteps_per_iteration
                    and self._trained_steps() - trained >= config.min_train_timesteps_per_iteration
                ):
                    break
        self._restore_runners()
        iteration = self.iteration + 1
        interval = config.evaluation_interval
        if interval and iteration % interval == 0:
            self.evaluate()
        result = self.metrics.compile()
        result.setdefault(names.ENV_RUNNERS, {})
        result["num_training_step_calls_per_iteration"] = calls
        if self.env_runner_group is not None:
            result["fault_tolerance"] = {
                "num_healthy_workers": self.env_runner_group.num_healthy_remote_env_runners(),
                "num_remote_worker_restarts": self.env_runner_group.restarts,
            }
        result["num_env_steps_sampled_lifetime"] = self._timesteps
        if self._evaluation:
            result[names.EVALUATION] = self._evaluation
        result["config"] = config.to_dict()
        if self._told is not None:
            self._told.result(result)
        self.callbacks.call(
            "on_train_result", algorithm=self, metrics_logger=self.metrics, result=result
        )
        return result

    def _trained_steps(self) -> float:
        return float(
            self.metrics.peek(
                (names.LEARNERS, "__all_modules__", "num_env_steps_trained_lifetime"), 0
            )
        )

    def training_step(self) -> Any:
        """Sample, train, and give runners the new weights: what an algorithm is.

        Raises:
            NotImplementedError: The algorithm is of the program's own and has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no training_step().")

    # --- what training steps are made of ---

    def sample_batch(self, steps: int, **how: Any) -> list[Any]:
        """Sample with all runners until there are as many steps.

        Args:
            steps: How many, of all runners together.
            how: As of ``SingleAgentEnvRunner.sample_rollout``.

        Returns:
            What the runners sampled.
        """
        rollouts: list[Any] = []
        have = 0
        with self.metrics.log_time((names.TIMERS, "env_runner_sampling_timer")):
            while have < steps:
                found = self.env_runner_group.sample(weights=self._weights_ref, **how)
                for rollout, _ in found:
                    rollouts.append(rollout)
                    have += rollout.env_steps
                self._measured([stats for _, stats in found])
                self.env_runner_group.merge_connectors([rollout for rollout, _ in found])
                if not found:
                    self._restore_runners()
        return rollouts

    def _measured(self, stats: list[dict[Any, Any]]) -> None:
        self.metrics.aggregate(stats, key=names.ENV_RUNNERS)
        self._timesteps = int(
            self.metrics.peek((names.ENV_RUNNERS, "num_env_steps_sampled_lifetime"), 0)
        )

    def learn(self, **how: Any) -> list[dict[Any, Any]]:
        """Let the learners train, as ``LearnerGroup.update`` does, and log what they say.

        Args:
            **how: As of ``LearnerGroup.update``.

        Returns:
            What each learner logged.
        """
        with self.metrics.log_time((names.TIMERS, "learner_update_timer")):
            stats = self.learner_group.update(
                timesteps={"num_env_steps_sampled_lifetime": self._timesteps}, **how
            )
        self.metrics.aggregate(stats, key=names.LEARNERS)
        return stats

    def publish_weights(self) -> None:
        """Give all runners the learners' weights: one object, read by each node once."""
        self._seq_no = getattr(self, "_seq_no", -1) + 1
        if self.env_runner_group is None:
            return
        with self.metrics.log_time((names.TIMERS, "synch_weights")):
            self._weights_ref = self.env_runner_group.publish(
                self.learner_group, self._seq_no, self._timesteps
            )

    def restore_env_runners(self, env_runner_group: Any) -> list[int]:
        """Start runners of a group whose pause is over, and return the numbers of all that began anew.

        Args:
            env_runner_group: ``env_runner_group`` or ``eval_env_runner_group``.

        Returns:
            The numbers.
        """
        return list(env_runner_group.restore())

    def _restore_runners(self) -> None:
        for group, evaluation in (
            (self.env_runner_group, False),
            (self.eval_env_runner_group, True),
        ):
            if group is None:
                continue
            indices = self.restore_env_runners(group)
            if indices:
                self.callbacks.call(
                    "on_env_runners_recreated",
                    algorithm=self,
                    env_runner_group=group,
                    env_runner_indices=indices,
                    is_evaluation=evaluation,
                )

    # --- evaluation ---

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Run episodes with the weights of now and the settings of ``evaluation_config``.

        Args:
            parallel_train_future: Has no effect.

        Returns:
            The result under ``evaluation``: ``env_runners`` with returns and lengths.

        Raises:
            ValueError: Evaluation was not set up.
        """
        config = self.config
        if self.eval_env_runner_group is None:
            if config.get_evaluation_config_object().env is None:
                raise ValueError(
                    "evaluate() needs an environment: set evaluation_config={'env': ...}."
                )
            self.eval_env_runner_group = EnvRunnerGroup(
                config=config.get_evaluation_config_object()
            )
        group = self.eval_env_runner_group
        self.callbacks.call("on_evaluate_start", algorithm=self, metrics_logger=self.metrics)
        with self.metrics.log_time((names.TIMERS, "evaluation_iteration")):
            own = getattr(self.env_runner, "connector_states", None)
            ref = group.publish(
                self.learner_group, self._seq_no, self._timesteps, own() if own else None
            )
            if config.custom_evaluation_function is not None:
                found = config.custom_evaluation_function(self, group)
                results = found[0] if isinstance(found, tuple) else found
                if isinstance(results, Mapping) and names.ENV_RUNNERS not in results:
                    results = {names.ENV_RUNNERS: dict(results)}
            else:
                results = {names.ENV_RUNNERS: self._evaluated(group, ref)}
        self._evaluation = dict(results)
        self.callbacks.call(
            "on_evaluate_end",
            algorithm=self,
            metrics_logger=self.metrics,
            evaluation_metrics=self._evaluation,
        )
        return self._evaluation

    def _evaluated(self, group: Any, ref: Any) -> dict[str, Any]:
        config = group.config
        total = config.evaluation_duration
        if total == "auto":
            raise ValueError(
                'evaluation_duration="auto" goes with evaluation_parallel_to_training=True, which is '
                "not built: "
                "give a number."
            )
        kind = "num_episodes" if config.evaluation_duration_unit == "episodes" else "num_timesteps"
        log = MetricsLogger(root=True)
        had, seen = 0.0, 0.0
        key = "num_episodes" if kind == "num_episodes" else "num_env_steps_sampled"
        first = config.evaluation_force_reset_envs_before_iteration
        while had < total:
            workers = max(1, group.num_remote_env_runners())
            share = max(1, int(-(-(total - had) // workers)))
            found = group.sample(
                weights=ref,
                timeout_s=config.evaluation_sample_timeout_s,
                explore=config.explore,
                force_reset=first,
                **{kind: share},
            )
            first = False
            log.aggregate([stats for _, stats in found])
            had = float(log.peek(key, 0))
            if not found:
                group.restore()
                seen += 1
            if seen > 10:
                raise RuntimeError("All runners of evaluation failed ten times in a row.")
        return log.compile()

    # --- modules ---

    def get_module(self, module_id: str = DEFAULT_MODULE_ID) -> Any:
        """Return the module with the weights of now, for acting: ``module.forward_inference({"obs":
        ...})``.

        Args:
            module_id: The module's id. Default: that of the only one.
        """
        runner = self.env_runner
        if runner is None:
            learner = self.learner_group._as_local()
            return learner.module.get(module_id)
        module = runner.module
        return module.get(module_id) if hasattr(module, "foreach_module") else module

    @property
    def env_runner(self) -> Any:
        """The runner of this process."""
        return self.env_runner_group.local_env_runner if self.env_runner_group else None

    @property
    def eval_env_runner(self) -> Any:
        """The runner of evaluation of this process."""
        return self.eval_env_runner_group.local_env_runner if self.eval_env_runner_group else None

    def get_weights(self, policies: Any = None) -> dict[str, Any]:
        """Return the weights by module id.

        Args:
            policies: Ids of modules. Default: all.
        """
        return self.learner_group.get_weights(policies)

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Give learners and runners weights, by module id.

        Args:
            weights: The weights by module id.
        """
        self.learner_group.set_weights(weights)
        self.publish_weights()

    def add_module(
        self,
        module_id: str,
        module_spec: Any,
        *,
        config_overrides: dict[str, Any] | None = None,
        new_agent_to_module_mapping_fn: Any = None,
        new_should_module_be_updated: Any = None,
        add_to_learners: bool = True,
        add_to_env_runners: bool = True,
        add_to_eval_env_runners: bool = True,
    ) -> Any:
        """Add a module to an algorithm of several agents, as self-play does with what it has learned.

        Args:
            module_id: The new module's id.
            module_spec: Its ``RLModuleSpec``; spaces that it lacks are those of the first module.
            config_overrides: Settings that it has of its own. Default: none.
            new_agent_to_module_mapping_fn: Which module acts for an agent, in episodes that begin from
                now on. Default: as before.
            new_should_module_be_updated: Which modules are trained from now on: their ids, or a function
                of an id and the batch. Default: as before.
            add_to_learners: Add it to the learners. Default True.
            add_to_env_runners: Add it to the runners. Default True.
            add_to_eval_env_runners: Add it to the runners of evaluation. Default True.

        Returns:
            The ``MultiRLModuleSpec`` of all modules.

        Raises:
            ValueError: There is a module of the id, or the algorithm is of one agent.
        """
        from heliostat.rllib.algorithms import changing

        return changing.add(
            self,
            module_id,
            module_spec,
            overrides=config_overrides,
            mapping=new_agent_to_module_mapping_fn,
            updated=new_should_module_be_updated,
            where=(add_to_learners, add_to_env_runners, add_to_eval_env_runners),
        )

    def remove_module(
        self,
        module_id: str,
        *,
        new_agent_to_module_mapping_fn: Any = None,
        new_should_module_be_updated: Any = None,
        remove_from_learners: bool = True,
        remove_from_env_runners: bool = True,
        remove_from_eval_env_runners: bool = True,
    ) -> Any:
        """Remove a module from an algorithm of several agents.

        Args:
            module_id: The module's id.
            new_agent_to_module_mapping_fn: Which module acts for an agent, in episodes that begin from
                now on. Default: as before.
            new_should_module_be_updated: Which modules are trained from now on. Default: as before.
            remove_from_learners: Remove it from the learners. Default True.
            remove_from_env_runners: Remove it from the runners. Default True.
            remove_from_eval_env_runners: Remove it from the runners of evaluation. Default True.

        Returns:
            The ``MultiRLModuleSpec`` of the modules that are left.

        Raises:
            ValueError: There is no such module.
        """
        from heliostat.rllib.algorithms import changing

        return changing.remove(
            self,
            module_id,
            mapping=new_agent_to_module_mapping_fn,
            updated=new_should_module_be_updated,
            where=(remove_from_learners, remove_from_env_runners, remove_from_eval_env_runners),
        )

    def get_policy(self, policy_id: str = DEFAULT_MODULE_ID) -> Any:
        """Refused: policies are of the old API stack.

        Args:
            policy_id: Has no effect.

        Returns:
            Nothing; it raises.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "get_policy() is of RLlib's old API stack: call algo.get_module(), and "
            "module.forward_inference()."
        )

    def compute_single_action(self, *arguments: Any, **keywords: Any) -> Any:
        """Refused: actions come from modules.

        Args:
            *arguments: Has no effect.
            **keywords: Has no effect.

        Returns:
            Nothing; it raises.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "compute_single_action() is of RLlib's old API stack: take module = algo.get_module(), and "
            "module.forward_inference({'obs': torch.from_numpy(obs)[None]})['action_dist_inputs']."
        )

    compute_actions = compute_single_action

    # --- state ---

    def get_config(self) -> dict[str, Any]:
        """Return the settings as a dict."""
        return dict(self.config.to_dict())

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return what goes on with the algorithm in another process.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            **kwargs: More, in later releases.
        """
        found: dict[str, Any] = {
            "algorithm_class": type(self),
            "config": self.config.get_state(),
            "training_iteration": self.iteration,
            "timesteps": self._timesteps,
            "time_total": self._timing.total_s,
            "metrics_logger": self.metrics.get_state(),
            "own": self._own_state(),
        }
        if chosen("learner_group", components, not_components):
            found["learner_group"] = self.learner_group.get_state()
        own = getattr(self.env_runner, "connector_states", None)
        if own is not None and chosen("env_runner", components, not_components):
            found["env_runner"] = own()
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned.

        Args:
            state: The state.

        Raises:
            ValueError: It is the state of another algorithm.
        """
        kind = state.get("algorithm_class", type(self))
        if kind is not type(self):
            raise ValueError(
                f"The checkpoint is of {kind.__name__}, and this is {type(self).__name__}: "
                f"call {kind.__name__}.from_checkpoint()."
            )
        self._timesteps = state["timesteps"]
        self.metrics.set_state(state["metrics_logger"])
        if self._spec is None:
            from heliostat.tune.trainable.timing import Timing

            self._timing = Timing(
                iteration=state["training_iteration"], total_s=state["time_total"]
            )
        self._set_own_state(state.get("own") or {})
        if "learner_group" in state:
            self.learner_group.set_state(state["learner_group"])
            if state.get("env_runner"):
                self.env_runner.set_connector_states(state["env_runner"])
            self.publish_weights()

    def _own_state(self) -> dict[str, Any]:
        """Return the state of the algorithm besides: replay buffers that checkpoints have."""
        return {}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`_own_state` returned."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such an algorithm."""
        return (), {"config": self.config.copy(copy_frozen=False)}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the learners, and the runner of this process."""
        found: list[tuple[str, Any]] = [("learner_group", self.learner_group)]
        if self.env_runner is not None:
            found.append(("env_runner", self.env_runner))
        return found

    def save_to_path(self, path: Any = None, *, state: dict[str, Any] | None = None) -> str:
        """Save into a folder; :meth:`from_checkpoint` makes the algorithm of it.

        Args:
            path: The folder. Default: a new temporary one.
            state: What is saved of the algorithm itself. Default: its state.

        Returns:
            The folder.
        """
        return Checkpointable.save_to_path(self, path, state=state)

    def restore_from_path(self, path: Any, *, component: str | None = None) -> None:
        """Take over what :meth:`save_to_path` wrote.

        Args:
            path: The folder.
            component: The one part that is restored, as ``"learner_group/learner/rl_module"``.

        Raises:
            FileNotFoundError: The folder has no algorithm.
            ValueError: It has another algorithm.
        """
        Checkpointable.restore_from_path(self, path, component=component)
        self.publish_weights()
        self.callbacks.call("on_checkpoint_loaded", algorithm=self)

    @classmethod
    def from_checkpoint(cls, path: Any, **kwargs: Any) -> Any:
        """Make the algorithm that :meth:`save_to_path` wrote, or that Tune saved.

        Args:
            path: The folder, or a ``Checkpoint``.

        Returns:
            The algorithm.

        Raises:
            FileNotFoundError: The folder has no algorithm.
            ValueError: It has another algorithm.
        """
        return super().from_checkpoint(path, **kwargs)

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Save into a folder of Tune's."""
        self.save_to_path(checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a folder of Tune's."""
        self.restore_from_path(os.fspath(checkpoint))

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a folder."""
        self.restore_from_path(Path(os.fspath(checkpoint_path)))

    def __getattr__(self, name: str) -> Any:
        if name in _GONE:
            raise AttributeError(old_names.sentence(f"Algorithm.{name}", _GONE[name]))
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(env={self.config.env!r}; env-runners={self.config.num_env_runners}; "
            f"learners={self.config.num_learners}; multi-agent={self.config.is_multi_agent})"
        )
