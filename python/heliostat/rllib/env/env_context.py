"""The argument of an environment's creator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EnvContext(dict[str, Any]):
    """``env_config`` as a dict, with where the environment is made.

    Attributes:
        env_config: The environment's settings by name.
        worker_index: The runner, from 1 on; 0 in the algorithm's own process.
        vector_index: The number of the environment in its runner.
        remote: Whether it runs in a process of its own.
        num_workers: How many runners there are.
        recreated_worker: Whether the runner was started again after a failure.

    Examples:
        >>> from ray.rllib.env import EnvContext
        >>> context = EnvContext({"length": 5}, worker_index=2)
        >>> context["length"], context.worker_index
        (5, 2)
    """

    def __init__(
        self,
        env_config: Mapping[str, Any] | None = None,
        worker_index: int = 0,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int | None = None,
        recreated_worker: bool = False,
    ) -> None:
        super().__init__(env_config or {})
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.remote = remote
        self.num_workers = num_workers
        self.recreated_worker = recreated_worker

    def copy_with_overrides(
        self, env_config: Mapping[str, Any] | None = None, **given: Any
    ) -> EnvContext:
        """Return a copy with other values.

        Args:
            env_config: Other settings. Default: the same.
            **given: Other values of the attributes.
        """
        names = ("worker_index", "vector_index", "remote", "num_workers", "recreated_worker")
        kept = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None}
        return EnvContext(self if env_config is None else env_config, **{**kept, **given})

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Add settings that are not there.

        Args:
            defaults: The settings by name.
        """
        for name, value in defaults.items():
            self.setdefault(name, value)

    def __reduce__(self) -> Any:
        state = (self.worker_index, self.vector_index, self.remote, self.num_workers)
        return EnvContext, (dict(self), *state, self.recreated_worker)
