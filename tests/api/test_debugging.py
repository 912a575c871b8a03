"""``breakpoint()`` in workers: debugpy, the text debugger, errors that nothing catches."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.dap import Client, endpoints
from tests.helpers.harness import Driver, clean_env, wait_until
from tests.helpers.notebook_kernels import Kernel

pytestmark = [
    pytest.mark.contract("F14.10", "F15.12"),
    pytest.mark.heliostat_only("the output names the address; Ray's is read by its own extension"),
]

PRELUDE = """
import os, sys
import ray
ray.init(address="local", num_cpus=2, include_dashboard=False)
"""

TASK = (
    PRELUDE
    + """
@ray.remote(max_retries=0)
def half(x):
    y = x / 2
    breakpoint()
    return y

print("result=%s" % ray.get([half.remote(x) for x in [8, 6][:int(sys.argv[1])]]), flush=True)
"""
)


def waits(driver: Driver, count: int = 1) -> list[tuple[str, int]]:
    """The addresses of ``count`` breakpoints, once they are shown."""

    def probe() -> list[tuple[str, int]] | None:
        found = endpoints(driver.stdout() + driver.stderr())
        assert driver.process.poll() is None, driver.stdout() + driver.stderr()
        return found if len(found) >= count else None

    return wait_until(probe, what="a worker that waits for a debugger")


def test_a_client_of_debugpy_stops_in_the_task_and_leaves(start_driver: Any) -> None:
    driver = start_driver(TASK, args=["1"])
    ((host, port),) = waits(driver)
    assert host == "127.0.0.1"
    shown = driver.stdout() + driver.stderr()
    assert f'"request": "attach", "connect": {{"host": "127.0.0.1", "port": {port}}}' in shown
    assert "breakpoint() in half" in shown
    with Client((host, port)) as client:
        client.attach()
        _, frame, _ = client.stopped()
        assert frame["name"] == "half"
        assert Path(frame["source"]["path"]).name == "driver0.py"
        assert client.evaluate("(x, y)", frame) == "(8, 4.0)"
        client.evaluate("y = 40", frame)
        client.leave()
    assert driver.finish().check().value("result") == "[40]"


def test_each_worker_says_its_port(start_driver: Any) -> None:
    driver = start_driver(TASK, args=["2"])
    both = waits(driver, 2)
    assert len(set(both)) == 2
    for address in both:
        with Client(address) as client:
            client.attach()
            client.stopped()
            client.leave()
    assert driver.finish().check().value("result") == "[4.0, 3.0]"


def test_a_method_stops_for_a_second_client_at_the_same_port(start_driver: Any) -> None:
    driver = start_driver(
        PRELUDE
        + """
@ray.remote
class Counter:
    count = 0
    def add(self):
        self.count += 1
        breakpoint()
        return self.count

counter = Counter.remote()
print("result=%s" % ray.get([counter.add.remote() for _ in range(2)]), flush=True)
"""
    )
    for count in (1, 2):
        address = waits(driver, count)[count - 1]
        with Client(address) as client:
            client.attach()
            _, frame, _ = client.stopped()
            assert frame["name"] in ("add", "Counter.add")
            assert client.evaluate("self.count", frame) == str(count)
            client.leave()
    assert driver.finish().check().value("result") == "[1, 2]"
    assert len(set(endpoints(driver.stdout() + driver.stderr()))) == 1


FAILING = (
    PRELUDE
    + """
@ray.remote(max_retries=0)
def divide(x):
    return 1 / x

try:
    ray.get(divide.remote(0))
except ZeroDivisionError as error:
    print("result=%s" % type(error).__mro__[1].__name__, flush=True)
