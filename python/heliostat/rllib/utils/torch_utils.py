"""Helpers for tensors, which users' own modules and losses import."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.rllib.utils.nest import leaves, mapped

torch = required("torch", "ray.rllib", "rllib")

FLOAT_MIN, FLOAT_MAX = -3.4e38, 3.4e38


def convert_to_torch_tensor(
    x: Any, device: str | None = None, pin_memory: bool = False, use_stream: bool = False
) -> Any:
    """Return a nest of arrays as one of tensors; float64 becomes float32.

    Args:
        x: An array, a number, or lists, dicts and tuples of them.
        device: Where the tensors go. Default: the CPU.
        pin_memory: Whether they are of pinned memory. Default False.
        use_stream: Has no effect.
    """

    def one(leaf: Any) -> Any:
        if leaf is None or isinstance(leaf, str):
            return leaf
        if not torch.is_tensor(leaf):
            array = np.asarray(leaf)
            if array.dtype.kind in "OSU":
                return leaf
            leaf = torch.as_tensor(array if array.flags.writeable else array.copy())
        if leaf.dtype == torch.float64:
            leaf = leaf.float()
        leaf = leaf.pin_memory() if pin_memory and torch.cuda.is_available() else leaf
        return leaf if device is None else leaf.to(device)

    if isinstance(x, list):
        return [convert_to_torch_tensor(item, device, pin_memory) for item in x]
    return mapped(one, x)


def one_hot(x: Any, space: Any) -> Any:
    """Return whole numbers as vectors of float32 that are 1 at one place.

    Args:
        x: A tensor; of a ``MultiDiscrete`` its last axis has the choices, whose vectors stand one after
            the other.
        space: A ``Discrete`` or ``MultiDiscrete``.

    Raises:
        ValueError: It is another space.
    """
    if hasattr(space, "n") and hasattr(space, "start"):
        hot = torch.nn.functional.one_hot(x.long() - int(space.start), int(space.n))
        return hot.float()
    if hasattr(space, "nvec"):
        parts = [
            torch.nn.functional.one_hot(x[..., place].long(), int(count))
            for place, count in enumerate(space.nvec.ravel())
        ]
        return torch.cat(parts, dim=-1).float()
    raise ValueError(f"one_hot() takes a Discrete or MultiDiscrete space, not {space}.")


def explained_variance(y: Any, pred: Any) -> Any:
    """Return how much of a target's variance a prediction explains: 1 for all, below 0 for worse than its
    mean.

    Args:
        y: The target.
        pred: The prediction, of the same shape.
    """
    spread = torch.var(y, dim=0)
    found = 1.0 - torch.var(y - pred, dim=0) / spread.clamp(min=1e-12)
    return found.clamp(min=-1.0)


def huber_loss(x: Any, delta: float = 1.0) -> Any:
    """Return ``x ** 2 / 2`` near 0, and a line from ``delta`` on.

    Args:
        x: Differences.
        delta: Where the line begins. Default 1.
    """
    size = x.abs()
    return torch.where(size < delta, 0.5 * x**2, delta * (size - 0.5 * delta))


def l2_loss(x: Any) -> Any:
    """Return half the sum of squares.

    Args:
        x: A tensor.
    """
    return 0.5 * torch.sum(x**2)


def global_norm(tensors: Any) -> Any:
    """Return the norm of all numbers of some tensors together.

    Args:
        tensors: The tensors.
    """
    return torch.sqrt(sum(torch.sum(t.float() ** 2) for t in tensors))


compute_global_norm = global_norm


def clip_gradients(
    gradients_dict: dict[Any, Any], *, grad_clip: float | None = None, grad_clip_by: str = "value"
) -> Any:
    """Clip gradients in their place; return their global norm where that is what is clipped.

    Args:
        gradients_dict: Gradients by parameter.
        grad_clip: The bound. Default: nothing is clipped.
        grad_clip_by: ``"value"``, ``"norm"`` (of each) or ``"global_norm"`` (of all).
    """
    if grad_clip is None:
        return None
    grads = {key: grad for key, grad in gradients_dict.items() if grad is not None}
    if grad_clip_by == "value":
        for key, grad in grads.items():
            gradients_dict[key] = grad.clamp(-grad_clip, grad_clip)
        return None
    if grad_clip_by == "norm":
        for key, grad in grads.items():
            norm = grad.norm()
            gradients_dict[key] = grad * (grad_clip / norm.clamp(min=grad_clip))
        return None
    if grad_clip_by != "global_norm":
        raise ValueError(f"grad_clip_by={grad_clip_by!r} must be 'value', 'norm' or 'global_norm'.")
    whole = global_norm(list(grads.values()))
    factor = torch.clamp(grad_clip / (whole + 1e-6), max=1.0)
    for grad in grads.values():
        grad.mul_(factor.to(grad.device))
    return whole


def reduce_mean_ignore_inf(x: Any, axis: int | None = None) -> Any:
    """Return the mean of the numbers that are finite.

    Args:
        x: A tensor.
        axis: The axis. Default: all.
    """
    mask = torch.isfinite(x)
    kept = torch.where(mask, x, torch.zeros_like(x))
    if axis is None:
        return kept.sum() / mask.float().sum()
    return kept.sum(axis) / mask.float().sum(axis)


def sequence_mask(
    lengths: Any, maxlen: int | None = None, dtype: Any = None, time_major: bool = False
) -> Any:
    """Return which places of sequences are within their lengths, of shape ``(sequences, maxlen)``.

    Args:
        lengths: The lengths.
        maxlen: How many places there are. Default: the largest length.
        dtype: The result's type. Default: bool.
        time_major: Whether the first axis is time. Default False.
    """
    count = int(lengths.max()) if maxlen is None else int(maxlen)
    mask = torch.arange(count, device=lengths.device)[None, :] < lengths[:, None]
    mask = mask.t() if time_major else mask
    return mask.type(dtype or torch.bool)


def update_target_network(main_net: Any, target_net: Any, tau: float) -> None:
    """Move a copy towards its network, as ``ray.rllib.core.learner.utils`` does.

    Args:
        main_net: The network.
        target_net: The copy.
        tau: From 0 to 1; 1 makes both the same.
    """
    from heliostat.rllib.core.learner import utils

    utils.update_target_network(main_net=main_net, target_net=target_net, tau=tau)


def set_torch_seed(seed: int | None = None) -> None:
    """Seed torch's random numbers, on the GPU as well.

    Args:
        seed: The seed. Default: nothing is done.
    """
    if seed is not None:
        torch.manual_seed(seed)


def copy_torch_tensors(x: Any, device: str | None = None) -> Any:
    """Return copies of a nest's tensors, without gradients.

    Args:
        x: A tensor, or dicts and tuples of them.
        device: Where the copies go. Default: where the tensors are.
    """
    return mapped(
        lambda t: t.detach().clone() if device is None else t.detach().to(device, copy=True), x
    )


def symlog(x: Any) -> Any:
    """Return ``sign(x) * log(1 + |x|)``.

    Args:
        x: A tensor.
    """
    return torch.sign(x) * torch.log1p(x.abs())


def inverse_symlog(y: Any) -> Any:
    """Return the number whose :func:`symlog` this is.

    Args:
        y: A tensor.
    """
    return torch.sign(y) * torch.expm1(y.abs())


def softmax_cross_entropy_with_logits(logits: Any, labels: Any) -> Any:
    """Return the cross entropy of each row.

    Args:
        logits: Of shape ``(batch, classes)``.
        labels: Probabilities of the same shape.
    """
    return torch.sum(-labels * torch.nn.functional.log_softmax(logits, -1), -1)


def flatten_inputs_to_1d_tensor(
    inputs: Any, spaces_struct: Any = None, time_axis: bool = False
) -> Any:
    """Return a batch of nests as one tensor of float32: choices one-hot, everything else flat.

    Args:
        inputs: A batch of observations, tensors.
        spaces_struct: The space as ``get_base_struct_from_space`` gives it. Default: all parts are numbers.
        time_axis: Whether the second axis is time. Default False.
    """
    axes = 2 if time_axis else 1
    values = [leaf for _, leaf in leaves(inputs)]
    spaces = (
        [None] * len(values) if spaces_struct is None else [s for _, s in leaves(spaces_struct)]
    )
    found = []
    for space, value in zip(spaces, values, strict=True):
        choices = space is not None and (hasattr(space, "nvec") or hasattr(space, "start"))
        flat = one_hot(value, space) if choices else value.float()
        found.append(flat.reshape(*value.shape[:axes], -1))
    return torch.cat(found, dim=-1)
