"""The trainer: the same function on every worker."""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.train.arguments import expect
from heliostat.train.backend import BackendConfig
from heliostat.train.base_trainer import GONE, BaseTrainer
from heliostat.train.config import RunConfig, ScalingConfig
from heliostat.train.config.run import named_by_time
from heliostat.train.data_config import DataConfig
from heliostat.train.validation import ValidationConfig

if TYPE_CHECKING:
    from heliostat.train.controller.spec import RunSpec
    from heliostat.train.result import Result
    from heliostat.train.storage.base import Storage


class DataParallelTrainer(BaseTrainer):
    """Runs ``train_loop_per_worker`` on a group of workers.

    Args:
        train_loop_per_worker: A function of no argument, or of one: ``train_loop_config``.
        train_loop_config: A dict for the function. Default None.
        backend_config: The framework that connects the workers. Default: none.
        scaling_config: Number of workers and their resources. Default: one worker with one CPU.
        run_config: Storage, failures, checkpoints. Default: ``RunConfig()``.
        datasets: Datasets by name, or functions that make them; see ``get_dataset_shard``.
        dataset_config: How they are split. Default: all of them.
        validation_config: What ``report(validation=...)`` validates checkpoints with.
        metadata, resume_from_checkpoint: Refused (DeprecationWarning).

    Raises:
        ValueError: The function cannot take what it will be called with.
        DeprecationWarning: ``metadata`` or ``resume_from_checkpoint`` is given.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work(config):
        ...     rank = train.get_context().get_world_rank()
        ...     train.report({"rank": rank, "rate": config["rate"]})
        >>> trainer = DataParallelTrainer(
        ...     work, train_loop_config={"rate": 0.1}, scaling_config=ScalingConfig(num_workers=2)
        ... )
        >>> trainer.fit().metrics
        {'rank': 0, 'rate': 0.1}
    """

    _scaling_config_allowed_keys: ClassVar[list[str]] = [
        *BaseTrainer._scaling_config_allowed_keys,
        "num_workers",
        "resources_per_worker",
        "use_gpu",
        "placement_strategy",
        "accelerator_type",
    ]
    _fields_for_tuner_param_space: ClassVar[list[str]] = ["train_loop_config"]
    _dataset_config: ClassVar[DataConfig | None] = None

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        backend_config: BackendConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Any = None,
    ) -> None:
        from heliostat.train.controller.checks import check_datasets, takes_config

        if resume_from_checkpoint is not None:
            raise DeprecationWarning(
                GONE.format(
                    name="resume_from_checkpoint",
                    instead="Pass the checkpoint's path in train_loop_config, or run again with "
                    "the same RunConfig(name=..., storage_path=...) to resume.",
                )
            )
        if metadata is not None:
            raise DeprecationWarning(
                GONE.format(name="metadata", instead="Put it into train_loop_config.")
            )
        expect("backend_config", backend_config, BackendConfig)
        expect("scaling_config", scaling_config, ScalingConfig)
        expect("run_config", run_config, RunConfig)
        expect("dataset_config", dataset_config, DataConfig)
        expect("validation_config", validation_config, ValidationConfig)
        if train_loop_config is not None and not isinstance(train_loop_config, dict):
            raise ValueError(
                f"train_loop_config must be a dict, not {type(train_loop_config).__name__}."
            )
        self._takes_config = takes_config(train_loop_per_worker, train_loop_config)
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = train_loop_config
        self.validation_config = validation_config
        self.backend_config = backend_config or BackendConfig()
        self.scaling_config = scaling_config or ScalingConfig()
        self.run_config = (run_config or RunConfig()).for_training()
        self.data_config = dataset_config or DataConfig()
        check_datasets(datasets or {}, self.data_config)
        self.datasets = dict(datasets or {})

    def fit(self) -> Result:
        """Train, and return when every worker's function has returned.

        Raises:
            WorkerGroupError: Workers failed more often than ``FailureConfig.max_failures`` allows.
            ControllerError: Something else failed: storage, a callback, the coordinator. The cluster
                has no room for the workers: the text says what is short where.
            ValueError: The storage cannot be used, or another run is using its folder.
            KeyboardInterrupt: After Ctrl-C; the workers are ended before it is raised.

        Examples:
            >>> import ray
            >>> from ray import train
            >>> from ray.train import DataParallelTrainer, RunConfig, ScalingConfig
            >>> def work(config):
            ...     train.report({"workers": train.get_context().get_world_size(), "lr": config["lr"]})
            >>> trainer = DataParallelTrainer(
            ...     work,
            ...     train_loop_config={"lr": 0.1},
            ...     scaling_config=ScalingConfig(num_workers=2),
            ...     run_config=RunConfig(name="two_workers"),
            ... )
            >>> trainer.fit().metrics
            {'workers': 2, 'lr': 0.1}
        """
        if self.scaling_config.max_workers == 0:
            from heliostat.train.controller.local import run_locally

            return run_locally(self._spec())
        spec = self._spec()
        begin_unless_begun()
        from heliostat.train.controller.run import TrainRun

        with spec.storage.alone():
            return TrainRun(spec).execute()

    def _spec(self) -> RunSpec:
        from heliostat.train.controller.checks import open_run
        from heliostat.train.controller.spec import RunSpec
        from heliostat.train.messages import Job
        from heliostat.train.settings import TrainSettings
        from heliostat.train.storage.opening import open_storage

        settings = TrainSettings.from_environment()
        run_config = self.run_config

        def place(name: str) -> Storage:
            return open_storage(
                run_config.storage_path, name, run_config.storage_filesystem, fsync=settings.fsync
            )

        storage = place(run_config.name) if run_config.name else self._place_of_its_own(place)
        book = open_run(storage, run_config)
        return RunSpec(
            job=Job(
                self.train_loop_per_worker,
                self._loop_config(),
                self._takes_config,
                self.backend_config,
                self.validation_config,
            ),
            backend_config=self.backend_config,
            scaling=self.scaling_config,
            run_config=run_config,
            datasets=self.datasets,
            data_config=self.data_config,
            settings=settings,
            storage=storage,
            book=book,
            run_id=uuid.uuid4().hex[:16],
            trainer=type(self).__name__,
        )

    def _place_of_its_own(self, place: Callable[[str], Storage]) -> Storage:
        """A folder that no run has used: two runs of one second must not resume each other."""
        name = named_by_time()
        storage = place(name)
        if self.scaling_config.max_workers == 0 and "RANK" in os.environ:
            return storage  # the processes of `torchrun` are one run
        with contextlib.suppress(OSError):  # it is said where the folder is made
            for number in itertools.count(2):
                if storage.take_place():
                    break
                storage = place(f"{name}-{number}")
        return storage

    def _loop_config(self) -> dict[str, Any] | None:
        if self.train_loop_config is None and self._takes_config:
            return {}
        return self.train_loop_config
