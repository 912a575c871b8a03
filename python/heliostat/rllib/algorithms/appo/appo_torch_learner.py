"""The learner of APPO."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms.impala.impala_torch_learner import IMPALATorchLearner
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.learner.torch.torch_learner import Followers, masked_mean

torch = required("torch", "ray.rllib", "rllib")
_TARGET_LOGP = "target_logp"


class APPOTorchLearner(IMPALATorchLearner):
    """PPO's clipped loss on samples of older policies, weighed by a target policy that follows slowly."""

    def build(self) -> None:
        """Make the modules, their optimizers, and their targets."""
        super().build()
        if not hasattr(self, "_targets"):
            self._targets: dict[str, Any] = {}
            self._followers = Followers()
            self._kl_coeffs: dict[str, float] = {}
            self._updates = 0
        for name, module in self.module.items():
            if name not in self._targets:
                self._targets[name] = copy.deepcopy(module).requires_grad_(False)
                self._kl_coeffs[name] = self.config.get_config_for_module(name).kl_coeff

    def traced(self, config: Any, **steps: Any) -> dict[str, Any]:
        """Return V-trace's targets and advantages, and how likely the target policy takes the actions."""
        return {**super().traced(config, **steps), _TARGET_LOGP: steps["logp"].astype(np.float32)}

    def judge(self, module_id: str) -> Any:
        """Return the target: it is compared with the runners' policies."""
        return self._targets[module_id]

    def policy_loss(
        self, module_id: str, config: Any, batch: dict[str, Any], dist: Any, logp: Any
    ) -> Any:
        """The clipped surrogate, and the divergence from the sampling policy where ``use_kl_loss`` says
        so.
        """
        behaviour = batch[Columns.ACTION_LOGP]
        weight = torch.exp(behaviour - batch[_TARGET_LOGP]).clamp(
            0.0, config.target_worker_clipping
        )
        ratio = weight * torch.exp(logp - behaviour)
        advantage = batch[Columns.ADVANTAGES]
        low, high = 1 - config.clip_param, 1 + config.clip_param
        loss = -masked_mean(torch.min(advantage * ratio, advantage * ratio.clamp(low, high)), batch)
        if config.use_kl_loss:
            kind = self.module[module_id].get_train_action_dist_cls()
            then = kind.from_logits(batch[Columns.ACTION_DIST_INPUTS])
            divergence = masked_mean(then.kl(dist), batch)
            self._later((module_id, "mean_kl_loss"), divergence)
            self._later((module_id, "curr_kl_coeff"), self._kl_coeffs[module_id])
            loss = loss + self._kl_coeffs[module_id] * divergence
        return loss

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Let the targets follow, and adapt the coefficient of the divergence."""
        for name, seen in [
            (k[0], v[-1]) for k, v in self._pending.items() if k[1] == "mean_kl_loss"
        ]:
            goal = self.config.get_config_for_module(name).kl_target
            if float(seen) > 2.0 * goal:
                self._kl_coeffs[name] *= 1.5
            elif float(seen) < 0.5 * goal:
                self._kl_coeffs[name] *= 0.5
        super().after_gradient_based_update(timesteps=timesteps)
        self._updates += 1
        if self._updates % self.config.target_network_update_freq:
            return
        for name, module in self.module.items():
            tau = self.config.get_config_for_module(name).tau
            self._followers.follow(name, self._targets[name], module, tau)
            self.metrics.log_value((name, "num_target_updates"), 1, reduce="lifetime_sum")

    def _own_state(self) -> dict[str, Any]:
        targets = {name: target.get_state() for name, target in self._targets.items()}
        return {"targets": targets, "kl": dict(self._kl_coeffs)}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        self._kl_coeffs |= state.get("kl", {})
        for name, weights in state.get("targets", {}).items():
            self._targets[name].set_state(weights)
