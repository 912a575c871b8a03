"""Compares the stub of the extension module with the binary; prints one difference a line.

Both ways, for every public name and every public member of a class; for what can be called, the
names of the parameters too, where the binary knows them.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

STUB = Path(__file__).resolve().parent.parent / "python/heliostat/_heliostat.pyi"
PROMISED = "(promised)"
Tree = dict[str, Any]  # name -> another tree for a class, a list of parameters, or None


def is_public(name: str) -> bool:
    return not name.startswith("_")


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    starred = [star for star in (given.vararg, given.kwarg) if star]
    return sorted({arg.arg for arg in [*named, *starred]} - {"self", "cls"})


def stated(body: list[ast.stmt], inherited: Tree | None = None) -> Tree:
    names: Tree = dict(inherited or {})
    for node in body:
        if isinstance(node, ast.ClassDef):
            bases: Tree = {}
            for base in node.bases:
                bases.update(names.get(ast.unparse(base)) or {})
            names[node.name] = stated(node.body, bases)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            plain = not any("property" in ast.unparse(d) for d in node.decorator_list)
            plain = plain and not any("setter" in ast.unparse(d) for d in node.decorator_list)
            overloaded = any("overload" in ast.unparse(d) for d in node.decorator_list)
            names[node.name] = parameters(node) if plain and not overloaded else None
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = None
    return {name: value for name, value in names.items() if is_public(name)}


def members(owner: Any) -> dict[str, Any]:
    """Everything in a module, or in a class and those of its bases that are of the same kind."""
    if not isinstance(owner, type):
        return {name: getattr(owner, name) for name in dir(owner)}
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if getattr(builtins, base.__name__, None) is not base:
            found.update(vars(base))
    return found


def promised(owner: Any) -> set[str]:
    """What a class leaves to its subclasses, all of which have it."""
    below: list[type] = owner.__subclasses__() if isinstance(owner, type) else []
    return set.intersection(*(set(vars(kind)) for kind in below)) if below else set()


def built(owner: Any) -> Tree:
    names: Tree = {}
    for name, value in members(owner).items():
        if not is_public(name) or isinstance(value, ModuleType):
            continue
        if isinstance(value, type) and getattr(builtins, name, None) is not value:
            names[name] = built(value)
        elif callable(value) or isinstance(value, (staticmethod, classmethod)):
            try:
                known = inspect.signature(getattr(owner, name)).parameters
                names[name] = sorted(set(known) - {"self", "cls"})
            except ValueError:
                names[name] = None
        else:
            names[name] = None
    return {**names, PROMISED: promised(owner)}


def compare(where: str, stub: Tree, binary: Tree) -> list[str]:
    later = binary.pop(PROMISED)
    problems = [f"{where}{name}: only in the binary" for name in binary.keys() - stub.keys()]
    problems += [f"{where}{name}: only in the stub" for name in stub.keys() - binary.keys() - later]
    for name in stub.keys() & binary.keys():
        ours, theirs = stub[name], binary[name]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            problems += compare(f"{where}{name}.", ours, theirs)
        elif isinstance(ours, list) and isinstance(theirs, list) and ours != theirs:
            problems.append(f"{where}{name}: the stub takes {ours}, the binary {theirs}")
    return sorted(problems)


def main() -> None:
    from heliostat import _heliostat

    tree = ast.parse(STUB.read_text(), STUB)
    for problem in compare("", stated(tree.body), built(_heliostat)):
        print(f"python/heliostat/_heliostat.pyi: {problem}")


if __name__ == "__main__":
    main()
