"""The decisions about each deployment: events in, actions out. No clock, no I/O.

A deployment has a target (its specification and a number) and replicas. After each event
:meth:`Machine._step` compares the two:

* too few replicas of the target's version: start some, a few more than the target while old ones still serve;
* replicas of an older version: stop one for each new one that runs, so that as many serve as before. Where
  the new ones find no room within :data:`ROOM_S`, an old one makes it. With ``max_surge_percent=0`` a share
  of the old ones, ``rolling_update_percentage``, stops before new ones start;
* too many: stop the youngest.

The replicas of a gang start together, and stop together: where one ends, so do the others, at once. Actors of
the deployment (``deployment_actors``) run before its replicas start.

A constructor that fails is tried again, later each time; after so many failures without a success, or at
once when its environment cannot be built, the deployment has failed and nothing more is started. Requests go
to the replicas that run, whatever their version.
"""

from __future__ import annotations

from typing import Any

from heliostat.serve import building
from heliostat.serve.controller import gangs
from heliostat.serve.controller.deployment_actors import ActorID, StopActor
from heliostat.serve.controller.gangs import Gang
from heliostat.serve.controller.parts import (
    RUNNING,
    STARTING,
    STOPPING,
    Action,
    App,
    Build,
    Deployment,
    Publish,
    Reconfigure,
    Replica,
    Start,
    Stop,
)
from heliostat.serve.controller.scaling import AppPolicy, Policy, Scaler, at_capacity
from heliostat.serve.options import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy, of
from heliostat.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatus,
    DeploymentStatusOverview,
    ReplicaState,
)
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec, renewed

# Seconds that a new replica may look for room before an old one is stopped for it.
ROOM_S = 5.0
# Seconds before a failed start is repeated: the first, and the most.
RETRY_S, RETRY_S_MAX = 0.1, 10.0
# Requests that a replica has of an ingress where it only asks the user's router for them.
_ROUTED_MAX = 1 << 20


