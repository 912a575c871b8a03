"""smallpond: partitions by a key, and DuckDB's SQL on each."""

import os
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import smallpond
from proof import ran

folder = tempfile.mkdtemp()
path = os.path.join(folder, "rows.parquet")
pq.write_table(pa.table({"k": [1, 2, 1, 2], "v": [1, 2, 3, 4]}), path)
session = smallpond.init(data_root=os.path.join(folder, "data"), num_executors=0)
rows = session.read_parquet(path).repartition(2, hash_by="k")
sums = session.partial_sql("select k, sum(v) as s from {0} group by k", rows).take_all()
assert sorted((row["k"], int(row["s"])) for row in sums) == [(1, 4), (2, 6)]
assert ran()
print("cluster=yes")
