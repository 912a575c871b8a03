"""Remote functions: submission, options, resources, retries, generators, cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import (
    GetTimeoutError,
    WorkerCrashedError,
)

from tests.helpers.harness import is_alive, wait_until
from tests.helpers.samples import Adder, times_seven

pytestmark = pytest.mark.usefixtures("ray_start")


@ray.remote
def add(a: int, b: int = 10) -> int:
    return a + b


@pytest.mark.contract("F1.01", "F1.02")
def test_bare_decorator_and_call_forms() -> None:
    def square(x: int) -> int:
        return x * x

    bare = ray.remote(square)
    with_options = ray.remote(num_cpus=1)(square)
    assert type(bare).__name__ == "RemoteFunction"
    assert ray.get(
        [bare.remote(3), with_options.remote(4), bare.options(num_cpus=2).remote(5)]
    ) == [
        9,
        16,
        25,
    ]


@pytest.mark.contract("F1.01")
def test_remote_returns_a_ref_before_the_task_ends(tmp_path: Path) -> None:
    go = tmp_path / "go"

    @ray.remote
    def slow() -> int:
        while not go.exists():
            time.sleep(0.01)
        return 1

    ref = slow.remote()
    assert isinstance(ref, ray.ObjectRef)
    go.touch()
    assert ray.get(ref) == 1


@pytest.mark.contract("F1.01")
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ray.remote(3), AssertionError),
        (lambda: ray.remote("f", 1), AssertionError),
        (lambda: ray.remote(num_cpus=1)(Adder()), TypeError),
    ],
)
def test_decorating_what_is_no_function(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


@pytest.mark.contract("F1.01")
def test_async_functions_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"asyncio\.run"):

        @ray.remote
        async def f() -> int:
            return 1

        f.remote()


@pytest.mark.contract("F1.02")
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"c": 2}), ((1,), {"a": 2})],
    ids=["missing", "too-many", "unknown-keyword", "twice"],
)
def test_arguments_are_checked_at_submission(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        add.remote(*args, **kwargs)


@pytest.mark.contract("F1.02")
def test_defaults_keywords_and_star_arguments() -> None:
    @ray.remote
    def everything(a: int, *rest: int, k: int = 5, **more: int) -> Any:
        return a, rest, k, more

    assert ray.get(add.remote(1)) == 11
    assert ray.get(add.remote(b=1, a=2)) == 3
    assert ray.get(everything.remote(1, 2, 3, k=4, z=9)) == (1, (2, 3), 4, {"z": 9})


@pytest.mark.contract("F1.02")
def test_top_level_refs_are_resolved_and_nested_refs_stay() -> None:
    @ray.remote
    def kinds(value: Any, nested: list[Any], *, key: Any) -> tuple[str, str, str]:
        return type(value).__name__, type(nested[0]).__name__, type(key).__name__

    ref = add.remote(1, 1)
    assert ray.get(kinds.remote(ref, [ref], key=ref)) == ("int", "ObjectRef", "int")
    assert ray.get(add.remote(add.remote(1, 2), add.remote(3, 4))) == 10


@pytest.mark.contract("F1.02")
def test_a_chain_of_dependencies() -> None:
    ref = ray.put(0)
    for _ in range(50):
        ref = add.remote(ref, 1)
    assert ray.get(ref) == 50


@pytest.mark.contract("F1.03")
def test_calling_directly_is_refused_and_says_what_to_type() -> None:
    with pytest.raises(TypeError, match="cannot be called directly") as caught:
        add(1, 2)
    assert "add.remote()" in str(caught.value)


@pytest.mark.contract("F1.04")
def test_resources_bound_how_many_run_at_once(tmp_path: Path) -> None:
    """Four CPUs carry two tasks of two CPUs, never three."""

    @ray.remote(num_cpus=2)
    def overlap(directory: str, i: int) -> int:
        mine = os.path.join(directory, str(i))
        open(mine, "w").close()
        seen = len(os.listdir(directory))
        time.sleep(0.1)
        seen = max(seen, len(os.listdir(directory)))
        os.remove(mine)
        return seen

    seen = ray.get([overlap.remote(str(tmp_path), i) for i in range(6)])
    assert max(seen) <= 2, seen


@pytest.mark.contract("F1.04")
def test_default_is_one_cpu_and_no_gpu() -> None:
    @ray.remote
    def assigned() -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    assert ray.get(assigned.remote()) == {"CPU": 1.0}
    assert ray.get(assigned.options(num_cpus=0.5).remote()) == {"CPU": 0.5}


@pytest.mark.contract("F1.04", "F4.07")
def test_an_impossible_request_waits_instead_of_failing() -> None:
    ref = add.options(num_cpus=1000).remote(1)
    ready, rest = ray.wait([ref], timeout=0.3)
    assert (ready, rest) == ([], [ref])
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.1)
    ray.cancel(ref)


@pytest.mark.contract("F1.05")
def test_a_task_blocked_in_get_gives_its_cpu_back() -> None:
    """Depth 8 on 4 CPUs: every level waits for the next."""

    @ray.remote
    def descend(depth: int) -> int:
        return 0 if depth == 0 else 1 + ray.get(descend.remote(depth - 1))

    assert ray.get(descend.remote(8)) == 8


@pytest.mark.contract("F1.05")
def test_a_task_blocked_in_wait_gives_its_cpu_back() -> None:
    @ray.remote(num_cpus=4)
    def outer() -> int:
        ready, _ = ray.wait([add.options(num_cpus=4).remote(1, 2)], timeout=30)
        return int(ray.get(ready[0]))

    assert ray.get(outer.remote()) == 3


@pytest.mark.contract("F1.05")
def test_refs_made_in_a_task_can_be_returned() -> None:
    @ray.remote
    def submit() -> list[Any]:
        return [add.remote(i, i) for i in range(3)]

    assert ray.get(ray.get(submit.remote())) == [0, 2, 4]


@pytest.mark.contract("F1.06")
def test_fan_out_keeps_order() -> None:
    @ray.remote
    def back(i: int) -> int:
        time.sleep(0.001 * (5 - i % 5))
        return i

    assert ray.get([back.remote(i) for i in range(200)]) == list(range(200))


@pytest.mark.contract("F1.07")
def test_options_returns_a_wrapper() -> None:
    wrapper = add.options(num_cpus=1)
    assert ray.get(wrapper.remote(1, 1)) == 2
    assert type(wrapper) is not type(add)
    assert hasattr(wrapper, "bind")


@pytest.mark.contract("F1.08")
def test_num_returns() -> None:
    @ray.remote(num_returns=3)
    def three() -> Any:
        return 1, 2, 3

    refs = three.remote()
    assert isinstance(refs, list)
    assert ray.get(refs) == [1, 2, 3]
    assert ray.get(three.options(num_returns=1).remote()) == (1, 2, 3)
    assert three.options(num_returns=0).remote() is None


@pytest.mark.contract("F1.08")
@pytest.mark.parametrize("wrong", [(1,), (1, 2, 3)])
def test_returning_the_wrong_number_of_values_is_an_error_of_the_task(wrong: Any) -> None:
    @ray.remote(num_returns=2)
    def two() -> Any:
        return wrong

    with pytest.raises(ValueError):
        ray.get(two.remote())


@pytest.mark.contract("F1.08", "F1.15")
@pytest.mark.parametrize(
    "options",
    [
        {"num_returns": -1},
        {"num_cpus": -1},
        {"num_gpus": -0.5},
        {"max_retries": -2},
        {"max_calls": -1},
        {"resources": {"CPU": 1}},
        {"resources": {"GPU": 1}},
        {"resources": {"X": -1}},
        {"num_cpus": 0.00001},
        {"resources": {"X": 0.00001}},
        {"memory": -1},
        {"no_such_option": 1},
        {"retry_exceptions": ["ValueError"]},
        {"lifetime": "detached"},
    ],
    ids=str,
)
def test_wrong_option_values_fail_at_decoration(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ray.remote(**options)(times_seven).remote(1)


@pytest.mark.contract("F1.15")
def test_an_unknown_option_is_named_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="no_such_option") as caught:
        add.options(no_such_option=1)
    assert "num_cpus" in str(caught.value)


@pytest.mark.contract("F1.15")
@pytest.mark.parametrize(
    "options", [{"num_cpus": "1"}, {"max_retries": "3"}, {"resources": 5}, {"name": 5}], ids=str
)
def test_wrong_option_types(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        add.options(**options)


@pytest.mark.contract("F1.09")
def test_generator_tasks_stream() -> None:
    @ray.remote
    def count(n: int) -> Any:
        for i in range(n):
            yield i

    stream = count.remote(5)
    assert isinstance(stream, ray.ObjectRefGenerator)
    assert [ray.get(ref) for ref in stream] == [0, 1, 2, 3, 4]


@pytest.mark.contract("F1.09")
def test_a_stream_yields_before_the_task_ends(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    @ray.remote
    def gated(path: str) -> Any:
        yield "first"
        while not os.path.exists(path):
            time.sleep(0.01)
        yield "second"

    stream = gated.remote(str(gate))
    assert ray.get(next(stream)) == "first"
    gate.touch()
    assert ray.get(next(stream)) == "second"
    with pytest.raises(StopIteration):
        next(stream)


@pytest.mark.contract("F1.09")
def test_an_error_in_a_stream_arrives_at_its_place() -> None:
    @ray.remote
    def breaks() -> Any:
        yield 1
        raise KeyError("second")

    stream = breaks.remote()
    assert ray.get(next(stream)) == 1
    with pytest.raises(KeyError):
        ray.get(next(stream))
    with pytest.raises(StopIteration):
        next(stream)


@pytest.mark.contract("F1.09")
def test_streaming_from_a_function_that_is_no_generator() -> None:
    with pytest.raises(ValueError):
        ray.get(next(add.options(num_returns="streaming").remote(1)))


@pytest.mark.contract("F1.09")
def test_a_stream_can_be_iterated_with_async_for() -> None:
    @ray.remote
    def count(n: int) -> Any:
        for i in range(n):
            yield i

    async def collect() -> list[int]:
        return [await ref async for ref in count.remote(4)]

    assert asyncio.run(collect()) == [0, 1, 2, 3]


@pytest.mark.contract("F1.10")
@pytest.mark.parametrize(
    ("options", "runs"), [({}, 4), ({"max_retries": 1}, 2), ({"max_retries": 0}, 1)]
)
def test_crashes_are_retried_max_retries_times(
    tmp_path: Path, options: dict[str, Any], runs: int
) -> None:
    """The default is three retries, so four runs."""

    @ray.remote(**options) if options else ray.remote
    def crash(path: str) -> None:
        with open(path, "a") as log:
            log.write("x")
        os._exit(1)

    log = tmp_path / "runs"
    with pytest.raises(WorkerCrashedError):
        ray.get(crash.remote(str(log)))
    assert len(log.read_text()) == runs


@pytest.mark.contract("F1.10")
def test_a_retry_that_succeeds_is_invisible(tmp_path: Path) -> None:
    @ray.remote
    def second_time(path: str) -> str:
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(1)
        return "done"

    assert ray.get(second_time.remote(str(tmp_path / "mark"))) == "done"


@pytest.mark.contract("F1.10", "F1.11")
@pytest.mark.parametrize(
    ("retry", "runs"),
    [(False, 1), (True, 3), ([KeyError], 3), ([ZeroDivisionError], 1)],
    ids=["off", "on", "listed", "not-listed"],
)
def test_application_errors_are_retried_only_on_request(
    tmp_path: Path, retry: Any, runs: int
) -> None:
    @ray.remote(max_retries=2, retry_exceptions=retry)
    def fail(path: str) -> None:
        with open(path, "a") as log:
            log.write("x")
        raise KeyError("always")

    log = tmp_path / "runs"
    with pytest.raises(KeyError):
        ray.get(fail.remote(str(log)))
    assert len(log.read_text()) == runs


@pytest.mark.contract("F1.12")
def test_max_calls_replaces_the_worker() -> None:
    @ray.remote(max_calls=2)
    def pid() -> int:
        return os.getpid()

    pids = [ray.get(pid.remote()) for _ in range(6)]
    assert all(pids.count(p) <= 2 for p in pids), pids
    with pytest.raises(ValueError):
        pid.options(max_calls=3)


@pytest.mark.contract("F1.13")
def test_the_name_of_a_task() -> None:
    @ray.remote
    def who() -> Any:
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name()

    name, function = ray.get(who.options(name="renamed").remote())
    assert name == "renamed"
    assert function.endswith("who")
    assert ray.get(who.remote())[0].endswith("who")


@pytest.mark.contract("F1.07")
def test_remote_functions_are_values() -> None:
    """They travel, in closures and classes too, and can be copied."""
    import copy

    from ray import cloudpickle

    class Holder:
        task = add

    @ray.remote
    def call(f: Any, *args: Any) -> Any:
        return ray.get(f.remote(*args)), ray.get(Holder.task.remote(*args))

    other = add.options(num_cpus=0.5)
    assert ray.get([call.remote(f, 1, 2) for f in (add, other)]) == [(3, 3)] * 2
    for again in (copy.copy(add), copy.deepcopy(add), cloudpickle.loads(cloudpickle.dumps(add))):
        assert ray.get(again.remote(1)) == 11
    with pytest.raises(AttributeError):
        other.options(num_cpus=1)


@pytest.mark.contract("F1.10")
def test_retries_without_end(tmp_path: Path) -> None:
    @ray.remote(max_retries=-1)
    def sixth_time(path: str) -> int:
        with open(path, "a") as log:
            log.write("x")
        if os.path.getsize(path) < 6:
            os._exit(1)
        return os.path.getsize(path)

    assert ray.get(sixth_time.remote(str(tmp_path / "runs"))) == 6


@pytest.mark.contract("F1.14")
def test_runtime_env_of_one_task() -> None:
    @ray.remote
    def read() -> str | None:
        return os.environ.get("OF_THIS_TASK")

    with_env = read.options(runtime_env={"env_vars": {"OF_THIS_TASK": "yes"}})
    assert ray.get(with_env.remote()) == "yes"
    assert ray.get(read.remote()) is None


@ray.remote
def wait_for(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"


@pytest.mark.contract("F1.05", "F1.12", "F3.03")
def test_what_a_worker_owns_outlives_its_last_call(tmp_path: Path) -> None:
    """A process that is to end, as after every task with a GPU, ends when it is needed no more."""
    gate = tmp_path / "gate"

    @ray.remote(max_calls=1)
    def make(path: str) -> Any:
        return os.getpid(), ray.put("put"), [wait_for.remote(path)]

    pid, put, (child,) = ray.get(make.remote(str(gate)))
    assert ray.get(ray.remote(lambda refs: ray.get(refs[0])).remote([put])) == "put"
    gate.touch()
    assert ray.get(child) == "done"
    assert ray.get(put) == "put"
    assert is_alive(pid)
    del put, child
    wait_until(lambda: not is_alive(pid), what="it ends when nobody needs it")


@pytest.mark.contract("F1.05", "F1.12")
def test_a_call_that_nobody_keeps_outlives_the_last_call_of_its_caller(tmp_path: Path) -> None:
    gate, mark = tmp_path / "gate", tmp_path / "mark"

    @ray.remote
    def later(gate: str, mark: str) -> None:
        ray.get(wait_for.remote(gate))
        open(mark, "w").close()

    @ray.remote(max_calls=1)
    def fire() -> None:
        later.remote(str(gate), str(mark))

    ray.get(fire.remote())
    gate.touch()
    wait_until(mark.exists, what="the call was made")


@pytest.mark.contract("F1.05", "F3.03")
def test_what_idle_workers_own_stays() -> None:
    """More workers than are kept, and each has put something."""

    @ray.remote(num_cpus=0.1)
    def put(n: int, barrier: Any) -> Any:
        ray.get(barrier.arrive.remote())
        return os.getpid(), [ray.put(n)]

    @ray.remote(max_concurrency=20, num_cpus=0)
    class Barrier:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(12)

        def arrive(self) -> None:
            self.barrier.wait(30)

    barrier = Barrier.remote()
    found = ray.get([put.remote(n, barrier) for n in range(12)])
    pids = {pid for pid, _ in found}
    assert len(pids) == 12
    # Six are kept idle at four CPUs, so that more are asked to end than those whose values are dropped.
    del found[8:]
    kept = {pid for pid, _ in found}
    wait_until(lambda: not any(map(is_alive, pids - kept)), what="the others have ended")
    assert [ray.get(ref) for _, (ref,) in found] == list(range(8))


@pytest.mark.contract("F0.22")
def test_functions_of_importable_modules_reach_the_workers() -> None:
    """A module beside the test is found by the workers as by the driver."""

    @ray.remote
    def use(f: Any, x: int) -> int:
        return int(f(x))

    assert ray.get(use.remote(times_seven, 6)) == 42
    assert ray.get(ray.remote(times_seven).remote(6)) == 42


@pytest.mark.contract("F0.22")
def test_globals_and_closures_travel_by_value() -> None:
    offset = 3
    table = {"a": 1}

    @ray.remote
    def use(key: str) -> int:
        return table[key] + offset

    assert ray.get(use.remote("a")) == 4


@pytest.mark.contract("F0.22")
def test_recursive_remote_functions() -> None:
    @ray.remote
    def factorial(n: int) -> int:
        return 1 if n <= 1 else n * ray.get(factorial.remote(n - 1))

    assert ray.get(factorial.remote(6)) == 720


@pytest.mark.contract("F1.01", "F2.09")
def test_tasks_run_on_the_main_thread() -> None:
    """So that signal handlers, and libraries that insist on it, work as in a script."""

    @ray.remote
    def where() -> bool:
        signal.signal(signal.SIGALRM, lambda *_: None)
        return threading.current_thread() is threading.main_thread()

    @ray.remote
    class Actor:
        def where(self) -> bool:
            return threading.current_thread() is threading.main_thread()

    assert ray.get([where.remote(), Actor.remote().where.remote()]) == [True, True]


@pytest.mark.contract("F1.01")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_task_may_use_processes_of_its_own(method: str) -> None:
    """As data loaders do."""

    @ray.remote
    def pool() -> list[int]:
        import multiprocessing

        with multiprocessing.get_context(method).Pool(2) as workers:
            return workers.map(times_seven, [1, 2, 3])

    assert ray.get([pool.remote(), pool.remote()]) == [[7, 14, 21]] * 2


@pytest.mark.contract("F1.01", "F0.17")
def test_a_task_may_run_a_command() -> None:
    @ray.remote
    def run() -> str:
        done = subprocess.run(["echo", "said"], capture_output=True, text=True, check=True)
        return done.stdout

    assert ray.get(run.remote()) == "said\n"


@pytest.mark.contract("F1.02")
def test_submission_from_several_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(lambda i: add.remote(i, 1), range(400)))
    assert ray.get(refs) == [i + 1 for i in range(400)]


@pytest.mark.contract("F1.02", "F3.15")
def test_large_arguments_and_returns() -> None:
    @ray.remote
    def twice(data: bytes) -> bytes:
        return data + data

    assert ray.get(twice.remote(b"x" * 3_000_000)) == b"x" * 6_000_000


@pytest.mark.contract("F1.02")
def test_many_small_tasks() -> None:
    assert sum(ray.get([add.remote(i, 0) for i in range(2000)])) == 1999000


@pytest.mark.contract("F1.19")
@pytest.mark.parametrize(("size", "is_large"), [(9_900_000, False), (10_100_000, True)])
def test_a_large_function_is_warned_of_by_name(run_driver: Any, size: int, is_large: bool) -> None:
    done = run_driver(
        f"""
        import ray
        ray.init("local", num_cpus=1, include_dashboard=False)
        ballast = b"x" * {size}

        @ray.remote
        def heavy():
            return len(ballast)

        print(f"size={{ray.get(heavy.remote())}}")
        """
    ).check()
    assert done.value("size") == str(size)
    assert ("heavy is very large" in done.output) == is_large


@pytest.mark.contract("F1.19")
def test_a_huge_function_is_refused_by_name() -> None:
    ballast = b"x" * 100_100_000

    @ray.remote
    def heavy() -> int:
        return len(ballast)

    with pytest.raises(ValueError, match="heavy"):
        heavy.remote()
