"""Arithmetic with a reference whose value nobody has asked for: it says what is missing.

Indexing and iteration say it, too: crates/helio-py/src/object_ref.rs. Length stays as Python refuses it: a
class that had the method would count as a container, for ``isinstance`` and for libraries that look into
lists. Truth stays true, as on Ray.
"""

from __future__ import annotations

from typing import Any, NoReturn

from heliostat._heliostat import ObjectRef

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "matmul": "@",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
}
_UNARY = {"neg": "-", "pos": "+"}


def _refused(operator: str) -> Any:
    def refuse(ref: ObjectRef, *_: object) -> NoReturn:
        raise TypeError(
            f"unsupported operand for {operator}: this is an ObjectRef. Call ray.get(ref) for its "
            "value, or pass the ObjectRef to a remote function, which gets the value."
        )

    return refuse


def explain() -> None:
    """Give references these methods."""
    for name, operator in _BINARY.items():
        setattr(ObjectRef, f"__{name}__", _refused(operator))
        setattr(ObjectRef, f"__r{name}__", _refused(operator))
    for name, operator in _UNARY.items():
        setattr(ObjectRef, f"__{name}__", _refused(operator))
