"""The pickler that functions and classes are sent with: the package of that name, and where code is from.

Code that travels by value keeps the name of the file it was written in, whatever the release of the
package says (3.1.3 writes ``<dynamic-code>`` instead): tracebacks, warnings, debuggers and
``inspect.getsource`` go by it. Code of no file, as a notebook's cells are, takes its source lines along.
All of this package pickles code through here.
"""

from __future__ import annotations

import collections
import io
import linecache
import types
from collections.abc import Callable
from typing import IO, Any, ClassVar

import cloudpickle as _package
from cloudpickle import load, loads, register_pickle_by_value, unregister_pickle_by_value

__all__ = [
    "CloudPickler",
    "Pickler",
    "dump",
    "dumps",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]

# The argument of `types.CodeType` that is the name of the file, in each version of Python.
_FILENAME = 10

# Generated code can be of any size, and each function of a cell takes the whole cell along.
_SOURCE_MAX_BYTES = 1 << 18

# The strings that stand for a file and for its source in pickles. They are nobody else's: pickle writes an
# object once, and equal functions are to give equal pickles, whatever else holds the same string.
_names: dict[str, str] = {}
_sources: dict[str, tuple[list[str], str]] = {}


def _name_of(file: str) -> str:
    return _names.setdefault(file, "".join(list(file)))


def _source_of(code: types.CodeType) -> str | None:
    """The source of code that is in no file, if this process can show it."""
    file = code.co_filename
    entry: Any = linecache.cache.get(file)
    # (size, time of the file, lines, path); without a time it is of no file.
    lines: list[str] = entry[2] if entry and len(entry) == 4 and entry[1] is None else []
    if not lines and _lines_of_repl is not None and file[:1] == "<":
        lines = _lines_of_repl(code)
    if not lines:
        _sources.pop(file, None)
        return None
    known = _sources.get(file)
    if known is None or known[0] is not lines:
        known = _sources[file] = (lines, "".join(lines))
    return known[1] if len(known[1]) <= _SOURCE_MAX_BYTES else None


# The file of code typed at Python's own prompt, which later releases than 3.13.0 keep by the code.
_lines_of_repl: Callable[[types.CodeType], list[str]] | None = getattr(
    linecache, "_getlines_from_code", None
)

_reduce_in_package: Callable[[types.CodeType], tuple[Any, ...]] = _package.Pickler.dispatch_table[
    types.CodeType
]


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    make, given = _reduce_in_package(code)
    arguments = (*given[:_FILENAME], _name_of(code.co_filename), *given[_FILENAME + 1 :])
    source = _source_of(code)
    return (make, arguments) if source is None else (_code_with_source, (source, arguments))


def _code_with_source(source: str, arguments: tuple[Any, ...]) -> types.CodeType:
    code = types.CodeType(*arguments)
    if _source_of(code) != source:
        file = code.co_filename
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return code


class Pickler(_package.Pickler):  # type: ignore[misc] # it has no types
    """Pickles functions and classes of scripts and notebooks by value, and code with its file's name."""

    dispatch_table: ClassVar[collections.ChainMap[Any, Any]] = collections.ChainMap(
        {types.CodeType: _reduce_code}, _package.Pickler.dispatch_table
    )


CloudPickler = Pickler


def dump(
    obj: Any,
    file: IO[bytes],
    protocol: int | None = None,
    buffer_callback: Callable[[Any], Any] | None = None,
) -> None:
    """Write ``obj``, pickled, into ``file``.

    Args:
        obj: What is to be pickled.
        file: Open for writing bytes.
        protocol: Of ``pickle``; the highest where None.
        buffer_callback: Is called with each ``PickleBuffer`` that is to travel beside the pickle.
    """
    Pickler(file, protocol=protocol, buffer_callback=buffer_callback).dump(obj)


def dumps(
    obj: Any,
    protocol: int | None = None,
    buffer_callback: Callable[[Any], Any] | None = None,
) -> bytes:
    """``obj``, pickled; arguments as in :func:`dump`."""
    with io.BytesIO() as file:
        dump(obj, file, protocol=protocol, buffer_callback=buffer_callback)
        return file.getvalue()
