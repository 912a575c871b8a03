"""F2: what an actor's class may look like, and where its handles may go."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import functools
import os
import pickle
import tempfile
import threading
from typing import Any, Generic, TypeVar

import ray
from kit import outcome, snippet, until

T = TypeVar("T")


def get(ref: Any, timeout: float = 30) -> Any:
    return ray.get(ref, timeout=timeout)


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return ["wrapped", function(*args, **kwargs)]

    return inner


class Base(abc.ABC):
    factor = 3

    def __init__(self, start: int) -> None:
        self.start = start

    @abc.abstractmethod
    def scaled(self, x: int) -> int: ...

    def call_scaled(self, x: int) -> int:
        return self.scaled(x) + self.start


class Derived(Base):
    def __init__(self, start: int, *, more: int = 10) -> None:
        super().__init__(start)
        self.more = more

    def scaled(self, x: int) -> int:
        return x * self.factor + self.more

    @staticmethod
    def still(x: int) -> int:
        return x + 1

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    @property
    def prop(self) -> int:
        return self.start

    @wrapped
    def deco(self, x: int) -> int:
        return x

    def keyword_only(self, a: int, *, b: int = 2, c: int) -> Any:
        return [a, b, c]

    def positional_only(self, a: int, /, b: int = 5) -> Any:
        return [a, b]

    def anything(self, *args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    def default(self, a: Any = None, b: tuple[int, ...] = ()) -> Any:
        return [a, list(b)]

    def __call__(self, x: int) -> Any:
        return ["called", x]

    def __len__(self) -> int:
        return 42

    def __getitem__(self, key: Any) -> Any:
        return ["item", key]

    def _private(self) -> str:
        return "private"

    def __mangled(self) -> str:
        return "mangled"

    def options(self) -> str:
        return "a method named options"

    def remote(self) -> str:
        return "a method named remote"

    def method(self, options: int = 1, name: str = "n") -> Any:
        return [options, name]

    lam = lambda self, x: x - 1  # noqa: E731


@snippet("F2.01", "F2.03")
def shapes() -> Any:
    remote = ray.remote(Derived)
    a = remote.remote(1, more=100)

    class Box(Generic[T]):
        def __init__(self, item: T) -> None:
            self.item = item

        def get(self) -> T:
            return self.item

    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2

        def total(self) -> int:
            return self.x + self.y

    class Dynamic:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return lambda *args: [name, *args]

        def known(self) -> int:
            return 1

    class New:
        def __new__(cls, *args: Any) -> Any:
            made = super().__new__(cls)
            made.args = list(args)
            return made

        def get(self) -> Any:
            return self.args

    class Old(object):  # noqa: UP004
        value = 7

        def get(self) -> int:
            return self.value

    class Slots:
        __slots__ = ("x",)

        def __init__(self, x: int) -> None:
            self.x = x

        def get(self) -> int:
            return self.x

    class Partial:
        def base(self, x: int, y: int) -> int:
            return x * y

        twice = functools.partialmethod(base, 2)

    def one(cls: Any, *args: Any, method: str = "get", more: tuple[Any, ...] = ()) -> Any:
        def run() -> Any:
            actor = ray.remote(cls).remote(*args)
            return get(getattr(actor, method).remote(*more))

        return outcome(run)

    return {
        "abstract": outcome(
            lambda: get(ray.remote(Base).remote(1).call_scaled.remote(1)), "abstract"
        ),
        "derived": get([a.scaled.remote(2), a.call_scaled.remote(2), a.still.remote(4)]),
        "class method": get(a.name.remote()),
        "property": outcome(lambda: get(a.prop.remote())),
        "decorated": get(a.deco.remote(5)),
        "decorated wrong": outcome(lambda: get(a.deco.remote(5, 6, 7))),
        "keyword only": [
            get(a.keyword_only.remote(1, c=3)),
            outcome(lambda: a.keyword_only.remote(1), "c"),
            outcome(lambda: a.keyword_only.remote(1, 2, 3), "too many"),
        ],
        "positional only": [
            get(a.positional_only.remote(1, b=3)),
            outcome(lambda: a.positional_only.remote(a=1)),
        ],
        "anything": [get(a.anything.remote()), get(a.anything.remote(1, 2, k=3))],
        "default": [get(a.default.remote()), get(a.default.remote(b=(1,)))],
        "call": [get(a.__call__.remote(3)), outcome(lambda: a(3))],
        "len": [get(a.__len__.remote()), outcome(lambda: len(a))],
        "item": [get(a.__getitem__.remote(1)), outcome(lambda: a[1])],
        "private": [get(a._private.remote()), get(a._Derived__mangled.remote())],
        "options": outcome(lambda: get(a.options.remote())),
        "remote": outcome(lambda: get(a.remote.remote())),
        "arguments": get(a.method.remote(options=2, name="x")),
        "lambda": get(a.lam.remote(3)),
        "no argument": outcome(lambda: remote.remote(), "start"),
        "generic": one(Box, 3),
        "generic alias": outcome(lambda: get(ray.remote(Box[int]).remote(3).get.remote())),
        "dataclass": one(Point, 1, method="total"),
        "dataclass too many": outcome(lambda: ray.remote(Point).remote(1, 2, 3)),
        "dynamic": [one(Dynamic, method="known"), one(Dynamic, method="unknown", more=(1,))],
        "new": one(New, 1, 2),
        "old": one(Old),
        "slots": one(Slots, 4),
        "partial": one(Partial, method="twice", more=(4,)),
        "class attribute": [outcome(lambda: remote.factor), outcome(lambda: remote.still(1))],
    }


def factory(n: int) -> Any:
    """A class that closes over a value."""

    class Closing:
        def get(self) -> int:
            return n

        def parent(self) -> Any:
            return super().__repr__().startswith("<")

    return ray.remote(Closing)


@dataclasses.dataclass
class Carries:
    handle: Any
    label: str = "x"


@snippet("F2.24", "F2.01")
def travelling() -> Any:
    @ray.remote
    class Store:
        def __init__(self, held: Any = None) -> None:
            self.held = held
            self.n = 0

        def up(self) -> int:
            self.n += 1
            return self.n

        def set(self, held: Any) -> None:
            self.held = held

        def use(self) -> Any:
            return ray.get(self.held.up.remote())

        def pid(self) -> int:
            return os.getpid()

        def self_handle(self) -> Any:
            return ray.get_runtime_context().current_actor

        def call_self(self) -> Any:
            return [ray.get_runtime_context().current_actor.up.remote()]

        def make(self) -> Any:
            return Store.remote()

    def use_dict(d: Any) -> Any:
        return ray.get(d["a"][0].up.remote())

    def use_data(c: Any) -> Any:
        return [ray.get(c.handle.up.remote()), c.label]

    a = Store.remote()
    b = Store.remote(a)
    found: dict[str, Any] = {"held": get(b.use.remote())}

    @ray.remote
    def closes() -> Any:
        return ray.get(a.up.remote())

    found["closure"] = get(closes.remote())
    found["dict"] = get(ray.remote(use_dict).remote({"a": [a]}))
    found["dataclass"] = get(ray.remote(use_data).remote(Carries(a)))
    found["object"] = ray.get(ray.get(ray.put({"x": a}))["x"].up.remote())
    get(a.set.remote(b))  # a circle
    found["circle"] = get(a.use.remote())
    found["self"] = get(a.self_handle.remote()) == a
    found["calls itself"] = get(get(a.call_self.remote())[0])
    made = get(a.make.remote())
    found["made by an actor"] = get(made.up.remote())
    pid = get(made.pid.remote())
    del made
    found["which ends"] = until(lambda: not os.path.exists(f"/proc/{pid}") or _zombie(pid))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "handle")

        def save() -> Any:
            with open(path, "wb") as file:
                pickle.dump(a, file)
            with open(path, "rb") as file:
                return ray.get(pickle.load(file).up.remote())

        found["disk"] = outcome(save)

        def read(path: str) -> Any:
            with open(path, "rb") as file:
                return ray.get(pickle.load(file).up.remote())

        with open(path, "wb") as file:
            file.write(ray.cloudpickle.dumps(a))
        found["disk, in a task"] = outcome(lambda: get(ray.remote(read).remote(path)))
    found["closing class"] = get(
        [factory(5).remote().get.remote(), factory(6).remote().get.remote()]
    )
    found["super"] = get(factory(1).remote().parent.remote())
    found["method"] = outcome(lambda: get(ray.remote(lambda m: ray.get(m.remote())).remote(a.up)))
    found["set"] = len({a, b, get(b.self_handle.remote())})
    found["is"] = [a == 3, a != None, isinstance(a, ray.actor.ActorHandle)]  # noqa: E711
    return found


def _zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@snippet("F2.12", "F2.13", "F2.14", "F2.20", "F2.21")
def mixed_concurrency() -> Any:
    @ray.remote
    class Mixed:
        def __init__(self) -> None:
            self.n = 0
            self.closed = []

        def sync(self) -> int:
            self.n += 1
            return self.n

        async def both(self) -> Any:
            await asyncio.sleep(0)
            return self.sync()

        async def endless(self) -> Any:
            try:
                while True:
                    yield self.n
                    await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                self.closed.append("cancelled")
                raise
            finally:
                self.closed.append("finally")

        async def failing(self) -> Any:
            yield 1
            raise ValueError("midway")

        def sync_gen(self) -> Any:
            yield from range(3)

        async def was_closed(self) -> Any:
            return self.closed

        async def block(self) -> Any:
            return ray.get(ray.put(3))

        async def name(self) -> Any:
            task = asyncio.current_task()
            return [task is not None, ray.get_runtime_context().get_actor_id() is not None]

        async def gather(self, n: int) -> int:
            self.inside = getattr(self, "inside", 0) + 1
            while self.inside < n:
                await asyncio.sleep(0.01)
            return n

        async def raises(self) -> None:
            raise KeyError("async")

        async def returns_exit(self) -> None:
            raise SystemExit(0)

    a = Mixed.remote()
    found: dict[str, Any] = {
        "sync": get(a.sync.remote()),
        "both": get(a.both.remote()),
        "sync gen": outcome(lambda: [get(r) for r in a.sync_gen.remote()]),
        "failing": [outcome(lambda r=r: get(r), "midway") for r in a.failing.remote()],
        "block": get(a.block.remote()),
        "name": get(a.name.remote()),
        "raises": outcome(lambda: get(a.raises.remote()), "async"),
    }
    stream = a.endless.remote()
    found["first"] = get(next(stream))
    ray.cancel(stream)

    def rest() -> Any:
        for index, ref in enumerate(stream):
            get(ref)
            if index > 500:
                return "goes on"
        return "ends"

    found["cancelled"] = outcome(rest, "cancel")
    # Ray closes it where it stands, or cancels what it awaits.
    found["closed"] = until(lambda: "finally" in get(a.was_closed.remote()), 10)
    found["thousand"] = get(a.gather.remote(1)) and sum(
        get([a.gather.remote(1000) for _ in range(999)], 60)
    )
    found["over the default"] = _over_the_default()

    @ray.remote(max_concurrency=3)
    class Threads:
        def __init__(self) -> None:
            self.local = threading.local()
            self.local.made_by = "the constructor"
            self.barrier = threading.Barrier(3)

        def meet(self) -> Any:
            self.local.seen = getattr(self.local, "seen", 0) + 1
            self.barrier.wait(20)
            return [
                getattr(self.local, "made_by", None),
                threading.current_thread() is threading.main_thread(),
                ray.get_runtime_context().get_task_id() is not None,
            ]

        def stream(self, n: int) -> Any:
            for i in range(n):
                yield i

        def context(self) -> Any:
            return ray.get(ray.put(ray.get_runtime_context().get_actor_name()))

    t = Threads.options(name="threads").remote()
    found["meet"] = get([t.meet.remote() for _ in range(3)])
    found["stream"] = [get(r) for r in t.stream.remote(3)]
    found["context"] = get(t.context.remote())

    @ray.remote(concurrency_groups={"io": 2, "compute": 1}, max_restarts=1, max_task_retries=1)
    class Groups:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        @ray.method(concurrency_group="io")
        def meet(self) -> bool:
            self.barrier.wait(20)
            return True

        @ray.method(concurrency_group="compute")
        def thread(self) -> int:
            return threading.get_ident()

        def default(self) -> int:
            return threading.get_ident()

        def pid(self) -> int:
            return os.getpid()

        def die(self) -> None:
            os._exit(1)

        @ray.method(concurrency_group="io")
        def once(self, path: str) -> str:
            try:
                open(path, "x").close()
            except FileExistsError:
                return "again"
            os._exit(1)

    g = Groups.remote()
    found["groups"] = [get([g.meet.remote(), g.meet.remote()])]
    one, two, three = get([g.thread.remote(), g.thread.remote(), g.default.remote()])
    found["one thread"] = [one == two, one == three]
    with tempfile.TemporaryDirectory() as folder:
        found["once"] = outcome(lambda: get(g.once.remote(os.path.join(folder, "x")), 60))
    found["after"] = get([g.meet.remote(), g.meet.remote()])

    @ray.remote(concurrency_groups={"io": 2})
    class AsyncGroups:
        def __init__(self) -> None:
            self.event = asyncio.Event()
            self.inside = self.most = 0

        @ray.method(concurrency_group="io")
        async def work(self) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0.05)
            self.inside -= 1

        async def peak(self) -> int:
            return self.most

    h = AsyncGroups.remote()
    get([h.work.remote() for _ in range(8)])
    found["async groups"] = get(h.peak.remote())
    found["exit"] = outcome(lambda: get(a.returns_exit.remote()))
    return found


def _over_the_default() -> Any:
    """How many of 1100 calls run at once."""

    @ray.remote
    class Peak:
        def __init__(self) -> None:
            self.now = self.most = 0
            self.event = asyncio.Event()

        async def run(self) -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 1000:
                asyncio.get_running_loop().call_later(0.5, self.event.set)
            await self.event.wait()
            self.now -= 1

        async def peak(self) -> int:
            return self.most

    p = Peak.remote()
    get([p.run.remote() for _ in range(1100)], 60)
    return get(p.peak.remote())


@snippet("F2.19", "F2.29", limit_s=120)
def races_and_limits() -> Any:
    @ray.remote(max_pending_calls=3)
    class Slow:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> str:
            await self.event.wait()
            return "done"

        async def set(self) -> None:
            self.event.set()

    a = Slow.remote()
    refs = [a.wait.remote() for _ in range(2)]
    get(a.set.remote())
    found: dict[str, Any] = {"within": get(refs)}
    b = Slow.remote()
    held: list[Any] = []

    def many() -> None:
        for _ in range(10):
            held.append(b.wait.remote())

    found["async"] = outcome(many, "max_pending_calls", "3")
    found["held"] = len(held)
    handle = ray.get(ray.put(b))
    found["other handle"] = outcome(lambda: handle.set.remote() is not None)

    @ray.remote
    class One:
        def pid(self) -> int:
            return os.getpid()

    pids: list[Any] = []
    handles = []

    def make() -> None:
        h = One.options(name="raced", get_if_exists=True).remote()
        handles.append(h)
        pids.append(get(h.pid.remote(), 60))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    found["threads"] = [len(pids), len(set(pids)), len(set(handles))]
    handles.clear()

    def make_in_task(name: str) -> Any:
        h = One.options(name=name, get_if_exists=True, lifetime="detached").remote()
        return ray.get(h.pid.remote())

    task = ray.remote(make_in_task)
    pids = get([task.remote("raced in tasks") for _ in range(4)], 60)
    found["tasks"] = [len(pids), len(set(pids))]
    ray.kill(ray.get_actor("raced in tasks"))

    def plain(name: str) -> Any:
        return outcome(lambda: get(One.options(name=name).remote().pid.remote()) > 0, "already")

    @ray.remote
    class Holder:
        def make(self, name: str) -> str:
            try:
                self.h = One.options(name=name).remote()
                ray.get(self.h.pid.remote())
                return "made"
            except ValueError as error:
                return type(error).__name__

    holders = [Holder.remote() for _ in range(4)]
    results = get([h.make.remote("one of four") for h in holders], 60)
    found["plain"] = sorted(results)
    return found
