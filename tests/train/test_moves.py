"""Nodes that join, and nodes that will be taken away: the run hears of it and is formed anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import train
from ray.cluster_utils import Cluster, ClusterNode
from ray.train import (
    Checkpoint,
    FailureConfig,
    PreemptionError,
    RunConfig,
    ScalingConfig,
    UserCallback,
)
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from tests.helpers.harness import wait_until

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("nodes are drained by the command heliostat"),
]


HELIOSTAT = str(Path(sys.executable).with_name("heliostat"))
WHY = "its machine is wanted elsewhere"


@pytest.fixture
def nodes(ray_down: None) -> Iterator[Cluster]:
    """A cluster whose head has no room for workers."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def drain(cluster: Cluster, node: ClusterNode, *options: str) -> None:
    """Have a node taken away; options of the command."""
    if "--cancel" not in options:
        options = ("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", WHY, *options)
    command = [HELIOSTAT, "drain-node", "--address", cluster.address, "--node-id", node.node_id]
    subprocess.run([*command, *options], check=True, capture_output=True)


def within(seconds: int) -> str:
    """The option that gives a node so long."""
    return f"--deadline-remaining-seconds={seconds}"


def history() -> list[Any]:
    """What the run has saved."""
    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        return []
    with checkpoint.as_directory() as folder:
        found: list[Any] = json.loads(Path(folder, "history").read_text())
        return found


