"""MLflow: each trial of a search is a run, with its parameters and its metric."""

import os
import tempfile

import mlflow
import ray
from proof import on_the_cluster
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

folder = tempfile.mkdtemp()
uri = f"sqlite:///{folder}/runs.db"
ray.init(num_cpus=2)


def train(config):
    tune.report({"loss": config["x"] ** 2})


tune.Tuner(
    train,
    param_space={"x": tune.grid_search([1, 2, 3])},
    run_config=tune.RunConfig(
        storage_path=os.path.join(folder, "results"),
        callbacks=[MLflowLoggerCallback(tracking_uri=uri, experiment_name="search")],
    ),
).fit()
mlflow.set_tracking_uri(uri)
runs = mlflow.search_runs(experiment_names=["search"])
assert sorted(runs["metrics.loss"]) == [1, 4, 9]
assert sorted(runs["params.x"]) == ["1", "2", "3"]
on_the_cluster("TrialActor")
