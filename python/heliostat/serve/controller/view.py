"""The answers of the controller's machine: everything that reads its state, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from heliostat.serve.controller.capacity import Capacity
from heliostat.serve.controller.events import ActorID, Build
from heliostat.serve.controller.state import RUNNING, STARTING, App, Deployment, Replica
from heliostat.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatus,
    DeploymentStatusOverview,
    ReplicaState,
)
from heliostat.serve.specs import DeploymentID, DeploymentSpec

# Requests that a replica has of an ingress where it only asks the user's router for them.
_ROUTED_MAX = 1 << 20


class DeploymentView:
    """A deployment as it is now."""

    __slots__ = ("_deployment",)

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    @property
    def id(self) -> DeploymentID:
        """The deployment's application and name."""
        return self._deployment.id

    @property
    def spec(self) -> DeploymentSpec:
        """The specification that its replicas are to have."""
        return self._deployment.spec

    @property
    def target(self) -> int:
        """The target number of replicas."""
        return self._deployment.target

    @property
    def replicas(self) -> list[Replica]:
        """All of its replicas, also those that end."""
        return [*self._deployment.replicas.values()]

    @property
    def dead(self) -> list[Replica]:
        """Replicas that have ended and are still told of."""
        return [*self._deployment.dead]

    @property
    def actors(self) -> list[ActorID]:
        """The deployment's actors that run."""
        return self._deployment.actors.running()

    @property
    def is_going(self) -> bool:
        """Whether it was deleted."""
        return self._deployment.is_going

    @property
    def has_failed(self) -> bool:
        """Whether nothing more is started until it is deployed again."""
        return self._deployment.has_failed

    @property
    def failures(self) -> int:
        """The number of failed starts since the last success."""
        return self._deployment.failures

    @property
    def message(self) -> str:
        """The reason for its state, where there is one."""
        return self._deployment.message

    @property
    def status(self) -> DeploymentStatus:
        """The deployment's state in one word."""
        return self._deployment.status()

    def of(self, *states: ReplicaState) -> list[Replica]:
        """Replicas in one of those states."""
        return self._deployment.of(*states)

    def is_current(self, replica: Replica) -> bool:
        """Whether a replica has the target's version."""
        return self._deployment.is_current(replica)


class View:
    """All applications as they are now."""

    def __init__(
        self,
        apps: Mapping[str, App],
        deployments: Mapping[DeploymentID, Deployment],
        capacity: Capacity,
    ) -> None:
        self._apps = apps
        self._deployments = deployments
        self._capacity = capacity

    @property
    def apps(self) -> Mapping[str, App]:
        """The applications by name, also those that go."""
        return MappingProxyType(self._apps)

    @property
    def capacity(self) -> float | None:
        """The share of their replicas that declared applications have, in percent; ``None``: all."""
        return self._capacity.percent

    def __contains__(self, key: DeploymentID) -> bool:
        return key in self._deployments

    def deployment(self, key: DeploymentID) -> DeploymentView | None:
        """Return a deployment, also one that goes; ``None``: there is none."""
        known = self._deployments.get(key)
        return None if known is None else DeploymentView(known)

    def deployments(self, app: str | None = None) -> Iterator[DeploymentView]:
        """The deployments of an application, or of all; also those that go."""
        return (
            DeploymentView(known)
            for key, known in self._deployments.items()
            if app is None or key.app_name == app
        )

    def builds(self) -> list[Build]:
        """Return the builds that are still to be done."""
        return [
            Build(name, app.config)
            for name, app in self._apps.items()
            if app.is_building and app.config is not None and not app.is_going
        ]

    def wants_time(self) -> bool:
        """Whether the passing of time may change anything."""
        return any(known.waits_for_time() for known in self._deployments.values())

    def running(self, key: DeploymentID) -> list[Replica]:
        """Replicas that take requests."""
        known = self._deployments.get(key)
        return known.of(RUNNING) if known is not None and not known.is_going else []

    def dead(self) -> set[str]:
        """Replicas that have ended and are still told of."""
        return {one.id for known in self._deployments.values() for one in known.dead}

    def serving(self, key: DeploymentID) -> list[str]:
        """Replicas that take requests, or are to."""
        known = self._deployments.get(key)
        if known is None or known.is_going:
            return []
        return [one.id for one in known.of(STARTING, RUNNING)]

    def target(self, key: DeploymentID) -> int:
        """The target number of replicas."""
        known = self._deployments.get(key)
        return 0 if known is None or known.is_going else known.target

    def failure(self, key: DeploymentID) -> str | None:
        """Why there is nobody to take requests, where that will stay so."""
        known = self._deployments.get(key)
        if known is not None and known.has_failed and not known.of(RUNNING):
            return f"{key} failed to deploy: {known.message}"
        return None

    def routes(self) -> tuple[list[dict[str, str]], dict[str, dict[str, Any]]]:
        """Return the table of an ingress: prefixes, and by deployment its limits and the replicas
        that run.
        """
        routes, deployments = [], {}
        for name, app in self._apps.items():
            if app.is_going or app.spec.route_prefix is None or not app.spec.deployments:
                continue
            key = DeploymentID(name, app.spec.ingress)
            config = app.spec.deployments[app.spec.ingress].config
            routes.append({"prefix": app.spec.route_prefix, "app": name, "deployment": key.key})
            most = config.max_queued_requests
            running, ongoing = self.running(key), config.max_ongoing_requests
            if config.own_routing() is not None:
                # One of them asks the user's router for all, and has the queue, too.
                running, ongoing, most = running[:1], _ROUTED_MAX, -1
            deployments[key.key] = {
                "max_ongoing": ongoing,
                "max_queued": most if most >= 0 else None,
                "backpressure": config.backpressure().as_row(),
                "counted": config.autoscaling_config is not None,
                "failure": self.failure(key),
                "replicas": [{"id": one.id, "address": one.address} for one in running],
            }
        return routes, deployments

    def app_of(self, name: str) -> ApplicationStatusOverview | None:
        """An application's state."""
        app = self._apps.get(name)
        if app is None:
            return None
        parts = {key.name: one for key, one in self._deployments.items() if key.app_name == name}
        rows = {name: _row(one) for name, one in parts.items()}
        status, message = ApplicationStatus.RUNNING, ""
        states = {one.status() for one in parts.values() if not one.is_going}
        if app.is_going:
            status = ApplicationStatus.DELETING
        elif app.error:
            status, message = ApplicationStatus.DEPLOY_FAILED, app.error
        elif app.is_building:
            status, message = ApplicationStatus.DEPLOYING, "Its code is being imported."
        elif DeploymentStatus.DEPLOY_FAILED in states:
            status = ApplicationStatus.DEPLOY_FAILED
            failed = sorted(name for name, one in parts.items() if one.has_failed)
            message = f"Failed to update the deployments {failed}."
        elif DeploymentStatus.UNHEALTHY in states:
            status = ApplicationStatus.UNHEALTHY
        elif DeploymentStatus.UPDATING in states:
            status = ApplicationStatus.DEPLOYING
        return ApplicationStatusOverview(status, message, app.deployed_at, rows)


def _row(known: Deployment) -> DeploymentStatusOverview:
    states: dict[ReplicaState, int] = {}
    for one in known.replicas.values():
        states[one.state] = states.get(one.state, 0) + 1
    status = known.status()
    trigger = known.trigger
    if status is DeploymentStatus.HEALTHY:
        trigger = "CONFIG_UPDATE_COMPLETED"
    message = known.message if status is not DeploymentStatus.HEALTHY else ""
    return DeploymentStatusOverview(status, trigger, states, message)
