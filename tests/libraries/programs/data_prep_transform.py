"""Data Prep Kit: a transform of tables on a pool of actors, launched as its command line does it."""

import json
import os
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from data_processing.transform import AbstractTableTransform, TransformConfiguration
from data_processing.utils import ParamsUtils
from data_processing_ray.runtime.ray import RayTransformLauncher
from data_processing_ray.runtime.ray.runtime_configuration import RayTransformRuntimeConfiguration

folder = tempfile.mkdtemp()
source, target = os.path.join(folder, "in"), os.path.join(folder, "out")
for path in (source, target):
    os.mkdir(path)
for i in range(3):
    pq.write_table(pa.table({"x": [i, i + 1], "contents": ["a", "b"]}), f"{source}/f{i}.parquet")


class AddTen(AbstractTableTransform):
    def transform(self, table, file_name=None):
        more = pa.array([value.as_py() + 10 for value in table["x"]])
        return [table.append_column("y", more)], {"rows": table.num_rows}


class AddTenConfiguration(TransformConfiguration):
    def __init__(self):
        super().__init__(name="add_ten", transform_class=AddTen)

    def add_input_params(self, parser): ...

    def apply_input_params(self, args):
        return True


sys.argv = ParamsUtils.dict_to_req(
    d={
        "run_locally": True,
        "data_local_config": ParamsUtils.convert_to_ast(
            {"input_folder": source, "output_folder": target}
        ),
        "runtime_num_workers": 2,
        "runtime_worker_options": ParamsUtils.convert_to_ast({"num_cpus": 0.25}),
        "runtime_pipeline_id": "pipeline",
        "runtime_job_id": "job",
        "runtime_creation_delay": 0,
    }
)
configuration = RayTransformRuntimeConfiguration(transform_config=AddTenConfiguration())
assert RayTransformLauncher(configuration).launch() == 0
for i in range(3):
    assert pq.read_table(f"{target}/f{i}.parquet")["y"].to_pylist() == [i + 10, i + 11]
with open(f"{target}/metadata.json") as file:
    told = json.load(file)
assert told["job_output_stats"]["rows"] == 6
# It ends its cluster by itself; what it tells of that one is its proof.
assert told["execution_stats"]["cpus"] > 0
print("cluster=yes")
