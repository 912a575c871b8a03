"""Modules of a program's own, modules that come and go, and environments that are elsewhere or grow
harder.
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
import socket
import sys
import threading
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms import APPOConfig, IMPALAConfig, PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchMultiDistribution,
)
from ray.rllib.core.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.apis import (
    InferenceOnlyAPI,
    SelfSupervisedLossAPI,
    ValueFunctionAPI,
)
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.external.env_runner_server_for_external_inference import (
    EnvRunnerServerForExternalInference,
)
from ray.rllib.env.external.rllink import RLlink, get_rllink_message, send_rllink_message
from ray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.policy import PolicySpec
from ray.rllib.utils.torch_utils import one_hot

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 2}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]
ours = pytest.mark.heliostat_only("our own words")
SPACES = gym.spaces


class Linked(gym.Env):  # type: ignore[misc,name-defined] # without types
    """The second part of an action should be near the first, which is -1, 0 or 1."""

    observation_space = SPACES.Box(-1, 1, (1,), np.float32)
    action_space = SPACES.Tuple([SPACES.Discrete(3), SPACES.Box(-1, 1, (1,), np.float32)])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        reward = -abs(float(action[1][0]) - (int(action[0]) - 1))
        return np.zeros(1, np.float32), reward, True, False, {}


class Autoregressive(TorchRLModule, ValueFunctionAPI, InferenceOnlyAPI):
    """The first part of an action is drawn, then the second one given the first."""

    def setup(self) -> None:
        seen, count = self.observation_space.shape[0], int(self.action_space[0].n)
        self.prior = torch.nn.Linear(seen, count)
        self.posterior = torch.nn.Linear(seen + count, 2)
        self.values = torch.nn.Linear(seen, 1)

    def get_non_inference_attributes(self) -> list[str]:
        return ["values"]

    def _forward_inference(self, batch: Any, **kwargs: Any) -> Any:
        return self._drawn(batch[Columns.OBS], most_likely=True)

    def _forward_exploration(self, batch: Any, **kwargs: Any) -> Any:
        return self._drawn(batch[Columns.OBS], most_likely=False)

    def _forward_train(self, batch: Any, **kwargs: Any) -> Any:
        seen = batch[Columns.OBS]
        first = one_hot(batch[Columns.ACTIONS][0], self.action_space[0])
        second = self.posterior(torch.cat([seen, first], dim=-1))
        return {Columns.ACTION_DIST_INPUTS: torch.cat([self.prior(seen), second], dim=-1)}

    def _drawn(self, seen: Any, most_likely: bool) -> Any:
        inputs = [self.prior(seen)]
        dists = [TorchCategorical.from_logits(inputs[0])]
        first = (dists[0].to_deterministic() if most_likely else dists[0]).sample()
        hot = one_hot(first, self.action_space[0])
        inputs.append(self.posterior(torch.cat([seen, hot], dim=-1)))
        dists.append(TorchDiagGaussian.from_logits(inputs[1]))
        second = (dists[1].to_deterministic() if most_likely else dists[1]).sample()
        return {
            Columns.ACTIONS: (first, second),
            Columns.ACTION_LOGP: TorchMultiDistribution(tuple(dists)).logp((first, second)),
            Columns.ACTION_DIST_INPUTS: torch.cat(inputs, dim=-1),
        }

    def compute_values(self, batch: Any, embeddings: Any = None) -> Any:
        return self.values(batch[Columns.OBS]).squeeze(-1)

    def get_inference_action_dist_cls(self) -> Any:
        return TorchMultiDistribution.get_partial_dist_cls(
            child_distribution_cls_struct=(TorchCategorical, TorchDiagGaussian), input_lens=(3, 2)
        )


class Remembering(TorchRLModule, ValueFunctionAPI):
    """Base of modules with a state: `features` of observations and the state before them."""

    def features(self, batch: Any) -> Any:
        raise NotImplementedError

    def _forward(self, batch: Any, **kwargs: Any) -> Any:
        found, state = self.features(batch)
        return {Columns.ACTION_DIST_INPUTS: self.pi(found), Columns.STATE_OUT: state}

    def _forward_train(self, batch: Any, **kwargs: Any) -> Any:
        found, state = self.features(batch)
        outputs = {Columns.ACTION_DIST_INPUTS: self.pi(found), Columns.STATE_OUT: state}
        return {**outputs, Columns.EMBEDDINGS: found}

    def compute_values(self, batch: Any, embeddings: Any = None) -> Any:
        found = self.features(batch)[0] if embeddings is None else embeddings
        return self.values(found).squeeze(-1)


class Lstm(Remembering):
    """An LSTM over observations."""

    def setup(self) -> None:
        size = self.size = self.model_config["size"]
        self.lstm = torch.nn.LSTM(self.observation_space.shape[0], size, batch_first=True)
        self.pi, self.values = torch.nn.Linear(size, self.action_space.n), torch.nn.Linear(size, 1)

    def get_initial_state(self) -> Any:
        return {"h": np.zeros(self.size, np.float32), "c": np.zeros(self.size, np.float32)}

    def features(self, batch: Any) -> Any:
        state = batch[Columns.STATE_IN]
        found, (h, c) = self.lstm(
            batch[Columns.OBS], (state["h"].unsqueeze(0), state["c"].unsqueeze(0))
        )
        return found, {"h": h.squeeze(0), "c": c.squeeze(0)}


class Attention(Remembering):
    """Attention over the last observations, which are the state."""

    def setup(self) -> None:
        size, self.count = self.model_config["size"], 3
        self.embed = torch.nn.Linear(self.observation_space.shape[0], size)
        self.attend = torch.nn.MultiheadAttention(size, 2, batch_first=True)
        self.pi, self.values = torch.nn.Linear(size, self.action_space.n), torch.nn.Linear(size, 1)

    def get_initial_state(self) -> Any:
        return {"seen": np.zeros((self.count, self.observation_space.shape[0]), np.float32)}

    def features(self, batch: Any) -> Any:
        whole = torch.cat([batch[Columns.STATE_IN]["seen"], batch[Columns.OBS]], dim=1)
        keys = self.embed(whole)
        queries = keys[:, self.count :]
        at = torch.arange(queries.shape[1])[:, None]
        of = torch.arange(keys.shape[1])[None, :]
        found, _ = self.attend(queries, keys, keys, attn_mask=(of > at + self.count) | (of < at))
        return queries + found, {"seen": whole[:, -self.count :]}


def small(kind: Any, module: Any, **model: Any) -> Any:
    training = {"num_epochs": 2, "minibatch_size": 32} if kind is PPOConfig else {}
    return (
        kind()
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4, rollout_fragment_length=16)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=64, **training)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=module, model_config=model))
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
        .debugging(seed=1)
    )


@pytest.mark.parametrize("kind", [PPOConfig, IMPALAConfig, APPOConfig])
@pytest.mark.parametrize("module", [Lstm, Attention])
def test_modules_with_a_state_of_their_own(ray_start: Any, kind: Any, module: Any) -> None:
    config = small(kind, module, size=4, max_seq_len=5).environment("CartPole-v1")
    algo = config.build_algo()
    try:
        before = algo.get_weights()["default_policy"]["pi.weight"].copy()
        assert np.isfinite(algo.train()["learners"]["default_policy"]["total_loss"])
        assert not np.array_equal(before, algo.get_weights()["default_policy"]["pi.weight"])
        assert algo.get_module().is_stateful()
    finally:
        algo.stop()


def test_actions_whose_parts_depend_on_each_other(ray_start: Any) -> None:
    config = small(PPOConfig, Autoregressive).environment(Linked)
    config.training(lr=0.02, train_batch_size_per_learner=256, minibatch_size=64, num_epochs=6)
    algo = config.build_algo()
    try:
        assert getattr(algo.get_module(), "values", None) is None  # runners need none
        first = algo.train()["env_runners"]["episode_return_mean"]
        for _ in range(20):
            last = algo.train()["env_runners"]["episode_return_mean"]
            if last > -0.4:
                break
        assert first < -0.7
        assert last > -0.4
    finally:
        algo.stop()


class Imitating(TorchRLModule, ValueFunctionAPI, SelfSupervisedLossAPI):
    """A module whose loss is its own."""

    def setup(self) -> None:
        self.pi = torch.nn.Linear(4, 2)

    def _forward(self, batch: Any, **kwargs: Any) -> Any:
        return {Columns.ACTION_DIST_INPUTS: self.pi(batch[Columns.OBS])}

    def compute_values(self, batch: Any, embeddings: Any = None) -> Any:
        return torch.zeros(batch[Columns.OBS].shape[:-1])

    def compute_self_supervised_loss(
        self, *, learner: Any, module_id: str, config: Any, batch: Any, fwd_out: Any, **kwargs: Any
    ) -> Any:
        learner.metrics.log_value((module_id, "own_loss"), 7.0, window=1)
        return (fwd_out[Columns.ACTION_DIST_INPUTS] ** 2).mean()


def test_a_module_brings_its_own_loss(ray_start: Any) -> None:
    algo = small(PPOConfig, Imitating).environment("CartPole-v1").build_algo()
    try:
        learner = algo.train()["learners"]["default_policy"]
        assert learner["own_loss"] == 7.0
        assert "policy_loss" not in learner
    finally:
        algo.stop()


# --- several agents ---


@ours
def test_modules_are_added_and_removed_while_an_algorithm_runs(ray_start: Any) -> None:
    config = (
        PPOConfig()
        .environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
        .env_runners(num_env_runners=0)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .multi_agent(policies={"main": PolicySpec()}, policy_mapping_fn=lambda *_, **kw: "main")
    )
    algo = config.build_algo()
    try:
        algo.train()
        weights = algo.get_weights()["main"]
        spec = algo.add_module(
            "old",
            RLModuleSpec(),
            new_agent_to_module_mapping_fn=lambda agent, *_, **kw: "old" if agent else "main",
            new_should_module_be_updated=["main"],
        )
        assert set(spec.rl_module_specs) == {"main", "old"}
        algo.set_weights({"old": weights})
        algo.train()
        result = algo.train()
        assert set(result["env_runners"]["num_module_steps_sampled"]) == {"main", "old"}
        for name, value in algo.get_weights()["old"].items():
            np.testing.assert_array_equal(value, weights[name])
        with pytest.raises(ValueError, match="There is a module 'old' already"):
            algo.add_module("old", RLModuleSpec())
        spec = algo.remove_module("old", new_agent_to_module_mapping_fn=lambda *_, **kw: "main")
        assert set(spec.rl_module_specs) == {"main"}
        assert set(algo.get_weights()) == {"main"}
        algo.train()
        with pytest.raises(ValueError, match="There is no module 'old'"):
            algo.remove_module("old")
    finally:
        algo.stop()


class Pair(MultiAgentEnv):
    """Two agents that act at once, for three steps."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.possible_agents = self.agents = ["x", "y"]
        self.observation_spaces = {a: SPACES.Discrete(4) for a in self.agents}
        self.action_spaces = {a: SPACES.Discrete(2) for a in self.agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return {"x": 0, "y": 0}, {"x": {"i": 1}, "y": {}}

    def step(self, action_dict: Any) -> Any:
        self.steps += 1
        over = dict.fromkeys(("x", "y", "__all__"), self.steps == 3)
        seen = dict.fromkeys("xy", self.steps)
        return seen, {"x": 1.0, "y": 2.0}, over, dict.fromkeys(over, False), {"x": {}, "y": {}}


def test_groups_of_agents_act_as_one() -> None:
    env = Pair().with_agent_groups(
        {"both": ["x", "y"]},
        obs_space=SPACES.Tuple([SPACES.Discrete(4)] * 2),
        act_space=SPACES.Tuple([SPACES.Discrete(2)] * 2),
    )
    seen, _ = env.reset()
    assert list(seen["both"]) == [0, 0]
    seen, rewards, terminateds, truncateds, infos = env.step({"both": (0, 1)})
    assert (list(seen["both"]), rewards) == ([1, 1], {"both": 3.0})
    assert (terminateds["both"], terminateds["__all__"], truncateds["__all__"]) == ((False,) * 3)
    assert infos["both"]["_group_rewards"] == [1.0, 2.0]
    assert env.get_observation_space("both").contains((1, 1))


# --- environments ---


class Corridor(gym.Env):  # type: ignore[misc,name-defined] # without types
    """Episodes of as many steps as the task says."""

    observation_space = SPACES.Discrete(100)
    action_space = SPACES.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self.length = 2

    def set_task(self, length: int) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.steps, 1.0, self.steps >= self.length, False, {}


class Harder(RLlibCallback):
    """Gives all environments a longer task when the last one was done."""

    def on_train_result(self, *, algorithm: Any, result: Any, **kwargs: Any) -> None:
        length = int(result["env_runners"]["episode_len_max"]) + 1

        def give(runner: Any) -> None:
            for env in runner.env.unwrapped.envs:
                env.unwrapped.set_task(length)

        algorithm.env_runner_group.foreach_env_runner(give)


def test_tasks_grow_harder_by_a_callback(ray_start: Any) -> None:
    config = (
        PPOConfig()
        .environment(Corridor)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=60, minibatch_size=30, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .reporting(metrics_num_episodes_for_smoothing=2)
        .callbacks(Harder)
    )
    algo = config.build_algo()
    try:
        lengths = [algo.train()["env_runners"]["episode_len_max"] for _ in range(4)]
        assert lengths[0] == 2
        assert lengths[-1] >= 4
    finally:
        algo.stop()


def simulate(port: int, rounds: int, said: list[Any]) -> None:
    with socket.create_connection(("localhost", port)) as sock:

        def ask(kind: RLlink, **more: Any) -> Any:
            send_rllink_message(sock, {"type": kind.name, **more})
            return get_rllink_message(sock)

        said.append(ask(RLlink.PING)[0])
        config = pickle.loads(ask(RLlink.GET_CONFIG)[1]["config"])
        module = config.get_rl_module_spec().build()
        module.set_state(ask(RLlink.GET_STATE)[1]["state"]["rl_module"])
        for number in range(rounds):
            episode = SingleAgentEpisode(observations=[np.zeros(4, np.float32)])
            for step in range(20):
                logits = module.forward_exploration({"obs": torch.zeros(1, 4)})[
                    "action_dist_inputs"
                ].detach()[0]
                episode.add_env_step(
                    np.zeros(4, np.float32),
                    np.int64(step % 2),
                    1.0,
                    terminated=step == 19,
                    extra_model_outputs={
                        "action_dist_inputs": logits.numpy(),
                        "action_logp": np.float32(logits.log_softmax(-1)[step % 2]),
                    },
                )
            episodes = [episode.get_state()]
            if number == rounds - 1:
                send_rllink_message(sock, {"type": RLlink.EPISODES.name, "episodes": episodes})
                return
            kind, answer = ask(RLlink.EPISODES_AND_GET_STATE, episodes=episodes)
            said.append((kind, answer["state"]["weights_seq_no"]))


@ours
def test_an_environment_that_is_elsewhere_sends_episodes(ray_start: Any) -> None:
    pytest.importorskip("msgpack", reason="messages are MessagePack")
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    config = (
        PPOConfig()
        .environment(
            observation_space=SPACES.Box(-np.inf, np.inf, (4,), np.float32),
            action_space=SPACES.Discrete(2),
            env_config={"port": port},
        )
        .env_runners(num_env_runners=0, env_runner_cls=EnvRunnerServerForExternalInference)
        .training(train_batch_size_per_learner=20, minibatch_size=20, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
    )
    with pytest.raises(ValueError, match=r"action_space is not known here: set environment"):
        config.copy().environment(action_space=None).build_algo()
    algo = config.build_algo()
    said: list[Any] = []
    client = threading.Thread(target=simulate, args=(port, 2, said), daemon=True)
    client.start()
    try:
        for _ in range(2):
            result = algo.train()
        assert result["env_runners"]["episode_return_mean"] == 20.0
        assert result["num_env_steps_sampled_lifetime"] == 40
        # A client that speaks otherwise is left, and others are served.
        with socket.create_connection(("localhost", port)) as other:
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert other.recv(1) == b""
    finally:
        algo.stop()
    client.join(timeout=600)
    # The weights that follow an iteration's episodes are those that were learned from them.
    assert said == [RLlink.PONG, (RLlink.SET_STATE, 1)]


# --- names ---


def test_names_that_rllibs_examples_import() -> None:
    from ray.air.integrations.wandb import WANDB_ENV_VAR
    from ray.rllib.algorithms.ppo.torch.ppo_torch_rl_module import PPOTorchRLModule
    from ray.rllib.env.multi_agent_env import ENV_STATE
    from ray.rllib.utils.error import EnvError
    from ray.rllib.utils.serialization import convert_numpy_to_python_primitives

    assert (WANDB_ENV_VAR, ENV_STATE) == ("WANDB_API_KEY", "state")
    assert issubclass(PPOTorchRLModule, TorchRLModule)
    assert issubclass(EnvError, Exception)
    config = PPOConfig()
    assert config.enable_rl_module_and_learner
    assert config.enable_env_runner_and_connector_v2
    with pytest.warns(DeprecationWarning, match="build_algo"):
        algo = config.environment("CartPole-v1").env_runners(num_env_runners=0).build()
    algo.stop()
    nest = {"a": [np.float32(0.5), np.arange(2)], "b": (np.bool_(True), "c")}
    found = convert_numpy_to_python_primitives(nest)
    assert repr(found) == "{'a': [0.5, [0, 1]], 'b': (True, 'c')}"


@ours
def test_names_of_the_old_stack_say_what_takes_their_place() -> None:
    from ray.rllib.algorithms.callbacks import DefaultCallbacks
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

    assert DefaultCallbacks is RLlibCallback
    assert PPOTorchLearner is PPOConfig().get_default_learner_class()
    for path in ("models.modelv2", "evaluation.rollout_worker", "policy.torch_policy"):
        with pytest.raises(ModuleNotFoundError, match="old API stack, which Heliostat does not"):
            importlib.import_module(f"ray.rllib.{path}")
    for path, name in (("policy.policy", "Policy"), ("policy.sample_batch", "SampleBatch")):
        module = importlib.import_module(f"ray.rllib.{path}")
        with pytest.raises(AttributeError, match=r"old API stack.*: use ray\.rllib\.core"):
            getattr(module, name)
    for path, instead in (
        ("algorithms.dreamerv3", "there are PPO, DQN, SAC"),
        ("algorithms.ppo.ppo_catalog", "set DefaultModelConfig"),
        ("offline.offline_prelearner", "input_read_schema"),
        ("env.vector.vector_multi_agent_env", "runner.env.unwrapped.envs"),
    ):
        with pytest.raises(ModuleNotFoundError, match=instead):
            importlib.import_module(f"ray.rllib.{path}")
    with pytest.raises(ValueError, match=r"PolicySpec\(policy_class=...\) is of RLlib's old"):
        PolicySpec(policy_class=object)


class Broken(gym.Env):  # type: ignore[misc,name-defined] # without types
    """A step that raises, or gives numbers of another type."""

    observation_space = SPACES.Box(-1, 1, (1,), np.float32)
    action_space = SPACES.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self.kind = config["kind"]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        if self.kind == "raises":
            raise KeyError("lane")
        return np.full(1, 0.5), 0.0, True, False, {}


@ours
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("raises", r"Environment 0: step\(\) raised KeyError\('lane'\)"),
        ("type", r"of type float64, where the space has float32: return it as np\.asarray"),
    ],
)
def test_the_first_step_of_an_environment_is_judged(ray_start: Any, kind: str, said: str) -> None:
    config = PPOConfig().environment(Broken, env_config={"kind": kind})
    with pytest.raises(ValueError, match=said):
        config.env_runners(num_env_runners=0).build_algo()


