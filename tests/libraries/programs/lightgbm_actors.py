"""lightgbm_ray: two actors train one model; beside it LightGBM alone."""

import lightgbm
import ray
from lightgbm_ray import RayDMatrix, RayParams, train
from proof import ran
from sklearn.datasets import load_breast_cancer

ray.init(num_cpus=4)
X, y = load_breast_cancer(return_X_y=True)
PARAMETERS = {"objective": "binary", "metric": ["binary_logloss"], "verbose": -1}
there, here = {}, {}
rows = RayDMatrix(X, y)
train(
    PARAMETERS,
    rows,
    evals_result=there,
    valid_sets=[rows],
    valid_names=["train"],
    verbose_eval=False,
    num_boost_round=10,
    ray_params=RayParams(num_actors=2, cpus_per_actor=2),
)
alone = lightgbm.Dataset(X, y)
lightgbm.train(
    PARAMETERS,
    alone,
    10,
    valid_sets=[alone],
    valid_names=["train"],
    callbacks=[lightgbm.record_evaluation(here)],
)
# Each actor bins its own half of the rows, so that the trees differ a little.
last = [history["train"]["binary_logloss"][-1] for history in (there, here)]
assert abs(last[0] - last[1]) < 0.03, last
assert ran()
print("compared=1")