def save(rows: list[Any]) -> None:
    """Report a checkpoint with them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "history").write_text(json.dumps(rows))
        train.report({"step": len(rows)}, checkpoint=Checkpoint.from_directory(folder))


def places() -> list[list[Any]]:
    """The node and process of every rank."""
    from ray.train.collective import broadcast_from_rank_zero

    context = train.get_context()
    here = (ray.get_runtime_context().get_node_id(), os.getpid())
    folder = Path(broadcast_from_rank_zero(tempfile.mkdtemp()))
    (folder / str(context.get_world_rank())).write_text(json.dumps(here))
    train.collective.barrier()
    ranks = range(context.get_world_size())
    found = [json.loads((folder / str(rank)).read_text()) for rank in ranks]
    train.collective.barrier()
    return found


def loop(config: dict[str, Any]) -> list[Any]:
    """Steps, until ``config["done"]`` is there; saves always, never, or when it is asked for.

    Returns for each attempt how many steps it made, and where its ranks were.
    """
    from ray.train.collective import broadcast_from_rank_zero

    told = Path(config["told"])
    attempts = history()
    attempts.append([0, places()])
    for _ in range(2000):
        attempts[-1][0] += 1
        info = train.get_preemption_info()
        if train.get_context().get_world_rank() == 0:
            text = json.dumps([len(attempts), attempts[-1], info and info.preempted_ranks])
            told.with_suffix(".new").write_text(text)
            told.with_suffix(".new").rename(told)
        if config["saves"] == "always" or (config["saves"] == "asked" and info is not None):
            save(attempts)
        # One rank looks for all: the others could look before or behind the moment in which it comes.
        if broadcast_from_rank_zero(Path(config["done"]).exists()):
            break
        time.sleep(0.01)
    save(attempts)
    return attempts


class Run:
    """``fit()`` in a thread."""

    def __init__(
        self,
        folder: Path,
        workers: Any,
        *,
        always: bool = False,
        never: bool = False,
        trainer: Any = None,
        **failures: Any,
    ) -> None:
        self.folder = folder
        self.told, self.done = folder / "told", folder / "done"
        config = {"told": str(self.told), "done": str(self.done)}
        config["saves"] = "always" if always else "never" if never else "asked"
        self._trainer = trainer or DataParallelTrainer(
            loop,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(
                name="run", storage_path=str(folder), failure_config=FailureConfig(**failures)
            ),
        )
        # What the run has said.
        self.notes = ""
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._fit)

    def start(self) -> Run:
        """Begin to train."""
        self._thread.start()
        return self

    def _fit(self) -> None:
        try:
            self.result = self._trainer.fit()
        except BaseException as error:
            self.error = error

    def now(self) -> list[Any] | None:
        """Attempt, steps and places of it, and who has to move; None before the first step."""
        try:
            found: list[Any] = json.loads(self.told.read_text())
        except (OSError, ValueError):
            return None
        return found

    def wait(self, attempt: int, size: int) -> list[str]:
        """Wait until the attempt of that number trains with so many ranks; returns their nodes."""

        def is_there() -> list[Any] | None:
            if self.error is not None:
                raise self.error
            now = self.now()
            return now if now and now[0] >= attempt and len(now[1][1]) == size else None

        found = wait_until(is_there, what=f"attempt {attempt} with {size} ranks")
        return [node for node, _ in found[1][1]]

    def end(self) -> list[Any]:
        """Have the loop end; returns what it has returned."""
        self.done.touch()
        self._thread.join()
        if self.error is not None:
            raise self.error
        attempts: list[Any] = self.result.return_value
        return attempts

    @property
    def page(self) -> str:
        """The page of the run."""
        return (self.folder / "run" / "run.html").read_text()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    """``start(workers, always=False, **FailureConfig options)``; ends with the test."""
    from heliostat.train.controller.run import TrainRun

    runs: list[Run] = []
    note = TrainRun._note

    def kept(run: TrainRun, text: str) -> None:
        runs[-1].notes += text + "\n"
        note(run, text)

    monkeypatch.setattr(TrainRun, "_note", kept)

    def start(workers: Any, **options: Any) -> Run:
        runs.append(Run(tmp_path, workers, **options))
        return runs[-1].start()

    yield start
    for run in runs:
        run.done.touch()
        run._thread.join()


@pytest.mark.contract("F9.24")
def test_a_group_grows_when_a_node_joins_and_keeps_its_processes(
    nodes: Cluster, start: Callable[..., Run]
) -> None:
    """By the default settings, which once meant a look every 60 s."""
    nodes.add_node(num_cpus=2)
    run = start((1, 3), always=True)
    run.wait(1, 2)
    nodes.add_node(num_cpus=1)
    run.wait(2, 3)
    attempts = run.end()
    assert [len(places) for _, places in attempts] == [2, 3]
    assert attempts[1][1][:2] == attempts[0][1], "the ranks that were there keep their processes"
    assert "there is room for more workers: the group grows after its next" in run.page


@pytest.mark.contract("F9.23")
def test_a_group_moves_off_a_drained_node_with_all_that_it_has_computed(
    nodes: Cluster, start: Callable[..., Run]
) -> None:
    """It saves only when it is told. The number of workers is fixed, and no failure is allowed."""
    first = nodes.add_node(num_cpus=1)
    nodes.add_node(num_cpus=1)
    run = start(2, max_preemption_failures=0)
    before = run.wait(1, 2)
    spare = nodes.add_node(num_cpus=1)
    drain(nodes, first, within(120))
    after = run.wait(2, 2)
    attempts = run.end()
    assert first.node_id in before
    assert spare.node_id in after
    assert first.node_id not in after
    stays = 1 - before.index(first.node_id)
    assert attempts[1][1][stays] == attempts[0][1][stays], "who is not concerned keeps its process"
    assert len(attempts) == 2
    page = run.page
    assert WHY in page
    assert "moves to other nodes, from the checkpoint just saved" in page


@pytest.mark.contract("F9.23")
def test_an_elastic_group_without_room_elsewhere_goes_on_smaller(
    nodes: Cluster, start: Callable[..., Run]
) -> None:
    """Two of three nodes are drained at once; the drained node leaves when its rank has."""
    leaving = [nodes.add_node(num_cpus=1) for _ in range(2)]
    stays = nodes.add_node(num_cpus=1)
    run = start((1, 3), max_preemption_failures=0)
    run.wait(1, 3)
    for node in leaving:
        drain(nodes, node, within(120))
    assert run.wait(2, 1) == [stays.node_id]
    wait_until(lambda: not any(node.is_alive() for node in leaving), what="the nodes that leave")
    attempts = run.end()
    assert all(len(places) in (1, 2, 3) for _, places in attempts)
    assert "there is no room elsewhere for" in run.page


@pytest.mark.contract("F9.23")
def test_a_drain_that_is_taken_back_moves_nobody(nodes: Cluster, start: Callable[..., Run]) -> None:
    node = nodes.add_node(num_cpus=1)
    run = start(1, always=True)
    run.wait(1, 1)
    drain(nodes, node, within(3600))
    wait_until(lambda: "will be taken away" in run.notes, what="the news")
    drain(nodes, node, "--cancel")
    wait_until(lambda: "stays after all" in run.notes, what="the news that it stays")
    nodes.add_node(num_cpus=1)
    steps = run.now()[1][0]
    wait_until(lambda: run.now()[1][0] > steps + 5, what="more steps")
    attempts = run.end()
    assert len(attempts) == 1


@pytest.mark.contract("F9.23")
def test_a_machine_that_is_told_to_end_has_its_grace(
    nodes: Cluster, start: Callable[..., Run]
) -> None:
    """SIGTERM to the daemon, as a spot machine's system sends it; the daemon ends when nothing runs there."""
    spot = nodes.add_node(num_cpus=1, env_vars={"HELIOSTAT_PREEMPTION_GRACE_S": "160"})
    run = start(1, max_preemption_failures=0)
    assert run.wait(1, 1) == [spot.node_id]
    stays = nodes.add_node(num_cpus=1)
    os.kill(spot.pid, signal.SIGTERM)
    assert run.wait(2, 1) == [stays.node_id]
    wait_until(lambda: not spot.is_alive(), what="the daemon that was told to end")
    assert len(run.end()) == 2
    assert "SIGTERM, HELIOSTAT_PREEMPTION_GRACE_S" in run.notes


