"""``ray._private.test_utils`` and ``ray._common.test_utils``: how tests of libraries wait and signal."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import heliostat as ray
from heliostat._private import missing

__all__ = [
    "RayTestTimeoutException",
    "Semaphore",
    "SignalActor",
    "async_wait_for_condition",
    "format_web_url",
    "kill_actor_and_wait_for_failure",
    "run_string_as_driver",
    "run_string_as_driver_nonblocking",
    "same_elements",
    "wait_for_condition",
    "wait_for_num_actors",
    "wait_for_pid_to_exit",
    "wait_until_server_available",
]


class RayTestTimeoutException(Exception):
    """Something that a test waited for did not come."""


@ray.remote(num_cpus=0)
class SignalActor:
    """Lets tasks and actors wait until somebody sends."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    async def send(self, clear: bool = False) -> None:
        """Let all go on that wait; with ``clear`` those that come later wait again."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait until somebody sends."""
        if should_wait:
            self.num_waiters += 1
            await self.ready_event.wait()
            self.num_waiters -= 1

    async def cur_num_waiters(self) -> int:
        """Return how many wait."""
        return self.num_waiters


@ray.remote(num_cpus=0)
class Semaphore:
    """Lets so many go on at a time."""

    def __init__(self, value: int = 1) -> None:
        self._semaphore = asyncio.Semaphore(value)

    async def acquire(self) -> None:
        """Wait for a place."""
        await self._semaphore.acquire()

    async def release(self) -> None:
        """Give a place back."""
        self._semaphore.release()

    async def locked(self) -> bool:
        """Return whether there is no place."""
        return self._semaphore.locked()


def wait_for_condition(
    condition_predictor: Callable[..., Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Call a function until it returns something true.

    Args:
        condition_predictor: The function, which is given ``kwargs``.
        timeout: Seconds.
        retry_interval_ms: Milliseconds between two calls.
        raise_exceptions: Do not call it again where it raised.

    Raises:
        RuntimeError: The time is over; the message has what the function raised last.
    """
    end, last = time.monotonic() + timeout, ""
    while time.monotonic() <= end:
        try:
            if condition_predictor(**kwargs):
                return
        except Exception as error:
            if raise_exceptions:
                raise
            last = _last(error)
        time.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_NOT_MET + last)


async def async_wait_for_condition(
    condition_predictor: Callable[..., Awaitable[Any] | Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    **kwargs: Any,
) -> None:
    """As :func:`wait_for_condition`, for a function or a coroutine function."""
    end, last = time.monotonic() + timeout, ""
    while time.monotonic() <= end:
        try:
            met = condition_predictor(**kwargs)
            if inspect.isawaitable(met):
                met = await met
            if met:
                return
        except Exception as error:
            last = _last(error)
        await asyncio.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_NOT_MET + last)


_NOT_MET = "The condition wasn't met before the timeout expired."


def _last(error: Exception) -> str:
    return f" Last exception: {type(error).__name__}: {error}"


def run_string_as_driver(
    driver_script: str, env: dict[str, str] | None = None, encode: str = "utf-8"
) -> str:
    """Run a script in a process of its own and return what it printed, on both streams.

    Args:
        driver_script: The script's text.
        env: All environment variables of it. Default: those of this process.
        encode: The encoding of script and output.

    Raises:
        subprocess.CalledProcessError: It failed; ``output`` has what it printed.
    """
    done = subprocess.run(
        [sys.executable, "-"],
        input=driver_script.encode(encode),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        check=False,
    )
    output = done.stdout.decode(encode)
    if done.returncode:
        print(output)  # noqa: T201 # for who reads the failed test
        raise subprocess.CalledProcessError(done.returncode, done.args, output, done.stderr)
    return output


def run_string_as_driver_nonblocking(
    driver_script: str, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a script in a process of its own, with pipes for its streams."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-"], stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    assert process.stdin is not None
    process.stdin.write(driver_script.encode())
    process.stdin.close()
    process.stdin = None  # `communicate` would flush it
    return process


def wait_until_server_available(
    address: str, timeout_ms: float = 5000, retry_interval_ms: float = 100
) -> bool:
    """Return whether something listens at ``host:port`` within the time."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + timeout_ms / 1000
    while time.monotonic() <= end:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(retry_interval_ms / 1000)
        else:
            return True
    return False


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Wait until there is no such process.

    Raises:
        RayTestTimeoutException: It is still there.
    """
    end = time.monotonic() + timeout
    while time.monotonic() <= end:
        if not _is_alive(pid):
            return
        time.sleep(0.1)
    raise RayTestTimeoutException(f"The process {pid} has not ended within {timeout:g} s.")


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"  # which nobody has waited for
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return not os.path.isdir("/proc/self")


def wait_for_num_actors(num_actors: int, state: str | None = None, timeout: float = 10) -> None:
    """Wait until there are at least so many actors, in that state.

    Raises:
        RayTestTimeoutException: There are fewer.
    """
    from heliostat.util.state import list_actors

    end = time.monotonic() + timeout
    while time.monotonic() <= end:
        rows = list_actors(limit=10_000)
        if sum(state is None or row.state == state for row in rows) >= num_actors:
            return
        time.sleep(0.1)
    raise RayTestTimeoutException(f"There are no {num_actors} actors after {timeout:g} s.")


def kill_actor_and_wait_for_failure(
    actor: Any, timeout: float = 10, retry_interval_ms: float = 100
) -> None:
    """Kill an actor for good, and wait until it is dead.

    Raises:
        RuntimeError: It still is not.
    """
    from heliostat.util.state import get_actor

    actor_id = actor._actor_id.hex()
    ray.kill(actor)

    def is_dead() -> bool:
        row = get_actor(actor_id)
        return row is None or row.state == "DEAD"

    wait_for_condition(is_dead, timeout, retry_interval_ms)


def same_elements(elems_a: Any, elems_b: Any) -> bool:
    """Return whether two collections have the same elements, each as often."""
    left = list(elems_a)
    for one in elems_b:
        if one not in left:
            return False
        left.remove(one)
    return not left


def format_web_url(url: str) -> str:
    """Return an address with ``http://`` before it."""
    return url if url.startswith(("http://", "https://")) else f"http://{url}"


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.test_utils.{name}"))