@ours
def test_models_and_algorithms_that_there_are_not_say_what_there_is(ray_start: Any) -> None:
    from ray.tune import TuneError, registry

    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    with pytest.raises(ValueError, match=r"'use_attention'.*old API stack: write an RLModule"):
        config.rl_module(model_config={"use_attention": True}).build_algo()
    with pytest.raises(TuneError, match=r"Unknown trainable: PPOO\. Did you mean 'PPO'\?"):
        registry.registered("PPOO")


def test_names_of_learners_logs_and_buffers() -> None:
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
    from ray.rllib.utils.replay_buffers import (
        MultiAgentPrioritizedEpisodeReplayBuffer,
        PrioritizedEpisodeReplayBuffer,
        multi_agent_prioritized_episode_buffer,
        prioritized_episode_buffer,
    )
    from ray.rllib.utils.schedules.scheduler import Scheduler

    assert (
        prioritized_episode_buffer.PrioritizedEpisodeReplayBuffer is PrioritizedEpisodeReplayBuffer
    )
    assert (
        multi_agent_prioritized_episode_buffer.MultiAgentPrioritizedEpisodeReplayBuffer
        is MultiAgentPrioritizedEpisodeReplayBuffer
    )
    logger = MetricsLogger()
    logger.log_value(("learner", "loss"), 0.5, reduce="mean")
    logger.log_value("steps", 3, reduce="sum")
    assert MetricsLogger.peek_results(logger.reduce()) == {"learner": {"loss": 0.5}, "steps": 3}
    how = {"setting_name": "lr", "description": "learning rate"}
    for given in (0.1, [[0, 0.1], [100, 0.01]]):
        Scheduler.validate(fixed_value_or_schedule=given, **how)
    for given in ([[1, 0.1], [100, 0.01]], [[0, 0.1]], "fast"):
        with pytest.raises(ValueError, match="lr"):
            Scheduler.validate(fixed_value_or_schedule=given, **how)

    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config = config.training(train_batch_size_per_learner=16, minibatch_size=16, num_epochs=1)
    algo = config.rl_module(model_config={"fcnet_hiddens": [8]}).build_algo()
    group = algo.learner_group
    assert set(group.get_stats().values()) == {0}
    episodes = algo.env_runner.sample(num_timesteps=16)
    found = group.update_from_episodes(episodes, timesteps={"num_env_steps_sampled_lifetime": 16})
    assert MetricsLogger.peek_results(found[0])["default_policy"]["num_module_steps_trained"] == 16
    assert algo.restore_env_runners(algo.env_runner_group) == []
    algo.stop()
