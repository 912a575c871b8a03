"""What an operator of a plan is: it draws its arguments, writes its text, and computes its answer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .known import Known

Args = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """An operator with its arguments."""

    op: str
    args: Args

    def lines(self, number: int) -> list[str]:
        """The statements that apply it to ``ds``."""
        return OPERATORS[self.op].lines(self.args, number)

    def apply(self, known: Known) -> Known:
        """The answer; raises Inapplicable where the operator does not fit."""
        return OPERATORS[self.op].apply(self.args, known)


class Operator:
    """One operator of datasets."""

    weight = 2.0

    def draw(self, rng: random.Random, known: Known) -> Args:
        """Random arguments; raises Inapplicable if there are none."""
        raise NotImplementedError

    def lines(self, args: Args, number: int) -> list[str]:
        """The statements that apply it to ``ds``; ``number`` makes names unique."""
        raise NotImplementedError

    def apply(self, args: Args, known: Known) -> Known:
        """What is known of the result."""
        raise NotImplementedError

    def simpler(self, args: Args) -> list[Args]:
        """Arguments that are simpler by one thing, for the shrinker."""
        return []


OPERATORS: dict[str, Operator] = {}


def operator(name: str) -> Any:
    """Register a class as the operator of that name."""

    def add(kind: type[Operator]) -> type[Operator]:
        OPERATORS[name] = kind()
        return kind

    return add
