"""``ray stack``, ``top``, ``kill-actor`` and ``cluster-dump``."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tarfile
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from heliostat import _heliostat
from heliostat.core.debug import stacks

from tests.helpers.harness import clean_env, wait_until

pytestmark = [
    pytest.mark.contract("F6.17"),
    pytest.mark.heliostat_only("Ray's `stack` needs py-spy and its rights; `top` is Heliostat's"),
]
CLI = str(Path(sys.executable).parent / "ray")
LIMIT_S = 90

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, ray_fresh: Callable[..., Any]) -> Iterator[Run]:
    """The command against a cluster of the test's own; what it prints."""
    ray_fresh(num_cpus=4, _temp_dir=str(tmp_path / "ray"))
    env = clean_env({"RAY_TMPDIR": str(tmp_path), "COLUMNS": "100"})

    def command(*args: str, fails: bool = False) -> str:
        done = subprocess.run(
            [CLI, *args], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert (done.returncode != 0) == fails, f"{args}: {done.stdout}{done.stderr}"
        return done.stderr if fails else done.stdout

    return command


@ray.remote(num_cpus=0)
class Place:
    """Does what it is told, and says who it is."""

    def pid(self) -> int:
        return os.getpid()

    def sleep(self) -> None:
        time.sleep(3600)

    def matches(self) -> None:
        re.match(r"(a+)+b", "a" * 64)  # for ever, and without giving the interpreter's lock up

    def pick(self) -> int:
        return self._one()

    def _one(self) -> int:
        return ray.get(never.remote())


@ray.remote(num_cpus=0)
class Messy:
    """Leaves garbage."""

    def make(self) -> int:
        gc.disable()
        for _ in range(1000):
            cycle: list[Any] = []
            cycle.append(cycle)
        return len(gc.garbage)

    def sleep(self) -> None:
        time.sleep(3600)


@ray.remote(num_cpus=0)
class Loop:
    async def pid(self) -> int:
        return os.getpid()

    async def outer(self) -> None:
        await self.inner()

    async def inner(self) -> None:
        await asyncio.sleep(3600)


@ray.remote(num_cpus=0, resources={"never": 1})
def never() -> int:
    return 1


def stack_of(run: Run, pid: int, *lines: str) -> str:
    """What the command says of a worker once all those lines are in it."""

    def told() -> str:
        said = run("stack", "--pid", str(pid))
        return said if all(line in said for line in lines) else ""

    return wait_until(told, within=LIMIT_S, what=f"{lines} in the stack of {pid}")


def test_stacks_of_calls_that_sleep_and_that_wait(run: Run) -> None:
    sleeper, waiter = Place.remote(), Place.remote()
    pids = ray.get([sleeper.pid.remote(), waiter.pid.remote()], timeout=LIMIT_S)
    calls = [sleeper.sleep.remote(), waiter.pick.remote()]
    told = stack_of(run, pids[0], "in sleep", "time.sleep(3600)")
    assert f"process {pids[0]}, ray::Place.sleep" in told
    # The caller stands above what it calls, and the worker's own calls are not shown.
    told = stack_of(run, pids[1], "in pick", "in _one", "ray.get(never.remote())")
    assert told.index("in pick") < told.index("in _one")
    assert "worker_main.py" not in told
    assert "zygote.py" not in told
    # The calls go on as if nobody had asked.
    assert ray.wait(calls, timeout=0)[0] == []
    everybody = run("stack")
    assert all(f"process {pid}," in everybody for pid in pids)


def test_the_stack_of_a_worker_that_keeps_the_interpreters_lock(run: Run) -> None:
    stuck = Place.remote()
    pid = ray.get(stuck.pid.remote(), timeout=LIMIT_S)
    stuck.matches.remote()
    told = stack_of(run, pid, "in matches")
    assert "in pick" not in told


def test_the_coroutines_of_an_async_actor(run: Run) -> None:
    loop = Loop.remote()
    pid = ray.get(loop.pid.remote(), timeout=LIMIT_S)
    calls = [loop.outer.remote() for _ in range(2)]
    told = stack_of(run, pid, "its event loop waits", "await self.inner()", "in inner")
    assert told.count("Coroutine outer:") == len(calls)


def test_the_threads_of_a_threaded_actor(run: Run) -> None:
    place = Place.options(max_concurrency=3).remote()
    pid = ray.get(place.pid.remote(), timeout=LIMIT_S)
    calls = [place.sleep.remote(), place.pick.remote()]
    told = stack_of(run, pid, "time.sleep(3600)", "ray.get(never.remote())")
    assert told.count("Thread ") == len(calls) + 1
    assert "Thread MainThread: no call runs" in told


def test_a_stopped_worker_and_no_worker(run: Run) -> None:
    place = Place.remote()
    pid = ray.get(place.pid.remote(), timeout=LIMIT_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert f"kill -CONT {pid}" in stack_of(run, pid, "it is stopped")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(place.pid.remote(), timeout=LIMIT_S) == pid
    # This process is a driver, and is left alone: the signal would end it.
    said = run("stack", "--pid", str(os.getpid()), fails=True)
    assert f"{os.getpid()} is not a worker of this machine" in said
    assert str(pid) in said


def test_a_process_that_a_worker_has_started_is_not_asked(run: Run) -> None:
    @ray.remote(num_cpus=0)
    class Parent:
        def begin(self) -> tuple[int, int]:
            self.child = subprocess.Popen(["sleep", "3600"])
            return os.getpid(), self.child.pid

        def lives(self) -> bool:
            return self.child.poll() is None

    parent = Parent.remote()
    pid, child = ray.get(parent.begin.remote(), timeout=LIMIT_S)
    assert not stacks.shares_stacks(child, pid)
    assert stacks.stacks_of(child) == "(its process shows no stack)\n"
    assert f"process {child}," not in run("stack")
    assert ray.get(parent.lives.remote(), timeout=LIMIT_S)


def test_stacks_of_all_nodes(run: Run) -> None:
    place = Place.remote()
    pid = ray.get(place.pid.remote(), timeout=LIMIT_S)
    place.sleep.remote()

    def told() -> bool:
        said = run("stack", "--all-nodes", "--pid", str(pid))
        assert f"process {pid}," in said
        assert said.count("process ") == 1
        return "time.sleep(3600)" in said

    wait_until(told, within=LIMIT_S, what="the stack of the actor")
    # Garbage that only cycles hold goes when all workers are told to look for it, busy ones, too.
    messy = Messy.remote()
    assert ray.get(messy.make.remote(), timeout=LIMIT_S) == 0
    messy.sleep.remote()

    def collected() -> int:
        found = re.fullmatch(
            r"Garbage was collected in (\d+) workers: (\d+) objects\.\n", run("global-gc")
        )
        assert found is not None
        assert int(found[1]) >= 2
        return int(found[2])

    wait_until(lambda: collected() >= 1000, within=LIMIT_S, what="the cycles")
    assert "--all-nodes" in run("stack", "--address", "127.0.0.1:1", fails=True)


def test_top_counts_what_runs_and_what_waits(run: Run) -> None:
    place = Place.remote()
    ray.get(place.pid.remote(), timeout=LIMIT_S)
    place.sleep.remote()
    waiting = [never.remote() for _ in range(3)]

    def row(name: str) -> list[str]:
        said = run("top", "--batch", "-n", "1")
        return next((line.split() for line in said.splitlines() if line.split()[:1] == [name]), [])

    # Running, waiting, finished, failed.
    wait_until(lambda: row("Place.sleep") == ["Place.sleep", "1", "0", "0", "0"], within=LIMIT_S)
    wait_until(lambda: row("never") == ["never", "0", "3", "0", "0"], within=LIMIT_S)
    assert row("Place") == ["Place", "1"]
    assert len(waiting) == 3
    said = run("top", "--batch", "-n", "2", "--delay", "0.2")
    assert said.count("Nodes") == 2
    assert "per second" in said
    assert "CPU" in said
    assert "0/4" in said
    assert "--delay must be" in run("top", "--delay", "0", fails=True)


def test_top_in_a_terminal(tmp_path: Path, run: Run) -> None:
    place = Place.remote()
    ray.get(place.pid.remote(), timeout=LIMIT_S)
    place.sleep.remote()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            CLI,
            [CLI, "top", "--delay", "0.2"],
            clean_env({"RAY_TMPDIR": str(tmp_path), "TERM": "xterm"}),
        )
    shown, until = b"", time.monotonic() + LIMIT_S
    try:
        while b"Place.sleep" not in shown or b"Nodes" not in shown:
            assert time.monotonic() < until, shown
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 65536)
        os.write(terminal, b"q")
        ended: tuple[int, int] = (0, 0)
        while ended[0] == 0:
            assert time.monotonic() < until, "q does not end it"
            # A terminal that nobody reads holds the program up.
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    os.read(terminal, 65536)
                except OSError:
                    pass
            ended = os.waitpid(pid, os.WNOHANG)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(ended[1]) == 0


