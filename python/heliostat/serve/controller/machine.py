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

from dataclasses import replace
from typing import Any

from heliostat.serve import building
from heliostat.serve.controller import gangs
from heliostat.serve.controller.capacity import Capacity
from heliostat.serve.controller.events import (
    Action,
    ActorEnded,
    ActorID,
    ActorStarted,
    Build,
    Built,
    Counted,
    Declare,
    Delete,
    Deploy,
    Died,
    Event,
    Publish,
    Reconfigure,
    Recorded,
    Resume,
    Scale,
    Start,
    Started,
    StartFailed,
    Stop,
    StopActor,
    Stopped,
    Tick,
)
from heliostat.serve.controller.gangs import Gang
from heliostat.serve.controller.scaling import AppPolicy, Policy, Scaler
from heliostat.serve.controller.state import (
    RUNNING,
    STARTING,
    STOPPING,
    App,
    Deployment,
    Replica,
)
from heliostat.serve.controller.view import View
from heliostat.serve.options import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy, of
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec, renewed

# Seconds that a new replica may look for room before an old one is stopped for it.
ROOM_S = 5.0
# Seconds before a failed start is repeated: the first, and the most.
RETRY_S, RETRY_S_MAX = 0.1, 10.0


class Machine:
    """All applications. Whoever reads asks :attr:`view`; only :meth:`apply` changes anything."""

    def __init__(self, capacity: Capacity | None = None) -> None:
        self._apps: dict[str, App] = {}
        self._deployments: dict[DeploymentID, Deployment] = {}
        self._capacity = capacity or Capacity()
        self.view = View(self._apps, self._deployments, self._capacity)
        self._where: dict[str, DeploymentID] = {}
        # The scaling policies of each application, made of its settings.
        self._policies: dict[str, tuple[AutoscalingPolicy, AppPolicy]] = {}
        # Replicas that the machine before this one was stopping: whoever comes next has to know of them, too.
        self._leaving: dict[str, Stop] = {}
        # Actors that it has left of deployments that are gone.
        self._left: set[ActorID] = set()
        self._count = 0

    def apply(self, event: Event, now: float) -> list[Action]:
        """Take in an event; return what is to be done.

        ``now``: seconds of a clock that is never set. What a `Scale` raises leaves everything as it is.

        Raises:
            LookupError: There is no deployment that the `Scale` names.
            PermissionError: The application of the `Scale` is not scaled from outside.
        """
        match event:
            case Counted():
                return self._on_counted(event, now)
            case Tick():
                return self._on_tick(now)
            case Recorded():
                return self._on_recorded(event, now)
            case Started():
                return self._on_started(event, now)
            case StartFailed():
                return self._on_start_failed(event, now)
            case Died():
                return self._on_died(event, now)
            case Stopped():
                return self._on_stopped(event, now)
            case ActorStarted():
                return self._on_actor_started(event, now)
            case ActorEnded():
                return self._on_actor_ended(event, now)
            case Deploy():
                return self._on_deploy(event, now)
            case Declare():
                return self._on_declare(event, now)
            case Built():
                return self._on_built(event, now)
            case Scale():
                return self._on_scale(event, now)
            case Delete():
                return self._delete(event.app, now)
            case Resume():
                return self._on_resume(now)

    # --- what users ask

    def _on_deploy(self, event: Deploy, now: float) -> list[Action]:
        spec, before = event.spec, self._apps.get(event.spec.name)
        is_same = before is not None and not before.is_going and before.given == spec
        app = App(renewed(spec, self._count) if is_same else spec, now, given=spec)
        self._apps[spec.name] = app
        return self._place(app.spec, now)

    def _place(self, spec: AppSpec, now: float) -> list[Action]:
        actions: list[Action] = []
        for one in spec.deployments.values():
            key = DeploymentID(spec.name, one.name)
            known = self._deployments.get(key)
            if known is None or known.is_going:
                replicas = known.replicas if known is not None else {}
                actors = None if known is None else known.actors
                number = self._capacity.number(
                    one.config.num_replicas, is_declared=self._is_declared(spec.name)
                )
                known = Deployment(key, one, one.config.whole_gangs(number), replicas)
                if actors is not None:
                    known.actors = actors
                self._deployments[key] = known
            else:
                self._retarget(known, one)
            known.scaler = self._scaler_of(known)
        # A policy may be of all of them together.
        for name in spec.deployments:
            key = DeploymentID(spec.name, name)
            actions += [*self._step(self._deployments[key], now), Publish(key)]
        for key, known in list(self._deployments.items()):
            if key.app_name == spec.name and key.name not in spec.deployments:
                known.is_going = True
                actions += self._step(known, now)
        return actions

    def _is_declared(self, app: str) -> bool:
        return self._apps[app].config is not None

    def _whole_bounds(self, known: Deployment, scaling: AutoscalingConfig) -> tuple[int, int]:
        """Bounds in whole gangs: no fewer than are wanted, and no more, but one gang."""
        is_declared = self._is_declared(known.id.app_name)
        low, high = self._capacity.bounds(scaling, is_declared=is_declared)
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
        app = self._apps[key.app_name]
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
            for key, known in self._deployments.items()
            if key.app_name == app and known.scaler is not None and not known.is_going
        }

    def _on_declare(self, event: Declare, now: float) -> list[Action]:
        actions: list[Action] = []
        builds: list[Action] = []
        names = {config["name"] for config in event.configs}
        declared = {name for name, app in self._apps.items() if app.config is not None}
        self._capacity.set(event.capacity, is_takeover=names != declared)
        for name in [name for name in self._apps if name in declared - names]:
            actions += self._delete(name, now)
        for config in event.configs:
            name = config["name"]
            before = self._apps.get(name)
            if before is None or before.is_going:
                spec, was = AppSpec(name, config.get("route_prefix", "/"), "", {}), None
            else:
                # Running replicas serve on until their successor is built.
                spec, was = before.spec, before.config
            built = None
            if before is not None and was is not None and building.is_same_code(was, config):
                built = before.built
            app = App(spec, now, config=config, built=built, is_building=built is None)
            self._apps[name] = app
            if app.is_building:
                builds.append(Build(name, config))
            else:
                actions += self._override(app, now)
        return [*actions, *builds]

    def _on_built(self, event: Built, now: float) -> list[Action]:
        app = self._apps.get(event.build.app)
        if app is None or app.is_going or app.config is not event.build.config:
            return []  # another configuration has come meanwhile
        if isinstance(event.made, str):
            self._apps[event.build.app] = replace(app, is_building=False, error=event.made)
            return []
        return self._override(replace(app, is_building=False, built=event.made), now)

    def _override(self, app: App, now: float) -> list[Action]:
        """Have a declared application as its configuration says, now that its code is there."""
        built, config, name = app.built, app.config, app.spec.name
        assert built is not None
        assert config is not None
        try:
            app = replace(app, spec=building.overridden(built, config))
            policy = config.get("autoscaling_policy")
            app = replace(app, policy=None if policy is None else of(AutoscalingPolicy, policy))
        except (TypeError, ValueError, NotImplementedError) as error:
            self._apps[name] = replace(app, error=str(error))
            return []
        self._apps[name] = replace(app, error="")
        return self._place(app.spec, now)

    def _retarget(self, known: Deployment, spec: DeploymentSpec) -> None:
        if known.spec.code_version != spec.code_version or known.has_failed:
            known.was_healthy = known.has_failed = False
        known.failures, known.retry_at, known.message = 0, 0.0, ""
        known.trigger = "CONFIG_UPDATE_STARTED"
        scaling = spec.config.autoscaling_config
        if scaling is None:
            is_declared = self._is_declared(known.id.app_name)
            number = spec.config.num_replicas
            known.target = self._capacity.number(number, is_declared=is_declared)
        known.spec = spec
        known.target = spec.config.whole_gangs(known.target)
        if scaling is not None:
            low, high = self._whole_bounds(known, scaling)
            known.target = min(max(known.target, low), high)

    def _on_scale(self, event: Scale, now: float) -> list[Action]:
        key = event.deployment
        app, known = self._apps.get(key.app_name), self._deployments.get(key)
        if app is None or app.is_going or known is None or known.is_going:
            raise LookupError(f"There is no {key}.")
        if not app.spec.is_scaled_from_outside:
            raise PermissionError(
                f"The number of replicas of {key} cannot be set: deploy its application with "
                "`external_scaler_enabled: true`."
            )
        known.target = known.spec.config.whole_gangs(event.number)
        return [*self._step(known, now), Publish(key)]

    def _delete(self, name: str, now: float) -> list[Action]:
        app = self._apps.get(name)
        if app is None:
            return []
        self._apps[name] = replace(app, is_going=True)
        actions: list[Action] = []
        for key, known in list(self._deployments.items()):
            if key.app_name == name:
                known.is_going = True
                actions.append(Publish(key))
                actions += self._step(known, now)
        self._forget(name)
        return actions

    def _on_resume(self, now: float) -> list[Action]:
        actions: list[Action] = [StopActor(one) for one in self._left]
        for known in list(self._deployments.values()):
            actions += [*self._step(known, now), Publish(known.id)]
        return [*actions, *self.view.builds()]

    # --- what replicas and actors do

    def _on_started(self, event: Started, now: float) -> list[Action]:
        known, one = self._find(event.replica)
        if known is None or one is None:
            return []
        one = replace(one, pid=event.pid)
        known.put(one)
        if one.state is not STARTING:
            return []
        known.put(replace(one, state=RUNNING, address=event.address, since=now))
        if self._is_done(known):
            known.failures, known.retry_at = 0, 0.0
        return [*self._step(known, now), Publish(known.id)]

    def _on_start_failed(self, event: StartFailed, now: float) -> list[Action]:
        known, one = self._find(event.replica)
        if known is None or one is None:
            return []
        self._drop(known, event.replica)
        if one.state is STARTING and known.is_current(one):
            self._fail(known, event.why, now, "REPLICA_STARTUP_FAILED", is_final=event.is_final)
        ends = self._end_with(known, one)
        return [*ends, *self._step(known, now), Publish(known.id)]

    def _on_died(self, event: Died, now: float) -> list[Action]:
        known, one = self._find(event.replica)
        if known is None or one is None:
            return []
        if one.state is STARTING:
            return self._on_start_failed(StartFailed(one.id, event.why, event.is_final), now)
        self._drop(known, event.replica)
        if one.state is RUNNING:
            known.message = f"A replica ended and is replaced: {event.why}"
            known.trigger = "HEALTH_CHECK_FAILED"
        ends = self._end_with(known, one)
        return [*ends, Publish(known.id), *self._step(known, now)]

    def _end_with(self, known: Deployment, one: Replica) -> list[Action]:
        """A gang that has lost a replica ends: nothing that it had begun can come to its end."""
        others = gangs.with_others([one], known.of(STARTING, RUNNING))[1:]
        return [self._stop(known, other, is_lost=True) for other in others]

    def _on_stopped(self, event: Stopped, now: float) -> list[Action]:
        self._leaving.pop(event.replica, None)
        known, _ = self._find(event.replica)
        if known is None:
            return []
        self._drop(known, event.replica)
        return self._step(known, now)

    def _on_actor_started(self, event: ActorStarted, now: float) -> list[Action]:
        known = self._deployments.get(event.actor.deployment)
        if known is None or not known.actors.started(event.actor):
            return []
        return self._step(known, now)

    def _on_actor_ended(self, event: ActorEnded, now: float) -> list[Action]:
        actor = event.actor
        if actor in self._left:
            self._left.remove(actor)
            return []
        known = self._deployments.get(actor.deployment)
        state = None if known is None else known.actors.ended(actor)
        if known is None or state is None:
            return []
        if actor.version == known.spec.code_version and not known.is_going:
            if state is STARTING:
                self._fail(known, event.why, now, "DEPLOYMENT_ACTOR_FAILED")
            elif state is RUNNING:
                known.message = (
                    f"The deployment actor {actor.name!r} ended and is replaced: {event.why}"
                )
                known.trigger = "DEPLOYMENT_ACTOR_FAILED"
        return [*self._step(known, now), Publish(known.id)]

    # --- load and time

    def _on_counted(self, event: Counted, now: float) -> list[Action]:
        known = self._deployments.get(event.deployment)
        if known is None or known.scaler is None:
            return []
        known.scaler.count(event.source, event.requests, now, waiting=event.is_waiting)
        return self._step(known, now)

    def _on_recorded(self, event: Recorded, now: float) -> list[Action]:
        known = self._deployments.get(event.deployment)
        if known is not None and known.scaler is not None and event.replica in known.replicas:
            known.scaler.record(event.replica, event.stats, now)
        return []

    def _on_tick(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for known in list(self._deployments.values()):
            if known.waits_for_time():
                actions += self._step(known, now)
        return actions

    # --- within

    def _find(self, replica: str) -> tuple[Deployment | None, Replica | None]:
        key = self._where.get(replica)
        known = self._deployments.get(key) if key is not None else None
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

    def _step(self, known: Deployment, now: float) -> list[Action]:
        if known.is_going:
            actions: list[Action] = [self._stop(known, one) for one in known.of(STARTING, RUNNING)]
            actions += known.actors.end({one.version for one in known.replicas.values()})
            if not known.replicas and known.actors.are_gone():
                del self._deployments[known.id]
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
                known.put(replace(one, spec=known.spec))
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
                version = known.spec.code_version
                known.put(Replica(name, version, now, spec=known.spec, gang=gang))
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
        known.put(replace(one, state=STOPPING))
        # One that only starts has no requests to end, and may hang in its constructor.
        return _stop_of(known, one, is_at_once=is_lost or one.state is STARTING)

    def _forget(self, name: str) -> None:
        app = self._apps.get(name)
        if (
            app is not None
            and app.is_going
            and not any(k.app_name == name for k in self._deployments)
        ):
            del self._apps[name]


def _stop_of(known: Deployment, one: Replica, *, is_at_once: bool = False) -> Stop:
    timeout_s = None if is_at_once else known.spec.config.graceful_shutdown_timeout_s
    return Stop(one.id, known.id, timeout_s)


def saved(machine: Machine) -> dict[str, Any]:
    """Return the state with which a later machine begins."""
    apps = [app for app in machine._apps.values() if not app.is_going]
    replicas, stopping = [], list(machine._leaving.values())
    for key, known in machine._deployments.items():
        for one in known.replicas.values():
            if one.state is STOPPING:
                stopping.append(_stop_of(known, one))
            else:
                replicas.append((key, one.id, one.version, one.address, one.gang))
    targets = {key: known.target for key, known in machine._deployments.items()}
    return {
        "apps": apps,
        "replicas": replicas,
        "stopping": stopping,  # to be stopped again: nobody else knows of them
        "targets": targets,
        "failed": {
            key: (known.message, known.trigger)
            for key, known in machine._deployments.items()
            if known.has_failed
        },
        "actors": [
            *((one.deployment, one.version, one.name, STOPPING) for one in machine._left),
            *(
                (key, *row)
                for key, known in machine._deployments.items()
                for row in known.actors.saved()
            ),
        ],
        "capacity": machine._capacity.saved(),
        "count": machine._count,
    }


def restored(state: dict[str, Any], now: float) -> Machine:
    """A machine with what an earlier one has saved.

    Replicas that took requests take them from the start, so that :meth:`View.routes` is what it was: an
    ingress that is told of it loses no route and no replica. Those that are gone meanwhile have died.
    """
    percent, is_growing = state["capacity"]
    machine = Machine(Capacity(percent, is_growing=is_growing))
    machine._count = state["count"]
    machine._leaving = {one.replica: one for one in state["stopping"]}
    for app in state["apps"]:
        machine._apps[app.spec.name] = app
        for one in app.spec.deployments.values():
            key = DeploymentID(app.spec.name, one.name)
            target = state["targets"].get(key, one.config.num_replicas)
            known = Deployment(key, one, target)
            known.scaler = machine._scaler_of(known)
            if key in state["failed"]:  # it stays so until it is deployed again
                known.has_failed = True
                known.message, known.trigger = state["failed"][key]
            machine._deployments[key] = known
    for key, replica, version, address, gang in state["replicas"]:
        found = machine._deployments.get(key)
        if found is not None:
            # With an address it takes requests. Which configuration reached it last is not known.
            status = RUNNING if address else STARTING
            found.put(Replica(replica, version, now, status, address, gang=gang))
            machine._where[replica] = key
    for key, version, name, was in state["actors"]:
        owner = machine._deployments.get(key)
        if owner is None:
            machine._left.add(ActorID(key, version, name, 0))
        else:
            is_wanted = version == owner.spec.code_version
            owner.actors.restore(version, name, was, is_wanted=is_wanted)
    return machine
