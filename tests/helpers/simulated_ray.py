"""A cluster in one thread and in simulated time, for code that calls it ``ray`` and ``time``.

Actors are objects whose calls arrive and are answered after random delays, and that die at any await; nodes
join, die and are drained. The driver is plain blocking code: while it waits, everything else happens. All
of it follows from one seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import inspect
import random
import selectors
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from heliostat import exceptions

EPOCH_S = 1.8e9
# More turns of the loop than any history takes that goes on.
TURNS_MAX = 300_000


class Gone(exceptions.RayError):
    """Raised where the process that had the answer is gone."""


class DriverDied(BaseException):
    """The driver ends here, without another word."""


class Verdict(BaseException):
    """Something is not as it has to be; no code under test takes it for an error of its own."""


class Standstill(Verdict):
    """Nothing will ever happen again, or nothing that brings it to its end."""


class _Selector(selectors.SelectSelector):
    """Nobody waits: time passes at once."""

    now = 0.0

    turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Standstill("everybody waits, and nothing is under way")
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Standstill("it does not come to its end")
        self.now += timeout
        return []


class Loop(asyncio.SelectorEventLoop):
    """An event loop with the simulation's clock; a call in a thread takes as long as the world says."""

    def __init__(self, world: World) -> None:
        self.selector = _Selector()
        self.world = world
        super().__init__(self.selector)
        # The actor whose process a task belongs to.
        self.actors: weakref.WeakKeyDictionary[asyncio.Task[Any], Actor | None]
        self.actors = weakref.WeakKeyDictionary()
        self.set_task_factory(self._task)

    def _task(self, loop: Any, coroutine: Any, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=self, context=context)
        self.actors[task] = current.get() if context is None else context.get(current)
        return task

    def time(self) -> float:
        return self.selector.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = self.create_future()
        actor = current.get()

        def run() -> None:
            if future.done() or (actor is not None and not actor.lives):
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:
                if not future.done():
                    future.set_exception(error)

        self.call_later(self.world.thread_s(), run)
        return future


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.loop.time()

    perf_counter = monotonic

    def time(self) -> float:
        return EPOCH_S + self._world.loop.time()

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def sleep(self, seconds: float) -> None:
        self._world.drive(asyncio.sleep(seconds))


# The actor that runs; None: the driver.
current: contextvars.ContextVar[Actor | None] = contextvars.ContextVar("current", default=None)


