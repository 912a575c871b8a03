"""Stable-Baselines3: two learners side by side, each an actor."""

import numpy as np
import ray
from proof import on_the_cluster

ray.init(num_cpus=2)


@ray.remote
class Learner:
    def __init__(self, seed):
        from stable_baselines3 import PPO

        self.model = PPO(
            "MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=seed, device="cpu"
        )

    def learn(self, steps):
        self.model.learn(steps)
        return self.model.num_timesteps

    def act(self, seen):
        return int(self.model.predict(seen, deterministic=True)[0])


learners = [Learner.remote(seed) for seed in range(2)]
assert ray.get([one.learn.remote(128) for one in learners]) == [128, 128]
assert ray.get(learners[0].act.remote(np.zeros(4, dtype=np.float32))) in (0, 1)
on_the_cluster("Learner")
