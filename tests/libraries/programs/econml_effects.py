"""EconML: the nuisance models of a double machine learning estimate in tasks, and here."""

import numpy as np
import ray
from econml.dml import LinearDML
from proof import ran
from sklearn.linear_model import LinearRegression

ray.init(num_cpus=2)
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 2))
t = rng.normal(size=400) + x[:, 0]
y = 2 * t + x[:, 1] + rng.normal(size=400) * 0.1


def effects(**options):
    model = LinearDML(
        model_y=LinearRegression(), model_t=LinearRegression(), random_state=0, cv=2, **options
    )
    return model.fit(y, t, X=x).effect(x[:3])


there = effects(use_ray=True, ray_remote_func_options={"num_cpus": 1})
assert np.allclose(there, effects())
assert np.allclose(there, 2, atol=0.05)
assert ran()
print("cluster=yes")
