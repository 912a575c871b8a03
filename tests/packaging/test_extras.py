"""Without an optional package, what needs it says which one, and which extra brings it.

Each package is made impossible to import in turn, for the driver and its workers, as where it was never
installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heliostat_only("Ray's sentences are its own"),
    pytest.mark.contract("F0.01"),
]

# Runs at the start of every Python with this folder on its path. What looks through sys.path finds nothing of
# these names: neither an import nor a look whether it is there.
BLOCKER = """
import importlib.machinery, os, sys
found = importlib.machinery.PathFinder.find_spec
def find_spec(name, path=None, target=None):
    blocked = os.environ["BLOCKED"].split()
    tops = (name, name.partition(".")[0])
    return None if any(top in blocked for top in tops) else found(name, path, target)
importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
"""

# Runs each program in a fork of a process that has imported the large libraries, and nothing of ours: to
# import them for each program takes longer than all the rest. One that is to miss one of them begins afresh.
FORKING = """
import json, os, sys
for name in "numpy", "pandas", "pyarrow.compute", "pyarrow.dataset":
    try:
        __import__(name)
    except ImportError:  # each of the programs says so, then
        pass
while line := sys.stdin.readline():
    blocked, program, output = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.environ["BLOCKED"] = blocked
    written = os.open(output, os.O_WRONLY | os.O_CREAT)
    for number, file in (0, os.open(os.devnull, os.O_RDONLY)), (1, written), (2, written):
        os.dup2(file, number)
    if any(name in sys.modules for name in blocked.split()):
        os.execv(sys.executable, [sys.executable, "-c", program])
    sys.argv = ["-c"]
    exec(program, {"__name__": "__main__"})
    sys.exit()
