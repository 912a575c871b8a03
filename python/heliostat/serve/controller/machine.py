"""What is to become of each deployment: events in, actions out. No clock, no I/O.

A deployment has a target (its specification and a number) and replicas. After each event
:meth:`Machine._step` compares the two:

* too few replicas of the target's version: start some, a few more than the target while old ones still serve;
* replicas of an older version: stop one for each new one that runs, so that as many serve as before. Where
  the new ones find no room within :data:`ROOM_S`, an old one makes it;
* too many: stop the youngest.

A constructor that fails is tried again, later each time; after so many failures without a success the
deployment has failed and nothing more is started. Requests go to the replicas that run, whatever their
version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from heliostat.serve.config import AutoscalingConfig
from heliostat.serve.controller.scaling import Scaler
from heliostat.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatus,
    DeploymentStatusOverview,
    ReplicaState,
)
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec

# How much more than the target there may be while replicas are replaced.
SURGE = 0.2
# Seconds that a new replica may look for room before an old one is stopped for it.
ROOM_S = 5.0
# Failures of constructors for each replica of the target until the deployment has failed.
TRIES_PER_REPLICA = 3
# Seconds before a failed start is repeated: the first, and the most.
RETRY_S, RETRY_S_MAX = 0.1, 10.0

STARTING, RUNNING, STOPPING = ReplicaState.STARTING, ReplicaState.RUNNING, ReplicaState.STOPPING


@dataclass(frozen=True)
class Start:
    """Start a replica."""

    replica: str
    deployment: DeploymentID
    spec: DeploymentSpec


@dataclass(frozen=True)
class Stop:
    """Have a replica end what it has, within that time, and end it."""

    replica: str
    deployment: DeploymentID
    timeout_s: float


@dataclass(frozen=True)
class Reconfigure:
    """Give a replica another configuration."""

    replica: str
    spec: DeploymentSpec


@dataclass(frozen=True)
class Publish:
    """Tell routers and ingresses of a deployment's replicas."""

    deployment: DeploymentID


Action = Start | Stop | Reconfigure | Publish


@dataclass
class Replica:
    """A replica as the machine sees it."""

    id: str
    version: str
    since: float
    state: ReplicaState = STARTING
    address: str = ""
    spec: DeploymentSpec | None = None  # with whose configuration it runs


@dataclass
class Deployment:
    """A deployment's target and its replicas."""

    id: DeploymentID
    spec: DeploymentSpec
    target: int
    replicas: dict[str, Replica] = field(default_factory=dict)
    is_going: bool = False
    was_healthy: bool = False  # with this version
    has_failed: bool = False
    failures: int = 0
    retry_at: float = 0.0
    message: str = ""
    scaler: Scaler | None = None
    trigger: str = "CONFIG_UPDATE_STARTED"

    def of(self, *states: ReplicaState) -> list[Replica]:
        """Replicas in one of those states."""
        return [one for one in self.replicas.values() if one.state in states]

    def is_current(self, replica: Replica) -> bool:
        """Whether it has the target's version."""
        return replica.version == self.spec.code_version

    def tries_max(self) -> int:
        """So many constructors may fail."""
        return max(
            1, min(self.spec.config.max_constructor_retry_count, TRIES_PER_REPLICA * self.target)
        )

    def status(self) -> DeploymentStatus:
        """Its state in one word."""
        if self.has_failed:
            return DeploymentStatus.DEPLOY_FAILED
        running = [one for one in self.of(RUNNING) if self.is_current(one)]
        old = [one for one in self.of(RUNNING, STARTING) if not self.is_current(one)]
        if len(running) == self.target and not old:
            return DeploymentStatus.HEALTHY
        if self.was_healthy and self.failures:
            return DeploymentStatus.UNHEALTHY
        if self.was_healthy and not old:
            more = len(running) < self.target
            return DeploymentStatus.UPSCALING if more else DeploymentStatus.DOWNSCALING
        return DeploymentStatus.UPDATING


@dataclass
class App:
    """An application."""

    spec: AppSpec
    deployed_at: float
    is_going: bool = False


