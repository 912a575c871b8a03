"""Whatever waits can say what it waits for (WHY-1): `util.why`, and the same words elsewhere."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError, RuntimeEnvSetupError

from tests.helpers.harness import wait_until

pytestmark = [
    pytest.mark.heliostat_only("Ray cannot say what something waits for"),
    pytest.mark.usefixtures("ray_start"),
]
CLUSTER = {"num_cpus": 2}


def why(what: Any) -> str:
    return str(ray.util.why(what))


@ray.remote(num_cpus=0)
def until(path: str) -> str:
    """Runs until the file is there."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote(num_cpus=0)
class Actor:
    def wait(self, path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.01)
        return os.getpid()

    def echo(self, value: Any) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def waits_for(self, refs: list[Any]) -> Any:
        return ray.get(refs[0])

    def why(self, refs: list[Any]) -> str:
        return str(ray.util.why(refs[0]))


def says(what: Any, *parts: str) -> str:
    """The text, once it has all the parts."""
    last = ""

    def probe() -> str | None:
        nonlocal last
        last = why(what)
        return last if all(re.search(part, last) for part in parts) else None

    try:
        return wait_until(probe)
    except AssertionError:
        raise AssertionError(f"{last!r} lacks one of {parts}") from None


def test_a_running_task_says_where_it_runs_and_since_when(tmp_path: Path) -> None:
    go = tmp_path / "go"
    ref = until.remote(str(go))
    says(
        ref,
        r"^until was sent to a process on node \S+ ",
        r"has been running there for .* \(pid \d+\)",
    )
    go.touch()
    assert ray.get(ref) == str(go)
    assert "ready" in why(ref)


