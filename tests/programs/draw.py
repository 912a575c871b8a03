"""Random programs: operations are proposed at random, and the oracle refuses what breaks a rule."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.programs import model, ways
from tests.programs.graph import Actor, Ref, Stream
from tests.programs.model import Class, Fn, Op, Param, Program, Return, Trouble, Value
from tests.programs.oracle import Invalid, Oracle

T = TypeVar("T")
SYNC, ASYNC = sorted(ways.SYNC), sorted(ways.ASYNC)
KINDS = ("bytes", "bytes", "str", "dict", "blob", "int", "none")
CALM_SIZES = {"tiny": 4, "inline": 4, "below 100 KiB": 3, "above 100 KiB": 4, "store": 3}
OPS_MIN, OPS_MAX = 6, 22

# How many of a hundred programs want which session.
SESSIONS = {"usual": 80, "small": 8, "nodes": 6, "afar": 6}

# What a program has more of, so that rare things meet each other; half of them have no theme.
THEMES = ("", "", "", "actors", "streams", "drivers")
PROPOSALS_OF: Mapping[str, Mapping[str, int]] = {
    "": {},
    "actors": {"actor": 6, "method": 14, "put": 2},
    "streams": {"actor": 4, "method": 10, "stream": 5, "take": 12},
    "drivers": {"actor": 4, "keep": 4, "lend": 2, "other_driver": 3},
}


class Drawer:
    """Draws one program."""

    def __init__(self, seed: int, session: str = "") -> None:
        self.random = random.Random(seed)
        kinds, weights = zip(*SESSIONS.items(), strict=True)
        drawn = self.random.choices(kinds, weights)[0]
        # A program that only computes, or one with faults of some kinds.
        self.has_errors = self.one_in(3)
        self.has_cancels = self.one_in(5)
        self.has_kills = self.one_in(5)
        self.has_groups = self.one_in(8)
        # Whoever works for a group ends with it, and so does what its process made before.
        self.crashes = self.has_groups or self.one_in(6)
        # Who works for an actor ends with it, if it still works.
        self.actors_call = self.one_in(3)
        ends_workers = self.crashes or self.has_kills or self.actors_call
        self.has_arrays = self.one_in(8)
        self.theme = self.pick(THEMES)
        self.program = Program(seed, session or drawn, self.crashes, (), ends_workers)
        self.oracle = Oracle(self.program)
        self.ops: list[Op] = []
        self.n_names = 0
        self.others = 0

    def draw(self) -> Program:
        wanted = self.random.randint(OPS_MIN, OPS_MAX)
        proposals = self.proposals()
        names, weights = zip(*proposals.items(), strict=True)
        tries = 0
        while len(self.ops) < wanted and tries < 20 * wanted:
            tries += 1
            self.propose(getattr(self, self.random.choices(names, weights)[0]))
        self.finish()
        return dataclasses.replace(self.program, ops=tuple(self.ops))

    def proposals(self) -> dict[str, int]:
        found = {
            "put": 3,
            "define": 5,
            "call": 9,
            "stream": 3,
            "take": 5,
            "actor": 3,
            "method": 8,
            "consume": 10,
            "beside": 3,
            "keep": 2,
            "lend": 1,
            "drop": 2,
        }
        found["other_driver"] = 1 if self.one_in(6) else 0
        found |= PROPOSALS_OF[self.theme]
        found["cancel"] = 3 if self.has_cancels else 0
        found["kill"] = 2 if self.has_kills else 0
        found["group"] = 2 if self.has_groups else 0
        found["remove_group"] = 1 if self.has_groups else 0
        if self.program.session == "nodes":
            found["add_node"] = found["remove_node"] = 1 if self.one_in(2) else 0
        return found

    def propose(self, make: Callable[[], list[Op]]) -> bool:
        """Add what the function draws unless the oracle refuses it; it may refuse a part."""
        try:
            ops = make()
        except (IndexError, Invalid):  # nothing there to choose from
            return False
        for op in ops:
            try:
                self.oracle.apply(op)
            except Invalid:
                self.oracle = Oracle(self.program)
                for earlier in self.ops:
                    self.oracle.apply(earlier)
                return False
            self.ops.append(op)
        return True

    def finish(self) -> None:
        """Cancel what still hangs, and read every value that nobody has read."""
        for call in self.oracle.calls:
            trouble = call.fn.trouble
            if trouble is not None and trouble.what == "hang" and call.is_hung:
                self.propose(lambda tag=call.tag: [model.Cancel(tag, False)])  # type: ignore[misc]
        read = {name for op in self.ops if isinstance(op, model.Consume) for name in op.refs}
        rest = [n for n, found in self.oracle.names.items() if isinstance(found, Ref)]
        rest = [name for name in rest if name not in read]
        self.random.shuffle(rest)
        while rest:
            some, rest = rest[:3], rest[3:]
            self.propose(lambda some=some: [self.reading(some)])  # type: ignore[misc]

    # Choices --------------------------------------------------------------------------------------

    def one_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def pick(self, choices: Sequence[T]) -> T:
        if not choices:
            raise IndexError
        return self.random.choice(choices)

    def name(self, prefix: str) -> str:
        self.n_names += 1
        return f"{prefix}{self.n_names}"

    def names(self, kind: type[Any]) -> list[str]:
        return [name for name, found in self.oracle.names.items() if isinstance(found, kind)]

    def refs(self, at_most: int = 3) -> tuple[str, ...]:
        names = self.names(Ref)
        # Newer ones more often: old ones have been read.
        recent = names[-6:]
        if not names:
            raise IndexError
        chosen: list[str] = []
        for _ in range(self.random.randint(1, at_most)):
            name = self.pick(names if self.one_in(3) else recent)
            found = self.oracle.names[name]
            if all(self.oracle.names[other] is not found for other in chosen):
                chosen.append(name)
        return tuple(chosen)

    def value(self) -> Value:
        sizes = dict(CALM_SIZES)
        if self.one_in(8):
            sizes["chunks"] = 3
        if self.program.session == "small":
            sizes |= {"chunks": 3, "spill": 3}
        size = self.random.choices(list(sizes), list(sizes.values()))[0]
        kind = self.pick(KINDS + (("array",) * 4 if self.has_arrays else ()))
        if kind in ("int", "none"):
            size = "tiny"
        return Value(kind, size)

    def way(self, is_async: bool = False) -> str:
        return self.pick(ASYNC if is_async else SYNC)

    def pause(self) -> float:
        return self.pick((0.002, 0.01, 0.03)) if self.one_in(5) else 0.0

    # Values ---------------------------------------------------------------------------------------

    def put(self) -> list[Op]:
        holds = self.refs(2) if self.one_in(4) and self.names(Ref) else ()
        return [model.Put(self.name("r"), self.value(), holds)]

    def params(self, is_async: bool, is_method: bool) -> tuple[Param, ...]:
        modes = ["top", "top", "keyword", "list", "dict", "literal"]
        if not is_method:
            modes.append("closure")
        found, has_keyword = [], False
        for i in range(self.pick((0, 1, 1, 2, 2, 3))):
            mode = self.pick(modes)
            way = "" if mode == "literal" else self.way(is_async)
            if mode == "closure":
                found.append(Param(self.pick(self.names(Ref)), mode, way))
                modes.remove("closure")
            elif mode == "keyword":
                has_keyword = True
                found.append(Param(f"k{i}", mode, way))
            elif not has_keyword:
                found.append(Param(f"p{i}", mode, way))
        return tuple(found)

    def body(self, is_async: bool, depth: int, is_method: bool = False) -> tuple[Op, ...]:
        """Operations of a body: puts, calls of functions of its own, and readings."""
        ops: list[Op] = []
        refs: list[str] = []
        if depth == 0 or not self.one_in(3):
            return ()
        for _ in range(self.random.randint(1, 3)):
            what = self.pick(("put", "call", "call", "read"))
            if what == "call" and is_method and not self.actors_call:
                what = "put"
            if what == "put":
                out = self.name("x")
                holds = (self.pick(refs),) if refs and self.one_in(3) else ()
                ops.append(model.Put(out, self.value(), holds))
                refs.append(out)
            elif what == "call":
                fn = self.fn(self.name("g"), depth - 1, is_nested=True)
                outs = tuple(self.name("x") for _ in fn.returns)
                ops += [model.Define(fn)]
                args: list[Any] = []
                for param in fn.params:
                    args.append(self.value() if param.mode == "literal" else None)
                ops.append(model.Call(outs, fn.name, tuple(args)))
                refs += outs
            elif refs:
                some = tuple(dict.fromkeys(self.pick(refs) for _ in range(2)))
                ops.append(model.Consume(some, self.way(is_async)))
        return tuple(ops)

    def returns(self, body: tuple[Op, ...], counts: Sequence[int]) -> tuple[Return, ...]:
        made = [op.out for op in body if isinstance(op, model.Put)]
        made += [out for op in body if isinstance(op, model.Call) for out in op.outs]
        found = []
        for _ in range(self.pick(counts)):
            holds = (self.pick(made),) if made and self.one_in(2) else ()
            found.append(Return(self.value(), holds))
        return tuple(found)

    def trouble(self, n_items: int = 0, is_method: bool = False) -> Trouble | None:
        kinds = []
        if self.has_errors and self.one_in(3):
            kinds += ["fail"]
        if self.crashes and not is_method and self.one_in(3):
            kinds += ["crash", "leave"]
        if not kinds:
            return None
        after = self.random.randint(0, n_items)
        return Trouble(self.pick(kinds), self.pick((99, 1, 2)), after)

    def task_options(self, trouble: Trouble | None) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if trouble is not None or self.one_in(6):
            options["max_retries"] = self.pick((0, 1, 2, 3))
        if (trouble is not None and trouble.what == "fail") or self.one_in(20):
            options["retry_exceptions"] = self.pick((True, True, False, "Boom"))
        if self.one_in(12):
            options["max_calls"] = self.pick((1, 2))
        if self.one_in(6):
            options["num_cpus"] = self.pick((0, 0.5, 2))
        return options

    def fn(self, name: str, depth: int = 2, is_nested: bool = False) -> Fn:
        params = () if is_nested else self.params(False, False)
        if is_nested and self.one_in(3):
            params = (Param("p0", "literal"),)
        body = self.body(False, depth)
        trouble = None if is_nested else self.trouble()
        returns = self.returns(body, (1, 1, 1, 2, 3))
        options = {} if is_nested else self.task_options(trouble)
        return Fn(name, params, body, returns, False, False, trouble, self.pause(), options)

    # Calls ----------------------------------------------------------------------------------------

    def define(self) -> list[Op]:
        fn = self.fn(self.name("f"))
        calls = [self.calling(fn) for _ in range(self.pick((1, 1, 1, 2, 4)))]
        return [model.Define(fn), *calls]

    def args(self, fn: Fn) -> tuple[Any, ...]:
        found: list[Any] = []
        for param in fn.params:
            if param.mode == "literal":
                found.append(self.value())
            elif param.mode in ("top", "keyword"):
                found.append(self.refs(1)[0])
            elif param.mode in ("list", "dict"):
                found.append(self.refs())
        return tuple(found)

    def calling(self, fn: Fn, actor: str = "") -> model.Call:
        n = 1 if fn.is_stream else len(fn.returns)
        prefix = "s" if fn.is_stream else "r"
        outs = tuple(self.name(prefix) for _ in range(n))
        place = "" if actor else self.place()
        return model.Call(outs, fn.name, self.args(fn), actor, place)

    def place(self) -> str:
        if self.program.session == "nodes" and not self.one_in(3):
            alive = [name for name, is_alive in self.oracle.nodes.items() if is_alive]
            return self.pick(("n0", "n1", "n2", *alive, *alive, *alive))
        groups = [name for name, found in self.oracle.names.items() if found == "group"]
        return self.pick(groups) if groups and self.one_in(2) else ""

    def call(self) -> list[Op]:
        fns = [fn for fn, _ in self.oracle.fns.values()]
        return [self.calling(self.pick(fns))]

    def stream(self) -> list[Op]:
        body = self.body(False, 1)
        returns = self.returns(body, (1, 2, 4, 8))
        trouble = self.trouble(len(returns))
        options = self.task_options(trouble)
        if self.one_in(6):
            options["_generator_backpressure_num_objects"] = self.pick((1, 2, 3))
        params = self.params(False, False)
        fn = Fn(self.name("f"), params, body, returns, True, False, trouble, self.pause(), options)
        return [model.Define(fn), self.calling(fn)]

    def take(self) -> list[Op]:
        name = self.pick(self.names(Stream))
        found = self.oracle.names[name]
        assert isinstance(found, Stream)
        left = self.oracle.n_items(found) - found.n_taken
        n = left if self.one_in(2) else self.random.randint(0, left)
        outs = tuple(self.name("r") for _ in range(n))
        how = self.pick(("next", "next", "async", "wait"))
        return [model.Take(name, outs, how, n == left and not self.one_in(3))]

    def actor(self) -> list[Op]:
        if len(self.names(Actor)) > 3:
            raise IndexError
        name = self.name("a")
        kind = self.pick(("plain", "plain", "threaded", "async", "async", "grouped", "grouped"))
        options: dict[str, Any] = {}
        if kind == "threaded":
            options["max_concurrency"] = self.pick((2, 8))
        if kind == "async" and self.one_in(3):
            options["max_concurrency"] = self.pick((1, 3, 100))
        if kind == "grouped":
            options["concurrency_groups"] = {"io": 2, "cpu": 1}
        restarts = self.crashes and self.one_in(2)
        if restarts:
            options["max_restarts"] = self.pick((1, 2, -1))
            options["max_task_retries"] = self.pick((0, 1, -1, -1))
        if self.one_in(2 if self.theme == "drivers" else 5):
            options["name"] = "name"
            if self.one_in(2):
                options["lifetime"] = "detached"
        is_async = kind == "async" or (kind == "grouped" and self.one_in(2))
        methods = tuple(
            self.method_of(kind, is_async, options) for _ in range(self.pick((1, 2, 3)))
        )
        cls = Class(
            name.upper(),
            kind,
            methods,
            is_ordered=kind == "plain" and not restarts and self.one_in(2),
            fails_in_init=self.has_errors and self.one_in(8),
            crashes_in_init=self.crashes_in_init(restarts),
            options=options,
        )
        if cls.fails_in_init:
            cls = dataclasses.replace(cls, crashes_in_init=0)
            options.pop("max_restarts", None)
        ops: list[Op] = [model.MakeActor(name, cls, self.place())]
        return [
            *ops,
            *(self.calling(self.pick(methods), name) for _ in range(self.pick((0, 1, 3)))),
        ]

    def crashes_in_init(self, restarts: bool) -> int:
        is_drawn = self.crashes and self.one_in(3 if restarts else 10)
        return self.pick((1, 1, 2, 3)) if is_drawn else 0

    def method_of(self, kind: str, is_async: bool, of_actor: Mapping[str, Any]) -> Fn:
        is_async = is_async and not self.one_in(4)
        is_stream = self.one_in(2 if self.theme == "streams" else 4)
        body = self.body(is_async, 1, is_method=True)
        returns = self.returns(body, (1, 2, 4) if is_stream else (1, 1, 1, 2))
        trouble = self.trouble(len(returns) if is_stream else 0, is_method=True)
        limits = of_actor.get("max_restarts"), of_actor.get("max_task_retries")
        # A stream's items are known only where every crash is made good.
        may_crash = limits == (-1, -1) if is_stream else limits[0] is not None or self.one_in(5)
        if self.crashes and may_crash and self.one_in(2):
            after = self.random.randint(0, len(returns)) if is_stream else 0
            trouble = Trouble(self.pick(("crash", "leave")), self.pick((1, 1, 2, 3)), after)
        options: dict[str, Any] = {}
        if trouble is not None and trouble.what == "fail" and self.one_in(2):
            options = {"max_task_retries": self.pick((1, 2)), "retry_exceptions": True}
        if kind == "grouped" and not self.one_in(3):
            options["concurrency_group"] = self.pick(("io", "cpu"))
        params = self.params(is_async, True)
        return Fn(
            self.name("m"),
            params,
            body,
            returns,
            is_stream,
            is_async,
            trouble,
            self.pause(),
            options,
        )

    def method(self) -> list[Op]:
        name = self.pick(self.names(Actor))
        actor = self.oracle.actor(name)
        return [self.calling(self.pick(actor.cls.methods), name)]

    # Readings -------------------------------------------------------------------------------------

    def reading(self, refs: Sequence[str]) -> model.Consume:
        place = self.pick(("main", "main", "thread", "loop", "loop", "thread loop"))
        return model.Consume(tuple(refs), self.way("loop" in place), place)

    def consume(self) -> list[Op]:
        return [self.reading(self.refs(4))]

    def beside(self) -> list[Op]:
        is_loop = self.one_in(2)
        parts = [
            model.Consume(self.refs(), self.way(is_loop), "loop" if is_loop else "thread")
            for _ in range(self.random.randint(2, 4))
        ]
        return [model.Beside(tuple(parts), is_loop)]

    def keep(self) -> list[Op]:
        slot = self.name("slot")
        actor = self.pick(self.names(Actor))
        refs = self.refs()
        ops: list[Op] = [model.Keep(actor, slot, refs)]
        if self.one_in(2):
            ops.append(model.Drop(refs))
        if self.one_in(2):
            ops.append(model.Lend(actor, slot, tuple(self.name("r") for _ in refs)))
        return ops

    def lend(self) -> list[Op]:
        actor = self.oracle.actor(self.pick(self.names(Actor)))
        slot = self.pick(list(actor.slots))
        return [model.Lend(actor.name, slot, tuple(self.name("r") for _ in actor.slots[slot]))]

    def other_driver(self) -> list[Op]:
        if self.others:
            raise IndexError
        named = [a for a in map(self.oracle.actor, self.names(Actor)) if "name" in a.cls.options]
        actor = self.pick(named)
        slot = self.name("slot")
        self.others += 1
        reading = model.OtherDriver(actor.name, slot, self.way())
        return [model.Keep(actor.name, slot, self.refs(6)), reading]

    # Faults ---------------------------------------------------------------------------------------

    def drop(self) -> list[Op]:
        kind: type[Any] = Ref if not self.one_in(4) else self.pick((Stream, Actor))
        return [model.Drop((self.pick(self.names(kind)),))]

    def cancel(self) -> list[Op]:
        force = self.crashes and self.one_in(3)
        if self.one_in(2):
            calls = [c for c in self.oracle.calls if c.tag in self.oracle.names]
            fresh = self.pick(calls[-4:])
            return [model.Cancel(fresh.tag, force and fresh.actor is None, not self.one_in(3))]
        returns = tuple(Return(self.value()) for _ in range(self.pick((1, 1, 2))))
        fn = Fn(self.name("f"), self.params(False, False), returns=returns, trouble=Trouble("hang"))
        call = self.calling(fn)
        out = call.outs[-1]
        calls_: list[Op] = [model.Define(fn), call]
        if self.one_in(2):  # somebody waits for it
            user = Fn(self.name("f"), (Param("p0", "top", self.way()),))
            uses = model.Call((self.name("r"),), user.name, (out,))
            calls_ += [model.Define(user), uses]
        return [*calls_, model.Cancel(out, force, not self.one_in(3))]

    def kill(self) -> list[Op]:
        return [model.Kill(self.pick(self.names(Actor)), not self.one_in(3))]

    def group(self) -> list[Op]:
        groups = [name for name, found in self.oracle.names.items() if found == "group"]
        if len(groups) > 1:
            raise IndexError
        strategies = ("PACK", "SPREAD", "STRICT_PACK")
        return [model.MakeGroup(self.name("pg"), self.pick((1, 2)), self.pick(strategies))]

    def remove_group(self) -> list[Op]:
        groups = [name for name, found in self.oracle.names.items() if found == "group"]
        return [model.RemoveGroup(self.pick(groups))]

    def add_node(self) -> list[Op]:
        if self.oracle.nodes:
            raise IndexError
        return [model.AddNode(self.name("node"))]

    def remove_node(self) -> list[Op]:
        alive = [name for name, is_alive in self.oracle.nodes.items() if is_alive]
        return [model.RemoveNode(self.pick(alive), self.one_in(3))]


def draw(seed: int, session: str = "") -> Program:
    """The program of a seed."""
    return Drawer(seed, session).draw()
