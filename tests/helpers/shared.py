"""The one cluster of the test process, so that tests need not start one each."""

from __future__ import annotations

import os
from typing import Any

import ray

from tests.helpers import afar_cluster, harness


class SharedCluster:
    """The running cluster, one at a time; tests of a module that ask for the same one share it."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.context: Any = None
        self.poisoned = False
        self.sessions: list[tuple[harness.Session, set[str]]] = []
        self.elsewhere: afar_cluster.AfarCluster | None = None

    def start(self, key: str | None = None, **options: Any) -> Any:
        if key is not None and key == self.key and ray.is_initialized() and not self.poisoned:
            return self.context
        self.stop()
        if afar_cluster.IS_WANTED and "address" not in options:
            return self._start_elsewhere(key, options)
        options.setdefault("address", "local")
        options.setdefault("include_dashboard", False)
        self.context = ray.init(**options)
        self.key = key
        session = harness.session_of(self.context)
        self.sessions.append((session, session.shared_memory()))
        return self.context

    def _start_elsewhere(self, key: str | None, options: dict[str, Any]) -> Any:
        options.pop("include_dashboard", None)
        of_head = {name: options.pop(name) for name in afar_cluster.OF_THE_HEAD if name in options}
        self.elsewhere = afar_cluster.AfarCluster(of_head)
        os.environ["HELIOSTAT_AUTH_TOKEN"] = self.elsewhere.token
        self.context = ray.init(self.elsewhere.address, **options)
        assert type(self.context).__name__ == "ClientContext"
        self.key = key
        return self.context

    def stop(self) -> None:
        self.key = None
        self.poisoned = False
        ray.shutdown()
        if self.elsewhere is not None:
            self.elsewhere.stop()
            self.elsewhere = None
            del os.environ["HELIOSTAT_AUTH_TOKEN"]

    def assert_nothing_left(self) -> None:
        sessions, self.sessions = self.sessions, []
        for session, shared_memory in sessions:
            session.assert_gone(shared_memory)


cluster = SharedCluster()
