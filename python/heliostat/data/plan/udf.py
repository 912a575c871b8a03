"""The user's function or class, with what it is called with."""

from __future__ import annotations

import functools
import inspect
import io
import reprlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from operator import length_hint
from typing import TYPE_CHECKING, TypeVar

from heliostat.data import frames, missing
from heliostat.data.exceptions import user_error
from heliostat.data.plan import task

if TYPE_CHECKING:
    import asyncio

    from heliostat.data.aliases import Function, Value

T = TypeVar("T")

ASYNC_CALLS_MAX = 16  # calls of one async function that run at the same time


@functools.lru_cache(maxsize=64)
def _loop(names: tuple[str, ...]) -> Function:
    """Return the loop over rows of these columns that calls a function with each as a dict.

    It is written out for the names, as a dict with its names in the code is made several times faster
    than one of two sequences.
    """
    values = ", ".join(f"v{i}" for i in range(len(names)))
    row = ", ".join(f"{name!r}: v{i}" for i, name in enumerate(names))
    source = (
        f"for {values} in zip(left, *others)" if len(names) > 1 else f"for {values or '_'} in left"
    )
    text = (
        "lambda call, left, others, args, kwargs: ("
        f"[call({{{row}}}, *args, **kwargs) {source}] if args or kwargs else [call({{{row}}}) {source}])"
    )
    made: Function = eval(text, {})  # the names are literals
    return made


@functools.lru_cache(maxsize=64)
def _filling_loop(names: tuple[str, ...], made: tuple[str, ...], is_bare: bool) -> Function:
    """Return the loop that calls a function as that of :func:`_loop` does, and appends to lists what each
    result has of the keys ``made``: results that are dropped at once cost less than some thousand.

    It returns a result that has other keys as the only one of a tuple, except one with as many keys: there
    it raises ``KeyError`` in the line ``FETCHING``.
    """
    values = ", ".join(f"v{i}" for i in range(len(names)))
    row = ", ".join(f"{name!r}: v{i}" for i, name in enumerate(names))
    lines = [
        "def loop(call, left, others, args, kwargs, out):",
        f"  {', '.join(f'c{i}' for i in range(len(made)))}, = out",
        f"  for {values} in zip(left, *others):"
        if len(names) > 1
        else f"  for {values or '_'} in left:",
        f"    r = call({{{row}}}{'' if is_bare else ', *args, **kwargs'})",
        f"    if type(r) is not dict or len(r) != {len(made)}: return (r,)",
        "    " + "; ".join(f"x{i} = r[{name!r}]" for i, name in enumerate(made)),
        "    " + "; ".join(f"c{i}.append(x{i})" for i in range(len(made))),
    ]
    scope: dict[str, Function] = {}
    exec("\n".join(lines), scope)  # the names are literals
    return scope["loop"]


FETCHING = 6  # the line of such a loop that looks the keys up


def _other_keys(error: KeyError) -> tuple[Value] | None:
    """The result whose keys such a loop did not find; None: the error is the function's."""
    place = error.__traceback__.tb_next if error.__traceback__ is not None else None
    if place is None or place.tb_next is not None or place.tb_lineno != FETCHING:
        return None
    return (place.tb_frame.f_locals["r"],)


@dataclass
class Udf:
    """A function, or a class of which each actor makes one instance."""

    fn: Function
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = field(default_factory=dict)
    constructor_args: tuple[object, ...] = ()
    constructor_kwargs: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"expected a function or a callable class, got {self.fn!r}")
        if self.is_class and not hasattr(self.fn, "__call__"):  # noqa: B004 # its instances' method
            raise ValueError(f"{self.name} is a class without __call__.")
        if not self.is_class and (self.constructor_args or self.constructor_kwargs):
            raise ValueError(
                "fn_constructor_args and fn_constructor_kwargs are for classes; "
                f"{self.name} is a function."
            )

    @property
    def is_class(self) -> bool:
        """Whether it is a class, which needs actors."""
        return inspect.isclass(self.fn)

    @property
    def name(self) -> str:
        """The name in plans and errors."""
        name = getattr(self.fn, "__name__", None) or getattr(
            getattr(self.fn, "func", None), "__name__", type(self.fn).__name__
        )
        return str(name)

    def unpicklable(self) -> str:
        """The sentence that workers cannot get it, with the parts that cannot be pickled; "": they can."""
        from heliostat.util import inspect_serializability

        given = {
            self.name: self.fn,
            "fn_args": self.args,
            "fn_kwargs": self.kwargs,
            "fn_constructor_args": self.constructor_args,
            "fn_constructor_kwargs": self.constructor_kwargs,
        }
        for what, part in given.items():
            fine, failures = inspect_serializability(part, what, print_file=io.StringIO())
            if fine:
                continue
            parts = {".".join(one.path[1:]) or what: reprlib.repr(one.obj) for one in failures}
            where = "the function" if part is self.fn else f"`{what}` of"
            return (
                f"{where} {self.name} cannot be sent to workers, because "
                f"{', '.join(f'{name} ({value})' for name, value in parts.items())} cannot be pickled. "
                "Make it in the function, or in the constructor of a class: then each worker has its own."
            )
        return ""

    def open(self) -> Opened:
        """Make it ready to be called in this process."""
        return Opened(self)


