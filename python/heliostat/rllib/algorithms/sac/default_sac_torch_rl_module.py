"""The module of SAC: a policy, and two values of state and action."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.distribution.torch.torch_distribution import for_space, inputs
from heliostat.rllib.core.rl_module.torch import TorchRLModule
from heliostat.rllib.core.rl_module.torch.networks import Encoder, mlp, settings

torch = required("torch", "ray.rllib", "rllib")


class DefaultSACTorchRLModule(TorchRLModule):
    """A policy with actions squashed into ``[-1, 1]``, or of discrete actions, and twin values."""

    def setup(self) -> None:
        """Make the layers."""
        given = dict(self.model_config)
        twin = given.pop("twin_q", True)
        config = settings(given)
        space = self.action_space
        self.discrete = hasattr(space, "n") and not getattr(space, "shape", ())
        if not self.discrete and not hasattr(space, "low"):
            raise ValueError(f"SAC needs Box or Discrete actions, not {space}: use PPO.")
        act = config.head_fcnet_activation
        hidden = config.head_fcnet_hiddens
        self.pi_encoder = Encoder(self.observation_space, config)
        self.pi = mlp(self.pi_encoder.out, hidden, act, inputs(space))
        self.action_dist_cls = for_space(space, squash=True)
        self.q = torch.nn.ModuleList()
        if self.inference_only:
            return
        self.size = int(space.n) if self.discrete else 0
        for _ in range(2 if twin else 1):
            self.q.append(_Value(self.observation_space, space, config, self.discrete))

    def get_non_inference_attributes(self) -> list[str]:
        """Return what only training needs."""
        return ["q"]

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        features, _ = self.pi_encoder(batch)
        return {Columns.ACTION_DIST_INPUTS: self.pi(features)}

    def values(self, observations: Any, actions: Any = None) -> list[Any]:
        """Return each network's values: of the actions, or of each discrete action."""
        return [q(observations, actions) for q in self.q]


class _Value(torch.nn.Module):  # type: ignore[name-defined] # found at run time
    def __init__(self, observations: Any, actions: Any, config: Any, discrete: bool) -> None:
        super().__init__()
        from heliostat.rllib.core.rl_module.torch.networks import Inputs

        self.inputs = Inputs(observations, config)
        size, out = self.inputs.size, 1
        if discrete:
            out = int(actions.n)
        else:
            for length in actions.shape:
                out *= int(length)
            size, out = size + out, 1
        self.layers = mlp(size, config.fcnet_hiddens, config.fcnet_activation, out)

    def forward(self, observations: Any, actions: Any) -> Any:
        features = self.inputs(observations)
        if actions is None:
            return self.layers(features)
        joined = torch.cat([features, actions.reshape(len(actions), -1).float()], dim=-1)
        return self.layers(joined).squeeze(-1)
