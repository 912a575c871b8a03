"""The learner of SAC."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms.replaying import TargetLearner
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.learner.torch.torch_learner import adam

torch = required("torch", "ray.rllib", "rllib")


class SACTorchLearner(TargetLearner):
    """Values against those of the target with the entropy's worth, a policy after them, and that worth."""

    def build(self) -> None:
        """Make the modules, their optimizers, and the worth of entropy of each."""
        if not hasattr(self, "log_alphas"):
            self.log_alphas: dict[str, Any] = {}
        super().build()

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make an Adam for the policy, one for values, and one for the worth of entropy."""
        module = self.module[module_id]
        alpha = torch.tensor(math.log(config.initial_alpha), device=self.device, requires_grad=True)
        self.log_alphas[module_id] = alpha
        policy = [*module.pi_encoder.parameters(), *module.pi.parameters()]
        groups = (
            ("qf", list(module.q.parameters()), config.critic_lr),
            ("policy", policy, config.actor_lr),
            ("alpha", [alpha], config.alpha_lr),
        )
        for name, params, rate in groups:
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=adam(params),
                params=params,
                lr_or_lr_schedule=rate if config.lr is None else config.lr,
            )

    def wanted_entropy(self, module: Any, config: Any) -> float:
        """The entropy that the policy is held at."""
        if config.target_entropy not in (None, "auto"):
            return float(config.target_entropy)
        if module.discrete:
            return 0.98 * math.log(int(module.action_space.n))
        return -float(np.prod(module.action_space.shape))

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the sum of the losses: each optimizer's parameters have a gradient of one of them."""
        module, target = self.module[module_id], self._targets[module_id]
        kind = module.get_train_action_dist_cls()
        alpha = self.log_alphas[module_id].exp()
        seen, then = batch[Columns.OBS], batch[Columns.NEXT_OBS]
        steps = batch.get("n_step", torch.ones_like(batch[Columns.REWARDS]))
        discount = config.gamma ** steps.float() * (1.0 - batch[Columns.TERMINATEDS].float())
        weights = batch.get("weights", torch.ones_like(batch[Columns.REWARDS]))
        now = kind.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        with torch.no_grad():
            out = module._forward({Columns.OBS: then})
            later = kind.from_logits(out[Columns.ACTION_DIST_INPUTS])
            after = self._soft_value(module, target, later, then, alpha.detach())
            wanted = batch[Columns.REWARDS] + discount * after
        if module.discrete:
            actions = batch[Columns.ACTIONS].long()[:, None] - int(module.action_space.start)
            values = [q.gather(1, actions).squeeze(-1) for q in module.values(seen)]
        else:
            values = module.values(seen, batch[Columns.ACTIONS])
        errors = [value - wanted for value in values]
        critic = sum(
            (weights * torch.nn.functional.huber_loss(v, wanted, reduction="none")).mean()
            for v in values
        )
        extra = self.more_critic_loss(
            module_id=module_id,
            config=config,
            batch=batch,
            values=values,
            inputs=fwd_out[Columns.ACTION_DIST_INPUTS],
            inputs_later=out[Columns.ACTION_DIST_INPUTS],
        )
        # The policy's loss goes through the values, and must not change them.
        module.q.requires_grad_(False)
        if module.discrete:
            logits = _logits(now)
            least = torch.stack(module.values(seen)).min(0).values
            chances = logits.exp()
            actor = (chances * (alpha.detach() * logits - least)).sum(-1).mean()
            logp = (chances * logits).sum(-1)
        else:
            actions, logp = _drawn(now)
            least = torch.stack(module.values(seen, actions)).min(0).values
            actor = self.actor_loss(config, batch, now, alpha.detach(), logp, least)
        module.q.requires_grad_(True)
        goal = self.wanted_entropy(module, config)
        worth = -(self.log_alphas[module_id] * (logp.detach() + goal)).mean()
        self.told(module_id, torch.stack([e.abs() for e in errors]).mean(0))
        for key, value in (
            ("qf_loss", critic),
            ("policy_loss", actor),
            ("alpha_loss", worth),
            ("alpha_value", alpha),
            ("log_alpha_value", self.log_alphas[module_id]),
            ("target_entropy", goal),
            ("logps_mean", logp.mean()),
            ("qf_mean", values[0].mean()),
            ("qf_max", values[0].max()),
            ("qf_min", values[0].min()),
        ):
            self._later((module_id, key), value)
        return critic + extra + actor + worth

    def more_critic_loss(self, **about: Any) -> Any:
        """Return the further part of a loss of values: CQL's penalty."""
        return 0.0

    def actor_loss(
        self, config: Any, batch: dict[str, Any], now: Any, alpha: Any, logp: Any, values: Any
    ) -> Any:
        """The policy's loss of continuous actions."""
        return (alpha * logp - values).mean()

    def _soft_value(
        self, module: Any, target: Any, dist: Any, observations: Any, alpha: Any
    ) -> Any:
        if module.discrete:
            logits = _logits(dist)
            least = torch.stack(target.values(observations)).min(0).values
            return (logits.exp() * (least - alpha * logits)).sum(-1)
        actions, logp = _drawn(dist)
        return torch.stack(target.values(observations, actions)).min(0).values - alpha * logp

    def _own_state(self) -> dict[str, Any]:
        alphas = {name: float(alpha.detach()) for name, alpha in self.log_alphas.items()}
        return {**super()._own_state(), "log_alphas": alphas}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        super()._set_own_state(state)
        with torch.no_grad():
            for name, value in state.get("log_alphas", {}).items():
                self.log_alphas[name].fill_(value)


def _logits(dist: Any) -> Any:
    children = getattr(dist, "children", None)
    return (children[0] if children else dist)._dist.logits


def _drawn(dist: Any) -> tuple[Any, Any]:
    children = getattr(dist, "children", None)
    inner = children[0] if children else dist
    actions, logp = inner.rsample_with_logp()
    return (dist.join([actions]) if children else actions), logp
