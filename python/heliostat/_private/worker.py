"""``ray._private.worker``: what kind of process this is."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import NoReturn

import heliostat
from heliostat._private import missing
from heliostat.core.aio import async_actor
from heliostat.core.calls.cross_language import SCRIPT_MODE, WORKER_MODE
from heliostat.core.runtime_context import Process

__all__ = [
    "SCRIPT_MODE",
    "WORKER_MODE",
    "Worker",
    "get_dashboard_url",
    "global_worker",
]


class Worker(Process):
    """This process, as far as libraries look at it."""

    @property
    def connected(self) -> bool:
        """Whether this process has a session."""
        return heliostat.is_initialized()

    @property
    def node_ip_address(self) -> str:
        """The address of this node, as the others reach it."""
        return heliostat.util.get_node_ip_address()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(missing(f"ray._private.worker.global_worker.{name}"))


global_worker = Worker()


def get_dashboard_url() -> None:
    """``host:port`` of the dashboard on Ray; ``None``, for there is none here."""
    return


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.worker.{name}"))


class _Module(ModuleType):
    """This module, with variables that have to act when a program sets them."""

    def __reduce__(self) -> tuple[object, ...]:
        return importlib.import_module, (self.__name__,)  # picklers know plain modules alone

    @property
    def blocking_get_inside_async_warned(self) -> bool:
        """Whether a blocking ``get`` on the event loop of an async actor has warned, or is not to."""
        return async_actor.warned("get")

    @blocking_get_inside_async_warned.setter
    def blocking_get_inside_async_warned(self, value: bool) -> None:
        async_actor.set_warned("get", value)


sys.modules[__name__].__class__ = _Module
