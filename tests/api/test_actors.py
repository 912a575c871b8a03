"""Actors: creation, arguments, calls, order, options, handles."""

from __future__ import annotations

import inspect
import os
import time
from typing import Any

import pytest
import ray
from ray.exceptions import (
    GetTimeoutError,
)

from tests.helpers.actors import Counter
from tests.helpers.harness import is_alive, wait_until
from tests.helpers.samples import Adder

pytestmark = pytest.mark.usefixtures("ray_start")


@pytest.mark.contract("F2.01")
def test_create_with_positional_and_keyword_arguments() -> None:
    assert ray.get(Counter.remote(5).get.remote()) == 5
    assert ray.get(Counter.remote(start=6).get.remote()) == 6
    assert ray.get(ray.remote(num_cpus=0)(Adder).remote(base=7).add.remote(1)) == 8


@pytest.mark.contract("F2.01")
def test_a_class_cannot_be_instantiated_directly() -> None:
    with pytest.raises(TypeError, match="cannot be instantiated directly") as caught:
        Counter()
    assert "Counter.remote()" in str(caught.value)


@pytest.mark.contract("F2.01")
def test_subclassing_an_actor_class_is_refused() -> None:
    with pytest.raises(TypeError) as caught:

        class Child(Counter):  # type: ignore[valid-type, misc]
            pass

    assert type(caught.value).__name__ == "ActorClassInheritanceException"


@pytest.mark.contract("F2.01")
@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"wrong": 1})])
def test_constructor_arguments_are_checked_at_the_call(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        Counter.remote(*args, **kwargs)


@pytest.mark.contract("F2.02")
def test_options_as_a_splatted_dict() -> None:
    resources = {"num_cpus": 1}
    workers = [Counter.options(**resources).remote(start=i) for i in range(3)]
    assert ray.get([w.get.remote() for w in workers]) == [0, 1, 2]


@pytest.mark.contract("F2.03")
def test_functions_and_lambdas_as_arguments() -> None:
    @ray.remote
    class Worker:
        def execute(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

    worker = Worker.remote()
    captured = 5
    assert ray.get(worker.execute.remote(lambda: captured + 1)) == 6
    assert ray.get(worker.execute.remote(lambda a, b=0: a - b, 9, b=2)) == 7
    assert ray.get(worker.execute.remote(lambda rank, name: (rank, name), rank=1, name="n")) == (
        1,
        "n",
    )


@pytest.mark.contract("F2.03")
def test_methods_cannot_be_called_directly_and_unknown_ones_are_no_attributes() -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match="cannot be called directly"):
        counter.get()
    with pytest.raises(AttributeError, match="decr"):
        counter.decr.remote()


@pytest.mark.contract("F1.01", "F2.03")
def test_remote_functions_and_methods_have_the_signature_of_any_call() -> None:
    """What is decorated looks the same to who inspects it, whatever the code behind it takes."""

    @ray.remote
    def function(a: int, b: int = 2) -> int:
        return a + b

    for seen in (function, Counter.remote().incr):
        assert str(inspect.signature(seen)) == "(*args, **kwargs)"


@pytest.mark.contract("F2.03")
@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"no": 1})])
def test_method_arguments_are_checked_at_the_call(args: Any, kwargs: Any) -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError):
        counter.incr.remote(*args, **kwargs)


@pytest.mark.contract("F2.04")
def test_calls_of_one_caller_run_in_submission_order() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def append(self, i: int) -> None:
            self.seen.append(i)

        def all(self) -> list[int]:
            return self.seen

    log = Log.remote()
    for i in range(500):
        log.append.remote(i)
    assert ray.get(log.all.remote()) == list(range(500))


@pytest.mark.contract("F2.04", "F1.02")
def test_order_holds_when_an_argument_comes_late() -> None:
    @ray.remote
    def late() -> int:
        time.sleep(0.3)
        return 10

    counter = Counter.remote(1)
    first = counter.incr.remote(late.remote())
    second = counter.incr.remote(1)
    assert ray.get([first, second]) == [11, 12]


@pytest.mark.contract("F2.04", "F2.09")
def test_state_is_kept_between_calls_and_processes_are_apart() -> None:
    @ray.remote
    class Env:
        def set(self, value: str) -> None:
            os.environ["OF_ONE_ACTOR"] = value

        def get(self) -> str | None:
            return os.environ.get("OF_ONE_ACTOR")

    one, two = Env.remote(), Env.remote()
    ray.get(one.set.remote("1"))
    assert ray.get([one.get.remote(), two.get.remote()]) == ["1", None]


@pytest.mark.contract("F2.05")
def test_repr_of_a_handle() -> None:
    counter = Counter.remote()
    actor_id = counter._actor_id.hex()
    assert len(actor_id) == 32
    assert repr(counter) == f"Actor(Counter, {actor_id})"


