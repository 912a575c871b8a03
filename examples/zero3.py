"""DeepSpeed ZeRO-3: parameters, gradients and optimizer state are sharded over the workers.

python examples/zero3.py
python examples/zero3.py --workers 4 --gpu

A small BERT reads the 8 x 8 points of scikit-learn's handwritten digits as a sentence of 64 words
and says whether the digit is even. The rows come from a dataset that is split over the workers, and
every worker saves its own shard of the checkpoint.

DeepSpeed compiles an operation of its own at the first start (half a minute, with g++).
"""

from __future__ import annotations

import argparse
import os
from tempfile import TemporaryDirectory
from typing import Any

import heliostat as ray
import heliostat.data
import heliostat.train
from heliostat.train import Checkpoint, DataConfig, RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer

TEST_ROWS = 360


def make_model() -> Any:
    """BERT with 17 words (the shades of grey of a point) and two answers."""
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(
        BertConfig(
            vocab_size=17,
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=64,
            num_labels=2,
        )
    )


def train_func(config: dict[str, Any]) -> None:
    """What every worker runs."""
    import deepspeed
    import torch
    from deepspeed.accelerator import get_accelerator
    from torchmetrics.classification import BinaryAccuracy, BinaryF1Score
    from transformers import set_seed

    set_seed(config["seed"])
    torch.set_num_threads(1)

    train_ds = heliostat.train.get_dataset_shard("train")
    eval_ds = heliostat.train.get_dataset_shard("validation")

    def collate_fn(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        points = [torch.tensor(row) for row in batch["points"]]
        return {
            "input_ids": torch.stack(points).long(),
            "labels": torch.LongTensor(batch["label"]),
        }

    # Both can be gone through again and again.
    train_dataloader = train_ds.iter_torch_batches(
        batch_size=config["train_batch_size"], collate_fn=collate_fn
    )
    eval_dataloader = eval_ds.iter_torch_batches(
        batch_size=config["eval_batch_size"], collate_fn=collate_fn
    )

    model = make_model()
    model, optimizer, _, lr_scheduler = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config["deepspeed_config"]
    )
    device = get_accelerator().device_name(model.local_rank)
    f1 = BinaryF1Score().to(device)
    accuracy = BinaryAccuracy().to(device)

    for epoch in range(config["num_epochs"]):
        model.train()
        for batch in train_dataloader:
            loss = model(**{k: v.to(device) for k, v in batch.items()}).loss
            model.backward(loss)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()

        model.eval()
        for batch in eval_dataloader:
            inputs = {k: v.to(device) for k, v in batch.items()}
            with torch.no_grad():
                predictions = model(**inputs).logits.argmax(dim=-1)
            f1.update(predictions, inputs["labels"])
            accuracy.update(predictions, inputs["labels"])

        # torchmetrics brings the counts of all workers together.
        eval_metric = {"f1": f1.compute().item(), "accuracy": accuracy.compute().item()}
        f1.reset()
        accuracy.reset()
        if model.global_rank == 0:
            print(f"epoch {epoch}:", eval_metric, flush=True)

        with TemporaryDirectory() as tmpdir:
            # Each worker saves its own shard; what they report becomes one checkpoint.
            model.save_checkpoint(tmpdir)
            torch.distributed.barrier()
            heliostat.train.report(
                metrics=eval_metric, checkpoint=Checkpoint.from_directory(tmpdir)
            )


def deepspeed_config(batch_size: int, on_gpu: bool) -> dict[str, Any]:
    """ZeRO-3; half precision needs a GPU."""
    return {
        # torch's own AdamW on CPUs: DeepSpeed's would have to be compiled first.
        "optimizer": {"type": "AdamW", "params": {"lr": 2e-3, "torch_adam": not on_gpu}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
        "fp16": {"enabled": on_gpu},
        "bf16": {"enabled": False},
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "none"},
            "offload_param": {"device": "none"},
        },
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "steps_per_print": 1000,
        "train_micro_batch_size_per_gpu": batch_size,
        "wall_clock_breakdown": False,
    }


def digits() -> dict[str, heliostat.data.Dataset]:
    """The images as rows of 64 words, for training and for validation."""
    from sklearn.datasets import load_digits

    data = load_digits()
    rows = [
        {"points": points.astype(int).tolist(), "label": int(label % 2 == 0)}
        for points, label in zip(data.data, data.target, strict=True)
    ]
    return {
        "train": heliostat.data.from_items(rows[TEST_ROWS:]),
        "validation": heliostat.data.from_items(rows[:TEST_ROWS]),
    }


def main() -> None:
    """Train, and show what the checkpoint holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=options.workers + 2)
    batch_size = 32
    trainer = TorchTrainer(
        train_func,
        train_loop_config={
            "seed": 42,
            "num_epochs": options.epochs,
            "train_batch_size": batch_size,
            "eval_batch_size": 32,
            "deepspeed_config": deepspeed_config(batch_size, options.gpu),
        },
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
        run_config=RunConfig(storage_path=options.storage),
        datasets=digits(),
        dataset_config=DataConfig(datasets_to_split=["train", "validation"]),
    )
    result = trainer.fit()
    print(result)
    assert result.checkpoint is not None
    with result.checkpoint.as_directory() as folder:
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                print("  ", os.path.relpath(os.path.join(root, name), folder))
    ray.shutdown()


if __name__ == "__main__":
    main()
