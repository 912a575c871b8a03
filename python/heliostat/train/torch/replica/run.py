"""``fault_tolerant``: a loop over steps that all replica groups take together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from heliostat.train.context import current_session
from heliostat.train.memory.sender import Sender
from heliostat.train.replicas.messages import Admission
from heliostat.train.replicas.plan import SamplePlan, Span
from heliostat.train.torch.device import get_device
from heliostat.train.torch.loader import _move
from heliostat.train.torch.replica import state
from heliostat.train.torch.replica.average import Averager
from heliostat.train.torch.replica.feed import Feed, refuse_second_loop, unwrapped
from heliostat.train.torch.replica.link import Link
from heliostat.train.worker.session import WorkerSession

# The run of the training function of this process, while it lasts.
_current: list[FaultTolerantRun] = []


class FaultTolerantRun:
    """The steps of a training function whose replica groups may die; made by ``fault_tolerant``.

    Attributes:
        session: The worker.
        objects: What a newcomer needs, by name.
        step: Steps that the run has taken; the number of the step that is being taken.
        epoch: The epoch of ``batches``, from 0.

    Examples:
        >>> import torch
        >>> from ray import train
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import FaultTolerantConfig, TorchTrainer, fault_tolerant
        >>> def work():
        ...     model = torch.nn.Linear(1, 1)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     run = fault_tolerant(model=model, optimizer=optimizer)
        ...     for step in run.steps(1000):
        ...         x = torch.rand(32, 1) + run.index  # each group its own rows
        ...         optimizer.zero_grad()
        ...         (model(x) - 2 * x).square().mean().backward()
        ...         optimizer.step()
        ...     train.report({"steps": run.step, "groups": run.count})
        >>> trainer = TorchTrainer(
        ...     work, torch_config=FaultTolerantConfig(), scaling_config=ScalingConfig(num_workers=2)
        ... )
    """

    def __init__(self, session: WorkerSession, objects: dict[str, Any]) -> None:
        self.step = 0
        link = Link(session)
        assignment, seat = session.assignment, link.seat
        self._session = session
        self._link = link
        self._objects = objects
        self._models = [m for m in objects.values() if isinstance(m, torch.nn.Module)]
        self._averager = Averager(link, self._models)
        sender = Sender(session, seat.shard, seat.size)
        self._giver = state.Giver(link, objects, sender, assignment.attempt)
        self._averager.before_vote = self._giver.wait
        self._groups: tuple[int, ...] = ()
        # How many groups have made the state; 0 while it is what the training function began with.
        self._made_by = 0
        self._plan: SamplePlan | None = None
        self._is_in = False
        self._is_done = False

    @property
    def epoch(self) -> int:
        """The epoch of ``batches``, from 0."""
        return self._plan.epoch if self._plan is not None else 0

    @property
    def count(self) -> int:
        """The number of replica groups that take this step."""
        return len(self._groups)

    @property
    def index(self) -> int:
        """The place of this worker's group among them, from 0."""
        return self._groups.index(self._link.seat.group)

    def steps(self, until: int | None = None) -> Iterator[int]:
        """Take steps until ``until`` have been taken by the run; yields the number of each, from 0.

        A worker that takes the place of another begins where the others are, with their state. Within
        a step ``loss.backward()`` leaves the average over the groups that live in the gradients.

        Args:
            until: Steps of the whole run. Default None: until the loop is left, which all workers
                have to do after the same step.

        Yields:
            The number of the step, from 0.

        Raises:
            ValueError: The model differs from that of another worker; the first parameter is named.
        """
        self._enter()
        try:
            while until is None or self.step < until:
                self._averager.vote = None
                yield self.step
                self._after_step({})
            self._end()
        finally:
            self._leave_loop()

    def batches(self, loader: Any, *, epochs: int = 1, keep_batch: bool = False) -> Iterator[Any]:
        """Take a step for each batch of a data loader; yields this worker's batches on its device.

        Each sample is counted in exactly one step of each epoch (with ``drop_last`` but for the rest):
        what a group that dies had been given is given out again. Gradients are averaged by samples.

        Args:
            loader: A torch ``DataLoader`` over a map-style dataset, with ``batch_size`` samples for a
                worker. It is not passed through ``prepare_data_loader``. Where it shuffles, the
                order follows from its ``generator``'s seed and the epoch.
            epochs: How often to go through the dataset. Default 1.
            keep_batch: While groups are missing, the others take their part of each batch. Default
                False: a step has so many samples fewer.

        Yields:
            A batch.

        Raises:
            ValueError: The loader's samples cannot be dealt out by number.
        """
        plain = unwrapped(loader)
        seat = self._link.seat
        assert plain.batch_size is not None
        total = len(plain.dataset)
        batch = plain.batch_size * seat.size
        plan = SamplePlan(total, batch, seat.groups, keep_batch, plain.drop_last)
        self._plan = plan
        feed = Feed(plain, plan, seat.shard, seat.size)
        self._averager.full_weight = batch
        device = get_device()
        self._enter()
        try:
            while plan.epoch < epochs:
                shares = plan.shares(self._groups)
                if not shares:
                    plan.next_epoch()
                    continue
                self._averager.weight = sum(b - a for a, b in shares[seat.group])
                self._averager.vote = None
                yield _move(feed.next(shares, seat.group), device)
                self._after_step(shares)
            self._end()
        finally:
            self._leave_loop()

    def no_sync(self) -> AbstractContextManager[None]:
        """Within it ``backward()`` only adds to this worker's gradients, to be averaged later."""
        return self._averager.off()

    # ---- between steps ----

    def _enter(self) -> None:
        refuse_second_loop(self._is_in)
        self._is_in = True
        admission = self._link.join(state.signature(self._objects))
        self.step = admission.step
        if self._link.seat.group not in admission.newcomers:
            self._restore()  # whoever is a newcomer takes it from this group
        self._take_place(admission)
        if self._made_by:
            self._tell_size(self._made_by)
        self._averager.is_ready = True

    def _take_place(self, admission: Admission) -> None:
        """Give the state to newcomers, or take it as one."""
        group = self._link.seat.group
        self._groups = admission.groups
        if group in admission.newcomers:
            self._stand_at(state.take(self._link, admission.quorum, self._objects))
        elif admission.donor == group:
            self._giver.give(admission.quorum, self._position())

    def _position(self) -> dict[str, Any]:
        """Return the part of the state besides the objects."""
        plan = self._plan.state_dict() if self._plan is not None else None
        return {"plan": plan, "step": self.step, "made_by": self._made_by}

    def _stand_at(self, position: dict[str, Any]) -> None:
        self.step, self._made_by = position["step"], position["made_by"]
        if self._plan is not None and position["plan"] is not None:
            self._plan.load_state_dict(position["plan"])

    def _restore(self) -> None:
        """All groups were lost: the first of the new ones takes the copy that is in peers' memory."""
        offer, seat = self._session.assignment.memory, self._link.seat
        if offer is None or len(offer.parts) != seat.size:
            return
        found, problem = None, ""
        try:
            found = state.take_copy(offer, seat.shard)
        except Exception as error:
            problem = str(error) or repr(error)
        if seat.size > 1:  # all of its workers, or none
            is_there = torch.tensor([found is not None], dtype=torch.int32, device=get_device())
            torch.distributed.all_reduce(is_there, torch.distributed.ReduceOp.MIN)
            problem = problem or ("" if is_there.item() else "another shard of it is gone")
        if problem or found is None:
            self._session.note(f"the state in peers' memory cannot be used: {problem}")
            return
        state.fill(self._objects, found)
        self._stand_at(found)

    def _after_step(self, shares: dict[int, list[Span]]) -> None:
        vote = self._averager.vote
        if self._plan is not None:
            counted = set(shares) if vote is None else {g for g, w in vote.weights.items() if w}
            self._plan.done(shares, counted)
        self.step += 1
        if vote is None:
            return
        before = len(self._groups)
        self._groups = tuple(sorted(vote.weights))
        self._made_by = len(self._groups)
        if self._giver.is_due(self.step) and self._groups[0] == self._link.seat.group:
            self._giver.wait()
            self._giver.keep(self.step, self._position())
        if vote.edge:
            self._giver.wait()
            self._take_place(self._link.edge(self.step))
        self._tell_size(before)

    def _tell_size(self, before: int) -> None:
        """Have hooks of the training function know of groups that are lost or have joined."""
        if before != len(self._groups):
            size = self._link.seat.size
            self._link.world_size_changed(before * size, len(self._groups) * size)

    def _end(self) -> None:
        """All steps are taken: who is being replaced still gets the result."""
        self._giver.wait()
        self._take_place(self._link.edge(self.step, last=True))
        self._finish()

    def _leave_loop(self) -> None:
        """The loop is over; whether that is the end, or an exception is on its way, shows later."""
        self._averager.is_ready = False
        self._giver.wait()

    def _finish(self) -> None:
        self._giver.wait()
        if not self._is_done:
            self._is_done = True
            self._link.finish()

    def close(self, failed: bool) -> None:
        """Called when the training function is over.

        Args:
            failed: It raised.
        """
        self._averager.close()
        if failed:
            self._link.leave()
        elif self._is_in:
            self._finish()


