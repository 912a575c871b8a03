"""The two scripts that tell `cargo xtask tidy` about Python: each can find what it is there to find."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

XTASK = str(Path(__file__).resolve().parents[2] / "xtask")


@pytest.fixture
def stub() -> Iterator[Any]:
    yield from script("stub")


@pytest.fixture
def imports() -> Iterator[Any]:
    yield from script("imports")


def script(name: str) -> Iterator[ModuleType]:
    sys.path.insert(0, XTASK)
    try:
        yield __import__(name)
    finally:
        sys.path.remove(XTASK)
        del sys.modules[name]


class Base:
    def shared(self) -> None: ...


class Kind(Base):
    SIZE = 4

    def act(self, what: int) -> None: ...


def differences(stub: Any, text: str) -> list[str]:
    binary = ModuleType("binary")
    vars(binary).update(Base=Base, Kind=Kind, function=lambda a, b=1: a)
    found: list[str] = stub.compare("", stub.stated(ast.parse(text).body), stub.built(binary))
    return found


SAME = """
class Base:
    SIZE: ClassVar[int]
    def shared(self) -> None: ...
class Kind(Base):
    def act(self, what: int) -> None: ...
def function(a: int, b: int = 1) -> int: ...
"""


def test_a_true_stub_has_no_differences(stub: Any) -> None:
    assert differences(stub, SAME) == []


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("def function", "def other", "function: only in the binary"),
        ("def function", "def other", "other: only in the stub"),
        ("what: int", "which: int", "Kind.act: the stub takes ['which'], the binary ['what']"),
        ("def shared", "def unshared", "Kind.shared: only in the binary"),
        ("    SIZE: ClassVar[int]\n", "", "Kind.SIZE: only in the binary"),
    ],
)
def test_each_difference_is_named(stub: Any, old: str, new: str, difference: str) -> None:
    assert difference in differences(stub, SAME.replace(old, new))


def edges(imports: Any, text: str, package: str = "heliostat.core") -> list[tuple[str, str]]:
    known = {"heliostat.core.api": Path()}
    return [
        (target, when)
        for node, when in imports.walk(ast.parse(text).body, "top")
        for target in imports.targets(node, package.split("."), known)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import a.b", [("a.b", "top")]),
        (
            "from heliostat.core import api, get",
            [("heliostat.core.api", "top"), ("heliostat.core", "top")],
        ),
        ("from . import api", [("heliostat.core.api", "top")]),
        ("from ..util import queue", [("heliostat.util", "top")]),
        ("def f():\n    import a", [("a", "later")]),
        ("try:\n    import a\nexcept ImportError:\n    import b", [("a", "top"), ("b", "top")]),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", [("b", "top")]),
        ("class C:\n    import a", [("a", "top")]),
    ],
)
def test_every_import_is_seen(imports: Any, text: str, found: list[tuple[str, str]]) -> None:
    assert edges(imports, text) == found


def test_logic_is_told_from_a_table(imports: Any) -> None:
    table = ast.parse('"""Doc."""\nimport a\nX = {"a": 1}\nif TYPE_CHECKING:\n    import b\n')
    assert all(imports.is_plain(node) for node in table.body)
    logic = ast.parse("def f(): ...\nfor x in y: ...\nif z: ...\n")
    assert not any(imports.is_plain(node) for node in logic.body)
