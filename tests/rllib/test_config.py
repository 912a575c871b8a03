"""Settings of algorithms: groups, copies, and what is said of wrong ones."""

from __future__ import annotations

import pickle

import gymnasium
import pytest
from ray.rllib.algorithms import AlgorithmConfig, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

ours = pytest.mark.heliostat_only("our own words")


def test_groups_set_attributes() -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"a": 1})
        .env_runners(num_env_runners=3, num_envs_per_env_runner=2)
        .training(lr=0.1, lambda_=0.9, train_batch_size_per_learner=600)
        .debugging(seed=7)
    )
    assert (config.env, config.env_config) == ("CartPole-v1", {"a": 1})
    assert (config.num_env_runners, config.lr, config.lambda_, config.seed) == (3, 0.1, 0.9, 7)
    assert config.total_train_batch_size == 600
    assert config.get_rollout_fragment_length() == 100
    assert config["lambda"] == 0.9


def test_the_defaults_are_rays() -> None:
    config = PPOConfig()
    found = (config.gamma, config.lr, config.clip_param, config.vf_clip_param, config.num_epochs)
    assert found == (0.99, 5e-05, 0.3, 10.0, 30)
    assert (config.train_batch_size_per_learner, config.minibatch_size) == (4000, 128)
    assert config.num_env_runners == 2


def test_a_frozen_copy_takes_no_changes() -> None:
    config = PPOConfig().training(gamma=0.5)
    copied = config.copy()
    copied.freeze()
    with pytest.raises(AttributeError):
        copied.gamma = 0.9
    config.gamma = 0.7
    again = copied.copy(copy_frozen=False)
    again.gamma = 0.8
    assert (config.gamma, copied.gamma, again.gamma) == (0.7, 0.5, 0.8)


def test_a_dict_makes_the_same_settings() -> None:
    config = PPOConfig().environment("CartPole-v1").training(lambda_=0.5, lr=[[0, 0.1], [100, 0.2]])
    again = PPOConfig.from_dict(config.to_dict())
    assert (again.lambda_, again.lr, again.env) == (0.5, [[0, 0.1], [100, 0.2]], "CartPole-v1")
    assert pickle.loads(pickle.dumps(config)).lambda_ == 0.5


@ours
def test_unknown_settings_name_the_nearest() -> None:
    with pytest.raises(AttributeError, match="'lambda_'"):
        PPOConfig().training(lambd=0.9)
    with pytest.raises(AttributeError, match=r"env_runners\(num_env_runners=\.\.\.\)"):
        PPOConfig().training(num_env_runners=1)
    with pytest.raises(AttributeError, match="'gamma'"):
        PPOConfig.from_dict({"gama": 0.9})


@ours
@pytest.mark.parametrize(
    ("group", "setting", "instead"),
    [
        ("training", {"num_sgd_iter": 3}, "num_epochs"),
        ("training", {"model": {}}, "DefaultModelConfig"),
        ("env_runners", {"num_rollout_workers": 3}, "num_env_runners"),
        ("env_runners", {"observation_filter": "MeanStdFilter"}, "env_to_module_connector"),
    ],
)
def test_settings_of_the_old_stack_say_what_replaces_them(
    group: str, setting: dict[str, object], instead: str
) -> None:
    with pytest.raises(AttributeError, match=f"old API stack.*{instead}"):
        getattr(PPOConfig(), group)(**setting)


@ours
def test_what_is_not_built_is_refused() -> None:
    with pytest.raises(ValueError, match="compress_observations is not built"):
        PPOConfig().env_runners(compress_observations=True)
    with pytest.raises(ValueError, match="action_mask_key is not built"):
        PPOConfig().environment(action_mask_key="allowed")
    with pytest.raises(ValueError, match="old API stack"):
        PPOConfig().api_stack(enable_rl_module_and_learner=False)
    with pytest.raises(ValueError, match="torch"):
        PPOConfig().framework("tf2")


@ours
def test_what_has_no_effect_is_told(caplog: pytest.LogCaptureFixture) -> None:
    PPOConfig().env_runners(create_env_on_local_worker=False, num_env_runners=1)
    assert caplog.text == ""
    PPOConfig().env_runners(create_env_on_local_worker=True)
    PPOConfig().offline_data(map_batches_kwargs={"concurrency": 2})
    assert caplog.messages == [
        "create_env_on_local_worker has no effect in this release of Heliostat.",
        "map_batches_kwargs has no effect in this release of Heliostat.",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": 1.5},
        {"num_epochs": 0},
        {"minibatch_size": 10**9},
        {"lr": [[5, 0.1]]},
        {"clip_param": -1},
        {"grad_clip_by": "norms"},
    ],
)
@ours
def test_settings_that_do_not_fit_are_named(change: dict[str, object]) -> None:
    config = PPOConfig().environment("CartPole-v1").training(**change)
    with pytest.raises(ValueError, match=next(iter(change))):
        config.validate()


def test_model_settings_are_a_dataclass_or_a_dict() -> None:
    config = PPOConfig().rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[8]))
    assert config.model_config["fcnet_hiddens"] == [8]
    assert PPOConfig().rl_module(model_config={"fcnet_hiddens": [4]}).model_config[
        "fcnet_hiddens"
    ] == [4]


def test_overrides_are_checked() -> None:
    assert AlgorithmConfig.overrides(explore=False) == {"explore": False}
    with pytest.raises(KeyError):
        AlgorithmConfig.overrides(explor=False)


def test_the_settings_of_an_algorithms_own_default_module() -> None:
    """What get_default_rl_module_spec() says is there, and what the program sets goes before it."""
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    class Own(PPOConfig):
        def get_default_rl_module_spec(self) -> RLModuleSpec:
            kind = super().get_default_rl_module_spec().module_class
            return RLModuleSpec(module_class=kind, model_config={"hidden_dim": 64, "other": 1})

    box = gymnasium.spaces.Box(-1, 1, (2,))
    spaces = {"default_policy": (box, gymnasium.spaces.Discrete(2))}
    config = Own().rl_module(model_config={"other": 2})
    spec = config.get_multi_rl_module_spec(spaces=spaces).rl_module_specs["default_policy"]
    assert (spec.model_config["hidden_dim"], spec.model_config["other"]) == (64, 2)
