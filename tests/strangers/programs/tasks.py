"""Tasks: arguments, returns, options, nesting, waiting."""

from __future__ import annotations

import functools
import os
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

import ray

from tests.strangers.kit import main, raised, stranger


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Box:
    items: list[int]


@stranger("docs: Anti-pattern: ray.get in a loop", [0, 1, 4, 9])
def results_in_order_of_submission() -> object:
    """ray.get of a list gives the values in the order of the list, whatever ended first."""

    @ray.remote
    def square(x: int) -> int:
        time.sleep(0.05 * (4 - x))
        return x * x

    return ray.get([square.remote(i) for i in range(4)])


@stranger(
    "docs: Pattern: Using ray.wait to limit the number of pending tasks", {"sum": 190, "most": True}
)
def pending_tasks_are_limited() -> object:
    """At most five calls are pending: wait for one before the next is made."""

    @ray.remote(num_cpus=0.1)
    def work(x: int) -> int:
        return x

    pending: list[ray.ObjectRef] = []
    total, most = 0, 0
    for i in range(20):
        if len(pending) == 5:
            done, pending = ray.wait(pending, num_returns=1)
            total += sum(ray.get(done))
        pending.append(work.remote(i))
        most = max(most, len(pending))
    return {"sum": total + sum(ray.get(pending)), "most": most <= 5}


@stranger("docs: Pattern: Using nested tasks to achieve nested parallelism", list(range(40)))
def a_nested_quicksort() -> object:
    """Tasks start tasks and wait for them, deeper than there are CPUs."""

    @ray.remote
    def sort(values: list[int]) -> list[int]:
        if len(values) < 5:
            return sorted(values)
        pivot, *rest = values
        low = sort.remote([v for v in rest if v < pivot])
        high = sort.remote([v for v in rest if v >= pivot])
        return [*ray.get(low), pivot, *ray.get(high)]

    return ray.get(sort.remote([(i * 17) % 40 for i in range(40)]))


@stranger("docs: Tasks, multiple returns", [(1, 2), "ValueError", []])
def several_returns() -> object:
    """num_returns=2 gives two references; one value for two is an error, none is allowed."""

    @ray.remote(num_returns=2)
    def two() -> tuple[int, int]:
        return 1, 2

    @ray.remote(num_returns=2)
    def one() -> tuple[int]:
        return (1,)

    @ray.remote(num_returns=0)
    def none() -> None: ...

    left, right = two.remote()
    wrong = raised(lambda: ray.get(one.remote()))
    name = "ValueError" if isinstance(wrong, ValueError) else repr(wrong)
    return [tuple(ray.get([left, right])), name, [] if none.remote() is None else "something"]


@stranger(
    "StackOverflow: passing keyword arguments to remote functions",
    [(1, 2, (), {}), (1, 5, (), {"k": 3}), (1, 2, (4,), {})],
)
def defaults_and_keywords() -> object:
    """Defaults, * and ** work as in a plain call; a wrong call is a TypeError where it is made."""

    @ray.remote
    def f(a: int, b: int = 2, *rest: int, **words: int) -> object:
        return a, b, rest, words

    @ray.remote
    def strict(a: int) -> int:
        return a

    assert isinstance(raised(lambda: strict.remote()), TypeError)
    assert isinstance(raised(lambda: strict.remote(1, b=2)), TypeError)
    return ray.get([f.remote(1), f.remote(1, b=5, k=3), f.remote(1, 2, 4)])


@stranger("StackOverflow: calling a remote function directly", "TypeError")
def a_direct_call_is_refused() -> object:
    """f() of a remote function says that it is called by f.remote()."""

    @ray.remote
    def f() -> None: ...

    error = raised(lambda: f())
    assert "remote" in str(error)
    return type(error).__name__


@stranger("docs: Objects, passing references", ["value", "ref"])
def references_at_top_level_and_within() -> object:
    """An argument that is a reference arrives as its value; one within a list stays a reference."""

    @ray.remote
    def kind(x: object) -> str:
        return "ref" if isinstance(x, ray.ObjectRef) else "value"

    @ray.remote
    def kind_within(xs: list[object]) -> str:
        return "ref" if isinstance(xs[0], ray.ObjectRef) else "value"

    ref = ray.put(1)
    return ray.get([kind.remote(ref), kind_within.remote([ref])])


@stranger("forum: partial functions and lambdas as remote functions", [7, 9])
def lambdas_and_partials() -> object:
    """A lambda can be made a remote function; a partial goes in as an argument."""
    by_lambda = ray.remote(lambda a, b: a + b)

    @ray.remote
    def call(f: object) -> object:
        return f(4)  # type: ignore[operator]

    return ray.get([by_lambda.remote(3, 4), call.remote(functools.partial(lambda a, b: a + b, 5))])


