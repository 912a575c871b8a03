"""However a session ends, soon nothing of it is left: no process, no memory, no socket."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import (
    IS_HELIOSTAT,
    Driver,
    Session,
    is_alive,
    session_of,
    wait_until,
)

# A session with everything in it: tasks, an actor, a large object, and a driver that goes on
# when the file named by the first argument appears.
BUSY = """
import os, sys, time
import ray

context = ray.init(address="local", num_cpus=2, include_dashboard=False)

@ray.remote
class Actor:
    def pid(self):
        return os.getpid()

@ray.remote
def pid():
    return os.getpid()

@ray.remote
def endless():
    while True:
        time.sleep(0.05)

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

actor = Actor.remote()
large = ray.put(bytes(30_000_000))
print(f"task_pid={ray.get(pid.remote())}")
print(f"actor_pid={ray.get(actor.pid.remote())}")
print(f"session={context.address_info['session_dir']}", flush=True)
"""

BLOCKED = """
print("blocked=yes", flush=True)
ray.get(endless.remote())
"""


class Running:
    """A busy driver and what belongs to it."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.session: Session = session_of(driver.wait_line("session"), [driver.pid])
        self.shared_memory = self.session.shared_memory()
        self.task_pid = int(driver.wait_line("task_pid"))
        self.actor_pid = int(driver.wait_line("actor_pid"))
        assert self.session.processes(), "the session is seen from outside"
        assert is_alive(self.actor_pid)

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not is_alive(self.driver.pid), what="the driver ended")
        self.session.assert_gone(self.shared_memory)
        # Ray's workers can outlive a driver that had no time to say goodbye.
        workers = {self.task_pid, self.actor_pid} if IS_HELIOSTAT else set()
        wait_until(lambda: not any(map(is_alive, workers)), what="the workers ended")


@pytest.fixture
def start(start_driver: Any) -> Callable[..., Running]:
    def start(source: str, *args: str, **options: Any) -> Running:
        return Running(start_driver(BUSY + source, args=args, **options))

    return start


@pytest.mark.contract("F0.08", "F5.08")
@pytest.mark.parametrize(
    ("ending", "rc"),
    [
        ("ray.shutdown()", 0),
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError('end')", 1),
        ("unread = endless.remote()", 0),
        ("os._exit(4)", 4),
    ],
)
def test_after_the_end_of_the_driver(start: Any, tmp_path: Path, ending: str, rc: int) -> None:
    gate = tmp_path / "gate"
    running = start(f"\nwait_for(sys.argv[1])\n{ending}\n", str(gate))
    gate.touch()
    assert running.driver.finish().rc == rc
    running.assert_nothing_left()


@pytest.mark.contract("F5.09")
def test_after_ctrl_c_in_get(start: Any) -> None:
    """Ctrl-C reaches the whole process group of the terminal, and ``get`` is interrupted."""
    running = start(BLOCKED)
    running.driver.wait_line("blocked")
    os.killpg(running.driver.pid, signal.SIGINT)
    done = running.driver.finish()
    assert done.rc in (1, 130, -signal.SIGINT), done.report()
    assert "KeyboardInterrupt" in done.stderr
    running.assert_nothing_left()


@pytest.mark.contract("F5.09", "F5.08")
def test_ctrl_c_can_be_caught_and_the_session_goes_on(start: Any) -> None:
    running = start(
        """
ref = endless.remote()
print("blocked=yes", flush=True)
try:
    ray.get(ref)
except KeyboardInterrupt:
    print("caught=yes", flush=True)
print(f"alive={ray.get(actor.pid.remote()) > 0}", flush=True)
"""
    )
    running.driver.wait_line("blocked")
    running.driver.process.send_signal(signal.SIGINT)
    done = running.driver.finish().check()
    assert (done.value("caught"), done.value("alive")) == ("yes", "True")
    running.assert_nothing_left()


