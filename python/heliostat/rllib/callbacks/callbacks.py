"""The events of an algorithm's life that programs are told."""

from __future__ import annotations

from typing import Any


class RLlibCallback:
    """Base of callbacks: override what you want to hear of.

    Every method gets keyword arguments and must take ``**kwargs``, for later releases pass more. Methods of
    episodes are called in runners, the others in the algorithm's process. ``metrics_logger`` takes values
    that results then have, beside the runner's own.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.callbacks import RLlibCallback
        >>> class Steps(RLlibCallback):
        ...     def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        ...         metrics_logger.log_value("steps_of_episodes", len(episode))
        >>> config = PPOConfig().environment("CartPole-v1").callbacks(Steps)
    """

    def on_algorithm_init(
        self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any
    ) -> None:
        """Called when the algorithm was made.

        Args:
            algorithm: The algorithm.
            metrics_logger: What metrics are logged with.
            **kwargs: More, in later releases.
        """

    def on_train_result(
        self, *, algorithm: Any, metrics_logger: Any = None, result: dict[str, Any], **kwargs: Any
    ) -> None:
        """Called when ``train()`` is about to return.

        Args:
            algorithm: The algorithm.
            metrics_logger: What metrics are logged with.
            result: What it returns; it may be changed.
            **kwargs: More, in later releases.
        """

    def on_evaluate_start(
        self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any
    ) -> None:
        """Called when evaluation begins.

        Args:
            algorithm: The algorithm.
            metrics_logger: What metrics are logged with.
            **kwargs: More, in later releases.
        """

    def on_evaluate_end(
        self,
        *,
        algorithm: Any,
        metrics_logger: Any = None,
        evaluation_metrics: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        """Called when evaluation ended.

        Args:
            algorithm: The algorithm.
            metrics_logger: What metrics are logged with.
            evaluation_metrics: What it gave; it may be changed.
            **kwargs: More, in later releases.
        """

    def on_evaluate_offline_start(
        self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any
    ) -> None:
        """Never called: evaluation without an environment is not built.

        Args:
            algorithm: The algorithm.
            metrics_logger: What metrics are logged with.
            **kwargs: More, in later releases.
        """

    def on_evaluate_offline_end(
        self,
        *,
        algorithm: Any,
        metrics_logger: Any = None,
        evaluation_metrics: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        """Never called: evaluation without an environment is not built.

        Args:
            algorithm: The algorithm.
            metrics_logger: What metrics are logged with.
            evaluation_metrics: Has no effect.
            **kwargs: More, in later releases.
        """

    def on_env_runners_recreated(
        self,
        *,
        algorithm: Any,
        env_runner_group: Any,
        env_runner_indices: list[int],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """Called when runners that had failed run again.

        Args:
            algorithm: The algorithm.
            env_runner_group: The runners.
            env_runner_indices: Which ones.
            is_evaluation: They are those of evaluation.
            **kwargs: More, in later releases.
        """

    def on_offline_eval_runners_recreated(
        self,
        *,
        algorithm: Any,
        offline_eval_runner_group: Any,
        offline_eval_runner_indices: list[int],
        **kwargs: Any,
    ) -> None:
        """Never called: evaluation without an environment is not built.

        Args:
            algorithm: The algorithm.
            offline_eval_runner_group: Has no effect.
            offline_eval_runner_indices: Has no effect.
            **kwargs: More, in later releases.
        """

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Called when the algorithm took over a checkpoint.

        Args:
            algorithm: The algorithm.
            **kwargs: More, in later releases.
        """

    def on_environment_created(
        self,
        *,
        env_runner: Any,
        metrics_logger: Any = None,
        env: Any,
        env_context: Any,
        **kwargs: Any,
    ) -> None:
        """Called when a runner made its environments.

        Args:
            env_runner: The runner.
            metrics_logger: What metrics are logged with.
            env: The vector of them.
            env_context: Where they are made.
            **kwargs: More, in later releases.
        """

    def on_episode_created(
        self,
        *,
        episode: Any,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        rl_module: Any = None,
        env_index: int,
        **kwargs: Any,
    ) -> None:
        """Called when an episode's object was made, before its reset.

        Args:
            episode: The episode.
            env_runner: The runner.
            metrics_logger: What metrics are logged with.
            env: The environment.
            rl_module: The modules.
            env_index: The environment's number in the runner.
            **kwargs: More, in later releases.
        """

    def on_episode_start(
        self,
        *,
        episode: Any,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Called when an episode has its first observation.

        Args:
            episode: The episode.
            env_runner: The runner.
            metrics_logger: What metrics are logged with.
            env: The environment.
            env_index: The environment's number in the runner.
            rl_module: The modules.
            **kwargs: More, in later releases.
        """

    def on_episode_step(
        self,
        *,
        episode: Any,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Called when an episode has one step more.

        Args:
            episode: The episode.
            env_runner: The runner.
            metrics_logger: What metrics are logged with.
            env: The environment.
            env_index: The environment's number in the runner.
            rl_module: The modules.
            **kwargs: More, in later releases.
        """

    def on_episode_end(
        self,
        *,
        episode: Any,
        prev_episode_chunks: list[Any] | None = None,
        env_runner: Any = None,
        metrics_logger: Any = None,
        env: Any = None,
        env_index: int,
        rl_module: Any = None,
        **kwargs: Any,
    ) -> None:
        """Called when an episode ended.

        Args:
            episode: Its last part.
            prev_episode_chunks: The parts before it.
            env_runner: The runner.
            metrics_logger: What metrics are logged with.
            env: The environment.
            env_index: The environment's number in the runner.
            rl_module: The modules.
            **kwargs: More, in later releases.
        """

    def on_sample_end(
        self, *, env_runner: Any = None, metrics_logger: Any = None, samples: Any, **kwargs: Any
    ) -> None:
        """Called when a runner is about to return what it sampled.

        Args:
            env_runner: The runner.
            metrics_logger: What metrics are logged with.
            samples: A list of parts of episodes.
            **kwargs: More, in later releases.
        """


def classes_of(config: Any) -> list[type[RLlibCallback]]:
    """The callback classes of an algorithm's settings."""
    given = config.callbacks_class
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    for kind in found:
        if not (isinstance(kind, type) and issubclass(kind, RLlibCallback)):
            raise ValueError(
                f"callbacks({kind!r}): a callback is a class that derives from RLlibCallback, not an object."
            )
    return found


class Callbacks:
    """All callbacks of one process: those of classes, then the functions of ``callbacks(on_...=...)``."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._objects = [kind() for kind in classes_of(config)]

    def wanted(self, event: str) -> bool:
        """Whether anybody hears of an event."""
        base = getattr(RLlibCallback, event)
        return bool(self._functions(event)) or any(
            getattr(type(one), event) is not base for one in self._objects
        )

    def any(self) -> bool:
        """Whether there is one at all."""
        events = (event for event in vars(RLlibCallback) if event.startswith("on_"))
        kinds = {type(one) for one in self._objects}
        return bool(kinds - {RLlibCallback}) or any(self._functions(event) for event in events)

    def _functions(self, event: str) -> list[Any]:
        given = getattr(self._config, f"callbacks_{event}", None)
        if given is None:
            return []
        return list(given) if isinstance(given, (list, tuple)) else [given]

    def call(self, event: str, **about: Any) -> None:
        """Tell of an event."""
        for one in self._objects:
            getattr(one, event)(**about)
        for function in self._functions(event):
            function(**about)
