"""The view of applications for the head's page: replicas, and their latest work.

Replicas say what they did with each answer to a health check, the HTTP servers and routers what is open and
what waits when that changes. A row of each application is written every few seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from heliostat.serve.controller import details
from heliostat.serve.controller.view import View
from heliostat.serve.replica.meter import Figures, quantile
from heliostat.serve.specs import DeploymentID
from heliostat.util.row_writer import Past, RowWriter

NAMESPACE = "_serve_runs"
EVERY_S = 2.0
# LIMIT-1: points of the past of a deployment, and replicas of it that are told of.
_POINTS, _REPLICAS = 120, 200
# Replicas answer health checks every 10 s unless told otherwise. Of those that are silent for longer the
# rate is 0.
_SILENT_S = 25.0
# A row without news is written again after so many seconds.
_AGAIN_S = 15.0


@dataclass
class _Deployment:
    past: Past = field(default_factory=lambda: Past(_POINTS))
    # Since the last point.
    requests: int = 0
    errors: int = 0
    latencies: Counter[int] = field(default_factory=Counter)
    at: float = field(default_factory=time.monotonic)
    measured: tuple[float | None, ...] = (None, None, None, None)


class ApplicationReporter:
    """Tells of the applications of one controller."""

    def __init__(self) -> None:
        self._all: dict[DeploymentID, _Deployment] = {}
        self._replicas: dict[str, dict[str, Any]] = {}
        self._open: dict[tuple[str, DeploymentID], tuple[int, int]] = {}
        self._rows: dict[str, RowWriter] = {}
        self._written: dict[str, tuple[Any, float]] = {}

    def took(self, key: DeploymentID, replica: str, figures: Figures | None) -> None:
        """A replica has said what it did since it was asked the last time."""
        if figures is None:  # a replica that an older controller has started
            return
        one = self._all.setdefault(key, _Deployment())
        one.requests += figures.requests
        one.errors += figures.errors
        one.latencies.update(figures.latencies)
        self._replicas[replica] = {
            "ongoing": figures.ongoing,
            "requests_per_s": figures.requests / max(figures.seconds, 1e-3),
            "p50_ms": quantile(figures.latencies, 0.5),
            "p99_ms": quantile(figures.latencies, 0.99),
        }

    def counted(self, source: str, key: DeploymentID, ongoing: int, waiting: int) -> None:
        """An HTTP server or a router has so many requests open, and so many of them wait."""
        if ongoing or waiting:
            self._open[source, key] = ongoing, waiting
        else:
            self._open.pop((source, key), None)

    def rows(
        self, view: View, actors: dict[str, Any], nodes: dict[str, str], http: dict[str, Any]
    ) -> Iterator[tuple[RowWriter, dict[str, Any], bool]]:
        """The rows to write: of each application, and at last of those that are gone."""
        there = {replica.id for known in view.deployments() for replica in known.replicas}
        self._replicas = {name: one for name, one in self._replicas.items() if name in there}
        self._all = {key: one for key, one in self._all.items() if key in view}
        for name in view.apps:
            row = self._rows.get(name)
            if row is None:
                row = self._rows[name] = RowWriter(NAMESPACE, name, EVERY_S, run_id=name)
            seen = self._app(view, name, actors, nodes, http)
            if self._is_new(name, seen):
                yield row, seen, False
        for name in [name for name in self._rows if name not in view.apps]:
            self._written.pop(name, None)
            yield self._rows.pop(name), {}, True

    def _is_new(self, name: str, seen: dict[str, Any]) -> bool:
        """Whether anything but the time has changed, or the page would think that nobody tells any more."""
        plain = [
            {**one, "past": one["past"][-1:] and one["past"][-1][1:]} for one in seen["deployments"]
        ]
        now, said = time.monotonic(), {**seen, "deployments": plain}
        before, at = self._written.get(name, (None, 0.0))
        if said == before and now - at < _AGAIN_S:
            return False
        self._written[name] = said, now
        return True

    def _app(
        self,
        view: View,
        name: str,
        actors: dict[str, Any],
        nodes: dict[str, str],
        http: dict[str, Any],
    ) -> dict[str, Any]:
        told = details.app_of(view, view.apps[name], actors)
        deployments = []
        for key in [known.id for known in view.deployments(name)]:
            about = told["deployments"].get(key.name, {})
            replicas = about.get("replicas", [])
            # Counts of all, also of those that the row leaves out.
            running = sum(one["state"] == "RUNNING" for one in replicas)
            deployments.append(
                {
                    "name": key.name,
                    "state": about.get("status", ""),
                    "message": about.get("message", ""),
                    "target": about.get("target_num_replicas", 0),
                    "running": running,
                    "past": self._point(key, running, [one["replica_id"] for one in replicas]),
                    "replicas": [
                        {
                            "id": one["replica_id"],
                            "state": one["state"],
                            "pid": one["pid"],
                            "actor_id": one["actor_id"],
                            "node_id": nodes.get(one["replica_id"], ""),
                            "since": one["start_time_s"],
                            **self._replicas.get(one["replica_id"], {}),
                        }
                        for one in replicas[:_REPLICAS]
                    ],
                    "left_out": max(0, len(replicas) - _REPLICAS),
                }
            )
        return {
            "state": told["status"],
            "message": told["message"],
            "route_prefix": told["route_prefix"],
            "deployed_at": told["last_deployed_time_s"],
            "http": http,
            "deployments": deployments,
        }

    def _point(
        self, key: DeploymentID, running: int, replicas: Iterable[str]
    ) -> list[list[float | None]]:
        """Add what there is now to the past; figures of replicas are as of their last answers."""
        one, now = self._all.setdefault(key, _Deployment()), time.monotonic()
        sources = [of for (_, which), of in self._open.items() if which == key]
        ongoing, waiting = (sum(of[at] for of in sources) for at in (0, 1))
        # Calls of handles are known to the replicas alone.
        known = [self._replicas.get(replica) for replica in replicas]
        ongoing = max(ongoing, waiting + sum(of["ongoing"] for of in known if of))
        if one.latencies or one.requests:
            seconds = max(now - one.at, 1e-3)
            one.measured = (
                one.requests / seconds,
                one.errors / seconds,
                quantile(one.latencies, 0.5),
                quantile(one.latencies, 0.99),
            )
            one.requests = one.errors = 0
            one.latencies.clear()
            one.at = now
        elif now - one.at > _SILENT_S:
            one.measured = (0.0, 0.0, None, None)
        one.past.add(time.time(), float(running), float(ongoing), float(waiting), *one.measured)
        return one.past.points


def written(rows: Iterable[tuple[RowWriter, dict[str, Any], bool]]) -> None:
    """Write the rows where the page reads them; those that are gone are removed."""
    for row, seen, is_gone in rows:
        if is_gone:
            row.remove()
        else:
            row.write(seen)
