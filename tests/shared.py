"""The one cluster of the test process, so that tests need not start one each."""

from __future__ import annotations

from typing import Any

import harness
import ray


class SharedCluster:
    """One running cluster at a time; tests of a module that ask for the same one share it."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.context: Any = None
        self.poisoned = False
        self.sessions: list[tuple[harness.Session, set[str]]] = []

    def start(self, key: str | None = None, **options: Any) -> Any:
        if key is not None and key == self.key and ray.is_initialized() and not self.poisoned:
            return self.context
        self.stop()
        options.setdefault("address", "local")
        options.setdefault("include_dashboard", False)
        self.context = ray.init(**options)
        self.key = key
        session = harness.session_of(self.context)
        self.sessions.append((session, session.shared_memory()))
        return self.context

    def stop(self) -> None:
        self.key = None
        self.poisoned = False
        ray.shutdown()

    def assert_nothing_left(self) -> None:
        sessions, self.sessions = self.sessions, []
        for session, shared_memory in sessions:
            session.assert_gone(shared_memory)


cluster = SharedCluster()
