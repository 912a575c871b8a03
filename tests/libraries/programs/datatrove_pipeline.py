"""DataTrove: a pipeline over files, a task for each."""

import gzip
import json
import os
import tempfile

import ray
from datatrove.executor import RayPipelineExecutor
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from proof import ran

folder = tempfile.mkdtemp()
source, target, logs = (os.path.join(folder, name) for name in ("in", "out", "logs"))
os.mkdir(source)
for i in range(2):
    with open(f"{source}/{i}.jsonl", "w") as file:
        for n in range(1, 6):
            file.write(json.dumps({"text": "w" * n, "id": f"{i}-{n}"}) + "\n")
ray.init(num_cpus=2)
RayPipelineExecutor(
    pipeline=[
        JsonlReader(source),
        LambdaFilter(lambda document: len(document.text) > 2),
        JsonlWriter(target),
    ],
    tasks=2,
    workers=2,
    logging_dir=logs,
    mem_per_cpu_gb=0.1,
).run()
kept = []
for name in os.listdir(target):
    with gzip.open(os.path.join(target, name)) as file:
        kept += [json.loads(line)["id"] for line in file]
assert sorted(kept) == sorted(f"{i}-{n}" for i in range(2) for n in (3, 4, 5))
assert ran()
print("cluster=yes")
