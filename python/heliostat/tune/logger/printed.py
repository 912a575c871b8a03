"""A result as text for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from heliostat.tune.aliases import Report
from heliostat.tune.logger.values import storable

LEFT_OUT = ("config", "hist_stats")


def pretty_print(result: Report, exclude: set[str] | None = None) -> str:
    """Return a result as lines of YAML, names in order; without the configuration and what is None.

    Args:
        result: A report, with what is added to it.
        exclude: Names to leave out besides.

    Examples:
        >>> from ray.tune.logger import pretty_print
        >>> print(pretty_print({"loss": 0.5, "time": {"step": 2}}))
        loss: 0.5
        time:
          step: 2
        <BLANKLINE>
    """
    without = {*LEFT_OUT, *(exclude or ())}
    kept = {k: v for k, v in result.items() if v is not None and k not in without}
    return _lines(storable(kept), "") or "{}\n"


def _lines(value: Any, indent: str) -> str:
    text = ""
    for key, one in sorted(value.items(), key=lambda pair: str(pair[0])):
        if isinstance(one, Mapping) and one:
            text += f"{indent}{key}:\n{_lines(one, indent + '  ')}"
        elif isinstance(one, list) and one and not any(isinstance(e, Mapping | list) for e in one):
            text += f"{indent}{key}:\n" + "".join(f"{indent}- {_scalar(each)}\n" for each in one)
        else:
            text += f"{indent}{key}: {_scalar(one)}\n"
    return text


def _scalar(value: object) -> str:
    if isinstance(value, str) and value and value.isprintable() and value.strip() == value:
        special = value[0] in "!&*-?{}[],#|>@`'\"%:" or ": " in value or " #" in value
        if not special and not _is_of_another_type(value):
            return value
    return json.dumps(value)


def _is_of_another_type(text: str) -> bool:
    """Whether YAML takes an unquoted text for a number, a truth value or nothing."""
    if text.lower() in ("true", "false", "yes", "no", "on", "off", "null", "~"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
