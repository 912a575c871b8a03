"""Arrays of tensors, and observations as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.utils.nest import leaves, mapped

SMALL_NUMBER = 1e-6
LARGE_INTEGER = 100000000
MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT = -5, 2


def convert_to_numpy(x: Any, reduce_type: bool = True) -> Any:
    """Return a nest of tensors as one of arrays; other leaves as they are.

    Args:
        x: A tensor, or dicts and tuples of them.
        reduce_type: Whether numbers become float32 and int32. Default True.
    """

    def one(leaf: Any) -> Any:
        if hasattr(leaf, "detach"):
            leaf = leaf.detach().cpu()
            leaf = leaf.item() if leaf.ndim == 0 else leaf.numpy()
        if reduce_type and isinstance(leaf, np.ndarray):
            if leaf.dtype.kind == "f":
                return leaf.astype(np.float32, copy=False)
            if leaf.dtype == np.int64:
                return leaf.astype(np.int32)
        return leaf

    if isinstance(x, list):
        return [convert_to_numpy(item, reduce_type) for item in x]
    return mapped(one, x)


def one_hot(
    x: Any, depth: int = 0, on_value: float = 1.0, off_value: float = 0.0, dtype: Any = np.float32
) -> Any:
    """Return numbers as vectors that are ``on_value`` at one place.

    Args:
        x: Whole numbers, of any shape.
        depth: The vectors' length. Default: one more than the largest number.
        on_value: What stands at the number's place. Default 1.
        off_value: What stands at the others. Default 0.
        dtype: The result's dtype. Default float32.
    """
    x = np.asarray(x).astype(int)
    depth = depth or int(x.max()) + 1
    return np.where(np.arange(depth) == x[..., None], on_value, off_value).astype(dtype)


def flatten_inputs_to_1d_tensor(
    inputs: Any, spaces_struct: Any = None, time_axis: bool = False, batch_axis: bool = True
) -> Any:
    """Return observations as vectors of float32: choices one-hot, everything else flat, one after the other.

    Args:
        inputs: An observation, or a batch of them.
        spaces_struct: The space as ``get_base_struct_from_space`` gives it. Default: all parts are numbers.
        time_axis: Whether the second axis is time. Default False.
        batch_axis: Whether the first axis is that of a batch. Default True.
    """
    from gymnasium import spaces

    values = [leaf for _, leaf in leaves(inputs)]
    kinds = [None] * len(values)
    if spaces_struct is not None:
        ordered = mapped(lambda space, value: (space, value), spaces_struct, inputs)
        pairs = list(_pairs(ordered))
        kinds, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    axes = int(batch_axis) + int(time_axis)
    found = []
    for space, value in zip(kinds, values, strict=True):
        array = np.asarray(value)
        lead = array.shape[:axes]
        if isinstance(space, spaces.Discrete):
            array = one_hot(array - int(space.start), depth=int(space.n))
        elif isinstance(space, spaces.MultiDiscrete):
            flat = array.reshape(*lead, -1)
            array = np.concatenate(
                [one_hot(flat[..., i], depth=int(n)) for i, n in enumerate(space.nvec.ravel())], -1
            )
        found.append(array.reshape(*lead, -1).astype(np.float32))
    return np.concatenate(found, axis=-1)


def _pairs(nest: Any) -> Any:
    # Leaves here are pairs of a space and a value: tuples too, of which the first part is a space.
    if isinstance(nest, dict):
        for part in nest.values():
            yield from _pairs(part)
    elif isinstance(nest, tuple) and not hasattr(nest[0], "contains"):
        for part in nest:
            yield from _pairs(part)
    else:
        yield nest


def softmax(x: Any, axis: int = -1, epsilon: float | None = None) -> Any:
    """Return probabilities of logits.

    Args:
        x: The logits.
        axis: The axis whose probabilities sum to 1. Default: the last.
        epsilon: The least probability. Default: ``SMALL_NUMBER``.
    """
    x = np.asarray(x)
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    found = powers / powers.sum(axis=axis, keepdims=True)
    return np.maximum(found, SMALL_NUMBER if epsilon is None else epsilon)


def sigmoid(x: Any, derivative: bool = False) -> Any:
    """Return the sigmoid, or ``x * (1 - x)``.

    Args:
        x: Numbers.
        derivative: Whether it is the derivative at a sigmoid's value. Default False.
    """
    return x * (1 - x) if derivative else 1 / (1 + np.exp(-x))


def relu(x: Any, alpha: float = 0.0) -> Any:
    """Return the larger one of the number and ``alpha`` times it.

    Args:
        x: Numbers.
        alpha: The slope below 0. Default 0.
    """
    return np.maximum(x, x * alpha)


def huber_loss(x: Any, delta: float = 1.0) -> Any:
    """Return ``x ** 2 / 2`` near 0, and a line from ``delta`` on.

    Args:
        x: Differences.
        delta: Where the line begins. Default 1.
    """
    size = np.abs(x)
    return np.where(size < delta, 0.5 * np.square(x), delta * (size - 0.5 * delta))


def l2_loss(x: Any) -> Any:
    """Return half the sum of squares.

    Args:
        x: Numbers.
    """
    return np.sum(np.square(x)) / 2.0


def fc(x: Any, weights: Any, biases: Any = None, framework: str | None = None) -> Any:
    """Return a linear layer's output.

    Args:
        x: Of shape ``(batch, inputs)``.
        weights: Of shape ``(inputs, outputs)``; those of torch are transposed.
        biases: Of shape ``(outputs,)``. Default: none.
        framework: ``"torch"`` where weights are ``(outputs, inputs)``. Default: they are not.
    """
    x, weights = convert_to_numpy(x), convert_to_numpy(weights)
    found = np.matmul(x, weights.T if framework == "torch" else weights)
    return found if biases is None else found + convert_to_numpy(biases)


def one_hot_multidiscrete(x: Any, depths: list[int]) -> Any:
    """Return several choices as vectors that are 1 at one place each, one after the other.

    Args:
        x: Whole numbers; the last axis has the choices.
        depths: How many there are of each.
    """
    x = np.asarray(x)
    return np.concatenate([one_hot(x[..., i], depth=int(n)) for i, n in enumerate(depths)], -1)
