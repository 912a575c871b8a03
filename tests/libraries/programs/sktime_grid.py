"""sktime: a search over a forecaster's parameters by its backend "ray", and by none."""

import warnings

import numpy as np
import pandas as pd
import ray
from proof import ran
from sktime.forecasting.model_selection import ForecastingGridSearchCV
from sktime.forecasting.naive import NaiveForecaster
from sktime.split import ExpandingWindowSplitter

warnings.simplefilter("ignore")
ray.init(num_cpus=2)
series = pd.Series(np.arange(40) % 5 * 1.0, index=pd.period_range("2000-01", periods=40, freq="M"))


def search(backend, options):
    grid = ForecastingGridSearchCV(
        NaiveForecaster(),
        cv=ExpandingWindowSplitter(fh=[1, 2], initial_window=20, step_length=5),
        param_grid={"sp": [1, 5], "strategy": ["last", "mean"]},
        backend=backend,
        backend_params=options,
    )
    grid.fit(series)
    return grid.best_params_, round(float(grid.best_score_), 9)


there = search("ray", {"ray_remote_args": {"num_cpus": 1}, "shutdown_ray": False})
assert there == search(None, None)
assert there[0]["sp"] == 5
assert ran()
print("cluster=yes")