class Machine:
    """All applications."""

    def __init__(self) -> None:
        self.apps: dict[str, App] = {}
        self.deployments: dict[DeploymentID, Deployment] = {}
        # Percent of their replicas that declared applications have, and whether that has grown last.
        self.capacity: float | None = None
        self._is_growing = False
        self._where: dict[str, DeploymentID] = {}
        # Of applications, each made of what the application has.
        self._policies: dict[str, tuple[AutoscalingPolicy, AppPolicy]] = {}
        # Replicas that the machine before this one was stopping: whoever comes next has to know of them, too.
        self._leaving: dict[str, Stop] = {}
        # Actors that it has left of deployments that are gone.
        self._left: set[ActorID] = set()
        self._count = 0

    # --- events: each returns what is to be done

    def deploy(self, spec: AppSpec, now: float) -> list[Action]:
        """An application is to be as the specification says.

        Where it is so already, it is to begin anew: who deploys what runs wants other replicas.
        """
        before = self.apps.get(spec.name)
        is_same = before is not None and not before.is_going and before.given == spec
        app = self.apps[spec.name] = App(
            renewed(spec, self._count) if is_same else spec, now, given=spec
        )
        return self._place(app.spec, now)

    def _place(self, spec: AppSpec, now: float) -> list[Action]:
        actions: list[Action] = []
        for one in spec.deployments.values():
            key = DeploymentID(spec.name, one.name)
            known = self.deployments.get(key)
            if known is None or known.is_going:
                replicas = known.replicas if known is not None else {}
                actors = None if known is None else known.actors
                number = at_capacity(one.config.num_replicas, self._capacity_of(spec.name))
                known = Deployment(key, one, one.config.whole_gangs(number), replicas)
                if actors is not None:
                    known.actors = actors
                self.deployments[key] = known
            else:
                self._retarget(known, one)
            known.scaler = self._scaler_of(known)
        # A policy may be of all of them together.
        for name in spec.deployments:
            key = DeploymentID(spec.name, name)
            actions += [*self._step(self.deployments[key], now), Publish(key)]
        for key, known in list(self.deployments.items()):
            if key.app_name == spec.name and key.name not in spec.deployments:
                known.is_going = True
                actions += self._step(known, now)
        return actions

    def _capacity_of(self, app: str) -> float | None:
        return None if self.apps[app].config is None else self.capacity

    def _bounds(self, app: str, scaling: AutoscalingConfig) -> tuple[int, int]:
        low, capacity = scaling.min_replicas, self._capacity_of(app)
        if capacity is not None and self._is_growing and scaling.initial_replicas is not None:
            low = scaling.initial_replicas
        return at_capacity(low, capacity), at_capacity(scaling.max_replicas, capacity)

    def _whole_bounds(self, known: Deployment, scaling: AutoscalingConfig) -> tuple[int, int]:
        """Bounds in whole gangs: no fewer than are wanted, and no more, but one gang."""
        low, high = self._bounds(known.id.app_name, scaling)
        size = known.spec.config.gang_size
        high = max(high // size * size, min(size, known.spec.config.whole_gangs(high)))
        return min(known.spec.config.whole_gangs(low), high), high

    def _scaler_of(self, known: Deployment) -> Scaler | None:
        scaling = known.spec.config.autoscaling_config
        if scaling is None:
            return None
        bounds, policy = self._whole_bounds(known, scaling), self._policy_for(known.id)
        size = known.spec.config.gang_size
        return Scaler(known.id, scaling, known.scaler, bounds, policy, size)

    def _policy_for(self, key: DeploymentID) -> Policy | None:
        """Return the part of the application's policy for a deployment, where there is one."""
        app = self.apps[key.app_name]
        if app.policy is None:
            self._policies.pop(key.app_name, None)
            return None
        found = self._policies.get(key.app_name)
        if found is None or found[0] is not app.policy:
            name = key.app_name
            found = app.policy, AppPolicy(app.policy, lambda now: self._contexts(name, now))
            self._policies[name] = found
        return found[1].of(key)

    def _contexts(self, app: str, now: float) -> dict[DeploymentID, AutoscalingContext]:
        return {
            key: known.scaler.context(known.target, now, [one.id for one in known.of(RUNNING)])
            for key, known in self.deployments.items()
            if key.app_name == app and known.scaler is not None and not known.is_going
        }

    def _set_capacity(self, capacity: float | None, names: set[str]) -> None:
        before, self.capacity = self.capacity, capacity
        declared = {name for name, app in self.apps.items() if app.config is not None}
        if capacity is None:
            self._is_growing = False
        elif names != declared:  # other applications: they are about to take over
            self._is_growing = True
        elif before != capacity:
            self._is_growing = before is not None and before < capacity

    def declare(
        self, configs: list[dict[str, Any]], now: float, capacity: float | None = None
    ) -> tuple[list[Action], list[Build]]:
        """Have these declared applications and no others; the same code is not built again.

        ``capacity``: percent of their replicas that they have, ``None``: all.
        """
        actions: list[Action] = []
        builds: list[Build] = []
        names = {config["name"] for config in configs}
        self._set_capacity(capacity, names)
        for name, app in list(self.apps.items()):
            if app.config is not None and name not in names:
                actions += self.delete(name, now)
        for config in configs:
            name = config["name"]
            before = self.apps.get(name)
            if before is None or before.is_going:
                spec, was = AppSpec(name, config.get("route_prefix", "/"), "", {}), None
            else:
                # What runs serves on until its successor is built.
                spec, was = before.spec, before.config
            app = self.apps[name] = App(spec, now, config=config)
            if before is not None and was is not None and building.is_same_code(was, config):
                app.built = before.built
            if app.built is not None:
                actions += self._override(app, now)
            else:
                app.is_building = True
                builds.append(Build(name, config))
        return actions, builds

    def built(self, build: Build, spec: AppSpec | str, now: float) -> list[Action]:
        """Take in the result of a build: an application, or the reason why there is none."""
        app = self.apps.get(build.name)
        if app is None or app.is_going or app.config is not build.config:
            return []  # another configuration has come meanwhile
        app.is_building = False
        if isinstance(spec, str):
            app.error = spec
            return []
        app.built = spec
        return self._override(app, now)

    def _override(self, app: App, now: float) -> list[Action]:
        assert app.built is not None
        assert app.config is not None
        try:
            app.spec = building.overridden(app.built, app.config)
            policy = app.config.get("autoscaling_policy")
            app.policy = None if policy is None else of(AutoscalingPolicy, policy)
        except (TypeError, ValueError, NotImplementedError) as error:
            app.error = str(error)
            return []
        app.error = ""
        return self._place(app.spec, now)

    def builds(self) -> list[Build]:
        """Return the builds that are still to be done."""
        return [
            Build(name, app.config)
            for name, app in self.apps.items()
            if app.is_building and app.config is not None and not app.is_going
        ]

    def _retarget(self, known: Deployment, spec: DeploymentSpec) -> None:
        if known.spec.code_version != spec.code_version or known.has_failed:
            known.was_healthy = known.has_failed = False
        known.failures, known.retry_at, known.message = 0, 0.0, ""
        known.trigger = "CONFIG_UPDATE_STARTED"
        scaling = spec.config.autoscaling_config
        if scaling is None:
            capacity = self._capacity_of(known.id.app_name)
            known.target = at_capacity(spec.config.num_replicas, capacity)
        known.spec = spec
        known.target = spec.config.whole_gangs(known.target)
        if scaling is not None:
            low, high = self._whole_bounds(known, scaling)
            known.target = min(max(known.target, low), high)

    def scale(self, key: DeploymentID, number: int, now: float) -> list[Action]:
        """A deployment is to have so many replicas, until its application is deployed again.

        Raises:
            LookupError: There is no such deployment.
            PermissionError: Its application is not scaled from outside.
        """
        app, known = self.apps.get(key.app_name), self.deployments.get(key)
        if app is None or app.is_going or known is None or known.is_going:
            raise LookupError(f"There is no {key}.")
        if not app.spec.is_scaled_from_outside:
            raise PermissionError(
                f"The number of replicas of {key} cannot be set: deploy its application with "
                "`external_scaler_enabled: true`."
            )
        known.target = known.spec.config.whole_gangs(number)
        return [*self._step(known, now), Publish(key)]

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
        self,
        key: DeploymentID,
        replica: str,
        version: str,
        address: str,
        now: float,
        gang: Gang | None = None,
    ) -> None:
        """A replica that was there before this machine; with an address it takes requests."""
        known = self.deployments.get(key)
        if known is not None:
            state = RUNNING if address else STARTING
            # Without a specification: which configuration reached it last is not known.
            known.replicas[replica] = Replica(replica, version, now, state, address, gang=gang)
            self._where[replica] = key

    def resume(self, now: float) -> list[Action]:
        """Go on where the machine before this one was: to call once, after :func:`restored`."""
        actions: list[Action] = [StopActor(one) for one in self._left]
        for known in list(self.deployments.values()):
            actions += [*self._step(known, now), Publish(known.id)]
        return actions

    def started(self, replica: str, address: str, now: float, pid: int = 0) -> list[Action]:
        """A replica takes requests."""
        known, one = self._find(replica)
        if one is not None:
            one.pid = pid
        if known is None or one is None or one.state is not STARTING:
            return []
        one.state, one.address, one.since = RUNNING, address, now
        if self._is_done(known):
            known.failures, known.retry_at = 0, 0.0
        return [*self._step(known, now), Publish(known.id)]

    def start_failed(
        self, replica: str, why: str, now: float, *, is_final: bool = False
    ) -> list[Action]:
        """A replica's constructor raised, or its process ended before it took requests.

        ``is_final``: the next try would fail by the same, as an environment that cannot be built does.
        """
        known, one = self._find(replica)
        if known is None or one is None:
            return []
        self._drop(known, replica)
        if one.state is STARTING and known.is_current(one):
            self._fail(known, why, now, "REPLICA_STARTUP_FAILED", is_final=is_final)
        ends = self._end_with(known, one)
        return [*ends, *self._step(known, now), Publish(known.id)]

    def died(self, replica: str, why: str, now: float, *, is_final: bool = False) -> list[Action]:
        """A replica has ended, or is not healthy; ``is_final``: see :meth:`start_failed`."""
        known, one = self._find(replica)
        if known is None or one is None:
            return []
        if one.state is STARTING:
            return self.start_failed(replica, why, now, is_final=is_final)
        self._drop(known, replica)
        if one.state is RUNNING:
            known.message = f"A replica ended and is replaced: {why}"
            known.trigger = "HEALTH_CHECK_FAILED"
        ends = self._end_with(known, one)
        return [*ends, Publish(known.id), *self._step(known, now)]

    def _end_with(self, known: Deployment, one: Replica) -> list[Action]:
        """A gang that has lost a replica ends: nothing that it had begun can come to its end."""
        others = gangs.with_others([one], known.of(STARTING, RUNNING))[1:]
        return [self._stop(known, other, is_lost=True) for other in others]

    def actor_started(self, actor: ActorID, now: float) -> list[Action]:
        """An actor of a deployment has its constructor behind it."""
        known = self.deployments.get(actor.deployment)
        if known is None or not known.actors.started(actor):
            return []
        return self._step(known, now)

    def actor_ended(self, actor: ActorID, why: str, now: float) -> list[Action]:
        """An actor of a deployment did not start, or is gone."""
        if actor in self._left:
            self._left.remove(actor)
            return []
        known = self.deployments.get(actor.deployment)
        state = None if known is None else known.actors.ended(actor)
        if known is None or state is None:
            return []
        if actor.version == known.spec.code_version and not known.is_going:
            if state is STARTING:
                self._fail(known, why, now, "DEPLOYMENT_ACTOR_FAILED")
            elif state is RUNNING:
                known.message = f"The deployment actor {actor.name!r} ended and is replaced: {why}"
                known.trigger = "DEPLOYMENT_ACTOR_FAILED"
        return [*self._step(known, now), Publish(known.id)]

    def stopped(self, replica: str, now: float) -> list[Action]:
        """A replica that was to stop is gone."""
        self._leaving.pop(replica, None)
        known, _ = self._find(replica)
        if known is None:
            return []
        self._drop(known, replica)
        return self._step(known, now)

    def counted(
        self, key: DeploymentID, source: str, requests: int, now: float, *, waiting: bool = False
    ) -> list[Action]:
        """Take in how many requests are at a replica, or with ``waiting`` wait at a router."""
        known = self.deployments.get(key)
        if known is None or known.scaler is None:
            return []
        known.scaler.count(source, requests, now, waiting=waiting)
        return self._step(known, now)

    def recorded(
        self, key: DeploymentID, replica: str, stats: dict[str, float], now: float
    ) -> None:
        """Record the measurements of a replica, for policies of autoscaling."""
        known = self.deployments.get(key)
        if known is not None and known.scaler is not None and replica in known.replicas:
            known.scaler.record(replica, stats, now)

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

    def dead(self) -> set[str]:
        """Replicas that have ended and are still told of."""
        return {one.id for known in self.deployments.values() for one in known.dead}

    def serving(self, key: DeploymentID) -> list[str]:
        """Replicas that take requests, or are to."""
        known = self.deployments.get(key)
        if known is None or known.is_going:
            return []
        return [one.id for one in known.of(STARTING, RUNNING)]

    def target(self, key: DeploymentID) -> int:
        """How many replicas there are to be."""
        known = self.deployments.get(key)
        return 0 if known is None or known.is_going else known.target

    def failure(self, key: DeploymentID) -> str | None:
        """Why there is nobody to take requests, where that will stay so."""
        known = self.deployments.get(key)
        if known is not None and known.has_failed and not known.of(RUNNING):
            return f"{key} failed to deploy: {known.message}"
        return None

    def routes(self) -> tuple[list[dict[str, str]], dict[str, dict[str, Any]]]:
        """Return the table of an ingress: prefixes, and by deployment its limits and the replicas
        that run.
        """
        routes, deployments = [], {}
        for name, app in self.apps.items():
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
        app = self.apps.get(name)
        if app is None:
            return None
        parts = {key.name: one for key, one in self.deployments.items() if key.app_name == name}
        rows = {name: self._row(one) for name, one in parts.items()}
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
        gone = known.replicas.pop(replica, None)
        if gone is not None and gone.pid:
            known.dead.append(gone)
        self._where.pop(replica, None)
        if known.scaler is not None:
            known.scaler.forget(replica)

    def _fail(
        self, known: Deployment, why: str, now: float, trigger: str, *, is_final: bool = False
    ) -> None:
        known.failures += 1
        known.message = why
        pause = min(RETRY_S * 2 ** (known.failures - 1), RETRY_S_MAX)
        known.retry_at = now + pause
        if not known.was_healthy and (is_final or known.failures >= known.tries_max()):
            known.has_failed = True
            known.trigger = trigger

    def _is_done(self, known: Deployment) -> bool:
        running = known.of(RUNNING)
        done = len(running) == known.target and all(map(known.is_current, running))
        done = done and known.has_actors()
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
            actions += known.actors.end({one.version for one in known.replicas.values()})
            if not known.replicas and not known.actors.states:
                del self.deployments[known.id]
                self._forget(known.id.app_name)
            return actions
        if known.scaler is not None:
            serving = len(known.of(RUNNING, STARTING))
            running = [one.id for one in known.of(RUNNING)]
            wanted = known.scaler.decide(known.target, serving, now, running)
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
        versions = {one.version for one in known.replicas.values()}
        actions += known.actors.end({known.spec.code_version, *versions})
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
        actions: list[Action] = [*known.actors.begin(known.spec)]
        if not known.actors.are_there(known.spec):
            return actions  # the first thing that replicas look for
        serving = known.of(STARTING, RUNNING)
        new = [one for one in serving if known.is_current(one)]
        room = known.target + known.spec.config.surge(known.target) - len(serving)
        if len(new) == len(serving):
            room = known.target - len(serving)
        if known.spec.config.absent(known.target):
            # Older ones have their resources until they are gone.
            room -= sum(not known.is_current(one) for one in known.of(STOPPING))
        size = known.spec.config.gang_size
        for _ in range(min(known.target - len(new), room) // size):
            names = tuple(self._name(known) for _ in range(size))
            gang = None
            if known.spec.config.gang_scheduling_config is not None:
                gang = Gang(names[0], names)
            for name in names:
                known.replicas[name] = Replica(
                    name, known.spec.code_version, now, spec=known.spec, gang=gang
                )
                self._where[name] = known.id
                actions.append(Start(name, known.id, known.spec, gang))
        return actions

    def _name(self, known: Deployment) -> str:
        """A name for another replica."""
        self._count += 1
        name = f"{known.id.name}-{self._count}-{known.spec.code_version[-6:]}"
        return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)

    def _surplus(self, known: Deployment, now: float) -> list[Replica]:
        new = [one for one in known.of(STARTING, RUNNING) if known.is_current(one)]
        running = [one for one in new if one.state is RUNNING]
        old = [one for one in known.of(STARTING, RUNNING) if not known.is_current(one)]
        stops = [one for one in old if one.state is STARTING]
        if not known.has_failed:
            serving = [one for one in old if one.state is RUNNING]
            absent = known.spec.config.absent(known.target)
            excess = len(serving) + len(running) - known.target + absent
            waiting = [one for one in new if one.state is STARTING]
            # Where some may be away, those that were stopped have made the room.
            lacks_room = not absent and excess <= 0 and bool(waiting)
            has_waited = lacks_room and now - min(one.since for one in waiting) > ROOM_S
            units = gangs.units(serving)
            # Gangs of another size than before leave a rest, which is not a whole gang.
            is_stuck = excess > 0 and not waiting and not gangs.first_of(units, excess)
            if units and (has_waited or is_stuck):
                stops += units[0]
            elif excess > 0:
                stops += gangs.first_of(units, excess)
        # The youngest have the least to lose; those that do not run yet have nothing.
        by_age = sorted(new, key=lambda one: (one.state is RUNNING, -one.since))
        stops += gangs.first_of(gangs.units(by_age), max(0, len(new) - known.target))
        return gangs.with_others(stops, known.of(STARTING, RUNNING))

    def _stop(self, known: Deployment, one: Replica, *, is_lost: bool = False) -> Stop:
        # One that only starts has no requests to end, and may hang in its constructor.
        is_idle, one.state = one.state is STARTING, STOPPING
        timeout_s = known.spec.config.graceful_shutdown_timeout_s
        return Stop(one.id, known.id, None if is_lost or is_idle else timeout_s)

    def _forget(self, name: str) -> None:
        app = self.apps.get(name)
        if (
            app is not None
            and app.is_going
            and not any(k.app_name == name for k in self.deployments)
        ):
            del self.apps[name]


