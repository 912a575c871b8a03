"""``ExecutionResources``: an amount of each resource that an execution may have."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable

NAMES = ("cpu", "gpu", "object_store_memory", "memory")
_KEYS = dict(
    zip(("CPU", "GPU", *NAMES[2:]), NAMES, strict=True)
)  # as in `ray.available_resources()`


class ExecutionResources:
    """An amount of each resource; memory in bytes. What is not given is 0, and as a limit none.

    Args:
        cpu: CPUs.
        gpu: GPUs.
        object_store_memory: Bytes of the object store.
        memory: Bytes of heap.

    Examples:
        >>> from ray.data import ExecutionResources
        >>> one = ExecutionResources(cpu=2, object_store_memory=10**9)
        >>> one.add(ExecutionResources(cpu=1)).cpu
        3
        >>> one.satisfies_limit(ExecutionResources(cpu=4, object_store_memory=2 * 10**9))
        True
    """

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        given = (cpu, gpu, object_store_memory, memory)
        self._given = dict(zip(NAMES, given, strict=True))

    def _amount(self, name: str) -> float:
        value = self._given[name]
        return 0.0 if value is None else value

    @property
    def cpu(self) -> float:
        """CPUs."""
        return self._amount("cpu")

    @property
    def gpu(self) -> float:
        """GPUs."""
        return self._amount("gpu")

    @property
    def object_store_memory(self) -> float:
        """Bytes of the object store."""
        return self._amount("object_store_memory")

    @property
    def memory(self) -> float:
        """Bytes of heap."""
        return self._amount("memory")

    # --- making them ---

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Return limits: what is not given is unlimited.

        Args:
            cpu: CPUs.
            gpu: GPUs.
            object_store_memory: Bytes of the object store.
            memory: Bytes of heap.
        """
        given = (cpu, gpu, object_store_memory, memory)
        return cls(*(math.inf if value is None else value for value in given))

    @classmethod
    def from_resource_dict(cls, resource_dict: dict[str, float]) -> ExecutionResources:
        """Return the amounts of a dict such as ``ray.available_resources()`` gives.

        Args:
            resource_dict: By "CPU", "GPU", "object_store_memory" and "memory"; other names are left out.
        """
        return cls(**{name: resource_dict.get(key) for key, name in _KEYS.items()})

    @classmethod
    def zero(cls) -> ExecutionResources:
        """None of anything."""
        return cls(0.0, 0.0, 0.0, 0.0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """No limit on anything."""
        return cls.for_limits()

    @classmethod
    def combine(
        cls, resources: Iterable[ExecutionResources], fn: Callable[[float, float], float]
    ) -> ExecutionResources | None:
        """Return what a function of two numbers makes of several, resource by resource; None of none.

        Args:
            resources: Them.
            fn: Gets what it made so far and the next amount.
        """
        rest = iter(resources)
        made = next(rest, None)
        for one in rest:
            assert made is not None
            made = made._with(one, fn)
        return made

    @classmethod
    def combine_sum(cls, resources: Iterable[ExecutionResources]) -> ExecutionResources:
        """Return the sum; nothing of anything for none.

        Args:
            resources: What is added up.
        """
        return cls.combine(resources, operator.add) or cls.zero()

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """Return an independent copy, with other amounts where they are given.

        Args:
            cpu: CPUs.
            gpu: GPUs.
            memory: Bytes of heap.
            object_store_memory: Bytes of the object store.
        """
        given = (cpu, gpu, object_store_memory, memory)
        others = {n: v for n, v in zip(NAMES, given, strict=True) if v is not None}
        return ExecutionResources(**{**self._given, **others})

    def as_limits(self) -> ExecutionResources:
        """Return the same as limits: what was not given is unlimited."""
        return self.for_limits(**self._given)

    # --- computing with them ---

    def _with(
        self, other: ExecutionResources, function: Callable[[float, float], float]
    ) -> ExecutionResources:
        return ExecutionResources(*(function(self._amount(n), other._amount(n)) for n in NAMES))

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """Return the sum with another.

        Args:
            other: The other.
        """
        return self._with(other, operator.add)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """Return what is left without another; it may be negative.

        Args:
            other: The other.
        """
        return self._with(other, operator.sub)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """Return the larger amount of each resource.

        Args:
            other: The other.
        """
        return self._with(other, builtins.max)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """Return the smaller amount of each resource.

        Args:
            other: The other.
        """
        return self._with(other, builtins.min)

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """Return how often another is in this, resource by resource; infinity where it needs none.

        Args:
            other: The other.
        """
        return self._with(other, lambda a, b: a // b if b else math.inf)

    def scale(self, f: float) -> ExecutionResources:
        """Return the amounts times a number; what is not given stays so.

        Args:
            f: The number.
        """
        times = {n: None if v is None else v * f for n, v in self._given.items()}
        return ExecutionResources(**times)

    # --- asking them ---

    def is_zero(self) -> bool:
        """Return whether there is nothing of anything."""
        return not any(self._amount(name) for name in NAMES)

    def is_non_negative(self) -> bool:
        """Return whether no amount is below 0."""
        return all(self._amount(name) >= 0 for name in NAMES)

    def satisfies_limit(
        self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False
    ) -> bool:
        """Return whether no amount is above a limit.

        Args:
            limit: The limits, such as :meth:`for_limits` makes.
            ignore_object_store_memory: Leave the object store out. Default False.
        """
        left_out = {"object_store_memory"} if ignore_object_store_memory else set()
        return all(self._amount(n) <= limit._amount(n) for n in NAMES if n not in left_out)

    def to_resource_dict(self) -> dict[str, float]:
        """Return the amounts by the names that ``ray.available_resources()`` has."""
        return {key: self._amount(name) for key, name in _KEYS.items()}

    def object_store_memory_str(self) -> str:
        """Return the bytes of the object store as a text, such as "1.5GiB"."""
        return _bytes(self.object_store_memory)

    def memory_str(self) -> str:
        """Return the bytes of heap as a text, such as "1.5GiB"."""
        return _bytes(self.memory)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExecutionResources):
            return NotImplemented
        return all(self._amount(name) == other._amount(name) for name in NAMES)

    def __hash__(self) -> int:
        return hash(tuple(self._amount(name) for name in NAMES))

    def __repr__(self) -> str:
        return (
            f"ExecutionResources(cpu={self.cpu}, gpu={self.gpu}, "
            f"object_store_memory={self.object_store_memory_str()}, memory={self.memory_str()})"
        )


def _bytes(size: float) -> str:
    if math.isinf(size):
        return "inf"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(size) >= factor:
            return f"{size / factor:.1f}{unit}"
    return f"{size:.1f}B"
