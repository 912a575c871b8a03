"""The guide's ensemble: models trained as GPU tasks that save their weights."""

import os
import sys

import ray
import torch

ray.init(address="local", num_cpus=4, num_gpus=2)

directory = sys.argv[1]


class Trainer:
    """Fits a line and saves the weights."""

    def __init__(self, model_idx, model, datasets, config):
        optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
        inputs, targets = datasets
        for _ in range(config["steps"]):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
        device = os.environ["CUDA_VISIBLE_DEVICES"]
        torch.save(
            {"weights": model.state_dict(), "loss": loss.item(), "device": device},
            os.path.join(directory, f"model{model_idx}.pt"),
        )


@ray.remote(num_gpus=1)  # change to available GPUs per node
def trainer_fit(model_idx, model, datasets, config):
    trainer = Trainer(
        model_idx,
        model,
        datasets,
        config)


torch.manual_seed(0)
inputs = torch.linspace(-1, 1, 64).reshape(-1, 1)
datasets = (inputs, 3 * inputs + 1)
config = {"lr": 0.3, "steps": 60}
models = [torch.nn.Linear(1, 1) for _ in range(5)]

futures = []

for model_idx, model in enumerate(models):
    future = trainer_fit.remote(
        model_idx,
        model,
        datasets,
        config,
    )
    futures.append(future)

print(f"results={ray.get(futures)}")

# Wrong:
try:
    trainer_fit(model_idx, model, datasets, config)
except TypeError as error:
    print(f"forgotten={error}")

for model_idx in range(len(models)):
    saved = torch.load(os.path.join(directory, f"model{model_idx}.pt"))
    weight, bias = saved["weights"]["weight"].item(), saved["weights"]["bias"].item()
    print(f"model{model_idx}={weight:.2f} {bias:.2f} {saved['device']}")
