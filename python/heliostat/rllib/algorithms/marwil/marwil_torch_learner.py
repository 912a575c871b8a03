"""The learner of MARWIL and BC."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms.ppo.ppo_torch_learner import ValueLearner
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.learner.torch.torch_learner import masked_mean

torch = required("torch", "ray.rllib", "rllib")


class MARWILTorchLearner(ValueLearner):
    """Log-likelihood of recorded actions, weighted by their advantages where ``beta`` is above 0."""

    def build(self) -> None:
        """Make the modules, their optimizers, and the mean square of advantages of each."""
        super().build()
        if not hasattr(self, "moving_avg_sqd_adv_norms_per_module"):
            self.moving_avg_sqd_adv_norms_per_module: dict[str, Any] = {}
        for module_id in list(self.module.keys()):
            config = self.config.get_config_for_module(module_id)
            start = torch.tensor(float(config.moving_average_sqd_adv_norm_start))
            self.moving_avg_sqd_adv_norms_per_module.setdefault(module_id, start)

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss."""
        module = self.module[module_id]
        kind = module.get_train_action_dist_cls()
        dist = kind.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        logp = dist.logp(batch[Columns.ACTIONS])
        if config.bc_logstd_coeff > 0.0:
            logp = logp + config.bc_logstd_coeff * _log_std(dist, module)
        if config.beta == 0.0:
            loss = -masked_mean(logp, batch)
            self._later((module_id, "policy_loss"), loss)
            return loss
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        targets = batch[Columns.VALUE_TARGETS]
        advantage = targets - values
        square = masked_mean(advantage.pow(2), batch)
        value_loss = 0.5 * square
        held = self.moving_avg_sqd_adv_norms_per_module[module_id].to(values.device)
        held = held + config.moving_average_sqd_adv_norm_update_rate * (square.detach() - held)
        self.moving_avg_sqd_adv_norms_per_module[module_id] = held
        weights = (config.beta * advantage / (held.sqrt() + 1e-8)).exp().detach()
        policy_loss = -masked_mean(weights * logp, batch)
        spread = targets.var(unbiased=False)
        explained = 1 - advantage.var(unbiased=False) / spread.clamp(min=1e-8)
        for key, value in (
            ("policy_loss", policy_loss),
            ("vf_loss", value_loss),
            ("vf_explained_var", explained),
            ("moving_avg_sqd_adv_norm", held),
        ):
            self._later((module_id, key), value)
        return policy_loss + config.vf_coeff * value_loss

    def _own_state(self) -> dict[str, Any]:
        norms = self.moving_avg_sqd_adv_norms_per_module
        return {"norms": {name: float(value) for name, value in norms.items()}}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        for name, value in state.get("norms", {}).items():
            self.moving_avg_sqd_adv_norms_per_module[name] = torch.tensor(value)


def _log_std(dist: Any, module: Any) -> Any:
    inner: Any = getattr(dist, "_dist", None)
    if not hasattr(inner, "stddev") or not hasattr(module.action_space, "low"):
        raise ValueError(
            f"bc_logstd_coeff is for Box actions, and the space is {module.action_space}: leave it 0."
        )
    return inner.stddev.log().mean(-1)
