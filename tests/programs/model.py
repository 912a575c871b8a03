"""What a random program is made of: plain data, from which text and known answers are derived.

A program is a list of operations in the driver. Functions and methods have operations of their own,
so a body in a task is written like the driver's, down to a small depth.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# On both sides of every threshold: inside a frame (100 KiB), one chunk of a transfer (1 MiB), and
# objects of which a few fill the store of a small session (100 MB), so that it spills.
SIZES: Mapping[str, int] = {
    "tiny": 8,
    "inline": 2_000,
    "below 100 KiB": 102_000,
    "above 100 KiB": 103_000,
    "store": 400_000,
    "chunks": 2_500_000,
    "spill": 22_000_000,
}


@dataclass(frozen=True)
class Value:
    """A payload: what it is made of and about how large it is."""

    kind: str = "bytes"
    size: str = "inline"

    @property
    def n_bytes(self) -> int:
        return SIZES[self.size]


@dataclass(frozen=True)
class Trouble:
    """What a call does instead of returning, in its first ``until`` attempts.

    ``what``: "fail" raises, "crash" and "leave" end the process, "hang" waits for its cancellation.
    A generator gives ``after`` items before.
    """

    what: str
    until: int = 99
    after: int = 0


@dataclass(frozen=True)
class Return:
    """What a call returns or yields: a payload, and references of its body inside."""

    value: Value = Value()
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Param:
    """How a function gets one argument, and how its body reads it.

    ``mode``: "top" and "keyword" are references that the runtime resolves; "list" and "dict" carry
    references; "closure" captures one; "literal" is a payload by value; "handle" is an actor.
    """

    name: str
    mode: str
    way: str = ""


@dataclass(frozen=True)
class Fn:
    """A remote function, or a method where it belongs to a class."""

    name: str
    params: tuple[Param, ...] = ()
    body: tuple[Op, ...] = ()
    returns: tuple[Return, ...] = (Return(),)
    is_stream: bool = False
    is_async: bool = False
    trouble: Trouble | None = None
    pause_s: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Class:
    """An actor class. ``kind``: plain, threaded, async or grouped."""

    name: str
    kind: str
    methods: tuple[Fn, ...]
    is_ordered: bool = False  # each call's value tells how many ran before it
    fails_in_init: bool = False
    crashes_in_init: int = 0  # so many of its processes, the first ones, end in the constructor
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_async(self) -> bool:
        return any(method.is_async for method in self.methods)


@dataclass(frozen=True)
class Op:
    """One operation of a driver or of a body."""


@dataclass(frozen=True)
class Define(Op):
    """Define a function here, where what it captures is known."""

    fn: Fn


@dataclass(frozen=True)
class Put(Op):
    out: str
    value: Value
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call(Op):
    """Call a function, or a method of ``actor``; ``outs`` is one name for a stream."""

    outs: tuple[str, ...]
    fn: str
    args: tuple[Any, ...] = ()  # a name, a tuple of names, or a Value; in the order of the params
    actor: str = ""
    place: str = ""  # a node's or a group's name
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Take(Op):
    """Take the next items of a stream; ``ends``: there is none after them."""

    stream: str
    outs: tuple[str, ...]
    how: str = "next"  # next, async or wait
    ends: bool = False


@dataclass(frozen=True)
class MakeActor(Op):
    out: str
    cls: Class
    place: str = ""


@dataclass(frozen=True)
class Consume(Op):
    """Read values in a way; in the driver ``place`` is main, thread, loop or thread loop."""

    refs: tuple[str, ...]
    way: str
    place: str = "main"


@dataclass(frozen=True)
class Beside(Op):
    """Several readings side by side: in threads, or on one event loop."""

    parts: tuple[Consume, ...]
    is_loop: bool = False


@dataclass(frozen=True)
class Keep(Op):
    """Hand references to an actor, which keeps them in a slot."""

    actor: str
    slot: str
    refs: tuple[str, ...]


@dataclass(frozen=True)
class Lend(Op):
    """Get references back that an actor keeps, under new names."""

    actor: str
    slot: str
    outs: tuple[str, ...]


@dataclass(frozen=True)
class OtherDriver(Op):
    """Another driver reads what a named actor keeps."""

    actor: str
    slot: str
    way: str


@dataclass(frozen=True)
class Drop(Op):
    names: tuple[str, ...]


@dataclass(frozen=True)
class Cancel(Op):
    ref: str
    force: bool = False
    recursive: bool = True


@dataclass(frozen=True)
class Kill(Op):
    actor: str
    no_restart: bool = True


@dataclass(frozen=True)
class AddNode(Op):
    out: str


@dataclass(frozen=True)
class RemoveNode(Op):
    node: str
    gracefully: bool = False


@dataclass(frozen=True)
class MakeGroup(Op):
    out: str
    n_bundles: int
    strategy: str


@dataclass(frozen=True)
class RemoveGroup(Op):
    group: str


@dataclass(frozen=True)
class Program:
    """``session``: usual, small (store of 100 MB), nodes or afar (by `ray://`).

    ``crashes``: tasks end processes. ``ends_workers``: processes of tasks may end, and take along what
    they own, of any program.
    """

    seed: int
    session: str
    crashes: bool
    ops: tuple[Op, ...]
    ends_workers: bool = False


_TYPES = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and dataclasses.is_dataclass(cls)
}


def to_json(program: Program) -> str:
    """The program as text that ``from_json`` reads."""

    def plain(part: Any) -> Any:
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            fields = {f.name: plain(getattr(part, f.name)) for f in dataclasses.fields(part)}
            return {"": type(part).__name__, **fields}
        if isinstance(part, (tuple, list)):
            return [plain(item) for item in part]
        if isinstance(part, Mapping):
            return {key: plain(value) for key, value in part.items()}
        return part

    return json.dumps(plain(program))


def from_json(text: str) -> Program:
    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return tuple(whole(item) for item in part)
        if isinstance(part, dict):
            name = part.pop("", None)
            given = {key: whole(value) for key, value in part.items()}
            return _TYPES[name](**given) if name else given
        return part

    program = whole(json.loads(text))
    assert isinstance(program, Program)
    return program
