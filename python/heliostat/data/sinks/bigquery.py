"""Rows into a table of BigQuery, each once."""

from __future__ import annotations

import io
import logging
import random
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from heliostat.data import frames
from heliostat.data.sinks.datasink import WRITE_ID, Datasink, TaskContext
from heliostat.data.sources.bigquery import exceptions, package

if TYPE_CHECKING:
    import google
    import pyarrow as pa


logger = logging.getLogger("heliostat.data")

PAUSE_S_MAX = 32.0


class BigQuerySink(Datasink[None]):
    """Loads each block in a job of BigQuery's.

    A job's name follows from the write, the task and the block: one that an earlier attempt began is waited
    for, and not run again.
    """

    def __init__(self, project: str, dataset: str, retries_max: int, is_overwriting: bool) -> None:
        if not project or not dataset or dataset.count(".") != 1:
            raise ValueError(
                "write_bigquery needs a project_id and dataset='dataset.table'; "
                f"they are {project!r} and {dataset!r}."
            )
        package("bigquery")
        self._project, self._dataset = project, dataset
        self._retries_max, self._is_overwriting = retries_max, is_overwriting

    def get_name(self) -> str:
        """Return what plans call it."""
        return "BigQuery"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Make the dataset where it is not there, and drop a table that is to be replaced."""
        client = package("bigquery").Client(project=self._project)
        name = self._dataset.partition(".")[0]
        try:
            client.get_dataset(name)
        except exceptions().NotFound:
            client.create_dataset(f"{self._project}.{name}", exists_ok=True, timeout=30)
        if self._is_overwriting:
            client.delete_table(f"{self._project}.{self._dataset}", not_found_ok=True)

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        """Load the blocks of a task."""
        client = package("bigquery").Client(project=self._project)
        for number, table in enumerate(blocks):
            file = io.BytesIO()
            pq.write_table(frames.without_marks(table), file, compression="SNAPPY")
            job = f"heliostat-{ctx.kwargs.get(WRITE_ID)}-{ctx.task_idx}-{number}"
            self._load(client, file.getvalue(), job)

    def _load(self, client: object, data: bytes, name: str) -> None:
        """Load a file, again after a refusal for too many requests.

        Raises:
            RuntimeError: It was refused too often.
        """
        errors = exceptions()
        passing = (errors.Forbidden, errors.TooManyRequests, errors.ServiceUnavailable)
        attempt = 0
        while True:
            try:
                self._run(client, data, f"{name}-{attempt}")
                return
            except passing as error:
                attempt += 1
                if attempt > self._retries_max:
                    raise RuntimeError(
                        f"Write failed: BigQuery refused {attempt} times to load a block into "
                        f"{self._dataset}: {error}. max_retry_cnt={self._retries_max} may be more."
                    ) from error
                logger.warning(
                    "BigQuery refused a block and is asked again (%d): %s", attempt, error
                )
                time.sleep(random.random() * min(2.0**attempt, PAUSE_S_MAX))

    def _run(self, client: google.cloud.bigquery.Client, data: bytes, name: str) -> None:
        bigquery = package("bigquery")
        options = bigquery.LoadJobConfig(autodetect=True)
        options.source_format = bigquery.SourceFormat.PARQUET
        options.write_disposition = bigquery.WriteDisposition.WRITE_APPEND
        try:
            job = client.load_table_from_file(
                io.BytesIO(data), self._dataset, job_id=name, job_config=options
            )
        except exceptions().Conflict:  # an earlier attempt of this task has begun it
            job = client.get_job(name)
        job.result()
