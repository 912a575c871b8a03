"""Who waits to hear of a change of a deployment, and who has yet to say that it heard of one."""

from __future__ import annotations

import asyncio

from heliostat.serve.specs import DeploymentID


class _Watch:
    def __init__(self) -> None:
        self.version = 0
        self.waiting: list[asyncio.Future[None]] = []
        self.owed = 0  # routers that were told of a change and have not called again
        self.paid = asyncio.Event()


class Watches:
    """By deployment. A router that calls again knows of what it was told."""

    def __init__(self) -> None:
        self._all: dict[DeploymentID, _Watch] = {}

    def _of(self, key: DeploymentID) -> _Watch:
        return self._all.setdefault(key, _Watch())

    def version(self, key: DeploymentID) -> int:
        """Which change was the last."""
        return self._of(key).version

    def changed(self, key: DeploymentID) -> None:
        """Tell those who wait."""
        watch = self._of(key)
        watch.version += 1
        waiting, watch.waiting = watch.waiting, []
        told = [one for one in waiting if not one.done()]
        watch.owed = len(told)
        watch.paid = asyncio.Event()
        if not told:
            watch.paid.set()
        for one in told:
            one.set_result(None)

    async def wait(self, key: DeploymentID) -> None:
        """Until it changes."""
        watch = self._of(key)
        self._pay(watch)
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch.waiting.append(news)
        try:
            await news
        finally:
            if news in watch.waiting:
                watch.waiting.remove(news)

    def _pay(self, watch: _Watch) -> None:
        watch.owed -= 1
        if watch.owed <= 0:
            watch.paid.set()

    async def acknowledged(self, key: DeploymentID) -> None:
        """Once all who were told of the last change know of it."""
        watch = self._of(key)
        if watch.owed > 0:
            await watch.paid.wait()