@pytest.mark.contract("F9.23")
def test_a_drained_node_that_dies_before_its_time_is_no_failure_of_a_worker(
    nodes: Cluster, start: Callable[..., Run]
) -> None:
    """No failure is allowed, and one node may be lost that was announced."""
    leaves = nodes.add_node(num_cpus=1)
    nodes.add_node(num_cpus=1)
    run = start((1, 2), never=True, max_preemption_failures=1)
    run.wait(1, 2)
    drain(nodes, leaves, within(3600))
    wait_until(lambda: "will be taken away" in run.notes, what="the news")
    nodes.remove_node(leaves, allow_graceful=False)
    wait_until(lambda: run.now()[1][1] and len(run.now()[1][1]) == 1, what="a smaller group")
    run.end()
    assert "node taken away, number 1, FailureConfig(max_preemption_failures=1)" in run.page


@pytest.mark.contract("F9.23")
@pytest.mark.parametrize("limit", [0, -1])
def test_a_run_that_does_not_save_in_time_goes_on_from_before_or_ends(
    nodes: Cluster, start: Callable[..., Run], limit: int
) -> None:
    leaves = nodes.add_node(num_cpus=1)
    run = start(1, never=True, max_preemption_failures=limit)
    run.wait(1, 1)
    stays = nodes.add_node(num_cpus=1)
    drain(nodes, leaves, within(4))
    if limit == 0:
        with pytest.raises(PreemptionError) as caught:
            wait_until(lambda: run.error is not None, what="the end of the run")
            run.end()
        assert caught.value.drain_timed_out
        assert caught.value.preemption_info.preempted_node_to_ranks == {leaves.node_id: [0]}
        assert caught.value.preemption_info.deadline_ms is not None
        return
    wait_until(lambda: run.now()[1][1][0][0] == stays.node_id, what="steps on the other node")
    assert len(run.end()) == 1, "it has begun anew"
    assert "no checkpoint has come within the time that the node had left" in run.notes


