"""``ray._raylet``: the classes of ids and references, which have public names under ``ray``."""

from __future__ import annotations

from typing import NoReturn

from heliostat import (
    ActorClassID,
    ActorID,
    ClusterID,
    DynamicObjectRefGenerator,
    FunctionID,
    JobID,
    Language,
    NodeID,
    ObjectID,
    ObjectRef,
    ObjectRefGenerator,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)
from heliostat._private import missing

__all__ = [
    "ActorClassID",
    "ActorID",
    "ClusterID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "Language",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._raylet.{name}"))
