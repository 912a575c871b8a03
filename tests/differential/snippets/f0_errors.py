"""F0: errors of user code that are odd in themselves."""

from __future__ import annotations

import builtins
import os
import pickle
import signal
import sys
from typing import Any

import ray
from kit import outcome, snippet

ExceptionGroup: Any = getattr(builtins, "ExceptionGroup", None)  # from Python 3.11
BaseExceptionGroup: Any = getattr(builtins, "BaseExceptionGroup", None)


def failing(function: Any, *says: str, **options: Any) -> Any:
    """What the caller gets of a task that runs the function."""
    options.setdefault("max_retries", 0)
    task = ray.remote(**options)(function)
    return outcome(lambda: ray.get(task.remote(), timeout=40), *says)


def caught(function: Any) -> Any:
    """The error itself."""
    try:
        ray.get(ray.remote(max_retries=0)(function).remote(), timeout=40)
    except BaseException as error:
        return error
    return None


def raiser(error: Any) -> Any:
    def fail() -> None:
        raise error

    return fail


@snippet("F0.16")
def odd_classes() -> Any:
    class NoStr(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    class NoRepr(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    class NoInit(Exception):
        def __init__(self, *, code: int) -> None:
            self.code = code

    class Reduces(Exception):
        def __init__(self, code: int, text: str) -> None:
            super().__init__(text)
            self.code = code

        def __reduce__(self) -> Any:
            return Reduces, (self.code, str(self))

    class ReducesWrong(Exception):
        def __reduce__(self) -> Any:
            return int, ("no number",)

    class Slots(Exception):
        __slots__ = ("code",)

        def __init__(self, code: int) -> None:
            super().__init__(code)
            self.code = code

    class HasCause(Exception):
        cause = "its own"

    class Property(Exception):
        @property
        def code(self) -> int:
            return 7

        def method(self) -> str:
            return f"method of {self.args[0]}"

    class Two(KeyError, AttributeError): ...

    class NoGetattr(Exception):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    class Meta(type):
        def __call__(cls, *args: Any) -> Any:
            return super().__call__("by the metaclass", *args)

    class OfMeta(Exception, metaclass=Meta): ...

    class Frozen(Exception):
        def __setattr__(self, name: str, value: Any) -> None:
            raise TypeError("frozen")

    class Many(Exception):
        def __init__(self, a: int, b: int = 2, *rest: int, **kw: Any) -> None:
            super().__init__(f"{a} {b} {rest} {kw}")
            self.a = a

    def keyword_only() -> None:
        raise NoInit(code=3)

    found: dict[str, Any] = {
        "str raises": failing(raiser(NoStr("x"))),
        "repr raises": failing(raiser(NoRepr("x")), "x"),
        "keywords only": failing(keyword_only),
        "reduce": failing(lambda: raiser(Reduces(3, "text"))(), "text"),
        "wrong reduce": failing(lambda: raiser(ReducesWrong("x"))()),
        "slots": failing(lambda: raiser(Slots(4))()),
        "cause": failing(raiser(HasCause("x"))),
        "property": failing(raiser(Property("x"))),
        "two": failing(raiser(Two("x"))),
        "getattr": failing(lambda: raiser(NoGetattr("x"))()),
        "metaclass": failing(lambda: raiser(OfMeta("x"))()),
        "frozen": failing(lambda: raiser(Frozen("x"))()),
        "many": failing(lambda: raiser(Many(1))()),
    }
    error = caught(raiser(Property("x")))
    found["fall through"] = [error.code, error.method(), outcome(lambda: error.nothing)]
    error = caught(lambda: raiser(Reduces(3, "text"))())
    found["reduced"] = [error.code, type(error.cause).__name__, str(error.cause)]
    error = caught(lambda: raiser(Many(1))())
    found["many fields"] = outcome(lambda: error.a)
    error = caught(lambda: raiser(Slots(4))())
    found["slot"] = outcome(lambda: error.code)
    return found


@snippet("F0.16")
def standard_classes() -> Any:
    import asyncio
    import json
    import subprocess

    def of_json() -> None:
        json.loads("{")

    def of_unicode() -> None:
        b"\xff".decode("utf-8")

    def of_subprocess() -> None:
        subprocess.run(["false"], check=True)

    def of_import() -> None:
        import no_such_module  # noqa: F401

    def of_syntax() -> None:
        compile("a b", "f.py", "exec")

    def of_name() -> None:
        no_such_name  # type: ignore[name-defined]  # noqa: B018, F821

    def of_recursion() -> Any:
        return of_recursion()

    def no_exception() -> None:
        raise 3  # type: ignore[misc]  # noqa: B016 - the mistake is the point

    def of_attribute() -> None:
        None.x  # type: ignore[attr-defined]  # noqa: B018

    def gives(function: Any, *names: str) -> Any:
        error = caught(function)
        fields = {n: outcome(lambda n=n: getattr(error, n)) for n in names}
        return failing(function), fields

    return {
        "json": gives(of_json, "pos", "doc", "lineno"),
        "unicode": gives(of_unicode, "encoding", "start", "reason"),
        "subprocess": gives(of_subprocess, "returncode", "cmd"),
        "import": gives(of_import, "name"),
        "syntax": gives(of_syntax, "lineno", "text", "filename"),
        "name": gives(of_name, "name"),
        "attribute": gives(of_attribute, "name"),
        "os": gives(lambda: open("/no/such/file"), "errno", "filename", "strerror"),
        "recursion": gives(of_recursion),
        "no exception": gives(no_exception),
        "memory": gives(raiser(MemoryError("m"))),
        "timeout": gives(raiser(TimeoutError("t"))),
        "get timeout": gives(raiser(ray.exceptions.GetTimeoutError("g"))),
        "ray error": gives(raiser(ray.exceptions.RayError("g"))),
        "system error": gives(raiser(ray.exceptions.RaySystemError("g"))),
        "cancelled by asyncio": gives(raiser(asyncio.CancelledError("c"))),
        "stop": gives(raiser(StopIteration(5)), "value"),
        "stop async": gives(raiser(StopAsyncIteration(5))),
        "generator exit": gives(raiser(GeneratorExit("g"))),
        "base": gives(raiser(BaseException("b"))),
        "interrupt": gives(raiser(ConnectionResetError(104, "reset")), "errno"),
        "warning": gives(raiser(UserWarning("w"))),
        "empty": gives(raiser(ValueError())),
    }


@snippet("F0.16")
def notes_groups_and_chains() -> Any:
    if ExceptionGroup is None:
        return None

    def noted() -> None:
        error = ValueError("bad")
        error.add_note("a note of mine")
        error.add_note("and another")
        raise error

    def grouped() -> None:
        raise ExceptionGroup("many", [ValueError("one"), ExceptionGroup("in", [KeyError("two")])])

    class Own(ExceptionGroup):  # type: ignore[misc]
        def derive(self, excs: Any) -> Any:
            return Own(self.message, excs)

    def own_group() -> None:
        raise Own("mine", [ValueError("one"), TypeError("two")])

    def base_group() -> None:
        raise BaseExceptionGroup("base", [KeyboardInterrupt(), ValueError("x")])

    def of_unpicklable() -> None:
        import threading

        error = ValueError("with a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise ExceptionGroup("g", [error, TypeError("fine")])

    def in_task_group() -> None:
        import asyncio

        async def fail(text: str) -> None:
            raise ValueError(text)

        async def main() -> None:
            async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined]
                group.create_task(fail("a"))
                group.create_task(fail("b"))

        asyncio.run(main())

    def suppressed() -> None:
        try:
            raise KeyError("hidden")
        except KeyError:
            raise ValueError("shown") from None

    def context() -> None:
        try:
            raise KeyError("the first")
        except KeyError:
            raise ValueError("the second")  # noqa: B904

    def unpicklable_cause() -> None:
        import threading

        first = KeyError("inner")
        first.lock = threading.Lock()  # type: ignore[attr-defined]
        raise ValueError("outer") from first

    def of_nested() -> None:
        ray.get(ray.remote(noted).remote())

    def star(function: Any) -> Any:
        """What ``except*`` would take of it."""
        error = caught(function)
        if not isinstance(error, BaseExceptionGroup):
            return type(error).__name__
        match, rest = error.split(ValueError)
        names = [[type(e).__name__ for e in p.exceptions] if p else None for p in (match, rest)]
        return names, error.message, type(error.cause).__name__

    error = caught(noted)
    chained = caught(context)
    return {
        "noted": failing(noted, "bad", "a note of mine", "and another"),
        "notes": outcome(lambda: error.__notes__),
        "notes of the cause": outcome(lambda: error.cause.__notes__),
        "grouped": failing(grouped, "many", "one", "two"),
        "own group": failing(own_group),
        "base group": failing(base_group),
        "unpicklable part": failing(of_unpicklable, "with a lock", "fine"),
        "task group": failing(in_task_group),
        "star": [star(f) for f in (grouped, own_group, in_task_group)],
        "suppressed": failing(suppressed, "hidden", "shown"),
        "context": failing(context, "the first", "the second", "during handling"),
        "context of the cause": type(chained.cause.__context__).__name__,
        "cause of the cause": type(
            caught(lambda: raiser_from(ValueError("x"), KeyError("y"))).cause.__cause__
        ).__name__,
        "unpicklable cause": failing(unpicklable_cause, "inner", "outer"),
        "nested": failing(of_nested, "a note of mine", "noted"),
    }


def raiser_from(error: Exception, cause: Exception) -> None:
    raise error from cause


@snippet("F0.16", "F5.04", limit_s=150)
def ends_of_the_process() -> Any:
    def kill(number: int) -> Any:
        return lambda: (os.kill(os.getpid(), number), __import__("time").sleep(20))

    def of_a_thread() -> str:
        import threading

        def fail() -> None:
            raise ValueError("in a thread")

        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        return "the task goes on"

    def exit_in_a_thread() -> str:
        import threading

        thread = threading.Thread(target=lambda: sys.exit(3))
        thread.start()
        thread.join()
        return "the task goes on"

    return {
        "exit 0": failing(lambda: sys.exit(0)),
        "exit text": failing(lambda: sys.exit("a message")),
        "quit": failing(lambda: quit()),
        "os._exit 0": failing(lambda: os._exit(0)),
        "os._exit 3": failing(lambda: os._exit(3)),
        "abort": failing(lambda: os.abort()),
        "SIGTERM": failing(kill(signal.SIGTERM)),
        "SIGKILL": failing(kill(signal.SIGKILL)),
        "SIGSEGV": failing(kill(signal.SIGSEGV)),
        "thread": failing(of_a_thread),
        "exit in a thread": failing(exit_in_a_thread),
        "afterwards": failing(lambda: 1),
    }


@snippet("F0.16")
def sizes_of_errors() -> Any:
    def long_text() -> None:
        raise ValueError("x" * 5_000_000)

    def deep() -> None:
        def go(n: int) -> None:
            if n == 0:
                raise ValueError("at the bottom")
            go(n - 1)

        go(400)

    def large_field() -> None:
        error = ValueError("large")
        error.data = b"x" * 3_000_000  # type: ignore[attr-defined]
        raise error

    def chain() -> None:
        error: Exception | None = None
        for i in range(50):
            new = ValueError(f"number {i}")
            new.__cause__ = error
            error = new
        assert error
        raise error

    def odd_text() -> None:
        raise ValueError("\u2600 \udcff \x00 \x1b[31m")

    return {
        "long": failing(long_text),
        "long text": len(str(caught(long_text).cause)),
        "deep": failing(deep, "at the bottom"),
        "large field": len(caught(large_field).cause.data),
        "chain": failing(chain, "number 0", "number 49"),
        "odd text": failing(odd_text, "\u2600"),
    }


@snippet("F0.16", "F3.19")
def errors_as_objects() -> Any:
    def fail() -> None:
        raise KeyError("k")

    error = caught(fail)

    def through(module: Any) -> Any:
        again = module.loads(module.dumps(error))
        return [type(again).__name__, isinstance(again, KeyError), type(again.cause).__name__]

    @ray.remote
    def give_back(e: Any) -> Any:
        return e

    @ray.remote
    def raise_again(e: Any) -> Any:
        raise e

    @ray.remote
    def shape(e: Any) -> Any:
        (e,) = e if isinstance(e, list) else [e]
        return type(e).__name__, isinstance(e, KeyError), type(e.cause).__name__

    @ray.remote
    def returns() -> Any:
        return ValueError("a value")

    cause = error.as_instanceof_cause()
    return {
        "fields": sorted(
            n for n in ("function_name", "traceback_str", "cause", "pid", "ip", "proctitle",
                        "actor_repr", "_actor_id") if hasattr(error, n)
        ),
        "name": type(error).__name__,
        "mro": [c.__name__ for c in type(error).__mro__ if not c.__name__.startswith("_")],
        "args": outcome(lambda: type(error.args).__name__),
        "pickled": outcome(lambda: through(pickle)),
        "cloudpickled": outcome(lambda: through(ray.cloudpickle)),
        "as cause": [type(cause).__name__, isinstance(cause, KeyError)],
        "as an argument": outcome(lambda: ray.get(shape.remote(error))),
        "in a list": outcome(lambda: ray.get(shape.remote([error]))),
        "back": outcome(lambda: type(ray.get(give_back.remote([error]))[0]).__name__),
        "raised again": outcome(lambda: ray.get(raise_again.remote(error), timeout=20), "k"),
        "returned": outcome(lambda: type(ray.get(returns.remote())).__name__),
        "put": outcome(lambda: type(ray.get(ray.put(ValueError("p")))).__name__),
        "put task error": outcome(lambda: type(ray.get(ray.put(error))).__name__),
        "cause's text": str(error.cause),
        "not in": [hasattr(error, "no_such"), getattr(error, "no_such", 5)],
    }  # fmt: skip


@snippet("F0.16")
def errors_on_their_way() -> Any:
    @ray.remote
    def fail(text: str) -> None:
        raise ValueError(text)

    @ray.remote
    def take(*args: Any, **kwargs: Any) -> Any:
        return len(args) + len(kwargs)

    @ray.remote
    def nested() -> Any:
        return ray.get(fail.remote("inside"))

    @ray.remote
    def handles() -> Any:
        try:
            ray.get(fail.remote("inside"))
        except ValueError as error:
            return type(error).__name__, "inside" in str(error)

    @ray.remote
    def wraps() -> Any:
        try:
            ray.get(fail.remote("inside"))
        except ValueError as error:
            raise TypeError("outside") from error

    @ray.remote
    class Actor:
        def __init__(self, fails: bool = False) -> None:
            if fails:
                raise ValueError("in init")

        def take(self, x: Any) -> Any:
            return x

        def fail(self) -> None:
            raise ValueError("in a method")

        def handles(self, refs: Any) -> Any:
            try:
                ray.get(refs)
            except ValueError as error:
                return type(error).__name__

    actor = Actor.remote()

    def get(ref: Any, *says: str) -> Any:
        return outcome(lambda: ray.get(ref, timeout=20), *says)

    computed = "at least one of the input arguments"
    return {
        "one": get(take.remote(fail.remote("first")), "first", computed, "ray::take", "ray::fail"),
        "two": get(take.remote(1, fail.remote("a"), k=2), "ValueError", computed),
        "keyword": get(take.remote(k=fail.remote("first")), "first", computed),
        "chain of three": get(
            take.remote(take.remote(take.remote(fail.remote("first")))), "first", computed
        ),
        "in a list": get(take.remote([fail.remote("unseen")])),
        "nested": get(nested.remote(), "inside", "ray::nested", "ray::fail", "pid=", "ip="),
        "handled": get(handles.remote()),
        "wrapped": get(wraps.remote(), "inside", "outside", "direct cause"),
        "actor's argument": get(actor.take.remote(fail.remote("first")), "first", computed),
        "actor's method": get(actor.fail.remote(), "ray::Actor.fail", "actor_id", "in a method"),
        "actor's init": get(Actor.remote(True).take.remote(1), "in init", "creation task"),
        "actor's init argument": get(Actor.remote(fail.remote("first")).take.remote(1), "first"),
        "actor to task": get(take.remote(actor.fail.remote()), "in a method", computed),
        "handled by an actor": get(actor.handles.remote([fail.remote("x")])),
        "actor lives": get(actor.take.remote(1)),
        "list": get([take.remote(), fail.remote("of the list")], "of the list"),
        "wait": [len(p) for p in ray.wait([fail.remote("x")], timeout=20)],
    }


@snippet("F0.16")
def internal_frames() -> Any:
    import re

    @ray.remote
    def outer() -> None:
        def inner() -> None:
            raise ValueError("deep")

        inner()

    try:
        ray.get(outer.remote())
    except ValueError as error:
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    frames = re.findall(r'File "([^"]+)", line \d+, in (\w+)', text)
    return {
        "frames": [name for _, name in frames],
        "first line": re.sub(r"\d+(\.\d+)*", "N", text.splitlines()[0]),
        "last line": text.splitlines()[-1],
        "source": 'raise ValueError("deep")' in text,
    }
