"""Makes a failing program small: parts are left out for as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.programs import emit, model
from tests.programs.model import Class, Fn, Op, Program, Return, Value
from tests.programs.oracle import Invalid, Oracle
from tests.programs.pool import Host, run_batch

# A failure that depends on timing shows in one of several runs side by side.
COPIES = 8
THREADS = 4


def kind_of(error: str) -> str:
    """What two failures must have in common to be taken for the same one."""
    for kind in ("hangs", "the process of the driver ended", "left"):
        if error.startswith(kind):
            return kind
    return "wrong" if error else ""


class Shrinker:
    """Tries smaller programs until none of them fails or the time is over."""

    def __init__(
        self, program: Program, error: str, seconds: float, python: str = sys.executable
    ) -> None:
        self.program = program
        self.kind = kind_of(error)
        self.error = error
        self.end = time.monotonic() + seconds
        self.python = python
        self.host: Host | None = None
        self.limit_s = 20.0

    def run(self) -> Program:
        try:
            while time.monotonic() < self.end and self.round():
                pass
        finally:
            self.drop_host()
        return self.program

    def drop_host(self) -> None:
        if self.host is not None:
            self.host.kill()
            self.host = None

    def round(self) -> bool:
        """One pass over everything that could be left out; whether anything was."""
        before = self.program
        n = len(self.program.ops)
        size = max(n // 2, 1)
        while size:
            at = 0
            while at < len(self.program.ops):
                ops = self.program.ops
                if not self.keep(replace(self.program, ops=ops[:at] + ops[at + size :])):
                    at += size
                if time.monotonic() > self.end:
                    return False
            size //= 2
        at = 0
        while at < len(self.program.ops):
            for simpler in simpler_ops(self.program.ops[at]):
                ops = self.program.ops
                self.keep(replace(self.program, ops=(*ops[:at], simpler, *ops[at + 1 :])))
                if time.monotonic() > self.end:
                    return False
            at += 1
        for simpler_program in without_parameters(self.program):
            self.keep(simpler_program)
            if time.monotonic() > self.end:
                return False
        return self.program != before

    def keep(self, candidate: Program) -> bool:
        """Take the candidate if it fails like the whole program."""
        candidate = repaired(candidate)
        if candidate == self.program or not candidate.ops:
            return False
        error = self.fails(candidate)
        if kind_of(error) != self.kind:
            return False
        self.program, self.error = candidate, error
        return True

    def fails(self, program: Program) -> str:
        """The error of one of several runs side by side."""
        try:
            emit.text_of(program)
        except (Invalid, KeyError, TypeError):
            return ""
        if self.host is None:
            self.host = Host(self.python, program.session, THREADS, self.limit_s)
        copies = [replace(program, seed=i) for i in range(COPIES)]
        results, left = run_batch(self.host, copies)
        errors = [r.error for r in results if r.error]
        if any(r.is_hang for r in results) or left:
            self.drop_host()
        return next(iter(errors), "left: " + left if left else "")


def repaired(program: Program) -> Program:
    """The program without what has become meaningless."""
    oracle = Oracle(program)
    ops: list[Op] = []
    for op in program.ops:
        for part in pruned(op, oracle):
            try:
                oracle.apply(part)
            except (Invalid, KeyError):
                oracle = Oracle(program)
                for earlier in ops:
                    oracle.apply(earlier)
            else:
                ops.append(part)
    return replace(program, ops=tuple(ops))


def pruned(op: Op, oracle: Oracle) -> list[Op]:
    """The operation without names that are gone."""

    def there(names: Any) -> tuple[str, ...]:
        return tuple(name for name in names if name in oracle.names)

    if isinstance(op, (model.Consume, model.Keep)):
        refs = there(op.refs)
        return [replace(op, refs=refs)] if refs else []
    if isinstance(op, model.Beside):
        parts = tuple(replace(p, refs=there(p.refs)) for p in op.parts if there(p.refs))
        return [replace(op, parts=parts)] if parts else []
    if isinstance(op, model.Put):
        return [replace(op, holds=there(op.holds))]
    if isinstance(op, model.Drop):
        return [replace(op, names=there(op.names))] if there(op.names) else []
    if isinstance(op, model.Call):
        args = tuple(there(a) if isinstance(a, tuple) else a for a in op.args)
        return [replace(op, args=args)]
    return [op]


def simpler_ops(op: Op) -> Iterator[Op]:
    """Operations that say less than this one."""
    if isinstance(op, model.Consume):
        for i in range(len(op.refs)):
            if len(op.refs) > 1:
                yield replace(op, refs=op.refs[:i] + op.refs[i + 1 :])
        yield replace(op, way="by_get", place="main")
    elif isinstance(op, model.Beside):
        for part in op.parts:
            yield replace(part, place="loop" if op.is_loop else "thread")
    elif isinstance(op, model.Put):
        yield replace(op, holds=())
        yield from (replace(op, value=value) for value in simpler_values(op.value))
    elif isinstance(op, model.Call):
        for i, arg in enumerate(op.args):
            if isinstance(arg, tuple) and len(arg) > 1:
                yield replace(op, args=(*op.args[:i], arg[:1], *op.args[i + 1 :]))
        yield replace(op, place="")
    elif isinstance(op, model.Define):
        yield from (replace(op, fn=fn) for fn in simpler_fns(op.fn))
    elif isinstance(op, model.MakeActor):
        yield from (replace(op, cls=cls) for cls in simpler_classes(op.cls))
        yield replace(op, place="")


def simpler_values(value: Value) -> Iterator[Value]:
    if value.kind != "int":
        yield Value("int", "tiny")
    if value.kind != "bytes":
        yield Value("bytes", value.size)


def simpler_fns(fn: Fn) -> Iterator[Fn]:
    yield replace(fn, body=(), returns=tuple(replace(r, holds=()) for r in fn.returns))
    for i in range(len(fn.body)):
        yield replace(fn, body=fn.body[:i] + fn.body[i + 1 :])
    if fn.trouble is not None:
        yield replace(fn, trouble=None)
    for name in fn.options:
        yield replace(fn, options={k: v for k, v in fn.options.items() if k != name})
    if fn.pause_s:
        yield replace(fn, pause_s=0.0)
    for i, ret in enumerate(fn.returns):
        for simpler in [replace(ret, holds=()), *(Return(v) for v in simpler_values(ret.value))]:
            if simpler != ret:
                yield replace(fn, returns=(*fn.returns[:i], simpler, *fn.returns[i + 1 :]))
    for i, param in enumerate(fn.params):
        way = "aby_await" if fn.is_async else "by_get"
        if param.way not in ("", way):
            simple = replace(param, way=way)
            yield replace(fn, params=(*fn.params[:i], simple, *fn.params[i + 1 :]))


def simpler_classes(cls: Class) -> Iterator[Class]:
    for i, method in enumerate(cls.methods):
        if len(cls.methods) > 1:
            yield replace(cls, methods=cls.methods[:i] + cls.methods[i + 1 :])
        for simpler in simpler_fns(method):
            yield replace(cls, methods=(*cls.methods[:i], simpler, *cls.methods[i + 1 :]))
    for name in cls.options:
        yield replace(cls, options={k: v for k, v in cls.options.items() if k != name})
    if cls.is_ordered:
        yield replace(cls, is_ordered=False)
    if cls.crashes_in_init:
        yield replace(cls, crashes_in_init=0)


def without_parameters(program: Program) -> Iterator[Program]:
    """Programs in which a function has one parameter less, and its calls one argument less."""
    for fn in emit.all_fns(program.ops):
        for i, param in enumerate(fn.params):
            given = [p for p in fn.params if p.mode != "closure"]
            position = None if param.mode == "closure" else given.index(param)
            yield _rewritten(program, fn.name, i, position)


def _rewritten(program: Program, name: str, param: int, argument: int | None) -> Program:
    def visit(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(visit(item) for item in part)
        if not dataclasses.is_dataclass(part) or isinstance(part, type):
            return part
        fields = {f.name: visit(getattr(part, f.name)) for f in dataclasses.fields(part)}
        part = replace(part, **fields)
        if isinstance(part, Fn) and part.name == name:
            return replace(part, params=part.params[:param] + part.params[param + 1 :])
        if isinstance(part, model.Call) and part.fn == name and argument is not None:
            return replace(part, args=part.args[:argument] + part.args[argument + 1 :])
        return part

    found = visit(program)
    assert isinstance(found, Program)
    return found
