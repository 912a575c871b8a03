"""Checks of the sections of a cluster's file: one sentence for each mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heliostat.core.platform.spelling import did_you_mean


class ConfigError(ValueError):
    """The mistake of the file, in one sentence."""


def known(
    told: Mapping[Any, Any],
    keys: Iterable[str],
    where: str = "",
    *,
    within: str = "",
    of: str = "a cluster's file",
) -> None:
    """Raises ``ConfigError`` for a key that is none of ``keys``; ``within`` stands before its name."""
    keys = tuple(keys)
    for key in told:
        if key not in keys:
            raise ConfigError(
                f"{where}`{within}{key}` is not a key of {of}.{did_you_mean(str(key), keys)}"
            )


def section(told: Mapping[str, Any], key: str, where: str = "") -> Mapping[Any, Any]:
    """A part that has keys of its own; empty where there is none. Raises ``ConfigError``."""
    found = told.get(key) or {}
    if not isinstance(found, Mapping):
        raise ConfigError(f"{where}`{key}` must be a mapping, not {found!r}.")
    return found


def count(told: Mapping[str, Any], key: str, where: str = "") -> int | None:
    """A whole number of 0 or more; ``None`` where there is none. Raises ``ConfigError``."""
    found = told.get(key)
    if found is not None and (type(found) is not int or found < 0):
        raise ConfigError(f"{where}`{key}` is {found!r}: write a whole number of 0 or more.")
    return found


def bounds(told: Mapping[str, Any], where: str = "") -> tuple[int | None, int | None]:
    """``min_workers`` and ``max_workers``; ``None`` where there is none. Raises ``ConfigError``."""
    least, most = (count(told, key, where) for key in ("min_workers", "max_workers"))
    if least is not None and most is not None and least > most:
        raise ConfigError(f"{where}`min_workers` ({least}) is more than `max_workers` ({most}).")
    return least, most


def number(
    told: Mapping[Any, Any], key: str, usual: float = 0.0, where: str = "", *, within: str = ""
) -> float:
    """A number of 0 or more; ``within`` stands before its name. Raises ``ConfigError``."""
    found = told.get(key, usual)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not found >= 0:
        raise ConfigError(f"{where}`{within}{key}` is {found!r}: write a number of 0 or more.")
    return float(found)


def boolean(told: Mapping[str, Any], key: str, usual: bool = False) -> bool:
    """True or false. Raises ``ConfigError``."""
    found = told.get(key)
    if found is None:
        return usual
    if not isinstance(found, bool):
        raise ConfigError(f"`{key}` is {found!r}: write true or false.")
    return found


def texts(told: Mapping[str, Any], key: str, where: str = "") -> tuple[str, ...]:
    """A list of texts. Raises ``ConfigError``."""
    found = told.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigError(f"{where}`{key}` must be a list of texts, one a line after `- `.")
    return tuple(found)
