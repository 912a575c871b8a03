"""Data for training: lazy datasets, streamed through the object store within bounded memory.

Names are loaded when they are first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import expected, explained

if TYPE_CHECKING:
    from heliostat.data import aggregate, collate_fn, exceptions, expressions
    from heliostat.data.catalog import (
        Catalog,
        CatalogAccessMode,
        DatabricksUnityCatalog,
        ReaderFormat,
        ResolvedSource,
    )
    from heliostat.data.context import DataContext, ExecutionOptions, ExecutionResources
    from heliostat.data.dataset import Dataset, MaterializedDataset, Schema
    from heliostat.data.dataset.summary import DatasetSummary
    from heliostat.data.execute.summaries import list_stats_summaries
    from heliostat.data.iterate.iterator import DataIterator
    from heliostat.data.plan.operators import (
        ActorPoolStrategy,
        MixStoppingCondition,
        TaskPoolStrategy,
    )
    from heliostat.data.preprocessors.base import Preprocessor
    from heliostat.data.seeds import RandomSeedConfig
    from heliostat.data.sinks.clickhouse import ClickHouseTableSettings, SinkMode
    from heliostat.data.sinks.datasink import Datasink
    from heliostat.data.sinks.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
    from heliostat.data.sinks.files import FilenameProvider, SaveMode
    from heliostat.data.sources.bigquery import read_bigquery
    from heliostat.data.sources.clickhouse import read_clickhouse
    from heliostat.data.sources.databricks import read_databricks_tables, read_unity_catalog
    from heliostat.data.sources.datasource import (
        Datasource,
        ReadTask,
        read_datasource,
    )
    from heliostat.data.sources.delta import read_delta
    from heliostat.data.sources.files import FileShuffleConfig
    from heliostat.data.sources.hudi import read_hudi
    from heliostat.data.sources.iceberg import read_iceberg
    from heliostat.data.sources.kafka import KafkaAuthConfig, read_kafka
    from heliostat.data.sources.lance import read_lance
    from heliostat.data.sources.lerobot import read_lerobot
    from heliostat.data.sources.libraries import (
        from_daft,
        from_dask,
        from_mars,
        from_modin,
        from_spark,
        from_tf,
    )
    from heliostat.data.sources.media import read_audio, read_mcap, read_videos
    from heliostat.data.sources.memory import (
        from_arrow,
        from_arrow_refs,
        from_blocks,
        from_huggingface,
        from_items,
        from_numpy,
        from_numpy_refs,
        from_pandas,
        from_pandas_refs,
        from_torch,
        range,  # noqa: A004 # Ray's name
        range_tensor,
    )
    from heliostat.data.sources.mongo import read_mongo
    from heliostat.data.sources.read import (
        read_avro,
        read_binary_files,
        read_csv,
        read_images,
        read_json,
        read_numpy,
        read_orc,
        read_parquet,
        read_text,
        read_tfrecords,
        read_webdataset,
    )
    from heliostat.data.sources.sharing import read_delta_sharing_tables
    from heliostat.data.sources.sql import read_snowflake, read_sql
    from heliostat.data.sources.zarr import read_zarr

expected("pyarrow", "ray.data")  # said here, and not by a task

# name: module
_HOME = {
    name: module
    for module, names in {
        "seeds": "RandomSeedConfig",
        "catalog": ("Catalog CatalogAccessMode DatabricksUnityCatalog ReaderFormat ResolvedSource"),
        "context": "DataContext ExecutionOptions ExecutionResources",
        "dataset": "Dataset MaterializedDataset Schema",
        "dataset.summary": "DatasetSummary",
        "execute.summaries": "list_stats_summaries",
        "iterate.iterator": "DataIterator",
        "plan.operators": "ActorPoolStrategy MixStoppingCondition TaskPoolStrategy",
        "preprocessors.base": "Preprocessor",
        "sinks.clickhouse": "ClickHouseTableSettings SinkMode",
        "sinks.files": "FilenameProvider SaveMode",
        "sinks.datasink": "Datasink",
        "sinks.file_datasink": "BlockBasedFileDatasink RowBasedFileDatasink",
        "sources.bigquery": "read_bigquery",
        "sources.clickhouse": "read_clickhouse",
        "sources.datasource": "Datasource ReadTask read_datasource",
        "sources.databricks": "read_databricks_tables read_unity_catalog",
        "sources.delta": "read_delta",
        "sources.files": "FileShuffleConfig",
        "sources.hudi": "read_hudi",
        "sources.iceberg": "read_iceberg",
        "sources.kafka": "KafkaAuthConfig read_kafka",
        "sources.lance": "read_lance",
        "sources.lerobot": "read_lerobot",
        "sources.memory": (
            "from_arrow from_arrow_refs from_blocks from_huggingface from_items from_numpy "
            "from_numpy_refs from_pandas from_pandas_refs from_torch range range_tensor"
        ),
        "sources.media": "read_audio read_mcap read_videos",
        "sources.mongo": "read_mongo",
        "sources.sharing": "read_delta_sharing_tables",
        "sources.sql": "read_snowflake read_sql",
        "sources.zarr": "read_zarr",
        "sources.libraries": ("from_daft from_dask from_mars from_modin from_spark from_tf"),
        "sources.read": (
            "read_avro read_binary_files read_csv read_images read_json read_numpy read_orc "
            "read_parquet read_text read_tfrecords read_webdataset"
        ),
    }.items()
    for name in names.split()
}
NodeIdStr = str  # the id of a node, as ``locality_hints`` take it

_ALIASES = {"DatasetContext": "DataContext", "DatasetIterator": "DataIterator"}
_MODULES = (
    "aggregate",
    "block",
    "catalog",
    "checkpoint",
    "collate_fn",
    "context",
    "dataset",
    "datasource",
    "datatype",
    "exceptions",
    "expressions",
    "extensions",
    "grouped_data",
    "iterator",
    "llm",
    "preprocessor",
    "preprocessors",
    "random_access_dataset",
)

__all__ = [
    # settings
    "ActorPoolStrategy",
    "ClickHouseTableSettings",
    "DataContext",
    "DatasetContext",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "KafkaAuthConfig",
    "MixStoppingCondition",
    "RandomSeedConfig",
    "SaveMode",
    "SinkMode",
    "TaskPoolStrategy",
    # catalogs
    "Catalog",
    "CatalogAccessMode",
    "DatabricksUnityCatalog",
    "ReaderFormat",
    "ResolvedSource",
    # datasets
    "BlockBasedFileDatasink",
    "DataIterator",
    "Dataset",
    "DatasetIterator",
    "DatasetSummary",
    "Datasink",
    "Datasource",
    "FilenameProvider",
    "MaterializedDataset",
    "NodeIdStr",
    "Preprocessor",
    "ReadTask",
    "RowBasedFileDatasink",
    "Schema",
    # making them
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_huggingface",
    "from_items",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_torch",
    "range",
    "range_tensor",
    "read_audio",
    "read_bigquery",
    "read_binary_files",
    "read_clickhouse",
    "read_csv",
    "read_databricks_tables",
    "read_datasource",
    "read_delta",
    "read_delta_sharing_tables",
    "read_hudi",
    "read_iceberg",
    "read_images",
    "read_json",
    "read_kafka",
    "read_lance",
    "read_lerobot",
    "read_mcap",
    "read_mongo",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_snowflake",
    "read_sql",
    "read_text",
    "read_unity_catalog",
    "read_videos",
    "from_daft",
    "from_dask",
    "from_mars",
    "from_modin",
    "from_spark",
    "from_tf",
    "read_avro",
    "read_tfrecords",
    "read_webdataset",
    "read_zarr",
    "list_stats_summaries",
    "set_progress_bars",
]


def set_progress_bars(enabled: bool) -> bool:
    """Turn progress of datasets made from here on on or off.

    Args:
        enabled: On.

    Returns:
        What it was.

    Examples:
        >>> import ray
        >>> before = ray.data.set_progress_bars(False)
        >>> ray.data.range(4).count()
        4
        >>> _ = ray.data.set_progress_bars(before)
    """
    from heliostat.data.context import DataContext

    context = DataContext.get_current()
    before, context.enable_progress_bars = context.enable_progress_bars, enabled
    return before


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            raise explained(error, f"{__name__}.{name}") from error
    home = _HOME.get(_ALIASES.get(name, name))
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), _ALIASES.get(name, name))
    except ModuleNotFoundError as error:
        raise explained(error, f"{__name__}.{name}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