def saved(machine: Machine) -> dict[str, Any]:
    """Return the state with which a later machine begins."""
    apps = [app for app in machine.apps.values() if not app.is_going]
    replicas, stopping = [], list(machine._leaving.values())
    for key, known in machine.deployments.items():
        for one in known.replicas.values():
            if one.state is STOPPING:
                stopping.append(machine._stop(known, one))
            else:
                replicas.append((key, one.id, one.version, one.address, one.gang))
    targets = {key: known.target for key, known in machine.deployments.items()}
    return {
        "apps": apps,
        "replicas": replicas,
        "stopping": stopping,  # to be stopped again: nobody else knows of them
        "targets": targets,
        "failed": {
            key: (known.message, known.trigger)
            for key, known in machine.deployments.items()
            if known.has_failed
        },
        "actors": [
            *((one.deployment, one.version, one.name, STOPPING) for one in machine._left),
            *(
                (key, *row)
                for key, known in machine.deployments.items()
                for row in known.actors.saved()
            ),
        ],
        "capacity": (machine.capacity, machine._is_growing),
        "count": machine._count,
    }


def restored(state: dict[str, Any], now: float) -> Machine:
    """A machine with what an earlier one has saved.

    Replicas that took requests take them from the start, so that :meth:`Machine.routes` is what it was: an
    ingress that is told of it loses no route and no replica. Those that are gone meanwhile have died.
    """
    machine = Machine()
    machine._count = state["count"]
    machine._leaving = {one.replica: one for one in state["stopping"]}
    machine.capacity, machine._is_growing = state["capacity"]
    for app in state["apps"]:
        machine.apps[app.spec.name] = app
        for one in app.spec.deployments.values():
            key = DeploymentID(app.spec.name, one.name)
            target = state["targets"].get(key, one.config.num_replicas)
            known = Deployment(key, one, target)
            known.scaler = machine._scaler_of(known)
            if key in state["failed"]:  # it stays so until it is deployed again
                known.has_failed = True
                known.message, known.trigger = state["failed"][key]
            machine.deployments[key] = known
    for key, replica, version, address, gang in state["replicas"]:
        machine.adopt(key, replica, version, address, now, gang)
    for key, version, name, was in state["actors"]:
        owner = machine.deployments.get(key)
        if owner is None:
            machine._left.add(ActorID(key, version, name, 0))
        else:
            is_wanted = version == owner.spec.code_version
            owner.actors.restore(version, name, was, is_wanted=is_wanted)
    return machine
