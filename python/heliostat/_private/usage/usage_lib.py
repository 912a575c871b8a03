"""``ray._private.usage.usage_lib``: libraries report here that they are used. Nothing is sent."""

from __future__ import annotations

from typing import Any, NoReturn

from heliostat._private import missing

__all__ = ["TagKey", "record_extra_usage_tag", "record_library_usage", "usage_stats_enabled"]


class _Tags(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class TagKey(metaclass=_Tags):
    """Every name is a key."""


def record_library_usage(library_usage: str) -> None:
    """Nothing is kept."""


def record_extra_usage_tag(key: Any, value: str, gcs_client: Any = None) -> None:
    """Nothing is kept."""


def usage_stats_enabled() -> bool:
    """``False``."""
    return False


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.usage.usage_lib.{name}"))
