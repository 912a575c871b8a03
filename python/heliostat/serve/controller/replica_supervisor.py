"""Starts, follows and stops the replicas of all deployments, and tells the machine what came of it.

A replica's actor is known from its start until its end is certain. Where it ran stays known for as long as
the machine tells of it among those that have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.exceptions import RayActorError, RuntimeEnvSetupError
from heliostat.serve import specs
from heliostat.serve.controller import node_choice
from heliostat.serve.controller.events import (
    Died,
    Event,
    Reconfigure,
    Start,
    Started,
    StartFailed,
    Stop,
    Stopped,
)
from heliostat.serve.controller.health import EXPECTED_SLEEP_S
from heliostat.serve.controller.ranks import DeploymentRanks, Rank, RankUpdate
from heliostat.serve.controller.replica_groups import ReplicaGroups
from heliostat.serve.controller.tasks import Tasks
from heliostat.serve.controller.view import View
from heliostat.serve.options import LoggingConfig, TracingConfig
from heliostat.serve.replica.actor import ReplicaActor
from heliostat.serve.replica.meter import Figures
from heliostat.serve.specs import DeploymentID, ReplicaLocation, ReplicaPlace
from heliostat.util.placement_group import PlacementGroup
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

logger = logging.getLogger("ray.serve")

# Calls that a replica may hold besides those that its deployment has at a time: they wait within it.
_CALLS_MAX = 1_000_000
# Health checks that may fail, or time out, one after the other.
_MISSED_MAX = 3
_EXITED = "its code has called exit_actor()"


@dataclass(frozen=True)
class ReplicaSettings:
    """The settings that each replica of a controller gets besides its deployment."""

    logging: LoggingConfig | None
    root_path: str
    servicers: tuple[str, ...]
    traced: TracingConfig | None


@dataclass(frozen=True)
class Listener:
    """The functions by which a supervisor tells its controller."""

    apply: Callable[[Event], None]  # an event for the machine
    moved: Callable[[], None]  # replicas can be reached by others than before
    reconfigured: Callable[[], None]  # a replica has its configuration, or never will
    changed: Callable[[], None]  # there is another state to save
    measured: Callable[[DeploymentID, str, Figures | None], None]  # of a replica, by itself
    # Once routers and HTTP servers know the last table of a deployment.
    acknowledged: Callable[[DeploymentID], Awaitable[None]]


class ReplicaSupervisor:
    """The replicas of one controller."""

    def __init__(self, view: View, settings: ReplicaSettings, listener: Listener) -> None:
        self._view, self._settings, self._listener = view, settings, listener
        self._node = ray.get_runtime_context().get_node_id()
        self._tasks = Tasks()
        self._actors: dict[str, Any] = {}
        self._locations: dict[str, ReplicaLocation] = {}
        self._metadata: dict[str, dict[str, Any]] = {}  # what they said of themselves
        self._chosen: dict[str, str] = {}  # nodes of replicas that may not go to any
        self._groups = ReplicaGroups(listener.changed)
        self._ranks = DeploymentRanks()
        # The models that replicas have loaded, and what they have recorded, for routers of users' own.
        self._routing: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}
        self._ports: dict[str, str] = {}  # by which other nodes reach replicas of this one
        self._reconfiguring: list[str] = []

    # --- the machine's actions

    def start(self, action: Start) -> None:
        """Start a replica and follow it to its end."""
        self._tasks.start(self._start(action))

    def reconfigure(self, action: Reconfigure) -> None:
        """Give a replica another configuration; one that does not take it is replaced."""
        self._reconfiguring.append(action.replica)
        self._tasks.start(self._reconfigure(action))

    def stop(self, action: Stop) -> None:
        """Have a replica end."""
        self._tasks.start(self._stop(action))

    def settle_ranks(self, key: DeploymentID) -> None:
        """Have the replicas of a deployment know their ranks, now that some of them may have come or gone."""
        known = self._view.deployment(key)
        there = set() if known is None else {one.id for one in known.replicas}
        target = 0 if known is None else known.target
        running = [one.id for one in self._view.running(key)]
        for told in self._ranks.settle(key, there, running, target):
            actor = self._actors.get(told.replica)
            if actor is not None:
                self._tasks.start(self._tell_rank(actor, told))

    # --- replicas of the controller before this one

    def adopt(self, replica: str, key: DeploymentID) -> None:
        """Follow a replica that is there already, or tell the machine that it is not."""
        try:
            self._actors[replica] = ray.get_actor(replica, namespace=specs.NAMESPACE)
        except ValueError as error:
            # Later: what the machine answers needs all replicas that are there.
            asyncio.get_running_loop().call_soon(self._on_lost, replica, str(error))
        else:
            self._tasks.start(self._follow(replica, key))

    def adopt_stopping(self, action: Stop) -> None:
        """Stop a replica whose stop had begun."""
        with contextlib.suppress(ValueError):  # it has ended
            actor = ray.get_actor(action.replica, namespace=specs.NAMESPACE)
            self._actors[action.replica] = actor
        self.stop(action)

    def groups(self) -> dict[str, PlacementGroup]:
        """Return the placement groups by replica, for a later controller."""
        return self._groups.saved()

    def restore_groups(self, groups: dict[str, PlacementGroup]) -> None:
        """Take over the placement groups of an earlier controller."""
        self._groups.restore(groups)

    # --- what is known of replicas

    def actor(self, replica: str) -> Any:
        """Return a replica's handle; ``None`` before its start and after its end."""
        return self._actors.get(replica)

    def actors(self) -> dict[str, Any]:
        """Return the handles of the replicas that have begun and not ended."""
        return {**self._actors}

    def locations(self) -> dict[str, ReplicaLocation]:
        """The locations of replicas, those that have ended and are still told of included."""
        return {**self._locations}

    def place(self, replica: str, address: str) -> ReplicaPlace | None:
        """The facts that routers need of a replica; ``None`` where it has ended."""
        actor = self._actors.get(replica)
        if actor is None:
            return None
        models, stats = self._routing.get(replica, ((), {}))
        where = self._locations.get(replica)
        host = "" if where is None else where.host
        said = self._metadata.get(replica, {})
        node = self._node_of(replica)
        return ReplicaPlace(replica, actor, address, node, models, stats, host, said)

    def is_reconfiguring(self, replica: str) -> bool:
        """Whether a replica has not taken its last configuration yet."""
        return replica in self._reconfiguring

    def record_routing(self, replica: str, models: tuple[str, ...], stats: dict[str, Any]) -> bool:
        """Keep what a replica tells routers of users' own; return whether it is news."""
        if replica not in self._actors or self._routing.get(replica) == (models, stats):
            return False
        self._routing[replica] = models, stats
        return True

    def forget_ended(self) -> None:
        """Forget all of replicas that have ended, but where those were that are still told of."""
        told = {*self._actors, *self._view.dead()}
        self._locations = {one: place for one, place in self._locations.items() if one in told}
        self._chosen = {one: node for one, node in self._chosen.items() if one in self._actors}
        self._routing = {one: said for one, said in self._routing.items() if one in self._actors}
        self._ports = {one: port for one, port in self._ports.items() if one in self._actors}

    # --- HTTP servers of other nodes

    def nodes(self, replicas: Iterable[str]) -> set[str]:
        """Return the nodes of these replicas."""
        return {self._locations[one].node for one in replicas if one in self._locations}

    def open_ports(self, replicas: Iterable[str]) -> None:
        """Have those of these replicas that are on this node listen for servers of others, too."""
        for replica in set(replicas) - self._ports.keys():
            self._tasks.start(self._open_port(replica))

    def address_elsewhere(self, replica: str, address: str) -> str | None:
        """The address by which other nodes reach a replica; ``None`` where it is a socket of this one."""
        port = self._ports.get(replica)
        return port or (None if address.startswith("/") else address)

    async def _open_port(self, replica: str) -> None:
        actor = self._actors.get(replica)
        if actor is None or replica in self._ports or self._node_of(replica) != self._node:
            return
        with contextlib.suppress(RayActorError):  # `_follow` hears of it
            self._ports[replica] = await actor.open_port.remote()
            self._listener.moved()

    # --- a replica's life

    async def _start(self, action: Start) -> None:
        spec, key, settings = action.spec, action.deployment, self._settings
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
                    settings.logging,
                    settings.root_path,
                    self._view.target(key),
                    settings.servicers,
                    settings.traced,
                    None if action.gang is None else action.gang.seen_by(key, action.replica),
                )
            )
        except Exception:
            # Its placement group would stay reserved.
            self._release(action.replica)
            self._listener.apply(StartFailed(action.replica, traceback.format_exc()))
            return
        self._actors[action.replica] = actor
        await self._follow(action.replica, key)

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
            nodes = [node_choice.Node(row["node_id"], row["available"]) for row in rows]
            node = node_choice.place(config, nodes, [one for one in places if one])
            if node is not None:
                self._chosen[action.replica] = node
                return node
            # Nothing tells that resources are free again.
            await asyncio.sleep(EXPECTED_SLEEP_S)

    def _node_of(self, replica: str) -> str:
        where = self._locations.get(replica)
        return "" if where is None else where.node

    async def _follow(self, replica: str, key: DeploymentID) -> None:
        """Follow a replica from its constructor to its end."""
        actor = self._actors[replica]
        try:
            where = self._locations[replica] = await actor.location.remote()
            known = None if where.ranks is None else Rank(*where.ranks)
            size = self._view.target(key)
            rank = self._ranks.take(key, replica, where.node, known, size)
            address = await actor.initialize.remote(self._node, tuple(rank))
            self._metadata[replica] = await actor.metadata.remote()
        except Exception as error:
            self._actors.pop(replica, None)
            with contextlib.suppress(Exception):
                ray.kill(actor)
            self._release(replica)
            # The node has tried what is worth a second try; others of the job hear the same words.
            is_final = isinstance(error, RuntimeEnvSetupError)
            self._listener.apply(Died(replica, str(error), is_final))
            return
        self._listener.apply(Started(replica, address, where.pid))
        # For one that the controller before has started, nothing else has changed.
        self._listener.moved()
        self._tasks.start(self._watch_health(replica, key))
        try:
            why = _EXITED if await actor.until_end.remote() else ""
        except Exception as error:
            why = str(error)
        if why:
            self._release(replica)
        if why and self._actors.pop(replica, None) is not None:
            self._listener.apply(Died(replica, why))

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
                self._listener.measured(key, replica, figures)
                missed = 0
                continue
            except RayActorError:
                return  # `_follow` hears of it
            except asyncio.TimeoutError:
                why = f"check_health took longer than {config.health_check_timeout_s} s"
            except Exception as error:
                why = str(error)
            missed += 1
            if missed >= _MISSED_MAX and self._actors.pop(replica, None) is not None:
                logger.warning("Replica %s is not healthy and is replaced: %s", replica, why)
                self._listener.apply(Died(replica, why))
                ray.kill(actor)

    async def _tell_rank(self, actor: Any, told: RankUpdate) -> None:
        try:
            await actor.rank.remote(tuple(told.rank), told.world_size)
        except RayActorError:
            pass  # `_follow` hears of it
        except Exception as error:
            logger.error("Replica %s did not take its rank: %s", told.replica, error)

    async def _reconfigure(self, action: Reconfigure) -> None:
        actor = self._actors.get(action.replica)
        try:
            if actor is not None:
                await actor.reconfigure.remote(action.spec.config)
        except RayActorError:
            pass  # `_follow` hears of it
        except Exception as error:
            if actor is not None and self._actors.pop(action.replica, None) is not None:
                ray.kill(actor)
                self._listener.apply(Died(action.replica, str(error)))
        finally:
            self._reconfiguring.remove(action.replica)
            self._listener.reconfigured()

    async def _stop(self, action: Stop) -> None:
        key, timeout_s = action.deployment, action.timeout_s
        actor = self._actors.pop(action.replica, None)
        if actor is not None:
            if timeout_s is not None:
                await self._listener.acknowledged(key)
                # The replica itself may be what hangs.
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(_drained(actor, timeout_s), timeout_s + 5)
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._release(action.replica)
        self._listener.apply(Stopped(action.replica))
        self.settle_ranks(key)

    def _on_lost(self, replica: str, why: str) -> None:
        self._release(replica)
        self._listener.apply(Died(replica, why))

    def _release(self, replica: str) -> None:
        """Give back what a replica had that has ended."""
        self._metadata.pop(replica, None)
        self._groups.give_back(replica)


async def _drained(actor: Any, timeout_s: float) -> None:
    """Return once a replica has ended its requests, and itself."""
    if await actor.drain.remote(timeout_s):
        # Not killed: a call that is still on its way to it hears that it was not begun.
        with contextlib.suppress(RayActorError):
            await actor.leave.remote()
        with contextlib.suppress(RayActorError):
            while True:  # until it is gone
                await actor.until_end.remote()
