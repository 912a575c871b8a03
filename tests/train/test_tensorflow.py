"""`TensorflowTrainer`: workers that know each other, a step by hand, reports of Keras."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any

import pytest
from ray import train
from ray.train import Checkpoint, ScalingConfig
from ray.train.tensorflow import TensorflowCheckpoint, TensorflowConfig, TensorflowTrainer

pytestmark = [pytest.mark.contract("F9.40")]

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)


@pytest.mark.heliostat_only("Ray asks for tensorflow where the trainer is imported")
@pytest.mark.parametrize("workers", [1, 3])
def test_each_worker_knows_all_of_them_and_its_place(
    ray_start: Any, tmp_path: Any, workers: int
) -> None:
    def loop() -> None:
        config: dict[str, Any] = json.loads(os.environ["TF_CONFIG"])
        rank = train.get_context().get_world_rank()
        assert config["task"] == {"type": "worker", "index": rank}
        (tmp_path / f"rank{rank}").write_text(json.dumps(config["cluster"]["worker"]))

    TensorflowTrainer(
        loop,
        tensorflow_config=TensorflowConfig(),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    places = [json.loads(path.read_text()) for path in tmp_path.glob("rank*")]
    assert places == [places[0]] * workers
    assert len(set(places[0])) == workers
    assert all(int(place.rpartition(":")[2]) > 0 for place in places[0])


def test_another_configuration_is_refused() -> None:
    with pytest.raises((TypeError, ValueError), match="tensorflow_config"):
        TensorflowTrainer(lambda: None, tensorflow_config={"a": 1})


@pytest.mark.heliostat_only("Ray asks for tensorflow first")
def test_a_checkpoint_without_a_model_says_so(tmp_path: Any) -> None:
    pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    with pytest.raises(RuntimeError, match="There is no model"):
        TensorflowCheckpoint(str(tmp_path)).get_model()


def fit_by_hand(config: dict[str, Any]) -> None:
    """Gradient steps of a line under the strategy; each worker has its part of the samples."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == config["workers"]
    size = 8 // config["workers"]
    rank = train.get_context().get_world_rank()
    xs = tf.constant([float(n) for n in range(rank * size, (rank + 1) * size)])
    weight = tf.Variable(0.0)

    def own() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((weight * xs - 3.0 * xs) ** 2) / 8.0
        slope = tape.gradient(loss, weight)
        return tf.distribute.get_replica_context().all_reduce("SUM", [slope, loss])

    step = tf.function(lambda: strategy.run(own))
    for _ in range(5):
        slope, loss = (strategy.experimental_local_results(one)[0] for one in step())
        weight.assign_sub(0.01 * slope)
        train.report({"loss": float(loss), "weight": float(weight)})


@needs_tensorflow
def test_workers_learn_what_one_process_learns(ray_start: Any, tmp_path: Any) -> None:
    def learned(workers: int) -> Any:
        result = TensorflowTrainer(
            fit_by_hand,
            train_loop_config={"workers": workers},
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=train.RunConfig(storage_path=str(tmp_path), name=f"w{workers}"),
        ).fit()
        return [result.metrics[name] for name in ("loss", "weight")]

    assert learned(2) == pytest.approx(learned(1), rel=1e-5)


def fit_keras(config: dict[str, Any]) -> None:
    import numpy as np
    import tensorflow as tf
    from ray.air.integrations.keras import ReportCheckpointCallback as older
    from ray.train.tensorflow.keras import ReportCheckpointCallback

    assert older is ReportCheckpointCallback
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    xs = np.linspace(0, 1, 32).reshape(-1, 1)
    call = ReportCheckpointCallback(metrics={"error": "loss"})
    model.fit(xs, 3 * xs, epochs=3, verbose=0, callbacks=[call])
    with pytest.raises(ValueError, match="no hook 'epoch'"):
        ReportCheckpointCallback(report_metrics_on="epoch")


@needs_tensorflow
def test_keras_reports_and_saves(ray_start: Any, tmp_path: Any) -> None:
    result = TensorflowTrainer(
        fit_keras,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=train.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    assert set(result.metrics) >= {"error"}
    assert len(result.best_checkpoints) == 3
    found = result.checkpoint
    assert isinstance(found, Checkpoint)
    model = TensorflowCheckpoint(found.path).get_model()
    assert model.count_params() == 2
