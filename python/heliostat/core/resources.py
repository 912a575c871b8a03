"""From options to the quantities that a task or an actor needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ACCELERATOR_SHARE = 0.001  # of `accelerator_type:X`, so that a thousand users fit a node


def task_resources(options: Mapping[str, Any]) -> dict[str, float]:
    """What a task holds while it runs: one CPU unless it says otherwise."""
    return _needed(options, default_cpus=1.0)


def actor_resources(options: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """(what must be free to place it, what it holds while it lives).

    An actor that names no resource needs a CPU to be placed and holds none; one that names any
    holds a CPU too unless it says otherwise.
    """
    named = any(options.get(name) is not None for name in ("num_cpus", "num_gpus", "resources"))
    held = _needed(options, default_cpus=1.0 if named else 0.0)
    return (held if named else {**held, "CPU": 1.0}), held


def _needed(options: Mapping[str, Any], default_cpus: float) -> dict[str, float]:
    cpus, gpus = options.get("num_cpus"), options.get("num_gpus")
    needed = {str(name): float(q) for name, q in (options.get("resources") or {}).items()}
    needed["CPU"] = float(default_cpus if cpus is None else cpus)
    needed["GPU"] = float(gpus or 0)
    needed["memory"] = float(int(options.get("memory") or 0))
    if needed["GPU"] > 1 and not needed["GPU"].is_integer():
        raise ValueError(
            "GPU resource quantities >1 must be whole numbers. "
            f"The specified quantity {needed['GPU']} is invalid."
        )
    kind = options.get("accelerator_type")
    if kind:
        needed[f"accelerator_type:{kind}"] = _ACCELERATOR_SHARE
    return {name: quantity for name, quantity in needed.items() if quantity}
