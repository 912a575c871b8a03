"""The slides' policy and simulator, with the number of CPUs as the argument."""

import sys
from random import randint

import ray

number = 12


@ray.remote
def create_policy():
    return randint(1, 20)


@ray.remote
def update_policy(policy, rollout):
    if rollout == 1:
        return policy
    else:
        if rollout == 0:
            return policy + 1
        elif rollout == 2:
            return policy - 1


@ray.remote
class Simulator(object):
    def __init__(self):
        # Initialize environment
        self.env = number

    def rollout(self, policy):
        # policy-based action
        action = policy
        # simulate environment
        if action < self.env:
            return 0
        elif action == self.env:
            return 1
        elif action > self.env:
            return 2


@ray.remote
def train_policy():
    # Create a policy
    policy = create_policy.remote()
    # Create actor
    simulator = Simulator.remote()
    # Do 5 steps of training
    for _ in range(3):
        # Rollout on actor
        rollout = simulator.rollout.remote(policy)
        # Update policy
        policy = update_policy.remote(policy, rollout)

    return ray.get(policy)


ray.init(address="local", num_cpus=int(sys.argv[1]))
print(f"policy={ray.get(train_policy.remote())}")
print(f"policies={ray.get([train_policy.remote() for _ in range(4)])}")
