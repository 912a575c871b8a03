"""Cells of notebooks, run by a kernel of Jupyter as its front ends run them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.harness import wait_until
from tests.helpers.notebook_kernels import Kernel

pytestmark = pytest.mark.heliostat_only("how a session looks from a notebook")

START = """
import os, ray
context = ray.init(address="local", num_cpus=2, include_dashboard=False)
print(context.address_info["session_dir"])
"""


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