def in_terminal(
    folder: Path,
    args: list[str],
    columns: int,
    rows: int = 24,
    keys: bytes = b"",
    term: str = "xterm",
) -> tuple[int, str]:
    """The exit code of a command and what it shows in a terminal of that size; ``keys``: typed once it
    has drawn something.
    """
    env = clean_env({"RAY_TMPDIR": str(folder), "TERM": term})
    env.pop("COLUMNS", None)
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execve(CLI, [CLI, *args], env)
    shown, until = b"", time.monotonic() + LIMIT_S
    try:
        while True:
            assert time.monotonic() < until, f"{args} does not end: {shown!r}"
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            try:
                part = os.read(terminal, 65536)
            except OSError:
                break
            shown += part
            if keys and b"node" in shown:
                os.write(terminal, keys)
                keys = b""
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")


LONG = "a_function_whose_name_is_longer_than_a_line_of_a_terminal_and_tells_a_story_of_its_own"


def test_lines_fit_the_terminal_and_are_whole_in_a_pipe(tmp_path: Path, run: Run) -> None:
    place = Place.options(name=LONG).remote()
    value = ray.put(bytes(10**6))
    calls = [place.sleep.remote(), never.options(name=LONG).remote()]
    wait_until(lambda: LONG in run("top", "--batch", "-n", "1"), within=LIMIT_S, what="the call")
    assert value.hex() in run("memory")
    for columns in (80, 160):
        for args in (["top", "-b", "-n", "1"], ["memory"]):
            code, shown = in_terminal(tmp_path, args, columns)
            assert code == 0, shown
            assert not [line for line in shown.splitlines() if len(line) > columns], args
    _, shown = in_terminal(tmp_path, ["memory"], 80)
    assert value.hex() not in shown
    assert "--wide shows lines whole" in shown
    assert value.hex() in in_terminal(tmp_path, ["memory", "--wide"], 80)[1]
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("term", "columns", "rows"), [("xterm", 20, 5), ("vt100", 80, 24), ("xterm-256color", 160, 50)]
)
def test_keys_of_top(tmp_path: Path, run: Run, term: str, columns: int, rows: int) -> None:
    run("top", "--batch", "-n", "1")
    keys = b"sSrp p+-kj\x1bOA\x1bOB\x1b[5~\x1b[6~q"
    code, shown = in_terminal(tmp_path, ["top"], columns, rows, keys, term)
    assert code == 0, shown
    assert "Traceback" not in shown