class Opened:
    """A function that can be called; errors that it raises say so. Counts the seconds spent in it."""

    def __init__(self, udf: Udf) -> None:
        self._udf = udf
        self.seconds = 0.0
        self.at: task.Place = None  # of the next call
        self._done = 0  # rows of this task that `all` has had
        try:
            self._call = (
                udf.fn(*udf.constructor_args, **udf.constructor_kwargs) if udf.is_class else udf.fn
            )
        except Exception as error:
            raise user_error(error, f"{udf.name}.__init__", "its arguments") from error
        body: object = self._call if inspect.isroutine(self._call) else type(self._call).__call__
        self.is_async = inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)

    @property
    def name(self) -> str:
        """The name in errors."""
        return self._udf.name

    def begin(self) -> None:
        """A task begins, whose rows count from 0."""
        self.at, self._done = None, 0

    def _error(
        self, error: Exception, at: task.Place, given: object, *, shown: bool = False
    ) -> Exception:
        place = task.place(at, given if shown else None)
        hint = missing.hint(error, given) or frames.hint(error, given)
        return user_error(error, self.name, place, hint)

    def __call__(self, value: Value) -> Value:
        begun = time.perf_counter()
        try:
            result = self._call(value, *self._udf.args, **self._udf.kwargs)
        except Exception as error:
            raise self._error(error, self.at, value) from error
        finally:
            self.seconds += time.perf_counter() - begun
        return self.items(result)

    def _drained(self, results: Iterator[T]) -> Iterator[T]:
        while True:
            begun = time.perf_counter()
            try:
                item = next(results)
            except StopIteration:
                return
            except Exception as error:
                raise self._error(error, self.at, None) from error
            finally:
                self.seconds += time.perf_counter() - begun
            yield item

    def all(self, names: tuple[str, ...], columns: list[list[Value]], rows: int) -> list[object]:
        """The result for each row of some columns, of a function that is not async.

        A row is made when the function is called with it, and is gone when the next one is made: thousands
        of dicts that wait for their calls cost as much as the calls.
        """
        # Says how many it still has: the number of the row costs nothing until one fails.
        left = iter(columns[0]) if columns else iter(range(rows))
        begun = time.perf_counter()
        try:
            results: list[object] = _loop(names)(
                self._call, left, columns[1:], self._udf.args, self._udf.kwargs
            )
        except Exception as error:
            raise self._failed(error, names, columns, rows - length_hint(left) - 1) from error
        finally:
            self.seconds += time.perf_counter() - begun
        self._done += rows
        return results

    def fill(
        self,
        names: tuple[str, ...],
        columns: list[list[Value]],
        rows: int,
        made: tuple[str, ...],
        out: list[list[Value]],
    ) -> list[object]:
        """Append what the results for some rows have of the keys ``made`` to the lists ``out``.

        It does so up to a result that is not a dict of these keys; from that one on they are returned.
        """
        left = iter(columns[0]) if columns else iter(range(rows))
        args, kwargs = self._udf.args, self._udf.kwargs
        begun = time.perf_counter()
        try:
            loop = _filling_loop(names, made, not (args or kwargs))
            other: tuple[Value] | None = loop(self._call, left, columns[1:], args, kwargs, out)
        except Exception as error:
            other = _other_keys(error) if isinstance(error, KeyError) else None
            if other is None:
                raise self._failed(error, names, columns, rows - length_hint(left) - 1) from error
        finally:
            self.seconds += time.perf_counter() - begun
        done = rows - length_hint(left)
        self._done += done
        if other is None:
            return []
        return [*other, *self.all(names, [column[done:] for column in columns], rows - done)]

    def _failed(
        self, error: Exception, names: tuple[str, ...], columns: list[list[Value]], failed: int
    ) -> Exception:
        row = {name: column[failed] for name, column in zip(names, columns, strict=True)}
        return self._error(error, (self._done + failed, 1), row, shown=True)

    def items(self, result: Value) -> Value:
        """A result that is several values: those of a generator are made, and timed, as they come."""
        return self._drained(result) if inspect.isgenerator(result) else result

    def each(self, values: Iterator[T]) -> Iterator[tuple[T, Value]]:
        """(value, result) for each value; async functions run for several values at a time."""
        if not self.is_async:
            for value in values:
                yield value, self(value)
            return
        import asyncio  # functions that need it are rare, and it takes a while to import

        loop = asyncio.new_event_loop()
        try:
            yield from self._overlapped(loop, values)
        finally:
            loop.close()

    def _overlapped(
        self, loop: asyncio.AbstractEventLoop, values: Iterator[T]
    ) -> Iterator[tuple[T, Value]]:
        running: list[tuple[T, asyncio.Task[Value]]] = []
        for value in values:
            running.append((value, loop.create_task(self._one(value, self.at))))
            if len(running) >= ASYNC_CALLS_MAX:
                first, task = running.pop(0)
                yield first, loop.run_until_complete(task)
        for value, task in running:
            yield value, loop.run_until_complete(task)

    async def _one(self, value: Value, at: task.Place) -> Value:
        try:
            result = self._call(value, *self._udf.args, **self._udf.kwargs)
            if isinstance(result, AsyncIterator):
                return iter([item async for item in result])
            return await result
        except Exception as error:
            raise self._error(error, at, value) from error
