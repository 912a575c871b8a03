"""The module of DQN: a value for each action."""

from __future__ import annotations

import math
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.rl_module.torch import TorchRLModule
from heliostat.rllib.core.rl_module.torch.networks import Encoder, mlp, settings
from heliostat.rllib.utils.schedules import Scheduler

torch = required("torch", "ray.rllib", "rllib")

# Settings of DQN that the module reads, beside those of `DefaultModelConfig`.
READ = ("dueling", "noisy", "sigma0", "num_atoms", "v_min", "v_max", "epsilon", "hiddens")


class NoisyLinear(torch.nn.Linear):  # type: ignore[name-defined] # found at run time
    """A linear layer with learned noise, new in each forward of training mode."""

    def __init__(self, size: int, out: int, sigma0: float) -> None:
        super().__init__(size, out)
        self.weight_sigma = torch.nn.Parameter(torch.full((out, size), sigma0 / math.sqrt(size)))
        self.bias_sigma = torch.nn.Parameter(torch.full((out,), sigma0 / math.sqrt(size)))
        self.noisy = True

    def forward(self, values: Any) -> Any:
        """Return the outputs."""
        if not self.noisy:
            return super().forward(values)
        left, right = torch.randn(self.in_features), torch.randn(self.out_features)
        left, right = (x.sign() * x.abs().sqrt() for x in (left, right))
        left, right = left.to(values.device), right.to(values.device)
        weight = self.weight + self.weight_sigma * torch.outer(right, left)
        return torch.nn.functional.linear(values, weight, self.bias + self.bias_sigma * right)


class DefaultDQNTorchRLModule(TorchRLModule):
    """An encoder with a head for the advantages of actions, and with ``dueling`` one for the value of the
    state.

    With ``num_atoms`` above 1 a head gives a distribution over returns from ``v_min`` to ``v_max``.
    """

    def setup(self) -> None:
        """Make the layers."""
        given = {name: self.model_config[name] for name in READ if name in self.model_config}
        config = settings({k: v for k, v in self.model_config.items() if k not in READ})
        if not hasattr(self.action_space, "n"):
            raise ValueError(
                f"DQN needs Discrete actions, not {self.action_space}: use SAC or PPO."
            )
        self.atoms, self.n = int(given.get("num_atoms", 1)), int(self.action_space.n)
        self.encoder = Encoder(self.observation_space, config)
        hidden = config.head_fcnet_hiddens or given.get("hiddens", [256])
        act, sigma0 = config.head_fcnet_activation, given.get("sigma0", 0.5)
        self.af = mlp(self.encoder.out, hidden, act, self.n * self.atoms)
        self.vf = (
            mlp(self.encoder.out, hidden, act, self.atoms) if given.get("dueling", True) else None
        )
        if given.get("noisy"):
            for head in (self.af, self.vf):
                if head is not None:
                    head[-1] = NoisyLinear(head[-1].in_features, head[-1].out_features, sigma0)
        self.noisy = bool(given.get("noisy"))
        self.epsilon = Scheduler(0.0 if self.noisy else given.get("epsilon", 0.0))
        support = torch.linspace(given.get("v_min", -10.0), given.get("v_max", 10.0), self.atoms)
        self.register_buffer("support", support, persistent=False)

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return ``qf_preds`` of shape ``(batch, actions)``, and with atoms ``qf_logits``."""
        features, _ = self.encoder(batch)
        values = self.af(features).reshape(-1, self.n, self.atoms)
        if self.vf is not None:
            values = (
                values - values.mean(1, keepdim=True) + self.vf(features).reshape(-1, 1, self.atoms)
            )
        if self.atoms == 1:
            return {"qf_preds": values.squeeze(-1)}
        return {"qf_logits": values, "qf_preds": (values.softmax(-1) * self.support).sum(-1)}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.compute_q_values(batch)

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self._noise(False)
        best = self.compute_q_values(batch)["qf_preds"].argmax(-1)
        self._noise(True)
        return {Columns.ACTIONS: best + int(self.action_space.start)}

    def _forward_exploration(
        self, batch: dict[str, Any], t: int = 0, **kwargs: Any
    ) -> dict[str, Any]:
        best = self.compute_q_values(batch)["qf_preds"].argmax(-1)
        epsilon = self.epsilon.value_at(t)
        if epsilon > 0.0:
            explores = torch.rand(best.shape) < epsilon
            best = torch.where(explores, torch.randint(0, self.n, best.shape), best)
        return {Columns.ACTIONS: best + int(self.action_space.start)}

    def _noise(self, on: bool) -> None:
        for head in (self.af, self.vf):
            if self.noisy and head is not None:
                head[-1].noisy = on
