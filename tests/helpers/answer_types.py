"""The types that the page has of the head's answers, and whether an answer is of its type.

They are read from `answers.ts`, which is written from the head's structs. Rows that libraries tell pass
through the head as they are, so only such a look says that both mean the same.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "crates/helio-dashboard/page/src/answers.ts"
# Fields of all rows of runs, whether the page reads them or not.
OF_RUNS = {"job_id", "is_over", "is_left", "started_at", "written_at"}

Type = tuple[Any, ...]


class _Reader:
    """Reads one type after the other."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        self.words = re.findall(r'"[^"]*"|\w+|[^\s]', text)
        self.at = 0

    def peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def next(self, expected: str | None = None) -> str:
        word = self.peek()
        assert expected in (None, word), f"{expected!r} instead of {word!r}"
        self.at += 1
        return word

    def type(self) -> Type:
        options = [self.one()]
        while self.peek() == "|":
            self.next()
            options.append(self.one())
        return options[0] if len(options) == 1 else ("any of", options)

    def one(self) -> Type:
        word = self.next()
        if word == "[":
            return ("tuple", self.several("]"))
        if word == "{":
            return self.object()
        if self.peek() == "<":
            self.next()
            return ("name", word, self.several(">"))
        return ("name", word, [])

    def several(self, end: str) -> list[Type]:
        found = [self.type()]
        while self.peek() == ",":
            self.next()
            found.append(self.type())
        self.next(end)
        return found

    def object(self) -> Type:
        if self.peek() == "[":
            while self.next() != "]":
                pass
            self.next(":")
            of = self.type()
            self.next("}")
            return ("map", of)
        fields: dict[str, tuple[bool, Type]] = {}
        while self.peek() != "}":
            name = self.next().strip('"')
            is_optional = self.peek() == "?"
            if is_optional:
                self.next()
            self.next(":")
            fields[name] = (is_optional, self.type())
            self.next(";")
        self.next("}")
        return ("object", fields)


@functools.cache
def _types() -> dict[str, tuple[list[str], Type]]:
    """The parameters and the type of each name."""
    found = {}
    declared = re.compile(r"^export type (\w+)(?:<([^>]*)>)? = (.*?);$(?=\n\n|\n*\Z)", re.M | re.S)
    for name, parameters, text in declared.findall(FILE.read_text()):
        names = [one.strip() for one in parameters.split(",") if one.strip()]
        if "&" not in text:
            found[name] = (names, _Reader(text).type())
    return found


def differences(value: Any, type_name: str) -> list[str]:
    """The places where a value differs from its type, a sentence each; none if it is of that type."""
    found: list[str] = []
    _compare(value, _Reader(type_name).type(), {}, type_name, found)
    return found


def _compare(value: Any, of: Type, given: dict[str, Type], where: str, found: list[str]) -> None:
    kind = of[0]
    if kind == "any of":
        tries: list[list[str]] = []
        for option in of[1]:
            tries.append([])
            _compare(value, option, given, where, tries[-1])
        if all(tries):
            found.append(min(tries, key=len)[0] if value is not None else f"{where} is null")
    elif kind == "tuple":
        if not isinstance(value, list) or len(value) != len(of[1]):
            found.append(f"{where} is not a list of {len(of[1])}: {value!r:.80}")
        else:
            for place, (one, its) in enumerate(zip(value, of[1], strict=True)):
                _compare(one, its, given, f"{where}[{place}]", found)
    elif kind == "map":
        if not isinstance(value, dict):
            found.append(f"{where} is not a mapping: {value!r:.80}")
        else:
            for name, one in value.items():
                _compare(one, of[1], given, f"{where}[{name!r}]", found)
    elif kind == "object":
        _compare_fields(value, of[1], given, where, found)
    else:
        _compare_named(value, of[1], of[2], given, where, found)


def _compare_fields(
    value: Any,
    fields: dict[str, tuple[bool, Type]],
    given: dict[str, Type],
    where: str,
    found: list[str],
) -> None:
    if not isinstance(value, dict):
        found.append(f"{where} is not an object: {value!r:.80}")
        return
    for name, (is_optional, its) in fields.items():
        if name in value:
            _compare(value[name], its, given, f"{where}.{name}", found)
        elif not is_optional:
            found.append(f"{where} lacks {name}")
    more = set(value) - set(fields)
    if "seen" in fields:
        more -= OF_RUNS
    found += [f"{where} has {name}, which its type has not" for name in sorted(more)]


def _compare_named(
    value: Any,
    name: str,
    arguments: list[Type],
    given: dict[str, Type],
    where: str,
    found: list[str],
) -> None:
    plain: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float), "null": ()}
    if name in given:
        _compare(value, given[name], {}, where, found)
    elif name == "boolean":
        if not isinstance(value, bool):
            found.append(f"{where} is not a boolean: {value!r:.80}")
    elif name in plain:
        is_it = value is None if name == "null" else isinstance(value, plain[name])
        if not is_it or isinstance(value, bool):
            found.append(f"{where} is not a {name}: {value!r:.80}")
    elif name == "Array":
        if not isinstance(value, list):
            found.append(f"{where} is not a list: {value!r:.80}")
        else:
            for place, one in enumerate(value):
                _compare(one, arguments[0], given, f"{where}[{place}]", found)
    else:
        parameters, its = _types()[name]
        _compare(value, its, dict(zip(parameters, arguments, strict=True)), where, found)
