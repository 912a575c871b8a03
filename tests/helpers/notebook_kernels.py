"""Kernels of Jupyter, run as its front ends run them."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Mapping
from typing import Any

from jupyter_client.manager import KernelManager

from tests.helpers.harness import clean_env

# A deadline against a hang.
WITHIN_S = 90.0


class Kernel:
    """A kernel, with what its cells have shown."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        # Sockets with names: two kernels that choose their ports at once may choose the same.
        self._folder = tempfile.TemporaryDirectory(prefix="kernel-")
        self.manager = KernelManager(
            kernel_name="python3",
            transport="ipc",
            ip=f"{self._folder.name}/socket",
            connection_file=f"{self._folder.name}/connection.json",
        )
        self.manager.start_kernel(env=clean_env(env))
        self._connect()

    def _connect(self) -> None:
        self.client: Any = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WITHIN_S)

    def run(self, source: str) -> tuple[str, str]:
        """Run a cell: its output and result, and the name of its error, if it has one."""
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
