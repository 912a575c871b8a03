"""Fixtures and marks of the whole suite.

The tests ``import ray``. With Heliostat installed that is the alias package; with Ray installed
instead the same files run on Ray, which shows that they assert Ray's behaviour and not ours.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

# Tests and helpers are imported as `tests.…` alone. Workers get this entry with the path of their driver.
sys.path.insert(0, str(Path(__file__).parents[1]))

# Before the first import of ray: neither a cluster of the caller nor a real GPU may leak in.
for _name in ("RAY_ADDRESS", "RAY_NAMESPACE", "CUDA_VISIBLE_DEVICES"):
    os.environ.pop(_name, None)
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from tests.helpers import compiled, harness, longest  # noqa: E402
from tests.helpers.shared import cluster  # noqa: E402

# A shell that starts the tests in the background has its children ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A test that takes so long hangs; only tests of many programs name a longer limit. A slow machine beside
# other work takes ten times what an idle one does.
LIMIT_S = float(os.environ.get("TEST_LIMIT_S", 600))


# Packages from PyPI, in an environment of their own: `make libraries`.
collect_ignore = [] if os.environ.get("HELIOSTAT_LIBRARIES") else ["libraries"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "contract(*ids): lines of the contract that the test shows")
    config.addinivalue_line("markers", "heliostat_only(reason): what Ray does not do or promise")
    config.option.loadscopereorder = False  # else files with the most tests begin
    config.pluginmanager.register(longest.Longest())
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(compiled.Compiled())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("heliostat_only")
        if mark is not None and not harness.IS_HELIOSTAT:
            item.add_marker(pytest.mark.skip(reason=f"Heliostat only: {mark.args[0]}"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


# `make test-extras` has what other tests are skipped without. What is skipped there would run nowhere.
NONE_SKIPPED = bool(os.environ.get("HELIOSTAT_EXTRAS"))
# Begins the reason of a test that `make test` alone can run.
OF_TEST = "of make test: "


def unskip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """A test that is skipped fails, where none is to be."""
    if NONE_SKIPPED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if OF_TEST not in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped everywhere: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    unskip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    unskip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """If not even the signal of the time limit is served, print every stack and end."""
    mark = item.get_closest_marker("timeout")
    faulthandler.dump_traceback_later(2 * float(mark.args[0] if mark else LIMIT_S) + 30, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_exception_interact(call: pytest.CallInfo[object]) -> None:
    if call.excinfo is not None and "Timeout" in str(call.excinfo.value):
        cluster.poisoned = True


@pytest.fixture
def ray_start(request: pytest.FixtureRequest) -> Any:
    """A cluster that the module's tests share: 4 CPUs, or what the module names in CLUSTER."""
    options = getattr(request.module, "CLUSTER", {"num_cpus": 4})
    return cluster.start(request.module.__name__, **options)


@pytest.fixture
def ray_fresh() -> Iterator[Callable[..., Any]]:
    """Start a cluster of the test's own with the given options of ``ray.init``."""
    cluster.stop()
    yield cluster.start
    cluster.stop()


@pytest.fixture
def ray_down() -> Iterator[None]:
    """The test begins and ends without a cluster."""
    cluster.stop()
    yield
    cluster.stop()


@pytest.fixture(autouse=True, scope="module")
def nothing_left_behind() -> Iterator[None]:
    """After the last test of a module no process or memory of its clusters remains."""
    yield
    cluster.stop()
    cluster.assert_nothing_left()


RunDriver = Callable[..., harness.Finished]
StartDriver = Callable[..., harness.Driver]


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[StartDriver]:
    """Start a script in its own process; it is killed if the test leaves it running."""
    drivers: list[harness.Driver] = []

    def start(source: str | Path, **options: Any) -> harness.Driver:
        options.setdefault("name", f"driver{len(drivers)}")
        driver = harness.start_driver(tmp_path, source, **options)
        drivers.append(driver)
        return driver

    yield start
    for driver in drivers:
        driver.kill()


@pytest.fixture
def run_driver(start_driver: StartDriver) -> RunDriver:
    """Run a script in its own process to its end."""

    def run(
        source: str | Path,
        *,
        timeout: float = harness.HANG_S,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        cwd: Path | None = None,
        python: str | Path = sys.executable,
    ) -> harness.Finished:
        return start_driver(source, env=env, args=args, cwd=cwd, python=python).finish(timeout)

    return run
