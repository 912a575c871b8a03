"""Several agents: their environments, episodes and modules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms import CQLConfig, DQNConfig
from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv

from tests.helpers.environments import small_ppo

cloudpickle.register_pickle_by_value(sys.modules[__name__])
CLUSTER = {"num_cpus": 4}
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = [pytest.mark.timeout(900), pytest.mark.contract("F13.01")]
ours = pytest.mark.heliostat_only("our own words")
SPACES = gym.spaces


class Turns(MultiAgentEnv):
    """Two agents in turn, ten steps; each gets 1 for its own right action, also while the other acts."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.possible_agents = self.agents = ["left", "right"]
        self.observation_spaces = {
            "left": SPACES.Box(-1, 1, (2,), np.float32),
            "right": SPACES.Discrete(3),
        }
        self.action_spaces = {"left": SPACES.Discrete(2), "right": SPACES.Box(-2, 2, (1,))}
        self.fault = (config or {}).get("fault")

    def _seen(self) -> dict[str, Any]:
        agent = ("left", "right")[self.steps % 2]
        return {agent: np.full(2, 0.5, np.float32) if agent == "left" else self.steps % 3}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return self._seen(), {}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        (agent, action) = next(iter(action_dict.items()))
        assert self.action_spaces[agent].contains(action), action
        self.steps += 1
        over = self.steps == 10
        seen = {self.fault: self._seen()} if self.fault else self._seen()
        rewards = {"left": 1.0, "right": 0.5}
        return seen, rewards, {"__all__": over}, {"__all__": False}, {}


def small(**runners: Any) -> Any:
    return small_ppo(60, 8, **runners)


def weights(algo: Any, module: str) -> Any:
    return algo.get_weights()[module]


def test_rewards_between_an_agents_steps_are_summed() -> None:
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent, _, **kw: f"of-{agent}")
    episode.add_env_reset(observations={"a": 0.0})
    step = episode.add_env_step
    step({"b": 1.0}, {"a": 7}, {"a": 1.0}, {}, terminateds={}, truncateds={})
    step({"a": 2.0}, {"b": 8}, {"a": 2.0, "b": 0.5}, {}, terminateds={}, truncateds={})
    a, b = episode.agent_episodes["a"], episode.agent_episodes["b"]
    assert (list(a.get_observations()), list(a.get_actions()), list(a.get_rewards())) == (
        [0.0, 2.0],
        [7],
        [3.0],
    )
    assert (len(b), episode.module_for("b"), episode.env_steps()) == (0, "of-b", 2)
    assert episode.get_observations(-1) == {"a": 2.0}
    rest = episode.cut()
    rest.add_env_step(
        {}, {"a": 9}, {"b": 4.0, "a": 1.0}, {}, terminateds={"__all__": True}, truncateds={}
    )
    assert rest.is_terminated
    assert list(rest.agent_episodes["b"].get_rewards()) == [4.5]
    assert list(rest.agent_episodes["b"].get_actions()) == [8]
    assert rest.agent_episodes["a"].is_terminated
    assert rest.env_t == 3
    assert rest.agent_returns() == {"a": 4.0, "b": 4.5}


def test_an_agent_that_is_done_does_not_act_in_the_next_part() -> None:
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0.0, "b": 0.0})
    seen = {"a": 1.0, "b": 1.0}
    episode.add_env_step(seen, {"a": 7, "b": 8}, {"a": 1.0, "b": 1.0}, terminateds={"a": True})
    assert episode.get_agents_to_act() == {"b"}
    rest = episode.cut()
    assert rest.get_agents_to_act() == {"b"}
    assert rest.get_observations(-1) == {"b": 1.0}
    over = {"__all__": True}
    rest.add_env_step(seen, {"b": 8}, {"a": 5.0, "b": 1.0}, terminateds=over)
    assert (rest.agent_ids, rest.agent_returns()) == ({"b"}, {"a": 6.0, "b": 2.0})


