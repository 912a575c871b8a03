"""Labels of nodes and the selectors on them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from heliostat.core.platform import settings

NODE_ID = "ray.io/node-id"

_NAME = r"[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?"
_VALUE = re.compile(rf"({_NAME})?")
_KEY = re.compile(rf"([a-zA-Z0-9.-]+/)?{_NAME}")
_ONE = re.compile(rf"!?({_NAME})?")
_SEVERAL = re.compile(rf"!?in\(\s*{_NAME}(\s*,\s*{_NAME})*\s*,?\s*\)")

_SHAPE = (
    "63 characters or less, letters and digits at both ends, and between them letters, digits, "
    "dashes (-), underscores (_) and dots (.)"
)


def check_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The labels of a node, checked: keys and values are text of a bounded shape."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels must be a dictionary of strings, got {type(labels)}")
    for key, value in labels.items():
        _check_key(key)
        if not _VALUE.fullmatch(str(value)) or type(value) is not str:
            raise ValueError(f"Invalid label value `{value}` of key `{key}`: it must be {_SHAPE}.")
        if key == NODE_ID:
            raise ValueError(f"Invalid label key `{key}`: the system itself sets it.")
    return dict(labels)


def override_labels() -> dict[str, str]:
    """Labels of RAY_OVERRIDE_LABELS, JSON: they take the place of a node's own of the same key."""
    text = settings.text("OVERRIDE_LABELS")
    if not text:
        return {}
    try:
        labels = json.loads(text)
    except ValueError as error:
        raise ValueError(f"RAY_OVERRIDE_LABELS is not JSON: {error}") from error
    return check_labels(labels)


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise ValueError(f"Invalid label key `{key}`: it must be a string, got {type(key)}.")
    if not _KEY.fullmatch(key):
        raise ValueError(f"Invalid label key name `{key}`. Name must be {_SHAPE}.")


def check_selector(selector: Mapping[str, str] | None) -> None:
    """Refuse what is not a ``label_selector``."""
    if selector is None:
        return
    if not isinstance(selector, Mapping):
        raise ValueError(f"The `label_selector` must be a dictionary, got {type(selector)}.")
    for key, value in selector.items():
        _check_key(key)
        if not isinstance(value, str):
            raise ValueError(f"Invalid label selector value for `{key}`: not a string: {value!r}")
        if value == "!" or not (_ONE.fullmatch(value) or _SEVERAL.fullmatch(value)):
            raise ValueError(
                f"Invalid label selector value `{value}`. It is a label value, or `in(a,b)`, each "
                f"also with `!` in front; a label value must be {_SHAPE}."
            )


def check_fallback(fallback: Sequence[Any] | None) -> None:
    """Refuse what is not a ``fallback_strategy``: a list of ``{"label_selector": {...}}``."""
    for entry in fallback or []:
        if not isinstance(entry, Mapping):
            raise ValueError(f"A `fallback_strategy` is a list of dictionaries, got {entry!r}.")
        unknown = set(entry) - {"label_selector"}
        if unknown:
            raise ValueError(
                f"Unsupported option(s) {sorted(unknown)} in `fallback_strategy`: "
                "only 'label_selector' can be given."
            )
        if not entry:
            raise ValueError("Empty dictionary found in `fallback_strategy`.")
        check_selector(entry["label_selector"])
