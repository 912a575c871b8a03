"""The HTTP servers of a controller: none, that of its node, or one on each machine that has a replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from heliostat.serve.controller.ingress import Ingress, Table
from heliostat.serve.controller.proxies import Counts, Proxies
from heliostat.serve.controller.replica_supervisor import ReplicaSupervisor
from heliostat.serve.controller.view import View
from heliostat.serve.options import HTTPOptions, ProxyLocation, TracingConfig, gRPCOptions
from heliostat.serve.schema import ProxyStatus


class Servers:
    """``on_counts`` is told a server and the requests that it has of each deployment."""

    def __init__(
        self,
        options: HTTPOptions,
        grpc: gRPCOptions,
        location: ProxyLocation,
        traced: TracingConfig | None,
        view: View,
        replicas: ReplicaSupervisor,
        on_counts: Callable[[str, Counts], None],
    ) -> None:
        self._options, self._grpc, self._location = options, grpc, location
        self._traced, self._on_counts = traced, on_counts
        self._view, self._replicas = view, replicas
        self._ingress: Ingress | None = None
        self._proxies: Proxies | None = None  # on other nodes

    async def start(self) -> None:
        """Have the servers run, unless they do.

        Raises:
            RuntimeError: That of this node does not start, with its words.
        """
        if self._ingress is not None or self._location is ProxyLocation.Disabled:
            return
        ingress = self._ingress = Ingress(
            self._options,
            self._grpc,
            lambda counts: self._on_counts("ingress", counts),
            self._view.routes(),
            self._traced,
        )
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
            self.follow_replicas()

    def tell(self) -> None:
        """Have all serve the routes of now."""
        if self._ingress is not None:
            self._ingress.tell(self._view.routes())
        self.follow_replicas()

    def follow_replicas(self) -> None:
        """Have servers where replicas are, each of which knows all replicas."""
        if self._proxies is None:
            return
        running = {
            one.id for known in self._view.deployments() for one in self._view.running(known.id)
        }
        self._proxies.update(self._replicas.nodes(running))
        if len(self._proxies):
            self._replicas.open_ports(running)

    def _routes_elsewhere(self) -> Table:
        """The routes for servers of other nodes, which reach no socket of this one."""
        routes, deployments = self._view.routes()
        for row in deployments.values():
            reachable: list[dict[str, Any]] = []
            for one in row["replicas"]:
                address = self._replicas.address_elsewhere(one["id"], one["address"])
                if address is not None:
                    reachable.append({**one, "address": address})
            row["replicas"] = reachable
        return routes, deployments

    async def acknowledged(self) -> None:
        """Return once all serve what they were told last."""
        servers = [one for one in (self._ingress, self._proxies) if one is not None]
        await asyncio.gather(*(one.acknowledged() for one in servers))

    async def stop(self) -> None:
        """End all servers, and wait for that."""
        if self._proxies is not None:
            await self._proxies.stop()
            self._proxies = None
        if self._ingress is not None:
            await self._ingress.stop()
            self._ingress = None

    def status(self, node: str) -> dict[str, ProxyStatus]:
        """The state of the servers, by node; ``node``: this one."""
        states = {}
        if self._ingress is not None:
            up = self._ingress.is_up
            states[node] = ProxyStatus.HEALTHY if up else ProxyStatus.UNHEALTHY
        if self._proxies is not None:
            states |= self._proxies.status()
        return states

    def hosts(self) -> dict[str, str]:
        """The machines of the servers of other nodes, by node."""
        return {} if self._proxies is None else self._proxies.hosts()
