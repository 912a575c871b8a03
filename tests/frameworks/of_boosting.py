"""Boosted trees: each worker has its part of the rows, all end with the same model."""

from __future__ import annotations

from functools import cache
from typing import Any

from ray import train

from tests.frameworks.work import SAVE_EVERY, STEPS, Course

# Few values a column, so that each worker cuts a column at the same places as one process does.
_ROWS, _VALUES = 400, 6
_RATE = 0.3


@cache
def _rows() -> tuple[Any, Any]:
    import numpy

    generator = numpy.random.default_rng(7)
    x = generator.integers(0, _VALUES, (_ROWS, 4)).astype(float)
    return x, numpy.sin(x.sum(1) / 3)


def _part() -> tuple[Any, Any]:
    context = train.get_context()
    part = slice(context.get_world_rank(), None, context.get_world_size())
    return tuple(whole[part] for whole in _rows())


def _loss(answers: Any) -> float:
    return float(((answers - _rows()[1]) ** 2).mean())


_XGBOOST = {"objective": "reg:squarederror", "max_depth": 3, "eta": _RATE, "nthread": 1}


def xgboost_alone() -> float:
    import xgboost

    model = xgboost.train(_XGBOOST, xgboost.DMatrix(*_rows()), num_boost_round=STEPS)
    return _loss(model.predict(xgboost.DMatrix(_rows()[0])))


def xgboost(config: dict[str, Any]) -> float:
    import xgboost
    from ray.train.xgboost import RayTrainReportCallback

    course = Course(config)
    begun = None
    if (checkpoint := train.get_checkpoint()) is not None:
        begun = RayTrainReportCallback.get_model(checkpoint)

    class Steps(xgboost.callback.TrainingCallback):  # type: ignore[misc,unused-ignore]
        def after_iteration(self, model: Any, epoch: int, log: Any) -> bool:
            course.after(model.num_boosted_rounds())
            return False

    rows = xgboost.DMatrix(*_part())
    model = xgboost.train(
        _XGBOOST,
        rows,
        num_boost_round=STEPS - (begun.num_boosted_rounds() if begun else 0),
        evals=[(rows, "train")],
        verbose_eval=False,
        xgb_model=begun,
        callbacks=[RayTrainReportCallback(frequency=SAVE_EVERY), Steps()],
    )
    return _loss(model.predict(xgboost.DMatrix(_rows()[0])))


_LIGHTGBM = {
    "objective": "regression",
    "num_leaves": 7,
    "learning_rate": _RATE,
    "min_data_in_leaf": 5,
    "num_threads": 1,
    "verbose": -1,
    "seed": 0,
    "deterministic": True,
}


def lightgbm_alone() -> float:
    import lightgbm

    model = lightgbm.train(_LIGHTGBM, lightgbm.Dataset(*_rows()), num_boost_round=STEPS)
    return _loss(model.predict(_rows()[0]))


def lightgbm(config: dict[str, Any]) -> float:
    import lightgbm
    from ray.train.lightgbm import RayTrainReportCallback, get_network_params

    course = Course(config)
    begun = None
    if (checkpoint := train.get_checkpoint()) is not None:
        begun = RayTrainReportCallback.get_model(checkpoint)
    before = begun.num_trees() if begun else 0

    def steps(env: Any) -> None:
        course.after(before + env.iteration + 1)

    rows = lightgbm.Dataset(*_part(), free_raw_data=False)
    parallel = {"tree_learner": "data_parallel", "pre_partition": True, **get_network_params()}
    model = lightgbm.train(
        {**_LIGHTGBM, **(parallel if course.size > 1 else {})},
        rows,
        num_boost_round=STEPS - before,
        valid_sets=[rows],
        valid_names=["train"],
        init_model=begun,
        callbacks=[RayTrainReportCallback(frequency=SAVE_EVERY), steps],
    )
    return _loss(model.predict(_rows()[0]))
