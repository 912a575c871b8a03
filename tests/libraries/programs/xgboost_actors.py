"""xgboost_ray: two actors train one model; beside it XGBoost alone."""

import numpy as np
import ray
import xgboost
from proof import on_the_cluster
from sklearn.datasets import load_breast_cancer
from xgboost_ray import RayDMatrix, RayParams, predict, train

ray.init(num_cpus=3)
X, y = load_breast_cancer(return_X_y=True)
PARAMETERS = {
    "objective": "binary:logistic",
    "eval_metric": ["logloss", "error"],
    "tree_method": "hist",  # the exact one knows no second worker
}


def with_actors(number):
    history = {}
    rows = RayDMatrix(X, y)
    model = train(
        PARAMETERS,
        rows,
        evals_result=history,
        evals=[(rows, "train")],
        verbose_eval=False,
        num_boost_round=10,
        ray_params=RayParams(num_actors=number, cpus_per_actor=1),
    )
    return model, history["train"]


history = {}
alone = xgboost.DMatrix(X, y)
xgboost.train(
    PARAMETERS, alone, 10, evals=[(alone, "train")], evals_result=history, verbose_eval=False
)
# One actor sees what XGBoost alone sees. Two share the rows, and sketch their quantiles together.
np.testing.assert_allclose(with_actors(1)[1]["logloss"], history["train"]["logloss"], rtol=1e-6)
model, shared = with_actors(2)
np.testing.assert_allclose(shared["logloss"], history["train"]["logloss"], atol=0.02)
assert shared["error"][-1] < 0.02
found = predict(model, RayDMatrix(X), ray_params=RayParams(num_actors=2))
np.testing.assert_allclose(found, model.predict(xgboost.DMatrix(X)), rtol=1e-6)
on_the_cluster("RayXGBoostActor")
print("compared=4")
