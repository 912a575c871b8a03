"""Packages that parts of the library need and that are not installed with it: which extra brings each.

An extra is what stands in brackets: ``pip install 'heliostat[data]'``. They are declared in
pyproject.toml, with the releases that will do.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

# By extra: (module, package) of what it brings, where something of ours may miss it.
_BRINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "aim": (("aim", "aim"),),
    "audio": (("soundfile", "soundfile"),),
    "avro": (("fastavro", "fastavro"),),
    "aws": (("boto3", "boto3"),),
    "ax": (("ax", "ax-platform"),),
    "bayesopt": (("bayes_opt", "bayesian-optimization"),),
    "bigquery": (
        ("google.cloud.bigquery", "google-cloud-bigquery"),
        ("google.cloud.bigquery_storage", "google-cloud-bigquery-storage"),
        ("google.api_core", "google-cloud-bigquery"),
    ),
    "bohb": (("hpbandster", "hpbandster"), ("ConfigSpace", "ConfigSpace")),
    "clickhouse": (("clickhouse_connect", "clickhouse-connect"),),
    "comet": (("comet_ml", "comet-ml"),),
    "daft": (("daft", "daft"),),
    "dask": (("dask", "dask[dataframe]"),),
    "data": (
        ("fsspec", "fsspec"),
        ("numpy", "numpy"),
        ("pandas", "pandas"),
        ("polars", "polars"),
        ("pyarrow", "pyarrow"),
    ),
    "debug": (("debugpy", "debugpy"),),
    "delta": (("deltalake", "deltalake"),),
    "delta-sharing": (("delta_sharing", "delta-sharing"),),
    "hebo": (("hebo", "HEBO"),),
    "hudi": (("hudi", "hudi"),),
    "hyperopt": (("hyperopt", "hyperopt"),),
    "iceberg": (("pyiceberg", "pyiceberg"),),
    "images": (("PIL", "pillow"),),
    "jax": (("jax", "jax"),),
    "joblib": (("joblib", "joblib"),),
    "kafka": (("confluent_kafka", "confluent-kafka"),),
    "lance": (("lance", "pylance"),),
    "lightgbm": (("lightgbm", "lightgbm"),),
    "lightning": (("lightning", "lightning"),),
    "llm": (("aiohttp", "aiohttp"), ("jinja2", "jinja2")),
    "mcap": (("mcap", "mcap"),),
    "mlflow": (("mlflow", "mlflow"),),
    "modin": (("modin", "modin[ray]"),),
    "mongo": (("bson", "pymongo"), ("pymongo", "pymongo"), ("pymongoarrow", "pymongoarrow")),
    "msgpack": (("msgpack", "msgpack"),),
    "nevergrad": (("nevergrad", "nevergrad"),),
    "notebook": (("IPython", "ipython"),),
    "optuna": (("optuna", "optuna"),),
    "progress": (("tqdm", "tqdm"),),
    "rllib": (("gymnasium", "gymnasium"),),
    "serve": (
        ("fastapi", "fastapi"),
        ("pydantic", "pydantic"),
        ("starlette", "starlette"),
        ("yaml", "pyyaml"),
    ),
    "serve-async-inference": (
        ("celery", "celery"),
        ("kombu", "celery"),
        ("taskiq", "taskiq"),
        ("taskiq_redis", "taskiq-redis"),
    ),
    "serve-grpc": (("grpc", "grpcio"),),
    "snappy": (("cramjam", "cramjam"),),
    "snowflake": (("snowflake", "snowflake-connector-python"),),
    "tensorboard": (("tensorboardX", "tensorboardX"),),
    "tensorflow": (("tensorflow", "tensorflow"),),
    "tfrecord": (("google", "protobuf"), ("google_crc32c", "google-crc32c")),
    "tracing": (("opentelemetry", "opentelemetry-sdk"),),
    "train": (("rich", "rich"), ("sklearn", "scikit-learn"), ("torch", "torch")),
    "transformers": (("datasets", "datasets"), ("transformers", "transformers")),
    "turbopuffer": (("turbopuffer", "turbopuffer"),),
    "video": (("av", "av"),),
    "wandb": (("wandb", "wandb"),),
    "xgboost": (("xgboost", "xgboost"),),
    "zarr": (("zarr", "zarr"),),
    "zoopt": (("zoopt", "zoopt"),),
}
_PACKAGES = {
    module: (package, extra) for extra, brought in _BRINGS.items() for module, package in brought
}


# Under another name than their module's, and in no extra.
_ALONE = {"mars": "pymars"}


def required(module: str, who: str, extra: str | None = None) -> ModuleType:
    """The module, imported.

    Args:
        module: Its name.
        who: What needs it, for the error.
        extra: Which of those that bring it. Default: the one that is listed here.

    Raises:
        ImportError: It is not installed; the message names the package and the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module, who, extra, error) from error


def part(module: str, who: str, extra: str) -> Any:
    """A module of this library, imported.

    Raises:
        ImportError: What it imports is not installed; the message names the package and its extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise explained(error, who, extra) from error


def expected(module: str, who: str) -> None:
    """Fails as :func:`required` does, without importing what takes seconds.

    Raises:
        ImportError: It is not installed.
    """
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ValueError:  # what was imported has no specification: a stand-in
        is_there = sys.modules.get(module) is not None
    if not is_there:
        raise missing(module, who)


def missing(module: str, who: str, extra: str | None = None, why: object = None) -> ImportError:
    """The error for a package that is not there."""
    name, more = module.partition(".")[0], module
    while more and more not in _PACKAGES:  # Google's packages share their first name
        more = more.rpartition(".")[0]
    package, listed = _PACKAGES.get(more or name, (_ALONE.get(name, name), ""))
    extra = extra or listed
    install = f"'heliostat[{extra}]'" if extra else package
    reason = f" ({why})" if why else ""
    return ImportError(
        f"{who}: the package {package} is needed, and is not installed here: "
        f"`pip install {install}`{reason}.",
        name=name,
    )


def explained(error: ModuleNotFoundError, who: str, extra: str | None = None) -> ImportError:
    """Return the error to raise when loading a part of the library failed: the same one, unless an
    extra is missing.
    """
    name = (error.name or "").partition(".")[0]
    return missing(name, who, extra) if name in _PACKAGES else error
