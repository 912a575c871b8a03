"""Batches of a data loader, as the plan of samples says; loader processes read ahead of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.sampler import RandomSampler, SequentialSampler

from heliostat.train.replicas.plan import SamplePlan, Span, part, places


def unwrapped(loader: Any) -> DataLoader[Any]:
    """The torch loader in what a user gives. Raises ValueError when its samples cannot be dealt out."""
    from heliostat.train.torch.loader import DeviceLoader

    if isinstance(loader, DeviceLoader):
        loader = loader._loader
    if not isinstance(loader, DataLoader):
        raise ValueError(
            f"batches() takes a torch DataLoader, not {type(loader).__name__}. With data of another "
            "kind write `for step in run.steps(...)`, and choose what each step reads by "
            "run.step, run.index and run.count."
        )
    if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
        raise ValueError(
            "batches() deals samples out by their number, which an IterableDataset or a loader with a "
            "batch_sampler does not have. Use a map-style dataset with batch_size=..., or "
            "`for step in run.steps(...)`."
        )
    if not isinstance(loader.sampler, RandomSampler | SequentialSampler):
        raise ValueError(
            f"batches() deals samples out itself: leave the sampler {type(loader.sampler).__name__} "
            "out, and give the loader shuffle=True or False. prepare_data_loader() is not needed."
        )
    if len(loader.dataset) == 0:
        raise ValueError("batches() got a DataLoader whose dataset is empty.")
    return loader


def refuse_second_loop(has_begun: bool) -> None:
    """Raise RuntimeError where the loop of the run has begun."""
    if has_begun:
        raise RuntimeError(
            "steps() or batches() was called a second time: one loop makes all steps of a run. "
            "For several epochs write batches(loader, epochs=...)."
        )


class Feed:
    """This rank's batches. What was read ahead is dropped when the groups change."""

    def __init__(self, loader: DataLoader[Any], plan: SamplePlan, shard: int, size: int) -> None:
        self._loader = loader
        self._plan = plan
        self._shard, self._size = shard, size
        self._shuffles = isinstance(loader.sampler, RandomSampler)
        generator = getattr(loader.sampler, "generator", None) or loader.generator
        self._seed = generator.initial_seed() % (1 << 31) if generator is not None else 0
        self._batches: Iterator[Any] | None = None
        self._ahead: deque[list[int]] = deque()
        self._of_epoch: tuple[int, list[int]] | None = None

    def next(self, shares: dict[int, list[Span]], group: int) -> Any:
        """The batch of the step with these shares."""
        wanted = self._mine(self._plan.epoch, shares, group)
        if self._batches is not None and self._ahead and self._ahead[0] == wanted:
            self._ahead.popleft()
            return next(self._batches)
        self._ahead.clear()
        self._batches = iter(self._reading_ahead(tuple(shares), group))
        batch = next(self._batches)
        self._ahead.popleft()
        return batch

    def _reading_ahead(self, groups: tuple[int, ...], group: int) -> DataLoader[Any]:
        """A loader from the plan's position on, as if the groups stayed as they are."""
        old, plan = self._loader, self._plan
        ghost = SamplePlan(plan.total, plan.batch, plan.groups, plan.keeps_batch, plan.drop_last)
        ghost.load_state_dict(plan.state_dict())
        ahead = self._ahead

        class Ahead:
            def __iter__(_) -> Iterator[list[int]]:
                while shares := ghost.shares(groups):
                    mine = self._mine(ghost.epoch, shares, group)
                    ahead.append(mine)
                    yield mine
                    ghost.done(shares, set(groups))

        options: dict[str, Any] = {
            "num_workers": old.num_workers,
            "collate_fn": old.collate_fn,
            "pin_memory": old.pin_memory,
            "timeout": old.timeout,
            "worker_init_fn": old.worker_init_fn,
            "multiprocessing_context": old.multiprocessing_context,
        }
        if old.num_workers > 0:
            options["prefetch_factor"] = old.prefetch_factor
        return DataLoader(old.dataset, batch_sampler=Ahead(), **options)

    def _mine(self, epoch: int, shares: dict[int, list[Span]], group: int) -> list[int]:
        order = self._order(epoch)
        mine = places(part(shares[group], self._shard, self._size))
        # A rank without samples computes on one that does not count, to be there in the round.
        return [order[place] for place in mine] or [order[0]]

    def _order(self, epoch: int) -> list[int]:
        if self._of_epoch is None or self._of_epoch[0] != epoch:
            if self._shuffles:
                generator = torch.Generator()
                generator.manual_seed(self._seed + epoch)
                order = torch.randperm(self._plan.total, generator=generator).tolist()
            else:
                order = list(range(self._plan.total))
            self._of_epoch = epoch, order
        return self._of_epoch[1]
