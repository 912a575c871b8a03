"""JAX and TensorFlow: the same network by their own operations, the same weights to begin with."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ray import train
from ray.train import Checkpoint

from tests.frameworks.work import LEARNING_RATE, MOMENTUM, STEPS, Course, batch_of, network, rows


def _weights() -> list[Any]:
    """Of the network, layer by layer, as numpy's arrays: what multiplies a row, what is added."""
    return [parameter.detach().numpy().T.copy() for parameter in network().parameters()]


def _restored(begin: list[Any]) -> tuple[int, list[Any], list[Any]]:
    """Steps taken, weights and momenta of the last checkpoint, or those of the beginning."""
    import numpy

    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        return 0, begin, [numpy.zeros_like(one) for one in begin]
    with checkpoint.as_directory() as folder, numpy.load(Path(folder, "state.npz")) as saved:
        names = range(len(begin))
        weights, momenta = ([saved[f"{kind}{i}"] for i in names] for kind in ("w", "m"))
        return int(saved["step"]), weights, momenta


def _report(course: Course, step: int, loss: float, weights: list[Any], momenta: list[Any]) -> None:
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        made = None
        if course.rank == 0:
            both = {f"w{i}": numpy.asarray(one) for i, one in enumerate(weights)}
            both |= {f"m{i}": numpy.asarray(one) for i, one in enumerate(momenta)}
            numpy.savez(Path(folder, "state.npz"), step=step, **both)
            made = Checkpoint.from_directory(folder)
        train.report({"loss": loss}, checkpoint=made)


def _whole_loss(weights: list[Any]) -> float:
    import numpy

    x, y = (whole.numpy() for whole in rows())
    first, shift, second, last = (numpy.asarray(one) for one in weights)
    answers = numpy.tanh(x @ first + shift) @ second + last
    return float(((answers - y) ** 2).mean())


def jax(config: dict[str, Any]) -> float:
    """One array over all devices; the compiler puts the sums between the processes in."""
    import jax
    import jax.numpy as jnp
    import numpy
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    course = Course(config)
    assert jax.process_count() == course.size
    mesh = Mesh(numpy.array(jax.devices()), ("rows",))
    by_rows = NamedSharding(mesh, PartitionSpec("rows"))
    everywhere = NamedSharding(mesh, PartitionSpec())

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        first, shift, second, last = weights
        return ((jnp.tanh(x @ first + shift) @ second + last - y) ** 2).mean()

    @jax.jit
    def take(weights: Any, momenta: Any, x: Any, y: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
        momenta = [MOMENTUM * m + slope for m, slope in zip(momenta, slopes, strict=True)]
        weights = [w - LEARNING_RATE * m for w, m in zip(weights, momenta, strict=True)]
        return weights, momenta, loss

    def placed(arrays: list[Any]) -> list[Any]:
        return [jax.make_array_from_process_local_data(everywhere, one) for one in arrays]

    begin, weights, momenta = _restored(_weights())
    weights, momenta = placed(weights), placed(momenta)
    for step in range(begin, STEPS):
        batch = (part.numpy() for part in batch_of(step, course.rank, course.size))
        x, y = (jax.make_array_from_process_local_data(by_rows, part) for part in batch)
        weights, momenta, loss = take(weights, momenta, x, y)
        if course.after(step + 1):
            _report(course, step + 1, float(loss), weights, momenta)
    return _whole_loss(weights)


def tensorflow(config: dict[str, Any]) -> float:
    """``MultiWorkerMirroredStrategy`` with a step by hand."""
    import tensorflow as tf

    course = Course(config)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == course.size
    begin, values, momenta_values = _restored(_weights())
    weights = [tf.Variable(value) for value in values]
    momenta = [tf.Variable(value) for value in momenta_values]

    def own(x: Any, y: Any) -> Any:
        first, shift, second, last = weights
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ first + shift) @ second + last - y) ** 2)
        slopes = tape.gradient(loss, weights)
        return tf.distribute.get_replica_context().all_reduce("MEAN", [*slopes, loss])

    take = tf.function(lambda x, y: strategy.run(own, (x, y)))
    for step in range(begin, STEPS):
        batch = (part.numpy() for part in batch_of(step, course.rank, course.size))
        results = [
            strategy.experimental_local_results(one)[0] for one in take(*map(tf.constant, batch))
        ]
        for weight, momentum, slope in zip(weights, momenta, results[:-1], strict=True):
            momentum.assign(MOMENTUM * momentum + slope)
            weight.assign_sub(LEARNING_RATE * momentum)
        if course.after(step + 1):
            _report(course, step + 1, float(results[-1]), weights, momenta)
    return _whole_loss(weights)
