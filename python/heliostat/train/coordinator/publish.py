"""Making a complete report's checkpoint visible, and removing those that are no longer kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.coordinator.attempt import pick
from heliostat.train.coordinator.checkpoint_book import CheckpointBook
from heliostat.train.messages import ReportEntry
from heliostat.train.reported import ReportedCheckpointStatus as Status
from heliostat.train.storage.base import SNAPSHOT_FILE, Storage


def new_name() -> str:
    """A folder name for a checkpoint that is published now."""
    return datetime.now().strftime("checkpoint_%Y-%m-%d_%H-%M-%S.%f")


class Publisher:
    """Owns the storage and the book of checkpoints."""

    def __init__(self, storage: Storage, book: CheckpointBook) -> None:
        self.book = book
        self._storage = storage
        # A local rename takes microseconds and stays on the loop; an object store does not.
        self._remote = storage.filesystem is not None
        self._doomed: list[str] = list(book.leaving)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def latest(self) -> str | None:
        """Name of the checkpoint from which a restart begins."""
        return self.book.latest.name if self.book.latest else None

    async def publish(
        self,
        stage: str,
        entries: dict[int, ReportEntry],
        name: str | None,
        index: int,
        world_size: int | None = None,
    ) -> str:
        """Give the staged files of report ``index`` their name and record them."""
        external = [e.external for e in entries.values() if e.external]
        if external:
            final = self._relative(external[0])
        else:
            final = name or self._choose_name(entries)
            await self.claim(final)
            await self._do(self._storage.publish, stage, final)
            if (only := self._files_of_the_living(entries, world_size)) is not None:
                await self._do(self._storage.retain, final, only)
        before = list(self.book.entries), list(self.book.leaving)
        asked = [e.validation for _, e in sorted(entries.items()) if e.validation is not None]
        pending = vars(asked[0]) if asked else None
        doomed = self.book.add(final, pick(entries).metrics, index, pending, world_size)
        try:
            await self._do(self._storage.write, SNAPSHOT_FILE, self.book.to_json())
        except BaseException:
            self.book.entries, self.book.leaving = before
            raise
        self._doomed += doomed
        return final

    async def claim(self, name: str) -> None:
        """Have nobody remove a folder of that name: it is one of the user's own that comes again."""
        if name in self.book.leaving:
            await self.settle()
            self._doomed = [gone for gone in self._doomed if gone != name]

    def _choose_name(self, entries: dict[int, ReportEntry]) -> str:
        names = {e.dir_name for e in entries.values() if e.dir_name}
        if len(names) > 1:
            raise ValueError(
                f"The ranks name the checkpoint differently: {sorted(names)}. Give the same "
                "checkpoint_dir_name on every rank."
            )
        return names.pop() if names else new_name()

    @staticmethod
    def _files_of_the_living(
        entries: dict[int, ReportEntry], world_size: int | None
    ) -> set[str] | None:
        """The files of a report that some ranks have not come to; None: all that lies there.

        A rank that was lost as it reported may have left files. They can be those of a step that the
        others have made anew without it.
        """
        named = [e.files for e in entries.values() if e.staged]
        if len(entries) == world_size or not named or None in named:
            return None
        return {file for files in named if files is not None for file in files}

    def _relative(self, external: tuple[str, Any]) -> str:
        """The name inside the run of a checkpoint that the user stored there."""
        path = external[0]
        root = self._storage.path.rstrip("/") + "/"
        return path[len(root) :] if path.startswith(root) else path

    async def validated(self, name: str, status: Status, metrics: dict[str, Any]) -> None:
        """Record how the validation of a checkpoint ended."""
        self._doomed += self.book.validated(name, status, metrics)
        await self._do(self._storage.write, SNAPSHOT_FILE, self.book.to_json())

    async def release(self) -> None:
        """No worker begins from the held checkpoint any more."""
        if doomed := self.book.release():
            await self._do(self._storage.write, SNAPSHOT_FILE, self.book.to_json())
            self._doomed += doomed

    def checkpoint(self, name: str) -> Checkpoint:
        """The checkpoint that the book calls ``name``."""
        path = name if os.path.isabs(name) else self._storage.join(name)
        return Checkpoint(path, self._storage.filesystem)

    async def abandon(self, stage: str, name: str | None) -> None:
        """Give up the checkpoint of what was brought for ``stage``, or has its final ``name``."""
        if name is not None:
            self.discard([name])
        await self._do(self._storage.abandon, stage)

    def discard(self, names: Iterable[str]) -> None:
        """Have folders removed that no checkpoint became of."""
        kept = {entry.name for entry in self.book.entries}
        self._doomed += [name for name in names if name not in kept]

    def prune_soon(self, emit: Callable[[str, dict[str, Any]], None]) -> None:
        """Remove what is no longer kept, behind the back of the training."""
        if self._doomed:
            names, self._doomed = self._doomed, []
            emit("deleted", {"names": names})
            task = asyncio.ensure_future(self._prune(names))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _prune(self, names: list[str]) -> None:
        for name in names:
            if not os.path.isabs(name):
                try:
                    await asyncio.to_thread(self._storage.delete, name)
                except Exception:  # storage of any kind: a later coordinator tries again
                    continue
            if name in self.book.leaving:  # the next snapshot says so
                self.book.leaving.remove(name)

    async def settle(self) -> None:
        """Wait for removals that are under way."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def clear_staging(self) -> None:
        """Remove what interrupted uploads have left."""
        await self._do(self._storage.clear_staging)

    async def _do(self, call: Callable[..., Any], *args: Any) -> None:
        if self._remote:
            await asyncio.to_thread(call, *args)
        else:
            call(*args)