@pytest.mark.contract("F5.09")
def test_ctrl_c_reaches_a_driver_whose_results_never_pause(start: Any) -> None:
    running = start(
        """
import threading

def flood():
    while True:
        ray.get([actor.pid.remote() for _ in range(3)])

threading.Thread(target=flood, daemon=True).start()
ref = endless.remote()
print("blocked=yes", flush=True)
ray.get(ref)
"""
    )
    running.driver.wait_line("blocked")
    running.driver.process.send_signal(signal.SIGINT)
    done = running.driver.finish()
    assert done.rc in (1, 130, -signal.SIGINT), done.report()
    assert "KeyboardInterrupt" in done.stderr
    running.assert_nothing_left()


@pytest.mark.contract("F5.09")
def test_after_sigterm_to_the_driver(start: Any) -> None:
    running = start(BLOCKED)
    running.driver.wait_line("blocked")
    running.driver.process.terminate()
    running.driver.finish()
    running.assert_nothing_left()


@pytest.mark.contract("F5.08")
@pytest.mark.parametrize("group", [False, True], ids=["driver", "process-group"])
def test_after_kill_9_of_the_driver(start: Any, group: bool) -> None:
    running = start(BLOCKED)
    running.driver.wait_line("blocked")
    if group:
        os.killpg(running.driver.pid, signal.SIGKILL)
    else:
        running.driver.process.kill()
    running.driver.process.wait(60)
    running.assert_nothing_left()


@pytest.mark.contract("F5.01", "F5.08")
def test_after_kill_9_of_a_worker(start: Any, tmp_path: Path) -> None:
    """The session outlives it, and leaves nothing when it ends."""
    killed, gate = tmp_path / "killed", tmp_path / "gate"
    running = start(
        """
wait_for(sys.argv[1])
print(f"again={ray.get(pid.remote())}", flush=True)
try:
    ray.get(actor.pid.remote())
except ray.exceptions.RayActorError as error:
    print(f"actor={type(error).__name__}", flush=True)
wait_for(sys.argv[2])
""",
        str(killed),
        str(gate),
    )
    for pid in {running.task_pid, running.actor_pid}:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not is_alive(pid))
    killed.touch()
    assert int(running.driver.wait_line("again")) != running.task_pid
    assert running.driver.wait_line("actor") in ("ActorDiedError", "ActorUnavailableError")
    gate.touch()
    running.driver.finish().check()
    running.assert_nothing_left()


@pytest.mark.contract("F5.01", "F5.08")
@pytest.mark.heliostat_only("Ray has other processes here")
def test_after_kill_9_of_the_daemon(start: Any) -> None:
    """Workers go with it, and the driver in ``get`` is told instead of waiting for ever."""
    running = start(
        """
print("blocked=yes", flush=True)
try:
    ray.get(endless.remote())
except ray.exceptions.RayError as error:
    print(f"error={type(error).__name__}: {error}".replace("\\n", " "), flush=True)
"""
    )
    running.driver.wait_line("blocked")
    daemons = running.session.daemons()
    assert len(daemons) == 1, running.session.processes()
    os.kill(daemons[0], signal.SIGKILL)
    running.session.assert_gone(running.shared_memory)
    done = running.driver.finish().check()
    assert done.value("error")
    running.assert_nothing_left()


@pytest.mark.contract("F5.01", "F5.08")
@pytest.mark.heliostat_only("Ray has no zygote")
def test_after_kill_9_of_every_helper(start: Any, tmp_path: Path) -> None:
    """Whatever is neither daemon nor busy worker may die: the next task finds a worker."""
    killed = tmp_path / "killed"
    running = start(
        """
wait_for(sys.argv[1])
print(f"again={sum(ray.get([pid.remote() for _ in range(4)])) > 0}", flush=True)
""",
        str(killed),
    )
    spared = {*running.session.daemons(), running.actor_pid}
    for pid in set(running.session.pids()) - spared:
        os.kill(pid, signal.SIGKILL)
    killed.touch()
    assert running.driver.wait_line("again") == "True"
    running.driver.finish().check()
    running.assert_nothing_left()


