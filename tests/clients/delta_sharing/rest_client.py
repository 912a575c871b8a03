"""Requests of the protocol."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

from delta_sharing.protocol import DeltaSharingProfile, Table


@dataclass
class Metadata:
    schema_string: str


@dataclass
class AddFile:
    url: str
    partition_values: dict[str, str]
    size: int


@dataclass
class Response:
    metadata: Metadata
    add_files: list[AddFile]


class DataSharingRestClient:
    def __init__(self, profile: DeltaSharingProfile) -> None:
        self._profile = profile

    def list_files_in_table(
        self,
        table: Table,
        *,
        jsonPredicateHints: Any = None,  # the package's name
        limitHint: Any = None,
        version: Any = None,
        timestamp: Any = None,
    ) -> Response:
        given = {"limitHint": limitHint, "version": version, "timestamp": timestamp}
        asked = urllib.request.Request(
            f"{self._profile.endpoint}/shares/{table.share}/schemas/{table.schema}/tables/{table.name}/query",
            json.dumps({k: v for k, v in given.items() if v is not None}).encode(),
            {"Authorization": f"Bearer {self._profile.bearer_token}"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            lines = [json.loads(line) for line in answer.read().splitlines()]
        files = [line["file"] for line in lines if "file" in line]
        (about,) = [line["metaData"] for line in lines if "metaData" in line]
        return Response(
            Metadata(about["schemaString"]),
            [AddFile(one["url"], one["partitionValues"], one["size"]) for one in files],
        )