def fault_tolerant(**objects: Any) -> FaultTolerantRun:
    """Train on in the replica groups that are left when a worker dies.

    With ``TorchTrainer(torch_config=FaultTolerantConfig(...))`` each replica group holds a copy of the
    model. When a worker dies, the others finish the step without its group; the group is
    replaced, takes the state of a living one and joins between two steps::

        run = train.torch.fault_tolerant(model=model, optimizer=optimizer)
        for batch in run.batches(loader, epochs=3):
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()  # the gradients are averaged over the groups that live
            optimizer.step()

    Args:
        objects: Everything whose state a newcomer needs, by name: models, optimizers, schedulers, and
            objects of your own with ``state_dict()`` and ``load_state_dict()``. The models are the
            same on every rank; they begin with the state of the first group.

    Returns:
        The run: its ``batches`` and ``steps`` are the loop.

    Raises:
        RuntimeError: Not called in a training function, without ``FaultTolerantConfig``, or twice.
        ValueError: There is no model among ``objects``, one of them has no state, or a parameter is
            not sharded over the workers of its group.

    Examples:
        >>> import torch
        >>> from ray.train import FailureConfig, RunConfig, ScalingConfig
        >>> from ray.train.torch import FaultTolerantConfig, TorchTrainer, fault_tolerant
        >>> def work():
        ...     model = torch.nn.Linear(1, 1)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     run = fault_tolerant(model=model, optimizer=optimizer)
        ...     loader = torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=2)
        ...     for x in run.batches(loader, epochs=1):
        ...         loss = (model(x) - 2).square().mean()
        ...         optimizer.zero_grad()
        ...         loss.backward()
        ...         optimizer.step()
        ...     return run.step > 0
        >>> TorchTrainer(
        ...     work,
        ...     torch_config=FaultTolerantConfig(),
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
        ... ).fit().return_value
        True
    """
    session = current_session("fault_tolerant")
    if not isinstance(session, WorkerSession) or session.assignment.seat is None:
        raise RuntimeError(
            "fault_tolerant() needs replica groups: TorchTrainer(..., "
            "torch_config=ray.train.torch.FaultTolerantConfig(), "
            "scaling_config=ScalingConfig(num_workers=...)) with at least one worker."
        )
    if _current:
        raise RuntimeError("fault_tolerant() was called twice: pass all objects to one call.")
    state.check(objects)
    if not any(isinstance(value, torch.nn.Module) for value in objects.values()):
        raise ValueError("fault_tolerant() needs the model: fault_tolerant(model=model, ...).")
    state.check_sharding(objects, session.assignment.seat.size)
    run = FaultTolerantRun(session, objects)
    _current.append(run)
    return run


def close_current(failed: bool) -> None:
    """The training function of this process is over."""
    while _current:
        _current.pop().close(failed)
