"""spark-bestfit: distributions fitted by its backend for Ray, and by the one of this process."""

import numpy as np
import pandas as pd
import ray
from proof import ran
from spark_bestfit import DistributionFitter, LocalBackend, RayBackend

ray.init(num_cpus=2)
frame = pd.DataFrame({"v": np.random.default_rng(0).gamma(2, 3, 1000)})


def best(backend):
    found = DistributionFitter(backend=backend).fit(frame, column="v", max_distributions=6)
    return [one.distribution for one in found.best(n=3)]


assert best(RayBackend()) == best(LocalBackend())
assert ran()
print("cluster=yes")
