"""The ranks of a deployment's replicas: within the deployment, within their nodes, and of the nodes.

A replica that comes gets the lowest rank that is free, and keeps it while replicas come and go. Once there
are as many as there are to be, the ranks are made to begin at 0 without a gap: the fewest change for that.
"""

from __future__ import annotations

from typing import NamedTuple

from heliostat.serve.specs import DeploymentID


class Rank(NamedTuple):
    """A replica's ranks, each from 0 on."""

    rank: int  # among all replicas of the deployment
    node_rank: int  # of its node, among those that have replicas of the deployment
    local_rank: int  # among those of its node


class _Order:
    """Numbers of keys."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def take(self, key: str) -> None:
        if key not in self.of:
            used = set(self.of.values())
            self.of[key] = next(one for one in range(len(used) + 1) if one not in used)

    def close_gaps(self) -> None:
        count, used = len(self.of), set(self.of.values())
        gaps = iter([one for one in range(count) if one not in used])
        seen: set[int] = set()
        for key, number in self.of.items():
            # Twice there is one where a replica came before a later controller had heard of all.
            if number >= count or number in seen:
                self.of[key] = next(gaps)
            seen.add(self.of[key])


class Ranks:
    """The ranks of one deployment."""

    def __init__(self) -> None:
        self._all = _Order()
        self._nodes = _Order()
        self._on: dict[str, _Order] = {}  # by node
        self._where: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._where)

    @property
    def replicas(self) -> set[str]:
        """Return the replicas that have ranks."""
        return set(self._where)

    def on(self, node: str) -> int:
        """The number of these replicas on a node."""
        return len(self._on[node].of) if node in self._on else 0

    def of(self, replica: str) -> Rank | None:
        """A replica's ranks; ``None`` where it has none."""
        node = self._where.get(replica)
        if node is None:
            return None
        return Rank(self._all.of[replica], self._nodes.of[node], self._on[node].of[replica])

    def take(self, replica: str, node: str) -> Rank:
        """Give a replica its ranks."""
        self._where[replica] = node
        self._all.take(replica)
        self._nodes.take(node)
        self._on.setdefault(node, _Order()).take(replica)
        return Rank(self._all.of[replica], self._nodes.of[node], self._on[node].of[replica])

    def keep(self, replica: str, node: str, rank: Rank) -> None:
        """Keep the ranks that a replica has already, of a controller before this one."""
        self._where[replica] = node
        self._all.of[replica], self._nodes.of[node] = rank.rank, rank.node_rank
        self._on.setdefault(node, _Order()).of[replica] = rank.local_rank

    def give_back(self, replica: str) -> None:
        """Give back the ranks of a replica that is gone."""
        node = self._where.pop(replica, None)
        if node is None:
            return
        del self._all.of[replica]
        del self._on[node].of[replica]
        if not self._on[node].of:
            del self._on[node]
            del self._nodes.of[node]

    def close_gaps(self) -> None:
        """Have all of them begin at 0, without a gap."""
        for order in (self._all, self._nodes, *self._on.values()):
            order.close_gaps()


class RankUpdate(NamedTuple):
    """The ranks that a replica is to know."""

    replica: str
    rank: Rank
    world_size: int


class DeploymentRanks:
    """The ranks of all deployments, and which of them their replicas know."""

    def __init__(self) -> None:
        self._of: dict[DeploymentID, Ranks] = {}
        self._known: dict[str, tuple[Rank, int]] = {}

    def take(
        self, key: DeploymentID, replica: str, node: str, known: Rank | None, world_size: int
    ) -> Rank:
        """The ranks of a replica that has come to a node; ``known``: that it has already."""
        ranks = self._of.setdefault(key, Ranks())
        if known is not None:
            ranks.keep(replica, node, known)
        rank = known or ranks.take(replica, node)
        self._known[replica] = rank, world_size
        return rank

    def on(self, key: DeploymentID, node: str) -> int:
        """The number of a deployment's replicas on a node."""
        return 0 if key not in self._of else self._of[key].on(node)

    def settle(
        self, key: DeploymentID, there: set[str], running: list[str], target: int
    ) -> list[RankUpdate]:
        """Keep the ranks of replicas that are ``there`` still; return the running ones with news for them."""
        ranks = self._of.get(key)
        if ranks is None:
            return []
        for gone in ranks.replicas - there:
            ranks.give_back(gone)
            self._known.pop(gone, None)
        if not there:
            del self._of[key]
            return []
        if len(ranks) == target and there == ranks.replicas:
            ranks.close_gaps()
        told = []
        for replica in running:
            rank = ranks.of(replica)
            if rank is not None and self._known.get(replica) != (rank, target):
                self._known[replica] = rank, target
                told.append(RankUpdate(replica, rank, target))
        return told