"""
)


def test_an_error_that_nothing_catches_stops_where_it_was_raised(start_driver: Any) -> None:
    driver = start_driver(FAILING, env={"RAY_DEBUG_POST_MORTEM": "1"})
    (address,) = waits(driver)
    assert "ZeroDivisionError in divide" in driver.stdout() + driver.stderr()
    with Client(address) as client:
        client.attach(uncaught=True)
        _, frame, body = client.stopped()
        assert body["reason"] == "exception"
        assert frame["name"] == "divide"
        assert client.evaluate("x", frame) == "0"
        client.leave()
    driver.finish().check().value("result")


def test_without_debugpy_the_task_goes_on_and_says_what_to_install(
    start_driver: Any, tmp_path: Path
) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "debugpy.py").write_text("raise ImportError('not here')\n")
    # `PYTHONPATH` reaches the workers; this module stands before the package.
    path = f"{tmp_path / 'without'}:{clean_env().get('PYTHONPATH', '')}"
    done = start_driver(TASK, args=["1"], env={"PYTHONPATH": path}).finish().check()
    assert done.value("result") == "[4.0]"
    assert "debugpy cannot be imported where this worker runs (not here)" in done.output
    assert "pip install 'heliostat[debug]'" in done.output


def test_zero_passes_breakpoints(start_driver: Any) -> None:
    done = start_driver(TASK, args=["1"], env={"RAY_DEBUG": "0"}).finish().check()
    assert done.value("result") == "[4.0]"
    assert "debugger" not in done.output


def debug_at(address: str, typed: str) -> subprocess.CompletedProcess[str]:
    """``ray debug`` on that cluster, with those lines typed."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("ray")), "debug", "--address", address],
        input=typed,
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=120,
    )


def debug(driver: Driver, typed: str) -> subprocess.CompletedProcess[str]:
    """The same on the driver's cluster."""
    return debug_at(driver.wait_line("address"), typed)


ADDRESS = 'print("address=" + ray.get_runtime_context().gcs_address, flush=True)\n'


def test_the_text_debugger_is_reached_by_ray_debug(start_driver: Any) -> None:
    source = TASK.replace("@ray.remote", ADDRESS + "@ray.remote", 1)
    driver = start_driver(source, args=["1"], env={"RAY_DEBUG": "legacy"})
    ((host, _),) = waits(driver)
    assert host == "127.0.0.1"
    done = debug(driver, "p ('here', x, y)\nlist\nwhere\ny = 40\nc\n")
    assert done.returncode == 0, done
    assert "('here', 8, 4.0)" in done.stdout, done
    assert "->\t    return y" in done.stdout, done
    assert "driver0.py(" in done.stdout, done
    assert driver.finish().check().value("result") == "[40]", done.stdout


def test_the_text_debugger_shows_the_frames_of_an_error(start_driver: Any) -> None:
    source = FAILING.replace("@ray.remote", ADDRESS + "@ray.remote", 1)
    driver = start_driver(source, env={"RAY_DEBUG": "legacy", "RAY_DEBUG_POST_MORTEM": "1"})
    waits(driver)
    done = debug(driver, "p ('here', x)\nq\n")
    assert "('here', 0)" in done.stdout, done
    driver.finish().check().value("result")


def test_the_text_debugger_lists_a_notebook_cell() -> None:
    kernel = Kernel({"RAY_DEBUG": "legacy"})
    try:
        cells = [PRELUDE, *TASK.removeprefix(PRELUDE).split("print", 1)[:1]]
        for cell in [*cells, "ref = half.remote(8)", ADDRESS]:
            shown, error = kernel.run(cell)
            assert error == "", shown
        # The worker's word that it waits may be shown in the same cell.
        [address] = re.findall(r"^address=(\S+)$", shown, re.MULTILINE)

        tried: list[subprocess.CompletedProcess[str]] = []

        def probe() -> bool:
            tried.append(debug_at(address, "list\nwhere\nc\n"))
            return tried[-1].returncode == 0 or "No call waits" not in tried[-1].stderr

        wait_until(probe, what="a worker that waits for a debugger")
        done = tried[-1]
        assert done.returncode == 0, done
        assert "->\t    return y" in done.stdout, done
        assert "/ipykernel_" in done.stdout, done
        assert kernel.run("print(ray.get(ref))")[0].strip() == "4.0"
    finally:
        kernel.end()


def test_a_client_without_the_secret_is_turned_away(start_driver: Any) -> None:
    source = TASK.replace("@ray.remote", ADDRESS + "@ray.remote", 1)
    driver = start_driver(source, args=["1"], env={"RAY_DEBUG": "legacy"})
    (address,) = waits(driver)
    with socket.create_connection(address, timeout=60) as stranger:
        stranger.sendall(b"print(1)\n")
        stranger.shutdown(socket.SHUT_WR)
        assert stranger.recv(100) == b""
    done = debug(driver, "")  # the end of the input lets the task go on
    assert done.returncode == 0, done
    assert driver.finish().check().value("result") == "[4.0]"


def test_ray_debug_says_that_nothing_waits(start_driver: Any) -> None:
    driver = start_driver(PRELUDE + ADDRESS + "import time; time.sleep(1000)\n")
    done = debug(driver, "")
    assert done.returncode == 1
    assert "RAY_DEBUG=legacy" in done.stderr
