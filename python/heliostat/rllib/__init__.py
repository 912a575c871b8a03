"""Reinforcement learning: environments that are sampled, and modules that are trained on the samples.

Reading order: ``algorithms/algorithm_config`` (the settings), ``algorithms/algorithm`` (the loop), ``env``
(who samples, and what a sample is), ``core/rl_module`` (the networks), ``core/learner`` (who trains them),
``algorithms/ppo`` and the others.
"""

from __future__ import annotations

from heliostat.rllib.env.multi_agent_env import MultiAgentEnv
from heliostat.rllib.utils import old_names
from heliostat.tune.registry import register_trainable

__all__ = ["MultiAgentEnv"]

# Old API stack: names that programs import, and what takes their place.
_GONE = {
    "BaseEnv": "gymnasium.Env, and gymnasium.vector.VectorEnv",
    "ExternalEnv": "ray.rllib.env.external, whose clients send episodes",
    "Policy": "ray.rllib.core.rl_module.RLModule",
    "RolloutWorker": "ray.rllib.env.single_agent_env_runner.SingleAgentEnvRunner",
    "SampleBatch": "ray.rllib.core.columns.Columns, and dicts of arrays",
    "TFPolicy": "ray.rllib.core.rl_module.torch.TorchRLModule",
    "TorchPolicy": "ray.rllib.core.rl_module.torch.TorchRLModule",
    "VectorEnv": "gymnasium.vector.VectorEnv",
}


def _register() -> None:
    from heliostat.rllib import algorithms

    for name in algorithms.NAMES:
        register_trainable(name, getattr(algorithms, name))


def __getattr__(name: str) -> object:
    if name in _GONE:
        raise AttributeError(old_names.sentence(f"ray.rllib.{name}", _GONE[name]))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_register()
