"""Averaging gradients over the living replica groups, in the background of the backward pass.

As in ``DistributedDataParallel``, parameters are gathered in buckets, and a bucket is summed over the
groups as soon as its gradients are there. The sum is made in memory of its own: the gradients of this
rank stay as they are until all members hold the whole average, so that a round in which somebody dies
can be made anew from them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd import Variable

from heliostat.train.replicas.messages import Vote
from heliostat.train.torch.replica.link import Link
from heliostat.train.torch.replica.ring import BrokenRing, Ring
from heliostat.train.torch.stuck import explained

# Bytes of a bucket; the first that is sent is smaller, so that sending begins early (as in torch).
_BUCKET, _FIRST_BUCKET = 25 * 1024 * 1024, 1024 * 1024


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a tensor, which may be sharded, that this rank holds."""
    if hasattr(tensor, "to_local"):
        found: torch.Tensor = tensor.to_local()
        return found
    return tensor


class _Bucket:
    """Parameters whose gradients are summed together."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.pending = len(parameters)
        first = local(parameters[0].data)
        size = sum(local(p.data).numel() for p in parameters)
        self.sum = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.views = []
        offset = 0
        for parameter in parameters:
            data = local(parameter.data)
            self.views.append(self.sum[offset : offset + data.numel()].view(data.shape))
            offset += data.numel()

    def fill(self, share: float) -> None:
        """Set the memory of the sum to ``share`` times the gradients of this rank."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            if parameter.grad is None or share == 0:
                view.zero_()
            elif share == 1:
                view.copy_(local(parameter.grad))
            else:
                torch.mul(local(parameter.grad), share, out=view)


