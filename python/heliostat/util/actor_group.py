"""A group of actors of one class that are called together. Deprecated, as it is in Ray."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import heliostat
from heliostat.util.annotations import Deprecated

__all__ = ["ActorConfig", "ActorGroup", "ActorGroupMethod", "ActorWrapper"]


@dataclass
class ActorWrapper:
    """An actor of the group, and what its ``get_actor_metadata()`` returned (``None``: it has none).

    Args:
        actor: Its handle.
        metadata: What it returned.

    Examples:
        >>> import ray
        >>> from ray.util.actor_group import ActorGroup
        >>> class Echo:
        ...     def get_actor_metadata(self):
        ...         return "an echo"
        ...     def say(self, text):
        ...         return text
        >>> group = ActorGroup(Echo, num_cpus_per_actor=0.5)
        >>> wrapper = group[0]
        >>> wrapper.metadata, ray.get(wrapper.actor.say.remote("hello"))
        ('an echo', 'hello')
        >>> group.shutdown()
    """

    actor: Any
    metadata: Any


@dataclass
class ActorConfig:
    """The options of the actors of a group.

    Args:
        num_cpus: CPUs that each holds.
        num_gpus: GPUs that each holds.
        resources: Further resources that each holds, amounts by name.
        init_args: Positional arguments of the constructors.
        init_kwargs: Keyword arguments of the constructors.

    Examples:
        >>> from ray.util.actor_group import ActorGroup
        >>> class Waiter:
        ...     pass
        >>> group = ActorGroup(Waiter, num_cpus_per_actor=0.5)
        >>> group.actor_config.num_cpus, group.actor_config.init_args
        (0.5, ())
        >>> group.shutdown(patience_s=0)
    """

    num_cpus: float
    num_gpus: float
    resources: Mapping[str, float] | None
    init_args: tuple[Any, ...]
    init_kwargs: dict[str, Any]


class ActorGroupMethod:
    """A method of all actors of a group.

    Args:
        actor_group: The group.
        method_name: The method's name.

    Examples:
        >>> import ray
        >>> from ray.util.actor_group import ActorGroup, ActorGroupMethod
        >>> class Echo:
        ...     def say(self, text):
        ...         return text
        >>> group = ActorGroup(Echo, num_actors=2, num_cpus_per_actor=0.5)
        >>> isinstance(group.say, ActorGroupMethod), ray.get(group.say.remote("hello"))
        (True, ['hello', 'hello'])
        >>> group.shutdown()
    """

    def __init__(self, actor_group: ActorGroup, method_name: str) -> None:
        self.actor_group = weakref.ref(actor_group)
        self._method_name = method_name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "ActorGroup methods cannot be called directly. Instead of "
            f"running 'object.{self._method_name}()', try 'object.{self._method_name}.remote()'."
        )

    def remote(self, *args: Any, **kwargs: Any) -> list[heliostat.ObjectRef]:
        """Call the method on every actor.

        Args:
            *args: Positional arguments.
            **kwargs: Keyword arguments.

        Returns:
            A reference for each, in the group's order.

        Raises:
            RuntimeError: The group is gone.
        """
        group = self.actor_group()
        if group is None:
            raise RuntimeError(
                "The ActorGroup of this method is gone: keep a reference to the group."
            )
        return [
            getattr(wrapper.actor, self._method_name).remote(*args, **kwargs)
            for wrapper in group.actors
        ]


@Deprecated(
    message="Use heliostat.util.multiprocessing.Pool for functions, and "
    "Dataset.map_batches(Class, compute=ActorPoolStrategy(...)) for classes.",
    warning=True,
)
class ActorGroup:
    """Several actors of one class; ``group.method.remote(…)`` calls all, ``group[i].actor`` is one.

    The constructor waits for the actors whose class has ``get_actor_metadata``.

    Args:
        actor_cls: The class, undecorated.
        num_actors: How many. Default 1.
        num_cpus_per_actor: CPUs that each holds. Default 1.
        num_gpus_per_actor: GPUs that each holds. Default 0.
        resources_per_actor: Further resources that each holds, amounts by name.
        init_args: Positional arguments of the constructors.
        init_kwargs: Keyword arguments of the constructors.

    Raises:
        ValueError: ``num_actors`` is below 1, or a quantity is negative.

    Examples:
        >>> import ray
        >>> from ray.util.actor_group import ActorGroup
        >>> class Adder:
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def add(self, x):
        ...         return x + self.n
        >>> group = ActorGroup(Adder, num_actors=2, num_cpus_per_actor=0.5, init_args=(10,))
        >>> ray.get(group.add.remote(1))
        [11, 11]
        >>> group.shutdown()
    """

    def __init__(
        self,
        actor_cls: type,
        num_actors: int = 1,
        num_cpus_per_actor: float = 1,
        num_gpus_per_actor: float = 0,
        resources_per_actor: Mapping[str, float] | None = None,
        init_args: Sequence[Any] | None = None,
        init_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if num_actors <= 0:
            raise ValueError(
                "The provided `num_actors` must be greater than 0. "
                f"Received num_actors={num_actors} instead."
            )
        if num_cpus_per_actor < 0 or num_gpus_per_actor < 0:
            raise ValueError(
                "The number of CPUs and GPUs per actor must not be negative. Received "
                f"num_cpus_per_actor={num_cpus_per_actor} and num_gpus_per_actor={num_gpus_per_actor}."
            )
        self.actors: list[ActorWrapper] = []
        self.num_actors = num_actors
        self.actor_config = ActorConfig(
            num_cpus=num_cpus_per_actor,
            num_gpus=num_gpus_per_actor,
            resources=resources_per_actor,
            init_args=tuple(init_args or ()),
            init_kwargs=dict(init_kwargs or {}),
        )
        self._remote_cls = heliostat.remote(
            num_cpus=num_cpus_per_actor,
            num_gpus=num_gpus_per_actor,
            resources=dict(resources_per_actor) if resources_per_actor is not None else None,
        )(actor_cls)
        self.start()

    def __getattr__(self, item: str) -> ActorGroupMethod:
        # Neither what copiers and picklers look for, nor fields before `__init__` has set them.
        if item.startswith("__") or "actors" not in self.__dict__:
            raise AttributeError(item)
        if not self.actors:
            raise RuntimeError("This ActorGroup has been shutdown. Please start it again.")
        return ActorGroupMethod(self, item)

    def __len__(self) -> int:
        return len(self.actors)

    def __getitem__(self, item: Any) -> Any:
        return self.actors[item]

    def start(self) -> None:
        """Make ``num_actors`` actors.

        Raises:
            RuntimeError: There are some already.
        """
        if self.actors:
            raise RuntimeError(
                "The actors have already been started. "
                "Please call `shutdown` first if you want to restart them."
            )
        self.add_actors(self.num_actors)

    def shutdown(self, patience_s: float = 5) -> None:
        """End all actors: after the calls that were made.

        Args:
            patience_s: Seconds that these have; then the actors are killed. Default 5.
        """
        actors = [wrapper.actor for wrapper in self.actors]
        ended: list[Any] = []
        if patience_s > 0 and actors:
            ends = {actor.__ray_terminate__.remote(): actor for actor in actors}
            done, _ = heliostat.wait(list(ends), num_returns=len(ends), timeout=patience_s)
            ended = [ends[ref] for ref in done]
        for actor in actors:
            if actor not in ended:
                heliostat.kill(actor)
        self.actors = []

    def remove_actors(self, actor_indexes: Sequence[int]) -> None:
        """Take the actors of these indexes out of the group; they end when nobody else has a handle.

        Args:
            actor_indexes: The indexes.
        """
        self.actors = [
            wrapper for index, wrapper in enumerate(self.actors) if index not in actor_indexes
        ]

    def add_actors(self, num_actors: int) -> None:
        """Make more actors.

        Args:
            num_actors: How many.
        """
        config = self.actor_config
        actors = [
            self._remote_cls.remote(*config.init_args, **config.init_kwargs)
            for _ in range(num_actors)
        ]
        asked = [
            actor.get_actor_metadata.remote() if hasattr(actor, "get_actor_metadata") else None
            for actor in actors
        ]
        known = iter(heliostat.get([ref for ref in asked if ref is not None]))
        metadata = [None if ref is None else next(known) for ref in asked]
        self.actors += map(ActorWrapper, actors, metadata)

    @property
    def actor_metadata(self) -> list[Any]:
        """Return the result of each actor's ``get_actor_metadata()``."""
        return [wrapper.metadata for wrapper in self.actors]
