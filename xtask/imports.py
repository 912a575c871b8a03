"""Prints what `cargo xtask tidy` asks of the Python packages, one tab-separated fact a line.

    import MODULE LINE TARGET WHEN    WHEN is "top", or "later" inside a function
    logic MODULE LINE                 a statement that an alias table has no use for

Imports under `if TYPE_CHECKING:` never run and are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent / "python"
PLAIN = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Delete)


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PYTHON.rglob("*.py")):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def targets(node: ast.stmt, package: list[str], known: dict[str, Path]) -> Iterator[str]:
    """The modules that an import statement names, as precisely as can be told."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        origin = ".".join([*base, *filter(None, [node.module])])
        for alias in node.names:
            inner = f"{origin}.{alias.name}"
            yield inner if inner in known or inner == "heliostat._heliostat" else origin


def walk(body: list[ast.stmt], when: str) -> Iterator[tuple[ast.stmt, str]]:
    for node in body:
        yield node, when
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from walk(node.orelse, when)
            continue
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, name, [])
            yield from walk(below, "later" if inside else when)


def is_plain(node: ast.stmt) -> bool:
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return constant or typing or isinstance(node, PLAIN)


def main() -> None:
    known = modules()
    for name, path in known.items():
        tree = ast.parse(path.read_text(), path)
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        for node, when in walk(tree.body, "top"):
            for target in targets(node, package, known):
                print("import", name, node.lineno, target, when, sep="\t")
        for node in tree.body:
            if not is_plain(node):
                print("logic", name, node.lineno, sep="\t")


if __name__ == "__main__":
    main()