def test_agents_in_turn_train_modules_of_their_own(ray_start: Any, tmp_path: Path) -> None:
    heard: list[Any] = []
    config = (
        small()
        .environment(Turns)
        .multi_agent(
            policies={"one", "other"},
            policy_mapping_fn=lambda agent, episode, **kw: "one" if agent == "left" else "other",
        )
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(
                rl_module_specs={
                    "one": RLModuleSpec(model_config={"fcnet_hiddens": [4]}),
                    "other": RLModuleSpec(),
                }
            )
        )
        .callbacks(on_episode_end=lambda **about: heard.append(about["episode"].agent_returns()))
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        runners = result["env_runners"]
        assert runners["num_env_steps_sampled"] == 60
        assert runners["episode_return_mean"] == 15.0
        assert runners["episode_len_mean"] == 10
        assert runners["agent_episode_returns_mean"] == {"left": 10.0, "right": 5.0}
        assert runners["module_episode_returns_mean"] == {"one": 10.0, "other": 5.0}
        assert sum(runners["num_module_steps_sampled"].values()) <= 60
        assert heard[0] == {"left": 10.0, "right": 5.0}
        for name in ("one", "other"):
            assert np.isfinite(result["learners"][name]["total_loss"])
        assert algo.get_module("one").pi[0].in_features == 4
        path = algo.save_to_path(str(tmp_path / "saved"))
        again = type(algo).from_checkpoint(path)
        for name in ("one", "other"):
            for key, value in weights(again, name).items():
                np.testing.assert_array_equal(value, weights(algo, name)[key])
        again.stop()
        parts = algo.env_runner.sample(num_episodes=1)
        assert parts[0].is_done
        assert (parts[0].env_steps(), parts[0].agent_returns()) == (10, heard[0])
    finally:
        algo.stop()


def test_only_the_modules_that_are_named_are_trained(ray_start: Any) -> None:
    config = (
        small(num_env_runners=1)
        .environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
        .multi_agent(
            policies={"p0", "p1"},
            policy_mapping_fn=lambda agent, episode, **kw: f"p{agent}",
            policies_to_train=["p0"],
        )
        .evaluation(evaluation_interval=1, evaluation_duration=1)
    )
    algo = config.build_algo()
    try:
        before = {name: weights(algo, name)["pi.0.weight"].copy() for name in ("p0", "p1")}
        result = algo.train()
        assert result["evaluation"]["env_runners"]["num_episodes"] >= 1
        assert set(result["env_runners"]["num_agent_steps_sampled"]) == {"0", "1"}
        assert "p1" not in result["learners"]
        np.testing.assert_array_equal(weights(algo, "p1")["pi.0.weight"], before["p1"])
        assert not np.array_equal(weights(algo, "p0")["pi.0.weight"], before["p0"])
    finally:
        algo.stop()


# --- PettingZoo: environments of its two interfaces, as its documents describe them ---


class Both:
    """Agents act at once, for five steps."""

    possible_agents = ("x", "y")
    unwrapped = None

    def observation_space(self, agent: str) -> Any:
        return SPACES.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return SPACES.Discrete(2)

    def _each(self, value: Any) -> dict[str, Any]:
        return dict.fromkeys(self.agents, value)

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.agents, self.steps = list(self.possible_agents), 0
        return self._each(np.zeros(2, np.float32)), self._each({})

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.steps += 1
        over = self.steps == 5
        found = (
            self._each(np.zeros(2, np.float32)),
            self._each(1.0),
            self._each(False),
            self._each(over),
            self._each({}),
        )
        if over:
            self.agents = []
        return found

    def close(self) -> None:
        pass


class InTurn(Both):
    """Agents act one after the other, three times each."""

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self.agents, self.steps = list(self.possible_agents), 0
        self.agent_selection = "x"
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.over = False

    def observe(self, agent: str) -> Any:
        return np.zeros(2, np.float32)

    def last(self) -> Any:
        agent = self.agent_selection
        return self.observe(agent), self.rewards[agent], self.over, False, {}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.over:
            assert action is None
            self.agents.remove(agent)
        else:
            self.steps += 1
            self.rewards = dict.fromkeys(self.possible_agents, 0.0) | {agent: 1.0}
            self.over = self.steps == 6
        others = [a for a in self.agents if a != agent]
        self.agent_selection = others[0] if others else agent


