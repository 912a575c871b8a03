"""``heliostat.cloudpickle``: code keeps where it is from, whichever release of the package is there."""

from __future__ import annotations

import collections
import inspect
import io
import linecache
import pickle
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import cloudpickle as package
import pytest
from heliostat import cloudpickle

pytestmark = [
    pytest.mark.contract("F0.16", "F0.22"),
    pytest.mark.heliostat_only("Ray has a copy of the package"),
]

SOURCE = """
def outer(x):
    def inner():
        return [lambda: (x, y) for y in x]
    return inner

class Thing:
    def method(self):
        return outer(self)
"""


def kept(code: types.CodeType) -> tuple[Any, ...]:
    """What releases up to 3.1.2 write."""
    return renamed(code, code.co_filename)


def lost(code: types.CodeType) -> tuple[Any, ...]:
    """What 3.1.3 writes."""
    return renamed(code, "".join("<dynamic-code>"))


def renamed(code: types.CodeType, name: str) -> tuple[Any, ...]:
    make, given = package.Pickler.dispatch_table[types.CodeType](code)
    return make, (*given[:10], name, *given[11:])


@pytest.fixture(params=[kept, lost])
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudpickle, "_reduce_in_package", request.param)


@pytest.fixture
def run() -> Iterator[Callable[..., dict[str, Any]]]:
    """Define what a source says, as ``__main__`` of a file of that name would."""
    files = []

    def define(file: str, source: str = SOURCE, shown: bool = False) -> dict[str, Any]:
        files.append(file)
        if shown:
            lines = source.splitlines(keepends=True)
            linecache.cache[file] = (len(source), None, lines, file)
        names: dict[str, Any] = {"__name__": "__main__", "__file__": file}
        exec(compile(source, file, "exec"), names)
        return names

    yield define
    for file in files:
        linecache.cache.pop(file, None)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from codes(part)


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize("file", ["/somewhere/script.py", "<stdin>", "<string>"])
def test_each_code_object_keeps_its_file(file: str, run: Any) -> None:
    made = run(file)
    back, kind = pickle.loads(cloudpickle.dumps((made["outer"], made["Thing"])))
    assert {code.co_filename for code in codes(back.__code__)} == {file}
    assert kind.method.__code__.co_filename == file
    assert kind.method.__code__.co_firstlineno == made["Thing"].method.__code__.co_firstlineno
    assert [one() for one in back("ab")()] == [("ab", "b"), ("ab", "b")]


@pytest.mark.usefixtures("release")
def test_equal_functions_give_equal_pickles(run: Any) -> None:
    one, other = run("/somewhere/script.py"), run("/somewhere/" + "script.py"[:])
    pickled = cloudpickle.dumps(one["outer"])
    assert pickled == cloudpickle.dumps(other["outer"])
    again = pickle.loads(pickled)
    assert cloudpickle.dumps(pickle.loads(cloudpickle.dumps(again))) == cloudpickle.dumps(again)


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize("file", ["/tmp/ipykernel_1/2.py", "<python-input-1>"])
def test_code_of_no_file_takes_its_source_along(file: str, run: Any) -> None:
    made = run(file, shown=True)
    pickled = cloudpickle.dumps((made["outer"], made["Thing"]))
    assert pickled.count(b"return [lambda") == 1
    del linecache.cache[file]
    back, kind = pickle.loads(pickled)
    assert inspect.getsource(back).startswith("def outer(x):\n")
    assert (
        inspect.getsource(back("ab"))
        == "    def inner():\n        return [lambda: (x, y) for y in x]\n"
    )
    assert inspect.getsource(kind.method) == "    def method(self):\n        return outer(self)\n"
    linecache.checkcache()
    assert linecache.getline(file, 2) == "def outer(x):\n"
    assert cloudpickle.dumps(back).count(b"return [lambda") == 1  # and further, to tasks of tasks


def test_a_later_source_of_the_same_name_counts(run: Any) -> None:
    first = cloudpickle.dumps(run("<python-input-1>", "def f():\n    return 1\n", shown=True)["f"])
    later = cloudpickle.dumps(run("<python-input-1>", "def f():\n    return 2\n", shown=True)["f"])
    assert "return 1" in inspect.getsource(pickle.loads(first))
    assert "return 2" in inspect.getsource(pickle.loads(later))


def test_a_file_stays_where_it_is(run: Any, tmp_path: Any) -> None:
    file = tmp_path / "script.py"
    file.write_text(SOURCE)
    made = run(str(file))
    assert inspect.getsource(made["outer"])  # now Python knows its lines
    assert b"return [lambda" not in cloudpickle.dumps(made["outer"])


def test_a_huge_source_stays(run: Any) -> None:
    made = run("<generated>", SOURCE + "# a line\n" * 100_000, shown=True)
    assert len(cloudpickle.dumps(made["outer"])) < 10_000


@pytest.mark.usefixtures("release")
def test_picklers_of_users_keep_it_too(run: Any) -> None:
    class Theirs(cloudpickle.CloudPickler):
        dispatch_table: ClassVar[Any] = collections.ChainMap(
            {complex: lambda number: (complex, (0, number.imag))},
            cloudpickle.CloudPickler.dispatch_table,
        )

    file = io.BytesIO()
    Theirs(file).dump((run("/somewhere/script.py")["outer"], 3 + 4j))
    outer, number = pickle.loads(file.getvalue())
    assert outer.__code__.co_filename == "/somewhere/script.py"
    assert number == 4j


def test_buffers_travel_beside() -> None:
    buffers: list[Any] = []
    data = pickle.PickleBuffer(b"data")
    pickled = cloudpickle.dumps(data, 5, buffers.append)
    assert buffers == [data]
    assert pickle.loads(pickled, buffers=buffers) is data
    file = io.BytesIO()
    cloudpickle.dump([1], file)
    assert pickle.loads(file.getvalue()) == [1]
