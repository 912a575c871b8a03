"""The process group of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.core.platform.user_errors import user_error
from heliostat.train.arguments import seconds, whole
from heliostat.train.backend import Backend, BackendConfig, Replicas

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup


@dataclass
class TorchConfig(BackendConfig):
    """The settings with which ``torch.distributed`` is initialised on the workers.

    Attributes:
        backend: "gloo", "nccl" or another one that torch knows. Default None: nccl with GPUs,
            gloo without.
        init_method: "env" (default) or "tcp".
        timeout_s: Timeout of the group's operations in seconds. Default 1800.

    Raises:
        ValueError: Another ``init_method``, or a timeout that is not positive.

    Examples:
        >>> import torch
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchConfig, TorchTrainer
        >>> def work():
        ...     return torch.distributed.get_backend()
        >>> TorchTrainer(
        ...     work,
        ...     torch_config=TorchConfig(backend="gloo", timeout_s=300),
        ...     scaling_config=ScalingConfig(num_workers=2),
        ... ).fit().return_value
        'gloo'
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.init_method not in ("env", "tcp"):
            raise ValueError(f"init_method={self.init_method!r} must be 'env' or 'tcp'.")
        if self.backend is not None and not isinstance(self.backend, str):
            raise ValueError(
                f"TorchConfig(backend={self.backend!r}) must be a name such as 'gloo'."
            )
        seconds("timeout_s", self.timeout_s, above_zero=True)

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchBackend

    @property
    def framework(self) -> str:
        return "torch"

    @property
    def preload(self) -> list[str]:
        # The last is what models and optimizers load at their first step.
        return ["torch", "torch.distributed", "torch._dynamo"]

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        from heliostat.train.torch.process_group import leaving_group_on_failure

        return leaving_group_on_failure


