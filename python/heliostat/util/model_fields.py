"""The fields of a dataclass for a model of Pydantic, so that both have the same."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints


def model_fields(declared: type[Any], /, **other: Any) -> dict[str, Any]:
    """The fields of a dataclass as ``pydantic.create_model`` takes them: by name a type and a default.

    Args:
        declared: The dataclass.
        **other: Fields of the model that differ: a type, or a type and a default.

    Returns:
        The fields, in the dataclass's order.
    """
    named = dataclasses.fields(declared)
    annotations = {field.name: field.type for field in named}
    # Types of the fields alone: Python 3.10 does not evaluate an `InitVar`.
    stub = type("_Fields", (), {"__annotations__": annotations, "__module__": declared.__module__})
    hints = get_type_hints(stub)
    made = {field.name: (hints[field.name], _default(field)) for field in named}
    for name, given in other.items():
        made[name] = given if isinstance(given, tuple) else (given, made[name][1])
    return made


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is dataclasses.MISSING:
        return ...
    from pydantic import Field

    return Field(default_factory=field.default_factory)
