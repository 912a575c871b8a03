"""The measurements of the controller, under the names that Ray's dashboards ask for."""

from __future__ import annotations

from heliostat.serve.controller.view import View
from heliostat.serve.specs import DeploymentID
from heliostat.util.metrics import Counter, Gauge, forget

_TAGS = ("deployment", "application")


class Measurements:
    """The figures of one controller."""

    def __init__(self) -> None:
        self._healthy = Gauge(
            "serve_deployment_replica_healthy",
            "1 for each replica that takes requests.",
            (*_TAGS, "replica"),
        )
        # Ray has a task for each request that waits, which looks for room again and again. Here they are
        # woken when there is room: what waits is what would look again.
        self._waiting = [
            Gauge(name, "Requests that wait for a replica with room, at the HTTP servers.", _TAGS)
            for name in (
                "serve_deployment_queued_queries",
                "serve_num_scheduling_tasks",
                "serve_num_scheduling_tasks_in_backoff",
            )
        ]
        self._ongoing = Gauge(
            "serve_num_ongoing_http_requests", "Requests that the HTTP servers have open."
        )
        self._loops = Counter(
            "serve_controller_num_control_loops", "How often the controller has acted."
        )
        self._loop_s = Gauge(
            "serve_controller_control_loop_duration_s", "Seconds that it took the last time."
        )
        self._replicas: set[str] = set()
        self._counts: dict[str, dict[DeploymentID, tuple[int, int]]] = {}  # by HTTP server

    def acted(self, view: View, seconds: float) -> None:
        """Count a turn of the controller, in which replicas may have come and gone."""
        self._loops.inc()
        self._loop_s.set(seconds)
        there: set[str] = set()
        for known in view.deployments():
            for replica in view.running(known.id):
                there.add(replica.id)
                if replica.id not in self._replicas:
                    self._healthy.set(1, {**_tags(known.id), "replica": replica.id})
        for gone in self._replicas - there:
            forget("replica", gone)
        self._replicas = there

    def counted(self, source: str, counts: dict[DeploymentID, tuple[int, int]]) -> None:
        """An HTTP server has so many requests open, and so many of them wait."""
        before = self._counts.get(source, {})
        self._counts[source] = counts
        for key in {*before, *counts}:
            waiting = sum(of.get(key, (0, 0))[1] for of in self._counts.values())
            for gauge in self._waiting:
                gauge.set(waiting, _tags(key))
        ongoing = sum(open_ for of in self._counts.values() for open_, _ in of.values())
        self._ongoing.set(ongoing)


def _tags(key: DeploymentID) -> dict[str, str]:
    return {"deployment": key.name, "application": key.app_name}