"""

# What is missing, what is asked for all the same, the package and the extra that the error has to name.
CASES = [
    ("pyarrow", "import ray.data", "pyarrow", "data"),
    ("pyarrow", "import ray; ray.data.range(3)", "pyarrow", "data"),
    ("pyarrow", "from ray.data import read_parquet", "pyarrow", "data"),
    ("pyarrow", "from ray.data.preprocessors import StandardScaler", "pyarrow", "data"),
    ("numpy", "import ray; ray.data.from_items([1])", "numpy", "data"),
    ("pandas", "import ray; ray.data.range(3).to_pandas()", "pandas", "data"),
    ("PIL", "import ray; ray.data.read_images('{tmp}/a.png').take(1)", "pillow", "images"),
    ("fastavro", "import ray; ray.data.read_avro('{tmp}/a.avro').take(1)", "fastavro", "avro"),
    ("google", "import ray; ray.data.range(1).write_tfrecords('{tmp}/o')", "protobuf", "tfrecord"),
    (
        "google_crc32c",
        "import ray; ray.data.range(1).write_tfrecords('{tmp}/out')",
        "google-crc32c",
        "tfrecord",
    ),
    ("cramjam", "import ray; ray.data.read_text('{tmp}/a.snappy').take(1)", "cramjam", "snappy"),
    ("deltalake", "import ray; ray.data.read_delta('{tmp}')", "deltalake", "delta"),
    ("deltalake", "import ray; ray.data.range(1).write_delta('{tmp}')", "deltalake", "delta"),
    (
        "pyiceberg",
        "import ray; ray.data.read_iceberg(table_identifier='a.b')",
        "pyiceberg",
        "iceberg",
    ),
    ("lance", "import ray; ray.data.read_lance('{tmp}')", "pylance", "lance"),
    ("lance", "import ray; ray.data.range(1).write_lance('{tmp}/l')", "pylance", "lance"),
    ("hudi", "import ray; ray.data.read_hudi('{tmp}')", "hudi", "hudi"),
    (
        "delta_sharing",
        "import ray; ray.data.read_delta_sharing_tables('p#s.x.t')",
        "delta-sharing",
        "delta-sharing",
    ),
    ("pymongo", "import ray; ray.data.read_mongo('mongodb://h', 'd', 'c')", "pymongo", "mongo"),
    (
        "pymongo",
        "import ray; ray.data.range(1).write_mongo('mongodb://h', 'd', 'c')",
        "pymongo",
        "mongo",
    ),
    (
        "clickhouse_connect",
        "import ray; ray.data.read_clickhouse(table='t', dsn='clickhouse+http://h')",
        "clickhouse-connect",
        "clickhouse",
    ),
    (
        "clickhouse_connect",
        "import ray; ray.data.range(1).write_clickhouse('t', 'clickhouse+http://h')",
        "clickhouse-connect",
        "clickhouse",
    ),
    (
        "google.cloud.bigquery google.cloud",
        "import ray; ray.data.read_bigquery('p', 'd.t')",
        "google-cloud-bigquery",
        "bigquery",
    ),
    (
        "google.cloud.bigquery google.cloud",
        "import ray; ray.data.range(1).write_bigquery('p', 'd.t')",
        "google-cloud-bigquery",
        "bigquery",
    ),
    (
        "snowflake",
        "import ray; ray.data.read_snowflake('SELECT 1', {{}})",
        "snowflake-connector-python",
        "snowflake",
    ),
    (
        "confluent_kafka",
        "import ray; ray.data.read_kafka('t', bootstrap_servers='h:1')",
        "confluent-kafka",
        "kafka",
    ),
    (
        "confluent_kafka",
        "import ray; ray.data.range(1).write_kafka('t', 'h:1')",
        "confluent-kafka",
        "kafka",
    ),
    (
        "turbopuffer",
        "import ray; ray.data.range(1).write_turbopuffer(namespace='n', region='r', api_key='k')",
        "turbopuffer",
        "turbopuffer",
    ),
    ("jax", "import ray; ray.data.range(1).iterator().iter_jax_batches()", "jax", "jax"),
    (
        "tensorflow",
        "import ray; list(ray.data.range(1).iter_tf_batches())",
        "tensorflow",
        "tensorflow",
    ),
    ("torch", "import ray; list(ray.data.range(1).iter_torch_batches())", "torch", "train"),
    ("dask", "import ray; ray.data.range(1).to_dask()", "dask[dataframe]", "dask"),
    ("modin", "import ray; ray.data.range(1).to_modin()", "modin[ray]", "modin"),
    ("daft", "import ray; ray.data.range(1).to_daft()", "daft", "daft"),
    ("dask", "import ray.util.dask", "dask[dataframe]", "dask"),
    ("joblib", "from ray.util.joblib import register_ray; register_ray()", "joblib", "joblib"),
    (
        "torch",
        "import ray, ray.util.collective as c; ray.get(ray.remote(c.init_collective_group).remote(1, 0))",
        "torch",
        "train",
    ),
    (
        "torch",
        "from ray.train.torch import TorchTrainer; TorchTrainer(print)",
        "torch",
        "train",
    ),
    ("torch", "from ray.train.torch import TorchCheckpoint", "torch", "train"),
    (
        "lightning lightning_fabric pytorch_lightning",
        "from ray.train.lightning import RayDDPStrategy",
        "lightning",
        "lightning",
    ),
    (
        "transformers",
        "from ray.train.huggingface.transformers import RayTrainReportCallback",
        "transformers",
        "transformers",
    ),
    (
        "xgboost",
        "from ray.train.xgboost import XGBoostTrainer; XGBoostTrainer(print)",
        "xgboost",
        "xgboost",
    ),
    ("jax", "from ray.train.v2.jax import JaxTrainer; JaxTrainer(print)", "jax", "jax"),
    ("xgboost", "from ray.train.xgboost import RayTrainReportCallback", "xgboost", "xgboost"),
    (
        "lightgbm",
        "from ray.train.lightgbm import LightGBMTrainer; LightGBMTrainer(print)",
        "lightgbm",
        "lightgbm",
    ),
    (
        "pyarrow",
        "from ray import train; train.Checkpoint('s3://bucket/a').to_directory()",
        "pyarrow",
        "train",
    ),
    ("numpy", "from ray import tune; tune.uniform(0, 1).sample()", "numpy", "tune"),
    (
        "pandas",
        "from ray.tune import *; ResultGrid(ExperimentAnalysis('{tmp}', trials=[])).get_dataframe()",
        "pandas",
        "tune",
    ),
    *(
        (module, f"from ray.tune.search import create_searcher as c; c('{name}')", package, name)
        for name, module, package in (
            ("ax", "ax", "ax-platform"),
            ("bayesopt", "bayes_opt", "bayesian-optimization"),
            ("bohb", "hpbandster", "hpbandster"),
            ("hebo", "hebo", "HEBO"),
            ("hyperopt", "hyperopt", "hyperopt"),
            ("nevergrad", "nevergrad", "nevergrad"),
            ("optuna", "optuna", "optuna"),
            ("zoopt", "zoopt", "zoopt"),
        )
    ),
    (
        "optuna",
        "from ray.tune.search.optuna import cluster_storage; cluster_storage()",
        "optuna",
        "optuna",
    ),
    (
        "tensorboardX tensorboard",
        "from ray.tune.logger import TBXLoggerCallback; TBXLoggerCallback()",
        "tensorboardX",
        "tensorboard",
    ),
    (
        "mlflow",
        "from ray.air.integrations.mlflow import MLflowLoggerCallback as C; C()",
        "mlflow",
        "mlflow",
    ),
    (
        "mlflow",
        "from ray.air.integrations.mlflow import setup_mlflow as s; s({{}})",
        "mlflow",
        "mlflow",
    ),
    (
        "wandb",
        "import ray.air.integrations.wandb as w; w.WandbLoggerCallback(project='a')",
        "wandb",
        "wandb",
    ),
    ("wandb", "from ray.air.integrations.wandb import setup_wandb as s; s({{}})", "wandb", "wandb"),
    (
        "comet_ml",
        "from ray.air.integrations.comet import CometLoggerCallback as C; C()",
        "comet-ml",
        "comet",
    ),
    ("aim", "from ray.tune.logger.aim import AimLoggerCallback as C; C()", "aim", "aim"),
    *(
        ("pydantic", f"from ray.serve{module} import {name}", "pydantic", "serve")
        for module, name in (
            (".config", "AutoscalingConfig"),
            (".config", "HTTPOptions"),
            (".schema", "LoggingConfig"),
            (".schema", "ServeDeploySchema"),
            (".schema", "ServeInstanceDetails"),
            (".schema", "TaskProcessorConfig"),
            (".llm", "build_openai_app"),
            (".task_consumer", "task_consumer"),
        )
    ),
    ("fastapi", "from ray.serve.llm import LLMConfig", "fastapi", "serve"),
    (
        "yaml",
        "import sys; sys.argv[1:] = ['deploy', '{tmp}/a']; from heliostat.serve.scripts import cli; cli()",
        "pyyaml",
        "serve",
    ),
]


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs a program where a package is missing; what it wrote."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "sitecustomize.py").write_text(BLOCKER)
    files = folder / "files"
    files.mkdir()
    for name in ("a", "a.png", "a.avro", "a.snappy"):
        (files / name).write_bytes(b"Obj\x01 of no meaning")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        [sys.executable, "-c", FORKING],
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "BLOCKED": ""},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def run(blocked: str, program: str) -> str:
        output = folder / "output"
        output.unlink(missing_ok=True)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps([blocked, program.format(tmp=files), str(output)]) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        said = output.read_text()
        assert code != 0, said
        return said

    yield run
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)  # with a program that hangs
    server.communicate()


@pytest.mark.parametrize(
    ("blocked", "program", "package", "extra"), CASES, ids=[f"{c[0]}: {c[1]}" for c in CASES]
)
def test_the_sentence_names_the_package_and_the_extra(
    without: Any, blocked: str, program: str, package: str, extra: str
) -> None:
    said = without(blocked, program)
    assert re.search(r"(ImportError|RuntimeError)[^\n]*: ", said), said
    assert f"the package {package} is needed" in said
    assert f"`pip install 'heliostat[{extra}]'`" in said


def test_every_extra_that_an_error_names_brings_the_package() -> None:
    from heliostat.core.platform import extras

    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = {
        extra: {re.split(r"[<>=\[]", needed)[0].lower() for needed in needs}
        for extra, needs in declared.items()
    }
    brought_along = {"pydantic", "starlette"}  # by FastAPI
    for package, extra in extras._PACKAGES.values():
        bare = package.partition("[")[0].lower()
        assert bare in named[extra] | brought_along, f"{extra} does not bring {package}"
