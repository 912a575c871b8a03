"""The HTTP servers of other nodes, with ``proxy_location: EveryNode``: one on each machine with a replica.

Whoever balances requests over machines sends them to those that answer at Serve's port, as Kubernetes does
for a RayService. Each server knows all replicas, wherever they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.exceptions import RayActorError
from heliostat.serve.controller.ingress import Ingress, Table
from heliostat.serve.controller.tasks import Tasks
from heliostat.serve.options import HTTPOptions, TracingConfig, gRPCOptions
from heliostat.serve.schema import ProxyStatus
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

logger = logging.getLogger("ray.serve")

# How long is waited before a server that did not start is started again.
_AGAIN_S = 1.0

Counts = dict[str, list[int]]


class ProxyActor:
    """Starts the HTTP server of its node, and passes on what the controller says and what the server counts.

    The server outlives this process, which ends with the controller: the next one finds it by its socket.
    """

    def __init__(
        self,
        options: HTTPOptions,
        grpc: gRPCOptions,
        table: Table,
        traced: TracingConfig | None = None,
    ) -> None:
        self._ingress = Ingress(options, grpc, self._on_counts, table, traced)
        self._counts: Counts = {}
        self._news = asyncio.Event()

    def _on_counts(self, counts: Counts) -> None:
        self._counts = counts
        self._news.set()

    async def start(self) -> None:
        """Once the server runs. Raises ``RuntimeError`` with its words."""
        await self._ingress.start()

    async def tell(self, table: Table) -> None:
        """Have it serve those routes."""
        self._ingress.tell(table)

    async def acknowledged(self) -> None:
        """Once it serves what it was told last."""
        await self._ingress.acknowledged()

    async def counts(self) -> Counts:
        """Return the counts of the proxy, once they have changed."""
        await self._news.wait()
        self._news.clear()
        return self._counts

    async def stop(self) -> None:
        """End the server."""
        await self._ingress.stop()


class _Proxy:
    def __init__(self, host: str, actor: Any) -> None:
        self.host, self.actor = host, actor
        self.is_up = False


class Proxies:
    """``on_counts`` is told a node's id and what its server counts; ``table`` is what servers serve."""

    def __init__(
        self,
        options: HTTPOptions,
        grpc: gRPCOptions,
        on_counts: Callable[[str, Counts], None],
        table: Callable[[], Table],
        traced: TracingConfig | None = None,
    ) -> None:
        here = serving.session()
        self._options, self._on_counts, self._table = options, on_counts, table
        self._grpc, self._traced = grpc, traced
        self._own = (here["node_id"], here["host"])
        self._all: dict[str, _Proxy] = {}
        self._wanted: set[str] = set()
        self._tasks = Tasks()

    def __len__(self) -> int:
        return len(self._all)

    def update(self, nodes: Iterable[str]) -> None:
        """Have servers on those nodes, and tell all of them what there is now."""
        self._wanted = set(nodes) - {self._own[0]}
        for node in self._all.keys() - self._wanted:
            self._tasks.start(self._end(self._all.pop(node)))
        for proxy in self._all.values():
            proxy.actor.tell.remote(self._table())
        missing = self._wanted - self._all.keys()
        if missing:
            hosts = {
                row["NodeID"]: row["NodeManagerAddress"] for row in ray.nodes() if row["Alive"]
            }
            for node in sorted(missing & hosts.keys()):
                # Nodes of one machine would meet at its port.
                if hosts[node] not in {self._own[1], *(one.host for one in self._all.values())}:
                    self._start(node, hosts[node])

    def _start(self, node: str, host: str) -> None:
        actor = (
            ray.remote(ProxyActor)
            .options(
                num_cpus=0,
                max_concurrency=1000,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(self._options, self._grpc, self._table(), self._traced)
        )
        proxy = self._all[node] = _Proxy(host, actor)
        self._tasks.start(self._follow(node, proxy))

    async def _follow(self, node: str, proxy: _Proxy) -> None:
        """A server's life."""
        try:
            await proxy.actor.start.remote()
            proxy.is_up = True
            # Changes while the server started.
            proxy.actor.tell.remote(self._table())
            while True:
                self._on_counts(node, await proxy.actor.counts.remote())
        except RayActorError as error:
            logger.info("The HTTP server's actor on node %s has ended: %s", proxy.host, error)
        except Exception as error:
            logger.error("There is no HTTP server of Serve on node %s: %s", proxy.host, error)
            ray.kill(proxy.actor)
        proxy.is_up = False
        await asyncio.sleep(_AGAIN_S)
        if self._all.get(node) is proxy:
            del self._all[node]
            self.update(self._wanted)

    async def _end(self, proxy: _Proxy) -> None:
        with contextlib.suppress(Exception):
            await proxy.actor.stop.remote()
        with contextlib.suppress(Exception):
            ray.kill(proxy.actor)

    async def acknowledged(self) -> None:
        """Once all serve what they were told last."""
        asked = [one.actor.acknowledged.remote() for one in self._all.values() if one.is_up]
        for answer in asked:
            with contextlib.suppress(RayActorError):
                await answer

    async def stop(self) -> None:
        """End all servers, and wait for that."""
        self._wanted = set()
        all_of_them, self._all = list(self._all.values()), {}
        await asyncio.gather(*(self._end(one) for one in all_of_them))

    def status(self) -> dict[str, ProxyStatus]:
        """The state of the servers, by node."""
        states = {True: ProxyStatus.HEALTHY, False: ProxyStatus.STARTING}
        return {node: states[one.is_up] for node, one in self._all.items()}

    def hosts(self) -> dict[str, str]:
        """Their machines, by node."""
        return {node: one.host for node, one in self._all.items()}
