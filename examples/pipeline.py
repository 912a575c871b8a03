"""DeepSpeed's pipeline parallelism: the layers of one model are split over the workers.

python examples/pipeline.py
python examples/pipeline.py --stages 4
python examples/pipeline.py --gpu

The first worker reads the images and runs the first layers, the last one runs the last layers and
knows the loss; micro batches flow between them.

DeepSpeed compiles an operation of its own at the first start (half a minute, with g++).
"""

from __future__ import annotations

import argparse
from typing import Any

import heliostat as ray
from heliostat import train
from heliostat.train import RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer


def create_pipeline_model(num_stages: int) -> Any:
    """A sequence of layers that DeepSpeed cuts into stages."""
    from deepspeed.pipe import LayerSpec, PipelineModule
    from torch import nn

    layers = [
        LayerSpec(nn.Linear, 64, 128),
        LayerSpec(nn.ReLU),
        LayerSpec(nn.Linear, 128, 128),
        LayerSpec(nn.ReLU),
        LayerSpec(nn.Linear, 128, 64),
        LayerSpec(nn.ReLU),
        LayerSpec(nn.Linear, 64, 10),
    ]
    return PipelineModule(
        layers=layers,
        num_stages=num_stages,
        loss_fn=nn.CrossEntropyLoss(),
        partition_method="uniform",
        activation_checkpoint_interval=0,
    )


def train_func(config: dict[str, Any]) -> int:
    """What every worker runs; returns how many parameters its stage holds."""
    import deepspeed
    import deepspeed.comm as dist_comm
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(0)
    context = train.get_context()
    if torch.cuda.is_available():
        # The workers of a node see the GPUs of all of them.
        torch.cuda.set_device(context.get_local_rank())

    # torch's process group is there already; DeepSpeed joins it.
    assert dist.is_initialized()
    if not dist_comm.is_initialized():
        dist_comm.init_distributed(
            dist_backend=dist.get_backend(),
            auto_mpi_discovery=False,
            distributed_port=29500,
            verbose=False,
        )

    model = create_pipeline_model(config["num_stages"])
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        config=config["deepspeed_config"].copy(),
        dist_init_required=False,
    )
    count = sum(p.numel() for p in model.parameters())
    print(f"stage {engine.stage_id} of {config['num_stages']} has {count} parameters", flush=True)

    batches = endless(engine.train_micro_batch_size_per_gpu())
    for epoch in range(config["epochs"]):
        losses = [engine.train_batch(data_iter=batches).item() for _ in range(config["steps"])]
        train.report(
            {
                "loss": sum(losses) / len(losses),
                "epoch": epoch,
                "learning_rate": engine.get_lr()[0],
            }
        )
    return count


def endless(batch_size: int) -> Any:
    """Micro batches of scikit-learn's handwritten digits, in another order each time."""
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.data / 16, dtype=torch.float32)
    labels = torch.tensor(data.target)
    generator = torch.Generator().manual_seed(0)
    while True:
        order = torch.randperm(len(labels), generator=generator)
        for rows in order[: len(order) // batch_size * batch_size].split(batch_size):
            yield images[rows], labels[rows]


def main() -> None:
    """Train one model on as many workers as it has stages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="batches of an epoch")
    parser.add_argument("--gpu", action="store_true", help="one GPU for each stage")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=options.stages)
    deepspeed_config = {
        "train_batch_size": 32,
        "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 4,
        # torch's own Adam on CPUs: DeepSpeed's would have to be compiled first.
        "optimizer": {"type": "Adam", "params": {"lr": 3e-3, "torch_adam": not options.gpu}},
        "fp16": {"enabled": False},
        "zero_optimization": {
            "stage": 1,
            "allgather_partitions": True,
            "reduce_scatter": True,
        },
        "steps_per_print": 1000,
        "wall_clock_breakdown": False,
    }
    trainer = TorchTrainer(
        train_func,
        train_loop_config={
            "epochs": options.epochs,
            "steps": options.steps,
            "num_stages": options.stages,
            "deepspeed_config": deepspeed_config,
        },
        # One worker for each stage.
        scaling_config=ScalingConfig(
            num_workers=options.stages,
            use_gpu=options.gpu,
            resources_per_worker={"GPU": 1} if options.gpu else None,
        ),
        run_config=RunConfig(storage_path=options.storage),
    )
    result = trainer.fit()
    print(f"Final metrics: {result.metrics}")
    ray.shutdown()


if __name__ == "__main__":
    main()
