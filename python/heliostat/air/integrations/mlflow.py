"""MLflow in a training function."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

from heliostat.air.integrations.rank import another_worker_tracks
from heliostat.core.platform.extras import missing

__all__ = ["MLflowLoggerCallback", "setup_mlflow"]  # noqa: F822 # the callback comes by __getattr__


class _Noop:
    """The stand-in for ``mlflow`` in workers other than rank 0: any call does nothing.

    A call gives another one (Ray's gives None), so that ``with mlflow.start_run() as run:`` and
    ``run.info.run_id`` do no harm.
    """

    def __getattr__(self, name: str) -> _Noop:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Noop()

    def __call__(self, *args: Any, **kwargs: Any) -> _Noop:
        return _Noop()

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> _Noop:
        return self

    def __exit__(self, *args: object) -> None:
        return None


def setup_mlflow(
    config: dict[str, Any] | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,
    tags: dict[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> ModuleType | _Noop:
    """Start an MLflow run in a training function, and log ``config`` as its parameters.

    Args:
        config: Parameters; nested dicts become ``a/b``.
        tracking_uri, registry_uri: Where MLflow keeps runs and models. Default: MLflow's own.
        experiment_id: An experiment that exists; goes before ``experiment_name``.
        experiment_name: An experiment by its name. Default of both: MLFLOW_EXPERIMENT_ID and
            MLFLOW_EXPERIMENT_NAME of the environment.
        tracking_token: For a server that asks for one.
        artifact_location: Where a new experiment keeps its files.
        run_name: Default: the name of the experiment.
        create_experiment_if_not_exists: Make an experiment of that name. Default False.
        tags: Tags of the run.
        rank_zero_only: Only rank 0 tracks; the others get an object whose calls do nothing.
            Default True.

    Returns:
        The module ``mlflow`` with an active run, or that object.

    Raises:
        RuntimeError: mlflow is not installed.
        ValueError: There is no such experiment.
    """
    try:
        import mlflow
    except ImportError as error:
        raise RuntimeError(str(missing("mlflow", "setup_mlflow()"))) from error
    if another_worker_tracks(rank_zero_only):
        return _Noop()
    if tracking_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri is not None:
        mlflow.set_registry_uri(registry_uri)
    name = experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    found = _experiment(
        mlflow,
        experiment_id or os.environ.get("MLFLOW_EXPERIMENT_ID"),
        name,
        artifact_location,
        create_experiment_if_not_exists,
    )
    if mlflow.active_run() is None:
        mlflow.start_run(run_name=run_name or name, experiment_id=found, tags=tags)
    mlflow.log_params(_flat(config or {}))
    module: ModuleType = mlflow
    return module


def _experiment(
    mlflow: Any, by_id: str | None, name: str | None, location: str | None, create: bool
) -> str:
    """The id of the experiment, which is made if it may be."""
    if by_id is not None:
        try:
            return str(mlflow.get_experiment(experiment_id=by_id).experiment_id)
        except mlflow.exceptions.MlflowException:
            pass  # the name may lead to one
    if name is not None:
        experiment = mlflow.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        if create:
            return str(mlflow.create_experiment(name=name, artifact_location=location))
    raise ValueError(
        f"MLflow has no experiment with experiment_id={by_id!r} or experiment_name={name!r}. Give "
        "the name or the id of one that exists, or a name and create_experiment_if_not_exists=True."
    )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat.update(_flat(value, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def __getattr__(name: str) -> Any:
    """The logger of Tune, which is a layer above."""
    if name != "MLflowLoggerCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("heliostat.tune.logger.mlflow"), name)