@dataclass
class FaultTolerantConfig(TorchConfig):
    """Workers in replica groups: when one dies, the others go on within the step.

    Each group holds a copy of the model. The training function uses ``fault_tolerant``; within
    a group of several workers ``torch.distributed`` spans the group, and the model is sharded over it
    (``fully_shard``). A lost group counts as a failure of ``FailureConfig(max_failures=...)``.

    Attributes:
        workers_per_replica: Workers of a group; ``num_workers`` is a multiple of it, with
            ``num_workers=(min, max)`` both are: groups join while the others train. Default 1.
        min_replicas: With fewer groups the run restarts from its last checkpoint. Default 1.

    Raises:
        ValueError: One of them is not a whole number from 1 up.

    Examples:
        >>> from ray.train import FailureConfig, RunConfig, ScalingConfig
        >>> from ray.train.torch import FaultTolerantConfig, TorchTrainer
        >>> def work():
        ...     ...  # uses ray.train.torch.fault_tolerant
        >>> trainer = TorchTrainer(
        ...     work,
        ...     torch_config=FaultTolerantConfig(workers_per_replica=1, min_replicas=1),
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
        ... )
    """

    workers_per_replica: int = 1
    min_replicas: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("workers_per_replica", "min_replicas"):
            value = getattr(self, name)
            if whole(value) is None or value < 1:
                raise ValueError(
                    f"FaultTolerantConfig({name}={value!r}) must be a whole number from 1 up."
                )
        if self.backend not in (None, "gloo", "nccl"):
            raise ValueError(
                f"FaultTolerantConfig(backend={self.backend!r}) must be 'gloo', 'nccl' or None for "
                "nccl with GPUs and gloo without."
            )

    @property
    def backend_cls(self) -> type[Backend]:
        return FaultTolerantBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        from heliostat.train.torch.replica.inner import in_replica_group

        return in_replica_group

    def check_workers(self, workers: int | tuple[int, int]) -> None:
        """Refuse a number of workers that cannot be divided into replica groups.

        Args:
            workers: The number, or (least, most).

        Raises:
            ValueError: It cannot be divided.
        """
        size = self.workers_per_replica
        counts = workers if isinstance(workers, tuple) else (workers,)
        if any(count % size for count in counts):
            better = tuple(max(1, count // size) * size for count in counts)
            raise ValueError(
                f"num_workers={workers} cannot be divided into replica groups of "
                f"workers_per_replica={size}: choose a multiple of {size}, such as "
                f"{better if isinstance(workers, tuple) else better[0]}."
            )
        if counts[0] and counts[0] // size < self.min_replicas:
            raise ValueError(
                f"num_workers={workers} makes {counts[0] // size} replica groups of {size}, fewer than "
                f"min_replicas={self.min_replicas}."
            )


class FaultTolerantBackend(Backend):
    """Workers join process groups as they come and go; see ``torch.replica``."""

    has_replica_groups = True

    def replicas(self, world_size: int, backend_config: FaultTolerantConfig) -> Replicas:
        return Replicas(
            backend_config.workers_per_replica,
            backend_config.min_replicas,
            backend_config.backend,
            backend_config.timeout_s,
        )


class TorchftConfig(TorchConfig):
    """Workers in replica groups that the library torchft keeps together; each worker is a group.

    The training function uses torchft itself (its ``Manager``, ``Optimizer`` and process groups). Its
    lighthouse runs beside the coordinator, and ``TORCHFT_LIGHTHOUSE`` says where. A worker that is
    lost is replaced while the others go on, and counts as a failure of ``FailureConfig``.
    ``FaultTolerantConfig`` needs no such library.

    Args:
        lighthouse_kwargs: Arguments of ``torchft.coordination.LighthouseServer``, such as
            ``{"min_replicas": 1}``. ``bind`` is a free port by default.
        kwargs: Those of ``TorchConfig``.

    Raises:
        ImportError: torchft is not installed, when training begins.
        ValueError: ``lighthouse_kwargs`` is not a dict.

    Examples:
        >>> from ray.train import FailureConfig, RunConfig, ScalingConfig
        >>> from ray.train.torch import TorchftConfig, TorchTrainer
        >>> def work():
        ...     ...  # torchft.Manager finds the lighthouse by TORCHFT_LIGHTHOUSE
        >>> trainer = TorchTrainer(
        ...     work,
        ...     torch_config=TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo"),
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
        ... )
    """

    def __init__(self, lighthouse_kwargs: dict[str, Any], **kwargs: Any) -> None:
        if not isinstance(lighthouse_kwargs, dict):
            raise ValueError(
                f"TorchftConfig(lighthouse_kwargs={lighthouse_kwargs!r}) must be a dict such as "
                "{'min_replicas': 1}."
            )
        self.lighthouse_kwargs = lighthouse_kwargs
        super().__init__(**kwargs)

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchftBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        from heliostat.train.torch.replica.inner import in_replica_group

        return in_replica_group


class Lighthouse:
    """An actor with torchft's lighthouse, which knows the replica groups that live."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._server: Any = None

    def address(self) -> str:
        """The lighthouse's address for managers; starts it at first. Raises ImportError without torchft."""
        if self._server is None:
            try:
                from torchft.coordination import (  # type: ignore[import-not-found,unused-ignore] # optional
                    LighthouseServer,
                )
            except ImportError as error:
                raise ImportError(
                    f"TorchftConfig needs the package torchft ({error}): pip install torchft, or "
                    "use ray.train.torch.FaultTolerantConfig, which needs no package."
                ) from error
            self._server = LighthouseServer(**self._options)
        return str(self._server.address())


class TorchftBackend(Backend):
    """Starts the lighthouse; torchft does the rest in the workers."""

    has_replica_groups = True

    def __init__(self) -> None:
        self._lighthouse: Any = None
        self._address = ""

    def on_start(self, worker_group: WorkerGroup, backend_config: TorchftConfig) -> None:
        if self._lighthouse is None:
            options = {"bind": "[::]:0", **backend_config.lighthouse_kwargs}
            self._lighthouse = ray.remote(Lighthouse).options(num_cpus=0).remote(options)
        try:
            self._address = ray.get(self._lighthouse.address.remote())
        except ray.exceptions.RayTaskError as error:
            raise user_error(error) from None
        except ray.exceptions.RayError:
            self._lighthouse = None  # it has died: the next attempt starts another
            raise

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: TorchftConfig) -> None:
        if self._lighthouse is not None:
            ray.kill(self._lighthouse)
            self._lighthouse = None

    def replicas(self, world_size: int, backend_config: TorchftConfig) -> Replicas:
        return Replicas(
            size=1,
            least=int(backend_config.lighthouse_kwargs.get("min_replicas", 1)),
            backend=backend_config.backend,
            timeout_s=backend_config.timeout_s,
            environment={"TORCHFT_LIGHTHOUSE": self._address},
            has_quorum=False,
        )


class TorchBackend(Backend):
    """Sets the process group up before the training function starts."""

    share_cuda_visible_devices = True

    def on_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        from heliostat.train.torch import process_group

        gpus = any(w.info.gpu_ids for w in worker_group.workers)
        backend = backend_config.backend or ("nccl" if gpus else "gloo")
        world_size = len(worker_group)
        options = (backend, backend_config.init_method, backend_config.timeout_s, world_size)
        # Rank 0 opens the meeting point on a port that the system chooses, so that no other
        # process can take the port in between.
        address, port = worker_group.execute_single(
            0, process_group.open_store, backend_config.init_method, world_size, options[2]
        )
        worker_group.results(
            [
                worker_group.execute_single_async(
                    rank,
                    process_group.join,
                    *options,
                    rank,
                    address,
                    port,
                    worker_group.ranks[rank],
                    bool(worker_group.workers[rank].info.gpu_ids),
                )
                for rank in range(world_size)
            ]
        )
