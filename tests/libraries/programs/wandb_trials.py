"""W&B, offline: each trial of a search is a run in the folder of runs."""

import os
import tempfile

folder = tempfile.mkdtemp()
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_API_KEY="x" * 40)

import ray  # noqa: E402
from proof import on_the_cluster  # noqa: E402
from ray import tune  # noqa: E402
from ray.air.integrations.wandb import WandbLoggerCallback  # noqa: E402

ray.init(num_cpus=2)


def train(config):
    for step in range(2):
        tune.report({"loss": config["x"] * step})


tune.Tuner(
    train,
    param_space={"x": tune.grid_search([1, 2])},
    run_config=tune.RunConfig(
        storage_path=os.path.join(folder, "results"),
        callbacks=[WandbLoggerCallback(project="search")],
    ),
).fit()
runs = [name for path in os.walk(folder) for name in path[1] if name.startswith("offline-run")]
assert len(runs) == 2, runs
on_the_cluster("TrialActor")
