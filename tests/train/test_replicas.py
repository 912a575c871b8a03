"""Replica groups: workers that die, whatever their rank, and training that goes on within the step."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import ControllerError, FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchTrainer

from tests.helpers.harness import once

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.replica")

from heliostat.train.torch import FaultTolerantConfig

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray needs torchft"),
]

Train = Callable[..., Any]


@pytest.fixture
def replicas(ray_start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """``replicas(loop, workers=4, config={...}, failures=-1, **FaultTolerantConfig options)``.

    ``memory_every`` is that of ``CheckpointConfig``.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def replicas(
        loop: Callable[..., Any],
        workers: int = 4,
        *,
        config: dict[str, Any] | None = None,
        failures: int = -1,
        memory_every: int | None = None,
        **options: Any,
    ) -> Any:
        return TorchTrainer(
            loop,
            train_loop_config={"folder": str(tmp_path), "workers": workers, **(config or {})},
            torch_config=FaultTolerantConfig(**options),
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(
                name="run",
                storage_path=str(tmp_path),
                failure_config=FailureConfig(max_failures=failures),
                checkpoint_config=train.CheckpointConfig(memory_every_n_steps=memory_every),
            ),
        ).fit()

    return replicas


def die_together(run: Any, folder: str) -> None:
    """Die with everybody else, once the state of the last step is in peers' memory."""
    shard = train.get_context().get_world_rank() % torch_world_size()
    if run.index == 0:  # this group hands it over
        run._giver.wait()
        run._giver._sender.wait()
        Path(folder, f"kept{shard}").touch()
    while not all(Path(folder, f"kept{s}").exists() for s in range(torch_world_size())):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


def torch_world_size() -> int:
    """Workers of a replica group."""
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_initialized() else 1


def model_of_batches() -> Any:
    """A model, an optimizer and a scheduler."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9)


def data_of_batches(samples: int) -> Any:
    """Numbered samples."""
    import torch

    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(1))
    return torch.arange(samples), x, x.sum(1, keepdim=True)


def loop_of_batches(config: dict[str, Any]) -> list[float]:
    """Trains on numbered samples; writes down which of them were counted in which step.

    ``kills`` has (rank, step) of those who die between the average and the optimizer's step, ``early``
    of those who die before they have computed anything: in that step or later, when all are there.
    ``all_die`` is the step that all die in.
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    rank, folder = train.get_context().get_world_rank(), config["folder"]
    torch.manual_seed(rank)  # the state of the first group becomes that of all
    model, optimizer, scheduler = model_of_batches()
    run = train.torch.fault_tolerant(model=model, optimizer=optimizer, scheduler=scheduler)
    loader = DataLoader(
        TensorDataset(*data_of_batches(config.get("samples", 320))),
        batch_size=8,
        shuffle=True,
        generator=torch.Generator().manual_seed(5),
        num_workers=config.get("loaders", 0),
    )

    def dies(kind: str) -> None:
        for victim, step in config.get(kind, []):
            is_due = rank == victim and run.step >= step and run.count == config["workers"]
            if is_due and once(folder, f"{kind}{rank}"):
                os.kill(os.getpid(), signal.SIGKILL)

    with Path(folder, f"seen{rank}").open("a", buffering=1) as seen:
        for number, x, y in run.batches(loader, epochs=2, keep_batch=config.get("keeps", True)):
            dies("early")
            if run.step == config.get("all_die") and once(folder, f"all{rank}"):
                die_together(run, folder)
            time.sleep(config.get("step_s", 0))  # what a step takes
            if run.step == 0:
                start = [p.detach().tolist() for p in model.parameters()]
                Path(folder, "start").write_text(json.dumps(start))
            loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            seen.write(json.dumps([run.epoch, run.step, run.count, number.tolist()]) + "\n")
            dies("kills")
            optimizer.step()
            scheduler.step()
            train.report({"step": run.step, "loss": loss.item()})
    weights = [p.detach().double().sum().item() for p in model.parameters()]
    Path(folder, f"weights{rank}").write_text(json.dumps(weights))
    return weights