def test_a_task_that_needs_an_argument_names_it_and_who_makes_it(tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = until.remote(str(go))
    second = echo.remote(first)
    says(
        second,
        rf"^echo waits for its argument ObjectRef\({first.hex()}\), which until makes\.",
        "running there",
    )
    third = echo.remote(second)
    says(third, f"ObjectRef\\({second.hex()}\\), which echo makes", "echo waits for its argument")
    go.touch()
    assert ray.get(third) == str(go)


def test_a_task_that_waits_for_a_worker_names_the_resource(tmp_path: Path) -> None:
    go = tmp_path / "go"
    holders = [until.options(num_cpus=1).remote(str(go)) for _ in range(2)]
    for holder in holders:
        says(holder, "It has been running there")
    queued = [echo.remote(n) for n in range(3)]
    says(
        queued[0],
        "^echo waits for a worker; 2 workers of its kind are busy with until",
        "0 of 2 CPU free and 1 CPU is needed",
        rf"CPU is held by 2 workers with calls of the driver \(pid {os.getpid()}\)",
    )
    says(queued[2], "2 calls of its kind come first")
    other = echo.options(num_cpus=1.5).remote(0)
    says(other, "1.5 CPU is needed", "This process has until running")
    ray.cancel(other)
    go.touch()
    assert ray.get(queued) == [0, 1, 2]


def test_what_no_node_has_is_named_in_why_in_the_error_and_in_the_warning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    wanted = r"no node has 3 GPU \(none has any\)"
    ref = echo.options(num_gpus=3, name="greedy").remote(1)
    text = says(ref, "waits for a worker", f"(?i){wanted}")
    with pytest.raises(GetTimeoutError, match=f"(?i){wanted}") as raised:
        ray.get(ref, timeout=1.0)
    assert text.rstrip(".") in str(raised.value)
    shown = ""

    def warned() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return re.search(wanted, shown, re.I) is not None

    wait_until(warned, what="the warning")
    assert "waits for a worker" in shown
    ray.cancel(ref)


def test_a_resource_that_is_spelt_otherwise_is_named_in_why_and_in_the_warning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from ray.util import state

    task = r"no node has 1 gpu \(none has any; did you mean GPU\?\)"
    ref = echo.options(resources={"gpu": 1}).remote(1)
    says(ref, f"(?i){task}")
    bundle = "no node has 1 cpu (none has any; did you mean CPU?)"
    group = ray.util.placement_group([{"cpu": 1}])
    says(group, "placement group is PENDING", re.escape(bundle))
    row = state.get_placement_group(group.id.hex())
    assert row is not None
    assert row.state == "PENDING"
    assert row.why is not None
    assert bundle in row.why
    shown = ""

    def warned() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return re.search(task, shown, re.I) is not None

    wait_until(warned, what="the warning")
    ray.cancel(ref)
    ray.util.remove_placement_group(group)


def test_a_poll_does_not_ask_around(tmp_path: Path) -> None:
    ref = until.remote(str(tmp_path / "go"))
    with pytest.raises(GetTimeoutError, match=r"some object\(s\) not ready\. until "):
        ray.get(ref, timeout=0)
    (tmp_path / "go").touch()
    ray.get(ref)


def test_a_retried_task_says_which_attempt_failed_and_how(tmp_path: Path) -> None:
    @ray.remote(max_retries=2)
    def mortal() -> None:
        (tmp_path / f"pid{os.getpid()}").touch()
        while not (tmp_path / "go").exists():
            time.sleep(0.01)

    ref = mortal.remote()
    (first,) = wait_until(lambda: list(tmp_path.glob("pid*")))
    os.kill(int(first.name[3:]), signal.SIGKILL)
    says(ref, "running there", r"Attempt 1 of 3 ended: .*SIGKILL")
    (tmp_path / "go").touch()
    ray.get(ref)


def test_calls_of_an_actor_wait_behind_each_other(tmp_path: Path) -> None:
    go = tmp_path / "go"
    actor = Actor.remote()
    first = actor.wait.remote(str(go))
    second = actor.pid.remote()
    says(
        second,
        r"waits in the process \(pid \d+\)",
        r"Actor\.wait has been running there|wait has been running there",
    )
    says(actor, "^Actor is alive", "2 calls of this process to it have not ended", "running there")
    blocked = until.remote(str(go))
    third = actor.echo.remote(blocked)
    fourth = actor.pid.remote()
    says(third, "waits for its argument")
    says(fourth, "waits behind 1 call to its actor", "waits for its argument ObjectRef")
    go.touch()
    assert ray.get([first, second, fourth])


def test_an_actor_that_cannot_be_placed_names_the_resource() -> None:
    actor = Actor.options(resources={"unobtainium": 1}).remote()
    says(actor, "^Actor is not there yet: no node has 1 unobtainium")
    call = actor.pid.remote()
    says(call, "waits for its actor", "unobtainium")


def test_an_actor_whose_constructor_needs_an_argument_names_it(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    class Needy:
        def __init__(self, value: str) -> None:
            self.value = value

        def get(self) -> str:
            return self.value

    blocked = until.remote(str(tmp_path / "go"))
    needy = Needy.remote(blocked)
    says(
        needy,
        f"constructor of Needy waits for its argument ObjectRef\\({blocked.hex()}\\)",
        "until",
    )
    call = needy.get.remote()
    says(call, "waits for its actor. The constructor of Needy")
    (tmp_path / "go").touch()
    assert ray.get(call) == str(tmp_path / "go")


def test_a_dead_actor_says_what_ended_it() -> None:
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    says(actor, "^Actor is dead", "SIGKILL", str(pid))


def test_a_borrowed_reference_is_explained_by_its_owner(tmp_path: Path) -> None:
    ref = until.remote(str(tmp_path / "go"))
    other = Actor.remote()
    text = ray.get(other.why.remote([ref]))
    for part in ("was asked for it", "until was sent to", "running there"):
        assert part in text
    (tmp_path / "go").touch()


def test_a_call_that_waits_in_get_says_for_what(tmp_path: Path) -> None:
    ref = until.remote(str(tmp_path / "go"))
    actor = Actor.remote()
    call = actor.waits_for.remote([ref])
    says(call, rf"waits in get for ObjectRef\({ref.hex()}\)")
    (tmp_path / "go").touch()
    assert ray.get(call) == str(tmp_path / "go")


def test_a_generator_that_is_far_ahead_waits_for_its_reader() -> None:
    @ray.remote(num_returns="streaming", _generator_backpressure_num_objects=2)
    def count() -> Any:
        yield from range(10)

    items = count.remote()
    says(items, "has made 2 items of which 0 were read", "waits for its reader")
    assert [ray.get(item) for item in items] == list(range(10))


def test_what_is_over_says_how() -> None:
    @ray.remote
    def fails() -> None:
        raise ValueError("no")

    ref = fails.remote()
    with pytest.raises(ValueError, match="no"):
        ray.get(ref)
    assert why(ref) == "It is ready, and reading it raises: ValueError: no."
    assert why(echo.remote(ref)) == why(ref), "what an argument raised"
    big = ray.put(b"x" * 200_000)
    assert "in the object store of node" in why(big)


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match="references, actor handles"):
        ray.util.why(1)


def test_the_owner_is_not_kept_waiting_by_a_worker_that_hangs(tmp_path: Path) -> None:
    """A stopped process does not answer; what its caller knows is told all the same."""
    actor = Actor.remote()
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGSTOP)
    try:
        call = actor.pid.remote()
        text = ray.util.why(call, timeout=0.5)
        assert "was sent to a process on node" in text
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(call) == pid