def test_top_in_a_terminal_without_room(tmp_path: Path, run: Run) -> None:
    run("top", "--batch", "-n", "1")
    code, shown = in_terminal(tmp_path, ["top", "-n", "1"], 3, 2)
    assert code == 0, shown


def test_top_where_nothing_can_be_drawn(tmp_path: Path, run: Run) -> None:
    run("top", "--batch", "-n", "1")
    for term in ("dumb", "no-such-terminal"):
        code, shown = in_terminal(tmp_path, ["top", "-n", "1"], 80, term=term)
        assert code == 0, shown
        assert f"{term!r} cannot be drawn on" in shown
        assert "Nodes" in shown


def test_kill_actor(run: Run) -> None:
    kept = Place.options(name="one", namespace="first").remote()
    other = Place.options(name="one", namespace="second", max_restarts=1).remote()
    pid = ray.get([kept.pid.remote(), other.pid.remote()], timeout=LIMIT_S)[1]
    said = run("kill-actor", "--name", "one", fails=True)
    assert "'first', 'second'" in said
    assert "--namespace" in said
    assert "no actor 'two' in any namespace" in run("kill-actor", "--name", "two", fails=True)
    busy = other.sleep.remote()
    assert "Killed" in run("kill-actor", "--name", "one", "--namespace", "second", "--force")
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(busy, timeout=LIMIT_S)
    # It had a life left.
    again = wait_until(lambda: pid_of(other), within=LIMIT_S, what="the next life")
    assert again != pid
    run("kill-actor", "--name", "one", "--namespace", "second", "--force", "--no-restart")
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(other.pid.remote(), timeout=LIMIT_S)
    assert "has ended" in run("kill-actor", "--name", "one")
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(kept.pid.remote(), timeout=LIMIT_S)
    assert "--force" in run("kill-actor", "--name", "one", "--no-restart", fails=True)


