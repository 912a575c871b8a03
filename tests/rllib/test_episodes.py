"""Episodes of several agents: steps of the environment and of agents, lookback, hanging actions."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

pytestmark = pytest.mark.contract("F13.01")
ours = pytest.mark.heliostat_only("our own words, and what Ray does otherwise")

OBSERVATIONS = [
    {"a": 0, "b": 0},
    {"b": 1},
    {"b": 2},
    {"a": 3, "b": 3},
    {"a": 4},
]
ACTIONS = OBSERVATIONS[:-1]
REWARDS = [{agent: value / 10 + 0.1 for agent, value in o.items()} for o in ACTIONS]
OUTPUTS = [{agent: {"v": 2.0 * value} for agent, value in o.items()} for o in ACTIONS]


def episode(lookback: int = 0, **more: Any) -> Any:
    space = gym.spaces.Dict(a=gym.spaces.Discrete(5), b=gym.spaces.Discrete(5))
    return MultiAgentEpisode(
        observations=OBSERVATIONS,
        actions=ACTIONS,
        rewards=REWARDS,
        extra_model_outputs=OUTPUTS,
        observation_space=space,
        action_space=space,
        agent_to_module_mapping_fn=lambda agent, episode, **kwargs: "m",
        len_lookback_buffer=lookback,
        terminateds={},
        truncateds={},
        **more,
    )


def test_steps_are_those_of_the_environment_or_of_each_agent() -> None:
    made = episode()
    assert (len(made), made.env_steps(), made.agent_steps()) == (4, 4, 5)
    assert made.agent_ids == {"a", "b"}
    assert made.get_observations(-1) == {"a": 4}
    assert made.get_observations(1) == {"b": 1}
    assert made.get_observations([0, 1]) == {"a": [0], "b": [0, 1]}
    assert made.get_observations(-1, env_steps=False) == {"a": 4, "b": 3}
    assert made.get_observations([0, 1], return_list=True) == OBSERVATIONS[:2]
    assert made.get_observations(1, fill=9) == {"a": 9, "b": 1}
    assert made.get_observations(slice(0, 2), agent_ids="a", fill=9) == {"a": [0, 9]}
    assert made.get_actions(0) == {"a": 0, "b": 0}
    assert made.get_actions(-1) == {"a": 3, "b": 3}
    assert made.get_rewards(slice(1, 3), agent_ids=["b"]) == {"b": [0.2, pytest.approx(0.3)]}
    assert made.get_extra_model_outputs("v", [0, 1]) == {"a": [0.0], "b": [0.0, 2.0]}
    assert made.get_extra_model_outputs(indices=2) == {"b": {"v": 4.0}}
    with pytest.raises(IndexError):
        made.get_observations(7)
    hot = made.get_observations(1, one_hot_discrete=True)["b"]
    np.testing.assert_array_equal(hot, [0, 1, 0, 0, 0])
    assert made.get_agents_that_stepped() == {"a"}
    made.validate()


def test_a_slice_that_ends_in_a_gap_has_an_action_that_hangs() -> None:
    made = episode()
    part = made[1:3]
    a, b = part.agent_episodes["a"], part.agent_episodes["b"]
    assert (list(a.get_observations()), list(b.get_observations())) == ([3], [1, 2, 3])
    assert (list(a.get_actions()), list(b.get_actions())) == ([], [1, 2])
    assert (a.is_done, b.is_done, len(part), part.env_t_started) == (False, False, 2, 1)
    part = made[:2]
    assert list(part.agent_episodes["a"].get_observations()) == [0]
    assert list(part.agent_episodes["a"].get_actions()) == []
    assert part.get_actions(0) == {"a": 0, "b": 0}
    assert part.get_return(include_hanging_rewards=True) == pytest.approx(0.1 + 0.1 + 0.2)
    assert part.get_return() == pytest.approx(0.3)


def test_a_part_goes_on_with_a_lookback_and_is_joined_again() -> None:
    made = MultiAgentEpisode(agent_to_module_mapping_fn=lambda *_, **kw: "m")
    made.add_env_reset(observations=OBSERVATIONS[0])
    for at in range(3):
        made.add_env_step(OBSERVATIONS[at + 1], ACTIONS[at], REWARDS[at])
    rest = made.cut(len_lookback_buffer=1)
    assert (len(rest), rest.env_t, rest.env_t_started) == (0, 3, 3)
    assert rest.get_observations(-1, neg_index_as_lookback=True) == {"b": 2}
    assert rest.get_observations(slice(-2, None)) == {"a": [3], "b": [2, 3]}
    rest.add_env_step(OBSERVATIONS[4], ACTIONS[3], REWARDS[3], terminateds={"a": True})
    assert (rest.agent_episodes["a"].is_terminated, rest.is_done) == (True, False)
    assert rest.get_agents_to_act() == set()
    made.concat_episode(rest)
    assert (len(made), made.env_t) == (4, 4)
    assert list(made.agent_episodes["b"].get_observations()) == [0, 1, 2, 3]
    assert list(made.agent_episodes["a"].get_actions()) == [0, 3]
    assert made.get_rewards(3)["a"] == pytest.approx(0.4)
    assert made.get_rewards(0)["a"] == pytest.approx(0.1)
    made.add_env_step({"b": 4}, {}, {"b": 1.0}, terminateds={"b": True})
    assert made.is_terminated  # all agents are


@ours
def test_states_and_settings_of_an_episode(capsys: pytest.CaptureFixture[str]) -> None:
    made = episode(lookback=1)
    made.agent_to_module_mapping_fn = None
    assert (len(made), made.env_t_started) == (3, 0)
    assert made.env_t_to_agent_t["a"] == [-1, "S", "S", 0, 1]
    again = MultiAgentEpisode.from_state(pickle.loads(pickle.dumps(made.get_state())))
    assert again.get_observations(slice(-1, None), neg_index_as_lookback=True) == (
        made.get_observations(slice(-1, None), neg_index_as_lookback=True)
    )
    again.set_rewards(new_data={"b": [7.0]}, at_indices=[0])
    assert again.get_rewards(0) == {"b": 7.0}
    with pytest.raises(KeyError, match="no agent 'c': it has 'a', 'b'"):
        again.set_actions(new_data={"c": [1]})
    arrays = again.to_numpy().get_observations(slice(None))
    np.testing.assert_array_equal(arrays["b"], [1, 2, 3])
    assert again.is_numpy
    made.print()
    assert capsys.readouterr().out.splitlines()[1] == "a   x           x   x"
    for kept in (made, made.agent_episodes["a"]):
        with pytest.raises(ValueError, match="old API stack"):
            kept.get_sample_batch()
        with pytest.raises(ValueError, match="custom_data"):
            kept.add_temporary_timestep_data("x", 1)


def test_an_episode_of_one_agent_is_made_of_its_state() -> None:
    made = SingleAgentEpisode(
        observations=[0, 1, 2], actions=[1, 2], rewards=[0.5, 1.0], len_lookback_buffer=1
    )
    state = made.get_state()
    assert state["rewards"]["lookback"] == 1
    again = SingleAgentEpisode.from_state(state)
    assert (list(again.get_observations()), again.get_return(), len(again)) == ([1, 2], 1.0, 1)
    again.validate()
