"""What goes wrong in a first hour: misspelt words, folders that cannot be written, a small /dev/shm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Container, Iterable, Sized
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
    done = run_driver(SECOND, env=env).check()
    assert done.value("home") == "True"
    assert "found" in done.stdout


def test_a_folder_of_sessions_that_cannot_be_made(run_driver: Any) -> None:
    done = run_driver("import ray; ray.init(num_cpus=1)", env={"RAY_TMPDIR": "/proc/none"})
    assert done.rc
    assert "cannot be made in /proc/none" in done.stderr
    assert "Name another folder with RAY_TMPDIR" in done.stderr


@pytest.mark.parametrize("name", ["home", "/proc/none"], ids=["no folder", "read-only"])
def test_a_head_that_cannot_write_its_token(tmp_path: Path, name: str) -> None:
    from heliostat.core.driver import daemon

    (tmp_path / "home").touch()
    home = tmp_path / name
    kept = {n: v for n, v in os.environ.items() if not n.startswith("HELIOSTAT_AUTH_TOKEN")}
    done = subprocess.run(
        [daemon.binary(), "start", "--head", "--port", "0"],
        env={**kept, "HOME": str(home), "RAY_TMPDIR": str(tmp_path / "s")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode
    file = str(home / ".heliostat" / "auth_token")
    for part in (file, "HELIOSTAT_AUTH_TOKEN_PATH", "HELIOSTAT_AUTH_TOKEN."):
        assert part in done.stderr


@pytest.mark.parametrize(
    "use",
    [
        lambda ref: ref + 1,
        lambda ref: 1 + ref,
        lambda ref: 2 * ref,
        lambda ref: ref / 2,
        lambda ref: -ref,
        lambda ref: sum([ref, ref]),
        lambda ref: ref[0],
        list,
        lambda ref: sum(1 for _ in ref),
    ],
    ids=["add", "radd", "rmul", "div", "neg", "sum", "item", "list", "for"],
)
def test_arithmetic_with_a_reference_says_what_is_missing(ray_start: Any, use: Any) -> None:
    with pytest.raises(TypeError, match=r"this is an ObjectRef.* Call ray\.get\(ref\)"):
        use(ray.put(1))


def test_a_reference_is_no_sequence_and_is_true(ray_start: Any) -> None:
    ref = ray.put([1])
    assert bool(ref)
    assert not isinstance(ref, Iterable | Sized | Container)
    assert not hasattr(ref, "__iter__")


def test_a_wrong_call_names_what_was_called(ray_start: Any) -> None:
    @ray.remote
    def add(a: int, b: int) -> int:
        return a + b

    @ray.remote
    class Store:
        def __init__(self, size: int) -> None:
            self.size = size

        def grow(self, by: int) -> None:
            self.size += by

    with pytest.raises(TypeError, match=r"^add\(\): missing a required argument: 'b'"):
        add.remote(1)
    with pytest.raises(TypeError, match=r"^Store\(\): missing a required argument: 'size'"):
        Store.remote()
    with pytest.raises(TypeError, match=r"^Store\.grow\(\): too many positional arguments"):
        Store.remote(1).grow.remote(1, 2)


def test_notebooks_show_contexts_datasets_and_configurations_as_tables(ray_start: Any) -> None:
    pytest.importorskip("pyarrow")
    from ray.train import FailureConfig, ScalingConfig

    shown = ray.init(ignore_reinit_error=True)._repr_html_()
    assert f"<td>{ray.__version__}</td>" in shown
    rows = ray.data.from_items([{"<name>": "<b>"}])
    shown = rows._repr_html_()
    assert "&lt;name&gt;" in shown
    assert "<td>&lt;b&gt;</td>" in shown
    assert "<b>" not in shown
    assert "not materialized" in ray.data.range(3)._repr_html_()
    assert "<pre>" in ray.data.range(3).map(lambda row: row)._repr_html_()
    shown = ScalingConfig(num_workers=2, resources_per_worker={"<CPU>": 1})._repr_html_()
    assert "<tr><th>num_workers</th><td>2</td></tr>" in shown
    assert "{&#x27;&lt;CPU&gt;&#x27;: 1}" in shown
    assert "topology" not in shown
    shown = FailureConfig(max_failures=3)._repr_html_()
    assert "<tr><th>max_failures</th><td>3</td></tr>" in shown
    assert "DEPRECATED" not in shown


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
