"""The base of learners of torch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.core.learner.batches import flat_of_episodes, flat_of_rollouts
from heliostat.rllib.core.learner.learner import DEFAULT_OPTIMIZER, Learner
from heliostat.rllib.core.learner.torch.adam import Adam
from heliostat.rllib.utils.nest import mapped

torch = required("torch", "ray.rllib", "rllib")


class TorchLearner(Learner):
    """A learner of torch: one Adam for each module unless ``configure_optimizers_for_module`` says
    otherwise.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        gpu = self.config.num_gpus_per_learner > 0 and torch.cuda.is_available()
        self._device = (
            torch.device("cuda", self.config.local_gpu_idx) if gpu else torch.device("cpu")
        )
        self._generator = torch.Generator()
        seed = self.config.seed
        if seed is not None:
            torch.manual_seed(seed)
            self._generator.manual_seed(seed)

    @property
    def device(self) -> Any:
        """The device of the modules' weights."""
        return self._device

    def _place(self) -> None:
        for module in self.module.values():
            if isinstance(module, torch.nn.Module):
                module.to(self._device)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make one Adam over all parameters that are trained."""
        params = self.get_parameters(self.module[module_id])
        if params:
            self.register_optimizer(
                module_id=module_id,
                optimizer=adam(params),
                params=params,
                lr_or_lr_schedule=config.lr,
            )

    def get_parameters(self, module: Any) -> list[Any]:
        """Return the parameters of a module that are trained."""
        if not isinstance(module, torch.nn.Module):
            return []
        return [param for param in module.parameters() if param.requires_grad]

    def get_param_ref(self, param: Any) -> Any:
        """Return the key of a parameter in dicts of gradients: itself."""
        return param

    def compute_gradients(self, loss_per_module: dict[str, Any], **kwargs: Any) -> dict[Any, Any]:
        """Return gradients by parameter."""
        for optimizer, _, _ in self._optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        torch.stack([loss.reshape(()) for loss in loss_per_module.values()]).sum().backward()
        return {
            param: param.grad
            for _, params, _ in self._optimizers.values()
            for param in params
            if param.grad is not None or self.distributed
        }

    def postprocess_gradients(self, gradients_dict: dict[Any, Any]) -> dict[Any, Any]:
        """Return gradients averaged over learners and clipped."""
        if self.distributed:
            gradients_dict = _averaged(gradients_dict, self.world_size)
        for (module_id, name), (_, params, _) in self._optimizers.items():
            own = {p: gradients_dict[p] for p in params if gradients_dict.get(p) is not None}
            clipped = self.postprocess_gradients_for_module(
                module_id=module_id,
                config=self.config.get_config_for_module(module_id),
                module_gradients_dict=own,
                optimizer_name=name,
            )
            gradients_dict.update(clipped)
        return gradients_dict

    def postprocess_gradients_for_module(
        self,
        *,
        module_id: str,
        config: Any = None,
        module_gradients_dict: dict[Any, Any],
        optimizer_name: str = DEFAULT_OPTIMIZER,
    ) -> dict[Any, Any]:
        """Return the gradients of one optimizer of a module clipped, as ``grad_clip`` says."""
        config = config or self.config
        gradients = list(module_gradients_dict.values())
        if not gradients:
            return module_gradients_dict
        clip, by = config.grad_clip, config.grad_clip_by
        if by == "global_norm" or clip is None:
            key = (module_id, f"gradients_{optimizer_name}_global_norm")
            if clip is None:
                self._later(key, lambda: _norm(gradients))
            else:
                norm = _norm(gradients)
                self._later(key, norm)
                torch._foreach_mul_(gradients, (clip / (norm + 1e-6)).clamp(max=1.0))
        elif by == "norm":
            for gradient in gradients:
                gradient.mul_((clip / (gradient.norm() + 1e-6)).clamp(max=1.0))
        else:
            for gradient in gradients:
                gradient.clamp_(-clip, clip)
        return module_gradients_dict

    def apply_gradients(self, gradients_dict: dict[Any, Any]) -> None:
        """Let the optimizers step."""
        if self.config.torch_skip_nan_gradients and not all(
            bool(torch.isfinite(g).all()) for g in gradients_dict.values() if g is not None
        ):
            return
        for param, gradient in gradients_dict.items():
            param.grad = gradient
        for optimizer, _, _ in self._optimizers.values():
            optimizer.step()

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Set learning rates to those of the number of steps sampled so far."""
        for optimizer, _, scheduler in self._optimizers.values():
            self._set_optimizer_lr(optimizer, scheduler.update(self._timestep))
        self._pending: dict[Any, list[Any]] = {}

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Log what losses said: their last values."""
        for key, values in self._pending.items():
            last = values[-1]
            self.metrics.log_value(key, float(last() if callable(last) else last), reduce="mean")
        self._pending = {}

    def _later(self, key: Any, value: Any) -> None:
        """Log a tensor when the update is over, so that nothing waits for it meanwhile; a function is called
        then, of the last minibatch alone.
        """
        value = value.detach() if hasattr(value, "detach") else value
        kept = self.__dict__.setdefault("_pending", {}).setdefault(key, [])
        if callable(value):
            kept.clear()
        kept.append(value)

    def _update(self, batch: dict[str, Any], **kwargs: Any) -> None:
        fwd_out = self.module.forward_train(batch)
        losses = self.compute_losses(fwd_out=fwd_out, batch=batch)
        for module_id, loss in losses.items():
            if not self.config.torch_skip_nan_gradients and not bool(torch.isfinite(loss)):
                raise FloatingPointError(
                    f"The loss of module {module_id!r} is {loss.item()}: look for NaN in observations "
                    "and rewards, "
                    "lower lr, set grad_clip, or let such gradients be skipped by "
                    "framework(torch_skip_nan_gradients=True)."
                )
            self._later((module_id, "total_loss"), loss)
        gradients = self.compute_gradients(losses)
        self.apply_gradients(self.postprocess_gradients(gradients))

    def _convert_batch_type(self, batch: dict[str, Any]) -> dict[str, Any]:
        def tensor(leaf: Any) -> Any:
            if isinstance(leaf, list):  # infos
                return leaf
            if isinstance(leaf, np.ndarray):
                if leaf.dtype == object or leaf.dtype.kind in "US":
                    return None
                if leaf.dtype == np.float64:
                    leaf = leaf.astype(np.float32)
                leaf = torch.from_numpy(np.ascontiguousarray(leaf))
            return leaf.to(self._device)

        with warnings.catch_warnings():
            # Samples of other processes are views of the object store: nothing writes to batches.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            found = {key: mapped(tensor, value) for key, value in batch.items()}
        return {key: value for key, value in found.items() if value is not None}

    def _order(self, rows: int, shuffle: bool) -> Any:
        if shuffle:
            return torch.randperm(rows, generator=self._generator).to(self._device)
        return torch.arange(rows, device=self._device)

    def _agreed(self, number: int) -> int:
        if not self.distributed:
            return number
        most = torch.tensor(number)
        torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX)
        return int(most)

    def batch_of_rollouts(self, rollouts: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the columns of rollouts, a row a step."""
        return flat_of_rollouts(self, rollouts)

    def batch_of_episodes(self, episodes: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the columns of episodes, a row a step."""
        return flat_of_episodes(self, episodes)

    def _get_optimizer_lr(self, optimizer: Any) -> float:
        return float(optimizer.param_groups[0]["lr"])

    def _set_optimizer_lr(self, optimizer: Any, lr: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = lr

    def _get_optimizer_state(self) -> dict[Any, Any]:
        return {key: held[0].state_dict() for key, held in self._optimizers.items()}

    def _set_optimizer_state(self, state: dict[Any, Any]) -> None:
        for key, part in state.items():
            if key in self._optimizers:
                self._optimizers[key][0].load_state_dict(part)


def adam(params: list[Any], **how: Any) -> Any:
    """Adam that steps all parameters in one call, where torch has that for them.

    Args:
        params: The parameters.
        **how: As of ``torch.optim.Adam``. The learning rate is what a schedule sets.
    """
    devices = {p.device.type if p.is_floating_point() else "" for p in params}
    kind = Adam if devices in ({"cpu"}, {"cuda"}) else torch.optim.Adam
    return kind(params, lr=1e-3, **how)


class Followers:
    """Parameters of modules that follow those of others of their kind."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[Any, list[Any], list[Any]]] = {}

    def follow(self, name: str, target: Any, now: Any, tau: float) -> None:
        """Move a module's parameters towards those of another one.

        Args:
            name: The module's id.
            target: The module that follows.
            now: The other one.
            tau: How much of the way: 1 for all of it.
        """
        held = self._pairs.get(name)
        if held is None or held[0] is not now:
            held = (now, list(target.parameters()), list(now.parameters()))
            self._pairs[name] = held
        with torch.no_grad():
            torch._foreach_lerp_(held[1], held[2], tau)


def _norm(gradients: list[Any]) -> Any:
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))


def _averaged(gradients: dict[Any, Any], world_size: int) -> dict[Any, Any]:
    full = {p: torch.zeros_like(p) if g is None else g for p, g in gradients.items()}
    flat = torch.cat([g.reshape(-1) for g in full.values()])
    torch.distributed.all_reduce(flat)
    flat /= world_size
    found, at = {}, 0
    for param, gradient in full.items():
        found[param] = flat[at : at + gradient.numel()].reshape(gradient.shape)
        at += gradient.numel()
    return found


def masked_mean(values: Any, batch: dict[str, Any]) -> Any:
    """The mean over the steps that count: padding does not."""
    mask = batch.get(Columns.LOSS_MASK)
    if mask is None:
        return values.mean()
    return values[mask].sum() / mask.sum()
