"""``resumable``: a loop over steps that goes on where a run was, in whatever group it is now."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import current_session
from heliostat.train.errors import CheckpointMismatchError
from heliostat.train.replicas.plan import SamplePlan
from heliostat.train.steps.clock import reporting
from heliostat.train.torch.device import get_device
from heliostat.train.torch.loader import _move
from heliostat.train.torch.replica.feed import Feed, refuse_second_loop, unwrapped
from heliostat.train.torch.resume import files, peers
from heliostat.train.torch.resume.background import Copier
from heliostat.train.torch.resume.saver import Saver
from heliostat.train.torch.resume.view import StateView
from heliostat.train.validation import ValidationTaskConfig
from heliostat.train.worker.session import WorkerSession


class ResumableRun:
    """The steps of a training function, and its state; made by ``resumable``.

    Attributes:
        session: The worker.
        objects: What is saved and restored, by name.
        step: Steps that the run has taken; the number of the step that is being taken.
        restored_from: "memory", "storage", or "" where the run begins.

    Examples:
        >>> import torch
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, resumable
        >>> def work():
        ...     model = torch.nn.Linear(1, 1)
        ...     run = resumable(model=model)
        ...     print("restored from", run.restored_from or "nothing", "at step", run.step)
        ...     for step in run.steps(1000):
        ...         ...  # train
        ...         if run.step % 100 == 0:
        ...             run.report({"step": run.step})  # and saves
        >>> trainer = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2))
    """

    def __init__(self, session: WorkerSession, objects: dict[str, Any]) -> None:
        self.step = 0
        self.restored_from = ""
        self._session = session
        self._view = StateView(objects)
        self._copier = Copier(self._view.optimizers.values())
        assignment = session.assignment
        self._rank, self._world_size = assignment.world_rank, assignment.world_size
        self._saver = Saver(
            assignment.storage,
            self._copier,
            str(assignment.attempt),
            self._rank,
            assignment.settings.fsync,
        )
        self._giver = peers.Giver(session, self._copier)
        self._plan: SamplePlan | None = None
        self._readers = range(1)
        self._position: dict[str, Any] | None = None
        self._is_in = self._is_in_step = False
        self._reported = -1
        self._metrics: dict[str, Any] = {}
        # Between two steps a rank stops where it is asked to save; this keeps the count and the asking apart.
        self._lock = threading.Lock()
        self._saved_round = 0
        session.at_end(self._copier.close)
        self._restore()
        session.answer_saves(self._asked_to_save)

    @property
    def epoch(self) -> int:
        """The epoch of ``batches``, from 0."""
        if self._plan is not None:
            return self._plan.epoch
        return int((self._position or {}).get("epoch", 0))

    # ---- steps ----

    def steps(self, until: int | None = None) -> Iterator[int]:
        """Take steps until ``until`` have been taken by the run; yields the number of each, from 0.

        Args:
            until: Steps of the whole run. Default None: until the loop is left.

        Yields:
            The number of the step, from 0.
        """
        self._enter()
        while until is None or self.step < until:
            self._begin_step()
            yield self.step
            self._after_step()

    def batches(
        self, loader: Any, *, epochs: int = 1, mesh: Any = None, keep_batch: bool = False
    ) -> Iterator[Any]:
        """Take a step for each batch of a data loader; yields this worker's batches on its device.

        Each sample is in exactly one step of each epoch (with ``drop_last`` but for the rest), also
        when the run goes on with another number of workers in the middle of it. What is left for
        the last step of an epoch is dealt out evenly.

        Args:
            loader: A torch ``DataLoader`` over a map-style dataset, with ``batch_size`` samples for a
                worker. It is not passed through ``prepare_data_loader``. Where it shuffles, the
                order follows from its ``generator``'s seed and the epoch.
            epochs: How often to go through the dataset. Default 1.
            mesh: A ``DeviceMesh`` of one dimension, whose ranks read different samples. Default: all
                workers do. With tensor parallelism it is the dimension of data parallelism.
            keep_batch: A step has as many samples in all as with the largest group of
                ``num_workers=(min, max)``, however many workers there are: they share it as evenly as
                it goes. ``DistributedDataParallel`` then averages gradients by samples; where
                another wrapper does the averaging, choose sizes that divide. Default False: as many
                samples a worker.

        Yields:
            A batch.

        Raises:
            ValueError: The loader's samples cannot be dealt out by number.
        """
        plain = unwrapped(loader)
        index, count = self._rank, self._world_size
        if mesh is not None:
            if mesh.ndim != 1:
                raise ValueError(
                    f"batches(mesh=...) takes one dimension of a mesh, not {mesh.ndim}."
                )
            index, count = mesh.get_local_rank(), mesh.size()
        assert plain.batch_size is not None
        total = len(plain.dataset)
        groups = count
        if keep_batch:
            groups = self._session.assignment.max_workers * count // self._world_size
        plan = SamplePlan(total, plain.batch_size, groups, keep_batch, plain.drop_last)
        if self._position is not None:
            if self._position["total"] != total:
                raise ValueError(
                    f"The run was in the middle of {self._position['total']} samples, and the dataset "
                    f"has {total} now: go on with the same dataset, or begin another run."
                )
            plan.load_state_dict(self._position)
        feed, device, readers = Feed(plain, plan, 0, 1), get_device(), range(count)
        self._plan, self._readers = plan, readers
        average = self._view.average_by_samples() if keep_batch and count > 1 else None
        self._enter()
        while plan.epoch < epochs:
            shares = plan.shares(readers)
            if not shares:
                plan.next_epoch()
                continue
            if average is not None:
                sizes = [sum(b - a for a, b in spans) for spans in shares.values()]
                average.weight = sizes[index] * count / sum(sizes)
            batch = _move(feed.next(shares, index), device)
            self._begin_step()
            yield batch
            plan.done(shares, readers)
            self._after_step()

    def _enter(self) -> None:
        refuse_second_loop(self._is_in)
        self._is_in = True

    def _begin_step(self) -> None:
        """Save before the step, where all ranks have been asked to and have come as far."""
        with self._lock:
            round_ = self._session.save_round
            self._is_in_step = round_ == self._saved_round
        if self._is_in_step:
            return
        if self.step >= self._session.save_target(round_, self.step):
            self._saved_round = round_
            self._save_now()
        with self._lock:
            self._is_in_step = True

    def _asked_to_save(self, round_: int) -> int:
        """From now on no step is begun without looking; how many will have been made until then."""
        with self._lock:
            self._session.save_round = round_
            return self.step + self._is_in_step

    def _save_now(self) -> None:
        """Save the state, and wait until it is stored: a step that is taken meanwhile might be lost."""
        if self._session.assignment.memory_every and not self._giver.is_due(self.step):
            self._giver.give(
                self.step, self._view.read(self._more(self.step)), self._view.stepped()
            )
        self._giver.wait()  # the report ends this attempt, and with it what is still under way
        if self._reported != self.step:
            self.report(self._metrics or {"step": self.step})
        self._session.flush()

    def _after_step(self) -> None:
        with self._lock:
            self._is_in_step = False
            self.step += 1
        if self._giver.is_due(self.step):
            self._giver.give(
                self.step, self._view.read(self._more(self.step)), self._view.stepped()
            )

    # ---- saving ----

    def report(
        self,
        metrics: dict[str, Any],
        *,
        checkpoint_dir_name: str | None = None,
        validation: bool | ValidationTaskConfig = False,
    ) -> None:
        """Report metrics with a checkpoint of the state after this step, beside the next ones.

        Call it behind ``optimizer.step()``, on every rank. Each rank writes its shards, in the format of
        ``torch.distributed.checkpoint``; the checkpoint is published when all have been written.
        One at a time: the next call waits for the one before. Where it cannot be stored, the run says
        so and goes on; the last one has to be stored.

        Args:
            metrics: See ``ray.train.report``.
            checkpoint_dir_name: Name of its folder in the run. Default: ``checkpoint_<date and time>``.
            validation: See ``ray.train.report``.

        Raises:
            ValueError: It is called twice in a step, or the metrics cannot be stored.
        """
        made = self.step + self._is_in_step
        if made == self._reported:
            raise ValueError(
                f"report() was called twice in step {self.step}: report once, with all metrics."
            )
        self._reported, self._metrics = made, metrics
        metadata = {"step": made, "epoch": self.epoch, "world_size": self._world_size}
        with reporting():
            written = self._saver.begin(
                self._view.read(self._more(made)), self._view.stepped(), metadata
            )
            self._session.report(
                metrics,
                None,
                dir_name=checkpoint_dir_name,
                validation=validation,
                written=written,
                step=made,
            )

    def _more(self, step: int) -> dict[str, Any]:
        """Return the part of the state besides the objects."""
        position = self._position
        if self._plan is not None:
            position = {"total": self._plan.total, **self._plan.state_dict()}
            if step > self.step:  # within the step: it counts as made
                ahead = replace(self._plan, owed=list(self._plan.owed))
                ahead.done(ahead.shares(self._readers), self._readers)
                position = {"total": ahead.total, **ahead.state_dict()}
        return {"step": step, "position": position}

    # ---- restoring ----

    def _restore(self) -> None:
        """From memory where that is newest, else from the latest checkpoint that is whole."""
        offer, checkpoint = self._session.assignment.memory, self._session.checkpoint()
        saved = _step_of(checkpoint) if checkpoint is not None else -1
        if offer is not None and offer.version.step >= saved:
            problem = self._try(functools.partial(peers.take, offer))
            if not problem:
                self.restored_from = "memory"
                self._session.restored_from(len(offer.parts))
                return
            self._say(f"the state in peers' memory cannot be used: {problem}")
        if checkpoint is None:
            return
        problem = self._try(functools.partial(self._load, checkpoint))
        earlier = [] if not problem else self._session.reported(False, None)[:-1]
        for older in reversed(earlier):
            self._say(f"{problem} The run goes on from {older.checkpoint.path}.")
            problem = self._try(functools.partial(self._load, older.checkpoint))
            if not problem:
                break
        if problem:
            raise RuntimeError(problem)
        self.restored_from = "storage"

    def _try(self, fill: Callable[[dict[str, Any]], None]) -> str:
        """Restore with ``fill``; what went wrong on some rank, "" where nothing did on any.

        Raises:
            CheckpointMismatchError: It is the state of another model.
        """
        flat = self._view.read()
        problem, mismatch = "", None
        try:
            fill(flat)
        except CheckpointMismatchError as error:
            problem, mismatch = str(error), error
        except Exception as error:
            problem = str(error) or repr(error)
        found = self._session.gather(problem)
        if mismatch is not None:
            raise mismatch
        problems: list[str] = [text for _, text in sorted(found.items()) if text]
        if problems:
            return problems[0]
        more = self._view.write(flat)
        self.step, self._position = int(more["step"]), more["position"]
        self._reported = -1
        return ""

    def _load(self, checkpoint: Checkpoint, flat: dict[str, Any]) -> None:
        with checkpoint.as_directory() as folder:
            files.verify(folder, self._rank, self._world_size)
            files.load_folder(flat, folder)

    def _say(self, text: str) -> None:
        if self._rank == 0:
            self._session.note(text)


def _step_of(checkpoint: Checkpoint) -> int:
    return int(checkpoint.get_metadata().get("step", -1))


def resumable(**objects: Any) -> ResumableRun:
    """Save and restore the state of a training function as shards, whatever its parallelism.

    The call itself restores: after a failure, or when a run is started again, the objects get the state
    from peers' memory (``CheckpointConfig(memory_every_n_steps=...)``) or of the latest checkpoint, and
    the steps and samples go on behind it, also on another number of workers or another mesh::

        run = ray.train.torch.resumable(model=model, optimizer=optimizer)
        for x, y in run.batches(loader, epochs=3):
            loss = loss_of(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if run.step % 100 == 0:
                run.report({"loss": loss.item()})

    Args:
        objects: Everything that has state, by name: models (plain, ``DistributedDataParallel``,
            ``fully_shard``, ``parallelize_module``), optimizers, schedulers, and objects of your own
            with ``state_dict()`` and ``load_state_dict()``, the same on every rank: those of rank 0
            are kept.

    Returns:
        The run: its ``batches`` and ``steps`` are the loop.

    Raises:
        RuntimeError: Not called in a worker of a ``TorchTrainer``, or with replica groups.
        ValueError: There is no model among ``objects``, or one of them has no state.
        CheckpointMismatchError: The run's checkpoint has another model. The first tensor is named.

    Examples:
        >>> import torch
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, resumable
        >>> def work():
        ...     model = torch.nn.Linear(1, 1)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     run = resumable(model=model, optimizer=optimizer)
        ...     loader = torch.utils.data.DataLoader(torch.ones(4, 1), batch_size=2)
        ...     for x in run.batches(loader, epochs=2):
        ...         loss = (model(x) - 2).square().mean()
        ...         optimizer.zero_grad()
        ...         loss.backward()
        ...         optimizer.step()
        ...     return run.step
        >>> TorchTrainer(work, scaling_config=ScalingConfig(num_workers=1)).fit().return_value
        4
    """
    session = current_session("resumable")
    if not isinstance(session, WorkerSession):
        raise RuntimeError(
            "resumable() needs workers: ScalingConfig(num_workers=1) or more. In this process, "
            "load with ray.train.torch.load_checkpoint()."
        )
    if session.assignment.seat is not None:
        raise RuntimeError(
            "resumable() is for a TorchTrainer without replica groups; with FaultTolerantConfig use "
            "fault_tolerant(), and save checkpoints with ray.train.report()."
        )
    if not any(isinstance(value, torch.nn.Module) for value in objects.values()):
        raise ValueError("resumable() needs the model: resumable(model=model, ...).")
    return ResumableRun(session, objects)