@stranger("docs: Tasks, options", ["a", "b"])
def options_do_not_change_the_original() -> object:
    """f.options(...) gives another handle; what f was stays."""

    @ray.remote(runtime_env={"env_vars": {"WHO": "a"}})
    def who() -> str:
        return os.environ["WHO"]

    other = who.options(runtime_env={"env_vars": {"WHO": "b"}})
    return ray.get([who.remote(), other.remote()])


@stranger("StackOverflow: classes of __main__ as arguments and results", [(2, 4), [1, 2, 3], True])
def classes_of_the_script() -> object:
    """Named tuples and dataclasses of the script go there and back as themselves."""

    @ray.remote
    def double(p: Point, box: Box) -> tuple[Point, Box]:
        return Point(p.x * 2, p.y * 2), Box([*box.items, 3])

    point, box = ray.get(double.remote(Point(1, 2), Box([1, 2])))
    return [point, box.items, isinstance(point, Point) and isinstance(box, Box)]


@stranger("docs: Anti-pattern: Using global variables", [0, 5])
def a_global_is_not_shared() -> object:
    """A task that sets a global of the script does not change the driver's."""
    global counter
    counter = 0

    @ray.remote
    def add() -> int:
        global counter
        counter += 5
        return counter

    seen = ray.get(add.remote())
    return [counter, seen]


counter = 0


@stranger("docs: ray.wait", [2, 2, 4, "ValueError"])
def wait_for_some() -> object:
    """ray.wait gives as many ready ones as asked for, keeps the others, refuses the same reference twice."""

    @ray.remote
    def value(x: int) -> int:
        return x

    refs = [value.remote(i) for i in range(4)]
    ray.get(refs)
    ready, rest = ray.wait(refs, num_returns=2)
    ready_all, _ = ray.wait(refs, num_returns=4, timeout=0)
    twice = raised(lambda: ray.wait([refs[0], refs[0]]))
    return [len(ready), len(rest), len(ready_all), type(twice).__name__]


@stranger("StackOverflow: ray.wait with a timeout returns an empty list", [[], 1])
def wait_with_nothing_ready() -> object:
    """Nothing ready within the timeout: an empty list, and no exception."""

    @ray.remote
    def slow() -> None:
        time.sleep(600)

    ref = slow.remote()
    ready, rest = ray.wait([ref], timeout=0.1)
    ray.cancel(ref, force=True)
    return [ready, len(rest)]


@stranger("forum: is it safe to call Ray from several threads?", 499500)
def threads_of_a_driver() -> object:
    """Four threads of the driver call and read side by side."""

    @ray.remote
    def same(x: int) -> int:
        return x

    found: list[int] = []

    def some(start: int) -> None:
        found.extend(ray.get([same.remote(i) for i in range(start, start + 250)]))

    threads = [threading.Thread(target=some, args=(250 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found)


@stranger("docs: Fractional resources", True, cluster={"num_cpus": 1})
def fractions_of_a_cpu() -> object:
    """Four tasks of a quarter CPU each run at the same time on one CPU."""

    @ray.remote(num_cpus=0)
    class Meet:
        def __init__(self) -> None:
            self.n = 0

        def come(self) -> None:
            self.n += 1

        def all_here(self) -> bool:
            return self.n == 4

    meet = Meet.remote()

    @ray.remote(num_cpus=0.25)
    def part() -> bool:
        ray.get(meet.come.remote())
        while not ray.get(meet.all_here.remote()):
            time.sleep(0.01)
        return True

    return all(ray.get([part.remote() for _ in range(4)]))


@stranger(
    "docs: Custom resources", [True, True], cluster={"num_cpus": 2, "resources": {"licence": 1}}
)
def a_custom_resource_takes_turns() -> object:
    """Two tasks that need the only licence never run at once."""

    @ray.remote(resources={"licence": 1})
    def hold() -> tuple[float, float]:
        began = time.time()
        time.sleep(0.2)
        return began, time.time()

    (a0, a1), (b0, b1) = ray.get([hold.remote(), hold.remote()])
    return [a1 <= b0 or b1 <= a0, ray.cluster_resources()["licence"] == 1.0]


@stranger("ray#54865", [1, "cancelled"], cluster={"num_cpus": 1})
def a_cancelled_child_spares_its_parent() -> object:
    """A task returns the reference of its child; cancelling the child leaves what the parent made."""

    @ray.remote
    def child() -> None:
        while True:
            time.sleep(0.05)

    @ray.remote
    def parent() -> tuple[list[ray.ObjectRef], ray.ObjectRef]:
        return [child.remote()], ray.put(1)

    [ref], kept = ray.get(parent.remote())
    ray.cancel(ref)
    error = raised(lambda: ray.get(ref))
    assert isinstance(error, ray.exceptions.TaskCancelledError), error
    return [ray.get(kept), "cancelled"]


if __name__ == "__main__":
    main()