@pytest.mark.contract("F5.08")
@pytest.mark.heliostat_only("Ray leaves the children of its workers")
@pytest.mark.parametrize("parent", ["actor", "task", "hook"])
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_children_of_workers_end_too(start: Any, tmp_path: Path, parent: str, end: str) -> None:
    gate = tmp_path / "gate"
    running = start(
        """
def spawn():
    import subprocess
    os.environ["CHILD"] = str(subprocess.Popen(["sleep", "1000"]).pid)

@ray.remote
class Parent:
    def spawn(self):
        spawn()
        return os.environ["CHILD"]

@ray.remote
def task(spawns):
    if spawns:
        spawn()
    return os.environ["CHILD"]

if sys.argv[2] == "actor":
    parent = Parent.remote()
    child = parent.spawn.remote()
elif sys.argv[2] == "task":
    child = task.remote(True)
else:
    child = task.options(runtime_env={"worker_process_setup_hook": spawn}).remote(False)
print(f"child={ray.get(child)}", flush=True)
wait_for(sys.argv[1])
""",
        str(gate),
        parent,
    )
    child = int(running.driver.wait_line("child"))
    assert is_alive(child)
    if end == "kill":
        running.driver.process.kill()
        running.driver.process.wait(60)
    else:
        gate.touch()
        running.driver.finish().check()
    running.assert_nothing_left()
    wait_until(lambda: not is_alive(child), what="the child ended")


@pytest.mark.contract("F5.08", "F2.17", "F2.06")
def test_a_killed_driver_leaves_the_cluster_of_others_alone(
    ray_fresh: Any, start_driver: Any
) -> None:
    """Its actors end, its detached ones stay, its CPUs are free."""
    import ray

    context = ray_fresh(num_cpus=3)
    driver = start_driver(
        """
        import os, sys, time
        import ray

        ray.init(address=sys.argv[1], namespace="theirs")

        @ray.remote(num_cpus=1)
        class Actor:
            def pid(self):
                return os.getpid()

        @ray.remote
        def endless():
            while True:
                time.sleep(0.05)

        plain = Actor.remote()
        stays = Actor.options(name="stays", lifetime="detached").remote()
        running = endless.remote()
        print(f"plain={ray.get(plain.pid.remote())}")
        print(f"stays={ray.get(stays.pid.remote())}", flush=True)
        ray.get(running)
        """,
        args=[context.address_info["address"]],
    )
    plain, stays = int(driver.wait_line("plain")), int(driver.wait_line("stays"))
    wait_until(lambda: ray.available_resources().get("CPU", 0.0) == 0.0)
    driver.process.kill()
    driver.process.wait(60)
    wait_until(lambda: not is_alive(plain), what="its actor ended")
    wait_until(
        lambda: ray.available_resources().get("CPU") == 2.0,
        what="only the detached actor holds a CPU",
    )
    assert is_alive(stays)
    actor = ray.get_actor("stays", namespace="theirs")
    assert ray.get(actor.pid.remote()) == stays
    ray.kill(actor)


@pytest.mark.contract("F0.08")
@pytest.mark.heliostat_only("Ray needs four seconds a round")
def test_many_sessions_in_a_row_leave_no_trace(run_driver: Any) -> None:
    done = run_driver(
        """
        import os
        import time
        import ray

        @ray.remote
        def one():
            return 1

        def left():
            # Threads and open files, once the last thread has had the time to end.
            deadline = time.monotonic() + 60
            while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

        counts = []
        for _ in range(12):
            ray.init(address="local", num_cpus=1, include_dashboard=False)
            assert ray.get(one.remote()) == 1
            ray.shutdown()
            counts.append(left())
        print(f"first={counts[3]}")
        print(f"last={counts[-1]}")
        """
    ).check()
    assert done.value("first") == done.value("last")
