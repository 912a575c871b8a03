"""The text of a program: a function ``program(LOG)`` that is written with ``kit`` and ``ways``.

The same text runs in a session beside others and stands in the script that reproduces a failure.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.programs import model
from tests.programs.graph import literal_key, put_key
from tests.programs.model import Class, Fn, Op, Program, Value
from tests.programs.oracle import Oracle

HERE = Path(__file__).parent
IMPORTED = "from tests.programs.kit import *\nfrom tests.programs.ways import *\n"


class Writer:
    """Lines with their indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def block(self, head: str) -> Any:
        self(head)
        return self

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


def payload(value: Value, key: str) -> str:
    return f'make("{value.kind}", {value.n_bytes}, {key})'


def holding(value: Value, key: str, holds: tuple[str, ...]) -> str:
    text = payload(value, key)
    return f"Holder({text}, [{', '.join(holds)}])" if holds else text


def shown(options: Any) -> str:
    """Options as keyword arguments."""
    parts = []
    for name, value in options.items():
        if name == "retry_exceptions" and value == "Boom":
            parts.append("retry_exceptions=[Boom]")
        elif name == "name":
            parts.append(f'name=NAME + "{value}", namespace="programs"')
        else:
            parts.append(f"{name}={value!r}")
    return ", ".join(parts)


