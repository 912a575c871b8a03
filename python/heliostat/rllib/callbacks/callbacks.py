"""The events of an algorithm's life that programs are told."""

from __future__ import annotations

from typing import Any


class RLlibCallback:
    """Base of callbacks: override what you want to hear of.

    Every method gets keyword arguments and must take ``**kwargs``, for later releases pass more. Methods of
    episodes are called in runners, the others in the algorithm's process. ``metrics_logger`` takes values
    that results then have, beside the runner's own.
    """

    def on_algorithm_init(
        self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any
    ) -> None:
        """The algorithm was made."""

    def on_train_result(
        self, *, algorithm: Any, metrics_logger: Any = None, result: dict[str, Any], **kwargs: Any
    ) -> None:
        """``train()`` is about to return ``result``, which may be changed."""

    def on_evaluate_start(
        self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any
    ) -> None:
        """Evaluation begins."""

    def on_evaluate_end(
        self,
        *,
        algorithm: Any,
        metrics_logger: Any = None,
        evaluation_metrics: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        """Evaluation ended."""

    def on_evaluate_offline_start(
        self, *, algorithm: Any, metrics_logger: Any = None, **kwargs: Any
    ) -> None:
        """Never called: evaluation without an environment is not built."""

    def on_evaluate_offline_end(
        self,
        *,
        algorithm: Any,
        metrics_logger: Any = None,
        evaluation_metrics: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        """Never called: evaluation without an environment is not built."""

    def on_env_runners_recreated(
        self,
        *,
        algorithm: Any,
        env_runner_group: Any,
        env_runner_indices: list[int],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """Runners that had failed run again."""

    def on_offline_eval_runners_recreated(
        self,
        *,
        algorithm: Any,
        offline_eval_runner_group: Any,
        offline_eval_runner_indices: list[int],
        **kwargs: Any,
    ) -> None:
        """Never called: evaluation without an environment is not built."""

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """The algorithm took over a checkpoint."""

    def on_environment_created(
        self,
        *,
        env_runner: Any,
        metrics_logger: Any = None,
        env: Any,
        env_context: Any,
        **kwargs: Any,
    ) -> None:
        """A runner made its environments; ``env`` is the vector of them."""

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
        """An episode's object was made, before its reset."""

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
        """An episode has its first observation."""

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
        """An episode has one step more."""

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
        """An episode ended; ``episode`` is its last part, ``prev_episode_chunks`` those before it."""

    def on_sample_end(
        self, *, env_runner: Any = None, metrics_logger: Any = None, samples: Any, **kwargs: Any
    ) -> None:
        """A runner is about to return ``samples``, a list of parts of episodes."""


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