def loop_whose_rank_1_does_not_come(config: dict[str, Any]) -> list[Any]:
    """Rank 0 saves when a node is to go, and rank 1, which goes with it, does not come to the report."""
    stuck = Path(config["stuck"])
    if stuck.exists():
        return history()
    rank = train.get_context().get_world_rank()
    place = Path(config["folder"], f"of-{rank}")
    place.with_suffix(".new").write_text(ray.get_runtime_context().get_node_id())
    place.with_suffix(".new").rename(place)
    while (info := train.get_preemption_info()) is None:
        time.sleep(0.02)
    if rank == 1:
        stuck.touch()
        time.sleep(1000)
    while config["is_late"] and time.time() < info.deadline_ms / 1000 + 1:
        time.sleep(0.02)
    save(["by rank 0 alone"])
    raise AssertionError("the attempt ends behind the checkpoint")


@pytest.mark.contract("F9.23")
@pytest.mark.parametrize(
    ("relaxes", "is_late", "grace_s", "is_saved"),
    [
        (False, False, 0.0, False),
        (True, False, 0.0, True),
        (True, True, 0.0, False),
        (True, True, 600.0, True),
    ],
)
def test_who_is_left_can_save_without_the_ranks_of_a_node_that_has_gone(
    nodes: Cluster,
    start: Callable[..., Run],
    tmp_path: Path,
    relaxes: bool,
    is_late: bool,
    grace_s: float,
    is_saved: bool,
) -> None:
    """Within the node's time, or, where a grace is given, behind it."""
    stays, leaves = nodes.add_node(num_cpus=1), nodes.add_node(num_cpus=1)
    stuck = tmp_path / "stuck"
    trainer = DataParallelTrainer(
        loop_whose_rank_1_does_not_come,
        train_loop_config={"stuck": str(stuck), "folder": str(tmp_path), "is_late": is_late},
        scaling_config=ScalingConfig(num_workers=(1, 2)),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path),
            failure_config=FailureConfig(
                relax_collectives_on_preemption=relaxes, preemption_grace_s=grace_s
            ),
        ),
    )
    run = start((1, 2), trainer=trainer)
    of_rank_1 = tmp_path / "of-1"
    wait_until(of_rank_1.exists, what="two workers that train")
    goes = next(node for node in (stays, leaves) if node.node_id == of_rank_1.read_text())
    drain(nodes, goes, within(20 if is_late else 3600))
    wait_until(stuck.exists, what="rank 1, which does not come")
    nodes.remove_node(goes, allow_graceful=False)
    assert run.end() == (["by rank 0 alone"] if is_saved else [])
    if is_saved or not relaxes:
        assert ("nobody waits for them" in run.notes) == relaxes


