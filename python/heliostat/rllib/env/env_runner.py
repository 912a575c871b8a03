"""The base of runners, which step environments."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.callbacks.callbacks import Callbacks
from heliostat.rllib.core import (
    COMPONENT_ENV_TO_MODULE_CONNECTOR,
    COMPONENT_MODULE_TO_ENV_CONNECTOR,
)
from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.making import creator
from heliostat.rllib.utils.checkpoints import Checkpointable
from heliostat.rllib.utils.metrics.metrics_logger import MetricsLogger


def is_of_users(code: Any) -> bool:
    """Whether a class or a function is the user's, not the library's."""
    return not (getattr(code, "__module__", None) or "").startswith("heliostat.")


class EnvRunner(Checkpointable):
    """Steps environments with a module, in the algorithm's process or in one of its own.

    Args:
        config: The algorithm's settings.
        worker_index: The runner, from 1 on; 0 in the algorithm's process.
        num_workers: How many runners there are.
        recreated_worker: Whether it takes the place of one that failed.
    """

    STATE_FILE_NAME = "state"

    def __init__(
        self,
        *,
        config: Any,
        worker_index: int = 0,
        num_workers: int | None = None,
        recreated_worker: bool = False,
        **kwargs: Any,
    ) -> None:
        self.config = config
        self.worker_index = worker_index
        self.num_workers = config.num_env_runners if num_workers is None else num_workers
        self.recreated_worker = recreated_worker
        self.metrics = MetricsLogger()
        self._callbacks = Callbacks(config)
        self.env: Any = None
        self.module: Any = None
        self.weights_seq_no = 0
        self.timesteps = 0  # of all runners together, as far as this one knows
        # An actor's parameters are views of the object that all runners of its node read, as long as
        # no code of the user's sees the module: it might write to them.
        self._shares = worker_index > 0 and not (
            config.uses_connectors or self._callbacks.any() or is_of_users(type(self))
        )
        self._create: Any = config.env_creator
        if self._create is None and config.env is not None:
            self._create = creator(config.env)
        self._seed()
        self.make_env()
        self.make_module()

    def _seed(self) -> None:
        import torch

        if self.worker_index:
            torch.set_num_threads(1)
        self.seed: int | None = None
        if self.config.seed is not None:
            offset = 1_000_000 if self.config.in_evaluation else 0
            self.seed = self.config.seed + self.worker_index * 1000 + offset
            torch.manual_seed(self.seed)

    def make_env(self) -> None:
        """Make the environments anew."""
        raise NotImplementedError

    def make_module(self) -> None:
        """Make the module anew."""
        raise NotImplementedError

    def _tell_of_environment(self) -> None:
        """Call ``on_environment_created``; for the end of ``make_env``."""
        self._callbacks.call(
            "on_environment_created",
            env_runner=self,
            metrics_logger=self.metrics,
            env=self.env,
            env_context=EnvContext(self.config.env_config, worker_index=self.worker_index),
        )

    def sample(self, **kwargs: Any) -> Any:
        """Return episodes."""
        raise NotImplementedError

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the spaces of observations and actions by module id, and the environment's as
        ``__env__``.
        """
        raise NotImplementedError

    def get_metrics(self) -> dict[Any, Any]:
        """Return what was logged since the last call, for ``MetricsLogger.aggregate``."""
        return self.metrics.reduce()

    def sample_get_state_and_metrics(self) -> tuple[Any, dict[str, Any], dict[Any, Any]]:
        """Return what :meth:`sample` does, the states of the pipelines by their names, and the metrics."""
        found = self.sample()
        own = getattr(self, "connector_states", None)
        return found, own() if own is not None else {}, self.get_metrics()

    def get_weights(self, *arguments: Any, **keywords: Any) -> Any:
        """Refused: a runner's state has the weights.

        Args:
            *arguments: Has no effect.
            **keywords: Has no effect.

        Returns:
            Nothing; it raises.

        Raises:
            ValueError: Always.
        """
        raise ValueError("get_weights() of a runner is gone: use get_state()['rl_module'].")

    def set_weights(self, *arguments: Any, **keywords: Any) -> Any:
        """Refused: a runner's state has the weights.

        Args:
            *arguments: Has no effect.
            **keywords: Has no effect.

        Returns:
            Nothing; it raises.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "set_weights() of a runner is gone: use set_state({'rl_module': weights})."
        )

    def assert_healthy(self) -> None:
        """Fail unless environments and module are there."""
        assert self.env is not None
        assert self.module is not None

    def ping(self) -> str:
        """Return ``"pong"``: the process answers."""
        return "pong"

    def apply(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Return ``func(this runner, ...)``.

        Args:
            func: Takes the runner.
            *args: Further arguments of it.
            **kwargs: Further keyword arguments of it.
        """
        if self._shares and is_of_users(func):
            self._shares = False
            self.module._own_weights()
        return func(self, *args, **kwargs)

    def stop(self) -> None:
        """Close the environments."""
        if self.env is not None:
            self.env.close()

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a runner."""
        return (), {"config": self.config, "worker_index": self.worker_index}

    _env_to_module: Any = None
    _module_to_env: Any = None

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the pipelines of connectors; a runner that needs none makes them for this."""
        if self._env_to_module is None:
            self._env_to_module = self.config.build_env_to_module_connector(env=self.env)
            self._module_to_env = self.config.build_module_to_env_connector(env=self.env)
        return [
            (COMPONENT_ENV_TO_MODULE_CONNECTOR, self._env_to_module),
            (COMPONENT_MODULE_TO_ENV_CONNECTOR, self._module_to_env),
        ]

    def save_to_path(self, path: Any = None, *, state: dict[str, Any] | None = None) -> str:
        """Save the pipelines into a folder; weights are in the learners' one."""
        given = {"weights_seq_no": self.weights_seq_no} if state is None else state
        return super().save_to_path(path, state=given)

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the weights, their number, and the metrics over the lifetime.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            **kwargs: More, in later releases.
        """
        return {
            "rl_module": self.module.get_state(inference_only=True),
            "weights_seq_no": self.weights_seq_no,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights.

        Args:
            state: The state.
        """
        if "rl_module" in state:
            if self._shares:
                self.module._use_state(state["rl_module"])
            else:
                self.module.set_state(state["rl_module"])
        self.weights_seq_no = state.get("weights_seq_no", self.weights_seq_no)
        self.timesteps = state.get("num_env_steps_sampled_lifetime", self.timesteps)
