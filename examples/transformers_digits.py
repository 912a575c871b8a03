"""The Trainer of Hugging Face transformers on the workers of a run.

python examples/transformers_digits.py
python examples/transformers_digits.py --workers 4 --gpu

The Trainer keeps its loop, its optimizer and its checkpoints; the run gives it processes and ranks,
and takes what it logs and saves. A small Vision Transformer reads scikit-learn's handwritten digits.
Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import heliostat as ray
from heliostat.train import CheckpointConfig, RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer

TEST_ROWS = 360


def digits() -> list[dict[str, Any]]:
    """The images, 8 x 8 points each, as the model wants them."""
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    return [
        {"pixel_values": torch.tensor(image[None], dtype=torch.float32), "labels": int(label)}
        for image, label in zip(data.images / 8 - 1, data.target, strict=True)
    ]


def accuracy(prediction: Any) -> dict[str, float]:
    """What the Trainer asks for after each evaluation."""
    answers = prediction.predictions.argmax(-1)
    return {"accuracy": float((answers == prediction.label_ids).mean())}


def train_func(config: dict[str, Any]) -> int:
    """What every worker runs."""
    import torch
    import transformers
    from heliostat.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer

    torch.set_num_threads(1)
    transformers.set_seed(0)
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=8,
            patch_size=2,
            num_channels=1,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            num_labels=10,
        )
    )
    rows = digits()
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=config["scratch"],
            num_train_epochs=config["epochs"],
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            learning_rate=2e-3,
            # The last log before a save is what is reported with it.
            logging_strategy="epoch",
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            report_to=[],
            use_cpu=not config["gpu"],
            disable_tqdm=True,
        ),
        train_dataset=rows[TEST_ROWS:],
        eval_dataset=rows[:TEST_ROWS],
        compute_metrics=accuracy,
    )
    trainer.add_callback(RayTrainReportCallback())
    trainer = prepare_trainer(trainer)
    trainer.train()
    return int(trainer.args.world_size)


def main() -> None:
    """Train, and load the model from the checkpoint."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as scratch:
        result = TorchTrainer(
            train_func,
            train_loop_config={"epochs": options.epochs, "gpu": options.gpu, "scratch": scratch},
            scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
            run_config=RunConfig(
                storage_path=options.storage, checkpoint_config=CheckpointConfig(num_to_keep=1)
            ),
        ).fit()
    ray.shutdown()

    print(f"workers: {result.return_value}")
    print(f"metrics: {result.metrics}")
    assert result.checkpoint is not None
    from transformers import ViTForImageClassification

    with result.checkpoint.as_directory() as folder:
        model = ViTForImageClassification.from_pretrained(os.path.join(folder, "checkpoint"))
    print(f"loaded: {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    main()
