"""Routing by the beginnings of prompts: an engine that has read a beginning need not read it again."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from heliostat.serve.context import ReplicaID
from heliostat.serve.request_router import (
    PendingRequest,
    ReplicaResult,
    RequestRouter,
    RunningReplica,
)
from heliostat.util.engines.engine import TOKENS_USUAL

__all__ = ["KVAwareRouter", "PrefixCacheAffinityRouter"]

# Beginnings are told apart in steps of so many characters.
_STEP = 16


class PrefixCacheAffinityRouter(RequestRouter):
    """Requests go to the replica that has had the longest part of their beginning.

    It is for ``request_router_config`` of a model's ``deployment_config``. A request's text is its
    ``prompt``, or what its ``messages`` say. What each replica has had is known to the process that chooses.

    ``request_router_kwargs``: ``imbalanced_threshold``, by how many requests replicas may differ before the
    one with the fewest takes the next (default: any number); ``match_rate_threshold``, the least part of a
    text that has to be known there, else the replica that has had the least takes it (default 0.1);
    ``eviction_threshold_chars`` and ``eviction_target_chars``, at how many characters of a replica old ones
    are forgotten, and how many stay (default 400,000 and 360,000). ``do_eviction`` and
    ``eviction_interval_secs`` have no effect: it is done at once. Raises ``ValueError`` for numbers that
    cannot be.
    """

    def initialize_state(
        self,
        imbalanced_threshold: float | None = math.inf,
        match_rate_threshold: float | None = 0.1,
        do_eviction: bool | None = False,
        eviction_threshold_chars: int | None = 400_000,
        eviction_target_chars: int | None = 360_000,
        eviction_interval_secs: int | None = 10,
        **_: object,
    ) -> None:
        """Takes the numbers above."""
        self._imbalance = math.inf if imbalanced_threshold is None else imbalanced_threshold
        self._rate = match_rate_threshold or 0.0
        most, left = eviction_threshold_chars or 400_000, eviction_target_chars or 360_000
        if not 0 <= self._rate <= 1:
            raise ValueError(f"`match_rate_threshold` is from 0 to 1, not {match_rate_threshold}.")
        if not 0 < left <= most:
            raise ValueError(
                f"`eviction_target_chars` ({left}) is from 1 to `eviction_threshold_chars` ({most})."
            )
        self._most, self._left = most // _STEP, left // _STEP
        # The beginnings that each replica has had, the latest last.
        self._had: dict[ReplicaID, OrderedDict[int, None]] = {}

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """These replicas take calls from now on."""
        super().update_replicas(replicas)
        self._had = {one: self._had.get(one, OrderedDict()) for one in self._replica_id_set}

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The replicas that know most of the text, or have had the least; then all."""
        text = "" if pending_request is None else _text(pending_request)
        counts = [self._ongoing.get(one.replica_id, 0) for one in candidate_replicas]
        if not text or max(counts, default=0) - min(counts, default=0) > self._imbalance:
            return [candidate_replicas]
        had = [self._had.get(one.replica_id, OrderedDict()) for one in candidate_replicas]
        steps = list(_beginnings(text))
        known = [
            next((at for at, one in enumerate(steps) if one not in its), len(steps)) for its in had
        ]
        best = max(known, default=0)
        if best and best * _STEP >= self._rate * len(text):
            first = [one for one, at in zip(candidate_replicas, known, strict=True) if at == best]
        else:
            least = min(map(len, had), default=0)
            first = [
                one for one, its in zip(candidate_replicas, had, strict=True) if len(its) == least
            ]
        return [first, candidate_replicas]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """The replica has the text from now on."""
        had = self._had.get(replica_id)
        if had is None:
            return  # it is gone
        for one in _beginnings(_text(pending_request)):
            had[one] = None
            had.move_to_end(one)
        if len(had) > self._most:
            while len(had) > self._left:
                had.popitem(last=False)


class KVAwareRouter(PrefixCacheAffinityRouter):
    """Requests go where they cost least: the part of their text that a replica has not read, and its work.

    A replica's work is what it had not read of the texts that it has, and the answers that they ask for, four
    characters a token. ``request_router_kwargs``: ``eviction_threshold_chars`` and ``eviction_target_chars``
    of ``PrefixCacheAffinityRouter``. Ray's asks a service of its own (Dynamo) for the tokens in each engine's
    memory; this one knows the texts that this process has sent.
    """

    def initialize_state(self, *args: Any, **kwargs: Any) -> None:
        """Takes the numbers above."""
        super().initialize_state(*args, **kwargs)
        self._work: dict[ReplicaID, dict[str, int]] = {}

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """The replicas where the request costs least; then all."""
        text = "" if pending_request is None else _text(pending_request)
        costs = [
            self._unread(one.replica_id, text) + sum(self._work.get(one.replica_id, {}).values())
            for one in candidate_replicas
        ]
        least = min(costs, default=0)
        first = [one for one, cost in zip(candidate_replicas, costs, strict=True) if cost == least]
        return [first, candidate_replicas]

    def _unread(self, replica: ReplicaID, text: str) -> int:
        had = self._had.get(replica, ())
        steps = list(_beginnings(text))
        known = next((at for at, one in enumerate(steps) if one not in had), len(steps))
        return len(text) - known * _STEP

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult
    ) -> None:
        """The replica has the text from now on, and the work."""
        cost = self._unread(replica_id, _text(pending_request)) + 4 * _answer(pending_request)
        self._work.setdefault(replica_id, {})[pending_request.metadata.internal_request_id] = cost
        super().on_request_routed(pending_request, replica_id, result)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The work is done."""
        self._work.get(replica_id, {}).pop(internal_request_id, None)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """These replicas take calls from now on."""
        super().update_replicas(replicas)
        self._work = {one: self._work.get(one, {}) for one in self._replica_id_set}


def _answer(request: PendingRequest) -> int:
    """The largest number of tokens of the answer, as the request says."""
    for body in request.args:
        for name in ("max_completion_tokens", "max_tokens"):
            given = getattr(body, name, None)
            if isinstance(given, int) and given > 0:
                return given
    return TOKENS_USUAL


def _beginnings(text: str) -> Iterator[int]:
    """A number for each of the text's beginnings, in steps."""
    before = 0
    for at in range(0, len(text) - _STEP + 1, _STEP):
        before = hash((before, text[at : at + _STEP]))
        yield before


def _text(request: PendingRequest) -> str:
    """The request's text; none of a call that has none."""
    for body in request.args:
        given = getattr(body, "messages", None) or getattr(body, "prompt", None)
        if given:
            return _plain(given)
    return ""


def _plain(given: Any) -> str:
    """The text of a prompt, a message, its parts, or a list of them."""
    if isinstance(given, str):
        return given
    if isinstance(given, (list, tuple)):
        return "".join(map(_plain, given))
    if isinstance(given, dict):
        return _plain(given.get("content") or given.get("text") or "")
    if isinstance(given, int):
        return f"{given} "  # a token
    return _plain(getattr(given, "content", None) or getattr(given, "text", None) or "")
