"""NeuralForecast: a search over its models by Tune, with a callback and its own verbosity."""

import numpy as np
import pandas as pd
import ray
from neuralforecast import NeuralForecast
from neuralforecast.auto import AutoMLP
from neuralforecast.common._base_auto import RayOptions
from neuralforecast.losses.pytorch import MAE
from proof import on_the_cluster
from ray import tune

ray.init(num_cpus=2)
dates = pd.date_range("2000-01-31", periods=60, freq="ME")
series = pd.concat(
    pd.DataFrame({"unique_id": name, "ds": dates, "y": np.sin(np.arange(60) / 3) + i})
    for i, name in enumerate("ab")
)
space = {
    "max_steps": 2,
    "input_size": 12,
    "hidden_size": tune.choice([8, 16]),
    "learning_rate": tune.loguniform(1e-4, 1e-1),
    "val_check_steps": 1,
    "random_seed": 1,
    "accelerator": "cpu",
}
model = AutoMLP(
    h=3, loss=MAE(), config=space, num_samples=2, ray_options=RayOptions(cpus=1, gpus=0)
)
forecast = NeuralForecast(models=[model], freq="ME")
forecast.fit(df=series, val_size=6)
predicted = forecast.predict()
assert len(predicted) == 6
assert predicted["AutoMLP"].notna().all()
results = forecast.models[0].results
assert len(results) == 2
assert results.get_best_result().config["hidden_size"] in (8, 16)
on_the_cluster("TrialActor")