class Machine:
    """All applications."""

    def __init__(self) -> None:
        self.apps: dict[str, App] = {}
        self.deployments: dict[DeploymentID, Deployment] = {}
        self._where: dict[str, DeploymentID] = {}
        self._count = 0

    # --- events: each returns what is to be done

    def deploy(self, spec: AppSpec, now: float) -> list[Action]:
        """An application is to be as the specification says."""
        self.apps[spec.name] = App(spec, now)
        actions: list[Action] = []
        for one in spec.deployments.values():
            key = DeploymentID(spec.name, one.name)
            known = self.deployments.get(key)
            scaling = one.config.autoscaling_config
            if known is None or known.is_going:
                replicas = known.replicas if known is not None else {}
                known = Deployment(key, one, one.config.num_replicas, replicas)
                self.deployments[key] = known
            else:
                self._retarget(known, one)
            known.scaler = Scaler(scaling, known.scaler) if scaling is not None else None
            actions += self._step(known, now)
            actions.append(Publish(key))
        for key, known in list(self.deployments.items()):
            if key.app_name == spec.name and key.name not in spec.deployments:
                known.is_going = True
                actions += self._step(known, now)
        return actions

    def _retarget(self, known: Deployment, spec: DeploymentSpec) -> None:
        if known.spec.code_version != spec.code_version or known.has_failed:
            known.was_healthy = known.has_failed = False
        known.failures, known.retry_at, known.message = 0, 0.0, ""
        known.trigger = "CONFIG_UPDATE_STARTED"
        scaling = spec.config.autoscaling_config
        if scaling is None:
            known.target = spec.config.num_replicas
        else:
            known.target = min(max(known.target, scaling.min_replicas), scaling.max_replicas)
        known.spec = spec

    def delete(self, name: str, now: float) -> list[Action]:
        """An application is to go."""
        app = self.apps.get(name)
        if app is None:
            return []
        app.is_going = True
        actions: list[Action] = []
        for key, known in list(self.deployments.items()):
            if key.app_name == name:
                known.is_going = True
                actions.append(Publish(key))
                actions += self._step(known, now)
        self._forget(name)
        return actions

    def adopt(
        self, key: DeploymentID, replica: str, version: str, address: str, now: float
    ) -> None:
        """A replica that was there before this machine."""
        known = self.deployments.get(key)
        if known is not None:
            state = RUNNING if address else STARTING
            known.replicas[replica] = Replica(replica, version, now, state, address, known.spec)
            self._where[replica] = key

    def started(self, replica: str, address: str, now: float) -> list[Action]:
        """A replica takes requests."""
        known, one = self._find(replica)
        if known is None or one is None or one.state is not STARTING:
            return []
        one.state, one.address, one.since = RUNNING, address, now
        if self._is_done(known):
            known.failures, known.retry_at = 0, 0.0
        return [*self._step(known, now), Publish(known.id)]

    def start_failed(self, replica: str, why: str, now: float) -> list[Action]:
        """A replica's constructor raised, or its process ended before it took requests."""
        known, one = self._find(replica)
        if known is None or one is None:
            return []
        self._drop(known, replica)
        if one.state is STARTING and known.is_current(one):
            self._fail(known, why, now)
            if not known.was_healthy and known.failures >= known.tries_max():
                known.has_failed = True
                known.trigger = "REPLICA_STARTUP_FAILED"
        return [*self._step(known, now), Publish(known.id)]

    def died(self, replica: str, why: str, now: float) -> list[Action]:
        """A replica that took requests has ended, or is not healthy."""
        known, one = self._find(replica)
        if known is None or one is None:
            return []
        if one.state is STARTING:
            return self.start_failed(replica, why, now)
        self._drop(known, replica)
        if one.state is RUNNING:
            known.message = f"A replica ended and is replaced: {why}"
            known.trigger = "HEALTH_CHECK_FAILED"
        return [Publish(known.id), *self._step(known, now)]

    def stopped(self, replica: str, now: float) -> list[Action]:
        """A replica that was to stop is gone."""
        known, _ = self._find(replica)
        if known is None:
            return []
        self._drop(known, replica)
        return self._step(known, now)

    def counted(self, key: DeploymentID, source: str, requests: int, now: float) -> list[Action]:
        """So many requests are at a replica, or wait at a router."""
        known = self.deployments.get(key)
        if known is None or known.scaler is None:
            return []
        known.scaler.count(source, requests, now)
        return self._step(known, now)

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        actions: list[Action] = []
        for known in list(self.deployments.values()):
            if self._waits_for_time(known):
                actions += self._step(known, now)
        return actions

    def wants_time(self) -> bool:
        """Whether the passing of time may change anything."""
        return any(self._waits_for_time(known) for known in self.deployments.values())

    # --- answers

    def running(self, key: DeploymentID) -> list[Replica]:
        """Replicas that take requests."""
        known = self.deployments.get(key)
        return known.of(RUNNING) if known is not None and not known.is_going else []

    def failure(self, key: DeploymentID) -> str | None:
        """Why there is nobody to take requests, where that will stay so."""
        known = self.deployments.get(key)
        if known is not None and known.has_failed and not known.of(RUNNING):
            return f"{key} failed to deploy: {known.message}"
        return None

    def app_of(self, name: str) -> ApplicationStatusOverview | None:
        """An application's state."""
        app = self.apps.get(name)
        if app is None:
            return None
        parts = {key.name: one for key, one in self.deployments.items() if key.app_name == name}
        rows = {name: self._row(one) for name, one in parts.items()}
        status, message = ApplicationStatus.RUNNING, ""
        states = {one.status() for one in parts.values() if not one.is_going}
        if app.is_going:
            status = ApplicationStatus.DELETING
        elif DeploymentStatus.DEPLOY_FAILED in states:
            status = ApplicationStatus.DEPLOY_FAILED
            failed = sorted(name for name, one in parts.items() if one.has_failed)
            message = f"Failed to update the deployments {failed}."
        elif DeploymentStatus.UNHEALTHY in states:
            status = ApplicationStatus.UNHEALTHY
        elif DeploymentStatus.UPDATING in states:
            status = ApplicationStatus.DEPLOYING
        return ApplicationStatusOverview(status, message, app.deployed_at, rows)

    def _row(self, known: Deployment) -> DeploymentStatusOverview:
        states: dict[ReplicaState, int] = {}
        for one in known.replicas.values():
            states[one.state] = states.get(one.state, 0) + 1
        status = known.status()
        trigger = known.trigger
        if status is DeploymentStatus.HEALTHY:
            trigger = "CONFIG_UPDATE_COMPLETED"
        message = known.message if status is not DeploymentStatus.HEALTHY else ""
        return DeploymentStatusOverview(status, trigger, states, message)

    # --- within

    def _find(self, replica: str) -> tuple[Deployment | None, Replica | None]:
        key = self._where.get(replica)
        known = self.deployments.get(key) if key is not None else None
        return known, known.replicas.get(replica) if known is not None else None

    def _drop(self, known: Deployment, replica: str) -> None:
        known.replicas.pop(replica, None)
        self._where.pop(replica, None)
        if known.scaler is not None:
            known.scaler.forget(replica)

    def _fail(self, known: Deployment, why: str, now: float) -> None:
        known.failures += 1
        known.message = why
        pause = min(RETRY_S * 2 ** (known.failures - 1), RETRY_S_MAX)
        known.retry_at = now + pause

    def _is_done(self, known: Deployment) -> bool:
        running = known.of(RUNNING)
        done = len(running) == known.target and all(map(known.is_current, running))
        known.was_healthy |= done
        return done

    def _waits_for_time(self, known: Deployment) -> bool:
        if known.scaler is not None and not known.is_going:
            return True
        if known.has_failed:
            return False
        old = any(not known.is_current(one) for one in known.of(RUNNING))
        return known.retry_at > 0 or (old and bool(known.of(STARTING)))

    def _step(self, known: Deployment, now: float) -> list[Action]:
        if known.is_going:
            actions: list[Action] = [self._stop(known, one) for one in known.of(STARTING, RUNNING)]
            if not known.replicas:
                del self.deployments[known.id]
                self._forget(known.id.app_name)
            return actions
        if known.scaler is not None:
            serving = len(known.of(RUNNING, STARTING))
            wanted = known.scaler.decide(known.target, serving, now)
            if wanted != known.target:
                known.trigger = "AUTOSCALING"
                known.target = wanted
        self._is_done(known)
        actions = self._configure(known)
        actions += self._start(known, now)
        stops = self._surplus(known, now)
        if stops:
            actions += [self._stop(known, one) for one in stops]
            actions.append(Publish(known.id))
        return actions

    def _configure(self, known: Deployment) -> list[Action]:
        actions: list[Action] = []
        for one in known.of(RUNNING):
            if known.is_current(one) and one.spec is not known.spec:
                if one.spec is None or one.spec.config != known.spec.config:
                    actions.append(Reconfigure(one.id, known.spec))
                one.spec = known.spec
        return actions

    def _start(self, known: Deployment, now: float) -> list[Action]:
        if known.has_failed or now < known.retry_at:
            return []
        known.retry_at = 0.0
        serving = known.of(STARTING, RUNNING)
        new = [one for one in serving if known.is_current(one)]
        room = known.target + max(1, math.ceil(known.target * SURGE)) - len(serving)
        if len(new) == len(serving):
            room = known.target - len(serving)
        actions: list[Action] = []
        for _ in range(min(known.target - len(new), room)):
            self._count += 1
            replica = f"{known.id.name}-{self._count}-{known.spec.code_version[-6:]}"
            replica = "".join(c if c.isalnum() or c in "-_" else "_" for c in replica)
            known.replicas[replica] = Replica(
                replica, known.spec.code_version, now, spec=known.spec
            )
            self._where[replica] = known.id
            actions.append(Start(replica, known.id, known.spec))
        return actions

    def _surplus(self, known: Deployment, now: float) -> list[Replica]:
        new = [one for one in known.of(STARTING, RUNNING) if known.is_current(one)]
        running = [one for one in new if one.state is RUNNING]
        old = [one for one in known.of(STARTING, RUNNING) if not known.is_current(one)]
        stops = [one for one in old if one.state is STARTING]
        if not known.has_failed:
            serving = [one for one in old if one.state is RUNNING]
            excess = len(serving) + len(running) - known.target
            waiting = [one for one in new if one.state is STARTING]
            if serving and excess <= 0 and waiting and now - min(o.since for o in waiting) > ROOM_S:
                excess = 1
            if excess > 0 and serving:
                stops += serving[:excess]
        # The youngest have the least to lose; those that do not run yet have nothing.
        by_age = sorted(new, key=lambda one: (one.state is RUNNING, -one.since))
        stops += by_age[: max(0, len(new) - known.target)]
        return stops

    def _stop(self, known: Deployment, one: Replica) -> Stop:
        one.state = STOPPING
        return Stop(one.id, known.id, known.spec.config.graceful_shutdown_timeout_s)

    def _forget(self, name: str) -> None:
        app = self.apps.get(name)
        if (
            app is not None
            and app.is_going
            and not any(k.app_name == name for k in self.deployments)
        ):
            del self.apps[name]


