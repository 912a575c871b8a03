"""The position of a loop over an iterator, for ``state_dict`` and ``load_state_dict``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

VERSION = 1


@dataclass(frozen=True)
class Shuffle:
    """The mixing of an epoch's rows while they are read."""

    seed: int
    window: int
    batch_size: int


class Position(NamedTuple):
    """A place in an epoch: what the loop has had of it. A tuple, as each batch makes one."""

    epoch: int = 0  # epochs begun before
    rows: int = 0
    execution: int | None = None  # the number of the epoch's execution, by which it draws
    shuffle: Shuffle | None = None
    consumers: int = 1  # that share the dataset

    def state(self) -> dict[str, object]:
        """The position as a dict of plain values."""
        shuffle = None if self.shuffle is None else asdict(self.shuffle)
        return {"version": VERSION, **self._asdict(), "shuffle": shuffle}

    def moved(self, rows: int) -> Position:
        """After some more rows."""
        # `_replace` takes several times as long.
        return Position(self.epoch, self.rows + rows, self.execution, self.shuffle, self.consumers)

    def next_epoch(self) -> Position:
        """At the beginning of the next epoch."""
        return Position(self.epoch + 1, consumers=self.consumers)

    def mixed(self, shuffle: Shuffle | None) -> Position:
        """The same place of an epoch whose rows are mixed like that, with the seed that it began with.

        Raises:
            ValueError: In the middle of an epoch that was mixed otherwise.
        """
        if not self.rows:
            return self._replace(shuffle=shuffle)
        before = self.shuffle
        if before is None and shuffle is None:
            return self
        if before is None or shuffle is None or replace(before, seed=shuffle.seed) != shuffle:
            raise ValueError(
                f"the state that was loaded is of an epoch with {_said(before)}; the loop now asks for "
                f"{_said(shuffle)}. In the middle of an epoch both have to be as they were."
            )
        return self


def _said(shuffle: Shuffle | None) -> str:
    if shuffle is None:
        return "no local shuffle"
    return f"local_shuffle_buffer_size={shuffle.window} and batch_size={shuffle.batch_size}"


def loaded(state: Any, consumers: int) -> Position:
    """The position of a state.

    Raises:
        ValueError: It is not a state of an iterator, or one of another number of consumers.
    """
    try:
        given = dict(state)
        version = given.pop("version")
        shuffle = given.pop("shuffle")
        place = Position(**given, shuffle=None if shuffle is None else Shuffle(**shuffle))
        wrong = version != VERSION or place.rows < 0 or place.epoch < 0
    except (TypeError, ValueError, KeyError):
        wrong = True
    if wrong:
        raise ValueError(f"load_state_dict takes what state_dict gave, not {state!r:.200}.")
    if place.consumers != consumers:
        raise ValueError(
            f"the state is of an iterator that shared its dataset with {place.consumers} consumers in "
            f"all; here are {consumers}. Resume with as many, or begin the epoch again."
        )
    return place
