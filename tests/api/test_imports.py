"""Modules that values bring along, in processes where several threads import them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import ray

# The package takes its time before it comes to its module, which asks the package for something.
PACKAGE = """
import time
from pathlib import Path
Path(__file__).with_name("begun").touch()
time.sleep(0.5)
from . import part
NUMBER = part.Part(7)
"""
PART = """
from . import other
class Part:
    def __init__(self, number):
        self.number = number
    def __reduce__(self):
        return Part, (self.number,)
"""
OTHER = """
import sys
from . import part
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "slowly_there"
    folder.mkdir()
    for name, text in (("__init__", PACKAGE), ("part", PART), ("other", OTHER)):
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


@pytest.mark.contract("F2.10", "F3.01")
@pytest.mark.parametrize("kind", ["threads", "groups", "async"])
def test_a_value_of_a_package_that_another_thread_imports(
    ray_fresh: Callable[..., Any], package: Path, kind: str
) -> None:
    """Else: "cannot import name … from partially initialized module" or a deadlock of two import locks."""
    ray_fresh(num_cpus=2)
    part = __import__("slowly_there.part").part.Part
    begun = package / "begun"
    begun.unlink()

    class Actor:
        def imports(self) -> int:
            return int(__import__("slowly_there").NUMBER.number)

        def reads(self, value: Any) -> int:
            return int(value.number)

    class Async:
        async def imports(self) -> int:
            loop = asyncio.get_running_loop()
            made = await loop.run_in_executor(None, __import__, "slowly_there")
            return int(made.NUMBER.number)

        async def reads(self, value: Any) -> int:
            return int(value.number)

    options: dict[str, Any] = {"max_concurrency": 4}
    if kind == "groups":
        options = {"concurrency_groups": {"one": 1, "two": 1}}
    actor: Any = ray.remote(**options)(Async if kind == "async" else Actor).remote()
    first, second = actor.imports, actor.reads
    if kind == "groups":
        first = first.options(concurrency_group="one")
        second = second.options(concurrency_group="two")
    importing = first.remote()
    while not begun.exists():
        ray.wait([importing], timeout=0.01)
    values = [second.remote(part(n)) for n in range(3)]
    assert ray.get([importing, *values], timeout=60) == [7, 0, 1, 2]


@pytest.mark.contract("F3.02")
def test_a_value_of_a_package_that_another_thread_of_the_driver_imports(
    ray_fresh: Callable[..., Any], package: Path
) -> None:
    ray_fresh(num_cpus=1)

    @ray.remote
    def made(number: int) -> Any:
        return __import__("slowly_there.part").part.Part(number)

    refs = [made.remote(n) for n in range(3)]
    ray.wait(refs, num_returns=3, timeout=60)
    begun = package / "begun"
    begun.unlink()
    with ThreadPoolExecutor(4) as pool:
        importing = pool.submit(__import__, "slowly_there")
        while not begun.exists():
            importing.done()
        values = [value.number for value in pool.map(ray.get, refs)]
        assert [importing.result(60).NUMBER.number, *values] == [7, 0, 1, 2]


@pytest.mark.contract("F0.01")
@pytest.mark.heliostat_only("Ray has one name for each module")
def test_a_second_name_is_given_while_other_modules_are_loaded() -> None:
    """The garbage collector stands for a thread that imports at the worst moment."""
    program = """if True:
        import gc, itertools, sys, types
        import ray
        numbers = itertools.count()
        def load(phase, info):
            name = f"loaded_meanwhile_{next(numbers)}"
            sys.modules[name] = types.ModuleType(name)
        gc.callbacks.append(load)
        gc.set_threshold(1)
        import ray.util.queue
        gc.callbacks.remove(load)
        assert next(numbers) > 1
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_workers_find_tests_under_one_name(ray_start: Any) -> None:
    """Helpers hide no package of the same name, neither in a driver nor in its workers."""

    @ray.remote
    def found(names: list[str]) -> list[str]:
        return [name for name in names if find_spec(name) is not None]

    folder = Path(__file__).parents[1]
    files = [*folder.glob("*"), *(folder / "helpers").glob("*.py")]
    names = {one.stem for one in files if one.stem.isidentifier() and one.stem[:2] != "__"}
    # A package of PyPI, and a folder beside this one.
    ours = sorted(names - {"packaging", "docs"})
    assert {"helpers", "harness", "web", "plans"} <= set(ours)
    assert ray.get(found.remote([*ours, "tests"])) == ["tests"]
