"""Connectors: pieces, pipelines of them, and algorithms that sample and learn through them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.common.frame_stacking import FrameStacking
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import (
    AddObservationsFromEpisodesToBatch,
    BatchIndividualItems,
    EnvToModulePipeline,
    FlattenObservations,
    MeanStdFilter,
    PrevActionsPrevRewards,
    WriteObservationsToEpisodes,
)
from ray.rllib.connectors.env_to_module.observation_preprocessor import (
    SingleAgentObservationPreprocessor,
)
from ray.rllib.connectors.learner import (
    AddColumnsFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddOneTsToEpisodesAndTruncate,
    ComputeReturnsToGo,
    GeneralAdvantageEstimation,
    LearnerConnectorPipeline,
)
from ray.rllib.connectors.module_to_env import NormalizeAndClipActions
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_env import make_multi_agent
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override

cloudpickle.register_pickle_by_value(sys.modules[__name__])
# Every process of these tests loads torch, which takes a minute on a busy machine.
pytestmark = pytest.mark.timeout(900)
SPACES = gym.spaces
BOX = SPACES.Box(-1.0, 1.0, (2,), np.float32)
TWO = SPACES.Discrete(2)
ours = pytest.mark.heliostat_only("our own words, or numbers of our own runs")


class Same(ConnectorV2):
    """Changes nothing."""

    @override(ConnectorV2)
    def __call__(
        self, *, rl_module: Any, batch: Any, episodes: Any, explore: Any = None, **kwargs: Any
    ) -> Any:
        return batch


class Other(Same):
    """Has a state."""

    count = 0

    def __call__(self, **about: Any) -> Any:
        self.count += 1
        return super().__call__(**about)

    def get_state(self, components: Any = None, **kwargs: Any) -> Any:
        return {"count": self.count}

    def set_state(self, state: Any) -> None:
        self.count = state["count"]


def episode_of(steps: int, done: bool = False) -> Any:
    episode = SingleAgentEpisode(observation_space=BOX, action_space=TWO)
    episode.add_env_reset(np.array([0.0, 0.5], np.float32))
    for step in range(steps):
        seen = np.array([step + 1.0, 0.5], np.float32)
        last = done and step == steps - 1
        episode.add_env_step(
            seen, step % 2, float(step), terminated=last, extra_model_outputs={"vf_preds": 0.0}
        )
    return episode


def spaced(connector: Any, observations: Any, actions: Any) -> Any:
    """The connector as a pipeline makes it ready."""
    connector.input_action_space = actions
    connector.input_observation_space = observations
    return connector


# --- pipelines ---


def names(pipeline: Any) -> list[str]:
    return [type(connector).__name__ for connector in pipeline.connectors]


def test_a_pipeline_is_changed_and_kept(tmp_path: Path) -> None:
    pipeline = EnvToModulePipeline(BOX, TWO, connectors=[Same()])
    pipeline.append(BatchIndividualItems())
    pipeline.prepend(Other())
    before = pipeline.insert_after("Same", AddObservationsFromEpisodesToBatch())
    following = pipeline.insert_before(Same, MeanStdFilter())
    assert (type(before), type(following)) == (Same, Same)
    order = ["Other", "MeanStdFilter", "Same", "AddObservationsFromEpisodesToBatch"]
    assert names(pipeline) == [*order, "BatchIndividualItems"]
    assert len(pipeline) == 5
    assert pipeline.observation_space == SPACES.Box(-10.0, 10.0, (2,), np.float32)
    assert pipeline[MeanStdFilter][0] is pipeline[1]
    pipeline.remove(Same)
    pipeline.remove("Nobody")
    shared: dict[str, Any] = {}
    episodes = [episode_of(0), episode_of(1)]
    found = pipeline(rl_module=None, batch={}, episodes=episodes, explore=True, shared_data=shared)
    assert found["obs"].shape == (2, 2)
    assert shared["memorized_map_structure"] == [episode.id_ for episode in episodes]
    assert pipeline.get_state()["Other"] == {"count": 1}


@ours  # Ray's needs a state of each connector
def test_a_pipeline_is_saved(tmp_path: Path) -> None:
    pipeline = EnvToModulePipeline(BOX, TWO, connectors=[Other(), Same(), MeanStdFilter()])
    run(pipeline, [episode_of(0), episode_of(1)])
    path = str(tmp_path / "pipeline")
    pipeline.save_to_path(path)
    again = EnvToModulePipeline.from_checkpoint(path)
    assert names(again) == names(pipeline)
    assert again[0].count == 1
    state = again.get_state()["MeanStdFilter"][None]["running_stats"][0]
    assert state["num_pushes"] == 2
    assert again.observation_space == pipeline.observation_space


@ours
def test_what_is_wrong_with_a_pipeline_is_said(ray_start: Any) -> None:
    class Nothing(Same):
        def __call__(self, **about: Any) -> Any:
            return None

    pipeline = ConnectorPipelineV2(BOX, TWO, connectors=[Same(), Nothing()])
    with pytest.raises(ValueError, match=r"Nothing.__call__\(\) returned None"):
        pipeline(rl_module=None, batch={}, episodes=[])
    with pytest.raises(ValueError, match="no connector 'Sam': it has Same, Nothing"):
        pipeline.insert_after("Sam", Same())
    with pytest.raises(ValueError, match="is not a connector"):
        pipeline.append(Same)
    with pytest.raises(ValueError, match="no column 'obs': it has 'x'"):
        ConnectorV2.foreach_batch_item_change_in_place({"x": []}, "obs", lambda *a: a)
    with pytest.raises(ValueError, match="2 items of 'x' and num_items=3"):
        ConnectorV2.add_n_batch_items({}, "x", [1, 2], 3)
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    with pytest.raises(ValueError, match="env_to_module_connector returned 7"):
        config.copy().env_runners(env_to_module_connector=lambda env: 7).build_algo()
    with pytest.raises(ValueError, match="must be a function that returns a connector"):
        config.copy().env_runners(env_to_module_connector=Same()).build_algo()
    with pytest.raises(ValueError, match="FrameStacking needs Box observations"):
        config.copy().env_runners(
            env_to_module_connector=lambda env: FrameStacking(num_frames=2)
        ).build_algo()
    with pytest.raises(NameError, match="oops"):

        @override(ConnectorV2)
        def oops() -> None:
            pass


# --- pieces against plain loops ---


def test_items_are_of_their_episodes() -> None:
    batch: dict[str, Any] = {}
    episodes = [episode_of(2), episode_of(0)]
    for episode in ConnectorV2.single_agent_episode_iterator(episodes):
        ConnectorV2.add_batch_item(batch, "length", len(episode), single_agent_episode=episode)
    ConnectorV2.add_n_batch_items(batch, "plain", [1, 2], 2)
    keys = [(episode.id_,) for episode in episodes]
    assert batch == {"length": {keys[0]: [2], keys[1]: [0]}, "plain": [1, 2]}
    ConnectorV2.foreach_batch_item_change_in_place(
        batch, "length", lambda item, episode, agent, module: item + (episode == episodes[1].id_)
    )
    assert batch["length"] == {keys[0]: [2], keys[1]: [1]}
    pairs = ConnectorV2.single_agent_episode_iterator(
        episodes, zip_with_batch_column=batch["length"]
    )
    assert [(episode.id_, item) for episode, item in pairs] == [(keys[0][0], 2), (keys[1][0], 1)]


def run(connector: Any, episodes: Any, batch: Any = None, **more: Any) -> Any:
    return connector(
        rl_module=None,
        batch={} if batch is None else batch,
        episodes=episodes,
        explore=True,
        shared_data={},
        **more,
    )


def test_observations_are_flattened_stacked_and_widened() -> None:
    space = SPACES.Dict({"a": SPACES.Discrete(3), "b": SPACES.Box(-1, 1, (2, 2), np.float32)})
    episode = SingleAgentEpisode(observation_space=space, action_space=TWO)
    episode.add_env_reset({"a": 2, "b": np.arange(4, dtype=np.float32).reshape(2, 2)})
    flat = spaced(FlattenObservations(), space, TWO)
    assert flat.observation_space.shape == (7,)
    run(flat, [episode])
    assert episode.get_observations(-1).tolist() == [0, 0, 1, 0, 1, 2, 3]

    frames = SPACES.Box(0, 9, (1, 1, 1), np.float32)
    episode = SingleAgentEpisode(observation_space=frames, action_space=TWO)
    episode.add_env_reset(np.full((1, 1, 1), 1.0, np.float32))
    stacking = spaced(FrameStacking(num_frames=3), frames, TWO)
    assert stacking.observation_space.shape == (1, 1, 3)
    key = (episode.id_,)
    assert run(stacking, [episode])["obs"][key][0].ravel().tolist() == [0, 0, 1]
    episode.add_env_step(np.full((1, 1, 1), 2.0, np.float32), 0, 1.0)
    assert run(stacking, [episode])["obs"][key][0].ravel().tolist() == [0, 1, 2]
    rest = episode.cut(len_lookback_buffer=1)
    rest.add_env_step(np.full((1, 1, 1), 3.0, np.float32), 0, 1.0)
    assert run(stacking, [rest])["obs"][key][0].ravel().tolist() == [1, 2, 3]
    learns = FrameStacking(num_frames=2, as_learner_connector=True)
    stacked = run(learns, [rest.to_numpy()])["obs"][(rest.id_,)][0]
    assert np.asarray(stacked).reshape(1, 2).tolist() == [[1, 2]]

    episode = episode_of(0)
    wider = spaced(PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=1), BOX, TWO)
    assert wider.observation_space["prev_n_actions"].shape == (4,)
    run(wider, [episode])
    first = episode.get_observations(-1)
    assert first["prev_n_actions"].ravel().tolist() == [0, 0, 0, 0]
    assert first["prev_n_rewards"].tolist() == [0]
    episode.add_env_step(np.zeros(2, np.float32), 1, 7.0)
    run(wider, [episode])
    then = episode.get_observations(-1)
    assert then["prev_n_actions"].ravel().tolist() == [0, 0, 0, 1]
    assert then["prev_n_rewards"].tolist() == [7]


def test_filters_have_the_mean_of_all_runners() -> None:
    seen = np.random.default_rng(0).normal(3.0, 2.0, (40, 2)).astype(np.float32)

    def filtered(rows: Any) -> Any:
        made = spaced(MeanStdFilter(), BOX, TWO)
        for row in rows:
            episode = SingleAgentEpisode(observation_space=BOX, action_space=TWO)
            episode.add_env_reset(row)
            run(made, [episode])
        return made, episode.get_observations(-1)

    whole, last = filtered(seen)
    plain = (seen[-1] - seen.mean(0)) / seen.std(0, ddof=1)
    np.testing.assert_allclose(last, plain, rtol=1e-3)
    parts = [filtered(rows)[0].get_state() for rows in (seen[:10], seen[10:])]
    merged = spaced(MeanStdFilter(), BOX, TWO)
    state = merged.merge_states(parts)
    assert state[None]["running_stats"][0]["num_pushes"] == 40
    again = spaced(MeanStdFilter(update_stats=False), BOX, TWO)
    again.set_state(state)
    episode = SingleAgentEpisode(observation_space=BOX, action_space=TWO)
    episode.add_env_reset(seen[-1])
    run(again, [episode])
    np.testing.assert_allclose(episode.get_observations(-1), plain, rtol=1e-3)
    assert whole.get_state()[None]["running_stats"][0]["num_pushes"] == 40


@ours
def test_what_was_merged_does_not_count_twice() -> None:
    here, there = (spaced(MeanStdFilter(), BOX, TWO) for _ in range(2))

    def see(made: Any, count: int) -> None:
        for _ in range(count):
            episode = SingleAgentEpisode(observation_space=BOX, action_space=TWO)
            episode.add_env_reset(BOX.sample())
            run(made, [episode])

    for total in (5, 10, 15):
        see(there, 5)
        state = there.get_state()
        there._taken()
        merged = here.merge_states([state])
        assert merged[None]["running_stats"][0]["num_pushes"] == total
        there.set_state(merged)


class Values:
    """A module whose value of an observation is its first number, times ten."""

    framework = "torch"

    def __contains__(self, name: str) -> bool:
        return name == "default_policy"

    def __getitem__(self, name: str) -> Any:
        return self

    def foreach_module(self, func: Any, **kwargs: Any) -> Any:
        return {"default_policy": func("default_policy", self)}

    def is_stateful(self) -> bool:
        return False

    def compute_values(self, columns: Any) -> Any:
        return columns["obs"][:, 0] * 10.0


@ours
def test_advantages_of_a_pipeline_are_those_of_a_plain_loop() -> None:
    pipeline = LearnerConnectorPipeline(connectors=[])
    for piece in (
        AddOneTsToEpisodesAndTruncate(),
        AddObservationsFromEpisodesToBatch(as_learner_connector=True),
        AddNextObservationsFromEpisodesToTrainBatch(),
        AddColumnsFromEpisodesToTrainBatch(),
        BatchIndividualItems(),
    ):
        pipeline.append(piece)
    from ray.rllib.connectors.learner import NumpyToTensor

    pipeline.append(NumpyToTensor())
    pipeline.append(GeneralAdvantageEstimation(gamma=0.9, lambda_=0.8))
    episodes = [episode_of(3, done=True).to_numpy(), episode_of(2).to_numpy()]
    batch = pipeline(rl_module=Values(), episodes=episodes)["default_policy"]
    assert batch["loss_mask"].tolist() == [True] * 3 + [False] + [True] * 2 + [False]
    expected: list[float] = []
    targets: list[float] = []
    for steps, done in ((3, True), (2, False)):
        running, rows = 0.0, []
        for step in reversed(range(steps)):
            then = 0.0 if done and step == steps - 1 else (step + 1) * 10.0
            running = step + 0.9 * then - step * 10.0 + 0.9 * 0.8 * running
            rows.append(running)
        expected += [*reversed(rows)]
        targets += [value + step * 10.0 for step, value in enumerate(reversed(rows))]
    mask = batch["loss_mask"]
    np.testing.assert_allclose(batch["value_targets"][mask], targets, rtol=1e-5)
    scaled = (np.array(expected) - np.mean(expected)) / np.std(expected)
    np.testing.assert_allclose(batch["advantages"][mask], scaled, rtol=1e-4, atol=1e-6)


def test_returns_and_actions_are_scaled_as_said() -> None:
    episode = episode_of(3, done=True)
    found = run(ComputeReturnsToGo(gamma=0.5), [episode])["returns_to_go"][(episode.id_,)][0]
    np.testing.assert_allclose(np.asarray(found), [1.0, 2.0, 2.0])
    force = SPACES.Box(-4.0, 2.0, (1,), np.float32)
    batch = {"actions": {("e",): [np.array([0.5], np.float32)]}}
    scaling = NormalizeAndClipActions(normalize_actions=True, clip_actions=False)
    spaced(scaling, BOX, force)
    run(scaling, [], batch)
    assert batch["actions_for_env"][("e",)][0].tolist() == [0.5]
    assert batch["actions"][("e",)][0].tolist() == [0.5]
    batch = {"actions": {("e",): [np.array([9.0], np.float32)]}}
    clipping = NormalizeAndClipActions(normalize_actions=False, clip_actions=True)
    spaced(clipping, BOX, force)
    run(clipping, [], batch)
    assert batch["actions_for_env"][("e",)][0].tolist() == [2.0]


# --- algorithms ---

REPLAYED = {"train_batch_size_per_learner": 16, "num_steps_sampled_before_learning_starts": 20}
SEQUENCES = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}
CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "PPO": (PPOConfig, "CartPole-v1", {"num_epochs": 1, "minibatch_size": None}),
    "IMPALA": (IMPALAConfig, "CartPole-v1", {}),
    "APPO": (APPOConfig, "CartPole-v1", {}),
    "DQN": (DQNConfig, "CartPole-v1", REPLAYED),
    "SAC": (SACConfig, "Pendulum-v1", REPLAYED),
}


def trained(name: str, several: bool, piped: bool, **model: Any) -> dict[str, Any]:
    kind, env, training = CASES[name]
    config = (
        kind()
        .environment(env)
        # The buffer's order of environments side by side is another one, and so is what is drawn of it.
        .env_runners(num_env_runners=0, num_envs_per_env_runner=1 if training is REPLAYED else 2)
        .learners(num_learners=0)
        .training(**{"train_batch_size_per_learner": 80, **training})
        .rl_module(model_config={"fcnet_hiddens": [8], **model})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100)
        .debugging(seed=5)
    )
    if several:
        config.environment(make_multi_agent(env), env_config={"num_agents": 2}).multi_agent(
            policies={"p0", "p1"}, policy_mapping_fn=lambda agent, episode, **kw: f"p{agent}"
        )
    if piped:
        config.env_runners(
            env_to_module_connector=lambda env, spaces, device: Same(),
            module_to_env_connector=lambda env, spaces: [Same()],
        ).learners(learner_connector=lambda observations, actions: Same())
    algo = config.build_algo()
    try:
        result = algo.train()
        losses = {
            module: float(result["learners"][module]["total_loss"])
            for module in (("p0", "p1") if several else ("default_policy",))
        }
        return {"return": result["env_runners"].get("episode_return_mean", 0.0), **losses}
    finally:
        algo.stop()


@ours
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_pipelines_give_what_arrays_give(
    ray_start: Any, monkeypatch: Any, name: str, several: bool
) -> None:
    # Small policies draw from a generator of their own (test_acting): both sides have torch's here.
    monkeypatch.setattr(DefaultPPOTorchRLModule, "_small_policy", lambda module, rows: None)
    plain, piped = (trained(name, several, piped) for piped in (False, True))
    assert plain == pytest.approx(piped, rel=1e-4), (plain, piped)


@ours
def test_modules_of_several_agents_have_states(ray_start: Any) -> None:
    found = trained("PPO", True, False, **SEQUENCES)
    assert np.isfinite([found["p0"], found["p1"]]).all()


class Halved(SingleAgentObservationPreprocessor):
    """Leaves out every other number of an observation."""

    def recompute_output_observation_space(self, seen: Any, acted: Any) -> Any:
        return SPACES.Box(-np.inf, np.inf, (2,), np.float32)

    def preprocess(self, observation: Any, episode: Any) -> Any:
        return np.asarray(observation, np.float32)[::2]


class Shaped(ConnectorV2):
    """Doubles what steps were worth."""

    def __call__(self, *, episodes: Any, batch: Any, **kwargs: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            episode.set_rewards(new_data=2.0 * np.asarray(episode.get_rewards()))
        return batch


class Last(ConnectorV2):
    """Remembers the batch that losses get."""

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        Last.batch = batch["default_policy"]
        return batch

    batch: Any = None


def test_connectors_change_observations_actions_and_rewards(ray_start: Any) -> None:
    class Never(ConnectorV2):
        """Environments get action 0, whatever the module chose."""

        def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
            batch[Columns.ACTIONS_FOR_ENV] = {
                key: [np.zeros_like(item) for item in items]
                for key, items in batch[Columns.ACTIONS].items()
            }
            return batch

    class Config(PPOConfig):
        def build_learner_connector(self, *arguments: Any, **keywords: Any) -> Any:
            pipeline = super().build_learner_connector(*arguments, **keywords)
            pipeline.append(Last())
            return pipeline

    config = (
        Config()
        .environment("CartPole-v1", normalize_actions=False)
        .env_runners(
            num_env_runners=0,
            env_to_module_connector=lambda env, spaces, device: Halved(),
            module_to_env_connector=lambda env, spaces: Never(),
        )
        .learners(learner_connector=lambda observations, actions: Shaped())
        .training(train_batch_size_per_learner=64, minibatch_size=64, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )
    algo = config.build_algo()
    try:
        result = algo.train()
        # A cart that is always pushed to one side falls after 8 to 10 steps.
        assert 8 <= result["env_runners"]["episode_return_mean"] <= 11
        batch = Last.batch
        assert tuple(batch["obs"].shape)[1:] == (2,)
        mask = batch["loss_mask"].bool()
        assert set(batch["rewards"][mask].tolist()) == {2.0}
        assert set(batch["actions"][mask].tolist()) == {0, 1}
        assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
    finally:
        algo.stop()


@ours
def test_filters_of_runners_are_merged_and_saved(ray_start: Any, tmp_path: Path) -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_env_runners=2,
            num_envs_per_env_runner=2,
            sample_timeout_s=600,
            env_to_module_connector=lambda env: [
                Same(),
                MeanStdFilter(),
            ],
            episode_lookback_horizon=3,
        )
        .training(train_batch_size_per_learner=80, minibatch_size=40, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )

    def seen(state: Any) -> Any:
        return state["env_to_module_connector"]["MeanStdFilter"][None]["running_stats"][0]

    algo = config.build_algo()
    try:
        for _ in range(2):
            result = algo.train()
        episodes = result["env_runners"]["num_episodes_lifetime"]
        merged = seen(algo.env_runner.get_state())
        # What each step led to, and what the four environments and all later episodes began with.
        assert merged["num_pushes"] == 160 + 4 + episodes
        theirs = algo.env_runner_group.foreach_env_runner(
            lambda runner: runner.sample(num_timesteps=8) and runner.get_state(),
            local_env_runner=False,
        )
        assert all(seen(state)["num_pushes"] >= 80 for state in theirs)
        path = algo.save_to_path(str(tmp_path / "saved"))
        pipeline = EnvToModulePipeline.from_checkpoint(f"{path}/env_runner/env_to_module_connector")
        kept = pipeline.get_state()["MeanStdFilter"][None]["running_stats"][0]
        np.testing.assert_array_equal(kept["mean_array"], merged["mean_array"])
        again = type(algo).from_checkpoint(path)
        try:
            restored = seen(again.env_runner.get_state())
            np.testing.assert_array_equal(restored["mean_array"], merged["mean_array"])
            again.train()
        finally:
            again.stop()
    finally:
        algo.stop()


def test_observations_of_the_batch_are_kept_in_episodes() -> None:
    episode = episode_of(1)
    batch = {"obs": {(episode.id_,): [np.array([7.0, 7.0], np.float32)]}}
    run(WriteObservationsToEpisodes(BOX, TWO), [episode], batch)
    assert episode.get_observations(-1).tolist() == [7.0, 7.0]
