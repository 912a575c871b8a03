"""What `ps` and `top` call workers, and what completion shows of actors."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import IS_HELIOSTAT, wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


def read(path: str) -> str:
    """Without the NULs and the newline at the end."""
    return Path(path).read_text().rstrip("\0\n")


def title(pid: int | str = "self") -> str:
    return read(f"/proc/{pid}/cmdline")


def name_of_thread(pid: int | str = "self", thread: int | None = None) -> str:
    return read(f"/proc/{pid}/task/{thread}/comm" if thread else f"/proc/{pid}/comm")


def seen() -> tuple[int, str, str]:
    """This process, its title, and the name of the thread that asks."""
    return os.getpid(), title(), name_of_thread(thread=threading.get_native_id())


@ray.remote
def see() -> tuple[int, str, str]:
    return seen()


@ray.remote
def see_with_a_name_of_more_than_fifteen_letters() -> tuple[int, str, str]:
    return seen()


@ray.remote
def see_beside() -> Any:
    return seen(), ray.get(see.remote())


@ray.remote
class Seer:
    def __init__(self) -> None:
        self.at_first = seen()

    def first(self) -> tuple[int, str, str]:
        return self.at_first

    def see(self) -> tuple[int, str, str]:
        return seen()

    def see_stream(self) -> Any:
        yield seen()


@ray.remote(max_concurrency=2)
class Threads:
    def see(self) -> tuple[int, str, str]:
        return seen()

    def wait_for(self, path: str) -> None:
        wait_until(lambda: Path(path).exists())


@ray.remote
class Loop:
    async def see(self) -> tuple[int, str, str]:
        return seen()


@ray.remote(concurrency_groups={"io": 2})
class Groups:
    @ray.method(concurrency_group="io")
    async def see(self) -> tuple[int, str, str]:
        return seen()


@pytest.mark.contract("F0.16")
def test_a_worker_is_named_after_its_task() -> None:
    pid, *names = ray.get(see.remote())
    assert names == ["ray::see", "ray::see"]
    wait_until(lambda: title(pid) == "ray::IDLE", what="the title of an idle worker")
    wait_until(lambda: name_of_thread(pid) == "ray::IDLE", what="the name of an idle thread")


def test_names_that_the_user_gave_and_long_ones() -> None:
    assert ray.get(see.options(name="step 1/2").remote())[1:] == ("ray::step 1/2",) * 2
    _, line, thread = ray.get(see_with_a_name_of_more_than_fifteen_letters.remote())
    assert line == "ray::see_with_a_name_of_more_than_fifteen_letters"
    assert thread == line[:15]
    assert ray.get(ray.remote(lambda: title()).remote()) == "ray::<lambda>"
    outer, inner = ray.get(see_beside.remote())
    assert (outer[1], inner[1]) == ("ray::see_beside", "ray::see")


@pytest.mark.heliostat_only("Ray's title has room for what its environment leaves")
def test_a_name_that_is_too_long_leaves_the_environment_alone() -> None:
    @ray.remote
    def see_all() -> tuple[str, bytes]:
        return title(), Path("/proc/self/environ").read_bytes()

    before = ray.get(see_all.remote())[1]
    line, environment = ray.get(see_all.options(name="é" * 3000).remote())
    assert line.startswith("ray::éééééééééé")
    assert environment == before
    assert b"HELIOSTAT_SESSION=" in environment
    assert ray.get(see.options(name="two\nlines").remote())[1] == "ray::two lines"


def test_the_title_in_a_failed_task_goes_with_it() -> None:
    @ray.remote(max_retries=0)
    def fail() -> None:
        raise ValueError(f"{os.getpid()} {title()}")

    with pytest.raises(ValueError, match="ray::fail") as caught:
        ray.get(fail.remote())
    words = str(caught.value.args[0] if IS_HELIOSTAT else caught.value.cause).split()
    pid = int(words[0])
    wait_until(lambda: title(pid) == "ray::IDLE")


def test_actors_are_named_after_their_class_and_method() -> None:
    actor = Seer.options(name="seer").remote()
    pid = ray.get(actor.see.remote())[0]
    assert ray.get(actor.first.remote()) == (pid, "ray::Seer.__init__", "ray::Seer.__ini")
    assert ray.get(actor.see.remote())[1:] == ("ray::Seer.see",) * 2
    assert ray.get(actor.see.options(name="look").remote())[1] == "ray::look"
    stream = actor.see_stream.options(num_returns="streaming").remote()
    assert [ray.get(item)[1] for item in stream] == ["ray::Seer.see_stream"]
    wait_until(lambda: title(pid) == "ray::Seer")
    wait_until(lambda: name_of_thread(pid) == "ray::Seer")


@pytest.mark.parametrize("cls", [Threads, Loop, Groups])
def test_actors_with_several_calls_at_once(cls: Any) -> None:
    actor = cls.remote()
    name = f"ray::{cls.__ray_actor_class__.__name__}"
    pid, line, thread = ray.get(actor.see.remote())
    assert line == f"{name}.see"
    assert thread.startswith(name[:15])
    wait_until(lambda: title(pid) == name)
    wait_until(lambda: name_of_thread(pid) == name)


@pytest.mark.heliostat_only("on Ray it may be either of them")
def test_of_calls_side_by_side_the_last_one_is_shown(tmp_path: Path) -> None:
    actor = Threads.remote()
    gate = tmp_path / "gate"
    waiting = actor.wait_for.remote(str(gate))
    pid, line, thread = ray.get(actor.see.remote())
    assert (line, thread) == ("ray::Threads.see", "ray::Threads.se")
    assert "ray::Threads.wait_for"[:15] in {
        name_of_thread(pid, int(thread)) for thread in os.listdir(f"/proc/{pid}/task")
    }
    gate.touch()
    ray.get(waiting)
    wait_until(lambda: title(pid) == "ray::Threads")


def test_what_a_program_finds_by_the_titles() -> None:
    pid = ray.get(see.remote())[0]

    @ray.remote
    def find() -> list[str]:
        names = subprocess.run(
            ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
        )
        return [line.strip() for line in names.stdout.splitlines() if line.startswith("ray::")]

    if not Path("/usr/bin/ps").exists() and not Path("/bin/ps").exists():
        pytest.skip("there is no ps on this machine")
    wait_until(lambda: title(pid) == "ray::IDLE")
    assert "ray::find" in ray.get(find.remote())


def test_another_python_has_titles_too(ray_fresh: Any) -> None:
    """Its process is no copy of the zygote."""
    ray_fresh(num_cpus=1)
    import sys

    env = {"py_executable": sys.executable}
    assert ray.get(see.options(runtime_env=env).remote())[1] == "ray::see"


class Plain:
    """A class like any other."""

    level = 3

    def __init__(self, start: int = 1) -> None:
        self.start = start

    def add(self, more: int) -> int:
        """Add to it."""
        return self.start + more

    @staticmethod
    def double(number: int) -> int:
        return 2 * number

    @classmethod
    def title(cls) -> str:
        return cls.__name__

    @property
    def three(self) -> int:
        return 3

    class Inner:
        pass


Adder = ray.remote(Plain)


@pytest.mark.contract("F2.01")
def test_completion_shows_the_methods_of_a_class() -> None:
    shown = dir(Adder)
    assert {"add", "double", "title", "level", "Inner", "remote", "options", "bind"} <= set(shown)
    assert shown == sorted(shown)
    assert {"add", "double", "title"} <= set(dir(Adder.remote()))


@pytest.mark.contract("F2.01")
def test_the_methods_of_a_class_can_be_looked_at() -> None:
    assert inspect.ismethod(Adder.add)
    assert list(inspect.signature(Adder.add).parameters) == ["more"]
    assert Adder.add.__doc__ == "Add to it."
    assert (Adder.double(4), Adder.level, Adder.Inner, Adder.three) == (8, 3, Plain.Inner, 3)
    assert all(hasattr(Adder, name) for name in dir(Plain) if not name.startswith("__"))
    with pytest.raises(AttributeError, match=r"ActorClass\(Plain\).*nothing"):
        _ = Adder.nothing


@pytest.mark.contract("F2.01")
def test_what_names_a_method_still_travels() -> None:
    """A method in a closure is the class's own, and not found by way of the actor class."""
    add = Plain.add
    assert ray.get(ray.remote(lambda: add(Plain(4), 5)).remote()) == 9
    assert ray.get(ray.remote(lambda: ray.get(Adder.remote(2).add.remote(1))).remote()) == 3
    again = pickle.loads(ray.cloudpickle.dumps(Adder))
    assert ray.get(again.remote(5).add.remote(1)) == 6
