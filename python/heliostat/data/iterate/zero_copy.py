"""The rule when tensors share the memory of their block instead of copying it.

A loop may write to its tensors and keep them. Writing harms nobody if the block was made by this
execution: exactly one consumer gets it, once, and it goes when the last tensor does. Keeping would
fill the object store, so only a few blocks are lent at a time; a loop that keeps more gets copies.
"""

from __future__ import annotations

import weakref

from heliostat.data.plan.operators import Bundle

# The block that batches are made of now, and the one whose last batch the loop still has.
LOANS_MAX = 2


class Loan:
    """Permission to be the memory of one block. Whatever uses it holds it."""


class Lender:
    """Decides for one iteration; one thread uses it."""

    def __init__(self) -> None:
        self._loans: list[weakref.ref[Loan]] = []
        self.loan: Loan | None = None  # for the block that came last; None: copy

    def turn_to(self, bundle: Bundle) -> None:
        """Turn to the next block: decide whether its memory is lent."""
        self.loan = None
        self._loans = [loan for loan in self._loans if loan() is not None]
        if not bundle.given and len(self._loans) < LOANS_MAX:
            self.loan = Loan()
            self._loans.append(weakref.ref(self.loan))
