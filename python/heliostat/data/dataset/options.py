"""The options of a transformation: how many tasks or actors, and with which resources."""

from __future__ import annotations

from typing import Any

from heliostat.data.plan.operators import ActorPoolStrategy, Compute, TaskPoolStrategy


def options_of(given: dict[str, Any], *own: str) -> dict[str, Any]:
    """The options among a method's arguments, ``locals()``, that were given.

    ``own`` are the arguments that are no options.
    """
    options = {k: v for k, v in given.items() if k not in ("self", "fn", "ray_remote_args", *own)}
    options.update(given.get("ray_remote_args") or {})
    return {k: v for k, v in options.items() if v is not None}


def placed(options: dict[str, Any], name: str, *, is_class: bool = False) -> dict[str, Any]:
    """The arguments of ``Map`` that say where the function or class called ``name`` runs.

    Raises:
        ValueError: The options contradict each other.
    """
    compute, concurrency = options.pop("compute", None), options.pop("concurrency", None)
    return {
        "remote_args_fn": options.pop("ray_remote_args_fn", None),
        "compute": _compute(is_class, name, compute, concurrency),
        "remote_args": options,
    }


def _compute(is_class: bool, name: str, compute: Any, concurrency: Any) -> Compute:
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
