"""The learner of CQL."""

from __future__ import annotations

import math
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms.sac.sac_torch_learner import SACTorchLearner, _drawn
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import mapped

torch = required("torch", "ray.rllib", "rllib")


class CQLTorchLearner(SACTorchLearner):
    """SAC's losses, a penalty on the values of actions outside the data, and imitation at first."""

    def build(self) -> None:
        """Make the modules and their optimizers.

        Raises:
            ValueError: Actions are not of a Box.
        """
        self._updates = getattr(self, "_updates", 0)
        super().build()
        for module in self.module.values():
            if module.discrete:
                raise ValueError(
                    f"CQL needs Box actions, not {module.action_space}: use BC or MARWIL."
                )

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Count updates, and let the targets follow."""
        self._updates += 1
        super().after_gradient_based_update(timesteps=timesteps)

    def more_critic_loss(self, **about: Any) -> Any:
        """Return how much higher values of drawn actions are than those of recorded ones."""
        config, batch, values = about["config"], about["batch"], about["values"]
        module = self.module[about["module_id"]]
        kind = module.get_train_action_dist_cls()
        count, rows = config.num_actions, len(batch[Columns.REWARDS])

        def repeated(leaf: Any) -> Any:
            return leaf.repeat_interleave(count, 0)

        seen = mapped(repeated, batch[Columns.OBS])
        with torch.no_grad():
            now = _drawn(kind.from_logits(repeated(about["inputs"].detach())))
            later = _drawn(kind.from_logits(repeated(about["inputs_later"])))
            drawn = torch.rand_like(now[0]) * 2.0 - 1.0
        density = math.log(0.5) * math.prod(module.action_space.shape)
        columns: list[list[Any]] = [[] for _ in values]
        for actions, logp in ((drawn, density), later, now):
            for own, q in zip(columns, module.values(seen, actions), strict=True):
                own.append((q - logp).reshape(rows, count))
        heat, total = config.temperature, 0.0
        for own, recorded in zip(columns, values, strict=True):
            spread = torch.logsumexp(torch.cat(own, 1) / heat, 1).mean() * heat
            total = total + config.min_q_weight * (spread - recorded.mean())
        self._later((about["module_id"], "cql_loss"), total)
        return total

    def actor_loss(
        self, config: Any, batch: dict[str, Any], now: Any, alpha: Any, logp: Any, values: Any
    ) -> Any:
        """Return the policy's loss: likelihood of recorded actions first, values later."""
        if self._updates < config.bc_iters:
            return (alpha * logp - now.logp(batch[Columns.ACTIONS].clamp(-0.9999, 0.9999))).mean()
        return super().actor_loss(config, batch, now, alpha, logp, values)

    def _soft_value(
        self, module: Any, target: Any, dist: Any, observations: Any, alpha: Any
    ) -> Any:
        if self.config.deterministic_backup:
            alpha = torch.zeros_like(alpha)
        return super()._soft_value(module, target, dist, observations, alpha)

    def _own_state(self) -> dict[str, Any]:
        return {**super()._own_state(), "updates": self._updates}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        super()._set_own_state(state)
        self._updates = state.get("updates", self._updates)
