"""Actors, for those who want the classes by name."""

from __future__ import annotations

from heliostat._heliostat import ActorMethod
from heliostat.core.calls.actor import (
    ActorClass,
    ActorClassInheritanceException,
    exit_actor,
    method,
)
from heliostat.core.calls.actor_handle import ActorHandle

ActorProxy = ActorHandle

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "ActorProxy",
    "exit_actor",
    "method",
]
