"""A stand-in for ``google-cloud-bigquery``: tables by "dataset.table", and the jobs that loaded them."""

from __future__ import annotations

import io
import os
from typing import Any

import client_state
import pyarrow.parquet as pq
from google.api_core.exceptions import Conflict, Forbidden, NotFound


class SourceFormat:
    PARQUET = "PARQUET"


class WriteDisposition:
    WRITE_APPEND = "WRITE_APPEND"


class LoadJobConfig:
    def __init__(self, autodetect: bool) -> None:
        self.source_format = self.write_disposition = ""


class Destination:
    def __init__(self, project: str, dataset_id: str, table_id: str) -> None:
        self.project, self.dataset_id, self.table_id = project, dataset_id, table_id


class Job:
    def __init__(self, is_refused: bool = False, destination: Any = None) -> None:
        self.is_refused, self.destination = is_refused, destination

    def result(self) -> None:
        if self.is_refused:
            raise Forbidden("Exceeded rate limits")


class Client:
    def __init__(self, project: str) -> None:
        self.project = project

    def get_dataset(self, name: str) -> None:
        if name not in client_state.load("bigquery", {"sets": []})["sets"]:
            raise NotFound(name)

    def create_dataset(self, name: str, exists_ok: bool, timeout: float) -> None:
        with client_state.changed("bigquery", {"sets": [], "tables": {}, "jobs": {}}) as held:
            held["sets"].append(name.removeprefix(f"{self.project}."))

    def get_table(self, name: str) -> None:
        if name not in client_state.load("bigquery", {"tables": {}})["tables"]:
            raise NotFound(name)

    def delete_table(self, name: str, not_found_ok: bool) -> None:
        with client_state.changed("bigquery", {}) as held:
            held["tables"].pop(name.removeprefix(f"{self.project}."), None)

    def query(self, text: str) -> Job:
        assert text == "SELECT * FROM d.t"
        return Job(destination=Destination(self.project, "d", "t"))

    def get_job(self, name: str) -> Job:
        return Job(client_state.load("bigquery", {})["jobs"][name])

    def load_table_from_file(
        self, file: io.BytesIO, table: str, job_id: str, job_config: LoadJobConfig
    ) -> Job:
        assert job_config.source_format == "PARQUET"
        assert job_config.write_disposition == "WRITE_APPEND"
        is_refused = client_state.fails("bigquery-load")
        with client_state.changed("bigquery", {}) as held:
            if job_id in held["jobs"]:
                raise Conflict(job_id)
            held["jobs"][job_id] = is_refused
            if not is_refused:
                held["tables"].setdefault(table, []).append(pq.read_table(file))
        if client_state.fails("bigquery-die"):
            os._exit(1)
        return Job(is_refused)