def pid_of(actor: Any) -> int | None:
    try:
        return int(ray.get(actor.pid.remote(), timeout=LIMIT_S))
    except ray.exceptions.RayActorError:
        return None


def test_a_cluster_in_one_file(tmp_path: Path, run: Run) -> None:
    @ray.remote(num_cpus=0)
    def say() -> None:
        print("a line that was printed")

    place = Place.options(name="kept").remote()
    pid = ray.get(place.pid.remote(), timeout=LIMIT_S)
    place.sleep.remote()
    ray.get(say.remote(), timeout=LIMIT_S)
    stack_of(run, pid, "in sleep")
    file = tmp_path / "dump.tar.gz"
    assert str(file) in run("cluster-dump", "--output", str(file))
    with tarfile.open(file) as archive:
        inside = {m.name: archive.extractfile(m).read().decode() for m in archive.getmembers()}  # type: ignore[union-attr]
    (stacks_file,) = (name for name in inside if name.endswith("/stacks.txt"))
    node = os.path.dirname(stacks_file)
    assert f"process {pid}," in inside[stacks_file]
    assert "time.sleep(3600)" in inside[stacks_file]
    assert [row["name"] for row in json.loads(inside["cluster-dump/state/actors.json"])] == ["kept"]
    assert len(json.loads(inside["cluster-dump/state/nodes.json"])) == 1
    printed = [text for name, text in inside.items() if name.startswith(f"{node}/logs/worker-")]
    assert any("a line that was printed" in text for text in printed)
    assert "numpy==" in inside[f"{node}/pip.txt"]
    assert f"\n{pid} " in inside[f"{node}/processes.txt"]
    token = Path.home() / ".ray" / "auth_token"
    assert not token.exists() or not any(
        token.read_text().strip() in text for text in inside.values()
    )
    run(
        "cluster-dump",
        "--output",
        str(file),
        "--no-logs",
        "--no-pip",
        "--no-processes",
        "--no-debug-state",
    )
    with tarfile.open(file) as archive:
        assert archive.getnames() == ["cluster-dump/about.txt"]
    said = run("cluster-dump", "cluster.yaml", fails=True)
    assert "exec cluster.yaml" in said


def test_logs_of_a_scripts_own_cluster_are_named_where_there_is_no_server(run: Run) -> None:
    said = run("logs", fails=True)
    folder = f"{_heliostat.session()['session_dir']}/logs"
    assert "include_dashboard=True" in said, said
    assert folder in said, said
    assert "--dashboard-host" not in said, said
