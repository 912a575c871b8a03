"""The controller's actor: it does what the machine says, and tells the machine what has come of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.serve import building, sockets
from heliostat.serve.controller import details, reasons
from heliostat.serve.controller.actor_supervisor import ActorSupervisor
from heliostat.serve.controller.clock import Clock
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
    Event,
    Publish,
    Reconfigure,
    Recorded,
    Resume,
    Scale,
    Start,
    StartActor,
    Stop,
    StopActor,
    Tick,
)
from heliostat.serve.controller.health import Health
from heliostat.serve.controller.machine import Machine, restored, saved
from heliostat.serve.controller.measurements import Measurements
from heliostat.serve.controller.page_rows import EVERY_S, ApplicationReporter, written
from heliostat.serve.controller.replica_supervisor import (
    Listener,
    ReplicaSettings,
    ReplicaSupervisor,
)
from heliostat.serve.controller.servers import Servers
from heliostat.serve.controller.state import App
from heliostat.serve.controller.storage import Storage
from heliostat.serve.controller.tasks import Tasks
from heliostat.serve.controller.watch import Watches
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.options import (
    HTTPOptions,
    LoggingConfig,
    ProxyLocation,
    TracingConfig,
    gRPCOptions,
)
from heliostat.serve.schema import ApplicationStatus, ServeStatus
from heliostat.serve.specs import AppSpec, DeploymentID, Targets
from heliostat.util.explanation import why as explain

logger = logging.getLogger("ray.serve")

# How long routers may take to say that they know of a change, before things go on all the same.
_ACKNOWLEDGED_S = 1.0
# Replicas that are asked what they wait for: it is mostly the same.
_EXPLAINED_MAX = 3


class ServeController:
    """The actor."""

    def __init__(
        self,
        options: HTTPOptions,
        location: ProxyLocation,
        logging: LoggingConfig | None = None,
        grpc: gRPCOptions | None = None,
        traced: TracingConfig | None = None,
    ) -> None:
        self._options = options
        self._grpc = grpc or gRPCOptions()
        self._location = location
        self._now = Clock()
        self._storage = Storage()
        state = self._storage.load()
        self._machine = Machine() if state is None else restored(state, self._now())
        self._view = self._machine.view
        self._measured = Measurements()
        self._health = Health()
        self._told = ApplicationReporter()
        self._telling: asyncio.Task[None] | None = None
        self._tells = asyncio.Lock()
        self._tasks = Tasks()
        self._watches = Watches()
        self._replicas = ReplicaSupervisor(
            self._view,
            ReplicaSettings(
                logging, options.root_path, tuple(self._grpc.grpc_servicer_functions), traced
            ),
            Listener(
                apply=self._apply,
                moved=self._on_moved,
                reconfigured=self._wake,
                changed=self._save_soon,
                measured=self._told.took,
                acknowledged=self._acknowledged,
            ),
        )
        self._deployment_actors = ActorSupervisor(self._on_actor_started, self._on_actor_ended)
        self._servers = Servers(
            options, self._grpc, location, traced, self._view, self._replicas, self._on_counts
        )
        self._ticking: asyncio.Task[None] | None = None
        self._changed: asyncio.Event = asyncio.Event()
        self._is_over = False
        self._is_saved = True
        self._node = ray.get_runtime_context().get_node_id()
        if state is not None:
            self._recover(state)

    # --- what users ask

    async def start(self) -> None:
        """Have the HTTP server run. Raises ``RuntimeError`` with its words when it does not."""
        sockets.check(serving.session()["session_dir"])
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_page())
        await self._servers.start()

    def http_options(self) -> HTTPOptions:
        """Return the options of the HTTP server."""
        return self._options

    def has_methods(self, methods: dict[str, bool]) -> bool:
        """Whether its gRPC servers know those methods."""
        return methods.items() <= self._grpc.methods.items()

    async def deploy(self, apps: list[AppSpec]) -> None:
        """Have those applications. Raises ``RayServeException`` where two share a prefix."""
        self._check_prefixes({spec.name: spec.route_prefix for spec in apps}, lambda _: True)
        for spec in apps:
            self._apply(Deploy(spec))

    async def scale(self, key: DeploymentID, number: int) -> tuple[int, str]:
        """Have a deployment have so many replicas; the status of HTTP, and a sentence where it cannot."""
        try:
            self._apply(Scale(key, number))
        except LookupError as error:
            return 404, str(error)
        except PermissionError as error:
            return 412, str(error)
        self._save_soon()
        return 200, ""

    def _check_prefixes(self, given: dict[str, str | None], stays: Callable[[App], bool]) -> None:
        prefixes = {
            app.spec.route_prefix: name
            for name, app in self._view.apps.items()
            if not app.is_going and name not in given and stays(app)
        }
        for name, prefix in given.items():
            if prefix is None:
                continue
            other = prefixes.setdefault(prefix, name)
            if other != name:
                raise RayServeException(
                    f"Prefix {prefix} is being used by application '{other}'. "
                    f"Give application '{name}' another route_prefix, or delete the other one."
                )

    async def apply(self, configs: list[dict[str, Any]], capacity: float | None = None) -> None:
        """Have the applications of a configuration, and no other declared ones; their code is imported later.

        ``configs`` are what was given of each ``ServeApplicationSchema``, ``capacity`` is its
        ``target_capacity``. Raises as ``deploy``.
        """
        given = {config["name"]: config.get("route_prefix", "/") for config in configs}
        self._check_prefixes(given, lambda app: app.config is None)
        self._apply(Declare(configs, capacity))
        self._save_soon()

    async def _build(self, build: Build) -> None:
        config = build.config
        task = ray.remote(building.built).options(
            num_cpus=0, max_retries=0, runtime_env=building.environment(config) or None
        )
        made: AppSpec | str
        try:
            made = await task.remote(
                build.app,
                config.get("route_prefix", "/"),
                config["import_path"],
                config.get("args") or {},
            )
        except Exception as error:
            made = f"The application cannot be imported from {config['import_path']}:\n{error}"
        self._apply(Built(build, made))
        self._save_soon()

    async def wait_for(self, name: str) -> tuple[ApplicationStatus, str]:
        """Once the application runs or has failed: which, and why."""
        while True:
            found = self._view.app_of(name)
            if found is None:
                return ApplicationStatus.NOT_STARTED, "it was deleted meanwhile"
            # Running replicas take a new configuration before the caller's next request reaches it.
            keys = [DeploymentID(name, key) for key in found.deployments]
            is_settled = not any(
                self._replicas.is_reconfiguring(one.id)
                for key in keys
                for one in self._view.running(key)
            )
            if found.status is ApplicationStatus.DEPLOY_FAILED or (
                found.status is ApplicationStatus.RUNNING and is_settled
            ):
                why = "".join(
                    f"\n{key}: {row.message}"
                    for key, row in found.deployments.items()
                    if row.message
                )
                # Nor is a call refused, or sent by what was, after this: routers know it by then.
                await asyncio.gather(*map(self._acknowledged, keys))
                return found.status, found.message + why
            await self._change()

    async def delete(self, names: list[str]) -> None:
        """Have them go, and wait for it."""
        for name in names:
            self._apply(Delete(name))
        while any(name in self._view.apps for name in names):
            await self._change()

    async def shutdown(self) -> None:
        """End all of it but this actor."""
        self._is_over = True
        await self.delete(list(self._view.apps))
        await self._tell_page_once()
        await self._servers.stop()
        self._storage.clear()

    def status(self) -> ServeStatus:
        """Return the status of all applications and proxies."""
        rows = {name: self._view.app_of(name) for name in self._view.apps}
        apps = {name: row for name, row in rows.items() if row is not None}
        return ServeStatus(self._servers.status(self._node), apps, self._view.capacity)

    async def get_health_metrics(self) -> dict[str, Any]:
        """Return the health of this process in Ray's ``ControllerHealthMetrics``."""
        return self._health.row()

    async def details(self, source: str | None = None) -> dict[str, Any]:
        """Return the details for the REST routes; ``source``: only ``imperative`` or
        ``declarative`` ones.
        """
        here = serving.session()
        told = details.of(
            self._view,
            {"node_id": self._node, "node_ip": here["host"], **details.own_row()},
            self._location,
            self._options,
            self._grpc,
            self.status().proxies,
            self._servers.hosts(),
            self._replica_rows(),
            self._health.row(),
        )
        if source is not None:
            rows = told["applications"].items()
            told["applications"] = {key: row for key, row in rows if row["source"] == source}
        return told

    def _replica_rows(self) -> dict[str, dict[str, Any]]:
        """Return the facts about the replicas' processes, by their ids."""
        actors, locations = self._replicas.actors(), self._replicas.locations()
        return {
            one: details.place_row(actors.get(one), locations.get(one))
            for one in {*actors, *locations}
        }

    async def why(self, name: str) -> str | None:
        """Why an application or a deployment is not up; ``None`` where nothing has that name."""
        found = reasons.of(self._view, name)
        if found is None:
            return None
        lines, starting = found
        loop = asyncio.get_running_loop()
        for replica in starting[:_EXPLAINED_MAX]:
            actor = self._replicas.actor(replica)
            if actor is None:
                lines.append(
                    f"Replica {replica} waits for a node that has room for it, and fewer replicas than "
                    "`max_replicas_per_node`."
                )
            else:
                # The details ask other processes and wait for them.
                reason = await loop.run_in_executor(None, explain, actor)
                lines.append(
                    f"Replica {replica} starts; `initialize` runs its constructor. {reason}"
                )
        if len(starting) > _EXPLAINED_MAX:
            lines.append(f"{len(starting) - _EXPLAINED_MAX} further replicas start.")
        return "\n".join(lines)

    def route_of(self, name: str) -> tuple[str, str | None] | None:
        """The deployment that an application's requests go to, and its prefix."""
        app = self._view.apps.get(name)
        return None if app is None else (app.spec.ingress, app.spec.route_prefix)

    def has(self, key: DeploymentID) -> bool:
        """Whether there is such a deployment."""
        return key in self._view

    # --- what routers and replicas say

    async def listen(self, key: DeploymentID, router: str, version: int) -> Targets:
        """Return a deployment's targets once they differ from the version that a router knows."""
        await self._watches.wait(key, router, version)
        return self._targets(key)

    def count(self, key: DeploymentID, replica: str, requests: int) -> None:
        """A replica has so many requests."""
        with self._health.report("replica"):
            self._apply(Counted(key, replica, requests))

    def queue(self, key: DeploymentID, router: str, requests: int) -> None:
        """Take in how many calls wait at a router."""
        source = f"router {router}"
        with self._health.report("handle"):
            self._told.counted(source, key, requests, requests)
            self._apply(Counted(key, source, requests, is_waiting=True))

    def record(self, key: DeploymentID, replica: str, stats: dict[str, float]) -> None:
        """Record the result of a replica's `record_autoscaling_stats`."""
        with self._health.report("replica"):
            self._machine.apply(Recorded(key, replica, stats), self._now())

    def record_routing(
        self, key: DeploymentID, replica: str, models: tuple[str, ...], stats: dict[str, Any]
    ) -> None:
        """The models that a replica has loaded, and what its `record_routing_stats` has returned."""
        if self._replicas.record_routing(replica, models, stats):
            self._watches.changed(key)

    def _on_counts(self, source: str, counts: dict[str, list[int]]) -> None:
        told: dict[DeploymentID, tuple[int, int]] = {}
        for word, (ongoing, queued) in counts.items():
            app, _, name = word.partition("#")
            key = DeploymentID(app, name)
            told[key] = (ongoing, queued)
            self._told.counted(source, key, ongoing, queued)
            self._apply(Counted(key, source, queued, is_waiting=True))

        self._measured.counted(source, told)

    async def _tell_page(self) -> None:
        """Tell every few seconds what there is, for the head's page."""
        while not self._is_over:
            await self._tell_page_once()
            await asyncio.sleep(EVERY_S)

    async def _tell_page_once(self) -> None:
        async with self._tells:  # a row that is gone is not written again
            actors = {
                name: {"actor_id": one._actor_id.hex()}
                for name, one in self._replicas.actors().items()
            }
            http = {"host": self._options.host, "port": self._options.port}
            nodes = {one: place.node for one, place in self._replicas.locations().items()}
            rows = list(self._told.rows(self._view, actors, nodes, http))
            await asyncio.get_running_loop().run_in_executor(None, written, rows)

    def _targets(self, key: DeploymentID) -> Targets:
        known = self._view.deployment(key)
        if known is None or known.is_going:
            return Targets(self._watches.version(key))
        config, running = known.spec.config, self._view.running(key)
        places = [self._replicas.place(one.id, one.address) for one in running]
        return Targets(
            self._watches.version(key),
            True,
            self._view.failure(key),
            config.max_ongoing_requests,
            config.max_queued_requests,
            config.backpressure(),
            config.autoscaling_config is not None,
            [one for one in places if one is not None],
            config.own_routing(),
        )

    # --- what the machine says

    def _apply(self, event: Event) -> None:
        """Tell the machine, and do what it asks for. Raises what :meth:`Machine.apply` does."""
        actions = self._machine.apply(event, self._now())
        began, changed = time.perf_counter(), set()
        for action in actions:
            if isinstance(action, Publish):
                changed.add(action.deployment)
        for key in changed:
            self._watches.changed(key)
        for key in changed:
            self._replicas.settle_ranks(key)
        if changed:
            self._replicas.forget_ended()
            self._servers.tell()
        # Before the actions: whoever comes after this process has to know what they leave behind.
        if actions:
            self._save_soon()
        for action in actions:
            self._execute(action)
        # A replica that is gone may be the last that was waited for.
        self._wake()
        if self._ticking is None and self._view.wants_time():
            self._ticking = asyncio.get_running_loop().create_task(self._tick())
        took = time.perf_counter() - began
        self._health.acted(took)
        if actions:
            self._measured.acted(self._view, took)

    def _execute(self, action: Action) -> None:
        match action:
            case Start():
                self._replicas.start(action)
            case Reconfigure():
                self._replicas.reconfigure(action)
            case Stop():
                self._replicas.stop(action)
            case StartActor():
                self._deployment_actors.start(action)
            case StopActor():
                self._deployment_actors.stop(action)
            case Build():
                self._tasks.start(self._build(action))
            case Publish():
                pass  # before all others

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        await self._changed.wait()

    async def _tick(self) -> None:
        while self._view.wants_time():
            await self._health.sleep()
            self._apply(Tick())
        self._ticking = None

    def _on_moved(self) -> None:
        self._servers.follow_replicas()

    def _on_actor_started(self, actor: ActorID) -> None:
        self._apply(ActorStarted(actor))
        self._save_soon()

    def _on_actor_ended(self, actor: ActorID, why: str) -> None:
        self._apply(ActorEnded(actor, why))

    async def _acknowledged(self, key: DeploymentID) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._servers.acknowledged(), _ACKNOWLEDGED_S)
        await self._watches.acknowledged(key, _ACKNOWLEDGED_S)

    # --- what outlives this process

    def _save_soon(self) -> None:
        if self._is_saved and not self._is_over:
            self._is_saved = False
            asyncio.get_running_loop().call_soon(self._save)

    def _save(self) -> None:
        self._is_saved = True
        if not self._is_over:
            self._storage.save({**saved(self._machine), "groups": self._replicas.groups()})

    def _recover(self, state: dict[str, Any]) -> None:
        """Take over from a controller that has died: find which of its replicas still run."""
        self._replicas.restore_groups(state["groups"])
        for key, replica, *_ in state["replicas"]:
            if key in self._view:
                self._replicas.adopt(replica, key)
        for stop in state["stopping"]:
            self._replicas.adopt_stopping(stop)
        self._tasks.start(self._start_again())

    async def _start_again(self) -> None:
        await self.start()
        for known in self._view.deployments():
            for actor in known.actors:
                self._deployment_actors.adopt(actor)
        self._apply(Resume())
