"""StatsForecast: forecasts of a dataset on the cluster, and of the same frame here."""

import fugue_ray  # noqa: F401 # its engine knows datasets
import numpy as np
import pandas as pd
import ray
from proof import ran
from statsforecast import StatsForecast
from statsforecast.models import SeasonalNaive

ray.init(num_cpus=2)
frame = pd.concat(
    pd.DataFrame(
        {
            "unique_id": str(name),
            "ds": pd.date_range("2000-01-01", periods=48, freq="D"),
            "y": np.arange(48) % 7 + name,
        }
    )
    for name in range(4)
)
forecast = StatsForecast(models=[SeasonalNaive(7)], freq="D")
there = forecast.forecast(df=ray.data.from_pandas(frame).repartition(2), h=5).to_pandas()
here = forecast.forecast(df=frame, h=5)
keys = ["unique_id", "ds"]
there = there.sort_values(keys).reset_index(drop=True)
assert len(there) == len(here) == 20
assert np.allclose(there["SeasonalNaive"], here.sort_values(keys)["SeasonalNaive"])
assert ran()
print("cluster=yes")
