"""FLAML: its search over a space and its AutoML, both with trials on the cluster."""

import time

import ray
from flaml import AutoML, tune
from proof import on_the_cluster
from sklearn.datasets import load_iris

ray.init(num_cpus=2)


def measure(config):
    return {"metric": (config["x"] - 3) ** 2 + config["y"]}


found = tune.run(
    measure,
    config={"x": tune.uniform(0, 10), "y": tune.randint(1, 5)},
    metric="metric",
    mode="min",
    num_samples=10,
    use_ray=True,
    resources_per_trial={"cpu": 1},
    verbose=0,
)
assert len(found.trials) == 10
assert found.best_result["metric"] == min(t.last_result["metric"] for t in found.trials)

# It asks for the free CPUs, and the trials' processes end after the search.
while not ray.available_resources().get("CPU"):
    time.sleep(0.05)
features, kinds = load_iris(return_X_y=True)
automl = AutoML()
automl.fit(
    features,
    kinds,
    task="classification",
    time_budget=60,
    max_iter=4,
    n_concurrent_trials=2,
    use_ray=True,
    estimator_list=["lgbm"],
    verbose=0,
)
assert automl.best_estimator == "lgbm"
assert (automl.predict(features) == kinds).mean() > 0.8
on_the_cluster("TrialActor")
