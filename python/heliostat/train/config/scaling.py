"""The number of workers, and the resources of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.core.platform import notebooks
from heliostat.train.arguments import is_amount, refuse_deprecated, seconds, whole
from heliostat.train.config.bundles import STRATEGIES, PlacementGroupFactory

# Other spellings of resources.
_USUAL_NAMES = {
    **dict.fromkeys(("cpu", "cpus", "num_cpus"), "CPU"),
    **dict.fromkeys(("gpu", "gpus", "num_gpus"), "GPU"),
    "memory": "memory",
}


@dataclass
class ScalingConfig:
    """The number of workers, and the resources of each.

    Attributes:
        trainer_resources: Refused (DeprecationWarning): the controller needs no resources.
        num_workers: Number of workers; ``(min, max)`` for elastic training, which starts with as
            many as fit, goes on smaller after a loss and grows again; ``0`` runs the function in
            this process. Default 1.
        use_gpu: Each worker gets a GPU. Default False.
        resources_per_worker: Amounts by name. Default ``{"CPU": 1}``, with ``use_gpu``
            ``{"GPU": 1}``.
        placement_strategy: "PACK" (default), "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".
        accelerator_type: Only nodes with this accelerator.
        label_selector: Only nodes with these labels: one mapping, or one per worker.
        use_tpu, topology: Refused: there is no TPU backend.
        elastic_resize_monitor_interval_s: Checked and kept, without an effect: an elastic group hears
            of room when it appears. Default 60.

    Raises:
        ValueError: A number out of range, or ``resources_per_worker`` that contradicts ``use_gpu``.

    Examples:
        >>> import ray
        >>> from ray.train import ScalingConfig
        >>> ScalingConfig(num_workers=4, use_gpu=True).num_workers
        4
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 60.0

    def _repr_html_(self) -> str:
        """The configuration as a notebook shows it."""
        return notebooks.settings(self)

    def __post_init__(self) -> None:
        refuse_deprecated("ScalingConfig", trainer_resources=self.trainer_resources)
        if self.use_gpu not in (True, False):
            raise ValueError(
                f"use_gpu={self.use_gpu!r} must be True or False; how many each worker gets says "
                "resources_per_worker={'GPU': ...}."
            )
        self._check_workers()
        self._check_resources()
        if self.use_tpu or self.topology is not None:
            raise ValueError("There is no TPU backend: leave `use_tpu` and `topology` out.")
        if self.placement_strategy not in STRATEGIES:
            raise ValueError(
                f"placement_strategy={self.placement_strategy!r}; choose one of "
                f"{', '.join(STRATEGIES)}."
            )
        seconds("elastic_resize_monitor_interval_s", self.elastic_resize_monitor_interval_s)
        self._check_places()

    def _check_workers(self) -> None:
        n: Any = self.num_workers
        if isinstance(n, list | tuple):
            pair = tuple(whole(v) for v in n)
            if len(pair) != 2 or pair[0] is None or pair[1] is None or not 1 <= pair[0] <= pair[1]:
                raise ValueError(
                    f"num_workers={n} must be (min, max) with whole numbers and 1 <= min <= max."
                )
            self.num_workers = (pair[0], pair[1])
            return
        count = whole(n)
        if count is None or count < 0:
            raise ValueError(
                f"num_workers={n!r} must be a whole number from 1 up, a pair (min, max), or 0 to "
                "run the training function in this process."
            )
        self.num_workers = count

    def _check_places(self) -> None:
        kind = self.accelerator_type
        if kind is not None and not isinstance(kind, str):
            raise ValueError(f"accelerator_type={kind!r} must be a name such as 'A100'.")
        labels: Any = self.label_selector
        rows = labels if isinstance(labels, list) else [labels or {}]
        if not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(
                f"label_selector={labels!r} must be a dict such as {{'zone': 'a'}}, or a list of "
                "them with one for each worker."
            )
        if isinstance(labels, list) and len(labels) != self.max_workers:
            raise ValueError(
                f"label_selector is a list of {len(labels)} for {self.max_workers} workers: give "
                "one dict for each worker, or a single dict for all."
            )

    def _check_resources(self) -> None:
        given: Any = self.resources_per_worker
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise ValueError(
                f"resources_per_worker must map names to amounts, not {type(given).__name__}."
            )
        for name, amount in given.items():
            if not isinstance(name, str):
                raise ValueError(f"resources_per_worker has the name {name!r}; names are strings.")
            if not is_amount(amount):
                raise ValueError(f"resources_per_worker[{name!r}]={amount!r} must be 0 or more.")
            usual = _USUAL_NAMES.get(name.lower())
            if usual is not None and usual != name:
                raise ValueError(f"resources_per_worker names {name!r}; write {usual!r}.")
        gpus = given.get("GPU")
        if gpus and not self.use_gpu:
            raise ValueError(
                f"resources_per_worker asks for {gpus:g} GPU per worker while use_gpu=False. Set "
                "use_gpu=True to train on GPUs, or remove 'GPU' from resources_per_worker to "
                "train on CPUs."
            )
        if self.use_gpu and gpus == 0:
            raise ValueError(
                "use_gpu=True while resources_per_worker asks for 0 GPU per worker. Set "
                "use_gpu=False, or give 'GPU' a positive amount."
            )
        if not self.worker_resources:
            raise ValueError(
                f"resources_per_worker={dict(given)!r} asks for nothing. Leave it out for one CPU "
                "per worker, or give a share such as {'CPU': 0.1}."
            )

    @property
    def elasticity_enabled(self) -> bool:
        """True when ``num_workers`` is a pair."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """The smallest group that may run."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """The largest group that may run."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def worker_resources(self) -> dict[str, float]:
        """The resources that one worker requests, by name, without zero amounts."""
        if self.resources_per_worker is None:
            wanted: dict[str, float] = {"GPU": 1} if self.use_gpu else {"CPU": 1}
        else:
            wanted = dict(self.resources_per_worker)
            if self.use_gpu:
                wanted.setdefault("GPU", 1)
        return {name: amount for name, amount in wanted.items() if amount}

    @property
    def num_cpus_per_worker(self) -> float:
        """CPUs of one worker."""
        return self.worker_resources.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        """GPUs of one worker."""
        return self.worker_resources.get("GPU", 0)

    @property
    def num_tpus_per_worker(self) -> float:
        """TPUs of one worker, where nodes offer them as a resource of that name."""
        return self.worker_resources.get("TPU", 0)

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """The resources that one worker requests besides CPU, GPU and memory."""
        known = ("CPU", "GPU", "memory")
        return {k: v for k, v in self.worker_resources.items() if k not in known}

    @property
    def total_resources(self) -> dict[str, float]:
        """The resources that the largest group requests in all."""
        return {name: v * self.max_workers for name, v in self.worker_resources.items()}

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """Return what a trial of ``ray.tune`` takes that trains so: a bundle for each worker."""
        bundle = dict(self.worker_resources)
        if self.accelerator_type:
            bundle[f"accelerator_type:{self.accelerator_type}"] = 0.001
        bundles: list[dict[str, float]] = [{}, *(dict(bundle) for _ in range(self.max_workers))]
        return PlacementGroupFactory(bundles, strategy=self.placement_strategy)
