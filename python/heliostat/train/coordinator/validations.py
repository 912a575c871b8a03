"""Validation tasks of a run: one at a time, behind the back of the training."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import heliostat as ray
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.reported import ReportedCheckpointStatus as Status
from heliostat.train.validation import ValidationConfig, ValidationTaskConfig, validate


class Validations:
    """Starts the tasks and hands on how they end."""

    def __init__(
        self,
        config: ValidationConfig | None,
        done: Callable[[str, Status, dict[str, Any], str], Awaitable[None]],
    ) -> None:
        """``done`` hears the name of the checkpoint, the status, its new metrics, and a text."""
        self._config = config
        self._done = done
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    def submit(self, name: str, checkpoint: Checkpoint, task: ValidationTaskConfig) -> None:
        """Validate a checkpoint when those before it are done."""
        if self._config is None or name in self._tasks:
            return
        job = asyncio.ensure_future(self._run(self._config, name, checkpoint, task))
        self._tasks[name] = job
        job.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def wait(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(
        self,
        config: ValidationConfig,
        name: str,
        checkpoint: Checkpoint,
        task: ValidationTaskConfig,
    ) -> None:
        async with self._turn:
            try:
                metrics = await _validate(config, checkpoint, task)
                status, text = Status.VALIDATED, ""
            except asyncio.TimeoutError:
                text = f"the validation of {name} took longer than {task.timeout_s:g} s"
                status, metrics = Status.VALIDATION_TIMEOUT, {}
            except Exception as error:
                text = f"the validation of {name} failed: {error}"
                status, metrics = Status.VALIDATION_FAILED, {}
        await self._done(name, status, metrics, text)


async def _validate(
    config: ValidationConfig, checkpoint: Checkpoint, task: ValidationTaskConfig
) -> dict[str, Any]:
    remote = ray.remote(validate)
    if config.ray_remote_kwargs:
        remote = remote.options(**config.ray_remote_kwargs)
    ref = remote.remote(config, checkpoint, task.fn_kwargs or {})
    try:
        return await asyncio.wait_for(_result(ref), task.timeout_s)
    except asyncio.TimeoutError:
        ray.cancel(ref, force=True)
        raise


async def _result(ref: Any) -> dict[str, Any]:
    found: dict[str, Any] = await ref
    return found
