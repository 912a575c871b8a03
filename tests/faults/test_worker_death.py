"""A worker that dies: who is told, what the error says, and what is tried again."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, RayActorError, WorkerCrashedError

from tests.helpers.harness import IS_HELIOSTAT, is_alive, wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

# How a process may end, and what an error about it must contain.
DEATHS = {
    "exit-code": ("os._exit(7)", ["code 7"]),
    "exit-zero": ("os._exit(0)", ["code 0"]),
    "segfault": ("os.kill(os.getpid(), signal.SIGSEGV)", ["SIGSEGV"]),
    "kill-9": ("os.kill(os.getpid(), signal.SIGKILL)", ["SIGKILL"]),
    "abort": ("os.abort()", ["SIGABRT"]),
    "sys-exit": ("sys.exit(5)", []),
}


@ray.remote(max_retries=0)
def die(how: str, log: str | None = None) -> None:
    if log:
        with open(log, "a") as out:
            out.write("x")
    print("these are my last words")
    print("complaint before the end", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    exec(how, {"os": os, "signal": signal, "sys": sys})


@ray.remote
class Mortal:
    def __init__(self, how: str = "") -> None:
        exec(how, {"os": os, "signal": signal, "sys": sys})

    def die(self, how: str) -> None:
        print("these are my last words", flush=True)
        exec(how, {"os": os, "signal": signal, "sys": sys})

    def pid(self) -> int:
        return os.getpid()

    def nap(self, seconds: float) -> None:
        time.sleep(seconds)


def says_why(error: Exception, cause: list[str]) -> None:
    """Ray leaves the cause to its log files; here the error itself has to name it."""
    if IS_HELIOSTAT:
        text = str(error)
        for part in cause:
            assert text.count(part) == 1, text
        assert text.count("these are my last words") == 1, text


@pytest.mark.contract("F5.01", "F1.10", "F0.15")
@pytest.mark.parametrize(("how", "cause"), DEATHS.values(), ids=DEATHS)
def test_in_a_task(how: str, cause: list[str]) -> None:
    with pytest.raises(WorkerCrashedError) as caught:
        ray.get(die.remote(how))
    says_why(caught.value, cause)


@pytest.mark.contract("F5.01", "F2.11", "F0.15")
@pytest.mark.parametrize(
    ("how", "cause"), [v for k, v in DEATHS.items() if k != "sys-exit"], ids=list(DEATHS)[:-1]
)
def test_in_an_actor(how: str, cause: list[str]) -> None:
    mortal = Mortal.remote()
    assert ray.get(mortal.pid.remote())
    with pytest.raises(RayActorError):
        ray.get(mortal.die.remote(how))

    def later() -> ActorDiedError | None:
        try:
            ray.get(mortal.pid.remote())
        except ActorDiedError as error:
            return error
        except RayActorError:
            return None
        raise AssertionError("the actor answers")

    error = wait_until(later, what="the death is known")
    assert error.actor_id == mortal._actor_id.hex()
    assert "Mortal" in str(error)
    assert not error.actor_init_failed
    says_why(error, cause)


@pytest.mark.contract("F5.01", "F2.11")
def test_the_call_that_was_running_says_why_too() -> None:
    mortal = Mortal.remote()
    with pytest.raises(RayActorError) as caught:
        ray.get(mortal.die.remote("os._exit(9)"))
    says_why(caught.value, ["code 9"])


@pytest.mark.contract("F2.10", "F5.01")
def test_in_a_constructor() -> None:
    mortal = Mortal.remote("os._exit(8)")
    with pytest.raises(ActorDiedError) as caught:
        ray.get(mortal.pid.remote())
    if IS_HELIOSTAT:
        assert "code 8" in str(caught.value)


@pytest.mark.contract("F1.10", "F5.04")
@pytest.mark.parametrize("how", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_default_is_three_retries(tmp_path: Path, how: str) -> None:
    log = tmp_path / "runs"
    with pytest.raises(WorkerCrashedError):
        ray.get(die.options(max_retries=3).remote(how, str(log)))
    assert log.read_text() == "xxxx"


@pytest.mark.contract("F1.10", "F5.04")
def test_the_environment_sets_another_default(run_driver: Any, tmp_path: Path) -> None:
    run_driver(
        """
        import os, sys
        import ray

        ray.init(address="local", num_cpus=1, include_dashboard=False)

        @ray.remote
        def die(log):
            with open(log, "a") as out:
                out.write("x")
            os._exit(1)

        try:
            ray.get(die.remote(sys.argv[1]))
        except ray.exceptions.WorkerCrashedError:
            print("crashed=yes")
        """,
        args=[str(tmp_path / "runs")],
        env={"RAY_TASK_MAX_RETRIES": "1"},
    ).check()
    assert (tmp_path / "runs").read_text() == "xx"


@pytest.mark.contract("F1.10", "F5.01")
def test_a_death_harms_nobody_else() -> None:
    """Tasks that had not begun on the dead worker are not failed with it."""

    @ray.remote(max_retries=0)
    def work(i: int) -> int:
        if i == 20:
            os._exit(1)
        return i

    refs = [work.remote(i) for i in range(60)]
    failed = []
    for i, ref in enumerate(refs):
        try:
            assert ray.get(ref, timeout=30) == i
        except WorkerCrashedError:
            failed.append(i)
    assert failed == [20]


@pytest.mark.contract("F1.10", "F5.01")
def test_a_worker_killed_from_outside(tmp_path: Path) -> None:
    pid_file = tmp_path / "pids"

    @ray.remote
    def long(path: str) -> str:
        with open(path, "a") as out:
            out.write(f"{os.getpid()}\n")
        if len(Path(path).read_text().split()) == 1:
            time.sleep(100)
        return "done"

    ref = long.remote(str(pid_file))
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    assert ray.get(ref, timeout=20) == "done"


@pytest.mark.contract("F5.01", "F3.01")
def test_who_waits_for_a_dead_actor_is_told() -> None:
    mortal = Mortal.remote()
    pid = ray.get(mortal.pid.remote())
    refs = [mortal.nap.remote(3600)] + [mortal.pid.remote() for _ in range(20)]
    os.kill(pid, signal.SIGKILL)
    for ref in refs:
        with pytest.raises(RayActorError):
            ray.get(ref, timeout=60)
    wait_until(lambda: not is_alive(pid), what="the process ended")


@pytest.mark.contract("F1.05", "F5.01")
def test_a_parent_that_dies_takes_its_children_along(tmp_path: Path) -> None:
    mark = tmp_path / "child"

    @ray.remote
    def child(path: str) -> None:
        with open(path, "w") as out:
            out.write(str(os.getpid()) + "\n")
        time.sleep(100)

    @ray.remote(max_retries=0)
    def parent(path: str) -> None:
        ref = child.remote(path)
        while not os.path.exists(path):
            time.sleep(0.01)
        os._exit(1)
        ray.get(ref)

    with pytest.raises(WorkerCrashedError):
        ray.get(parent.remote(str(mark)))
    wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"))
    pid = int(mark.read_text())
    wait_until(lambda: not is_alive(pid), what="the child of a dead owner ended")


@pytest.mark.contract("F5.01", "F3.03")
def test_an_actor_handle_passed_on_sees_the_death() -> None:
    mortal = Mortal.remote()
    pid = ray.get(mortal.pid.remote())

    @ray.remote
    def ask(handle: Any) -> str:
        try:
            ray.get(handle.nap.remote(100))
        except RayActorError as error:
            return type(error).__name__
        return "nothing"

    ref = ask.remote(mortal)
    assert ray.wait([ref], timeout=0.5)[0] == []
    os.kill(pid, signal.SIGKILL)
    assert ray.get(ref, timeout=20) in ("ActorDiedError", "ActorUnavailableError")


@pytest.mark.contract("F5.01", "F4.09")
def test_resources_of_the_dead_come_back() -> None:
    holders = [Mortal.options(num_cpus=1).remote() for _ in range(4)]
    for pid in ray.get([h.pid.remote() for h in holders]):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: ray.available_resources().get("CPU") == 4.0)
    del holders


@pytest.mark.contract("F1.09", "F1.17")
@pytest.mark.parametrize("bound", [-1, 4])
@pytest.mark.parametrize("size", [1, 200_000], ids=["small", "stored"])
def test_a_generator_that_dies_goes_on_where_its_reader_is(
    tmp_path: Path, bound: int, size: int
) -> None:
    died = tmp_path / "died"

    @ray.remote(num_returns="streaming", max_retries=3, _generator_backpressure_num_objects=bound)
    def items() -> Any:
        for number in range(16):
            if number == 10 and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield bytes([number]) * size

    found = [ray.get(ref, timeout=60) for ref in items.remote()]
    assert found == [bytes([number]) * size for number in range(16)]
    assert died.exists()


@ray.remote
def run_without_output(seconds: float) -> str:
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    time.sleep(seconds)
    return "done"


def test_a_worker_that_gave_up_its_output_does_not_keep_its_node_busy() -> None:
    # A node whose daemon is silent for 5 s counts as dead.
    assert ray.get(run_without_output.remote(6.5), timeout=60) == "done"
    assert [node["Alive"] for node in ray.nodes()] == [True]
