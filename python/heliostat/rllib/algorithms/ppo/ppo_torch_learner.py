"""The learner of PPO."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from heliostat.rllib.core.learner.batches import (
    ends_of,
    flat_columns,
    of_episodes,
    rows_of,
    seq_len,
)
from heliostat.rllib.core.learner.torch.torch_learner import TorchLearner, masked_mean
from heliostat.rllib.utils.nest import mapped
from heliostat.rllib.utils.schedules import Scheduler
from heliostat.util.returns import advantages, next_values

torch = required("torch", "ray.rllib", "rllib")


class ValueLearner(TorchLearner):
    """A learner whose modules have values: rollouts with the values of what was seen."""

    def valued(self, rollout: Any, module: Any, config: Any) -> tuple[Any, Any, Any]:
        """Values of each step's observation, values of what it led to, and where episodes ended."""
        values, last, final = self._values(rollout, module)
        terminateds = rollout.columns[Columns.TERMINATEDS]
        over = terminateds | rollout.columns[Columns.TRUNCATEDS]
        following = next_values(values, last, terminateds, rollout.final_at, final)
        return values, following, over

    def _values(self, rollout: Any, module: Any) -> tuple[Any, Any, Any]:
        steps, count = rollout.shape
        observations = rollout.columns[Columns.OBS]
        if module.is_stateful():
            return self._values_in_time(rollout, module)
        nests = [mapped(lambda leaf: leaf.reshape(steps * count, *leaf.shape[2:]), observations)]
        nests.append(rollout.last_obs)
        if rollout.final_obs is not None:
            nests.append(rollout.final_obs)
        joined = mapped(lambda *leaves: np.concatenate(leaves), *nests)
        with torch.no_grad():
            found = module.compute_values(self._convert_batch_type({Columns.OBS: joined}))
        found = found.float().cpu().numpy()
        values = found[: steps * count].reshape(steps, count)
        return values, found[steps * count : (steps + 1) * count], found[(steps + 1) * count :]

    def _values_in_time(self, rollout: Any, module: Any) -> tuple[Any, Any, Any]:
        # One step after the other, with the states that the runner had.
        def of(observation: Any, state: Any) -> Any:
            batch = self._convert_batch_type(
                {
                    Columns.OBS: mapped(lambda leaf: leaf[:, None], observation),
                    Columns.STATE_IN: state,
                }
            )
            with torch.no_grad():
                return module.compute_values(batch).reshape(-1).cpu().numpy()

        steps, count = rollout.shape
        states = rollout.columns[Columns.STATE_IN]

        def flat(leaf: Any) -> Any:
            return leaf.reshape(steps * count, *leaf.shape[2:])

        values = of(mapped(flat, rollout.columns[Columns.OBS]), mapped(flat, states))
        last_state = mapped(lambda leaf: leaf[-1], states)
        last = of(rollout.last_obs, last_state)
        final = np.zeros(0, np.float32)
        if rollout.final_obs is not None:
            at = tuple(rollout.final_at.T)
            final = of(rollout.final_obs, mapped(lambda leaf: leaf[at], states))
        return values.reshape(steps, count), last, final

    def columns_of(self, episodes: list[Any]) -> dict[str, tuple[dict[str, Any], Any]]:
        """Return the columns of each module's episodes as rows, and the rows of each episode.

        Args:
            episodes: Those of modules that are not trained are left out.
        """
        by_module: dict[str, list[Any]] = {}
        for episode in episodes:
            if len(episode):
                by_module.setdefault(episode.module_id or DEFAULT_MODULE_ID, []).append(episode)
        return {
            module_id: of_episodes(own)
            for module_id, own in by_module.items()
            if self.should_module_be_updated(module_id)
        }

    def values_of(self, columns: dict[str, Any], module: Any) -> tuple[Any, Any]:
        """Return values of rows, and of what they led to: 0 where that was the end.

        Args:
            columns: The rows by column.
            module: Whose values.
        """
        with torch.no_grad():
            seen = self._convert_batch_type({Columns.OBS: columns[Columns.OBS]})
            led = self._convert_batch_type({Columns.OBS: columns[Columns.NEXT_OBS]})
            values = module.compute_values(seen).cpu().numpy()
            following = module.compute_values(led).cpu().numpy()
        return values, np.where(columns[Columns.TERMINATEDS], 0.0, following).astype(np.float32)

    def batch_of_episodes(self, episodes: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the columns of episodes with advantages and targets of values."""
        found = {}
        for module_id, (columns, segments) in self.columns_of(episodes).items():
            module, config = self.module[module_id], self.config.get_config_for_module(module_id)
            values, following = self.values_of(columns, module)
            advantage = advantages(
                columns[Columns.REWARDS].astype(np.float32)[:, None],
                values[:, None],
                following[:, None],
                ends_of(segments)[:, None],
                config.gamma,
                config.lambda_ if config.get("use_gae", True) else 1.0,
            )[:, 0]
            columns |= {
                Columns.ADVANTAGES: advantage,
                Columns.VALUE_TARGETS: advantage + values,
                Columns.VF_PREDS: values,
            }
            batch = rows_of([(columns, segments)], module, seq_len(module))
            found[module_id] = self.completed(batch, config)
        return found

    def completed(self, batch: dict[str, Any], config: Any) -> dict[str, Any]:
        """The batch as the loss takes it."""
        return batch


class CategoricalLoss(torch.autograd.Function):  # type: ignore[name-defined] # found at run time
    """The loss of discrete actions with its gradient in closed form.

    Networks of environments such as CartPole take less time than the graph of a loss of thirty operations.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Any,
        values: Any,
        batch: dict[str, Any],
        config: Any,
        entropy_coeff: float,
        kl_coeff: float,
    ) -> Any:
        """Return the loss, and of it the policy's part, the entropy, the values' part and the divergence.

        Args:
            ctx: Where the gradient is kept.
            logits: Of actions, ``(rows, actions)``.
            values: Of what was observed, ``(rows,)``.
            batch: The other columns.
            config: The module's settings.
            entropy_coeff: What entropy counts.
            kl_coeff: What the divergence from the policy that acted counts.
        """
        rows = len(values)
        logp = TorchCategorical(logits)._logp
        likely = logp.exp()
        actions = batch[Columns.ACTIONS].long().unsqueeze(-1)
        chosen = logp.gather(-1, actions).squeeze(-1)
        advantage = batch[Columns.ADVANTAGES]
        ratio = torch.exp(chosen - batch[Columns.ACTION_LOGP])
        gain = advantage * ratio
        clipped = advantage * ratio.clamp(1 - config.clip_param, 1 + config.clip_param)
        policy = -torch.minimum(gain, clipped).mean()
        # A clipped ratio has no gradient.
        pull = torch.where(gain <= clipped, gain, 0.0).unsqueeze(-1) / -rows
        toward = likely * -pull
        toward.scatter_add_(-1, actions, pull)
        entropy = -(likely * logp).sum(-1, keepdim=True)
        if entropy_coeff:
            toward += likely * (logp + entropy) * (entropy_coeff / rows)
        entropy = entropy.mean()
        divergence = torch.zeros(())
        if config.use_kl_loss:
            before = TorchCategorical(batch[Columns.ACTION_DIST_INPUTS])._logp
            then = before.exp()
            divergence = (then * (before - logp)).sum() / rows
            toward += (likely - then) * (kl_coeff / rows)
        errors = values - batch[Columns.VALUE_TARGETS]
        squared = errors * errors
        value_loss = squared.clamp(max=config.vf_clip_param).mean()
        scale = 2.0 * config.vf_loss_coeff / rows
        near = torch.where(squared <= config.vf_clip_param, errors, 0.0) * scale
        ctx.toward, ctx.near = toward, near
        loss = policy - entropy_coeff * entropy + kl_coeff * divergence
        loss = loss + config.vf_loss_coeff * value_loss
        ctx.mark_non_differentiable(policy, entropy, value_loss, divergence)
        return loss, policy, entropy, value_loss, divergence

    @staticmethod
    def backward(ctx: Any, gradient: Any, *logged: Any) -> Any:
        """Return the gradients of logits and values."""
        return ctx.toward * gradient, ctx.near * gradient, None, None, None, None


