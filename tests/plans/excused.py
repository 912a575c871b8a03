"""Failures that are known and meant, or faults of Ray: each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helpers.harness import IS_HELIOSTAT

if TYPE_CHECKING:
    from .run import Failure


def reason(failure: Failure) -> str | None:
    """Why the failure is none, or None."""
    return None if IS_HELIOSTAT else _of_ray(failure)


# What Ray raises, and why the plan is right.
OF_RAY = {
    "depends on 'polars'": "Ray joins only where polars is installed",
    "<BlockType.PANDAS: 'pandas'>": "Ray does not join blocks of pandas and Arrow",
    "Tried to cast column": "Ray refuses a column of objects for a tensor where one is None or empty",
    "both objects and tensors": "Ray refuses tensors beside blocks without any",
    "Filter should be array-like": "Ray does not filter by an expression that is a literal",
    "has no kernel matching input types (null": "Ray has no type for a column of None alone",
    "cannot cast from null": "Ray has no type for a column of None alone",
}


def _of_ray(failure: Failure) -> str | None:
    for text, why in OF_RAY.items():
        if text in failure.text:
            return why
    ops = [step.op for step in failure.plan.steps]
    if "union" in ops and failure.reason == "mismatch":
        return "Ray gives blocks of a union as they become ready, with preserve_order, too"
    return None
