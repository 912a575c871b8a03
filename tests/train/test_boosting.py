"""XGBoost and LightGBM: what the report callbacks report and save, and what the trainers refuse."""

from __future__ import annotations

import logging
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ray import train
from ray.train import WorkerGroupError

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.contract("F9.38")
def test_xgboost_frequency_names_and_models(fit: Any) -> None:
    pytest.importorskip("xgboost")

    def loop() -> int:
        import numpy as np
        import xgboost
        from ray.train.xgboost import RayTrainReportCallback

        rows = xgboost.DMatrix(np.arange(20.0).reshape(-1, 1), label=np.arange(20) > 9)
        model = xgboost.train(
            {"objective": "binary:logistic", "nthread": 1},
            rows,
            num_boost_round=4,
            evals=[(rows, "eval")],
            verbose_eval=False,
            callbacks=[
                RayTrainReportCallback(
                    metrics={"loss": "eval-logloss"}, filename="m.json", frequency=2
                ),
            ],
        )
        return int(model.num_boosted_rounds())

    result = fit(loop, 1)
    assert result.return_value == 4
    # Rounds 2 and 4; the last one is not saved twice.
    assert len(result.best_checkpoints) == 2
    assert list(result.metrics) == ["loss"]
    from ray.train.xgboost import RayTrainReportCallback

    model = RayTrainReportCallback.get_model(result.checkpoint, filename="m.json")
    assert model.num_boosted_rounds() == 4


@pytest.mark.contract("F9.38")
def test_metrics_that_are_not_there(fit: Any) -> None:
    pytest.importorskip("xgboost")

    def loop() -> None:
        from ray.train.xgboost import RayTrainReportCallback

        callback = RayTrainReportCallback(metrics=["eval-auc"])
        callback.after_iteration(None, 0, OrderedDict(eval={"logloss": [0.5]}))

    with pytest.raises(WorkerGroupError, match="eval-auc"):
        fit(loop, 1)


@pytest.mark.contract("F9.38", "F9.39")
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_the_first_generation_is_refused(library: str) -> None:
    pytest.importorskip(library)
    package: Any = getattr(train, library)
    trainer = getattr(
        package, {"xgboost": "XGBoostTrainer", "lightgbm": "LightGBMTrainer"}[library]
    )
    with pytest.raises(DeprecationWarning):
        trainer(lambda: None, params={"eta": 0.1})


@pytest.mark.contract("F9.39")
def test_lightgbm_metrics_of_cross_validation(fit: Any) -> None:
    pytest.importorskip("lightgbm")

    def loop() -> None:
        from ray.train.lightgbm import RayTrainReportCallback

        RayTrainReportCallback(checkpoint_at_end=False)(
            SimpleNamespace(
                iteration=0,
                end_iteration=1,
                model=None,
                evaluation_result_list=[
                    ("train", "loss", 0.5, False),
                    ("valid", "auc", 0.9, True, 0.1),
                ],
            )
        )

    metrics = {"train-loss": 0.5, "valid-auc-mean": 0.9, "valid-auc-stdv": 0.1}
    assert fit(loop, 1).metrics == metrics


