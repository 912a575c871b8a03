"""Lightning, Transformers and Accelerate on the workers of a run (CPU)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from ray import train

pytest.importorskip("torch")
pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.slow, pytest.mark.timeout(150)]


def lightning_loop(strategy_name: str) -> Any:
    """A training function with Lightning's trainer on the digits."""

    def loop() -> dict[str, Any]:
        import warnings

        warnings.simplefilter("ignore")
        import lightning.pytorch as pl
        import ray.train.lightning as rtl
        import torch
        from sklearn.datasets import load_digits
        from torch.utils.data import DataLoader, TensorDataset

        class Digits(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.net = torch.nn.Linear(64, 10)

            def training_step(self, batch: Any, index: int) -> Any:
                x, y = batch
                loss = torch.nn.functional.cross_entropy(self.net(x), y)
                self.log("loss", loss)
                return loss

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), lr=0.5)

        data = load_digits()
        rows = TensorDataset(
            torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
        )
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            devices=1,
            strategy=getattr(rtl, strategy_name)(),
            plugins=[rtl.RayLightningEnvironment()],
            callbacks=[rtl.RayTrainReportCallback()],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
        )
        trainer = rtl.prepare_trainer(trainer)
        trainer.fit(Digits(), DataLoader(rows, batch_size=64))
        return {
            "size": trainer.world_size,
            "rank": trainer.global_rank,
            "batches": trainer.num_training_batches,
        }

    return loop


@pytest.mark.contract("F9.35", "F9.36")
@pytest.mark.parametrize("strategy", ["RayDDPStrategy", "RayFSDPStrategy"])
def test_lightning(fit: Any, strategy: str) -> None:
    pytest.importorskip("lightning")
    result = fit(lightning_loop(strategy), 2, torch=True)
    assert result.return_value == {"size": 2, "rank": 0, "batches": 15}
    assert result.metrics["epoch"] == 1
    assert result.metrics["loss"] < 2.0
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "checkpoint.ckpt").exists()


@pytest.mark.contract("F9.36")
def test_a_lightning_trainer_of_another_strategy(fit: Any) -> None:
    pytest.importorskip("lightning")

    def loop() -> None:
        import lightning.pytorch as pl
        from ray.train.lightning import prepare_trainer

        trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False)
        with pytest.raises(RuntimeError):
            prepare_trainer(trainer)

    fit(loop, 1, torch=True)


@pytest.mark.contract("F9.37")
def test_transformers(fit: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    output = str(tmp_path / "output")

    def loop() -> int:
        import torch
        import transformers
        from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer

        config = transformers.BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
        model = transformers.BertForSequenceClassification(config)
        rows = [{"input_ids": torch.arange(8), "labels": torch.tensor(i % 2)} for i in range(32)]
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(
                output_dir=output,
                num_train_epochs=2,
                per_device_train_batch_size=4,
                save_strategy="epoch",
                logging_strategy="epoch",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=rows,
        )
        trainer.add_callback(RayTrainReportCallback())
        trainer = prepare_trainer(trainer)
        trainer.train()
        return int(trainer.args.world_size)

    result = fit(loop, 2, torch=True)
    assert result.return_value == 2
    assert result.metrics["epoch"] == 2.0
    assert len(result.best_checkpoints) == 2
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "checkpoint", "config.json").exists()


@pytest.mark.contract("F9.26", "F9.37")
def test_accelerate(fit: Any) -> None:
    pytest.importorskip("accelerate")

    def loop() -> dict[str, Any]:
        import torch
        from accelerate import Accelerator
        from torch.utils.data import DataLoader, TensorDataset

        accelerator = Accelerator(cpu=True)
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.ones(16, 4)), batch_size=4)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for (x,) in loader:
            loss = model(x).mean()
            accelerator.backward(loss)
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            accelerator.save(model.state_dict(), Path(folder, "m.pt"))
            train.report({"loss": loss.item()})
        return {"size": accelerator.num_processes, "model": type(model).__name__}

    assert fit(loop, 2, torch=True).return_value == {
        "size": 2,
        "model": "DistributedDataParallel",
    }
