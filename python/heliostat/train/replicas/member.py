"""The view of one rank on its quorum, and which of its rounds count. Pure.

It is the other half of ``quorum``: TRAIN-QUORUM-1 holds since `abort` and `complete` exclude each other.
Its caller holds one lock around every call.
"""

from __future__ import annotations

from heliostat.train.replicas.messages import Admission, Formation, Progress, Vote


class Member:
    """The quorum's rounds at one rank, made one after the other."""

    def __init__(self) -> None:
        self.quorum = 0
        self.groups: tuple[int, ...] = ()
        self.progress = Progress(0)
        self._given_up = True
        # The last quorum after which somebody wanted to enter.
        self._awaited = -1

    @property
    def is_open(self) -> bool:
        """Whether rounds can be made: the quorum is not given up."""
        return not self._given_up

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the next edge."""
        return self._awaited >= self.quorum

    def announce(self, quorum: int) -> None:
        """Note that a newcomer waits for an edge, to enter after ``quorum``."""
        self._awaited = max(self._awaited, quorum)

    def admit(self, admission: Admission, newcomer: bool) -> None:
        """Take the place that was given at an edge."""
        if newcomer and self.progress.round < admission.round:
            self.progress = Progress(admission.round)
        if admission.quorum <= self.quorum:
            return  # the same as before, or it broke while the answer was under way
        self.quorum, self.groups = admission.quorum, admission.groups
        self._given_up = False

    def abort(self, quorum: int) -> Progress | None:
        """Give ``quorum`` up: nothing counts in it from now on. None: it is over already."""
        if quorum < self.quorum:
            return None
        self.quorum = quorum  # it may break before its admission has come
        self._given_up = True
        return self.progress

    def form(self, formation: Formation) -> None:
        """Enter the quorum of those that are left."""
        if formation.quorum <= self.quorum:
            return
        self.quorum, self.groups = formation.quorum, formation.groups
        self._given_up = False
        if formation.awaited:
            self._awaited = formation.quorum
        if formation.progress.round > self.progress.round:
            # Some member has seen the round complete that this one is in: it is.
            self.progress = formation.progress

    def complete(self, quorum: int, vote: Vote) -> bool:
        """All members of ``quorum`` have voted. Whether that counts: not in one that is given up."""
        if quorum != self.quorum or self._given_up:
            return False
        self.progress = Progress(vote.round, vote)
        return True

    def outcome(self, number: int) -> Vote | None:
        """The vote of round ``number``, None when it has to be made anew."""
        return self.progress.vote if self.progress.round >= number else None
