"""F1: forms of functions, of arguments and of results; remote functions as values."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
import time
from typing import Any

import ray
from kit import driver, outcome, snippet
from ray import cloudpickle


@ray.remote
def add(a: int, b: int = 10) -> int:
    """Add."""
    return a + b


DEFAULT = 5


@snippet("F1.01", "F1.02", "F1.07")
def functions_as_values() -> Any:
    class Holder:
        task = add

        @ray.remote
        def method(self) -> str:
            return type(self).__name__

        @staticmethod
        @ray.remote
        def static(x: int) -> int:
            return x + 1

    def outer(k: int) -> Any:
        @ray.remote
        def inner(x: int) -> int:
            return x * k

        return inner

    @ray.remote
    def call(f: Any, *args: Any) -> Any:
        return ray.get(f.remote(*args))

    @ray.remote
    def closure(x: int) -> Any:
        return ray.get(add.remote(x)), ray.get(Holder.task.remote(x))

    @ray.remote
    def even(n: int) -> bool:
        return True if n == 0 else ray.get(odd.remote(n - 1))

    @ray.remote
    def odd(n: int) -> bool:
        return False if n == 0 else ray.get(even.remote(n - 1))

    @ray.remote
    def made() -> Any:
        return outer(3)

    with_options = add.options(num_cpus=0.5, name="other")
    return {
        "argument": ray.get(call.remote(add, 1)),
        "argument with options": outcome(lambda: ray.get(call.remote(with_options, 1))),
        "in a list": ray.get(ray.remote(lambda fs: ray.get(fs[0].remote(2))).remote([add])),
        "closure": ray.get(closure.remote(1)),
        "class attribute": ray.get(Holder.task.remote(1)),
        "instance attribute": ray.get(Holder().task.remote(1)),
        "method": ray.get(Holder.method.remote(Holder())),
        "static": outcome(lambda: ray.get(Holder.static.remote(1))),
        "factory": [ray.get(outer(k).remote(5)) for k in (1, 2)],
        "returned": ray.get(ray.get(made.remote()).remote(5)),
        "put": ray.get(ray.get(ray.put(add)).remote(1)),
        "mutual": ray.get(even.remote(5)),
        "cloudpickle": ray.get(cloudpickle.loads(cloudpickle.dumps(add)).remote(1)),
        "pickle": outcome(lambda: ray.get(pickle.loads(pickle.dumps(add)).remote(1))),
        "copy": outcome(lambda: ray.get(copy.copy(add).remote(1))),
        "deepcopy": outcome(lambda: ray.get(copy.deepcopy(add).remote(1))),
        "partial of remote": ray.get(functools.partial(add.remote, 1)(b=2)),
        "callable": callable(add),
        "_function": outcome(lambda: add._function(1)),
        "options of options": outcome(lambda: with_options.options(num_cpus=1)),
        "options are apart": [
            ray.get(add.options(num_returns=1).remote(1)),
            add.options(num_returns=0).remote(1),
            type(add.remote(1)).__name__,
        ],
        "no options": ray.get(add.options().remote(1)),
        "hash": len({add, add}),
        "equal": add == add,
        "in repr": "add" in repr(add) or "RemoteFunction" in repr(add),
        "type": type(add).__name__,
    }


@snippet("F1.01", "F1.02")
def kinds_of_functions() -> Any:
    class Callable:
        def __call__(self, x: int) -> int:
            return x + 1

        def bound(self, x: int) -> int:
            return x + 2

        @classmethod
        def of_class(cls, x: int) -> int:
            return x + 3

    def plain(x: int) -> int:
        return x + 4

    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> int:
        return plain(*args, **kwargs) * 2

    def late_default(x: int = DEFAULT) -> int:
        return x

    def ref_default(x: Any = ray.put(1)) -> str:  # noqa: B008
        return type(x).__name__

    def list_default(x: list[int] = []) -> list[int]:  # noqa: B006
        x.append(1)
        return x

    def get(f: Any, *args: Any, **kwargs: Any) -> Any:
        return outcome(lambda: ray.get(ray.remote(f).remote(*args, **kwargs)))

    return {
        "instance": get(Callable(), 1),
        "bound": get(Callable().bound, 1),
        "of class": get(Callable.of_class, 1),
        "cached": get(functools.lru_cache(plain), 1),
        "wrapped": get(wrapper, 1),
        "wrapped wrong": get(wrapper, 1, 2),
        "default": get(late_default),
        "ref as default": get(ref_default),
        "list as default": [len(ray.get(ray.remote(list_default).remote()))],
        "positional only": get(lambda a, /, b: (a, b), 1, 2),
        "positional only by name": get(lambda a, /, b: (a, b), a=1, b=2),
        "keyword only": get(lambda *, a: a, a=1),
        "keyword only by place": get(lambda *, a: a, 1),
        "keyword only missing": get(lambda *, a: a),
        "star": get(lambda *args, **kwargs: (args, kwargs), 1, 2, a=3),
        "odd names": get(lambda **kw: sorted(kw), args=1, kwargs=2, options=4, num_cpus=5),
        "self": get(lambda self: self, 1),
        "self by name": get(lambda self: self, self=1),
        "named args": get(lambda args, kwargs: (args, kwargs), kwargs=1, args=2),
        "none": get(lambda: None),
        "class": outcome(lambda: hasattr(ray.remote(dict), "remote")),
        "print": outcome(lambda: ray.get(ray.remote(print).remote(""))),
    }


@snippet("F1.02", "F3.15")
def arguments() -> Any:
    @ray.remote
    def kinds(*args: Any, **kwargs: Any) -> Any:
        return [type(a).__name__ for a in args], {k: type(v).__name__ for k, v in kwargs.items()}

    @ray.remote
    def same(x: Any) -> Any:
        return x

    ref = ray.put([1])

    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

    @ray.remote
    def mutate(x: list[int]) -> list[int]:
        x.append(9)
        return x

    mine = [1]
    return {
        "resolved": ray.get(kinds.remote(ref, {"a": ref}, (ref,), {1}, k=ref, n=[ref])),
        "in an object": ray.get(ray.remote(lambda b: type(b.value).__name__).remote(Box(ref))),
        "twice": ray.get(kinds.remote(ref, ref)),
        "ref of a ref": ray.get(kinds.remote(ray.put([ref]))),
        "mutated": [ray.get(mutate.remote(mine)), mine, ray.get(mutate.remote(ref)), ray.get(ref)],
        "same object": ray.get(ray.remote(lambda a, b: a is b).remote(ref, ref)),
        "unpicklable": outcome(lambda: same.remote(threading.Lock()), "serialize"),
        "unpicklable capture": outcome(_captures_a_lock),
        "actor class": outcome(lambda: ray.get(same.remote(ray.remote(Box))) is not None),
        "module": ray.get(ray.remote(lambda m: m.__name__).remote(time)),
        "lambda": ray.get(same.remote(lambda x: x + 1))(1),
        "many": ray.get(ray.remote(lambda *a: len(a)).remote(*[ref] * 300)),
        "none": ray.get(same.remote(None)),
        "error value": outcome(lambda: type(ray.get(same.remote(ValueError("x")))).__name__),
        "failed twice": outcome(
            lambda: ray.get(
                kinds.remote(
                    ray.remote(lambda: 1 / 0).remote(), ray.remote(lambda: {}["k"]).remote()
                )
            )
        ),
    }


def _captures_a_lock() -> Any:
    lock = threading.Lock()

    @ray.remote
    def use() -> Any:
        return lock

    return use.remote()


@snippet("F1.08")
def results() -> Any:
    def two(value: Any) -> Any:
        task = ray.remote(num_returns=2)(lambda: value)
        return outcome(lambda: ray.get(task.remote()), "num_returns")

    import collections

    import numpy as np

    pair = collections.namedtuple("pair", "a b")
    return {
        "dict": two({"a": 1, "b": 2}),
        "dict of three": two({"a": 1, "b": 2, "c": 3}),
        "set": two({1, 2}),
        "text": two("ab"),
        "bytes": two(b"ab"),
        "array": two(np.array([1, 2])),
        "range": two(range(2)),
        "none": two(None),
        "named": two(pair(1, 2)),
        "list": two([1, 2]),
        "empty": two([]),
        "nested": two([[1], [2]]),
        "one": outcome(lambda: ray.get(ray.remote(num_returns=1)(lambda: (1, 2)).remote())),
        "zero, with a value": ray.remote(num_returns=0)(lambda: 3).remote(),
        "ref": outcome(lambda: type(ray.get(ray.remote(lambda: ray.put(1)).remote())).__name__),
        "ref of the argument": outcome(
            lambda: ray.get(ray.get(ray.remote(lambda r: r[0]).remote([ray.put(1)])))
        ),
        "many": ray.get(ray.remote(num_returns=200)(lambda: list(range(200))).remote())[-1],
    }


@snippet("F1.05", "F1.06", cluster={"num_cpus": 2}, limit_s=180)
def depth() -> Any:
    @ray.remote
    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + ray.get(deep.remote(n - 1))

    @ray.remote
    def wide(n: int, k: int) -> int:
        return 1 if n == 0 else sum(ray.get([wide.remote(n - 1, k) for _ in range(k)]))

    @ray.remote
    def waits(n: int) -> int:
        if n == 0:
            return 0
        (ready,), _ = ray.wait([waits.remote(n - 1)])
        return 1 + ray.get(ready)

    found: list[Any] = []

    def of_thread() -> None:
        found.append(ray.get(deep.remote(3)))

    threads = [threading.Thread(target=of_thread) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    @ray.remote
    def with_threads() -> Any:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda i: ray.get(deep.remote(i)), range(4)))

    return {
        "deep": ray.get(deep.remote(20)),
        "wide": ray.get(wide.remote(3, 3)),
        "waits": ray.get(waits.remote(10)),
        "threads": found,
        "threads of a task": ray.get(with_threads.remote()),
    }


@snippet("F1.05", "F1.12", "F3.03", limit_s=120)
def what_workers_own() -> Any:
    """References that outlive the call, and the process, that made them."""
    import os

    @ray.remote
    def child() -> int:
        time.sleep(1)
        return 7

    @ray.remote(max_calls=1)
    def last() -> Any:
        return [ray.put("put"), child.remote()]

    @ray.remote(num_cpus=0.1)
    def put(n: int) -> Any:
        time.sleep(1)
        return os.getpid(), [ray.put(n)]

    first = ray.get(last.remote())
    many = ray.get([put.remote(n) for n in range(16)])
    time.sleep(8)
    return {
        "last call": [outcome(lambda r=r: ray.get(r, timeout=20)) for r in first],
        "many idle": [outcome(lambda r=r: ray.get(r, timeout=20)) for _, (r,) in many],
    }


@snippet("F1.10", "F1.11", limit_s=150)
def further_retries() -> Any:
    import builtins
    import os
    import tempfile

    def runs(function: Any, **options: Any) -> Any:
        path = os.path.join(tempfile.mkdtemp(), "runs")

        @ray.remote(**options)
        def task() -> Any:
            with open(path, "a") as file:
                file.write("x")
            return function(os.path.getsize(path))

        caught = outcome(lambda: ray.get(task.remote(), timeout=60))
        return caught, os.path.getsize(path)

    def group(_: int) -> None:
        raise builtins.ExceptionGroup("g", [ValueError("a")])  # type: ignore[attr-defined]

    def error(kind: type[BaseException]) -> Any:
        def fail(_: int) -> None:
            raise kind("always")

        return fail

    def crash_until(last: int) -> Any:
        def crash(n: int) -> int:
            if n < last:
                os._exit(1)
            return n

        return crash

    class Own(ValueError): ...

    class Both(KeyError, ValueError): ...

    return {
        "without end": runs(crash_until(6), max_retries=-1),
        "errors without end": runs(
            lambda n: n if n > 4 else 1 / 0, max_retries=-1, retry_exceptions=True
        ),
        "subclass": runs(error(Own), max_retries=1, retry_exceptions=[ValueError]),
        "one of its bases": runs(error(Both), max_retries=1, retry_exceptions=[ValueError]),
        "group": runs(group, max_retries=1, retry_exceptions=[builtins.ExceptionGroup]),  # type: ignore[attr-defined]
        "part of a group": runs(group, max_retries=1, retry_exceptions=[ValueError]),
        "empty list": runs(error(ValueError), max_retries=1, retry_exceptions=[]),
        "tuple": runs(error(ValueError), max_retries=1, retry_exceptions=(ValueError,)),
        "default number": runs(error(ValueError), retry_exceptions=True),
        "none": runs(error(ValueError), max_retries=0, retry_exceptions=True),
        "exit 0": runs(lambda _: os._exit(0), max_retries=1),
        "sys.exit": runs(lambda _: __import__("sys").exit(0), max_retries=1),
        "sys.exit, errors too": runs(
            lambda _: __import__("sys").exit(1), max_retries=1, retry_exceptions=True
        ),
        "both": runs(
            lambda n: os._exit(1) if n == 1 else (1 / 0 if n == 2 else n),
            max_retries=2,
            retry_exceptions=True,
        ),
        "error of another task": runs(
            lambda _: ray.get(ray.remote(lambda: 1 / 0).remote()),
            max_retries=1,
            retry_exceptions=[ZeroDivisionError],
        ),
    }


@snippet("F1.13", "F4.08")
def names_of_tasks() -> Any:
    @ray.remote(name="named by the decorator")
    def one() -> Any:
        return ray.get_runtime_context().get_task_name()

    @ray.remote
    def two() -> Any:
        return ray.get_runtime_context().get_task_name()

    return [
        ray.get(one.remote()),
        ray.get(one.options(name="named later").remote()),
        ray.get(two.remote()),
        ray.get(two.options(name="").remote()),
    ]


@snippet("F4.08", cluster=None, limit_s=200)
def names_in_a_script() -> Any:
    source = """
        import ray
        ray.init("local", num_cpus=2, include_dashboard=False)
        def names():
            context = ray.get_runtime_context()
            return context.get_task_name(), context.get_task_function_name()
        class Base:
            def base(self):
                return names()
        @ray.remote
        class Actor(Base):
            def __init__(self):
                self.at_start = names()
            def see(self):
                return self.at_start, names()
            def fail(self):
                1 / 0
        @ray.remote
        def task():
            return names()
        def outer():
            @ray.remote
            def inner():
                return names()
            return inner
        actor = Actor.remote()
        print(">", ray.get([task.remote(), task.options(name="x").remote()]))
        print(">", ray.get(outer().remote()))
        print(">", ray.get(actor.see.remote()), ray.get(actor.see.options(name="x").remote())[1])
        print(">", ray.get(actor.base.remote()))
        print(">", ray.get(Actor.options(name="known").remote().see.remote()))
        for name in ("", "x"):
            try:
                ray.get(actor.fail.options(name=name).remote())
            except ZeroDivisionError as error:
                print(">", "ray::x()" in str(error), "ray::Actor.fail()" in str(error))
        """
    return driver(source)


@snippet("F1.19", cluster=None, limit_s=200)
def large_functions() -> Any:
    source = """
        import os, ray
        ray.init("local", num_cpus=1, include_dashboard=False)
        blob = b"x" * int(os.environ["SIZE"])
        @ray.remote
        def big():
            return len(blob)
        try:
            print(">", ray.get(big.remote()))
        except ValueError as error:
            print("> ValueError", "big" in str(error), "too large" in str(error))
        """
    show = ["very large", "ray.put"]
    sizes = {"small": 1000, "over ten": 10_100_000,
             "under a hundred": 99_900_000, "over a hundred": 100_100_000}  # fmt: skip
    found = {
        name: driver(source, env={"SIZE": str(size)}, show=show, timeout=90)
        for name, size in sizes.items()
    }
    limit = {"SIZE": "12000000", "FUNCTION_SIZE_ERROR_THRESHOLD": "11000000"}
    return {**found, "own limit": driver(source, env=limit, show=show)}