@pytest.mark.contract("F9.39")
def test_lightgbm_network_outside_of_a_trainer(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("lightgbm")
    from ray.train.lightgbm import get_network_params

    with caplog.at_level(logging.WARNING):
        assert get_network_params() == {}
    assert "get_network_params" in caplog.text


@pytest.mark.contract("F9.39")
def test_frames_for_lightgbm() -> None:
    pytest.importorskip("lightgbm")
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    from ray.train.lightgbm import normalize_pandas_for_lightgbm

    arrow = {
        "i": pd.array([1, None], dtype=pd.ArrowDtype(pa.int32())),
        "u": pd.array([1, 2], dtype=pd.ArrowDtype(pa.uint8())),
        "f": pd.array([0.5, 1.5], dtype=pd.ArrowDtype(pa.float64())),
        "b": pd.array([True, False], dtype=pd.ArrowDtype(pa.bool_())),
        "s": pd.array(["a", "b"], dtype=pd.ArrowDtype(pa.string())),
    }
    frame = pd.DataFrame({**arrow, "plain": [1.0, 2.0]})
    found = normalize_pandas_for_lightgbm(frame).dtypes
    assert [str(found[c]) for c in ("i", "u", "f", "b")] == ["Int32", "UInt8", "Float64", "boolean"]
    assert isinstance(found["s"], pd.ArrowDtype)
    assert str(found["plain"]) == "float64"


@pytest.mark.contract("F9.38")
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_checkpoints_of_boosters(library: str, tmp_path: Path) -> None:
    boosters = pytest.importorskip(library)
    import numpy as np
    from ray.data.preprocessors import StandardScaler

    inputs, labels = np.arange(40.0).reshape(-1, 1), np.arange(40) > 19
    if library == "xgboost":
        from ray.train.xgboost import XGBoostCheckpoint as OfBoosters

        rows = boosters.DMatrix(inputs, label=labels)
        booster = boosters.train({"nthread": 1}, rows, num_boost_round=2)
    else:
        from ray.train.lightgbm import LightGBMCheckpoint as OfBoosters

        rows = boosters.Dataset(inputs, label=labels)
        booster = boosters.train({"verbosity": -1, "num_threads": 1}, rows, num_boost_round=2)
    with pytest.warns(DeprecationWarning, match="Checkpoint is deprecated"):
        kept = OfBoosters.from_model(
            booster, preprocessor=StandardScaler(["x"]), path=str(tmp_path)
        )
    assert type(kept) is OfBoosters
    assert (tmp_path / OfBoosters.MODEL_FILENAME).exists()
    again = OfBoosters.from_directory(str(tmp_path))
    if library == "xgboost":
        assert np.array_equal(again.get_model().predict(rows), booster.predict(rows))
    else:
        assert np.array_equal(again.get_model().predict(inputs), booster.predict(inputs))
    assert again.get_preprocessor().columns == ["x"]
    assert isinstance(again, train.Checkpoint)
    with (
        pytest.warns(DeprecationWarning, match="deprecated"),
        pytest.raises(ValueError, match="directory"),
    ):
        OfBoosters.from_model(booster, path=str(tmp_path / "missing"))
    with pytest.warns(DeprecationWarning, match="deprecated"):
        assert OfBoosters.from_model(booster).get_preprocessor() is None


@pytest.mark.contract("F9.01", "F9.38")
def test_names_of_the_first_generation() -> None:
    from ray.train.torch import TorchTrainer
    from ray.train.trainer import BaseTrainer
    from ray.train.v2.api.callback import UserCallback
    from ray.util.annotations import RayDeprecationWarning

    assert UserCallback is train.UserCallback

    class Mine(BaseTrainer):
        _scaling_config_allowed_keys: ClassVar = [
            *BaseTrainer._scaling_config_allowed_keys,
            "num_workers",
        ]
        _fields_for_tuner_param_space: ClassVar = [
            *BaseTrainer._fields_for_tuner_param_space,
            "mine",
        ]

    assert Mine._scaling_config_allowed_keys == ["trainer_resources", "num_workers"]
    assert Mine._fields_for_tuner_param_space == ["mine"]
    assert not Mine._handles_checkpoint_freq
    assert not Mine._handles_checkpoint_at_end
    assert set(Mine._scaling_config_allowed_keys) < set(TorchTrainer._scaling_config_allowed_keys)
    assert TorchTrainer._fields_for_tuner_param_space == ["train_loop_config"]
    assert TorchTrainer._dataset_config is None
    with pytest.raises(TypeError, match="abstract"):
        BaseTrainer()  # type: ignore[abstract]
    for trainer in (TorchTrainer, BaseTrainer):
        for call in (trainer.restore, trainer.can_restore):
            with (
                pytest.warns(RayDeprecationWarning, match="`restore` and `can_restore` APIs"),
                pytest.raises(DeprecationWarning, match="storage_path"),
            ):
                call("/somewhere")
