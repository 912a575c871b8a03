"""Spelling suggestions for error messages."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'num_cpus'?`` for the known word that is most like this one, or nothing."""
    import difflib  # `import heliostat` is to be quick, and few words are misspelt

    public = [name for name in known if not name.startswith("_")]
    found = difflib.get_close_matches(word, public, n=1, cutoff=0.7)
    return f" Did you mean '{found[0]}'?" if found else ""