def judge(folder: Path, workers: int, samples: int = 320, epochs: int = 2) -> list[list[Any]]:
    """Every rank ends with the weights that one process gets from the same samples, each counted once.

    Returns the lines of all ranks, by step.
    """
    import torch

    lines = [
        json.loads(line)
        for rank in range(workers)
        for line in (folder / f"seen{rank}").read_text().splitlines()
    ]
    for epoch in range(epochs):
        counted = Counter(number for e, _, _, numbers in lines if e == epoch for number in numbers)
        assert counted == Counter(range(samples))
    steps = sorted({step for _, step, _, _ in lines})
    assert steps == list(range(len(steps)))
    model, optimizer, scheduler = model_of_batches()
    with torch.no_grad():
        start = json.loads((folder / "start").read_text())
        for parameter, values in zip(model.parameters(), start, strict=True):
            parameter.copy_(torch.tensor(values))
    _, x, y = data_of_batches(samples)
    for step in steps:
        chosen = [number for _, s, _, numbers in lines if s == step for number in numbers]
        optimizer.zero_grad()
        (model(x[chosen]) - y[chosen]).square().mean().backward()
        optimizer.step()
        scheduler.step()
    wanted = [p.detach().double().sum().item() for p in model.parameters()]
    for rank in range(workers):
        found = json.loads((folder / f"weights{rank}").read_text())
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)
    return lines


def test_all_groups_train_the_same_model(replicas: Train, tmp_path: Path) -> None:
    result = replicas(loop_of_batches, 3)
    judge(tmp_path, 3)
    assert result.metrics["loss"] < 1


@pytest.mark.parametrize("victim", [0, 1, 3])
@pytest.mark.parametrize("moment", ["kills", "early"])
def test_no_step_is_lost_whoever_dies(
    replicas: Train, tmp_path: Path, victim: int, moment: str
) -> None:
    """TRAIN-QUORUM-1, TRAIN-SAMPLES-1: also rank 0, before and after its gradients have counted."""
    result = replicas(loop_of_batches, 4, config={moment: [[victim, 4]]})
    lines = judge(tmp_path, 4)
    assert result.metrics["step"] == max(step for _, step, _, _ in lines)


