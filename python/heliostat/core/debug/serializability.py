"""Finds out which part of a value cannot be pickled."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, TextIO


class FailureTuple:
    """A part that cannot be pickled: the object, the names that lead to it, and what holds it.

    Args:
        obj: The object.
        path: The names that lead to it, from outside.
        parent: What holds it.

    Examples:
        >>> import threading
        >>> from ray.util.check_serialize import inspect_serializability
        >>> lock = threading.Lock()
        >>> def work():
        ...     with lock:
        ...         pass
        >>> import contextlib, io
        >>> with contextlib.redirect_stdout(io.StringIO()):  # it prints what it finds
        ...     fine, failures = inspect_serializability(work, name="work")
        >>> fine, [failure.path for failure in failures]
        (False, [('work', 'lock')])
    """

    def __init__(self, obj: Any, path: tuple[str, ...], parent: Any) -> None:
        self.obj = obj
        self.path = path
        self.parent = parent

    def __repr__(self) -> str:
        way = " -> ".join(self.path)
        parts = f"path={way}, obj={_short(self.obj)}, parent={_short(self.parent)}"
        return f"FailTuple({self.path[-1]} [{parts}])"


class _Part(NamedTuple):
    how: str  # where it was found, for the report
    path: tuple[str, ...]  # of names, from the whole to it
    value: Any

    def inner(self, how: str, name: str, value: Any) -> _Part:
        """A part of this part."""
        return _Part(how, (*self.path, name), value)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 200 else text[:200] + "..."


def inspect_serializability(
    base_obj: Any,
    name: str | None = None,
    depth: int = 3,
    print_file: TextIO | None = None,
) -> tuple[bool, set[FailureTuple]]:
    """Say whether an object can be pickled; if not, print what in it cannot.

    Looks into attributes, items, closures and globals.

    Args:
        base_obj: The object: a function, a class or a value.
        name: What it is called in the report. Default: its own name.
        depth: How many levels deep it looks. Default 3.
        print_file: Where the report is written. Default: standard output.

    Returns:
        Whether it can be pickled, and a set of :class:`FailureTuple`, one for each part that cannot.

    Examples:
        >>> import ray
        >>> from ray.util import inspect_serializability
        >>> import io, threading
        >>> lock = threading.Lock()
        >>> ok, failures = inspect_serializability(lambda: lock, print_file=io.StringIO())
        >>> ok, len(failures) > 0
        (False, True)
    """
    out = print_file if print_file is not None else sys.stdout
    title = f"Checking Serializability of {_short(base_obj)}"
    _say(out, 0, "=" * min(len(title), 80), title, "=" * min(len(title), 80))
    failures: set[FailureTuple] = set()
    shown = name if name is not None else getattr(base_obj, "__name__", type(base_obj).__name__)
    ok = _check(_Part("", (shown,), base_obj), None, depth, 0, failures, out, set())
    if not ok:
        rule = "=" * 80
        _say(out, 0, rule, "What cannot be pickled:", "")
        for failure in sorted(failures, key=lambda f: f.path):
            _say(out, 1, repr(failure))
        _say(out, 0, "", f"Leave it out of {shown!r}, or give its class a `__reduce__`.", rule)
    return ok, failures


def _check(
    part: _Part,
    parent: Any,
    depth: int,
    level: int,
    failures: set[FailureTuple],
    out: TextIO,
    seen: set[int],
) -> bool:
    reason = _why_not(part.value)
    if reason is None:
        return True
    _say(out, level, f"!!! FAIL serialization{part.how and ' of ' + part.how}: {reason}")
    guilty = False
    if depth > 0 and id(part.value) not in seen:
        seen.add(id(part.value))
        for inner in _parts(part):
            guilty |= not _check(inner, part.value, depth - 1, level + 1, failures, out, seen)
    if not guilty:
        failures.add(FailureTuple(part.value, part.path, parent))
    return False


def _why_not(value: Any) -> str | None:
    from heliostat import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return str(error) or type(error).__name__
    return None


def _parts(whole: _Part) -> Iterator[_Part]:
    """Yield the parts of a value, as far as pickling goes."""
    value = whole.value
    if inspect.ismodule(value):
        return
    if inspect.isfunction(value):
        yield from _of_function(whole)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield whole.inner(f"the item {_short(key)}", str(key), item)
    elif isinstance(value, list | tuple | set | frozenset):
        for index, item in enumerate(value):
            yield whole.inner(f"the item {index}", str(index), item)
    elif isinstance(value, type):
        for name, member in vars(value).items():
            if not name.startswith("__") or inspect.isfunction(member):
                yield whole.inner(f"the member {name!r}", name, member)
    else:
        for name, member in getattr(value, "__dict__", {}).items():
            yield whole.inner(f"the attribute {name!r}", name, member)


def _of_function(whole: _Part) -> Iterator[_Part]:
    function = whole.value
    closure = inspect.getclosurevars(function)
    for name, item in closure.nonlocals.items():
        yield whole.inner(f"the captured variable {name!r}", name, item)
    for name, item in closure.globals.items():
        yield whole.inner(f"the global variable {name!r}", name, item)
    for index, item in enumerate(function.__defaults__ or ()):
        yield whole.inner(f"the default {index}", f"default {index}", item)


def _say(out: TextIO, level: int, *lines: str) -> None:
    for line in lines:
        out.write("    " * level + line + "\n")