class Averager:
    """Averages the gradients of some parameters; every round is complete for all or for none."""

    def __init__(self, link: Link, models: Sequence[torch.nn.Module]) -> None:
        self._link = link
        self._parameters = _of(models)
        self._buckets = _bucketed(self._parameters)
        self._of_bucket = {p: b for b in self._buckets for p in b.parameters}
        self._is_armed = False
        self._is_on = True
        self._ring: Ring | None = None
        self._works: list[Any] = []
        # The samples that this group brings and those of a whole batch; the last vote of this step.
        self.weight = self.full_weight = 1
        self.vote: Vote | None = None
        # Whether steps are taken: a backward pass outside of them is this rank's own.
        self.is_ready = False
        # Called before a round can become complete: parameters may change afterwards.
        self.before_vote: Callable[[], None] = lambda: None
        self._hooks: list[Any] = []
        for parameter in self._parameters:
            hook = parameter.register_post_accumulate_grad_hook(self._accumulated)
            self._hooks.append(hook)
        for model in models:
            self._hooks.append(model.register_forward_hook(self._after_forward))

    def close(self) -> None:
        """Let the parameters go."""
        for hook in self._hooks:
            hook.remove()

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Only add gradients up here."""
        before, self._is_on = self._is_on, False
        try:
            yield
        finally:
            self._is_on = before

    # ---- within the backward pass ----

    def _after_forward(self, module: Any, inputs: Any, output: Any) -> None:
        """Sharded parameters get their gradients unseen: the outputs tell that a backward pass begins."""
        if torch.is_grad_enabled():
            for tensor in _tensors(output):
                if tensor.requires_grad:
                    tensor.register_hook(self._arm)

    def _arm(self, *_: Any) -> None:
        """Have the round made at the end of the backward pass."""
        if self._is_on and not self._is_armed:
            if not self.is_ready:
                raise RuntimeError(
                    "A backward pass outside of the steps of fault_tolerant(): write the loop as "
                    "`for step in run.steps(...)` or `for batch in run.batches(...)`, so that "
                    "the replica groups take the same steps."
                )
            self._is_armed = True
            self._restart_buckets()
            # Twice: what others have queued for the end comes in between.
            queue = Variable._execution_engine.queue_callback
            queue(lambda: queue(self._finish))

    def _accumulated(self, parameter: torch.nn.Parameter) -> None:
        self._arm()
        if not self._is_armed:
            return
        bucket = self._of_bucket[parameter]
        bucket.pending -= 1
        if bucket.pending == 0:
            with contextlib.suppress(RuntimeError):  # a broken ring shows itself at the end
                self._send_ready()

    def _restart_buckets(self) -> None:
        for bucket in self._buckets:
            bucket.pending = len(bucket.parameters)
        self._drop()

    def _drop(self) -> None:
        """Wait until nothing is under way any more: the memory of the sums is used again."""
        for work in self._works:
            with contextlib.suppress(Exception):
                work.wait()
        self._works, self._ring = [], None

    def _send_ready(self) -> None:
        """Send the buckets that are full, in the order that all ranks share."""
        ring = self._ring or self._link.ready_ring()
        if ring is None or ring.is_cut:
            return
        self._ring = ring
        while len(self._works) < len(self._buckets) and not self._buckets[len(self._works)].pending:
            self._send(ring)

    def _send(self, ring: Ring) -> None:
        bucket = self._buckets[len(self._works)]
        bucket.fill(self.weight / self.full_weight)
        self._works.append(ring.allreduce(bucket.sum))

    def _finish(self) -> None:
        """The backward pass is over: make the round complete."""
        self._is_armed = False
        self.average()

    # ---- the round ----

    def average(self) -> None:
        """Average the gradients over the living groups; returns when all members hold the average.

        Raises:
            AttemptEnded: The attempt is over.
        """
        number = self._link.round + 1
        vote: Vote | None = None
        while vote is None:
            ring = self._link.ring()
            if self._ring is not ring:
                self._drop()
                self._ring = ring
            try:
                while len(self._works) < len(self._buckets):
                    self._send(ring)
                ring.wait(self._works)
                self.before_vote()
                vote = self._ask(ring, number)
                is_counted = self._link.complete(ring, vote)
            except (RuntimeError, BrokenRing) as error:
                is_counted = False
                # A rank that did not come is replaced; the others go on without it.
                explained(error, self._link.seat.timeout_s, replaces=True)
            if not is_counted:
                vote = self._link.settle(ring, number)
        self._works, self._ring = [], None
        self._write(vote)
        self.vote = vote

    def _ask(self, ring: Ring, number: int) -> Vote:
        """Vote, and return what all have voted."""
        seat = self._link.seat
        mine = [int(self._link.is_awaited)]
        mine += [self.weight if g == seat.group and seat.shard == 0 else 0 for g in ring.groups]
        mine += [int(p.grad is not None and self.weight > 0) for p in self._parameters]
        sums = ring.vote(torch.tensor(mine, dtype=torch.int64))
        weights = dict(zip(ring.groups, sums[1:], strict=False))
        used = tuple(sums[1 + len(ring.groups) :])
        return Vote(number, sums[0] > 0, weights, used)

    def _write(self, vote: Vote) -> None:
        total = sum(vote.weights.values())
        used = dict(zip(self._parameters, vote.used, strict=True))
        for bucket in self._buckets:
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                if not used[parameter]:
                    parameter.grad = None
                    continue
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                torch.mul(view, self.full_weight / max(1, total), out=local(parameter.grad))


def _of(models: Sequence[torch.nn.Module]) -> list[torch.nn.Parameter]:
    """The parameters that are trained, each once."""
    found: dict[torch.nn.Parameter, None] = {}
    for model in models:
        for parameter in model.parameters():
            if parameter.requires_grad:
                found.setdefault(parameter)
    return list(found)


def _bucketed(parameters: Sequence[torch.nn.Parameter]) -> list[_Bucket]:
    """Buckets in the order in which a backward pass fills them: from the last parameter to the first."""
    buckets: list[_Bucket] = []
    gathered: list[torch.nn.Parameter] = []
    size, kind = 0, None
    for parameter in reversed(parameters):
        data = local(parameter.data)
        limit = _BUCKET if buckets else _FIRST_BUCKET
        if gathered and (size >= limit or (data.dtype, data.device) != kind):
            buckets.append(_Bucket(gathered))
            gathered, size = [], 0
        kind = (data.dtype, data.device)
        gathered.append(parameter)
        size += data.numel() * data.element_size()
    if gathered:
        buckets.append(_Bucket(gathered))
    return buckets


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif hasattr(leaf, "__dict__"):  # outputs of models that are plain objects
            yield from (v for v in vars(leaf).values() if isinstance(v, torch.Tensor))