def test_a_replaced_group_is_in_again_while_the_others_train(
    replicas: Train, tmp_path: Path
) -> None:
    def loop(config: dict[str, Any]) -> list[int]:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        rank = train.get_context().get_world_rank()
        counts: list[int] = []
        for step in run.steps():  # all ranks leave it after the same step: they see the same counts
            if rank == 0 and step == 3 and once(config["folder"], "killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            model.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            counts.append(run.count)
            if step > 3 and run.count == 3:
                break
        assert model.weight.grad is not None
        assert model.weight.grad[0].tolist() == [2.0] * 4
        return counts

    counts = replicas(loop, 3).return_value
    assert counts[-1] == 3


def test_loader_processes_read_ahead_of_a_plan_that_changes(
    replicas: Train, tmp_path: Path
) -> None:
    replicas(loop_of_batches, 3, config={"early": [[1, 2]], "loaders": 1, "keeps": False})
    judge(tmp_path, 3)


def test_several_deaths_one_after_the_other(replicas: Train, tmp_path: Path) -> None:
    config = {"kills": [[1, 2], [0, 3]], "early": [[2, 4]], "samples": 1600, "step_s": 0.03}
    replicas(loop_of_batches, 4, config=config)
    judge(tmp_path, 4, 1600)


def test_two_die_at_once(replicas: Train, tmp_path: Path) -> None:
    replicas(loop_of_batches, 4, config={"kills": [[0, 5]], "early": [[2, 5]]})
    judge(tmp_path, 4)


def test_losses_count_as_failures(replicas: Train) -> None:
    with pytest.raises(WorkerGroupError, match="killed by signal 9"):
        replicas(loop_of_batches, 3, config={"kills": [[1, 2]]}, failures=0)


def test_an_exception_of_one_rank_is_replaced_as_well(replicas: Train, tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> int:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        rank = train.get_context().get_world_rank()
        assert once(config["folder"], f"begun{rank}") or rank == 1, "the others began anew"
        for step in run.steps(30):
            if rank == 1 and step == 3 and once(config["folder"], "raised"):
                raise ValueError("once")
            model(torch.ones(2, 4)).sum().backward()
        return run.step

    assert replicas(loop, 3, failures=1).return_value == 30


def test_without_a_living_group_the_run_restarts(replicas: Train, tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> int:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        first = once(config["folder"], f"begun{train.get_context().get_world_rank()}")
        for step in run.steps(10):
            if step == 3 and first:
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.ones(2, 4)).sum().backward()
        return run.step

    assert replicas(loop, 2).return_value == 10


def test_a_process_that_is_busy_with_what_has_ended_is_not_used_again(
    replicas: Train, tmp_path: Path
) -> None:
    """It was free when its group was replaced, and cannot be woken when the others are lost, too."""

    def loop(config: dict[str, Any]) -> int:
        import ctypes

        import torch

        folder, rank = config["folder"], train.get_context().get_world_rank()
        begun = 1 if once(folder, f"first{rank}") else 2 if once(folder, f"second{rank}") else 3
        if rank == 0 and begun == 2:
            Path(folder, "asleep").touch()
            lock = ctypes.create_string_buffer(64)  # a mutex, which no signal ends
            for _ in range(2):
                ctypes.CDLL(None).pthread_mutex_lock(lock)
        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        for step in run.steps(10):
            if rank == 0 and begun == 1 and step == 3:
                raise ValueError("once")
            if rank == 1 and begun == 1 and step == 9:
                while not Path(folder, "asleep").exists():
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.ones(2, 4)).sum().backward()
        return run.step

    assert replicas(loop, 2).return_value == 10


def test_gradients_may_be_added_up_before_a_step(replicas: Train) -> None:
    def loop(config: dict[str, Any]) -> list[float]:
        import torch

        rank = train.get_context().get_world_rank()
        model = torch.nn.Linear(1, 1, bias=False)
        unused = torch.nn.Linear(1, 1)
        run = train.torch.fault_tolerant(model=model, unused=unused)
        for _ in run.steps(1):
            with run.no_sync():
                (model(torch.ones(1, 1)) * (rank + 1)).sum().backward()
            (model(torch.ones(1, 1)) * 10).sum().backward()
        assert unused.weight.grad is None
        assert model.weight.grad is not None
        return [model.weight.grad.item()]

    assert replicas(loop, 2).return_value == [11.5]


def sharded_loop(config: dict[str, Any]) -> list[float]:
    """FSDP2 over each group, averaged over the groups."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank = train.get_context().get_world_rank()
    with Path(config["folder"], f"begun{rank}").open("a") as begun:
        begun.write("x")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    run = train.torch.fault_tolerant(model=model, optimizer=optimizer)
    for step in run.steps(25):
        # Both groups see the same samples: the average does not depend on who is there.
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(2 * step + rank % 2))
        if [rank, step] in config.get("kills", []) and once(config["folder"], f"k{rank}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if step == config.get("all_die") and once(config["folder"], f"all{rank}"):
            die_together(run, config["folder"])
        if config.get("all_die"):
            with Path(config["folder"], f"steps{rank}").open("a") as made:
                made.write(f"{step} ")
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        train.report({"step": step})
    return [p.full_tensor().double().sum().item() for p in model.parameters()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("victims", [[[3, 4]], [[0, 4]], [[1, 3], [2, 12]]])
def test_sharded_models_take_their_shard_from_a_peer(
    replicas: Train, tmp_path: Path, victims: list[list[int]]
) -> None:
    quiet = replicas(sharded_loop, 4, workers_per_replica=2)
    killed = replicas(sharded_loop, 4, workers_per_replica=2, config={"kills": victims})
    assert killed.return_value == pytest.approx(quiet.return_value, rel=1e-4)
    if len(victims) == 1:
        lost = victims[0][0] // 2
        begun = [(tmp_path / f"begun{rank}").read_text().count("x") for rank in range(4)]
        # Once in each run; the worker that was left of the lost group has failed before it was told.
        assert begun == [3 if rank // 2 == lost else 2 for rank in range(4)]


def test_a_rank_that_hangs_as_a_whole_is_replaced(
    replicas: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", "2")
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")

    def loop(config: dict[str, Any]) -> int:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        rank = train.get_context().get_world_rank()
        for step in run.steps(10):
            if rank == 1 and step == 3 and once(config["folder"], "stopped"):
                os.kill(os.getpid(), signal.SIGSTOP)
            model(torch.ones(2, 4)).sum().backward()
        return run.step

    assert replicas(loop, 3).return_value == 10


def test_a_report_of_one_rank_only_does_not_hold_the_others_up(
    replicas: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_TRAIN_SOLO_REPORT_S", "0.5")

    def loop(config: dict[str, Any]) -> int:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        for step in run.steps(6):
            model(torch.ones(2, 4)).sum().backward()
            if train.get_context().get_world_rank() == 0:
                train.report({"step": step})
        return run.step

    result = replicas(loop, 3, failures=0)
    assert result.return_value == 6
    assert result.metrics["step"] == 5


@pytest.mark.contract("F9.09")
def test_when_all_groups_die_the_copy_in_memory_has_state_steps_and_samples(
    replicas: Train, tmp_path: Path
) -> None:
    """Without a checkpoint; no step is made twice, and each sample counts once."""
    replicas(loop_of_batches, 2, config={"all_die": 12}, memory_every=4)
    judge(tmp_path, 2)


@pytest.mark.contract("F9.09")
def test_when_all_groups_die_each_shard_comes_back_from_memory(
    replicas: Train, tmp_path: Path
) -> None:
    quiet = replicas(sharded_loop, 4, workers_per_replica=2)
    config = {"all_die": 9}
    killed = replicas(sharded_loop, 4, workers_per_replica=2, config=config, memory_every=3)
    assert killed.return_value == pytest.approx(quiet.return_value, rel=1e-4)
    for rank in range(4):
        assert (tmp_path / f"steps{rank}").read_text().split() == [str(s) for s in range(25)]


# ---- what is refused ----


def test_sizes_that_do_not_divide_are_refused() -> None:
    def trainer(workers: Any, **options: Any) -> TorchTrainer:
        return TorchTrainer(
            lambda: None,
            torch_config=FaultTolerantConfig(**options),
            scaling_config=ScalingConfig(num_workers=workers),
        )

    with pytest.raises(ValueError, match=r"num_workers=5 cannot be divided .* multiple of 2"):
        trainer(5, workers_per_replica=2)
    with pytest.raises(ValueError, match="makes 1 replica groups of 2, fewer than min_replicas=2"):
        trainer(2, workers_per_replica=2, min_replicas=2)
    for bad in ({"workers_per_replica": 0}, {"min_replicas": "2"}, {"backend": "mpi"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            FaultTolerantConfig(**bad)  # type: ignore[arg-type]


def test_models_that_differ_are_named(replicas: Train) -> None:
    def loop(config: dict[str, Any]) -> None:
        import torch

        rank = train.get_context().get_world_rank()
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1 + rank))
        run = train.torch.fault_tolerant(model=model)
        for _ in run.steps(1):
            model(torch.ones(2, 4)).sum().backward()

    with pytest.raises(
        WorkerGroupError, match=r"first parameter that differs is 'model\.1\.weight'"
    ):
        replicas(loop, 2, failures=0)


def test_models_that_differ_are_named_without_replica_groups(
    ray_start: Any, tmp_path: Path
) -> None:
    def loop() -> None:
        import torch

        rank = train.get_context().get_world_rank()
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1 + rank))
        train.torch.prepare_model(model)

    trainer = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    )
    with pytest.raises(WorkerGroupError, match=r"first parameter that differs is '1\.weight'"):
        trainer.fit()


def test_a_model_that_is_not_sharded_over_its_group_is_refused(replicas: Train) -> None:
    def loop(config: dict[str, Any]) -> None:
        import torch

        train.torch.fault_tolerant(model=train.torch.prepare_model(torch.nn.Linear(2, 1)))

    with pytest.raises(WorkerGroupError, match=r"model\.module\.weight is not sharded over the 2"):
        replicas(loop, 2, workers_per_replica=2, failures=0)


def test_a_prepared_model_is_averaged_as_well(replicas: Train) -> None:
    def loop(config: dict[str, Any]) -> float:
        import torch

        rank = train.get_context().get_world_rank()
        model = train.torch.prepare_model(torch.nn.Linear(1, 1, bias=False))
        run = train.torch.fault_tolerant(model=model)
        for _ in run.steps(2):
            model.zero_grad()
            (model(torch.ones(1, 1)) * (rank + 1)).sum().backward()
        (weight,) = model.parameters()
        assert weight.grad is not None
        return weight.grad.item()

    assert replicas(loop, 2).return_value == 1.5


def test_what_a_loop_gets_wrong_is_said(replicas: Train) -> None:
    def loop(config: dict[str, Any]) -> list[str]:
        import torch

        said = []

        def tell(call: Callable[[], Any]) -> None:
            try:
                call()
            except (RuntimeError, ValueError) as error:
                said.append(str(error))

        model = torch.nn.Linear(4, 1)
        tell(lambda: train.torch.fault_tolerant(optimizer=torch.optim.SGD(model.parameters(), 1)))
        tell(lambda: train.torch.fault_tolerant(model=model, number=3))
        run = train.torch.fault_tolerant(model=model)
        tell(lambda: train.torch.fault_tolerant(model=model))
        tell(lambda: model(torch.ones(2, 4)).sum().backward())
        tell(lambda: next(run.batches([1, 2])))
        list(run.steps(0))
        tell(lambda: list(run.steps(1)))
        return said

    wanted = [
        "needs the model",
        "state_dict",
        "called twice",
        "outside of the steps",
        "DataLoader",
        "second time",
    ]
    said = replicas(loop, 1, failures=0).return_value
    assert len(said) == len(wanted)
    for text, words in zip(said, wanted, strict=True):
        assert words in text


def test_without_replica_groups_it_says_what_to_configure(fit: Any) -> None:
    def loop() -> str:
        import torch

        try:
            train.torch.fault_tolerant(model=torch.nn.Linear(1, 1))
        except RuntimeError as error:
            return str(error)
        return ""

    assert (
        "torch_config=ray.train.torch.FaultTolerantConfig()"
        in fit(loop, 1, torch=True).return_value
    )


def test_torchft_is_asked_for_by_name(ray_start: Any, tmp_path: Path) -> None:
    from ray.train.v2.torch.torchft_config import TorchftConfig

    if importlib.util.find_spec("torchft") is not None:
        pytest.skip("of make test: torchft is installed here")
    with pytest.raises(ValueError, match="must be a dict"):
        TorchftConfig(lighthouse_kwargs=None)
    config = TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo")
    assert config.backend_cls().has_replica_groups
    trainer = TorchTrainer(
        lambda: None,
        torch_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
    )
    with pytest.raises(
        ControllerError, match=r"^ImportError: TorchftConfig needs the package torch"
    ):
        trainer.fit()


def test_torchft_replaces_a_worker_while_the_others_train(ray_start: Any, tmp_path: Path) -> None:
    pytest.importorskip("torchft")
    from ray.train.v2.torch.torchft_config import TorchftConfig

    def loop(config: dict[str, Any]) -> int:
        from datetime import timedelta

        import torch
        from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

        rank = train.get_context().get_world_rank()
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        manager = Manager(
            pg=ProcessGroupGloo(timeout=timedelta(seconds=30)),
            min_replica_size=1,
            load_state_dict=model.load_state_dict,
            state_dict=model.state_dict,
            replica_id=f"group{rank}",
        )
        wrapped = DistributedDataParallel(manager, model)
        stepper = Optimizer(manager, optimizer)
        while manager.current_step() < 50:
            stepper.zero_grad()
            wrapped(torch.ones(2, 4)).sum().backward()
            stepper.step()
            if rank == 1 and manager.current_step() == 10 and once(config["folder"], "killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            train.report({"step": manager.current_step()})
        manager.shutdown()
        return manager.current_step()

    result = TorchTrainer(
        loop,
        train_loop_config={"folder": str(tmp_path)},
        torch_config=TorchftConfig(lighthouse_kwargs={"min_replicas": 1}, backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="run", storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=2)
        ),
    ).fit()
    assert result.return_value == 50
    assert result.metrics["step"] >= 49