def test_a_placement_group_and_what_waits_for_it_name_the_resource() -> None:
    from ray.util import state
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"unobtainium": 1}])
    text = says(group, "placement group is PENDING", "unobtainium")
    ready = group.ready()
    says(ready, f"ready when placement group {group.id.hex()} is placed", "unobtainium")
    with pytest.raises(GetTimeoutError, match="unobtainium"):
        ray.get(ready, timeout=1.5)
    strategy = PlacementGroupSchedulingStrategy(group)
    ref = echo.options(num_cpus=0, scheduling_strategy=strategy).remote(1)
    says(ref, "waits for a worker", "(?i)placement group|unobtainium")
    row = state.get_placement_group(group.id.hex())
    assert row is not None
    assert row.state == "PENDING"
    assert row.why is not None
    assert row.why in text
    ray.util.remove_placement_group(group)
    says(group, "REMOVED")
    placed = ray.util.placement_group([{"CPU": 1}])
    ray.get(placed.ready())
    assert why(placed) == "The placement group is CREATED."
    ray.util.remove_placement_group(placed)


def test_what_an_actor_holds_is_named_by_its_class_and_name() -> None:
    holder = Actor.options(num_cpus=2, name="greedy one").remote()
    pid = ray.get(holder.pid.remote())
    queued = echo.remote(1)
    says(queued, rf'CPU is held by actor Actor "greedy one" \(pid {pid}\)')
    waiting = Actor.options(num_cpus=1).remote()
    says(waiting, "^Actor is not there yet: node .* has 0 of 2 CPU free")
    ray.kill(holder)
    assert ray.get(queued) == 1


def test_what_a_placement_group_holds_is_named() -> None:
    group = ray.util.placement_group([{"CPU": 2}], name="all of it")
    ray.get(group.ready())
    queued = echo.remote(1)
    says(queued, f"CPU is held by bundle 0 of placement group {group.id.hex()}")
    assert why(group) == 'The placement group "all of it" is CREATED.'
    ray.util.remove_placement_group(group)
    assert ray.get(queued) == 1


