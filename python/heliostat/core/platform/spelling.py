"""Spelling suggestions for error messages."""

from __future__ import annotations

from collections.abc import Iterable

CUTOFF = 0.6  # how much of two words is the same, at least: 1 is all


def nearest(word: str, known: Iterable[str], cutoff: float = CUTOFF, most: int = 1) -> list[str]:
    """The known words that are most like this one, ``most`` at most, the nearest first."""
    import difflib  # `import heliostat` is to be quick, and few words are misspelt

    return difflib.get_close_matches(word, list(known), most, cutoff)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'num_cpus'?`` for the public word that is most like this one, or nothing."""
    found = nearest(word, [name for name in known if not name.startswith("_")])
    return f" Did you mean {found[0]!r}?" if found else ""
