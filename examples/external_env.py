"""A simulator that runs by itself, acts with its own copy of the module, and sends episodes over a socket.

A client is any program that speaks RLlink (``ray.rllib.env.external.rllink``); this one is in Python.
"""

from __future__ import annotations

import pickle
import socket
import sys
import threading

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.external.env_runner_server_for_external_inference import (
    EnvRunnerServerForExternalInference,
)
from ray.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
from ray.rllib.env.single_agent_episode import SingleAgentEpisode


def ask(sock, kind, **more):
    """Send a message, and return the answer."""
    send_rllink_message(sock, {"type": kind.name, **more})
    return get_rllink_message(sock)[1]


def simulate(port):
    """The client: acts with the weights that it was given, and sends steps until the server leaves."""
    sock = socket.create_connection(("localhost", port))
    ask(sock, RLlink.PING)
    config = pickle.loads(ask(sock, RLlink.GET_CONFIG)["config"])
    module = config.get_rl_module_spec().build()
    module.set_state(ask(sock, RLlink.GET_STATE)["state"]["rl_module"])
    env = gym.make("CartPole-v1")
    count = config.get_rollout_fragment_length()

    def begin():
        return SingleAgentEpisode(observations=[env.reset()[0]])

    episodes = [begin()]
    while True:
        episode = episodes[-1]
        with torch.no_grad():
            seen = torch.as_tensor(episode.get_observations(-1))[None]
            logits = module.forward_exploration({"obs": seen})["action_dist_inputs"][0]
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        observation, reward, terminated, truncated, _ = env.step(int(action))
        episode.add_env_step(
            observation,
            np.int64(action),
            float(reward),
            terminated=terminated,
            truncated=truncated,
            extra_model_outputs={
                "action_dist_inputs": logits.numpy(),
                "action_logp": np.float32(dist.log_prob(action)),
            },
        )
        goes_on = begin() if episode.is_done else None
        if sum(map(len, episodes)) >= count:
            try:
                states = [one.get_state() for one in episodes]
                answer = ask(sock, RLlink.EPISODES_AND_GET_STATE, episodes=states, timesteps=count)
            except ConnectionError:  # training is over
                return
            module.set_state(answer["state"]["rl_module"])
            episodes = [episode.cut() if goes_on is None else goes_on]
        elif goes_on is not None:
            episodes.append(goes_on)


def main(iterations=30, wanted=100.0):
    """The server: an algorithm whose runner listens."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    algo = (
        PPOConfig()
        .environment(
            observation_space=gym.spaces.Box(-np.inf, np.inf, (4,), np.float32),
            action_space=gym.spaces.Discrete(2),
            env_config={"port": port},
        )
        .env_runners(num_env_runners=0, env_runner_cls=EnvRunnerServerForExternalInference)
        .env_runners(rollout_fragment_length="auto")
        .training(lr=0.001, train_batch_size_per_learner=1000, minibatch_size=125, num_epochs=8)
        .rl_module(model_config={"fcnet_hiddens": [32, 32]})
        .build_algo()
    )
    client = threading.Thread(target=simulate, args=(port,), daemon=True)
    client.start()
    try:
        for _ in range(iterations):
            found = algo.train()["env_runners"]["episode_return_mean"]
            print(f"return={found:.0f}", flush=True)
            if found >= wanted:
                break
    finally:
        algo.stop()
    client.join()


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:2]))
