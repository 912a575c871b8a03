"""Modin on Ray: the same lines with `modin.pandas` and with pandas."""

import modin.config
import modin.pandas
import numpy as np
import pandas
import ray
from proof import on_the_cluster

ray.init(num_cpus=2)
modin.config.Engine.put("Ray")

rng = np.random.default_rng(1)
SALES = {"shop": rng.integers(0, 7, 20_000), "x": rng.random(20_000), "y": rng.random(20_000)}
SHOPS = {"shop": [1, 2, 3], "name": ["a", "b", "c"]}


def work(pd):
    sales = pd.DataFrame(SALES)
    sales["z"] = sales["x"] * 2 + sales["y"]
    return {
        "grouped": sales.groupby("shop").agg({"x": "mean", "z": "sum"}),
        "sorted": sales.sort_values("z").head(50).reset_index(drop=True),
        "merged": sales.merge(pd.DataFrame(SHOPS), on="shop").groupby("name").size(),
        "applied": sales.apply(lambda row: row["x"] + row["y"], axis=1),
        "described": sales.describe(),
        "filtered": sales[sales["x"] > 0.5].fillna(0).sum(),
    }


there, here = work(modin.pandas), work(pandas)
for name, expected in here.items():
    found = there[name]._to_pandas()
    if isinstance(expected, pandas.DataFrame):
        pandas.testing.assert_frame_equal(found, expected)
    else:
        pandas.testing.assert_series_equal(found, expected)
on_the_cluster("_deploy_ray_func")
print(f"compared={len(here)}")
