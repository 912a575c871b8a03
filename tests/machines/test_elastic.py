"""Machines that come and go under everything that runs at a time."""

from __future__ import annotations

import json

import pytest

from tests.machines.machines import HELIOSTAT, Machine, Machines
from tests.machines.test_draining import drain

pytestmark = [
    pytest.mark.heliostat_only("the machines run the command heliostat"),
]

# Each round of a kind of work leaves a file with its name and with the phase that it began in.
SCRIPT = """
    import os, tempfile, threading, time
    from pathlib import Path
    import ray
    from ray import train
    from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
    from ray.train.collective import broadcast_from_rank_zero
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init()
    FOLDER = Path(os.environ["FOLDER"])
    work = {"num_cpus": 0, "resources": {"work": 1}}

    def phase():
        return (FOLDER / "phase").read_text()

    @ray.remote(max_retries=-1, scheduling_strategy="SPREAD", **work)
    def square(n):
        time.sleep(0.05)
        return n * n

    @ray.remote(max_restarts=-1, max_task_retries=-1, **work)
    class Doubler:
        def double(self, n):
            return 2 * n

    def tasks():
        assert ray.get([square.remote(n) for n in range(24)]) == [n * n for n in range(24)]

    doublers = [Doubler.options(scheduling_strategy="SPREAD").remote() for _ in range(4)]

    def actors():
        assert ray.get([one.double.remote(n) for n, one in enumerate(doublers)]) == [0, 2, 4, 6]

    group = placement_group([{"work": 1}] * 2, strategy="STRICT_SPREAD")
    in_group = [
        Doubler.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
        for index in range(2)
    ]

    def groups():
        assert ray.get([one.double.remote(n) for n, one in enumerate(in_group)]) == [0, 2]

    def datasets():
        rows = ray.data.range(2000, override_num_blocks=8)
        found = rows.map_batches(lambda batch: {"id": batch["id"] * 2}, num_cpus=0.1)
        assert found.sum("id") == 2 * sum(range(2000))

    ray.data.DataContext.get_current().enable_progress_bars = False
    failures = []

    def again_and_again(one):
        while (began := phase()) != "end":
            try:
                one()
            except BaseException as error:
                failures.append(repr(error))
                print(f"{one.__name__} in {began}: {error!r}", flush=True)
                return
            (FOLDER / f"{one.__name__} {began}").touch()
            time.sleep(0.2)

    def loop(config):
        folder, size = Path(config["folder"]), train.get_context().get_world_size()
        step = 0
        checkpoint = train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as saved:
                step = int(Path(saved, "step").read_text())
        while True:
            # All ranks end at the same step.
            ends = broadcast_from_rank_zero((folder / "phase").read_text() == "end")
            step += 1
            saved = None
            with tempfile.TemporaryDirectory() as made:
                if train.get_context().get_world_rank() == 0:
                    Path(made, "step").write_text(str(step))
                    saved = Checkpoint.from_directory(made)
                train.report({"step": step, "size": size}, checkpoint=saved)
            if train.get_context().get_world_rank() == 0:
                (folder / f"{size} workers").touch()
            if ends:
                return
            time.sleep(0.1)

    threads = [
        threading.Thread(target=again_and_again, args=[one])
        for one in (tasks, actors, groups, datasets)
    ]
    for thread in threads:
        thread.start()
    result = DataParallelTrainer(
        loop,
        train_loop_config={"folder": str(FOLDER)},
        scaling_config=ScalingConfig(
            num_workers=(1, 8), resources_per_worker={"CPU": 0, "train": 1}
        ),
        run_config=RunConfig(
            name="elastic",
            storage_path=os.environ["STORAGE"],
            failure_config=FailureConfig(max_failures=-1),
        ),
    ).fit()
    for thread in threads:
        thread.join()
    assert not failures, failures
    print(f"size={result.metrics['size']}")
"""

KINDS = ("tasks", "actors", "groups", "datasets")


@pytest.mark.contract("F4.06", "F5.02", "F5.11", "F9.24")
@pytest.mark.usefixtures("_can_make")
def test_machines_come_and_go_under_all_that_runs() -> None:
    """Two join, one loses its power, one is drained: all goes on, and training with as many as there are."""
    with Machines(4) as (head, first, lost, drained):

        def options(machine: Machine) -> list[str]:
            resources = {f"m{machine.index}": 1, "train": 1, "work": 100}
            return [f"--resources={json.dumps(resources)}", "--num-cpus=2"]

        def enter(phase: str) -> None:
            (folder / "new").write_text(phase)
            (folder / "new").rename(folder / "phase")

        def goes_on(phase: str, workers: int) -> None:
            (folder / f"{workers} workers").unlink(missing_ok=True)
            enter(phase)
            driver.wait_file(folder / f"{workers} workers", within=120)
            for kind in KINDS:
                driver.wait_file(folder / f"{kind} {phase}", within=120)

        head.start_head(*options(head))
        first.join(head, *options(first))
        folder = head.directory / "phases"
        folder.mkdir()
        enter("two")
        storage = head.directory / "storage"
        env = {"FOLDER": str(folder), "STORAGE": str(storage)}
        driver = head.start_script(SCRIPT, env=env)
        goes_on("two", workers=2)
        for machine in (lost, drained):
            machine.join(head, *options(machine))
        goes_on("joined", workers=4)
        lost.power_off()
        goes_on("lost", workers=3)
        nodes = head.run(str(HELIOSTAT), "list", "nodes", "--format=json").stdout
        node_id = next(it["node_id"] for it in json.loads(nodes) if it["node_ip"] == drained.ip)
        drain(head, node_id)
        goes_on("drained", workers=2)
        enter("end")
        done = driver.finish().check()
        assert done.value("size") == "2"
        said = done.output
        # After a loss it may have begun with fewer, until the others were seen to be free.
        for change in ("has 4 workers, and had 2", ", and had 4", "has 2 workers, and had 3"):
            assert change in said, said
        assert f"node {drained.ip} will be taken away" in said, said
