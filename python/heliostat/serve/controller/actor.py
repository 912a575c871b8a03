"""The controller's actor: it does what the machine says, and tells the machine what has come of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.exceptions import RayActorError, RuntimeEnvSetupError
from heliostat.serve import building, sockets, specs
from heliostat.serve.controller import details, reasons, spread
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
    Died,
    Event,
    Publish,
    Reconfigure,
    Recorded,
    Resume,
    Scale,
    Start,
    StartActor,
    Started,
    StartFailed,
    Stop,
    StopActor,
    Stopped,
    Tick,
)
from heliostat.serve.controller.health import EXPECTED_SLEEP_S, Health
from heliostat.serve.controller.ingress import Ingress
from heliostat.serve.controller.machine import Machine, restored, saved
from heliostat.serve.controller.measurements import Measurements
from heliostat.serve.controller.parts import App
from heliostat.serve.controller.proxies import Proxies
from heliostat.serve.controller.ranks import DeploymentRanks, Rank, RankUpdate
from heliostat.serve.controller.replica_groups import ReplicaGroups
from heliostat.serve.controller.storage import Storage
from heliostat.serve.controller.told import EVERY_S, ApplicationReporter, written
from heliostat.serve.controller.watch import Watches
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.options import (
    HTTPOptions,
    LoggingConfig,
    ProxyLocation,
    TracingConfig,
    gRPCOptions,
)
from heliostat.serve.replica.actor import ReplicaActor
from heliostat.serve.schema import ApplicationStatus, ProxyStatus, ServeStatus
from heliostat.serve.specs import (
    AppSpec,
    DeploymentID,
    DeploymentSpec,
    ReplicaLocation,
    ReplicaPlace,
    Targets,
)
from heliostat.util.explanation import why as explain
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

logger = logging.getLogger("ray.serve")

# Calls that a replica may hold besides those that its deployment has at a time: they wait within it.
_CALLS_MAX = 1_000_000
# How long routers may take to say that they know of a change, before things go on all the same.
_ACKNOWLEDGED_S = 1.0
# Health checks that may fail, or time out, one after the other.
_MISSED_MAX = 3
_EXITED = "its code has called exit_actor()"
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
        self._traced = traced
        self._options = options
        self._grpc = grpc or gRPCOptions()
        self._logging = logging
        self._location = location
        self._machine = Machine()
        self._view = self._machine.view
        self._measured = Measurements()
        self._health = Health()
        self._told = ApplicationReporter()
        self._telling: asyncio.Task[None] | None = None
        self._tells = asyncio.Lock()
        self._now = Clock()
        self._actors: dict[str, Any] = {}
        self._groups = ReplicaGroups(self._save_soon)
        self._supervisor = ActorSupervisor(self._go, self._on_actor_started, self._on_actor_ended)
        self._reconfigured: list[str] = []  # replicas that have not taken a configuration yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches = Watches()
        self._ingress: Ingress | None = None
        self._proxies: Proxies | None = None  # on other nodes
        self._where: dict[str, ReplicaLocation] = {}  # of replicas
        self._metadata: dict[str, dict[str, Any]] = {}  # what they said of themselves
        self._chosen: dict[str, str] = {}  # nodes of replicas that may not go to any
        self._ranks = DeploymentRanks()
        # The models that replicas have loaded, and what they have recorded, for routers of users' own.
        self._routing: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}
        self._ports: dict[str, str] = {}  # by which other nodes reach replicas of this one
        self._ticking: asyncio.Task[None] | None = None
        self._changed: asyncio.Event = asyncio.Event()
        self._is_over = False
        self._is_saved = True
        self._node = ray.get_runtime_context().get_node_id()
        self._storage = Storage()
        state = self._storage.load()
        if state is not None:
            self._recover(state)

    # --- what users ask

    async def start(self) -> None:
        """Have the HTTP server run. Raises ``RuntimeError`` with its words when it does not."""
        sockets.check(serving.session()["session_dir"])
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_page())
        if self._ingress is None and self._location is not ProxyLocation.Disabled:
            ingress = Ingress(
                self._options,
                self._grpc,
                lambda counts: self._on_counts("ingress", counts),
                self._view.routes(),
                self._traced,
            )
            self._ingress = ingress
            try:
                await ingress.start()
            except BaseException:
                self._ingress = None
                raise
            if self._location is ProxyLocation.EveryNode:
                self._proxies = Proxies(
                    self._options,
                    self._grpc,
                    lambda node, counts: self._on_counts(f"ingress {node}", counts),
                    self._routes_elsewhere,
                    self._traced,
                )
                self._tell_proxies()

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
            # What runs takes a new configuration before the caller's next request reaches it.
            keys = [DeploymentID(name, key) for key in found.deployments]
            is_settled = not any(
                one.id in self._reconfigured for key in keys for one in self._view.running(key)
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
        if self._proxies is not None:
            await self._proxies.stop()
            self._proxies = None
        if self._ingress is not None:
            await self._ingress.stop()
            self._ingress = None
        self._storage.clear()

    def status(self) -> ServeStatus:
        """Return the status of all applications and proxies."""
        proxies = {}
        if self._ingress is not None:
            state = ProxyStatus.HEALTHY if self._ingress.is_up else ProxyStatus.UNHEALTHY
            proxies[self._node] = state
        if self._proxies is not None:
            proxies |= self._proxies.status()
        rows = {name: self._view.app_of(name) for name in self._view.apps}
        apps = {name: row for name, row in rows.items() if row is not None}
        return ServeStatus(proxies, apps, self._view.capacity)

    async def get_health_metrics(self) -> dict[str, Any]:
        """How this process fares, as Ray's ``ControllerHealthMetrics`` has it."""
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
            {} if self._proxies is None else self._proxies.hosts(),
            {
                one: details.place_row(self._actors.get(one), self._where.get(one))
                for one in {*self._actors, *self._where}
            },
            self._health.row(),
        )
        if source is not None:
            rows = told["applications"].items()
            told["applications"] = {key: row for key, row in rows if row["source"] == source}
        return told

    async def why(self, name: str) -> str | None:
        """Why an application or a deployment is not up; ``None`` where nothing has that name."""
        found = reasons.of(self._view, name)
        if found is None:
            return None
        lines, starting = found
        loop = asyncio.get_running_loop()
        for replica in starting[:_EXPLAINED_MAX]:
            actor = self._actors.get(replica)
            if actor is None:
                lines.append(
                    f"Replica {replica} waits for a node that has room for it, and fewer replicas than "
                    "`max_replicas_per_node`."
                )
            else:
                # It asks other processes and waits for them.
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
        """How a deployment is, once that is not what a router knows by that version."""
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
        if replica in self._actors and self._routing.get(replica) != (models, stats):
            self._routing[replica] = models, stats
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
            actors = {name: {"actor_id": one._actor_id.hex()} for name, one in self._actors.items()}
            http = {"host": self._options.host, "port": self._options.port}
            nodes = {one: place.node for one, place in self._where.items()}
            rows = list(self._told.rows(self._view, actors, nodes, http))
            await asyncio.get_running_loop().run_in_executor(None, written, rows)

    def _targets(self, key: DeploymentID) -> Targets:
        known = self._view.deployment(key)
        if known is None or known.is_going:
            return Targets(self._watches.version(key))
        config = known.spec.config
        return Targets(
            self._watches.version(key),
            True,
            self._view.failure(key),
            config.max_ongoing_requests,
            config.max_queued_requests,
            config.backpressure(),
            config.autoscaling_config is not None,
            [
                self._replica_place(one.id, one.address)
                for one in self._view.running(key)
                if one.id in self._actors
            ],
            config.own_routing(),
        )

    def _replica_place(self, replica: str, address: str) -> ReplicaPlace:
        models, stats = self._routing.get(replica, ((), {}))
        where, said = self._where.get(replica), self._metadata.get(replica, {})
        host = "" if where is None else where.host
        node = self._node_of(replica)
        return ReplicaPlace(
            replica, self._actors[replica], address, node, models, stats, host, said
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
            self._rank(key)
        if changed:
            self._tell_ingress()
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
                self._go(self._start(action))
            case Reconfigure():
                self._reconfigured.append(action.replica)
                self._go(self._reconfigure(action))
            case Stop():
                self._go(self._stop(action.replica, action.deployment, action.timeout_s))
            case StartActor():
                self._supervisor.start(action)
            case StopActor():
                self._go(self._supervisor.stop(action))
            case Build():
                self._go(self._build(action))
            case Publish():
                pass  # before all others

    def _rank(self, key: DeploymentID) -> None:
        """Have the replicas of a deployment know their ranks, now that some of them may have come or gone."""
        known = self._view.deployment(key)
        there = set() if known is None else {one.id for one in known.replicas}
        target = 0 if known is None else known.target
        running = [one.id for one in self._view.running(key)]
        for told in self._ranks.settle(key, there, running, target):
            actor = self._actors.get(told.replica)
            if actor is not None:
                self._go(self._tell_rank(actor, told))

    async def _tell_rank(self, actor: Any, told: RankUpdate) -> None:
        try:
            await actor.rank.remote(tuple(told.rank), told.world_size)
        except RayActorError:
            pass  # who follows it knows
        except Exception as error:
            logger.error("Replica %s did not take its rank: %s", told.replica, error)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        await self._changed.wait()

    def _go(self, steps: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        while self._view.wants_time():
            await self._health.sleep()
            self._apply(Tick())
        self._ticking = None

    async def _start(self, action: Start) -> None:
        spec, key = action.spec, action.deployment
        options = {"num_cpus": 1, **spec.config.ray_actor_options}
        if spec.config.max_replicas_per_node is not None:
            node = await self._node_for(action)
            if node is None:
                return
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
        # It may be deleted while a node was looked for: its replica ends with the next event.
        app = self._view.apps.get(key.app_name)
        route = (app.spec.route_prefix if app is not None else None) or ""
        try:
            options |= self._groups.options(action)
            actor = (
                ray.remote(ReplicaActor)
                .options(
                    name=action.replica,
                    namespace=specs.NAMESPACE,
                    lifetime="detached",
                    max_concurrency=_CALLS_MAX,
                    **{"_preload": specs.PRELOADED, **options},
                )
                .remote(
                    key.app_name,
                    spec,
                    action.replica,
                    route,
                    self._logging,
                    self._options.root_path,
                    self._view.target(key),
                    tuple(self._grpc.grpc_servicer_functions),
                    self._traced,
                    None if action.gang is None else action.gang.seen_by(key, action.replica),
                )
            )
        except Exception:
            # Its placement group would stay reserved.
            self._unplace(action.replica)
            self._apply(StartFailed(action.replica, traceback.format_exc()))
            return
        self._actors[action.replica] = actor
        await self._follow(action.replica, key, spec)

    async def _node_for(self, action: Start) -> str | None:
        """A node that may have another replica, once there is one; ``None``: it is no longer wanted."""
        key, config = action.deployment, action.spec.config
        while True:
            there = self._view.serving(key)
            if action.replica not in there:
                return None
            others = [one for one in there if one != action.replica]
            places = [self._chosen.get(one) or self._node_of(one) for one in others]
            rows = [row for row in serving.list_nodes() if row["alive"]]
            nodes = [spread.Node(row["node_id"], row["available"]) for row in rows]
            node = spread.place(config, nodes, [one for one in places if one])
            if node is not None:
                self._chosen[action.replica] = node
                return node
            # Nothing tells that resources are free again.
            await asyncio.sleep(EXPECTED_SLEEP_S)

    def _node_of(self, replica: str) -> str:
        where = self._where.get(replica)
        return "" if where is None else where.node

    def _unplace(self, replica: str) -> None:
        """Forget where a replica was that has ended."""
        self._metadata.pop(replica, None)
        self._groups.give_back(replica)

    def _on_actor_started(self, actor: ActorID) -> None:
        self._apply(ActorStarted(actor))
        self._save_soon()

    def _on_actor_ended(self, actor: ActorID, why: str) -> None:
        self._apply(ActorEnded(actor, why))

    async def _follow(self, replica: str, key: DeploymentID, spec: DeploymentSpec) -> None:
        """A replica's life, from its constructor to its end."""
        actor = self._actors[replica]
        try:
            where = self._where[replica] = await actor.location.remote()
            known = None if where.ranks is None else Rank(*where.ranks)
            size = self._view.target(key)
            rank = self._ranks.take(key, replica, where.node, known, size)
            address = await actor.initialize.remote(self._node, tuple(rank))
            self._metadata[replica] = await actor.metadata.remote()
        except Exception as error:
            self._actors.pop(replica, None)
            with contextlib.suppress(Exception):
                ray.kill(actor)
            self._unplace(replica)
            # The node has tried what is worth a second try; others of the job hear the same words.
            is_final = isinstance(error, RuntimeEnvSetupError)
            self._apply(Died(replica, str(error), is_final))
            return
        self._apply(Started(replica, address, where.pid))
        # For one that the controller before has started, nothing else has changed.
        self._tell_proxies()
        self._go(self._watch_health(replica, key))
        try:
            why = _EXITED if await actor.until_end.remote() else ""
        except Exception as error:
            why = str(error)
        if why:
            self._unplace(replica)
        if why and self._actors.pop(replica, None) is not None:
            self._apply(Died(replica, why))

    async def _watch_health(self, replica: str, key: DeploymentID) -> None:
        missed, why = 0, ""
        while replica in self._actors and (known := self._view.deployment(key)) is not None:
            config = known.spec.config
            await asyncio.sleep(config.health_check_period_s)
            actor = self._actors.get(replica)
            if actor is None:
                return
            try:
                answer = actor.check_health.remote()
                figures = await asyncio.wait_for(answer, config.health_check_timeout_s)
                self._told.took(key, replica, figures)
                missed = 0
                continue
            except RayActorError:
                return  # who follows it knows
            except asyncio.TimeoutError:
                why = f"check_health took longer than {config.health_check_timeout_s} s"
            except Exception as error:
                why = str(error)
            missed += 1
            if missed >= _MISSED_MAX and self._actors.pop(replica, None) is not None:
                logger.warning("Replica %s is not healthy and is replaced: %s", replica, why)
                self._apply(Died(replica, why))
                ray.kill(actor)

    async def _reconfigure(self, action: Reconfigure) -> None:
        actor = self._actors.get(action.replica)
        try:
            if actor is not None:
                await actor.reconfigure.remote(action.spec.config)
        except RayActorError:
            pass  # who follows it knows
        except Exception as error:
            if actor is not None and self._actors.pop(action.replica, None) is not None:
                ray.kill(actor)
                self._apply(Died(action.replica, str(error)))
        finally:
            self._reconfigured.remove(action.replica)
            self._wake()

    async def _stop(self, replica: str, key: DeploymentID, timeout_s: float | None) -> None:
        actor = self._actors.pop(replica, None)
        if actor is not None:
            if timeout_s is not None:
                await self._acknowledged(key)
                # The replica itself may be what hangs.
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(self._drain(actor, timeout_s), timeout_s + 5)
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._unplace(replica)
        self._apply(Stopped(replica))
        self._rank(key)

    async def _drain(self, actor: Any, timeout_s: float) -> None:
        if await actor.drain.remote(timeout_s):
            # Not killed: a call that is still on its way to it hears that it was not begun.
            with contextlib.suppress(RayActorError):
                await actor.leave.remote()
            with contextlib.suppress(RayActorError):
                while True:  # until it is gone
                    await actor.until_end.remote()

    async def _acknowledged(self, key: DeploymentID) -> None:
        servers = [one for one in (self._ingress, self._proxies) if one is not None]
        with contextlib.suppress(asyncio.TimeoutError):
            told = asyncio.gather(*(one.acknowledged() for one in servers))
            await asyncio.wait_for(told, _ACKNOWLEDGED_S)
        await self._watches.acknowledged(key, _ACKNOWLEDGED_S)

    # --- the ingress, and what outlives this process

    def _tell_ingress(self) -> None:
        if self._ingress is not None:
            self._ingress.tell(self._view.routes())
        self._tell_proxies()

    def _tell_proxies(self) -> None:
        """Servers are where replicas are, and know of all of them."""
        told = {*self._actors, *self._view.dead()}
        self._where = {one: place for one, place in self._where.items() if one in told}
        self._chosen = {one: node for one, node in self._chosen.items() if one in self._actors}
        if self._proxies is None:
            return
        running = {
            one.id for known in self._view.deployments() for one in self._view.running(known.id)
        }
        self._routing = {one: told for one, told in self._routing.items() if one in self._actors}
        self._ports = {one: port for one, port in self._ports.items() if one in self._actors}
        self._proxies.update(self._where[one].node for one in running if one in self._where)
        if len(self._proxies):
            for replica in running - self._ports.keys():
                self._go(self._open_port(replica))

    async def _open_port(self, replica: str) -> None:
        """Have a replica of this node listen for servers of others, too."""
        actor = self._actors.get(replica)
        if actor is None or replica in self._ports or self._node_of(replica) != self._node:
            return
        with contextlib.suppress(RayActorError):  # who follows it knows
            self._ports[replica] = await actor.open_port.remote()
            self._tell_proxies()

    def _routes_elsewhere(self) -> tuple[list[dict[str, str]], dict[str, dict[str, Any]]]:
        """The routes for servers of other nodes, which reach no socket of this one."""
        routes, deployments = self._view.routes()
        for row in deployments.values():
            row["replicas"] = [
                {**one, "address": self._ports.get(one["id"], one["address"])}
                for one in row["replicas"]
                if one["id"] in self._ports or not one["address"].startswith("/")
            ]
        return routes, deployments

    def _save_soon(self) -> None:
        if self._is_saved and not self._is_over:
            self._is_saved = False
            asyncio.get_running_loop().call_soon(self._save)

    def _save(self) -> None:
        self._is_saved = True
        if not self._is_over:
            self._storage.save({**saved(self._machine), "groups": self._groups.saved()})

    def _recover(self, state: dict[str, Any]) -> None:
        """This process follows one that has died: its replicas are still there, or they are not."""
        self._machine = restored(state, self._now())
        self._view = self._machine.view
        self._groups.restore(state["groups"])
        loop = asyncio.get_running_loop()
        for key, replica, *_ in state["replicas"]:
            known = self._view.deployment(key)
            if known is None:
                continue
            try:
                self._actors[replica] = ray.get_actor(replica, namespace=specs.NAMESPACE)
            except ValueError as error:
                loop.call_soon(self._lost, replica, str(error))
            else:
                self._go(self._follow(replica, key, known.spec))
        for stop in state["stopping"]:
            with contextlib.suppress(ValueError):  # it has ended
                actor = ray.get_actor(stop.replica, namespace=specs.NAMESPACE)
                self._actors[stop.replica] = actor
            self._go(self._stop(stop.replica, stop.deployment, stop.timeout_s))
        self._go(self._start_again())

    async def _start_again(self) -> None:
        await self.start()
        for known in self._view.deployments():
            for actor in known.actors:
                self._supervisor.adopt(actor)
        self._apply(Resume())

    def _lost(self, replica: str, why: str) -> None:
        self._unplace(replica)
        self._apply(Died(replica, why))