class PPOTorchLearner(ValueLearner):
    """Clipped surrogate loss, values with generalized advantage estimates, a penalty of divergence."""

    def build(self) -> None:
        """Make the modules, their optimizers, and the coefficients of each."""
        super().build()
        if not hasattr(self, "curr_kl_coeffs_per_module"):
            self.curr_kl_coeffs_per_module: dict[str, float] = {}
            self.entropy_coeffs: dict[str, Scheduler] = {}
        for module_id in list(self.module.keys()):
            config = self.config.get_config_for_module(module_id)
            self.curr_kl_coeffs_per_module.setdefault(module_id, config.kl_coeff)
            self.entropy_coeffs.setdefault(module_id, Scheduler(config.entropy_coeff))

    def batch_of_rollouts(self, rollouts: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the columns of rollouts with advantages and targets of values."""
        module_id = DEFAULT_MODULE_ID
        module, config = self.module[module_id], self.config.get_config_for_module(module_id)
        parts = [flat_columns(r, self._estimates(r, module, config)) for r in rollouts]
        batch = rows_of(parts, module, seq_len(module))
        return {module_id: self.completed(batch, config)}

    def _estimates(self, rollout: Any, module: Any, config: Any) -> dict[str, Any]:
        rewards = rollout.columns[Columns.REWARDS]
        if not config.use_critic:
            nothing = np.zeros_like(rewards)
            over = rollout.columns[Columns.TERMINATEDS] | rollout.columns[Columns.TRUNCATEDS]
            found = advantages(rewards, nothing, nothing, over, config.gamma, 1.0)
            return {Columns.ADVANTAGES: found, Columns.VALUE_TARGETS: found}
        values, following, over = self.valued(rollout, module, config)
        lambda_ = config.lambda_ if config.use_gae else 1.0
        found = advantages(rewards, values, following, over, config.gamma, lambda_)
        return {
            Columns.ADVANTAGES: found,
            Columns.VALUE_TARGETS: found + values,
            Columns.VF_PREDS: values,
        }

    def completed(self, batch: dict[str, Any], config: Any) -> dict[str, Any]:
        """The batch with advantages of mean 0 and deviation 1."""
        advantage, mask = batch[Columns.ADVANTAGES], batch.get(Columns.LOSS_MASK)
        counted = advantage if mask is None else advantage[mask]
        batch[Columns.ADVANTAGES] = (advantage - counted.mean()) / max(1e-4, counted.std())
        return batch

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Set learning rates and coefficients to those of the number of steps sampled so far."""
        super().before_gradient_based_update(timesteps=timesteps)
        for scheduler in self.entropy_coeffs.values():
            scheduler.update(self._timestep)

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss."""
        module = self.module[module_id]
        kind = module.get_train_action_dist_cls()
        now = kind.from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        coefficient = self.entropy_coeffs[module_id].get_current_value()
        self._later((module_id, "curr_entropy_coeff"), coefficient)
        kl_coeff = self.curr_kl_coeffs_per_module[module_id] if config.use_kl_loss else 0.0
        if config.use_kl_loss:
            self._later((module_id, "curr_kl_coeff"), kl_coeff)
        values = None
        if config.use_critic:
            values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
            self._log_values(module_id, values.detach(), batch)
        if values is not None and type(now) is TorchCategorical and Columns.LOSS_MASK not in batch:
            loss, *logged = CategoricalLoss.apply(
                fwd_out[Columns.ACTION_DIST_INPUTS], values, batch, config, coefficient, kl_coeff
            )
            keys = ("policy_loss", "entropy", "vf_loss", "mean_kl_loss")
            for key, value in zip(keys, logged, strict=True):
                if key != "mean_kl_loss" or config.use_kl_loss:
                    self._later((module_id, key), value)
            return loss
        logp = now.logp(batch[Columns.ACTIONS])
        ratio = torch.exp(logp - batch[Columns.ACTION_LOGP])
        advantage = batch[Columns.ADVANTAGES]
        low, high = 1 - config.clip_param, 1 + config.clip_param
        surrogate = torch.min(advantage * ratio, advantage * ratio.clamp(low, high))
        entropy = masked_mean(now.entropy(), batch)
        loss = -masked_mean(surrogate, batch)
        self._later((module_id, "policy_loss"), loss)
        self._later((module_id, "entropy"), entropy)
        loss = loss - coefficient * entropy
        if config.use_kl_loss:
            then = kind.from_logits(batch[Columns.ACTION_DIST_INPUTS])
            divergence = masked_mean(then.kl(now), batch)
            loss = loss + kl_coeff * divergence
            self._later((module_id, "mean_kl_loss"), divergence)
        if values is not None:
            errors = (values - batch[Columns.VALUE_TARGETS]).pow(2)
            value_loss = masked_mean(errors.clamp(0, config.vf_clip_param), batch)
            loss = loss + config.vf_loss_coeff * value_loss
            self._later((module_id, "vf_loss"), value_loss)
        return loss

    def _log_values(self, module_id: str, values: Any, batch: dict[str, Any]) -> None:
        targets = batch[Columns.VALUE_TARGETS]

        def unclipped() -> Any:
            return masked_mean((values - targets).pow(2), batch)

        def explained() -> Any:
            spread = targets.var(unbiased=False)
            return 1 - (targets - values).var(unbiased=False) / spread.clamp(min=1e-8)

        self._later((module_id, "vf_loss_unclipped"), unclipped)
        self._later((module_id, "vf_explained_var"), explained)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Adapt the coefficient of the divergence to its target."""
        for module_id in list(self.curr_kl_coeffs_per_module):
            config = self.config.get_config_for_module(module_id)
            seen = self._pending.get((module_id, "mean_kl_loss"))
            if not config.use_kl_loss or not seen:
                continue
            divergence = float(torch.stack([torch.as_tensor(v) for v in seen[-10:]]).mean())
            if divergence > 2.0 * config.kl_target:
                self.curr_kl_coeffs_per_module[module_id] *= 1.5
            elif divergence < 0.5 * config.kl_target:
                self.curr_kl_coeffs_per_module[module_id] *= 0.5
        super().after_gradient_based_update(timesteps=timesteps)

    def _own_state(self) -> dict[str, Any]:
        return {"kl": dict(self.curr_kl_coeffs_per_module)}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        self.curr_kl_coeffs_per_module |= state.get("kl", {})
