"""F1: remote functions."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import ray
from kit import outcome, snippet, until
from ray.exceptions import TaskCancelledError


@ray.remote
def add(a: int, b: int = 10, *rest: int, c: int = 0) -> int:
    return a + b + c + sum(rest)


@snippet("F1.01", "F1.03", "F1.07")
def decorating() -> Any:
    async def late() -> None: ...

    def f(x: int) -> int:
        return x

    remote = ray.remote(f)
    options = remote.options(num_cpus=1)
    return {
        "type": type(remote).__name__,
        "number": outcome(lambda: ray.remote(3), "@ray.remote"),
        "two": outcome(lambda: ray.remote("f", 1), "@ray.remote"),
        "nothing": outcome(lambda: ray.remote(), "@ray.remote"),
        "instance": outcome(lambda: ray.remote(num_cpus=1)(object()), "function or a class"),
        "async": outcome(lambda: ray.remote(late), "async"),
        "direct": outcome(
            lambda: remote(1), "cannot be called directly", "f()", "f.remote()", "instead"
        ),
        "has": [hasattr(remote, n) for n in ("remote", "options", "bind")],
        "options": [hasattr(options, n) for n in ("remote", "bind", "options")],
        "options is": isinstance(options, type(remote)),
        "form": ray.get(ray.remote(num_cpus=1)(f).remote(4)),
        "lambda": ray.get(ray.remote(lambda: 5).remote()),
        "direct options": outcome(lambda: options(1)),
        "builtin": outcome(lambda: ray.get(ray.remote(len).remote([1]))),
        "partial": outcome(lambda: ray.remote(__import__("functools").partial(f, 1))),
        "twice": outcome(lambda: ray.remote(remote)),
        "static": outcome(lambda: ray.remote(staticmethod(f))),
    }


@snippet("F1.02", "F1.06")
def calling() -> Any:
    one = add.remote(1)

    @ray.remote
    def kinds(*values: Any, **named: Any) -> Any:
        return [type(v).__name__ for v in values], {k: type(v).__name__ for k, v in named.items()}

    return {
        "type": type(one).__name__,
        "defaults": ray.get([one, add.remote(1, 2, 3, c=4), add.remote(b=1, a=1)]),
        "missing": outcome(lambda: add.remote(), "missing", "'a'"),
        "unknown": outcome(lambda: add.remote(1, d=3), "unexpected", "'d'"),
        "twice": outcome(lambda: add.remote(1, a=3), "multiple", "'a'"),
        "refs": ray.get(add.remote(one, b=add.remote(1))),
        "kinds": ray.get(kinds.remote(one, [one], (one,), {"a": one}, k=one, n=[one])),
        "many": ray.get([add.remote(i) for i in range(50)]),
        "too many": outcome(lambda: ray.remote(lambda x: x).remote(1, 2), "too many"),
        "self": outcome(lambda: ray.get(add.options(name="x").remote(1))),
    }


@snippet("F1.05")
def nested() -> Any:
    @ray.remote
    def fib(n: int) -> int:
        return n if n < 2 else sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))

    @ray.remote
    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + ray.get(deep.remote(n - 1))

    @ray.remote
    def maker() -> Any:
        @ray.remote
        class A:
            def f(self) -> str:
                return "made inside"

        a = A.remote()
        return ray.get(a.f.remote())

    @ray.remote
    def returns_ref() -> Any:
        return [ray.put("inner")]

    return [
        ray.get(fib.remote(6)),
        ray.get(deep.remote(12)),
        ray.get(maker.remote()),
        ray.get(ray.get(returns_ref.remote())[0]),
    ]


@snippet("F1.04", "F1.14", cluster={"num_cpus": 4, "num_gpus": 1, "resources": {"X": 2}})
def resources() -> Any:
    @ray.remote
    def me() -> Any:
        context = ray.get_runtime_context()
        return context.get_assigned_resources(), context.get_accelerator_ids(), os.getpid()

    def of(**options: Any) -> Any:
        return ray.get(me.options(**options).remote())[:2]

    first = ray.get(me.options(num_gpus=1).remote())[2]
    second = ray.get(me.options(num_gpus=1).remote())[2]
    return {
        "default": of(),
        "cpus": of(num_cpus=2),
        "none": of(num_cpus=0),
        "half": of(num_cpus=0.5),
        "gpu": of(num_gpus=1),
        "gpu share": of(num_gpus=0.5, num_cpus=0),
        "custom": of(resources={"X": 1.5}),
        "memory": of(memory=10_000_000),
        "gpu workers end": first != second,
        "errors": [
            outcome(lambda: me.options(resources={"CPU": 1}), "num_cpus", "resources"),
            outcome(lambda: me.options(resources={"GPU": 1}), "num_gpus"),
            outcome(lambda: me.options(num_cpus=-1), "negative"),
            outcome(lambda: me.options(num_cpus="1"), "num_cpus", "type"),
            outcome(lambda: me.options(num_cpus=0.00001), "precision", "0.0001"),
            outcome(lambda: me.options(resources={"X": -1}), "negative"),
            outcome(lambda: me.options(resources=[1]), "resources"),
            outcome(lambda: me.options(resources={"X": 0.00001}), "precision"),
            outcome(lambda: me.options(memory=-1), "negative"),
            outcome(lambda: me.options(object_store_memory=1), "object_store_memory"),
            outcome(lambda: me.options(accelerator_type=3), "accelerator_type"),
            outcome(lambda: me.options(scheduling_strategy=3), "scheduling_strategy"),
            outcome(lambda: me.options(scheduling_strategy="ODD").remote(), "ODD"),
            outcome(lambda: me.options(label_selector={"a": "in("}), "label"),
            outcome(lambda: me.options(label_selector=[1]), "label"),
            outcome(lambda: me.options(fallback_strategy=3), "fallback"),
            outcome(lambda: me.options(runtime_env=3), "runtime_env"),
            outcome(lambda: me.options(resources={"X": "2"}) is not None),
            outcome(lambda: me.options(resources={"": 1}) is not None),
            outcome(lambda: me.options(num_gpus=1.5).remote()),
            outcome(lambda: me.options(resources={"memory": 1}) is not None),
            outcome(lambda: me.options(resources={3: 1}) is not None),
        ],
    }


@snippet("F1.15", "F1.08", "F1.10", "F1.11", "F1.12", "F1.17")
def wrong_options() -> Any:
    def f() -> None: ...

    def gen() -> Any:
        yield 1

    def make(target: Any = f, **options: Any) -> Any:
        return outcome(lambda: type(ray.remote(**options)(target)).__name__, *options)

    remote = ray.remote(f)

    def change(**options: Any) -> Any:
        return outcome(lambda: hasattr(remote.options(**options), "remote"), *options)

    return {
        "unknown": make(no_such=1),
        "unknown in options": change(no_such=1),
        "actor's": make(max_restarts=1),
        "returns": [make(num_returns=v) for v in (0, 1, 5, -1, "3", 1.5, "streaming", "dynamic", None)],
        "generator's": [make(gen, num_returns=v) for v in ("streaming", "dynamic", 2, None, "odd")],
        "max_retries": [make(max_retries=v) for v in (0, -1, -2, "1", None, 1.5)],
        "retry": [make(retry_exceptions=v) for v in (True, [ValueError], [1], "x", None, (ValueError,), [BaseException])],
        "max_calls": [make(max_calls=v) for v in (0, 1, -1, "1", None)],
        "max_calls later": change(max_calls=1),
        "name": [make(name=v) for v in ("x", 3, None)],
        "events": [make(enable_task_events=v) for v in (True, False, None, 3)],
        "backpressure": [make(gen, _generator_backpressure_num_objects=v) for v in (0, 1, -1, None, -2)],
        "per yield": [make(gen, _num_objects_per_yield=v) for v in (1, 2)],
        "labels": [make(_labels=v) for v in ({"a": "b"}, None, 3)],
        "metadata": make(_metadata={"a": 1}),
        "concurrency": make(max_concurrency=1),
        "lifetime": make(lifetime="detached"),
    }  # fmt: skip


@snippet("F1.18")
def placement_options() -> Any:
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    pg = placement_group([{"CPU": 1}])
    ray.get(pg.ready())

    @ray.remote
    def f() -> bool:
        return ray.get_runtime_context().get_placement_group_id() is not None

    found = {
        "direct": outcome(lambda: ray.get(f.options(placement_group=pg).remote())),
        "index": outcome(
            lambda: ray.get(f.options(placement_group=pg, placement_group_bundle_index=0).remote())
        ),
        "both": outcome(
            lambda: f.options(
                placement_group=pg, scheduling_strategy=PlacementGroupSchedulingStrategy(pg)
            ).remote(),
            "placement_group",
            "scheduling_strategy",
        ),
        "default": outcome(lambda: ray.get(f.options(placement_group="default").remote())),
        "none": outcome(lambda: ray.get(f.options(placement_group=None).remote())),
        "out of range": outcome(
            lambda: f.options(placement_group=pg, placement_group_bundle_index=5).remote(), "index"
        ),
        "no group": outcome(lambda: f.options(placement_group_bundle_index=0).remote()),
    }
    ray.util.remove_placement_group(pg)
    return found


@snippet("F1.08")
def returns() -> Any:
    @ray.remote
    def three() -> Any:
        return 1, 2, 3

    @ray.remote
    def generator() -> Any:
        yield from (1, 2, 3)

    def get(refs: Any) -> Any:
        return ray.get(refs)

    return {
        "three": get(three.options(num_returns=3).remote()),
        "list": type(three.options(num_returns=3).remote()).__name__,
        "one": get(three.remote()),
        "zero": three.options(num_returns=0).remote(),
        "two": outcome(lambda: get(three.options(num_returns=2).remote()), "num_returns", "3"),
        "four": outcome(lambda: get(three.options(num_returns=4).remote()), "num_returns", "3"),
        "not iterable": outcome(lambda: get(add.options(num_returns=2).remote(1)), "num_returns"),
        "generator": outcome(lambda: get(generator.options(num_returns=3).remote())),
        "generator short": outcome(lambda: get(generator.options(num_returns=4).remote())),
        "generator long": outcome(lambda: get(generator.options(num_returns=2).remote())),
    }


@snippet("F1.09")
def streams() -> Any:
    @ray.remote
    def count(n: int, fail: bool = False) -> Any:
        for i in range(n):
            yield i
        if fail:
            raise ValueError("after the last")

    gen = count.remote(3)
    first = next(gen)
    found: dict[str, Any] = {
        "type": type(gen).__name__,
        "item": type(first).__name__,
        "values": [ray.get(first), *(ray.get(r) for r in gen)],
        "end": outcome(lambda: next(gen)),
        "finished": [gen.is_finished(), count.remote(1).is_finished() in (True, False)],
        "completed": outcome(lambda: ray.get(count.remote(2).completed())),
        "is gen": [hasattr(gen, n) for n in (
            "__iter__", "__aiter__", "__next__", "__anext__", "send", "throw", "close", "aclose",
            "asend", "next_ready", "is_finished", "completed")],
    }  # fmt: skip
    failing = count.remote(1, True)
    items = [outcome(lambda r=ref: ray.get(r), "after the last") for ref in failing]
    found["failing"] = items
    found["failing end"] = outcome(lambda: next(failing))
    failed = count.remote(1, True)
    found["failed completed"] = outcome(lambda: ray.get(failed.completed()), "after the last")
    found["wait"] = [len(part) for part in ray.wait([count.remote(2)], timeout=20)]
    found["get gen"] = outcome(lambda: type(ray.get(count.remote(1))).__name__)
    found["get list"] = outcome(lambda: type(ray.get([count.remote(1)])).__name__)
    found["pickle"] = outcome(lambda: ray.put(count.remote(1)))
    found["pass"] = outcome(lambda: add.remote(count.remote(1)))
    empty = count.remote(0)
    found["empty"] = outcome(lambda: next(empty))
    found["ready"] = outcome(lambda: count.remote(1).next_ready() in (True, False))
    closed = count.remote(5)
    found["close"] = outcome(closed.close)
    found["after close"] = outcome(lambda: next(closed))

    async def go() -> Any:
        return [await ref async for ref in count.remote(3)]

    found["async"] = asyncio.run(go())

    @ray.remote(num_returns="dynamic")
    def dynamic(n: int) -> Any:
        yield from range(n)

    value = ray.get(dynamic.remote(3))
    found["dynamic"] = [type(value).__name__, [ray.get(r) for r in value]]
    return found


@snippet("F1.17", "F1.09")
def backpressure() -> Any:
    @ray.remote
    class Tally:
        def __init__(self) -> None:
            self.n = 0

        def up(self) -> None:
            self.n += 1

        def get(self) -> int:
            return self.n

    tally = Tally.remote()

    @ray.remote(_generator_backpressure_num_objects=2)
    def count() -> Any:
        for i in range(6):
            ray.get(tally.up.remote())
            yield i

    gen = count.remote()
    until(lambda: ray.get(tally.get.remote()) >= 2)
    time.sleep(0.5)
    before = ray.get(tally.get.remote())
    values = [ray.get(r) for r in gen]
    return {"ahead": before, "values": values, "all": ray.get(tally.get.remote())}


@snippet("F1.10", "F1.11", "F5.04")
def retries() -> Any:
    @ray.remote
    class Tally:
        def __init__(self) -> None:
            self.n = 0

        def up(self) -> int:
            self.n += 1
            return self.n

    @ray.remote(max_retries=2)
    def crash(tally: Any, until: int) -> int:
        n = ray.get(tally.up.remote())
        if n < until:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    @ray.remote(max_retries=2, retry_exceptions=[ValueError])
    def fail(tally: Any, until: int, kind: Any = ValueError) -> int:
        n = ray.get(tally.up.remote())
        if n < until:
            raise kind("not yet")
        return n

    def count(task: Any, *args: Any) -> Any:
        tally = Tally.remote()
        result = outcome(lambda: ray.get(task.remote(tally, *args)))
        return result, ray.get(tally.up.remote()) - 1

    return {
        "crash once": count(crash, 2),
        "crash always": count(crash, 99),
        "no retry": count(crash.options(max_retries=0), 99),
        "fail twice": count(fail, 3),
        "fail always": count(fail, 99),
        "other error": count(fail, 99, TypeError),
        "subclass": count(fail, 99, UnicodeError),
        "not asked": count(fail.options(retry_exceptions=False), 99),
        "all": count(fail.options(retry_exceptions=True), 99, TypeError),
        "exit": count(crash.options(max_retries=1), 99),
    }


@snippet("F1.12", "F1.13")
def calls_and_names() -> Any:
    @ray.remote(max_calls=1)
    def pid() -> int:
        return os.getpid()

    @ray.remote
    def name() -> Any:
        context = ray.get_runtime_context()
        return context.get_task_name(), context.get_task_function_name().rpartition(".")[2]

    pids = [ray.get(pid.remote()) for _ in range(3)]
    return len(set(pids)), ray.get(name.remote()), ray.get(name.options(name="mine").remote())


@snippet("F1.16", limit_s=150)
def cancelling() -> Any:
    @ray.remote
    def wait(path: str = "") -> str:
        try:
            if path:
                with open(path, "w") as file:
                    file.write("started")
            for _ in range(600):
                time.sleep(0.1)
        except KeyboardInterrupt:
            if path:
                with open(path, "a") as file:
                    file.write(" interrupted")
            raise
        return "ended"

    @ray.remote(num_cpus=1000)
    def never() -> None: ...

    @ray.remote
    def outer() -> Any:
        ray.get([wait.remote()])

    @ray.remote
    def stream() -> Any:
        yield 1
        time.sleep(60)
        yield 2

    import tempfile

    folder = tempfile.mkdtemp()

    def begun(name: str) -> str:
        return os.path.join(folder, name)

    def text(path: str) -> str:
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""

    found = {}
    running = wait.remote(begun("a"))
    until(lambda: text(begun("a")))
    found["cancel"] = ray.cancel(running)
    found["running"] = outcome(lambda: ray.get(running, timeout=20))
    found["interrupted"] = until(lambda: "interrupted" in text(begun("a")))
    pending = never.remote()
    ray.cancel(pending)
    found["pending"] = outcome(lambda: ray.get(pending, timeout=20))
    forced = wait.remote(begun("b"))
    until(lambda: text(begun("b")))
    ray.cancel(forced, force=True)
    found["forced"] = outcome(lambda: ray.get(forced, timeout=20))
    done = add.remote(1)
    ray.get(done)
    found["finished"] = [outcome(lambda: ray.cancel(done)), ray.get(done)]
    found["twice"] = [ray.cancel(pending), outcome(lambda: ray.get(pending, timeout=20))]
    depending = add.remote(never.remote())
    ray.cancel(depending)
    found["dependent"] = outcome(lambda: ray.get(depending, timeout=20))
    upstream = never.remote()
    after = add.remote(upstream)
    ray.cancel(upstream)
    found["after it"] = outcome(lambda: ray.get(after, timeout=20), "cancel")
    gen = stream.remote()
    ray.get(next(gen))
    ray.cancel(gen)
    found["stream"] = outcome(lambda: [ray.get(r, timeout=20) for r in gen])
    parent = outer.remote()
    time.sleep(1)
    ray.cancel(parent)
    found["parent"] = outcome(lambda: ray.get(parent, timeout=20))
    found["no ref"] = outcome(lambda: ray.cancel(3), "cancel", "int")
    found["put"] = outcome(lambda: ray.cancel(ray.put(1)))
    found["error"] = [str(TaskCancelledError())[:0], hasattr(TaskCancelledError(), "task_id")]
    found["free again"] = until(lambda: ray.available_resources().get("CPU") == 4)
    return found


@snippet("F1.19")
def big_functions() -> Any:
    blob = os.urandom(120 << 20)

    @ray.remote
    def f() -> int:
        return len(blob)

    return outcome(lambda: ray.get(f.remote()), "too large", "MiB")


@snippet("F1.20", cluster=None)
def other_languages() -> Any:
    from ray import cross_language

    return {
        "names": sorted(
            n for n in ("java_function", "java_actor_class", "cpp_function", "cpp_actor_class")
            if hasattr(cross_language, n)
        ),
        "top": [hasattr(ray, n) for n in ("java_function", "java_actor_class")],
    }  # fmt: skip


@snippet("F1.14", "F7.01")
def environments() -> Any:
    @ray.remote(runtime_env={"env_vars": {"A": "1", "B": "2"}})
    def see(*names: str) -> Any:
        return {n: os.environ.get(n) for n in names}

    @ray.remote(runtime_env={"env_vars": {"A": "1"}})
    def inherit() -> Any:
        inner = ray.remote(lambda: [os.environ.get("A"), os.environ.get("B")])
        return [
            ray.get(inner.remote()),
            ray.get(inner.options(runtime_env={"env_vars": {"B": "3"}}).remote()),
        ]

    return {
        "own": ray.get(see.remote("A", "B")),
        "over": ray.get(see.options(runtime_env={"env_vars": {"A": "9"}}).remote("A", "B")),
        "inherited": ray.get(inherit.remote()),
        "expanded": ray.get(
            see.options(runtime_env={"env_vars": {"A": "${HOME}/x"}}).remote("A")
        )["A"] == os.environ.get("HOME", "") + "/x",
        "wrong": outcome(lambda: see.options(runtime_env={"env_vars": {"A": 1}}), "env_vars"),
        "unknown": outcome(lambda: see.options(runtime_env={"odd_field": 1}) is not None),
    }  # fmt: skip
