"""Tables of Hudi, made by hand: nothing that is not for the JVM writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PROPERTIES = """hoodie.table.name=numbers
hoodie.table.type=COPY_ON_WRITE
hoodie.table.version=6
hoodie.timeline.layout.version=1
hoodie.table.recordkey.fields=id
hoodie.table.partition.fields=city
hoodie.table.base.file.format=PARQUET
hoodie.datasource.write.hive_style_partitioning=true
hoodie.datasource.write.drop.partition.columns=false
hoodie.populate.meta.fields=true
"""
FIELDS = [{"name": "id", "type": ["null", "long"]}, {"name": "city", "type": ["null", "string"]}]

# By commit, by (city, file): the rows of a file, as (id, the commit that changed it).
Commits = dict[str, dict[tuple[str, str], list[tuple[int, str]]]]


def make(root: Path, commits: Commits) -> None:
    about = root / ".hoodie"
    about.mkdir(parents=True)
    (about / "hoodie.properties").write_text(PROPERTIES)
    schema = json.dumps({"type": "record", "name": "numbers", "fields": FIELDS})
    for when, files in commits.items():
        written: dict[str, list[dict[str, object]]] = {}
        for (city, file), rows in files.items():
            place = f"city={city}"
            (root / place).mkdir(exist_ok=True)
            (root / place / ".hoodie_partition_metadata").write_text(
                f"commitTime={when}\npartitionDepth=1\n"
            )
            name = f"{file}-0_0-1-1_{when}.parquet"
            table = pa.table(
                {
                    "_hoodie_commit_time": [changed for _, changed in rows],
                    "_hoodie_commit_seqno": [f"{when}_0_{i}" for i, _ in rows],
                    "_hoodie_record_key": [str(i) for i, _ in rows],
                    "_hoodie_partition_path": [place] * len(rows),
                    "_hoodie_file_name": [name] * len(rows),
                    "id": pa.array([i for i, _ in rows], pa.int64()),
                    "city": [city] * len(rows),
                }
            )
            pq.write_table(table, root / place / name)
            size = (root / place / name).stat().st_size
            written.setdefault(place, []).append(
                {
                    "fileId": f"{file}-0",
                    "path": f"{place}/{name}",
                    "prevCommit": "null",
                    "numWrites": len(rows),
                    "totalWriteBytes": size,
                    "fileSizeInBytes": size,
                    "partitionPath": place,
                }
            )
        for state in ("commit.requested", "inflight"):
            (about / f"{when}.{state}").write_text("")
        done = {
            "partitionToWriteStats": written,
            "compacted": False,
            "extraMetadata": {"schema": schema},
            "operationType": "UPSERT",
        }
        (about / f"{when}.commit").write_text(json.dumps(done))