def saved(machine: Machine) -> dict[str, Any]:
    """What a later machine begins with."""
    apps = [(app.spec, app.deployed_at) for app in machine.apps.values() if not app.is_going]
    replicas = [
        (key, one.id, one.version, one.address)
        for key, known in machine.deployments.items()
        for one in known.replicas.values()
        if one.state is not STOPPING
    ]
    targets = {key: known.target for key, known in machine.deployments.items()}
    return {"apps": apps, "replicas": replicas, "targets": targets, "count": machine._count}


def restored(state: dict[str, Any], now: float) -> Machine:
    """A machine with what an earlier one has saved; its replicas are still to be found."""
    machine = Machine()
    machine._count = state["count"]
    for spec, deployed_at in state["apps"]:
        machine.apps[spec.name] = App(spec, deployed_at)
        for one in spec.deployments.values():
            key = DeploymentID(spec.name, one.name)
            scaling: AutoscalingConfig | None = one.config.autoscaling_config
            target = state["targets"].get(key, one.config.num_replicas)
            known = Deployment(key, one, target)
            known.scaler = Scaler(scaling, None) if scaling is not None else None
            machine.deployments[key] = known
    for key, replica, version, _address in state["replicas"]:
        machine.adopt(key, replica, version, "", now)
    return machine