def test_an_actor_that_waits_names_the_calls_in_its_way(tmp_path: Path) -> None:
    go = tmp_path / "go"
    holders = [until.options(num_cpus=1, name=f"crunch-{n}").remote(str(go)) for n in range(2)]
    for holder in holders:
        says(holder, "It has been running there")
    actor = Actor.options(num_cpus=1).remote()
    says(actor, "waiting for other work to end", "This process has crunch-0, crunch-1 running")
    says(actor.pid.remote(), r"^Actor\.pid waits for its actor", "crunch-0")
    go.touch()
    ray.get(holders)


def test_a_constructor_that_runs_says_since_when_and_where(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    class Slow:
        def __init__(self, path: str) -> None:
            (Path(path) / f"pid{os.getpid()}").touch()
            while not (Path(path) / "go").exists():
                time.sleep(0.01)

        def get(self) -> int:
            return 1

    slow = Slow.remote(str(tmp_path))
    (begun,) = wait_until(lambda: list(tmp_path.glob("pid*")))
    begun_there = rf"constructor was begun .* ago and has not returned \(pid {begun.name[3:]}\)"
    says(slow, "^Slow is not there yet", begun_there)
    call = slow.get.remote()
    says(call, r"^Slow\.get waits for its actor", begun_there)
    (tmp_path / "go").touch()
    assert ray.get(call) == 1
    says(slow, "^Slow is alive")


def test_an_actor_that_is_restarted_says_what_ended_it(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
    class Phoenix:
        def __init__(self, path: str) -> None:
            again = (Path(path) / "first").exists()
            (Path(path) / "first").touch()
            while again and not (Path(path) / "go").exists():
                time.sleep(0.01)

        def pid(self) -> int:
            return os.getpid()

    phoenix = Phoenix.remote(str(tmp_path))
    os.kill(ray.get(phoenix.pid.remote()), signal.SIGKILL)
    says(phoenix, "Its last process ended: .*SIGKILL", "Phoenix is being restarted", "constructor")
    (tmp_path / "go").touch()
    assert ray.get(phoenix.pid.remote())


def test_a_full_concurrency_group_is_named(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0, concurrency_groups={"io": 1})
    class Grouped:
        @ray.method(concurrency_group="io")
        def wait(self, path: str) -> None:
            while not os.path.exists(path):
                time.sleep(0.01)

        def free(self) -> int:
            return 1

    go = str(tmp_path / "go")
    actor = Grouped.remote()
    first, second, third = (actor.wait.remote(go) for _ in range(3))
    assert ray.get(actor.free.remote()) == 1
    says(first, "has been running there")
    says(second, 'the only place of the concurrency group "io" is taken, Grouped.wait for')
    assert "running there" not in why(second)
    says(third, "1 call comes before it")
    Path(go).touch()
    ray.get([first, second, third])


@pytest.mark.parametrize("is_async", [False, True])
def test_an_actor_with_all_its_places_taken_says_so(tmp_path: Path, is_async: bool) -> None:
    @ray.remote(num_cpus=0, max_concurrency=2)
    class Threaded:
        def wait(self, path: str) -> None:
            while not os.path.exists(path):
                time.sleep(0.01)

    @ray.remote(num_cpus=0, max_concurrency=2)
    class Async:
        async def wait(self, path: str) -> None:
            import asyncio

            while not os.path.exists(path):
                await asyncio.sleep(0.01)

    go = str(tmp_path / "go")
    cls: Any = Async if is_async else Threaded
    actor = cls.remote()
    first, second, third = (actor.wait.remote(go) for _ in range(3))
    says(second, "has been running there")
    says(third, rf"all 2 places are taken, {'Async' if is_async else 'Threaded'}\.wait for")
    Path(go).touch()
    ray.get([first, second, third])


def test_a_group_that_is_too_large_for_the_cluster_says_how_much_there_is() -> None:
    group = ray.util.placement_group([{"CPU": 1}, {"CPU": 2}], strategy="SPREAD", name="pair")
    says(group, "its 2 bundles need 3 CPU together, and all nodes together have 2")
    ray.util.remove_placement_group(group)


def test_what_is_tried_again_counts_its_attempts() -> None:
    @ray.remote(max_retries=2, retry_exceptions=True)
    def flaky() -> None:
        raise KeyError("absent")

    ref = flaky.remote()
    with pytest.raises(KeyError):
        ray.get(ref)
    assert why(ref) == (
        "It is ready, and reading it raises: KeyError: 'absent'. It was tried 3 times."
    )


def test_a_retry_says_what_the_last_attempt_raised(tmp_path: Path) -> None:
    @ray.remote(max_retries=4, retry_exceptions=True)
    def second_time() -> None:
        if not (tmp_path / "begun").exists():
            (tmp_path / "begun").touch()
            raise KeyError("absent")
        while not (tmp_path / "go").exists():
            time.sleep(0.01)

    ref = second_time.remote()
    says(ref, "running there", r"Attempt 1 of 5 ended: it raised KeyError: 'absent'")
    (tmp_path / "go").touch()
    ray.get(ref)


def test_an_environment_that_is_made_is_named() -> None:
    ref = echo.options(num_cpus=0, runtime_env={"pip": ["no-such-package-at-all"]}).remote(1)
    says(ref, "is starting a worker process for echo, for which its runtime_env is made first .pip")
    ray.cancel(ref)


def test_how_far_a_build_is_is_told(tmp_path: Path) -> None:
    source, go = tmp_path / "waits", tmp_path / "go"
    source.mkdir()
    setup = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nexit(1)\n"
    (source / "setup.py").write_text(setup)
    options = ["--no-index", "--no-deps", "--no-build-isolation"]
    env = {"pip": {"packages": [str(source)], "pip_install_options": options}}
    waiting = echo.options(num_cpus=0, runtime_env=env)
    first = waiting.remote(1)
    told = rf"made first .pip.; pid (\d+) installs {re.escape(str(source))}, for [\d.]+ s, [\d.]+ MiB so far"
    says(first, told)
    go.touch()
    with pytest.raises(RuntimeEnvSetupError):
        ray.get(first)


def test_code_that_is_fetched_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}/code.zip"
        ref = echo.options(num_cpus=0, runtime_env={"working_dir": uri}).remote(1)
        says(ref, "for which its runtime_env is made first .working_dir.")
        ray.cancel(ref)


def test_labels_and_nodes_that_are_not_there_are_named_with_what_to_do() -> None:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    labelled = echo.options(label_selector={"zone": "eu"}).remote(1)
    says(labelled, "(?i)no node has the labels zone=eu: ask for others, or start a node with them")
    ray.cancel(labelled)
    lost = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    bound = echo.options(scheduling_strategy=lost).remote(1)
    says(bound, "is not in the cluster any more, or never was: name another node, or use soft=True")


def test_an_actor_of_another_namespace_is_found_by_the_error() -> None:
    kept = Actor.options(name="elsewhere", namespace="other space").remote()
    ray.get(kept.pid.remote())
    with pytest.raises(ValueError, match="There is one in the namespace 'other space'"):
        ray.get_actor("elsewhere")
    with pytest.raises(ValueError, match="No namespace has an actor of that name"):
        ray.get_actor("nowhere")
    ray.kill(kept)


def test_from_inside_a_task(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    def inside(path: str) -> str:
        ref = until.remote(path)
        return says(ref, "running there")

    assert ray.get(inside.remote(str(tmp_path / "go"))).startswith("until was sent to")
    (tmp_path / "go").touch()


def test_after_the_session_it_says_that_it_is_over(run_driver: Any) -> None:
    done = run_driver(
        """
        import ray
        ray.init("local", num_cpus=1)
        ref = ray.put(1)
        ray.shutdown()
        print("says=" + ray.util.why(ref))
        print("started=" + str(ray.is_initialized()))
        """
    ).check()
    assert "session that it belongs to is over" in done.value("says")
    assert done.value("started") == "False"
