"""Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import train

from tests.frameworks.work import (
    BATCH,
    SAVE_EVERY,
    STEPS,
    Course,
    network,
    optimizer_of,
    rows,
    whole_loss,
)


def lightning_ddp(config: dict[str, Any]) -> float:
    from ray.train.lightning import RayDDPStrategy

    return _lightning(config, RayDDPStrategy())


def lightning_fsdp(config: dict[str, Any]) -> float:
    from ray.train.lightning import RayFSDPStrategy

    return _lightning(config, RayFSDPStrategy(state_dict_type="full"))


def _lightning(config: dict[str, Any], strategy: Any) -> float:
    """It resumes at the edge of an epoch: an epoch here is what lies between two checkpoints."""
    import warnings

    import lightning.pytorch as pl
    from ray.train.lightning import (
        RayLightningEnvironment,
        RayTrainReportCallback,
        prepare_trainer,
    )
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    warnings.simplefilter("ignore")  # hints of Lightning on loaders and loggers
    course = Course(config)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            return (self.net(x) - y).square().mean()

        def configure_optimizers(self) -> Any:
            return optimizer_of(self)

        def train_dataloader(self) -> Any:
            first = self.trainer.current_epoch * SAVE_EVERY * BATCH
            data = TensorDataset(*(whole[first : first + SAVE_EVERY * BATCH] for whole in rows()))
            sampler = DistributedSampler(data, course.size, course.rank, shuffle=False)
            return DataLoader(data, BATCH // course.size, sampler=sampler)

    class Steps(pl.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            course.after(trainer.global_step)

    trainer = prepare_trainer(
        pl.Trainer(
            max_epochs=STEPS // SAVE_EVERY,
            reload_dataloaders_every_n_epochs=1,
            accelerator="cpu",
            devices=1,
            strategy=strategy,
            plugins=[RayLightningEnvironment()],
            callbacks=[Steps(), RayTrainReportCallback()],
            use_distributed_sampler=False,  # Lightning's own shuffles
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
        )
    )
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            trainer.fit(Module(), ckpt_path=str(Path(folder, "checkpoint.ckpt")))
    else:
        trainer.fit(Module())
    state = trainer.strategy.lightning_module_state_dict()
    if course.rank != 0:
        return 0.0
    module = Module()
    module.load_state_dict(state)
    return whole_loss(module.net)
