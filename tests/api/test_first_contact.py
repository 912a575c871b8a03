"""What goes wrong in a first hour: misspelt words, folders that cannot be written, a small /dev/shm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

pytestmark = pytest.mark.heliostat_only("they are our words")


@pytest.mark.parametrize(
    ("misspell", "meant"),
    [
        (lambda: ray.remote(num_cpu=1)(min), "num_cpus"),
        (lambda: ray.remote(print).options(max_retry=1), "max_retries"),
        (lambda: ray.remote(type("A", (), {})).options(max_restart=1), "max_restarts"),
        (lambda: ray.method(num_return=2), "num_returns"),
    ],
    ids=["remote", "options", "actor", "method"],
)
def test_a_misspelt_option_names_the_one_that_was_meant(misspell: Any, meant: str) -> None:
    with pytest.raises((ValueError, AssertionError), match=rf"Did you mean '{meant}'\?"):
        misspell()


def test_a_word_that_is_like_none_gets_no_hint() -> None:
    with pytest.raises(ValueError, match="Invalid option keyword") as caught:
        ray.remote(weather=1)(min)
    assert "Did you mean" not in str(caught.value)


def test_a_misspelt_keyword_of_init(ray_down: None) -> None:
    with pytest.raises(RuntimeError, match=r"num_cpu\. Did you mean 'num_cpus'\?"):
        ray.init(num_cpu=1)


def test_a_traceback_names_the_method_that_was_meant(ray_start: Any) -> None:
    @ray.remote
    class Counter:
        def increase(self) -> int:
            return 1

    counter = Counter.remote()
    with pytest.raises(AttributeError) as caught:
        counter.incraese.remote()
    # Python itself compares the two when it prints the traceback.
    assert caught.value.name == "incraese"
    assert "increase" in dir(caught.value.obj)


SECOND = """
import subprocess, sys
import ray
context = ray.init(num_cpus=1)
code = "import ray; ray.init(address='auto'); print(ray.get(ray.put('found')))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
print("home=" + str(ray.is_initialized()))
"""


def test_a_home_that_cannot_be_written(run_driver: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("no folder")  # which refuses root, too
    sessions = tmp_path / "s"
    sessions.mkdir()
    env = {
        "HOME": str(home),
        "RAY_TMPDIR": str(sessions),
        "HELIOSTAT_AUTH_TOKEN": "",
        "HELIOSTAT_AUTH_TOKEN_PATH": "",
    }
    done = run_driver(SECOND, env=env, timeout=120).check()
    assert done.value("home") == "True"
    assert "found" in done.stdout


def test_a_folder_of_sessions_that_cannot_be_made(run_driver: Any) -> None:
    done = run_driver("import ray; ray.init(num_cpus=1)", env={"RAY_TMPDIR": "/proc/none"})
    assert done.rc
    assert "cannot be made in /proc/none" in done.stderr
    assert "Name another folder with RAY_TMPDIR" in done.stderr


def test_objects_need_no_room_in_dev_shm(ray_start: Any) -> None:
    numpy = pytest.importorskip("numpy")
    reference = ray.put(numpy.ones(1 << 20))
    assert ray.get(reference).sum() == 1 << 20
    maps = Path("/proc/self/maps").read_text()
    assert "memfd:heliostat-store" in maps
    # Semaphores of Python's own multiprocessing, which other tests of this process may have made, lie there.
    in_shm = [
        line for line in maps.splitlines() if "/dev/shm" in line and "/dev/shm/sem." not in line
    ]
    assert in_shm == []


TESTS = """
import pytest
import ray

@pytest.fixture(scope="module")
def cluster():
    yield ray.init(num_cpus=2, include_dashboard=False)
    ray.shutdown()

@pytest.fixture
def counter(cluster):
    @ray.remote
    class Counter:
        def __init__(self):
            self.count = 0
        def add(self):
            self.count += 1
            return self.count
    return Counter.remote()

def double(x):
    return 2 * x

def test_a_task(cluster):
    assert ray.get(ray.remote(double).remote(2)) == 4

@pytest.mark.parametrize("times", [1, 3])
def test_an_actor(counter, times):
    assert ray.get([counter.add.remote() for _ in range(times)])[-1] == times

def test_an_error(cluster):
    @ray.remote
    def fails():
        raise KeyError("x")
    with pytest.raises(KeyError):
        ray.get(fails.remote())
"""


def test_fixtures_of_pytest(tmp_path: Path) -> None:
    path = tmp_path / "test_mine.py"
    path.write_text(TESTS)
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", path]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
