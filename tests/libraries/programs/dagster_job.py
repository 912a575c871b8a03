"""Dagster: a job whose steps its executor submits as jobs of the cluster."""

import os
import sys
import tempfile

# Jobs run the command `dagster`, as it lies in an environment that was activated.
os.environ["PATH"] = f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"

import ray
from dagster import DagsterInstance, execute_job, job, op, reconstructable
from dagster_ray import ray_executor


@op
def one():
    return os.getpid()


@op
def two(before):
    return [before, os.getpid()]


@job(executor_def=ray_executor)
def steps():
    two(one())


if __name__ == "__main__":
    context = ray.init(num_cpus=2, include_dashboard=True)
    options = {"address": f"http://{context.dashboard_url}", "num_cpus": 0.5}
    with (
        DagsterInstance.local_temp(tempfile.mkdtemp()) as instance,
        execute_job(
            reconstructable(steps),
            instance=instance,
            run_config={"execution": {"config": {"ray": options}}},
        ) as result,
    ):
        assert result.success
        first, second = result.output_for_node("two")
        assert len({first, second, os.getpid()}) == 3
    print("cluster=yes")
