"""The state of the controller's machine: applications, deployments, replicas.

Applications and replicas are values, which the machine replaces; a deployment changes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from heliostat.serve.controller.deployment_actors import DeploymentActors
from heliostat.serve.controller.gangs import Gang
from heliostat.serve.controller.scaling import Scaler
from heliostat.serve.options import AutoscalingPolicy
from heliostat.serve.schema import DeploymentStatus, ReplicaState
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec

# Failures of constructors for each replica of the target until the deployment has failed.
TRIES_PER_REPLICA = 3
# Replicas of a deployment that have ended and are still told of, so that their logs are found.
DEAD_MAX = 10
STARTING, RUNNING, STOPPING = ReplicaState.STARTING, ReplicaState.RUNNING, ReplicaState.STOPPING


@dataclass(frozen=True)
class Replica:
    """A replica as the machine sees it."""

    id: str
    version: str
    since: float
    state: ReplicaState = STARTING
    address: str = ""
    pid: int = 0
    spec: DeploymentSpec | None = None  # with whose configuration it runs
    gang: Gang | None = None


@dataclass
class Deployment:
    """A deployment's target and its replicas."""

    id: DeploymentID
    spec: DeploymentSpec
    target: int
    replicas: dict[str, Replica] = field(default_factory=dict)
    dead: deque[Replica] = field(default_factory=lambda: deque(maxlen=DEAD_MAX))
    is_going: bool = False
    was_healthy: bool = False  # with this version
    has_failed: bool = False
    failures: int = 0
    retry_at: float = 0.0
    message: str = ""
    scaler: Scaler | None = None
    trigger: str = "CONFIG_UPDATE_STARTED"
    actors: DeploymentActors = field(init=False)

    def __post_init__(self) -> None:
        self.actors = DeploymentActors(self.id)

    def has_actors(self) -> bool:
        """Whether replicas of the target's version find, or found, the actors that they look for."""
        return self.was_healthy or self.actors.are_there(self.spec)

    def of(self, *states: ReplicaState) -> list[Replica]:
        """Replicas in one of those states."""
        return [one for one in self.replicas.values() if one.state in states]

    def put(self, replica: Replica) -> None:
        """Add a replica, or have it in place of the one of its name."""
        self.replicas[replica.id] = replica

    def is_current(self, replica: Replica) -> bool:
        """Whether it has the target's version."""
        return replica.version == self.spec.code_version

    def waits_for_time(self) -> bool:
        """Whether the passing of time may change anything."""
        if self.scaler is not None and not self.is_going:
            return True
        if self.has_failed:
            return False
        old = any(not self.is_current(one) for one in self.of(RUNNING))
        return self.retry_at > 0 or (old and bool(self.of(STARTING)))

    def tries_max(self) -> int:
        """The number of constructors that may fail."""
        return max(
            1, min(self.spec.config.max_constructor_retry_count, TRIES_PER_REPLICA * self.target)
        )

    def status(self) -> DeploymentStatus:
        """The deployment's state in one word."""
        if self.has_failed:
            return DeploymentStatus.DEPLOY_FAILED
        running = [one for one in self.of(RUNNING) if self.is_current(one)]
        old = [one for one in self.of(RUNNING, STARTING) if not self.is_current(one)]
        if len(running) == self.target and not old and self.has_actors():
            return DeploymentStatus.HEALTHY
        if self.was_healthy and self.failures:
            return DeploymentStatus.UNHEALTHY
        if self.was_healthy and not old:
            more = len(running) < self.target
            return DeploymentStatus.UPSCALING if more else DeploymentStatus.DOWNSCALING
        return DeploymentStatus.UPDATING


@dataclass(frozen=True)
class App:
    """An application."""

    spec: AppSpec
    deployed_at: float
    is_going: bool = False
    # The declaration in a configuration; None: a program has deployed the application.
    config: dict[str, Any] | None = None
    built: AppSpec | None = None  # what the import path made of it, with the options of the code
    is_building: bool = False
    given: AppSpec | None = None  # of applications that a program has deployed: what it gave
    policy: AutoscalingPolicy | None = None  # of its deployments together
    error: str = ""  # why it cannot be as declared