@pytest.mark.contract("F2.08")
def test_default_actors_hold_no_cpu_and_explicit_ones_do(ray_start: Any) -> None:
    free = [Counter.remote() for _ in range(6)]
    assert len(set(ray.get([c.pid.remote() for c in free]))) == 6
    assert ray.get(free[0].assigned.remote()) == {}

    holder = Counter.options(num_cpus=2).remote()
    assert ray.get(holder.assigned.remote()) == {"CPU": 2.0}
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0, what="two of four CPUs free")
    ray.kill(holder)
    wait_until(lambda: ray.available_resources().get("CPU") == 4.0, what="all CPUs free again")


@pytest.mark.contract("F2.08", "F2.06")
def test_an_actor_waits_until_another_gives_its_cpus_back() -> None:
    first = Counter.options(num_cpus=3).remote(1)
    assert ray.get(first.get.remote()) == 1
    second = Counter.options(num_cpus=3).remote(2)
    ref = second.get.remote()
    assert ray.wait([ref], timeout=0.3) == ([], [ref])
    del first
    assert ray.get(ref, timeout=20) == 2


@pytest.mark.contract("F2.15")
def test_method_decorator_and_method_options() -> None:
    @ray.remote
    class Pairs:
        @ray.method(num_returns=2)
        def pair(self) -> Any:
            return 1, 2

        def triple(self) -> Any:
            return 1, 2, 3

    pairs = Pairs.remote()
    assert ray.get(pairs.pair.remote()) == [1, 2]
    assert ray.get(pairs.triple.options(num_returns=3).remote()) == [1, 2, 3]
    with pytest.raises(AssertionError):
        ray.method(no_such=1)


@pytest.mark.contract("F2.23")
def test_built_in_methods() -> None:
    counter = Counter.remote(6)
    assert ray.get(counter.__ray_ready__.remote()) is True
    assert ray.get(counter.__ray_call__.remote(lambda self, k: self.i * k, 2)) == 12
    pid = ray.get(counter.pid.remote())
    counter.__ray_terminate__.remote()
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")


@pytest.mark.contract("F2.24")
def test_handles_travel_and_compare() -> None:
    @ray.remote
    def use(handle: Any, nested: dict[str, Any]) -> tuple[int, bool]:
        return ray.get(handle.incr.remote(2)), handle == nested["h"]

    counter = Counter.remote()
    assert ray.get(use.remote(counter, {"h": counter})) == (2, True)
    assert ray.get(counter.get.remote()) == 2
    other = Counter.remote()
    assert counter != other
    assert len({counter, other, counter}) == 2


@pytest.mark.contract("F2.24", "F1.05")
def test_actors_call_each_other_and_themselves_through_handles() -> None:
    @ray.remote
    class Node:
        def __init__(self, after: Any = None) -> None:
            self.after = after

        def depth(self) -> int:
            return 1 if self.after is None else 1 + int(ray.get(self.after.depth.remote()))

        def me(self) -> Any:
            return ray.get_runtime_context().current_actor

    last = Node.remote()
    first = Node.remote(Node.remote(last))
    assert ray.get(first.depth.remote()) == 3
    assert ray.get(last.me.remote()) == last


@pytest.mark.contract("F2.03", "F1.02")
def test_refs_as_arguments_of_methods() -> None:
    counter = Counter.remote()
    by = ray.put(5)
    ref = counter.incr.remote(by)
    assert ray.get(counter.incr.remote(ref)) == 10


@pytest.mark.contract("F2.01")
def test_inheritance_properties_and_static_methods_of_plain_classes() -> None:
    class Base:
        factor = 3

        def scaled(self, x: int) -> int:
            return self.helper(x) * self.factor

        @staticmethod
        def helper(x: int) -> int:
            return x + 1

    class Derived(Base):
        factor = 5

        @classmethod
        def name(cls) -> str:
            return cls.__name__

    actor = ray.remote(Derived).remote()
    assert ray.get(actor.scaled.remote(1)) == 10
    assert ray.get(actor.name.remote()) == "Derived"


@pytest.mark.contract("F3.01")
def test_get_with_a_timeout_on_a_busy_actor() -> None:
    @ray.remote
    class Busy:
        def nap(self) -> str:
            time.sleep(0.6)
            return "awake"

    ref = Busy.remote().nap.remote()
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.05)
    assert ray.get(ref, timeout=20) == "awake"


@pytest.mark.contract("F2.04")
def test_two_callers_each_keep_their_order() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: dict[str, list[int]] = {}

        def add(self, who: str, i: int) -> None:
            self.seen.setdefault(who, []).append(i)

        def all(self) -> dict[str, list[int]]:
            return self.seen

    @ray.remote
    def write(log: Any, who: str) -> None:
        ray.get([log.add.remote(who, i) for i in range(100)])

    log = Log.remote()
    ray.get([write.remote(log, "a"), write.remote(log, "b")])
    assert ray.get(log.all.remote()) == {"a": list(range(100)), "b": list(range(100))}


@pytest.mark.contract("F2.03", "F3.10")
def test_large_arguments_and_results_of_methods() -> None:
    @ray.remote
    class Echo:
        def echo(self, data: bytes) -> bytes:
            return data

    echo = Echo.remote()
    data = [bytes([i]) * 1_000_000 for i in range(5)]
    assert ray.get([echo.echo.remote(part) for part in data]) == data