class Ref:
    """A reference to the answer of a call."""

    def __init__(self, world: World) -> None:
        self.future: asyncio.Future[Any] = world.loop.create_future()
        self.future.add_done_callback(lambda f: f.cancelled() or f.exception())

    def __deepcopy__(self, memo: Any) -> Ref:
        return self

    def __await__(self) -> Any:
        value = yield from asyncio.shield(self.future).__await__()
        return copy.deepcopy(value)

    def answer(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def lose(self, why: str) -> None:
        """Lose the value, also where it had been there."""
        self.future.cancel()
        self.future = self.future.get_loop().create_future()
        self.future.add_done_callback(lambda f: f.cancelled() or f.exception())
        self.future.set_exception(Gone(why))


@dataclass
class Node:
    """A machine."""

    name: str
    cpus: int
    free: float
    lives: bool = True
    leaves_at: float | None = None  # by the wall clock, in seconds
    actors: dict[Actor, None] = field(default_factory=dict)  # in the order in which they came


class Bundles:
    """A placement group."""

    def __init__(self, world: World, count: int) -> None:
        self.ref = Ref(world)
        self.count = count
        self.nodes: list[Node] | None = None
        self.taken: dict[int, Actor] = {}

    def __deepcopy__(self, memo: Any) -> Bundles:
        return self

    def ready(self) -> Ref:
        return self.ref


class Handle:
    """An actor, as others see it."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def __deepcopy__(self, memo: Any) -> Handle:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return SimpleNamespace(remote=lambda *args, **kw: self._actor.call(name, args, kw))


class Actor:
    """A process that answers calls; ``make`` makes its object."""

    def __init__(self, world: World, name: str, make: Callable[[Actor], Any]) -> None:
        self.world, self.name, self._make = world, name, make
        self.node: Node | None = None
        self.lives = True
        self.object: Any = None
        self._open: dict[Ref, None] = {}
        self._owned: list[Ref] = []
        self._waiting: list[Callable[[], None]] = []
        self._busy = asyncio.Lock()
        self._latest: defaultdict[Any, float] = defaultdict(float)
        self.on_end: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return self.name

    def start(self, node: Node) -> None:
        """Begin to start the actor's process on a node."""
        self.node = node
        node.actors[self] = None
        self.world.later(self.world.start_s(), self._started)

    def _started(self) -> None:
        if not self.lives:
            return
        token = current.set(self)
        try:
            self.object = self._make(self)
        finally:
            current.reset(token)
        waiting, self._waiting = self._waiting, []
        for begin in waiting:
            begin()

    def call(self, name: str, args: Any, kwargs: Any) -> Ref:
        ref = Ref(self.world)
        self._open[ref] = None
        args, kwargs = copy.deepcopy((args, kwargs))
        # Messages from one process to another arrive in order.
        caller = current.get()
        now = self.world.loop.time()
        at = max(self._latest[caller] + 1e-6, now + self.world.delay_s())
        self._latest[caller] = at

        def arrive() -> None:
            if not self.lives:
                ref.fail(Gone(f"The actor is dead because {self.name} died."))
            elif self.object is None:
                self._waiting.append(begin)
            else:
                begin()

        def begin() -> None:
            context = contextvars.copy_context()
            context.run(current.set, self)
            self.world.loop.create_task(self._run(ref, name, args, kwargs), context=context)

        self.world.later(at - now, arrive)
        return ref

    async def _run(self, ref: Ref, name: str, args: Any, kwargs: Any) -> None:
        try:
            method = getattr(self.object, name)
            if inspect.iscoroutinefunction(method):
                value = await method(*args, **kwargs)
            else:
                async with self._busy:
                    value = method(*args, **kwargs)
            value = copy.deepcopy(value)
        except asyncio.CancelledError:
            return  # it has died
        except AssertionError as error:
            self.world.found(error)
            return
        except Exception as error:
            answer = self._failure(error)
            self.world.later(self.world.delay_s(), lambda: self._reply(ref, answer, None))
            return
        self.world.later(self.world.delay_s(), lambda: self._reply(ref, None, value))

    def _failure(self, error: Exception) -> BaseException:
        return error if isinstance(error, exceptions.RayError) else Gone(repr(error))

    def _reply(self, ref: Ref, error: BaseException | None, value: Any) -> None:
        self._open.pop(ref, None)
        if error is not None:
            ref.fail(error)
        else:
            ref.answer(value)

    def spawn(self, coroutine: Awaitable[Any]) -> asyncio.Task[Any]:
        """A thread of the process."""
        task: asyncio.Task[Any] = self.world.loop.create_task(coroutine)  # type: ignore[arg-type]
        return task

    def own(self, ref: Ref) -> None:
        self._owned.append(ref)

    def end(self, why: str) -> None:
        """The process is gone, wherever it was."""
        if not self.lives:
            return
        self.lives = False
        self.world.note(f"{self.name} ends: {why}")
        if self.node is not None:
            self.node.actors.pop(self, None)
        loop = self.world.loop
        for task in [t for t, actor in loop.actors.items() if actor is self and not t.done()]:
            task.cancel()
        for ref in self._owned:
            ref.lose(f"the owner {self.name} is gone")
        for hear in self.on_end:
            hear()
        lost = Gone(f"The actor is dead because {self.name} died.")
        open_, self._open = self._open, {}
        for ref in open_:
            self.world.later(self.world.delay_s(), lambda ref=ref: ref.fail(lost))


class World:
    """Nodes and actors, and how long things take."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = Loop(self)
        self.loop.set_exception_handler(self._unheard)
        self.clock = Clock(self)
        self.nodes: dict[str, Node] = {}
        self.groups: list[Bundles] = []
        self.pending: list[tuple[Actor, Any]] = []  # actors that wait for their place
        self.problem: BaseException | None = None
        self.history: list[str] = []
        self._changes = 0
        self._change = asyncio.Event()
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._driver_dies = asyncio.Event()
        self.slow_s = 0.0  # how much longer threads take, which wait for storage

    # ---- time ----

    def delay_s(self) -> float:
        return self.rng.random() * 0.002

    def start_s(self) -> float:
        return 0.05 + self.rng.random() * 0.5

    def thread_s(self) -> float:
        return self.rng.random() * (0.01 + self.slow_s)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.loop.call_later(seconds, call)

    # ---- what a history leaves ----

    def note(self, text: str) -> None:
        self.history.append(f"{self.loop.time():9.3f} {text}")

    def found(self, problem: BaseException) -> None:
        """Something is wrong: the driver's next wait raises it."""
        self.problem = self.problem or problem
        self._driver_dies.set()

    def _unheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A task has failed, and nobody asked: what it was to do is not done."""
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, exceptions.RayError):
            self.found(error)

    # ---- the driver ----

    def drive(self, wanted: Awaitable[Any]) -> Any:
        """Let everything happen until ``wanted`` has."""

        async def until() -> Any:
            task = asyncio.ensure_future(wanted)
            death = asyncio.ensure_future(self._driver_dies.wait())
            await asyncio.wait({task, death}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if self._driver_dies.is_set():
                task.cancel()
                self._driver_dies.clear()
                if self.problem is not None:
                    raise Verdict(str(self.problem)) from self.problem
                raise DriverDied
            return task.result()

        return self.loop.run_until_complete(until())

    def kill_driver(self) -> None:
        """End the driver, and with it all actors, which it owns."""
        self._driver_dies.set()

    def end_all(self, why: str) -> None:
        for node in self.nodes.values():
            for actor in list(node.actors):
                actor.end(why)
        self.groups.clear()
        self.pending.clear()
        for node in self.nodes.values():
            node.free = node.cpus
        self._driver_dies.clear()

    def close(self) -> None:
        self.end_all("the history is over")
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.selector.turns = 0
        if tasks:
            with contextlib.suppress(Standstill):  # one that a planted bug has left behind
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    # ---- nodes ----

    def add_node(self, cpus: int) -> Node:
        node = Node(self.number("node"), cpus, cpus)
        self.nodes[node.name] = node
        self.note(f"{node.name} joins with {cpus} CPUs")
        self._changed()
        return node

    def kill_node(self, node: Node) -> None:
        self.note(f"{node.name} dies")
        node.lives = False
        for actor in list(node.actors):
            actor.end(f"{node.name} died")
        self._changed()

    def drain(self, node: Node, seconds: float | None) -> None:
        """Announce that the node will be taken away; None: it stays after all."""
        node.leaves_at = None if seconds is None else self.clock.time() + seconds
        self.note(f"{node.name} leaves in {seconds} s")
        self._changed()

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.lives]

    def _changed(self) -> None:
        self._changes += 1
        self._change.set()
        self._change = asyncio.Event()
        self.place()

    def number(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}{self._numbers[kind]}"

    # ---- placing ----

    def place(self) -> None:
        """Give room to whoever waits for it and finds it."""
        for group in self.groups:
            lost = range(group.count)
            if group.nodes is not None:  # what was on a dead node is placed anew
                lost = [i for i in lost if not group.nodes[i].lives]
            chosen = self._room(len(lost)) if lost else None
            if chosen is not None:
                kept = group.nodes or chosen
                group.nodes = [*kept]
                for index, node in zip(lost, chosen, strict=True):
                    group.nodes[index] = node
                    node.free -= 1
                self.later(self.delay_s(), lambda group=group: group.ref.answer(True))
        waiting, self.pending = self.pending, []
        for actor, strategy in waiting:
            if actor.lives:
                self.place_actor(actor, strategy)

    def place_actor(self, actor: Actor, strategy: Any) -> None:
        """Start it where it is to be, at once or when there is room."""
        node = self._place_of(actor, strategy)
        if node is not None and node.lives:
            actor.start(node)
        elif hasattr(strategy, "group") and strategy.group in self.groups:
            self.pending.append((actor, strategy))
        else:
            self.later(self.delay_s(), lambda: actor.end("its node is gone"))

    def _place_of(self, actor: Actor, strategy: Any) -> Node | None:
        if strategy is None:
            stays = [n for n in self.alive if n.leaves_at is None] or self.alive
            return self.rng.choice(stays) if stays else None
        if hasattr(strategy, "node_id"):
            return self.nodes.get(strategy.node_id)
        group, index = strategy.group, strategy.index
        if group not in self.groups or group.nodes is None:
            return None
        free = [i for i in range(group.count) if i not in group.taken and group.nodes[i].lives]
        index = next(iter(free), None) if index < 0 or index not in free else index
        if index is None:
            return None
        group.taken[index] = actor
        actor.on_end.append(lambda: group.taken.pop(index, None))
        node: Node = group.nodes[index]
        return node

    def _room(self, count: int) -> list[Node] | None:
        free = {node.name: node.free for node in self.alive if node.leaves_at is None}
        chosen = []
        for _ in range(count):
            names = [name for name, left in free.items() if left >= 1]
            if not names:
                return None
            name = self.rng.choice(names)
            free[name] -= 1
            chosen.append(self.nodes[name])
        return chosen

    def placement_group(self, bundles: list[Any], **_: Any) -> Bundles:
        group = Bundles(self, len(bundles))
        self.groups.append(group)
        self.place()
        return group

    def remove_placement_group(self, group: Bundles) -> None:
        if group in self.groups:
            self.groups.remove(group)
            for actor in list(group.taken.values()):
                actor.end("its room is given back")
            for actor, strategy in self.pending:
                if getattr(strategy, "group", None) is group:
                    actor.end("its room is given back")
            for node in group.nodes or []:
                node.free += 1
            self.place()


class Core:
    """Stands in for ``heliostat.core.platform.membership``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def members(self) -> tuple[int, list[dict[str, Any]]]:
        return self._world._changes, [
            {
                "node_id": node.name,
                "host": node.name,
                "alive": node.lives,
                "is_draining": node.lives and node.leaves_at is not None,
                "drain_deadline_ms": int((node.leaves_at or 0) * 1000),
                "drain_reason": "",
                "available": {"CPU": float(node.free)},
            }
            for node in self._world.nodes.values()
        ]

    def next_change_of_members(self, seen: int) -> Ref:
        ref, world = Ref(self._world), self._world

        async def wait() -> None:
            while world._changes == seen:
                await world._change.wait()
            ref.answer(None)

        world.loop.create_task(wait())
        return ref


class Ray:
    """Stands in for the package ``heliostat``."""

    exceptions = exceptions

    def __init__(self, world: World, instead: dict[type, Callable[..., Any]]) -> None:
        self._world = world
        # By class: what makes its object here, from the actor and the arguments.
        self._instead = instead

    # ---- objects ----

    def put(self, value: Any) -> Ref:
        ref = Ref(self._world)
        ref.answer(copy.deepcopy(value))
        owner = current.get()
        if owner is not None:
            owner.own(ref)
        return ref

    def get(self, refs: Any, timeout: float | None = None) -> Any:
        wanted = refs if isinstance(refs, list) else [refs]
        if not all(ref.future.done() for ref in wanted):
            self._world.drive(self._until(wanted, len(wanted), timeout))
        for ref in wanted:
            if not ref.future.done():
                raise exceptions.GetTimeoutError("it took too long")
        values = [copy.deepcopy(ref.future.result()) for ref in wanted]
        return values if isinstance(refs, list) else values[0]

    def wait(
        self, refs: list[Ref], num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        self._world.drive(self._until(refs, num_returns, timeout))
        ready = [ref for ref in refs if ref.future.done()][:num_returns]
        return ready, [ref for ref in refs if ref not in ready]

    async def _until(self, refs: list[Ref], count: int, timeout: float | None) -> None:
        end = None if timeout is None else self._world.loop.time() + timeout
        await asyncio.sleep(0)
        while sum(ref.future.done() for ref in refs) < count:
            left = None if end is None else end - self._world.loop.time()
            if left is not None and left <= 0:
                return
            is_ready = asyncio.Event()
            open_ = [ref.future for ref in refs if not ref.future.done()]
            for future in open_:
                future.add_done_callback(lambda _, ready=is_ready: ready.set())
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(is_ready.wait(), left)

    # ---- actors ----

    def remote(self, kind: type) -> Any:
        def made(options: dict[str, Any], args: Any) -> Handle:
            world = self._world
            args = copy.deepcopy(args)
            make = self._instead.get(kind)

            def build(actor: Actor) -> Any:
                return kind(*args) if make is None else make(actor, *args)

            actor = Actor(world, world.number(kind.__name__), build)
            world.place_actor(actor, options.get("scheduling_strategy"))
            return Handle(actor)

        return SimpleNamespace(
            options=lambda **options: SimpleNamespace(remote=lambda *args: made(options, args)),
            remote=lambda *args: made({}, args),
        )

    def kill(self, handle: Handle) -> None:
        handle._actor.end("it was ended")

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": node.name,
                "Alive": node.lives,
                "Resources": {"CPU": float(node.cpus)},
                "NodeManagerAddress": node.name,
            }
            for node in self._world.nodes.values()
        ]

    def available_resources(self) -> dict[str, float]:
        return {"CPU": float(sum(node.free for node in self._world.alive))}

    def get_runtime_context(self) -> Any:
        actor = current.get()
        node = actor.node.name if actor is not None and actor.node is not None else "home"
        return SimpleNamespace(get_node_id=lambda: node, get_job_id=lambda: "job")


def stand_in(world: World, patch: Any, modules: list[Any], instead: dict[type, Any]) -> None:
    """Have these modules use the simulation where they use the cluster and the clock."""
    ray = Ray(world, instead)
    for module in modules:
        for name, stand_in in (
            ("ray", ray),
            ("time", world.clock),
            ("membership", Core(world)),
            ("placement_group", world.placement_group),
            ("remove_placement_group", world.remove_placement_group),
            ("PlacementGroupSchedulingStrategy", _in_group),
            ("NodeAffinitySchedulingStrategy", _on_node),
        ):
            if hasattr(module, name):
                patch.setattr(module, name, stand_in)


def _in_group(group: Bundles, placement_group_bundle_index: int) -> Any:
    return SimpleNamespace(group=group, index=placement_group_bundle_index)


def _on_node(node_id: str, soft: bool) -> Any:
    return SimpleNamespace(node_id=node_id)
