"""The module of PPO, IMPALA, APPO, BC and MARWIL: a policy and a value function."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.distribution.torch.torch_distribution import for_space, inputs
from heliostat.rllib.core.rl_module.apis import ValueFunctionAPI
from heliostat.rllib.core.rl_module.torch import TorchRLModule
from heliostat.rllib.core.rl_module.torch.acting import (
    Near,
    OneOf,
    SmallPolicy,
    chain,
    random_numbers,
)
from heliostat.rllib.core.rl_module.torch.networks import Encoder, mlp, settings

torch = required("torch", "ray.rllib", "rllib")


class DefaultPPOTorchRLModule(TorchRLModule, ValueFunctionAPI):
    """An encoder of observations with a head for actions and one for values.

    With ``vf_share_layers=False`` values have an encoder of their own, which runners do not get. A ``Dict``
    observation of ``"observations"`` and ``"action_mask"`` masks discrete actions.
    """

    def setup(self) -> None:
        """Make the layers."""
        config = settings(self.model_config)
        self._config = config
        self._mask = _masks(self.observation_space, self.action_space)
        space = self.observation_space["observations"] if self._mask else self.observation_space
        self.encoder = Encoder(space, config)
        self.vf_encoder = None
        if not config.vf_share_layers and not self.inference_only:
            self.vf_encoder = Encoder(space, config)
        outputs = inputs(self.action_space)
        self._free = config.free_log_std and hasattr(self.action_space, "low")
        if self._free:
            outputs //= 2
            self.log_std = torch.nn.Parameter(torch.zeros(outputs))
        hidden, act = config.head_fcnet_hiddens, config.head_fcnet_activation
        self.pi = mlp(self.encoder.out, hidden, act, outputs, config.head_fcnet_use_layernorm)
        # Small first outputs: the first policy is nearly uniform.
        with torch.no_grad():
            self.pi[-1].weight.mul_(0.01)
            self.pi[-1].bias.zero_()
        self.vf = None
        if not self.inference_only:
            self.vf = mlp(self.encoder.out, hidden, act, 1, config.head_fcnet_use_layernorm)

    def get_initial_state(self) -> Any:
        """Return the LSTM's first state, of each encoder."""
        return self.encoder.initial_state()

    def get_non_inference_attributes(self) -> list[str]:
        """Return what only training needs."""
        return ["vf_encoder", "vf"]

    def _observations(self, batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        if not self._mask:
            return batch, None
        nest = batch[Columns.OBS]
        return {**batch, Columns.OBS: nest["observations"]}, nest["action_mask"]

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        batch, mask = self._observations(batch)
        features, state = self.encoder(batch)
        found = {Columns.ACTION_DIST_INPUTS: self._outputs(features, mask)}
        if state is not None:
            found[Columns.STATE_OUT] = state
        return found

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        batch, mask = self._observations(batch)
        features, _ = self.encoder(batch)
        found = {Columns.ACTION_DIST_INPUTS: self._outputs(features, mask)}
        if self.vf_encoder is None:
            found[Columns.EMBEDDINGS] = features
        return found

    def _outputs(self, features: Any, mask: Any) -> Any:
        outputs = self.pi(features)
        if self._free:
            bound = self._config.log_std_clip_param
            outputs = torch.cat(
                [outputs, self.log_std.clamp(-bound, bound).expand_as(outputs)], dim=-1
            )
        elif hasattr(self.action_space, "low"):
            mean, log_std = outputs.chunk(2, dim=-1)
            bound = self._config.log_std_clip_param
            outputs = torch.cat([mean, log_std.clamp(-bound, bound)], dim=-1)
        if mask is not None:
            outputs = outputs.masked_fill(mask.reshape(outputs.shape) == 0, -1e9)
        return outputs

    def _small_policy(self, rows: int) -> SmallPolicy | None:
        space, seen = self.action_space, self.encoder.inputs
        simple = (
            type(self) is DefaultPPOTorchRLModule
            and type(self.get_inference_action_dist_cls()) is type(for_space(space))
            and not (self._mask or self.encoder.stateful or seen.image_at)
            and len(seen.spaces) == 1
            and seen.spaces[0].__class__.__name__ == "Box"
        )
        if not simple:
            return None
        parts = chain([*self.encoder.layers, *self.pi], rows)
        if parts is None:
            return None
        kind = type(space).__name__
        if kind == "Discrete":
            return SmallPolicy(parts, OneOf(int(space.start), random_numbers(), rows))
        if kind == "Box" and len(space.shape) == 1:
            own = self.log_std.detach().numpy() if self._free else None
            bound = float(self._config.log_std_clip_param)
            return SmallPolicy(parts, Near(random_numbers(), bound, own))
        return None

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Return the values of observations."""
        if self.vf is None:
            raise RuntimeError(
                "This module was made with inference_only=True, so it has no value function."
            )
        if embeddings is None:
            batch, _ = self._observations(batch)
            embeddings, _ = (self.vf_encoder or self.encoder)(batch)
        return self.vf(embeddings).squeeze(-1)


def _masks(space: Any, actions: Any) -> bool:
    known = getattr(space, "spaces", None)
    return (
        isinstance(known, dict)
        and set(known) == {"observations", "action_mask"}
        and hasattr(actions, "n")
    )
