"""Waiting for a GPU's memory, and warnings of what takes long."""

from __future__ import annotations

import logging
import subprocess
import time

import heliostat as ray

logger = logging.getLogger("heliostat")

SLOW_S = 0.5
LOADING_S = 60.0  # a process that is younger is slow for good reasons
_BEGAN = time.monotonic()


class warn_if_slow:
    """Warn when what is done within takes longer than half a second.

    Args:
        name: What is done.
        threshold: Seconds. Default 0.5.
        message: Text with ``{name}`` and ``{duration}``.
        disable: Say nothing.
    """

    DEFAULT_MESSAGE = "The `{name}` operation took {duration:.3f} s, which may hold up others."

    def __init__(
        self,
        name: str,
        threshold: float | None = None,
        message: str | None = None,
        disable: bool = False,
    ) -> None:
        self.name, self.disable = name, disable
        self.threshold = threshold or SLOW_S
        self.message = message or self.DEFAULT_MESSAGE
        self.too_slow = False

    def __enter__(self) -> warn_if_slow:
        self.start = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        now = time.monotonic()
        if not self.disable and now - self.start > self.threshold and now - _BEGAN > LOADING_S:
            self.too_slow = True
            logger.warning(self.message.format(name=self.name, duration=now - self.start))


def wait_for_gpu(
    gpu_id: int | str | None = None,
    target_util: float = 0.01,
    retry: int = 20,
    delay_s: float = 5,
    gpu_memory_limit: float | None = None,
) -> bool:
    """Wait until a GPU's memory is free.

    Args:
        gpu_id: Its number or UUID. Default: the first of ``ray.get_gpu_ids()``.
        target_util: The share of its memory that may be in use.
        retry: How many times it is looked at.
        delay_s: Seconds between two looks.
        gpu_memory_limit: Kept for programs that pass it, without an effect.

    Raises:
        RuntimeError: There is no ``nvidia-smi``, this process has no GPU, or the memory was not freed.
        ValueError: There is no such GPU.
    """
    if gpu_id is None:
        owned = ray.get_gpu_ids()
        if not owned:
            raise RuntimeError(
                "This process has no GPU: ask for one with tune.with_resources(trainable, {'gpu': 1})."
            )
        gpu_id = owned[0]
    for turn in range(int(retry)):
        if turn:
            time.sleep(delay_s)
        used = _memory_used()
        if str(gpu_id) not in used:
            raise ValueError(f"There is no GPU {gpu_id!r} among {', '.join(used) or 'none'}.")
        if used[str(gpu_id)] <= target_util:
            return True
    raise RuntimeError("GPU memory was not freed.")


def _memory_used() -> dict[str, float]:
    """The share of memory in use of each GPU, by its number and by its UUID."""
    asked = ["nvidia-smi", "--query-gpu=index,uuid,memory.used,memory.total"]
    try:
        done = subprocess.run(
            [*asked, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"nvidia-smi does not say how full GPUs are: {error}") from error
    used = {}
    for line in done.stdout.splitlines():
        index, uuid, taken, total = (cell.strip() for cell in line.split(","))
        used[index] = used[uuid] = float(taken) / float(total)
    return used
