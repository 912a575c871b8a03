"""Training over several machines, without a setting of the user's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.helpers import harness
from tests.machines.machines import HELIOSTAT, Machine

GROUP = """
    import os
    import ray

    @ray.remote(num_cpus=0)
    class Rank:
        def address(self):
            import socket
            with socket.socket() as probe:
                probe.bind(("", 0))
                return ray.util.get_node_ip_address(), probe.getsockname()[1]

        def run(self, rank, size, address, port):
            import socket
            import torch
            import torch.distributed as dist
            try:
                socket.gethostbyname(socket.gethostname())
                resolves = True
            except OSError:
                resolves = False
            method = f"tcp://{address}:{port}"
            dist.init_process_group("gloo", init_method=method, rank=rank, world_size=size)
            one = torch.full((1000,), float(rank + 1))
            dist.all_reduce(one)
            dist.destroy_process_group()
            names = {n: os.environ.get(n) for n in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")}
            return float(one.sum()), resolves, names

    ray.init()
    ranks = [Rank.options(resources={f"m{i % 2}": 1}).remote() for i in range(4)]
    address, port = ray.get(ranks[0].address.remote())
    print(f"address={address}")
    found = ray.get([r.run.remote(i, 4, address, port) for i, r in enumerate(ranks)])
    print(f"sums={[sum for sum, _, _ in found]}")
    print(f"resolves={any(resolves for _, resolves, _ in found)}")
    print(f"names={found[1][2]}")
"""


@pytest.mark.contract("F4.05", "F4.06")
@pytest.mark.heliostat_only("Ray leaves the interface to the user")
def test_ranks_of_two_machines_meet(make_machines: Callable[[int], list[Machine]]) -> None:
    """The machines' names do not resolve: gloo finds its interface by the address of the node."""
    head, _ = make_machines(2)
    done = head.start_script(GROUP).finish().check()
    assert done.value("resolves") == "False"
    assert done.value("sums") == str([10_000.0] * 4)
    assert done.value("address") == head.ip
    names = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}
    assert done.value("names") == str(names)


DRILL = """
    import json, os, tempfile, time
    from pathlib import Path
    import ray
    from ray import train
    from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    STEPS = 60

    def loop(config):
        import torch
        import torch.distributed as dist

        context = train.get_context()
        step = 0
        checkpoint = train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                step = json.loads(Path(folder, "step").read_text())
        begun = step
        while step < STEPS:
            total = torch.ones(1)
            dist.all_reduce(total)
            size = context.get_world_size()
            assert total.item() == size
            step += 1
            # The last steps are taken after the loss, whenever it comes.
            stays = step == STEPS // 2 and size == 4
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "step").write_text(json.dumps(step))
                saved = Checkpoint.from_directory(folder) if context.get_world_rank() == 0 else None
                metrics = {"step": step, "size": size, "begun": begun}
                train.report(metrics, checkpoint=saved)
            if stays:
                if context.get_world_rank() == 0:
                    Path(config["halfway"]).touch()
                while True:
                    dist.all_reduce(total)

    trainer = TorchTrainer(
        loop,
        train_loop_config={"halfway": os.environ["HALFWAY"]},
        scaling_config=ScalingConfig(num_workers=(2, 4), resources_per_worker={"CPU": 1}),
        run_config=RunConfig(
            name="drill",
            storage_path=os.environ["STORAGE"],
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    result = trainer.fit()
    print(f"metrics={json.dumps(result.metrics)}")
"""


@pytest.mark.contract("F5.02", "F9.24")
@pytest.mark.heliostat_only("Ray needs GLOO_SOCKET_IFNAME here")
def test_training_goes_on_when_a_machine_loses_its_power(
    make_machines: Callable[[int], list[Machine]],
) -> None:
    """Two machines, four workers: the run goes on from its last report with the two that are left."""
    head, other = make_machines(2)
    halfway, storage = head.directory / "halfway", head.directory / "storage"
    env = {"HALFWAY": str(halfway), "STORAGE": str(storage)}
    driver = head.start_script(DRILL, env=env)
    driver.wait_file(halfway)
    other.power_off()
    metrics = json.loads(driver.finish().check().value("metrics"))
    assert metrics == {"step": 60, "size": 2, "begun": 30}


SAVES_WHEN_ASKED = """
    import json, os, tempfile, time
    from pathlib import Path
    import ray
    from ray import train
    from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def loop(config):
        made, nodes = 0, []
        checkpoint = train.get_checkpoint()
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                made, nodes = json.loads(Path(folder, "state").read_text())
        nodes.append(ray.util.get_node_ip_address())
        while not (len(nodes) > 1 and Path(config["done"]).exists()):
            made += 1
            is_asked = train.get_preemption_info() is not None
            if is_asked:
                with tempfile.TemporaryDirectory() as folder:
                    Path(folder, "state").write_text(json.dumps([made, nodes]))
                    train.report({}, checkpoint=Checkpoint.from_directory(folder))
            if made == 20:
                Path(config["halfway"]).touch()
            if len(nodes) > 1:
                Path(config["moved"]).touch()
            time.sleep(0.05)
        return made, nodes

    result = DataParallelTrainer(
        loop,
        train_loop_config={n: os.environ[n.upper()] for n in ("halfway", "moved", "done")},
        scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 2}),
        run_config=RunConfig(
            name="spot",
            storage_path=os.environ["STORAGE"],
            failure_config=FailureConfig(max_preemption_failures=0),
        ),
    ).fit()
    print(f"moved={json.dumps(result.return_value)}")
"""


@pytest.mark.contract("F5.11", "F9.23")
@pytest.mark.heliostat_only("Ray's daemon ends at once")
def test_training_leaves_a_machine_whose_daemon_is_told_to_end(
    make_machines: Callable[..., list[Machine]],
) -> None:
    """The machine goes once the run has left it, and no step is lost, though no failure is allowed."""
    head, spot, stays = make_machines(3, "--num-cpus=0")
    for machine in (spot, stays):
        machine.run(str(HELIOSTAT), "stop", "--force")
    grace = {"HELIOSTAT_PREEMPTION_GRACE_S": "140"}
    spot.join(head, "--num-cpus=2", env=grace)
    paths = {
        name: head.directory / name.lower() for name in ("HALFWAY", "MOVED", "DONE", "STORAGE")
    }
    env = {name: str(path) for name, path in paths.items()}
    driver = head.start_script(SAVES_WHEN_ASKED, env=env)
    driver.wait_file(paths["HALFWAY"])
    stays.join(head, "--num-cpus=2", env=grace)
    daemon = next(line for line in spot.processes() if "heliostat" in line and " node " in line)
    spot.run("kill", "-TERM", daemon.split()[0])
    driver.wait_file(paths["MOVED"])
    harness.wait_until(
        lambda: not any("heliostat" in line and " node " in line for line in spot.processes()),
        what="the end of the daemon",
    )
    paths["DONE"].touch()
    made, nodes = json.loads(driver.finish().check().value("moved"))
    assert nodes == [spot.ip, stays.ip]
    assert made > 20
