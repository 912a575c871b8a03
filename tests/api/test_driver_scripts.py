"""Where a driver's code may come from, and how its modules reach the workers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import Finished, clean_env

INIT = 'import ray\nray.init(address="local", num_cpus=2, include_dashboard=False)\n'


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def run(*args: str, cwd: Path, stdin: str = "") -> Finished:
    done = subprocess.run(
        [sys.executable, *args],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean_env(),
        timeout=60,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr).check()


@pytest.mark.contract("F0.22")
def test_a_module_beside_the_script_whatever_the_directory(tmp_path: Path) -> None:
    write(tmp_path / "app" / "beside.py", "def name(): return __name__\n")
    script = write(
        tmp_path / "app" / "main.py",
        INIT
        + """
import os
import beside

@ray.remote
def in_worker():
    import beside as again
    return again.name(), beside.name(), os.getcwd() == cwd

cwd = os.getcwd()
print(f"seen={ray.get(in_worker.remote())}")
print(f"shipped={ray.get(ray.remote(beside.name).remote())}")
""",
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(str(script), cwd=elsewhere)
    assert done.value("seen") == "('beside', 'beside', True)"
    assert done.value("shipped") == "beside"


@pytest.mark.contract("F0.22")
def test_a_package_run_with_dash_m(tmp_path: Path) -> None:
    write(tmp_path / "package" / "__init__.py", "")
    write(tmp_path / "package" / "part.py", "def double(x): return 2 * x\n")
    write(
        tmp_path / "package" / "__main__.py",
        INIT
        + """
from .part import double

@ray.remote
def use(x):
    return double(x)

print(f"seen={ray.get(use.remote(4))}")
""",
    )
    assert run("-m", "package", cwd=tmp_path).value("seen") == "8"


@pytest.mark.contract("F0.22")
@pytest.mark.parametrize("how", ["stdin", "argument"])
def test_code_without_a_file(tmp_path: Path, how: str) -> None:
    code = (
        INIT
        + """
class Box:
    def __init__(self, x): self.x = x

@ray.remote
def wrap(x):
    return Box(x)

@ray.remote
class Actor:
    def wrap(self, x): return Box(x)

one, two = ray.get([wrap.remote(1), Actor.remote().wrap.remote(2)])
print(f"seen={(one.x, two.x, isinstance(one, Box), isinstance(two, Box))}")
"""
    )
    done = run("-", cwd=tmp_path, stdin=code) if how == "stdin" else run("-c", code, cwd=tmp_path)
    assert done.value("seen") == "(1, 2, True, True)"


@pytest.mark.contract("F0.22")
def test_redefinition_as_in_a_notebook(tmp_path: Path) -> None:
    script = write(
        tmp_path / "main.py",
        INIT
        + """
@ray.remote
def f():
    return "first"

@ray.remote
class A:
    def f(self):
        return "first"

old, old_actor = f, A.remote()
first = ray.get([f.remote(), old_actor.f.remote()])

@ray.remote
def f():
    return "second"

@ray.remote
class A:
    def f(self):
        return "second"

print(f"seen={[*first, *ray.get([f.remote(), A.remote().f.remote()])]}")
print(f"old={ray.get([old.remote(), old_actor.f.remote()])}")
""",
    )
    done = run(str(script), cwd=tmp_path)
    assert done.value("seen") == "['first', 'first', 'second', 'second']"
    assert done.value("old") == "['first', 'first']"


@pytest.mark.contract("F0.22")
def test_types_of_the_script_keep_their_identity(tmp_path: Path) -> None:
    script = write(
        tmp_path / "main.py",
        INIT
        + """
from dataclasses import dataclass
from enum import Enum

class Colour(Enum):
    RED = 1

@dataclass(frozen=True)
class Item:
    colour: Colour

class OwnError(Exception):
    pass

@ray.remote
def same(item):
    assert isinstance(item, Item) and item.colour is Colour.RED
    return item

@ray.remote
def fails():
    raise OwnError("own")

item = ray.get(same.remote(Item(Colour.RED)))
print(f"item={isinstance(item, Item) and item == Item(Colour.RED) and item.colour is Colour.RED}")
try:
    ray.get(fails.remote())
except OwnError as error:
    print(f"error={isinstance(error, ray.exceptions.RayTaskError)}")
""",
    )
    done = run(str(script), cwd=tmp_path)
    assert (done.value("item"), done.value("error")) == ("True", "True")


@pytest.mark.contract("F0.22", "F1.01")
def test_a_script_guarded_by_main_with_threads_and_children(tmp_path: Path) -> None:
    """Workers never run the script's guarded part; the driver may use processes of its own."""
    script = write(
        tmp_path / "main.py",
        """
import multiprocessing
import threading

import ray

@ray.remote
def square(x):
    return x * x

def plain(x):
    return x + 1

def main():
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(f"pool={pool.map(plain, [1, 2])}")
    found = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(ray.get(square.remote(i))))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"found={sorted(found)}")

if __name__ == "__main__":
    main()
""",
    )
    done: Any = run(str(script), cwd=tmp_path)
    assert done.value("pool") == "[2, 3]"
    assert done.value("found") == "[0, 1, 4, 9]"
