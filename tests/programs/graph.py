"""Values, calls and actors as the oracle knows them, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.programs.kit import NONE_KEY, Either, Err, fold
from tests.programs.model import Class, Fn, Value

ACTOR_ERROR = "RayActorError"
MAX_RETRIES = 3


@dataclass(frozen=True)
class Outcome:
    """What a reading may give: the value of the key, unless it is None, or one of the errors."""

    key: int | None
    errors: frozenset[str] = frozenset()

    def expected(self) -> Any:
        """As the program's text has it."""
        if self.key is None:
            return Err(*sorted(self.errors))
        return Either(self.key, *sorted(self.errors)) if self.errors else self.key


@dataclass(eq=False)
class Ref:
    """A value behind a reference; several names may stand for it."""

    maker: str
    value: Value
    key: int = NONE_KEY  # of a put object
    call: Running | None = None
    index: int = 0
    holds: tuple[Ref, ...] = ()
    owner: str = "driver"  # or "task", or an actor's name
    taints: set[str] = field(default_factory=set)
    fault: str = ""


@dataclass(eq=False)
class Actor:
    name: str
    cls: Class
    place: str = ""
    n_calls: int = 0
    calls: list[Running] = field(default_factory=list)
    is_dead: bool = False
    taints: set[str] = field(default_factory=set)
    slots: dict[str, list[Ref]] = field(default_factory=dict)
    is_dropped: bool = False
    ends_with: set[str] = field(default_factory=lambda: {ACTOR_ERROR})
    crashes: bool = False  # some call of it ends its process

    @property
    def n_restarts(self) -> int:
        return _many(self.cls.options.get("max_restarts", 0))

    @property
    def never_lives(self) -> bool:
        return self.cls.fails_in_init or self.cls.crashes_in_init > self.n_restarts


@dataclass(eq=False)
class Running:
    """One call that was made."""

    tag: str
    fn: Fn
    maker: str
    owner: str
    options: dict[str, Any]
    actor: Actor | None = None
    first: list[Ref] = field(default_factory=list)  # arguments that the runtime resolves
    reads: list[Any] = field(default_factory=list)  # keys and references that the body reads
    children: list[Running] = field(default_factory=list)
    puts: list[Ref] = field(default_factory=list)
    taints: set[str] = field(default_factory=set)
    is_certain_error: set[str] = field(default_factory=set)
    is_hung: bool = False
    is_done: bool = False
    place: str = ""

    def uses(self) -> Iterator[Running]:
        """This call and every call on whose result it waits."""
        yield self
        for ref in [*self.first, *(r for r in self.reads if isinstance(r, Ref))]:
            yield from calls_of(ref)


def calls_of(ref: Ref) -> Iterator[Running]:
    if ref.call is not None:
        yield from ref.call.uses()
    for inner in ref.holds:
        yield from calls_of(inner)


@dataclass(eq=False)
class Stream:
    call: Running
    owner: str
    refs: list[Ref]
    n_taken: int = 0
    is_over: bool = False


def attempts_until_value(call: Running) -> int | None:
    """How many attempts the trouble of the call costs; None: it has no value."""
    trouble = call.fn.trouble
    if trouble is None:
        return 1
    if trouble.what == "hang":
        return None
    retries = max_retries(call)
    is_retried = trouble.what != "fail" or bool(call.options.get("retry_exceptions"))
    if trouble.until == 0 or (is_retried and 0 <= trouble.until <= retries):
        return trouble.until + 1
    return None


def max_retries(call: Running) -> int:
    if call.actor is None:
        retries = call.options.get("max_retries", MAX_RETRIES)
    else:
        retries = call.options.get(
            "max_task_retries", call.actor.cls.options.get("max_task_retries", 0)
        )
        if call.fn.trouble is not None and call.fn.trouble.what in ("crash", "leave"):
            retries = min(_many(retries), call.actor.n_restarts)
    return _many(retries)


def _many(count: int) -> int:
    return 1000 if count < 0 else count


def inside(ref: Ref) -> Iterator[Ref]:
    yield ref
    for inner in ref.holds:
        yield from inside(inner)


def children(call: Running) -> Iterator[Running]:
    for child in call.children:
        yield child
        yield from children(child)


def returned(call: Running, owner: str) -> list[Ref]:
    """A reference for each return or item of the call, and one for the error of a stream."""
    held = iter(call.puts)
    refs = []
    for i, ret in enumerate(call.fn.returns):
        holds = tuple(next(held) for _ in ret.holds)
        refs.append(Ref(call.maker, ret.value, call=call, index=i, holds=holds, owner=owner))
    if call.fn.is_stream:
        refs.append(Ref(call.maker, Value("none"), call=call, index=len(refs), owner=owner))
    return refs


def trouble_errors(call: Running) -> set[str]:
    trouble = call.fn.trouble
    assert trouble is not None
    if trouble.what == "fail":
        return {f"Boom:{call.tag}"}
    if trouble.what == "hang":
        return {"TaskCancelledError"}
    return {"WorkerCrashedError"} if call.actor is None else {ACTOR_ERROR}


def put_key(tag: str, value: Value) -> int:
    return NONE_KEY if value.kind == "none" else fold(tag, [])


def literal_key(tag: str, param: str) -> int:
    return fold(tag, [fold(param, [])])


def maker_of(fn: Fn, actor: Actor | None, options: dict[str, Any]) -> str:
    """The kind of call, in words for the table."""
    if actor is None:
        if fn.is_stream:
            return "generator"
        return "task of several" if len(fn.returns) > 1 else "task"
    if fn.is_stream:
        return f"{'async ' if fn.is_async else ''}generator of {article(actor.cls.kind)} actor"
    name = f"method of {article(actor.cls.kind)} actor"
    if actor.cls.options.get("lifetime") == "detached":
        return "method of a detached actor"
    if actor.cls.options.get("max_restarts"):
        return "method of a restarting actor"
    return name


def article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
