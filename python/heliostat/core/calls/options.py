"""The options of tasks, actors and methods, checked where they are written.

``check_task_options`` and ``check_actor_options`` are called at decoration and by ``.options()``;
they raise at the call that is wrong, in the words users of the API know. What an option is where it is
not given stands in Rust only: ``_heliostat.TaskOptions``, ``ActorOptions`` and ``MethodOptions``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heliostat import _heliostat
from heliostat.core.calls.placement import PlacementGroup
from heliostat.core.calls.scheduling import (
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from heliostat.core.platform import labels
from heliostat.core.platform.spelling import did_you_mean

NONE = type(None)
PRECISION = 10_000  # a resource is counted in parts of this

Check = Callable[[str, Any], None]
Types = type | tuple[type, ...]


@dataclass(frozen=True)
class Option:
    """A keyword: its types, a further check of its value, and whether ``.options()`` takes it."""

    types: Types | None = None
    check: Check | None = None
    at_options: bool = True

    def validate(self, keyword: str, value: Any) -> None:
        """Raise ``TypeError`` or ``ValueError`` for what the keyword does not take."""
        if self.types is not None and not isinstance(value, self.types):
            raise TypeError(
                f"The type of keyword '{keyword}' must be {self.types}, "
                f"but received type {type(value)}"
            )
        if self.check is not None:
            self.check(keyword, value)


def _quantity(keyword: str, value: Any) -> None:
    if value is None:
        return
    if value < 0:
        raise ValueError(f"The quantity of resource {keyword} cannot be negative")
    parts = value * PRECISION
    if abs(parts - round(parts)) > 1e-6:
        raise ValueError(
            f"The precision of the fractional quantity of resource {keyword} "
            f"cannot go beyond {1 / PRECISION}"
        )


@functools.cache
def _device_numbers() -> dict[str, list[int]]:
    """The kinds of devices that are not shared, each with the numbers that calls may have, if not all."""
    kinds = _heliostat.device_kinds()
    return {kind: sizes for kind, _, _, sizes in kinds if sizes is not None}


def _devices(name: str, value: float) -> None:
    """Most kinds of devices are not shared, and some come in certain numbers only."""
    if not value or (sizes := _device_numbers().get(name)) is None:
        return
    if sizes and value not in sizes:
        numbers = ", ".join(map(str, sizes))
        raise ValueError(f"The quantity of resource {name} is one of {numbers}, not {value}.")
    if value != int(value):
        raise ValueError(f"The quantity of resource {name} must be whole numbers, not {value}.")


def _resources(_: str, value: dict[str, float] | None) -> None:
    if value is None:
        return
    if "CPU" in value or "GPU" in value:
        raise ValueError(
            "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' "
            "in 'resources' keyword"
        )
    if "memory" in value or "object_store_memory" in value:
        raise ValueError(
            "The resources dictionary must not contain the key 'memory' or 'object_store_memory': "
            "use the keyword 'memory'"
        )
    for name, quantity in value.items():
        _quantity(name, quantity)
        _devices(name, quantity)


def _count(infinite: bool) -> Check:
    least = -1 if infinite else 0
    kinds = (
        "None, 0, -1 or a positive integer, where -1 represents infinity"
        if infinite
        else "None, 0 or a positive integer"
    )

    def check(keyword: str, value: int | None) -> None:
        if value is not None and value < least:
            raise ValueError(f"The keyword '{keyword}' only accepts {kinds}.")

    return check


def check_num_returns(_: str, value: int | str | None) -> None:
    """A number from 0, or one of the words for generators."""
    if value is None or value in ("streaming", "dynamic"):
        return
    if isinstance(value, str) or value < 0:
        raise ValueError(
            "The keyword 'num_returns' only accepts None, a non-negative integer, 'streaming' (for "
            "generators), or 'dynamic' (deprecated, use 'streaming'). None stands for 1, and for "
            "'streaming' where the function or method is a generator."
        )


def check_retry_exceptions(_: str, value: Any) -> None:
    """A boolean, or a list of exception classes."""
    if isinstance(value, bool):
        return
    if not all(isinstance(x, type) and issubclass(x, Exception) for x in value):
        raise ValueError("retry_exceptions must be either a boolean or a list of exceptions")


def _backpressure(keyword: str, value: int | None) -> None:
    if value == 0:
        raise ValueError(
            f"{keyword}=0 is not allowed. Use a value > 0: with 1 the generator runs on only when "
            "its last item was taken. Use -1 to disable this feature."
        )


def _per_yield(keyword: str, value: int | None) -> None:
    if value is not None and value <= 0:
        raise ValueError(f"{keyword} must be a positive integer, but got {value}.")


def _per_yield_of_methods(keyword: str, value: int | None) -> None:
    _per_yield(keyword, value)
    if value not in (None, 1):
        raise NotImplementedError(
            f"{keyword} is an option of tasks only; yield the items one by one"
        )


def _lifetime(_: str, value: str | None) -> None:
    if value not in (None, "detached", "non_detached"):
        raise ValueError(
            "actor `lifetime` argument must be one of 'detached', 'non_detached' and 'None'."
        )


def _runtime_env(_: str, value: dict[str, Any] | None) -> None:
    if value is not None:
        from heliostat.core.runtime_env.document import check_runtime_env  # most calls have none

        check_runtime_env(value)


def _store_memory(of: str) -> Check:
    def check(_: str, value: Any) -> None:
        if value is not None:
            raise ValueError(f"Setting 'object_store_memory' is not implemented for {of}")

    return check


def _optional(*types: type) -> tuple[type, ...]:
    return (*types, NONE)


STRATEGIES = (
    NONE,
    str,
    PlacementGroupSchedulingStrategy,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
)

COMMON: dict[str, Option] = {
    "label_selector": Option(_optional(dict), lambda _, v: labels.check_selector(v)),
    "fallback_strategy": Option(_optional(list), lambda _, v: labels.check_fallback(v)),
    "accelerator_type": Option(_optional(str)),
    "memory": Option(_optional(float, int), _quantity),
    "name": Option(_optional(str)),
    "num_cpus": Option(_optional(float, int), _quantity),
    "num_gpus": Option(_optional(float, int), _quantity),
    "object_store_memory": Option(_optional(int), _store_memory("tasks")),
    "placement_group": Option((NONE, str, PlacementGroup)),
    "placement_group_bundle_index": Option(int),
    "placement_group_capture_child_tasks": Option(_optional(bool)),
    "resources": Option(_optional(dict), _resources),
    "runtime_env": Option(_optional(dict), _runtime_env),
    "scheduling_strategy": Option(STRATEGIES),
    "enable_task_events": Option(bool),
    "_labels": Option(_optional(dict)),
}

TASK: dict[str, Option] = {
    **COMMON,
    "max_calls": Option(_optional(int), _count(infinite=False), at_options=False),
    "max_retries": Option(_optional(int), _count(infinite=True)),
    "num_returns": Option((int, str, NONE), check_num_returns),
    "retry_exceptions": Option((bool, list, tuple), check_retry_exceptions),
    "_generator_backpressure_num_objects": Option(_optional(int), _backpressure),
    "_num_objects_per_yield": Option(_optional(int), _per_yield),
}

ACTOR: dict[str, Option] = {
    **COMMON,
    "object_store_memory": Option(_optional(int), _store_memory("actors")),
    "concurrency_groups": Option((list, dict, NONE), at_options=False),
    "enable_tensor_transport": Option(_optional(bool)),
    "lifetime": Option(_optional(str), _lifetime),
    "max_concurrency": Option(_optional(int), _count(infinite=False)),
    "max_restarts": Option(_optional(int), _count(infinite=True)),
    "max_task_retries": Option(_optional(int), _count(infinite=True)),
    "max_pending_calls": Option(_optional(int), _count(infinite=True)),
    "namespace": Option(_optional(str)),
    "get_if_exists": Option(bool),
    "allow_out_of_order_execution": Option(_optional(bool)),
    "_actor_generator_backpressure_num_objects": Option(_optional(int), _backpressure),
    "_preload": Option(_optional(list)),
}


def _not_negative(keyword: str, value: int | str | None) -> None:
    if isinstance(value, int) and value < 0:
        raise ValueError(f"{keyword} must be >= 0, but got {value}.")


METHOD: dict[str, Option] = {
    "num_returns": Option((int, str, NONE), _not_negative),
    "concurrency_group": Option(_optional(str)),
    "max_task_retries": Option(_optional(int), _count(infinite=True)),
    "retry_exceptions": Option((bool, list, tuple), check_retry_exceptions),
    "_generator_backpressure_num_objects": Option(_optional(int), _backpressure),
    "_num_objects_per_yield": Option(_optional(int), _per_yield_of_methods),
    "enable_task_events": Option(_optional(bool)),
    "tensor_transport": Option(_optional(str)),
}

ALL = [*(k for k in {**TASK, **ACTOR} if k not in COMMON), *COMMON]


def check_task_options(options: Mapping[str, Any], in_options: bool) -> None:
    """Refuse what is not an option of a task."""
    _check(options, TASK, "remote functions", in_options)


def check_actor_options(options: Mapping[str, Any], in_options: bool) -> None:
    """Refuse what is not an option of an actor."""
    _check(options, ACTOR, "actors", in_options)
    if options.get("get_if_exists") and not options.get("name"):
        raise ValueError("The actor name must be specified to use `get_if_exists`.")


def check_gpus(needed: Mapping[str, float]) -> None:
    """Refuse a fraction of more than one GPU."""
    gpus = needed.get("GPU", 0.0)
    if gpus > 1 and not gpus.is_integer():
        raise ValueError(
            "GPU resource quantities >1 must be whole numbers. "
            f"The specified quantity {gpus} is invalid."
        )


def check_method_options(options: Mapping[str, Any]) -> None:
    """Refuse what is not an option of ``@method``."""
    for keyword, value in options.items():
        if keyword not in METHOD:
            raise AssertionError(
                f"Unexpected keyword argument to @ray.method: '{keyword}'."
                f"{did_you_mean(keyword, METHOD)} "
                f"The supported keyword arguments are {list(METHOD)}"
            )
        METHOD[keyword].validate(keyword, value)


def _check(
    options: Mapping[str, Any], table: Mapping[str, Option], kind: str, in_options: bool
) -> None:
    for keyword, value in options.items():
        option = table.get(keyword)
        if option is None:
            raise ValueError(
                f"Invalid option keyword {keyword} for {kind}.{did_you_mean(keyword, table)} "
                f"Valid ones are {list(table)}."
            )
        option.validate(keyword, value)
        if in_options and not option.at_options:
            raise ValueError(f"Setting '{keyword}' is not supported in '.options()'.")
    _check_strategy(options)


def _check_strategy(options: Mapping[str, Any]) -> None:
    strategy = options.get("scheduling_strategy")
    if strategy is not None and options.get("placement_group") not in (None, "default"):
        raise ValueError(
            "Placement groups should be specified via the scheduling_strategy option. "
            "The placement_group option is deprecated, and both cannot be given."
        )


T = TypeVar("T")


class OptionsCache(Generic[T]):
    """The results of ``.options()``, given again for the same options: they stand inside loops.

    Only options that are plain values are looked up, which nobody can change afterwards.
    """

    MAX = 256

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], T] = {}

    def find(self, options: Mapping[str, Any], make: Callable[[], T]) -> T:
        """Return the result for these options, or what ``make`` makes."""
        key = _plain(options)
        if key is None:
            return make()
        found = self._made.get(key)
        if found is None:
            found = make()
            if len(self._made) >= self.MAX:
                self._made.clear()
            self._made[key] = found
        return found


_PLAIN = frozenset((str, int, float, bool, NONE))


def _plain(options: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The options as a key; with their types, since ``1 == True``."""
    key: list[tuple[Any, ...]] = []
    for keyword, value in options.items():
        kind = type(value)
        if kind in _PLAIN:
            key.append((keyword, kind, value))
            continue
        inner = _plain(value) if kind is dict else None
        if inner is None:
            return None
        key.append((keyword, kind, inner))
    return tuple(key)


def remote_usage() -> str:
    """Return the sentence for a wrong use of ``@remote``."""
    return (
        "The @ray.remote decorator must be applied either with no arguments and no parentheses, "
        "for example '@ray.remote', or it must be applied using some of the arguments in the list "
        f"{ALL}, for example '@ray.remote(num_returns=2, resources={{\"CustomResource\": 1}})'."
    )
