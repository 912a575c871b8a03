"""scikit-learn's search over parameters with joblib's backend `ray`, and with its own."""

import joblib
import numpy as np
import ray
from proof import ran
from ray.util.joblib import register_ray
from sklearn.datasets import load_digits
from sklearn.model_selection import RandomizedSearchCV
from sklearn.svm import SVC

ray.init(num_cpus=2)
register_ray()
digits = load_digits()
space = {"C": np.logspace(-3, 3, 7), "gamma": np.logspace(-4, 1, 6)}


def search():
    found = RandomizedSearchCV(SVC(), space, cv=3, n_iter=6, random_state=0)
    return found.fit(digits.data[:500], digits.target[:500])


with joblib.parallel_config(backend="ray"):
    there = search()
here = search()
assert there.best_params_ == here.best_params_
np.testing.assert_allclose(
    there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"]
)
assert ran()
print("compared=6")
