"""Lightning's own strategies on the device and the ranks of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.train.context import get_context
from heliostat.train.lightning.library import strategies
from heliostat.train.torch.device import get_device

if TYPE_CHECKING:
    import torch


class _OnWorker:
    """The device and the rank of a worker, in the place of those that Lightning would choose."""

    @property
    def root_device(self) -> torch.device:
        """The device of this worker."""
        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """This worker's part of the rows."""
        context = get_context()
        return {"num_replicas": context.get_world_size(), "rank": context.get_world_rank()}


class RayDDPStrategy(_OnWorker, strategies.DDPStrategy):  # type: ignore[misc] # without types
    """Lightning's DDP; takes the same arguments.

    Examples:
        >>> import lightning
        >>> from ray.train import ScalingConfig
        >>> from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, prepare_trainer
        >>> from ray.train.torch import TorchTrainer
        >>> def work():
        ...     trainer = lightning.Trainer(
        ...         max_epochs=1,
        ...         accelerator="cpu",
        ...         devices="auto",
        ...         strategy=RayDDPStrategy(),
        ...         plugins=[RayLightningEnvironment()],
        ...     )
        ...     trainer = prepare_trainer(trainer)
        ...     ...  # trainer.fit(model, loader)
        >>> trainer = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2))
    """


class RayFSDPStrategy(_OnWorker, strategies.FSDPStrategy):  # type: ignore[misc] # without types
    """Lightning's FSDP; takes the same arguments. Runs on CPUs, too.

    Examples:
        >>> import lightning
        >>> from ray.train import ScalingConfig
        >>> from ray.train.lightning import RayFSDPStrategy, RayLightningEnvironment, prepare_trainer
        >>> from ray.train.torch import TorchTrainer
        >>> def work():
        ...     trainer = lightning.Trainer(
        ...         max_epochs=1,
        ...         devices="auto",
        ...         strategy=RayFSDPStrategy(sharding_strategy="FULL_SHARD"),
        ...         plugins=[RayLightningEnvironment()],
        ...     )
        ...     trainer = prepare_trainer(trainer)
        ...     ...  # trainer.fit(model, loader)
        >>> trainer = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2))
    """

    def _setup_model(self, model: Any) -> Any:
        if self.root_device.type != "cpu":
            return super()._setup_model(model)
        # Lightning passes the index of a GPU as `device_id`; on CPUs the device itself has to be
        # given, else FullyShardedDataParallel asks for an accelerator.
        with _device_id_for_cpu():
            return super()._setup_model(model)


class _device_id_for_cpu:
    """While it is entered, FullyShardedDataParallel takes the CPU where no device is given."""

    def __enter__(self) -> None:
        import torch
        from torch.distributed.fsdp import FullyShardedDataParallel

        original = FullyShardedDataParallel.__init__

        def on_cpu(self: Any, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("device_id") is None:
                kwargs["device_id"] = torch.device("cpu")
            original(self, *args, **kwargs)

        self._original = original
        FullyShardedDataParallel.__init__ = on_cpu

    def __exit__(self, *_: object) -> None:
        from torch.distributed.fsdp import FullyShardedDataParallel

        FullyShardedDataParallel.__init__ = self._original


class RayDeepSpeedStrategy(_OnWorker, strategies.DeepSpeedStrategy):  # type: ignore[misc] # without types
    """Lightning's DeepSpeed; takes the same arguments.

    Examples:
        >>> import lightning
        >>> from ray.train import ScalingConfig
        >>> from ray.train.lightning import RayDeepSpeedStrategy, RayLightningEnvironment, prepare_trainer
        >>> from ray.train.torch import TorchTrainer
        >>> def work():
        ...     trainer = lightning.Trainer(
        ...         max_epochs=1,
        ...         devices="auto",
        ...         precision="bf16-mixed",
        ...         strategy=RayDeepSpeedStrategy(stage=3),
        ...         plugins=[RayLightningEnvironment()],
        ...     )
        ...     trainer = prepare_trainer(trainer)
        ...     ...  # trainer.fit(model, loader)
        >>> trainer = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2, use_gpu=True))
    """
