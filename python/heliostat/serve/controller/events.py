"""The events that the controller's machine takes in, and the actions that it asks for. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heliostat.serve.controller.gangs import Gang
from heliostat.serve.options import DeploymentActorConfig
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec


@dataclass(frozen=True)
class ActorID:
    """The id of a deployment's actor; the number tells it from another one of its name."""

    deployment: DeploymentID
    version: str
    name: str
    number: int


# ---- actions ----


@dataclass(frozen=True)
class Start:
    """Start a replica."""

    replica: str
    deployment: DeploymentID
    spec: DeploymentSpec
    gang: Gang | None = None


@dataclass(frozen=True)
class Stop:
    """Have a replica end what it has, within that time, and end it; ``None``: kill it."""

    replica: str
    deployment: DeploymentID
    timeout_s: float | None


@dataclass(frozen=True)
class Reconfigure:
    """Give a replica another configuration."""

    replica: str
    spec: DeploymentSpec


@dataclass(frozen=True)
class Publish:
    """Tell routers and ingresses of a deployment's replicas."""

    deployment: DeploymentID


@dataclass(frozen=True)
class StartActor:
    """Start an actor of a deployment."""

    actor: ActorID
    config: DeploymentActorConfig
    spec: DeploymentSpec


@dataclass(frozen=True)
class StopActor:
    """End an actor of a deployment."""

    actor: ActorID


@dataclass(frozen=True)
class Build:
    """Import a declared application; :class:`Built` says what came of it."""

    app: str
    config: dict[str, Any]


Action = Start | Stop | Reconfigure | Publish | StartActor | StopActor | Build


# ---- events ----


@dataclass(frozen=True)
class Deploy:
    """An application is to be as the specification says.

    Where it is so already, it is to begin anew: who deploys what runs wants other replicas.
    """

    spec: AppSpec


@dataclass(frozen=True)
class Declare:
    """There are to be these declared applications and no others; the same code is not built again.

    ``capacity``: percent of their replicas that they have, ``None``: all.
    """

    configs: list[dict[str, Any]]
    capacity: float | None = None


@dataclass(frozen=True)
class Built:
    """A build has ended: with an application, or with the reason why there is none."""

    build: Build
    made: AppSpec | str


@dataclass(frozen=True)
class Scale:
    """A deployment is to have so many replicas, until its application is deployed again."""

    deployment: DeploymentID
    number: int


@dataclass(frozen=True)
class Delete:
    """An application is to go."""

    app: str


@dataclass(frozen=True)
class Resume:
    """The machine goes on where the one before it was: the first event of a restored machine."""


@dataclass(frozen=True)
class Started:
    """A replica takes requests."""

    replica: str
    address: str
    pid: int = 0


@dataclass(frozen=True)
class StartFailed:
    """A replica's constructor raised, or its process ended before it took requests.

    ``is_final``: the next try would fail by the same, as an environment that cannot be built does.
    """

    replica: str
    why: str
    is_final: bool = False


@dataclass(frozen=True)
class Died:
    """A replica has ended, or is not healthy; ``is_final``: see :class:`StartFailed`."""

    replica: str
    why: str
    is_final: bool = False


@dataclass(frozen=True)
class Stopped:
    """A replica that was to stop is gone."""

    replica: str


@dataclass(frozen=True)
class ActorStarted:
    """An actor of a deployment has its constructor behind it."""

    actor: ActorID


@dataclass(frozen=True)
class ActorEnded:
    """An actor of a deployment did not start, or is gone."""

    actor: ActorID
    why: str


@dataclass(frozen=True)
class Counted:
    """So many requests are at a replica or, with ``is_waiting``, wait at a router."""

    deployment: DeploymentID
    source: str
    requests: int
    is_waiting: bool = False


@dataclass(frozen=True)
class Recorded:
    """A replica has measured itself, for policies of autoscaling."""

    deployment: DeploymentID
    replica: str
    stats: dict[str, float]


@dataclass(frozen=True)
class Tick:
    """Time has passed; see :meth:`View.wants_time`."""


Event = (
    Deploy
    | Declare
    | Built
    | Scale
    | Delete
    | Resume
    | Started
    | StartFailed
    | Died
    | Stopped
    | ActorStarted
    | ActorEnded
    | Counted
    | Recorded
    | Tick
)
