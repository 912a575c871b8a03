"""The learner of IMPALA."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.algorithms.ppo.ppo_torch_learner import ValueLearner
from heliostat.rllib.connectors.learner.general_advantage_estimation import Steps
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.learner.batches import ends_of, flat, flat_columns, rows_of, seq_len
from heliostat.rllib.core.learner.torch.torch_learner import adam, masked_mean
from heliostat.rllib.utils.nest import mapped
from heliostat.rllib.utils.schedules import Scheduler
from heliostat.util.returns import vtrace

torch = required("torch", "ray.rllib", "rllib")


class IMPALATorchLearner(ValueLearner):
    """A policy gradient with V-trace: actions of an older policy count by how likely they are now."""

    def build(self) -> None:
        """Make the modules, their optimizers, and the schedule of each one's entropy."""
        super().build()
        if not hasattr(self, "entropy_coeffs"):
            self.entropy_coeffs: dict[str, Scheduler] = {}
        for module_id in list(self.module.keys()):
            config = self.config.get_config_for_module(module_id)
            self.entropy_coeffs.setdefault(module_id, Scheduler(config.entropy_coeff))

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make the optimizer that ``opt_type`` names."""
        params = self.get_parameters(self.module[module_id])
        optimizer: Any = adam(params)
        if config.opt_type == "rmsprop":
            optimizer = torch.optim.RMSprop(
                params, lr=1e-3, alpha=config.decay, momentum=config.momentum, eps=config.epsilon
            )
        self.register_optimizer(
            module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr
        )

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Set learning rates and coefficients to those of the number of steps sampled so far."""
        super().before_gradient_based_update(timesteps=timesteps)
        for scheduler in self.entropy_coeffs.values():
            scheduler.update(self._timestep)

    def batch_of_rollouts(self, rollouts: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the columns of rollouts with V-trace's targets and advantages."""
        module_id = DEFAULT_MODULE_ID
        module, config = self.module[module_id], self.config.get_config_for_module(module_id)
        parts = [flat_columns(r, self._targets_of(r, module_id, module, config)) for r in rollouts]
        return {module_id: rows_of(parts, module, seq_len(module))}

    def _targets_of(self, rollout: Any, module_id: str, module: Any, config: Any) -> dict[str, Any]:
        values, following, over = self.valued(rollout, module, config)
        columns = {
            key: mapped(flat, rollout.columns[key])
            for key in (Columns.OBS, Columns.ACTIONS, Columns.STATE_IN)
            if key in rollout.columns
        }
        steps, count = rollout.shape
        logp = self.logp_now(columns, module_id).reshape(count, steps).T
        return self.traced(
            config,
            logp=logp,
            behaviour=rollout.columns[Columns.ACTION_LOGP],
            rewards=rollout.columns[Columns.REWARDS],
            values=values,
            following=following,
            over=over,
        )

    def traced(
        self,
        config: Any,
        *,
        logp: Any,
        behaviour: Any,
        rewards: Any,
        values: Any,
        following: Any,
        over: Any,
    ) -> dict[str, Any]:
        """Return V-trace's targets and advantages of steps in their order, of the shape of ``rewards``.

        Args:
            config: The module's settings.
            logp: How likely the actions are now, as logs.
            behaviour: How likely they were when they were chosen, as logs.
            rewards: Of each step, ``(steps, environments)``.
            values: Of what was observed before each step.
            following: Of what each step led to.
            over: Where episodes, or parts of them, ended.
        """
        ratios = logp - behaviour if config.vtrace else np.zeros_like(logp)
        targets, advantage = vtrace(
            ratios,
            rewards,
            values,
            following,
            over,
            config.gamma,
            config.vtrace_clip_rho_threshold,
            config.vtrace_clip_pg_rho_threshold,
        )
        return {Columns.VALUE_TARGETS: targets, Columns.ADVANTAGES: advantage}

    def judge(self, module_id: str) -> Any:
        """Return the module whose likelihoods of actions V-trace compares with those of the runners.

        Args:
            module_id: The module that is trained.
        """
        return self.module[module_id]

    def logp_now(self, columns: dict[str, Any], module_id: str) -> Any:
        """Return how likely the policy of now takes the actions of rows, as logs.

        Args:
            columns: Observations, actions and states, by column.
            module_id: The module.
        """
        module = self.judge(module_id)
        single = module.is_stateful() and Columns.SEQ_LENS not in columns
        if single:  # each row is a step with its own state
            seen = mapped(lambda leaf: leaf[:, None], columns[Columns.OBS])
            columns = {**columns, Columns.OBS: seen}
        batch = self._convert_batch_type(columns)
        with torch.no_grad():
            out = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]
            out = out.squeeze(1) if single else out
            found = module.get_train_action_dist_cls().from_logits(out).logp(batch[Columns.ACTIONS])
        return found.cpu().numpy()

    def batch_of_episodes(self, episodes: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the columns of episodes with V-trace's targets and advantages."""
        found = {}
        for module_id, (columns, segments) in self.columns_of(episodes).items():
            module, config = self.module[module_id], self.config.get_config_for_module(module_id)
            values, following = self.values_of(columns, module)
            traced = self.traced(
                config,
                logp=self.logp_now(columns, module_id)[:, None],
                behaviour=columns[Columns.ACTION_LOGP][:, None],
                rewards=columns[Columns.REWARDS].astype(np.float32)[:, None],
                values=values[:, None],
                following=following[:, None],
                over=ends_of(segments)[:, None],
            )
            columns |= {key: value[:, 0] for key, value in traced.items()}
            found[module_id] = rows_of([(columns, segments)], module, seq_len(module))
        return found

    def completed_by_pipeline(self, batch: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the batch of the learner's pipeline with V-trace's targets and advantages."""
        for module_id, columns in batch.items():
            if Columns.LOSS_MASK not in columns:
                raise ValueError(
                    "V-trace needs AddOneTsToEpisodesAndTruncate in the learner's pipeline: leave "
                    "add_default_connectors_to_learner_pipeline=True, or prepend it."
                )
            module, config = self.module[module_id], self.config.get_config_for_module(module_id)
            with torch.no_grad():
                values = module.compute_values(columns)
            steps = Steps(columns)
            own, real = steps.flat(values), steps.real
            logp = self.logp_now(columns, module_id).reshape(-1)
            logp = logp if steps.kept is None else logp[steps.kept]

            def of(column: str, columns: Any = columns, steps: Any = steps) -> Any:
                return steps.flat(columns[column])[steps.real][:, None].astype(np.float32)

            traced = self.traced(
                config,
                logp=logp[real][:, None],
                behaviour=of(Columns.ACTION_LOGP),
                rewards=of(Columns.REWARDS),
                values=own[real][:, None],
                following=steps.following(own)[:, None],
                over=steps.ends[:, None],
            )
            for key, value in traced.items():
                whole = np.zeros_like(own)
                whole[real] = value[:, 0]
                columns[key] = steps.back(whole)
        return batch

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss."""
        module = self.module[module_id]
        dist = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        logp = dist.logp(batch[Columns.ACTIONS])
        policy = self.policy_loss(module_id, config, batch, dist, logp)
        entropy = masked_mean(dist.entropy(), batch)
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        value_loss = 0.5 * masked_mean((values - batch[Columns.VALUE_TARGETS]).pow(2), batch)
        coefficient = self.entropy_coeffs[module_id].get_current_value()
        for key, value in (
            ("policy_loss", policy),
            ("pi_loss", policy),
            ("vf_loss", value_loss),
            ("entropy", entropy),
            ("curr_entropy_coeff", coefficient),
        ):
            self._later((module_id, key), value)
        return policy + config.vf_loss_coeff * value_loss - coefficient * entropy

    def policy_loss(
        self, module_id: str, config: Any, batch: dict[str, Any], dist: Any, logp: Any
    ) -> Any:
        """The policy's part of the loss."""
        return -masked_mean(logp * batch[Columns.ADVANTAGES], batch)
