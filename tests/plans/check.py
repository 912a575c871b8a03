"""Comparing what a consumer returned with what is known."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .known import Known, Row
from .values import freeze, literal


class Mismatch(Exception):
    """A dataset gave another answer than expected."""


def expect(condition: Any, message: str) -> None:
    """Raise Mismatch unless the condition holds."""
    if not condition:
        raise Mismatch(message)


def shown(value: Any, limit: int = 700) -> str:
    """The text of a value, cut."""
    text = literal(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def same(found: Any, wanted: Any, exact: bool = True, what: str = "value") -> None:
    """Single values are the same."""
    expect(
        freeze(found, exact) == freeze(wanted, exact),
        f"{what}: expected {shown(wanted)}, got {shown(found)}",
    )


def rows_are(found: list[Row], known: Known, loose: bool = False, texts: bool = False) -> None:
    """Rows are the known ones, in an order that is allowed.

    Loose: they went through numpy or pandas. Texts: through a format without types.
    """
    exact = {
        n: c.exact and not texts and not (loose and known.blurs(n) and c.kind != "object")
        for n, c in known.columns.items()
    }

    def frozen(row: Row) -> Any:
        return tuple((n, freeze(v, exact.get(n, True))) for n, v in sorted(row.items()))

    have, want = [frozen(r) for r in found], [frozen(r) for r in known.rows]
    if known.some:
        extra = Counter(have) - Counter(want)
        expect(
            not extra,
            f"rows that were not there: {shown([r for r in found if frozen(r) in extra])}",
        )
        return
    if Counter(have) != Counter(want):
        _fail_of_rows(found, have, known, want)
    begin = 0
    for i in range(len(want)):
        if i + 1 < len(want) and known.ranks[i + 1] == known.ranks[i]:
            continue
        expect(
            Counter(have[begin : i + 1]) == Counter(want[begin : i + 1]),
            f"order from row {begin}: expected {shown(known.rows[begin : i + 1])}, "
            f"got {shown(found[begin : i + 1])}",
        )
        begin = i + 1


def _fail_of_rows(found: list[Row], have: list[Any], known: Known, want: list[Any]) -> None:
    extra, lacking = Counter(have) - Counter(want), Counter(want) - Counter(have)
    raise Mismatch(
        f"{len(found)} rows, expected {len(known.rows)};\n"
        f"  expected and not there: {shown(_those(known.rows, want, lacking))}\n"
        f"  there and not expected: {shown(_those(found, have, extra))}"
    )


def _those(rows: list[Row], frozen: list[Any], which: Counter[Any]) -> list[Row]:
    return [r for r, f in zip(rows, frozen, strict=True) if f in which]
