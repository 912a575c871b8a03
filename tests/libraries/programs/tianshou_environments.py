"""Tianshou: environments in actors of Ray, and in this process."""

import gymnasium
import numpy as np
import ray
from proof import ran
from tianshou.env import DummyVectorEnv, RayVectorEnv

ray.init(num_cpus=3)


def work(kind):
    environments = kind([lambda: gymnasium.make("CartPole-v1") for _ in range(3)])
    environments.seed([1, 2, 3])
    seen = [environments.reset()[0]]
    rng = np.random.default_rng(0)
    for _ in range(5):
        seen.append(environments.step(rng.integers(0, 2, 3))[0])
    found = ran() if kind is RayVectorEnv else set()
    environments.close()
    return np.stack(seen), found


there, actors = work(RayVectorEnv)
here, _ = work(DummyVectorEnv)
np.testing.assert_array_equal(there, here)
assert actors
print("compared=6")