@pytest.mark.parametrize(("wrapped", "steps"), [("parallel", 5), ("in turn", 6)])
def test_environments_of_pettingzoo(ray_start: Any, wrapped: str, steps: int) -> None:
    parallel = wrapped == "parallel"
    config = (
        small()
        .environment(
            lambda _: ParallelPettingZooEnv(Both()) if parallel else PettingZooEnv(InTurn())
        )
        .multi_agent(policies={"p"}, policy_mapping_fn=lambda agent, episode, **kw: "p")
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        assert result["env_runners"]["episode_len_mean"] == steps
        assert np.isfinite(result["learners"]["p"]["total_loss"])
        if parallel:
            assert result["env_runners"]["episode_return_mean"] == 10.0
    finally:
        algo.stop()


# --- what is wrong ---


@ours
def test_what_does_not_fit_is_named(ray_start: Any) -> None:
    def of(mapped: Any, policies: Any = ("one", "other"), **env: Any) -> Any:
        return (
            small()
            .environment(Turns, env_config=env)
            .multi_agent(policies=set(policies), policy_mapping_fn=mapped)
        )

    by_side = {"left": "one", "right": "other"}
    with pytest.raises(ValueError, match="'left' and 'right' act by module 'one'"):
        of(lambda agent, *a, **kw: "one").build_algo()
    with pytest.raises(ValueError, match="gave 'nobody' for agent 'left'"):
        of(lambda agent, *a, **kw: "nobody").build_algo()
    config = of(lambda agent, *a, **kw: by_side[agent]).multi_agent(policies_to_train=["two"])
    with pytest.raises(ValueError, match="policies_to_train has 'two'"):
        config.build_algo()
    with pytest.raises(ValueError, match="not built for CQL"):
        CQLConfig().environment(Turns).multi_agent(policies={"a"}).offline_data(
            input_=["nowhere"]
        ).build_algo()
    with pytest.raises(ValueError, match="multi_agent"):
        DQNConfig().environment("CartPole-v1").training(
            replay_buffer_config={"type": "MultiAgentEpisodeReplayBuffer"}
        ).build_algo()
    with pytest.raises(ValueError, match="Turns is a MultiAgentEnv: set multi_agent"):
        small().environment(Turns).build_algo()
    with pytest.raises(ValueError, match="is not a MultiAgentEnv"):
        small().environment("CartPole-v1").multi_agent(policies={"a"}).build_algo()
    algo = of(lambda agent, *a, **kw: by_side[agent], fault="right").build_algo()
    try:
        with pytest.raises(ValueError, match=r"Environment 0: step\(\) of agent 'right'"):
            algo.train()
    finally:
        algo.stop()


class Nested(MultiAgentEnv):
    """Observations whose parts stand in another order than in their space."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.possible_agents = self.agents = ["a"]
        space = SPACES.Dict({"few": SPACES.Discrete(2), "view": SPACES.Box(0, 1, (2, 3, 3))})
        self.observation_spaces = {"a": space}
        self.action_spaces = {"a": SPACES.Discrete(2)}

    def _seen(self) -> Any:
        return {"a": {"view": np.zeros((2, 3, 3), np.float32), "few": 1}}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._seen(), {}

    def step(self, action_dict: Any) -> Any:
        over = {"__all__": True}
        return self._seen(), {"a": 1.0}, over, dict.fromkeys(over, False), {}


def test_parts_of_observations_stand_in_the_order_of_their_space(ray_start: Any) -> None:
    config = small().environment(Nested)
    algo = config.multi_agent(policies={"p"}, policy_mapping_fn=lambda *_, **__: "p").build_algo()
    try:
        assert np.isfinite(algo.train()["learners"]["p"]["total_loss"])
    finally:
        algo.stop()