@pytest.mark.contract("F9.24")
@pytest.mark.parametrize(
    "dies", ["while it starts", "when it is ready", "before the group begins", "when it begins"]
)
def test_a_node_that_dies_while_it_joins_costs_nothing(
    nodes: Cluster, start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """No failure is allowed; the next node that joins is taken."""
    from heliostat.train.controller.launch import Launcher
    from heliostat.train.group.recruits import Recruits

    nodes.add_node(num_cpus=1)
    run = start((1, 2), always=True)
    run.wait(1, 1)
    owner, name = {
        "while it starts": (Recruits, "_is_placed"),
        "when it is ready": (Recruits, "adopt"),
        "before the group begins": (Launcher, "prepare"),
        "when it begins": (Launcher, "run"),
    }[dies]
    before: Any = getattr(owner, name)
    joining: list[ClusterNode] = []
    # The run may hear of the node before the test does.
    is_joining = threading.Lock()

    def late(*args: Any) -> Any:
        with is_joining:
            dies_now = bool(joining)
        if dies_now:
            nodes.remove_node(joining.pop(), allow_graceful=False)
            if name == "prepare":  # as a backend does that prepares its workers
                args[0]._group.execute(os.getpid)
        return before(*args)

    monkeypatch.setattr(owner, name, late)
    with is_joining:
        joining.append(nodes.add_node(num_cpus=1))
    wait_until(lambda: not joining, what="the death of the node")
    wait_until(lambda: "died while" in run.notes, what="the news")
    nodes.add_node(num_cpus=1)
    wait_until(lambda: len(run.now()[1][1]) == 2, what="the next node")
    run.end()


@pytest.mark.contract("F9.24")
def test_a_group_of_another_size_is_told_so(nodes: Cluster, tmp_path: Path) -> None:
    """Workers by the number of those that had saved, the driver by that of the attempt before."""

    class Sizes(UserCallback):
        def __init__(self) -> None:
            self.seen: list[tuple[int, int]] = []

        def on_world_size_change(self, run_context: Any, before: int, now: int) -> None:
            self.seen.append((before, now))

    def growing(config: dict[str, Any]) -> list[Any]:
        seen: list[Any] = history()
        train.on_world_size_change(lambda before, now: seen.append([before, now]))
        size = train.get_context().get_world_size()
        for step in range(3000):
            (tmp_path / str(size)).touch()
            if step or size == 1:
                save(seen)
            if size == 3:
                break
            time.sleep(0.01)
        return seen

    sizes = Sizes()

    def join() -> None:
        for size in (1, 2):
            wait_until((tmp_path / str(size)).exists, what=f"{size} workers")
            nodes.add_node(num_cpus=1)

    nodes.add_node(num_cpus=1)
    thread = threading.Thread(target=join)
    thread.start()
    result = DataParallelTrainer(
        growing,
        train_loop_config={},
        scaling_config=ScalingConfig(num_workers=(1, 3)),
        run_config=RunConfig(name="run", storage_path=str(tmp_path), callbacks=[sizes]),
    ).fit()
    thread.join()
    assert result.return_value == [[1, 2], [2, 3]]
    assert sizes.seen == [(1, 2), (2, 3)]
    with pytest.raises(RuntimeError, match="outside"):
        train.on_world_size_change(print)


@pytest.fixture
def leaves(cluster_with_torch: Cluster) -> Iterator[ClusterNode]:
    """One of two nodes with a CPU each; it is gone behind the test."""
    cluster = cluster_with_torch
    while len(cluster.worker_nodes) < 2:
        cluster.add_node(num_cpus=1)
    node = next(iter(cluster.worker_nodes))
    yield node
    cluster.remove_node(node)


def sharded_loop(config: dict[str, Any]) -> tuple[int, str]:
    """Reports nothing: what is saved, it is asked for. Notes each step that each rank takes."""
    import torch
    from ray.train.torch import resumable

    context = train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    model = torch.nn.Linear(1, 1)
    run = resumable(model=model)
    told, done = Path(config["told"]), Path(config["done"])
    steps = Path(config["steps"])
    one = torch.ones(1)
    for step in run.steps():
        torch.distributed.all_reduce(one)
        one.fill_(1)
        with torch.no_grad():
            model.weight += 1
        (steps / f"{step}-{rank}-{os.getpid()}").touch()
        if rank == 0:
            text = json.dumps(
                [1, [run.step, [[ray.get_runtime_context().get_node_id(), size]]], None]
            )
            told.with_suffix(".new").write_text(text)
            told.with_suffix(".new").rename(told)
        # One rank decides, and the others hear of it.
        ends = torch.tensor([float(done.exists())])
        torch.distributed.broadcast(ends, 0)
        if ends.item():
            break
        time.sleep(0.01)
    return run.step + 1, run.restored_from


@pytest.mark.contract("F9.23")
@pytest.mark.parametrize("memory", [None, 200])
def test_a_resumable_run_saves_by_itself_and_makes_no_step_twice(
    cluster_with_torch: Cluster,
    leaves: ClusterNode,
    start: Callable[..., Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    memory: int | None,
) -> None:
    """All ranks save behind the same step, in storage and, where copies are kept, in memory."""
    from heliostat.train.memory import keepers
    from ray.train import CheckpointConfig
    from ray.train.torch import TorchTrainer

    class SlowKeeper(keepers.Keeper):
        """Has a part later than storage has its own: the workers may not have gone by then."""

        def keep(self, *args: Any) -> None:
            time.sleep(1)
            super().keep(*args)

    monkeypatch.setattr(keepers, "Keeper", SlowKeeper)
    (tmp_path / "steps").mkdir()
    config = {name: str(tmp_path / name) for name in ("told", "done", "steps")}
    trainer = TorchTrainer(
        sharded_loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path),
            failure_config=FailureConfig(max_preemption_failures=0),
            checkpoint_config=CheckpointConfig(memory_every_n_steps=memory),
        ),
    )
    run = start(2, trainer=trainer)
    run.wait(1, 1)
    wait_until(lambda: run.now()[1][0] > 5, what="some steps")
    cluster_with_torch.add_node(num_cpus=1)
    drain(cluster_with_torch, leaves, within(120))
    wait_until(lambda: not leaves.is_alive(), what="the node that leaves")
    before = run.now()[1][0]
    wait_until(lambda: run.now()[1][0] > before + 5, what="more steps")
    steps, restored_from = run.end()
    assert restored_from == ("storage" if memory is None else "memory")
    made = [path.name.split("-")[:2] for path in (tmp_path / "steps").iterdir()]
    assert sorted(made) == sorted([str(s), r] for s in range(steps) for r in "01")


