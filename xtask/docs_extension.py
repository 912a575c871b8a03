"""Docstrings as the pages of the API show them: roles are code, and methods inherit theirs."""

from __future__ import annotations

import re
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
