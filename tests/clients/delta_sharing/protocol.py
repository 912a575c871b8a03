"""Profiles and tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass
class DeltaSharingProfile:
    endpoint: str
    bearer_token: str

    @staticmethod
    def read_from_file(path: str) -> DeltaSharingProfile:
        given = json.loads(Path(path).read_text())
        return DeltaSharingProfile(given["endpoint"], given["bearerToken"])


@dataclass
class Table:
    name: str
    share: str
    schema: str
