"""Routers that wait to hear of changes of a deployment, and those that do not know the last one yet."""

from __future__ import annotations

import asyncio

from heliostat.serve.specs import DeploymentID


class _Watch:
    def __init__(self) -> None:
        self.version = 0
        self.waiting: dict[str, asyncio.Future[None]] = {}
        # Routers that were told of a change and have not called again.
        self.behind: set[str] = set()
        self.caught_up = asyncio.Event()


class Watches:
    """By deployment. A router that calls again knows of what it was told."""

    def __init__(self) -> None:
        self._all: dict[DeploymentID, _Watch] = {}

    def _of(self, key: DeploymentID) -> _Watch:
        return self._all.setdefault(key, _Watch())

    def version(self, key: DeploymentID) -> int:
        """Return the number of the last change."""
        return self._of(key).version

    def changed(self, key: DeploymentID) -> None:
        """Tell the routers that wait. One that was told of an earlier change hears when it calls again."""
        watch = self._of(key)
        watch.version += 1
        waiting, watch.waiting = watch.waiting, {}
        for router, news in waiting.items():
            if not news.done():
                watch.behind.add(router)
                news.set_result(None)

    async def wait(self, key: DeploymentID, router: str, version: int) -> None:
        """Return once the deployment is not as that version says."""
        watch = self._of(key)
        if version != watch.version:
            watch.behind.add(router)
            return
        watch.behind.discard(router)
        if not watch.behind:
            watch.caught_up.set()
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch.waiting[router] = news
        try:
            await news
        finally:
            if watch.waiting.get(router) is news:
                del watch.waiting[router]

    async def acknowledged(self, key: DeploymentID, timeout_s: float) -> None:
        """Return once every router that was told of a change knows the last one.

        A router that does not call within that time has ended, and is not waited for again.
        """
        watch = self._of(key)
        if not watch.behind:
            return
        watch.caught_up.clear()
        try:
            await asyncio.wait_for(watch.caught_up.wait(), timeout_s)
        except asyncio.TimeoutError:
            watch.behind.clear()
