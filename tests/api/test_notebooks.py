"""Cells of notebooks, run by a kernel of Jupyter as its front ends run them."""

from __future__ import annotations

import os
import queue
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import clean_env, wait_until
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.heliostat_only("how a session looks from a notebook")

# A deadline against a hang.
WITHIN_S = 90.0

START = """
import os, ray
context = ray.init(address="local", num_cpus=2, include_dashboard=False)
print(context.address_info["session_dir"])
"""


class Kernel:
    """A kernel, with what its cells have shown."""

    def __init__(self) -> None:
        # Sockets with names: two kernels that choose their ports at once may choose the same.
        self._folder = tempfile.TemporaryDirectory(prefix="kernel-")
        self.manager = KernelManager(
            kernel_name="python3",
            transport="ipc",
            ip=f"{self._folder.name}/socket",
            connection_file=f"{self._folder.name}/connection.json",
        )
        self.manager.start_kernel(env=clean_env())
        self._connect()

    def _connect(self) -> None:
        self.client: Any = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WITHIN_S)

    def run(self, source: str) -> tuple[str, str]:
        """What the cell printed and shows, and the name of its error, if it has one."""
        return self.outcome(self.client.execute(source))

    def outcome(self, cell: str) -> tuple[str, str]:
        """The same of a cell that was sent, once the kernel is idle again."""
        shown, error = "", ""
        while True:
            kind, content = self.message(cell)
            if kind == "stream":
                shown += content["text"]
            elif kind in ("display_data", "execute_result"):
                shown += str(content["data"])
            elif kind == "error":
                error = content["ename"]
            elif kind == "status" and content["execution_state"] == "idle":
                return shown, error

    def message(self, cell: str) -> tuple[str, dict[str, Any]]:
        """The next message that a cell causes."""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=WITHIN_S)
            except queue.Empty:
                raise AssertionError("the kernel says nothing") from None
            if message["parent_header"].get("msg_id") == cell:
                return message["msg_type"], message["content"]

    def restart(self) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self._folder.cleanup()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    started = Kernel()
    yield started
    started.end()


def processes_of(session_dir: str) -> list[int]:
    """The processes that name the session in their command or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:  # it has ended, or is another user's
            continue
        if session_dir.encode() in text:
            found.append(int(entry.name))
    return found


def test_cells_call_tasks_and_begin_again(kernel: Kernel) -> None:
    _, error = kernel.run(START)
    assert error == ""
    kernel.run("@ray.remote\ndef half(x):\n    print('halving', x)\n    return x / 2")
    shown, error = kernel.run("ray.get(half.remote(8))")
    assert ("4.0" in shown, error) == (True, "")
    shown, error = kernel.run("await half.remote(6)")
    assert ("3.0" in shown, error) == (True, "")
    _, error = kernel.run("ray.init(num_cpus=1)")
    assert error == "RuntimeError"
    shown, error = kernel.run("ray.init(ignore_reinit_error=True); ray.get(half.remote(2))")
    assert ("1.0" in shown, error) == (True, "")


def test_an_interrupt_ends_get_and_leaves_the_session(kernel: Kernel) -> None:
    kernel.run(START)
    kernel.run("import time\n@ray.remote\ndef sleep():\n    time.sleep(1000)")
    cell = kernel.client.execute("print('begun', flush=True)\nray.get(sleep.remote())")
    while kernel.message(cell)[0] != "stream":
        pass
    kernel.manager.interrupt_kernel()
    assert kernel.outcome(cell)[1] == "KeyboardInterrupt"
    shown, error = kernel.run("ray.get(ray.remote(lambda: 'still here').remote())")
    assert ("still here" in shown, error) == (True, "")


def test_a_restart_leaves_no_process(kernel: Kernel) -> None:
    shown, _ = kernel.run(START)
    session_dir = shown.strip().splitlines()[-1]
    kernel.run("ray.get(ray.remote(os.getpid).remote())")
    assert processes_of(session_dir)
    kernel.restart()
    wait_until(lambda: not processes_of(session_dir), what="the end of the session")
    shown, error = kernel.run(START + "print(ray.get(ray.remote(lambda: 'anew').remote()))")
    assert ("anew" in shown, error) == (True, "")
