"""The division of datasets among the workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class DataConfig:
    """The choice of the datasets that are split between the workers; each worker reads the others
    in full.

    Derive from it and override ``configure`` for another way.

    Examples:
        >>> import ray
        >>> from ray import train
        >>> from ray.train import DataConfig, DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     for name in ("train", "test"):
        ...         rows = sum(1 for _ in train.get_dataset_shard(name).iter_rows())
        ...         print(name, rows)
        >>> trainer = DataParallelTrainer(
        ...     work,
        ...     scaling_config=ScalingConfig(num_workers=0),
        ...     datasets={"train": ray.data.range(8), "test": ray.data.range(2)},
        ...     dataset_config=DataConfig(datasets_to_split=["train"]),  # each worker reads all of "test"
        ... )
        >>> _ = trainer.fit()
        train 8
        test 2
    """

    def __init__(
        self,
        datasets_to_split: str | list[str] = "all",
        execution_options: Any | None = None,
        enable_shard_locality: bool = True,
    ) -> None:
        """Choose what is split.

        Args:
            datasets_to_split: "all" (default) or the names of the datasets to split.
            execution_options: Options for the execution of all datasets, or a dict of them by name.
            enable_shard_locality: Prefer blocks on the node of the reading worker. Default True.

        Raises:
            TypeError: ``datasets_to_split`` is neither "all" nor a list of names.
        """
        if datasets_to_split != "all" and not isinstance(datasets_to_split, list):
            raise TypeError(
                "datasets_to_split must be 'all' or a list of dataset names, not "
                f"{datasets_to_split!r}."
            )
        self._datasets_to_split = datasets_to_split
        self._execution_options = execution_options
        self._enable_shard_locality = enable_shard_locality

    @staticmethod
    def default_ingest_options() -> Any:
        """Return fresh execution options of the data library."""
        import heliostat.data

        return heliostat.data.ExecutionOptions()

    def configure(
        self,
        datasets: dict[str, Any],
        world_size: int,
        worker_handles: list[Any] | None,
        worker_node_ids: list[str] | None,
        **_: Any,
    ) -> list[dict[str, Any]]:
        """Return one dict per rank that maps dataset names to iterators.

        Args:
            datasets: The trainer's datasets by name.
            world_size: How many workers there are.
            worker_handles: Has no effect.
            worker_node_ids: The node of each worker, near which its blocks should be.

        Raises:
            ValueError: A dataset to split does not exist.
        """
        split = self.names_to_split(datasets)
        hints = worker_node_ids if self._enable_shard_locality else None
        rows: list[dict[str, Any]] = [{} for _ in range(world_size)]
        for name, dataset in datasets.items():
            self._set_options(name, dataset)
            if name in split:
                shards = dataset.streaming_split(world_size, equal=True, locality_hints=hints)
            else:
                shards = [dataset.iterator() for _ in range(world_size)]
            for row, shard in zip(rows, shards, strict=True):
                row[name] = shard
        return rows

    def names_to_split(self, datasets: Mapping[str, Any]) -> set[str]:
        """Return which of these datasets are split.

        Args:
            datasets: The trainer's datasets by name.

        Raises:
            ValueError: One that is to be split is not there.
        """
        if self._datasets_to_split == "all":
            return set(datasets)
        unknown = set(self._datasets_to_split) - set(datasets)
        if unknown:
            raise ValueError(
                f"datasets_to_split names {sorted(map(str, unknown))}, but the trainer has "
                f"{sorted(datasets)}."
            )
        return set(self._datasets_to_split)

    def _set_options(self, name: str, dataset: Any) -> None:
        options = self._execution_options
        if isinstance(options, dict):
            options = options.get(name)
        if options is not None:
            dataset.context.execution_options = options


def made(name: str, dataset: Any) -> Any:
    """The dataset that a trainer got as ``datasets[name]``, which may be a function that makes it.

    Raises:
        ValueError: The function returned something else.
    """
    if not callable(dataset):
        return dataset
    found = dataset()
    if not hasattr(found, "streaming_split"):
        raise ValueError(
            f"The function passed as datasets[{name!r}] returned a {type(found).__name__}, not a "
            "ray.data.Dataset."
        )
    return found