class Emitter:
    """Writes one program; ``expected`` has what the driver's readings must give, in their order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.oracle = Oracle(program)
        self.write = Writer()
        self.n_checks = 0

    def text(self) -> str:
        write = self.write
        with write.block("def program(LOG):"):
            write("NAME = os.urandom(6).hex()")
            write("cleanup = []")
            write("try:")
            with write:
                for op in self.program.ops:
                    expected = self.oracle.apply(op)
                    self.driver_op(op, expected)
                write(f"check_runs(LOG, {self.oracle.most!r})")
            write("finally:")
            with write:
                write("for undo in reversed(cleanup):")
                write("    undo()")
        return "\n".join(write.lines) + "\n"

    # Operations of the driver ---------------------------------------------------------------------

    def driver_op(self, op: Op, expected: list[list[Any]]) -> None:
        write = self.write
        if isinstance(op, model.Define):
            self.define(op.fn, self.decorator(op.fn))
            for param in op.fn.params:
                if param.mode == "closure":
                    write(f"pinned({param.name})")
        elif isinstance(op, model.Put):
            key = str(put_key(op.out, op.value))
            write(f"{op.out} = ray.put({holding(op.value, key, op.holds)})")
        elif isinstance(op, model.Call):
            self.call(op, f'"{op.outs[0]}"', self.oracle, driver=True)
        elif isinstance(op, model.MakeActor):
            self.make_actor(op)
        elif isinstance(op, model.Consume):
            self.consume((op,), expected, is_loop="loop" in op.place, place=op.place)
        elif isinstance(op, model.Beside):
            place = "loop" if op.is_loop else "thread"
            self.consume(op.parts, expected, is_loop=op.is_loop, place=place)
        elif isinstance(op, model.OtherDriver):
            where = self.mark()
            write(
                f'other_driver("{where}", NAME + "{op.actor}", "{op.slot}", "{op.way}", '
                f"{expected[0]!r})"
            )
        else:
            self.simple(op)

    def simple(self, op: Op) -> None:
        write = self.write
        if isinstance(op, model.Take):
            for out in op.outs:
                write(f'{out} = take_{op.how}("{out}", {op.stream})')
            if op.ends:
                write(f'expect_end("{op.stream}", {op.stream})')
        elif isinstance(op, model.Keep):
            call = f'{op.actor}.keep.remote("{op.slot}", [{", ".join(op.refs)}])'
            write(f"ray.get({call}, timeout=LONG_S)")
        elif isinstance(op, model.Lend):
            call = f'{op.actor}.lend.remote("{op.slot}")'
            write(f"[{', '.join(op.outs)}] = ray.get({call}, timeout=LONG_S)")
        elif isinstance(op, model.Drop):
            write(f"del {', '.join(op.names)}")
        elif isinstance(op, model.Cancel):
            write(f"ray.cancel({op.ref}, force={op.force}, recursive={op.recursive})")
        elif isinstance(op, model.Kill):
            write(f"ray.kill({op.actor}, no_restart={op.no_restart})")
        elif isinstance(op, model.AddNode):
            write(f'cleanup.append(later(remove_node, NAME + "{op.out}"))')
            write(f'{op.out} = add_node(NAME + "{op.out}")')
        elif isinstance(op, model.RemoveNode):
            write(f'remove_node(NAME + "{op.node}", gracefully={op.gracefully})')
        elif isinstance(op, model.MakeGroup):
            bundles = [{"CPU": 1}] * op.n_bundles
            write(f"{op.out} = ray.util.placement_group({bundles!r}, strategy={op.strategy!r})")
            write(f"cleanup.append(later(remove_group, {op.out}))")
        elif isinstance(op, model.RemoveGroup):
            write(f"remove_group({op.group})")
        else:
            raise TypeError(type(op))

    def mark(self) -> str:
        self.n_checks += 1
        return f"c{self.n_checks}"

    def consume(
        self, parts: tuple[model.Consume, ...], expected: list[Any], is_loop: bool, place: str
    ) -> None:
        checks = []
        for part, want in zip(parts, expected, strict=True):
            name = "acheck" if is_loop else "check"
            refs = ", ".join(part.refs)
            checks.append(f'{name}("{self.mark()}", {part.way}, [{refs}], {want!r})')
        if is_loop:
            # A coroutine may be made only where its loop runs.
            text = f"on_loop({', '.join(checks)})"
            checks = [text]
        if place == "main" or place == "loop":
            self.write(checks[0])
        else:
            with self.write.block("in_threads("):
                for check in checks:
                    self.write(f"lambda: {check},")
            self.write(")")

    # Functions and classes ------------------------------------------------------------------------

    def decorator(self, fn: Fn) -> str:
        options = dict(fn.options)
        if not fn.is_stream and len(fn.returns) > 1:
            options = {"num_returns": len(fn.returns), **options}
        return f"@ray.remote({shown(options)})" if options else "@ray.remote"

    def define(self, fn: Fn, decorator: str, cls: Class | None = None) -> None:
        write = self.write
        if decorator:
            write(decorator)
        names = ["self"] if cls else []
        names += ["tag"]
        names += [p.name for p in fn.params if p.mode not in ("closure", "keyword")]
        keywords = [p.name for p in fn.params if p.mode == "keyword"]
        names += ["*", *keywords] if keywords else []
        kind = "async def" if fn.is_async else "def"
        with write.block(f"{kind} {fn.name}({', '.join(names)}):"):
            self.fn_body(fn, cls)

    def fn_body(self, fn: Fn, cls: Class | None) -> None:
        write = self.write
        trouble = fn.trouble
        write(f"{'attempt = ' if trouble else ''}ran(LOG, tag)")
        if cls is not None and cls.is_ordered:
            write("self.n += 1")
        if fn.pause_s:
            write(f"await asyncio.sleep({fn.pause_s})" if fn.is_async else f"pause({fn.pause_s})")
        if trouble is not None and not (fn.is_stream and trouble.after):
            self.trouble(fn)
        write("parts = [self.n]" if cls is not None and cls.is_ordered else "parts = []")
        for param in fn.params:
            self.read_param(fn, param)
        for op in fn.body:
            self.body_op(fn, op)
        self.give(fn)

    def trouble(self, fn: Fn) -> None:
        trouble = fn.trouble
        assert trouble is not None
        if trouble.what == "hang":
            self.write("await asyncio.sleep(2 * LONG_S)" if fn.is_async else "hang()")
        elif trouble.what == "fail":
            self.write(f"fail(attempt, {trouble.until}, tag)")
        else:
            self.write(f"{trouble.what}(attempt, {trouble.until})")

    def read(self, fn: Fn, way: str, refs: str) -> None:
        call = "await aread" if fn.is_async else "read"
        self.write(f"parts += {call}(tag, {way}, {refs})")

    def read_param(self, fn: Fn, param: model.Param) -> None:
        name = param.name
        if param.mode in ("top", "keyword", "literal"):
            way = param.way or ("aby_await" if fn.is_async else "by_get")
            call = f"await aseen({way}, {name})" if fn.is_async else f"seen({way}, {name})"
            self.write(f"parts += keys([{call}])")
        elif param.mode == "list":
            self.read(fn, param.way, name)
        elif param.mode == "dict":
            self.read(fn, param.way, f'{name}["refs"]')
        elif param.mode == "closure":
            self.read(fn, param.way, f"[{name}]")

    def body_op(self, fn: Fn, op: Op) -> None:
        if isinstance(op, model.Define):
            self.define(op.fn, self.decorator(op.fn))
        elif isinstance(op, model.Put):
            key = f'fold(tag + ".{op.out}", [])'
            key = "0" if op.value.kind == "none" else key
            self.write(f"{op.out} = ray.put({holding(op.value, key, op.holds)})")
        elif isinstance(op, model.Call):
            self.call(op, f'tag + ".{op.outs[0]}"', None, driver=False)
        elif isinstance(op, model.Consume):
            self.read(fn, op.way, f"[{', '.join(op.refs)}]")
        else:
            raise TypeError(type(op))

    def give(self, fn: Fn) -> None:
        texts = [
            holding(ret.value, f"fold(tag, [*parts, {i}])", ret.holds)
            for i, ret in enumerate(fn.returns)
        ]
        if fn.is_stream:
            for i, text in enumerate(texts):
                if fn.trouble is not None and fn.trouble.after == i and i:
                    self.trouble(fn)
                self.write(f"yield {text}")
            if fn.trouble is not None and fn.trouble.after >= len(texts):
                self.trouble(fn)
        elif len(texts) == 1:
            self.write(f"return {texts[0]}")
        else:
            self.write(f"return {', '.join(texts)}")

    def make_actor(self, op: model.MakeActor) -> None:
        cls, write = op.cls, self.write
        options = {k: v for k, v in cls.options.items() if k not in ("name", "lifetime")}
        write(f"@ray.remote({shown(options)})" if options else "@ray.remote")
        with write.block(f"class {cls.name}(Keeper):"):
            with write.block("def __init__(self):"):
                write("self.n = 0")
                if cls.fails_in_init:
                    write(f'fail(1, 1, "{op.out}")')
                if cls.crashes_in_init:
                    write(f'crash(ran(LOG, "{op.out}.init"), {cls.crashes_in_init})')
            for method in cls.methods:
                options = dict(method.options)
                if not method.is_stream and len(method.returns) > 1:
                    options = {"num_returns": len(method.returns), **options}
                self.define(method, f"@ray.method({shown(options)})" if options else "", cls)
        given = {k: v for k, v in cls.options.items() if k in ("name", "lifetime")}
        if "name" in given:
            given["name"] = op.out
        options_text = ", ".join(t for t in (shown(given), self.place(op.place)) if t)
        make = f"{cls.name}.options({options_text})" if options_text else cls.name
        write(f"{op.out} = {make}.remote()")
        if "lifetime" in given:
            write(f'cleanup.append(later(end_detached, NAME + "{op.out}"))')

    def place(self, place: str) -> str:
        if not place:
            return ""
        if place in self.oracle.nodes:
            return f"scheduling_strategy={place}, num_cpus=0"
        if re.fullmatch(r"n\d", place):
            return f'resources={{"{place}": 0.001}}'
        return f"scheduling_strategy=in_group({place})"

    def call(self, op: model.Call, tag: str, oracle: Oracle | None, driver: bool) -> None:
        params = self.params_of(op, driver)
        given = [tag]
        names = iter(op.args)
        for param in params:
            if param.mode == "closure":
                continue
            given.append(self.argument(param, next(names), tag))
        target = f"{op.actor}.{op.fn}" if op.actor else op.fn
        options = ", ".join(t for t in (shown(op.options), self.place(op.place)) if t)
        if options:
            target += f".options({options})"
        self.write(f"{', '.join(op.outs)} = {target}.remote({', '.join(given)})")

    def params_of(self, op: model.Call, driver: bool) -> tuple[model.Param, ...]:
        """The parameters of what is called, by its name: names are unique in a program."""
        for fn in all_fns(self.program.ops):
            if fn.name == op.fn:
                return fn.params
        raise KeyError(op.fn)

    def argument(self, param: model.Param, arg: Any, tag: str) -> str:
        if param.mode == "literal":
            key = f'fold({tag}, [fold("{param.name}", [])])'
            if tag.startswith('"'):
                key = str(literal_key(tag.strip('"'), param.name))
            return payload(arg, key)
        if param.mode == "list":
            return f"[{', '.join(arg)}]"
        if param.mode == "dict":
            return f'{{"refs": [{", ".join(arg)}]}}'
        return f"{param.name}={arg}" if param.mode == "keyword" else str(arg)


def all_fns(ops: tuple[Op, ...]) -> list[Fn]:
    """Every function and method of the operations, also those of bodies."""
    found: list[Fn] = []
    for op in ops:
        fns = (op.fn,) if isinstance(op, model.Define) else ()
        if isinstance(op, model.MakeActor):
            fns = op.cls.methods
        for fn in fns:
            found += [fn, *all_fns(fn.body)]
    return found


def text_of(program: Program) -> str:
    """What a session executes; ``Invalid`` if the program breaks a rule."""
    return Emitter(program).text()


def script_of(program: Program, head: str = "") -> str:
    """A script of its own that runs the program and needs nothing but ``ray``."""
    kit = (HERE / "kit.py").read_text()
    ways = (HERE / "ways.py").read_text()
    for line in ("from __future__ import annotations\n",):
        kit, ways = kit.replace(line, ""), ways.replace(line, "")
    ways = re.sub(r"try:\n    from tests.programs.*?    pass\n", "", ways, flags=re.S)
    sources = "\n".join(re.sub(r'\A""".*?"""\n', "", text, flags=re.S) for text in (kit, ways))
    return (
        f'"""{head or "A program made at random."}"""\n\n'
        f"from __future__ import annotations\n{sources}\n\n"
        f"{text_of(program)}\n\n"
        'if __name__ == "__main__":\n'
        f'    main("{program.session}", program, globals())\n'
    )
