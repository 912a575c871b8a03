"""Docstrings as the pages of the API show them: roles are code, and methods inherit theirs.

A class derived from one that has an entry of its own names that one, whose members are not listed again.
The options that methods of datasets share (the decorator ``takes``) are written out, as ``help`` shows them.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


class Docstrings(griffe.Extension):
    """Works on a package once it is read as a whole."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Every docstring below it."""
        self._visit(pkg)
        _refer_to_what_is_above(pkg)

    def _visit(self, scope: griffe.Module | griffe.Class) -> None:
        for member in scope.members.values():
            if member.is_alias:
                continue
            if member.docstring is None and isinstance(scope, griffe.Class):
                member.docstring = _overridden(scope, member.name)
            if isinstance(member, griffe.Function):
                _write_out(member)
            if member.docstring is not None:
                member.docstring.value = _ROLE.sub(r"``\1``", member.docstring.value)
            if isinstance(member, griffe.Module | griffe.Class):
                self._visit(member)


def _overridden(scope: griffe.Class, name: str) -> griffe.Docstring | None:
    """The docstring of the nearest class above that says what this member is."""
    for above in scope.mro():
        found = above.members.get(name)
        if found is not None and not found.is_alias and found.docstring is not None:
            text = found.docstring
            return griffe.Docstring(text.value, parent=scope.members[name])
    return None


def _refer_to_what_is_above(pkg: griffe.Module) -> None:
    """Name, in each class with an entry, the classes with entries above it, which then hand nothing down."""
    described: dict[str, str] = {}  # by the path of the source
    classes = []
    for path in _entries():
        thing = pkg[path.removeprefix(f"{pkg.name}.")]
        thing = thing.final_target if thing.is_alias else thing
        if isinstance(thing, griffe.Class):
            described[thing.path] = path
            classes.append(thing)
    above = {cls.path: [c for c in cls.mro() if c.path in described] for cls in classes}
    heirs = {cls.path: {c.path for c in cls.mro()} | {cls.path} for cls in classes}
    for cls in classes:
        # Those that are not above another one of them.
        nearest = [
            c
            for c in above[cls.path]
            if not any(c.path in heirs[o.path] and o is not c for o in above[cls.path])
        ]
        if nearest and cls.docstring is not None:
            named = " and ".join(f"[`{c.name}`][{described[c.path]}]" for c in nearest)
            first, gap, rest = inspect.cleandoc(cls.docstring.value).partition("\n\n")
            said = f"Has all members of {named}, from which it is derived."
            cls.docstring.value = f"{first}\n\n{said}{gap}{rest}"
    for cls in classes:
        for below in [cls, *cls.mro()]:
            below.bases = [b for b in below.bases if _path_of(b, below) not in described]


def _path_of(base: str | griffe.Expr, cls: griffe.Class) -> str:
    """Of a class that another one is derived from, the path of its source."""
    name = base if isinstance(base, str) else base.canonical_path
    try:
        found = cls.modules_collection[name]
        return found.final_target.path if found.is_alias else found.path
    except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
        return name


@functools.cache
def _entries() -> list[str]:
    """The names that have an entry on the pages."""
    pages = (Path(__file__).parents[1] / "docs/api").rglob("*.md")
    return [
        path
        for page in sorted(pages)
        for path in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
    ]


@functools.cache
def _options() -> ModuleType:
    """The module of the decorator, which imports nothing of the package."""
    path = Path(__file__).parents[1] / "python/heliostat/data/dataset/options.py"
    spec = importlib.util.spec_from_file_location("dataset_options", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _write_out(method: griffe.Function) -> None:
    """Show the options that a method takes by ``**`` among its parameters, and explain them."""
    given = [d for d in map(str, (d.value for d in method.decorators)) if d.startswith("takes(")]
    if not given or method.docstring is None:
        return
    takes = eval(given[0], vars(_options()))  # our own source
    kinds = griffe.ParameterKind
    own = {p.name: p for p in method.parameters if p.kind is kinds.keyword_only}
    before = [p for p in method.parameters if p.name not in own and p.kind is not kinds.var_keyword]
    shown = [
        own.get(name)
        or griffe.Parameter(
            name, annotation=takes.kind(name), kind=kinds.keyword_only, default="None"
        )
        for name in takes.ordered(own)
    ]
    rest = griffe.Parameter(_options().REST, annotation="Any", kind=kinds.var_keyword, default="{}")
    method.parameters = griffe.Parameters(*before, *shown, rest)
    method.docstring.value = takes.explained(inspect.cleandoc(method.docstring.value))
