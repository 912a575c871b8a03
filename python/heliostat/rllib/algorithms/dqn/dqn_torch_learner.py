"""The learner of DQN."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms.replaying import TargetLearner
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.learner.torch.torch_learner import adam

torch = required("torch", "ray.rllib", "rllib")


class DQNTorchLearner(TargetLearner):
    """Errors of values against what the target network expects of the next state."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make one Adam with the setting ``adam_epsilon``."""
        params = self.get_parameters(self.module[module_id])
        optimizer = adam(params, eps=config.adam_epsilon)
        self.register_optimizer(
            module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr
        )

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss."""
        module, target = self.module[module_id], self._targets[module_id]
        rows = torch.arange(len(batch[Columns.REWARDS]), device=batch[Columns.REWARDS].device)
        actions = batch[Columns.ACTIONS].long() - int(module.action_space.start)
        chosen = fwd_out["qf_preds"][rows, actions]
        then = {Columns.OBS: batch[Columns.NEXT_OBS]}
        steps = batch.get("n_step", torch.ones_like(rows))
        discount = config.gamma ** steps.float() * (1.0 - batch[Columns.TERMINATEDS].float())
        with torch.no_grad():
            later = target.compute_q_values(then)
            judge = module.compute_q_values(then) if config.double_q else later
            best = judge["qf_preds"].argmax(-1)
        weights = batch.get("weights", torch.ones_like(chosen))
        if module.atoms == 1:
            wanted = batch[Columns.REWARDS] + discount * later["qf_preds"][rows, best]
            errors = chosen - wanted
            if config.td_error_loss_fn == "huber":
                losses = torch.nn.functional.huber_loss(chosen, wanted, reduction="none")
            else:
                losses = 0.5 * errors.pow(2)
        else:
            losses = self._cross_entropy(
                module, fwd_out, later, rows, actions, best, batch, discount
            )
            errors = losses
        loss = (weights * losses).mean()
        self.told(module_id, errors)
        self._later((module_id, "qf_loss"), loss)
        self._later((module_id, "qf_mean"), chosen.mean())
        self._later((module_id, "qf_max"), chosen.max())
        self._later((module_id, "qf_min"), chosen.min())
        return loss

    @staticmethod
    def _cross_entropy(
        module: Any,
        now: dict[str, Any],
        later: dict[str, Any],
        rows: Any,
        actions: Any,
        best: Any,
        batch: dict[str, Any],
        discount: Any,
    ) -> Any:
        # The next state's distribution, moved by the reward, falls between atoms: each gets its share.
        support = module.support
        low, high, gap = support[0], support[-1], support[1] - support[0]
        with torch.no_grad():
            moved = batch[Columns.REWARDS][:, None] + discount[:, None] * support[None]
            place = (moved.clamp(low, high) - low) / gap
            below = place.floor().clamp(max=len(support) - 1)
            share = place - below
            chances = later["qf_logits"][rows, best].softmax(-1)
            wanted = torch.zeros_like(chances)
            wanted.scatter_add_(1, below.long(), chances * (1 - share))
            above = (below.long() + 1).clamp(max=len(support) - 1)
            wanted.scatter_add_(1, above, chances * share)
        return -(wanted * now["qf_logits"][rows, actions].log_softmax(-1)).sum(-1)
