"""Docstrings as the pages of the API show them: roles are code, and methods inherit theirs.

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
