"""Placement of a step by its options: tasks or actors, their number and resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.remote_options import ALL, check_actor_options, check_task_options
from heliostat.core.platform.spelling import did_you_mean
from heliostat.data.dataset.options import ARGUMENTS, CallOptions
from heliostat.data.plan.operators import (
    ActorPoolStrategy,
    Compute,
    Map,
    Operator,
    TaskPoolStrategy,
)
from heliostat.data.plan.transforms import Transform
from heliostat.data.plan.udf import Udf

if TYPE_CHECKING:
    from heliostat.data.aliases import Function, RemoteArgs
# Further arguments of the methods, for suggestions to misspelt ones.
OWN = ("batch_size", "batch_format", "zero_copy_batch", "udf_modifying_row_count", "expr")


@dataclass(frozen=True)
class Options:
    """The options of a step that were given; see ``CallOptions`` for what each means."""

    compute: object = None
    concurrency: object = None
    remote_args_fn: Callable[[], RemoteArgs] | None = None
    remote_args: RemoteArgs = field(default_factory=dict)  # of `ray.remote`
    arguments: dict[str, Any] = field(default_factory=dict)  # of the function, by `ARGUMENTS`

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Options:
        """The options among keywords; those that are None were not given.

        Raises:
            ValueError: One is none of a step and none of ``ray.remote``.
        """
        left: dict[str, Any] = {**given}
        more = left.pop("ray_remote_args", None) or {}
        left = {name: value for name, value in {**left, **more}.items() if value is not None}
        for name in left:
            if name not in CallOptions.__annotations__ and name not in ALL:
                near = did_you_mean(name, [*CallOptions.__annotations__, *ALL, *OWN])
                raise ValueError(
                    f"{name!r} is not an option of a step of a dataset, nor of ray.remote.{near}"
                )
        return cls(
            left.pop("compute", None),
            left.pop("concurrency", None),
            left.pop("ray_remote_args_fn", None),
            arguments={name: left.pop(name) for name in ARGUMENTS if name in left},
            remote_args=left,
        )

    @property
    def says_where(self) -> bool:
        """Whether any says where the step runs."""
        return bool(
            self.remote_args
            or self.remote_args_fn
            or self.compute is not None
            or self.concurrency is not None
        )

    def udf(self, fn: Function) -> Udf:
        """The function or class with its arguments."""
        for name, value in self.arguments.items():
            is_named = name.endswith("kwargs")
            if not isinstance(value, Mapping if is_named else Iterable) or isinstance(value, str):
                wanted = "a dict of keyword arguments" if is_named else "a list of arguments"
                raise TypeError(f"`{name}` must be {wanted}, got {value!r}.")
        args, kwargs, constructor_args, constructor_kwargs = map(self.arguments.get, ARGUMENTS)
        return Udf(
            fn,
            tuple(args or ()),
            dict(kwargs or {}),
            tuple(constructor_args or ()),
            dict(constructor_kwargs or {}),
        )

    def step(
        self,
        source: Operator,
        transform: Transform,
        name: str,
        *,
        is_class: bool = False,
        min_rows: int = 0,
        keeps_rows: bool = False,
    ) -> Map:
        """The step on a plan, where the options place the function or class called ``name``.

        Raises:
            TypeError: An option has a value of another type.
            ValueError: The options contradict each other, one is none of ``ray.remote``, or there is no
                function for its arguments.
        """
        if self.arguments and transform.udf is None:
            raise ValueError(f"{', '.join(self.arguments)} have no meaning with {name}.")
        compute = _compute(is_class, name, self.compute, self.concurrency)
        check = check_task_options if isinstance(compute, TaskPoolStrategy) else check_actor_options
        check(self.remote_args, in_options=False)
        return Map(
            source,
            transform,
            compute,
            self.remote_args,
            min_rows,
            keeps_rows,
            self.remote_args_fn,
        )


def _compute(is_class: bool, name: str, compute: object, concurrency: object) -> Compute:
    if compute is not None:
        if concurrency is not None:
            raise ValueError("`concurrency` and `compute` cannot both be given.")
        if not isinstance(compute, TaskPoolStrategy | ActorPoolStrategy):
            raise ValueError(
                f"compute must be a TaskPoolStrategy or an ActorPoolStrategy, got {compute!r}."
            )
        if is_class and isinstance(compute, TaskPoolStrategy):
            raise ValueError(
                f"{name} is a class, which needs actors: use compute=ActorPoolStrategy(...)."
            )
        return compute
    if isinstance(concurrency, tuple | list):
        if not is_class:
            raise ValueError(
                f"`concurrency` is a tuple {concurrency}, which is for classes; {name} is a function."
            )
        if len(concurrency) not in (2, 3) or not all(isinstance(n, int) for n in concurrency):
            raise ValueError(
                "`concurrency` is expected to be (min, max) or (min, max, initial), got "
                f"{concurrency}."
            )
        least, most, *initial = concurrency
        return ActorPoolStrategy(
            min_size=least, max_size=most, initial_size=initial[0] if initial else None
        )
    if concurrency is not None and (not isinstance(concurrency, int) or concurrency < 1):
        raise ValueError(f"`concurrency` must be a positive integer, got {concurrency!r}.")
    if is_class:
        return ActorPoolStrategy(size=concurrency) if concurrency else ActorPoolStrategy()
    return TaskPoolStrategy(concurrency)
