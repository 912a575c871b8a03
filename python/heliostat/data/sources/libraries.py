"""Datasets of other libraries' DataFrames, and back: Dask, Modin, Spark, Daft, Mars, TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.core.platform.extras import required
from heliostat.data.dataset import MaterializedDataset
from heliostat.data.dataset.consume import Consumers
from heliostat.data.sources.memory import from_arrow, from_items, from_pandas, from_pandas_refs
from heliostat.data.sources.options import spelled

if TYPE_CHECKING:
    import daft
    import dask
    import mars
    import modin
    import pandas as pd
    import pyspark
    import tensorflow as tf

    from heliostat import ObjectRef
    from heliostat.data.aliases import Value


@spelled
def from_dask(df: dask.dataframe.DataFrame) -> MaterializedDataset:
    """Return a dataset of a Dask DataFrame; each partition is computed in a task.

    Args:
        df: The DataFrame.

    Examples:
        >>> import dask.dataframe as dd
        >>> import pandas as pd
        >>> import ray
        >>> frame = dd.from_pandas(pd.DataFrame({"x": [1, 2]}), npartitions=1)
        >>> ray.data.from_dask(frame).take_all()
        [{'x': 1}, {'x': 2}]
    """
    required("dask.dataframe", "Dask DataFrames")
    compute = ray.remote(_computed)
    return from_pandas_refs([compute.remote([part]) for part in df.to_delayed()])


def _computed(holder: list[dask.delayed.Delayed]) -> pd.DataFrame:
    return holder[0].compute(scheduler="synchronous")


def to_dask(
    dataset: Consumers, meta: object = None, verify_meta: bool = True
) -> dask.dataframe.DataFrame:
    """A Dask DataFrame with a partition for each block."""
    frames = required("dask.dataframe", "Dask DataFrames")
    refs = [[ref] for ref in dataset.to_pandas_refs()]
    if meta is None and refs:
        meta = ray.get(refs[0][0]).head(0)
    return frames.from_map(_fetched, refs, meta=meta)


def _fetched(holder: list[ObjectRef]) -> Value:
    return ray.get(holder[0])


@spelled
def from_modin(df: modin.pandas.DataFrame) -> MaterializedDataset:
    """Return a dataset of a Modin DataFrame whose engine is Ray.

    Args:
        df: The DataFrame.

    Examples:
        >>> import ray
        >>> def rows():
        ...     import modin.pandas as pd
        ...     return ray.data.from_modin(pd.DataFrame({"x": [1, 2]})).take_all()
    """
    partitions = required("modin.distributed.dataframe.pandas", "Modin DataFrames")
    return from_pandas_refs(partitions.unwrap_partitions(df, axis=0))


def to_modin(dataset: Consumers) -> modin.pandas.DataFrame:
    """A Modin DataFrame with a partition for each block."""
    partitions = required("modin.distributed.dataframe.pandas", "Modin DataFrames")
    return partitions.from_partitions(dataset.to_pandas_refs(), axis=0)


@spelled
def from_spark(
    df: pyspark.sql.DataFrame,
    *,
    parallelism: int | None = None,
    override_num_blocks: int | None = None,
) -> MaterializedDataset:
    """Return a dataset of a Spark DataFrame of RayDP.

    Args:
        df: The DataFrame.
        parallelism: Deprecated name of ``override_num_blocks``.
        override_num_blocks: Blocks to make. Default: by the size and the cluster's CPUs.

    Examples:
        >>> import ray
        >>> def rows(spark):  # a SparkSession
        ...     return ray.data.from_spark(spark.range(100), override_num_blocks=4).take(2)
    """
    raydp = required("raydp", "Spark DataFrames")
    blocks = override_num_blocks if override_num_blocks is not None else parallelism
    made: MaterializedDataset = raydp.spark.spark_dataframe_to_ray_dataset(df, blocks)
    return made


def to_spark(dataset: Consumers, spark: pyspark.sql.SparkSession) -> pyspark.sql.DataFrame:
    """A Spark DataFrame of RayDP."""
    raydp = required("raydp", "Spark DataFrames")
    schema = dataset.schema()
    refs = dataset.to_arrow_refs()
    return raydp.spark.ray_dataset_to_spark_dataframe(
        spark, schema.base_schema if schema is not None else None, refs
    )


@spelled
def from_daft(df: daft.DataFrame) -> MaterializedDataset:
    """Return a dataset of a Daft DataFrame, which is computed now.

    Args:
        df: The DataFrame.

    Examples:
        >>> import ray
        >>> def rows():
        ...     import daft
        ...     return ray.data.from_daft(daft.from_pydict({"x": [1, 2]})).take_all()
    """
    return from_arrow(df.to_arrow())


def to_daft(dataset: Consumers) -> daft.DataFrame:
    """A Daft DataFrame of all rows."""
    daft = required("daft", "Daft DataFrames")
    return daft.from_arrow(ray.get(dataset.to_arrow_refs()))


@spelled
def from_mars(df: mars.dataframe.DataFrame) -> MaterializedDataset:
    """Return a dataset of a Mars DataFrame, which is computed now.

    Args:
        df: The DataFrame.

    Examples:
        >>> import ray
        >>> def rows():
        ...     import mars.dataframe as md
        ...     return ray.data.from_mars(md.DataFrame({"x": [1, 2]})).take_all()
    """
    return from_pandas(df.execute().fetch())


def to_mars(dataset: Consumers) -> mars.dataframe.DataFrame:
    """A Mars DataFrame of all rows."""
    return required("mars.dataframe", "Mars DataFrames").DataFrame(dataset.to_pandas())


@spelled
def from_tf(dataset: tf.data.Dataset) -> MaterializedDataset:
    """Return a dataset of a ``tf.data.Dataset``, which is read now, row by row.

    Args:
        dataset: The dataset.

    Examples:
        >>> import ray
        >>> def rows():
        ...     import tensorflow as tf
        ...     return ray.data.from_tf(tf.data.Dataset.from_tensor_slices({"x": [1, 2]})).take_all()
    """
    return from_items(list(dataset.as_numpy_iterator()))