def replica_loop(config: dict[str, Any]) -> int:
    """Steps of replica groups; notes each that this worker takes."""
    import torch
    from ray.train.torch import fault_tolerant

    model = torch.nn.Linear(1, 1)
    run = fault_tolerant(model=model)
    rank = train.get_context().get_world_rank()
    told = Path(config["told"])
    for step in run.steps(config["count"]):
        model(torch.ones(1, 1)).sum().backward()
        (Path(config["steps"]) / f"{step}-{rank}").touch()
        here = [[ray.get_runtime_context().get_node_id(), run.count]]
        told.with_suffix(f".{rank}").write_text(json.dumps([1, [step, here], None]))
        told.with_suffix(f".{rank}").rename(told)
        if not Path(config["done"]).exists():
            time.sleep(
                0.02
            )  # so that there are steps left for the group that takes the other's place
    return run.step


@pytest.mark.contract("F9.23")
def test_replica_groups_of_a_drained_node_are_replaced_while_the_others_go_on(
    cluster_with_torch: Cluster,
    leaves: ClusterNode,
    start: Callable[..., Run],
    tmp_path: Path,
) -> None:
    """No failure is allowed, nothing is saved, and no step is made twice."""
    from ray.train.torch import FaultTolerantConfig, TorchTrainer

    (tmp_path / "steps").mkdir()
    config = {name: str(tmp_path / name) for name in ("told", "done", "steps")}
    trainer = TorchTrainer(
        replica_loop,
        train_loop_config={**config, "count": 1500},
        torch_config=FaultTolerantConfig(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    )
    run = start(2, trainer=trainer)
    run.wait(1, 1)
    cluster_with_torch.add_node(num_cpus=1)
    drain(cluster_with_torch, leaves, within(3))
    wait_until(lambda: "trains again" in run.notes, what="the replaced group")
    assert run.end() == 1500
    assert "goes with it" in run.notes
    assert "node taken away, number 1" in run.page
    made = {path.name.split("-")[0] for path in (tmp_path / "steps").iterdir()}
    assert made == {str(step) for step in range(1500)}
    assert "attempt 2" not in run.page
