"""``ray.train._internal.session``: whether this process is a trial of Tune."""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing

__all__ = ["get_session"]


def get_session() -> None:
    """``None``: sessions of this kind were those of Train before 2.51 and of Tune, which is not here yet.

    Ray answers ``None`` as well in the workers of today's trainers, which have another kind of session.
    """
    return


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray.train._internal.session.{name}"))
