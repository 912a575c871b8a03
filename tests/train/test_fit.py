"""A run from its start to its result: ranks, environment, process group, return value."""

from __future__ import annotations

import gc
import os
import pickle
import re
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import ControllerError, WorkerGroupError
from ray.train.torch import TorchConfig

pytestmark = [pytest.mark.usefixtures("quiet")]


@pytest.mark.contract("F9.01", "F9.02", "F9.05", "F9.16")
def test_every_rank_runs_the_function_and_rank_0_returns(fit: Any) -> None:
    def loop(config: dict[str, Any]) -> dict[str, Any]:
        context = train.get_context()
        train.report({"rank": context.get_world_rank()})
        return {
            "size": context.get_world_size(),
            "rank": context.get_world_rank(),
            "local_rank": context.get_local_rank(),
            "local_size": context.get_local_world_size(),
            "node_rank": context.get_node_rank(),
            "name": context.get_experiment_name(),
            "config": config,
        }

    result = fit(loop, 2, config={"a": 1}, name="first")
    assert result.return_value == {
        "size": 2,
        "rank": 0,
        "local_rank": 0,
        "local_size": 2,
        "node_rank": 0,
        "name": "first",
        "config": {"a": 1},
    }
    assert result.error is None
    assert result.path.endswith("/first")


@pytest.mark.contract("F9.01")
def test_a_function_without_an_argument(fit: Any) -> None:
    def loop() -> int:
        return 7

    assert fit(loop, 1).return_value == 7


@pytest.mark.contract("F9.05")
@pytest.mark.heliostat_only("on Ray the run is lost")
def test_a_value_that_cannot_be_sent_does_not_cost_the_run(fit: Any) -> None:
    def loop() -> Any:
        train.report({"loss": 1})
        return threading.Lock()

    result = fit(loop, 2)
    assert (result.metrics, result.return_value) == ({"loss": 1}, None)
    assert "Result.return_value is None, since the lock that" in Path(result.page).read_text()


@pytest.mark.contract("F9.27")
@pytest.mark.heliostat_only("Ray hands on what torch trips over")
def test_a_backend_that_torch_does_not_know(fit: Any, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    config = TorchConfig(backend="glooo")
    with pytest.raises(WorkerGroupError, match=r"TorchConfig\(backend='glooo'\): torch knows gloo"):
        fit(lambda: None, 2, torch=True, trainer={"torch_config": config})
    gc.collect()
    assert "Unhandled error" not in capfd.readouterr().err


@pytest.mark.contract("F9.26", "F9.27", "F9.33")
def test_the_process_group_is_there_before_the_function(fit: Any) -> None:
    pytest.importorskip("torch")

    def loop() -> dict[str, Any]:
        import torch
        import torch.distributed as dist
        from ray.train.torch import get_device, get_devices

        total = torch.tensor([float(dist.get_rank() + 1)])
        dist.all_reduce(total)
        names = (
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "LOCAL_WORLD_SIZE",
            "NODE_RANK",
            "ACCELERATE_TORCH_DEVICE",
        )
        assert os.environ["MASTER_ADDR"]
        assert int(os.environ["MASTER_PORT"]) > 0
        assert get_devices() == [get_device()]
        return {
            "backend": dist.get_backend(),
            "total": total.item(),
            "device": str(get_device()),
            **{name: os.environ[name] for name in names},
        }

    result = fit(loop, 2, torch=True, trainer={"torch_config": TorchConfig(timeout_s=60)})
    assert result.return_value == {
        "backend": "gloo",
        "total": 3.0,
        "device": "cpu",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "0",
        "ACCELERATE_TORCH_DEVICE": "cpu",
    }


@pytest.mark.contract("F9.27")
def test_the_tcp_method(fit: Any) -> None:
    pytest.importorskip("torch")

    def loop() -> int:
        import torch.distributed as dist

        dist.barrier()
        return dist.get_world_size()

    config = TorchConfig(backend="gloo", init_method="tcp", timeout_s=60)
    assert fit(loop, 2, torch=True, trainer={"torch_config": config}).return_value == 2


@pytest.mark.contract("F9.12")
def test_workers_have_a_directory_of_the_run(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def loop() -> str:
        return os.getcwd()

    here = fit(loop, 1).return_value
    assert here != os.getcwd()
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    assert fit(loop, 1, name="stay").return_value != here


@pytest.mark.heliostat_only("Ray runs the function in a thread beside the main thread")
def test_the_function_runs_on_the_main_thread(fit: Any) -> None:
    def loop() -> bool:
        import signal
        import threading

        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # allowed on the main thread only
        return threading.current_thread() is threading.main_thread()

    assert fit(loop, 1).return_value is True


@pytest.mark.contract("F9.25")
def test_zero_workers_run_the_function_in_this_process(fit: Any, tmp_path: Path) -> None:
    import tempfile

    def loop(config: dict[str, Any]) -> int:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.txt").write_text("a")
            train.report({"loss": 1.0}, checkpoint=train.Checkpoint.from_directory(folder))
        assert train.get_context().get_world_size() == 1
        return os.getpid()

    result = fit(loop, 0, config={})
    assert result.return_value == os.getpid()
    assert result.metrics == {"loss": 1.0}
    with result.checkpoint.as_directory() as folder:
        assert Path(folder, "a.txt").read_text() == "a"


@pytest.mark.contract("F9.11")
def test_a_backend_of_ones_own(fit: Any) -> None:
    from ray.train import BackendConfig
    from ray.train.backend import Backend

    class GreetingBackend(Backend):
        def on_start(self, worker_group: Any, backend_config: Any) -> None:
            def greet(word: str) -> None:
                os.environ["GREETING"] = word

            worker_group.execute(greet, backend_config.word)

    class Greeting(BackendConfig):
        word = "hello"

        @property
        def backend_cls(self) -> type[Backend]:
            return GreetingBackend

    def loop() -> str:
        return os.environ["GREETING"]

    result = fit(loop, 2, trainer={"backend_config": Greeting()})
    assert result.return_value == "hello"


@pytest.mark.heliostat_only("Ray prints one long line")
def test_the_printed_result_is_worth_reading(fit: Any) -> None:
    def loop() -> None:
        train.report({"loss": 0.25, "epoch": 3})

    text = str(fit(loop, 1, name="readable"))
    assert re.search(r"readable: finished after .*, 1 worker, 1 report", text)
    assert "loss=0.25  epoch=3" in text
    assert "page" in text


@pytest.mark.contract("F9.13")
def test_callbacks_see_reports_and_failures(fit: Any, tmp_path: Path) -> None:
    from ray.train import UserCallback

    seen = tmp_path / "seen.txt"

    class Watch(UserCallback):
        def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:
            with seen.open("a") as file:
                file.write(f"report {[m['rank'] for m in metrics]} {checkpoint}\n")

        def after_exception(self, **named: Any) -> None:  # as Ray calls them
            with seen.open("a") as file:
                file.write(f"failure {sorted(named['worker_exceptions'])}\n")

    def loop() -> None:
        rank = train.get_context().get_world_rank()
        train.report({"rank": rank})
        if rank == 1:
            time.sleep(0.3)
            raise ValueError("no")
        time.sleep(5)

    with pytest.raises(WorkerGroupError):
        fit(loop, 2, callbacks=[Watch()])
    lines = seen.read_text().splitlines()
    assert lines[0] == "report [0, 1] None"
    assert lines[-1] == "failure [1]"


@pytest.mark.contract("F9.13")
@pytest.mark.heliostat_only("the text, and which callbacks hear of a report")
def test_a_callback_that_raises_ends_the_run_and_is_named(fit: Any) -> None:
    from ray.train import UserCallback

    calls: list[str] = []

    class Broken(UserCallback):
        def after_report(self, **named: Any) -> None:
            calls.append("broken")
            raise KeyError("no such column")

    class Watch(UserCallback):
        def after_report(self, **named: Any) -> None:
            calls.append("watch")

    def loop() -> None:
        for step in range(5):
            train.report({"step": step})

    with pytest.raises(ControllerError, match=r"no such column") as caught:
        fit(loop, 1, callbacks=[Broken(), Watch()])
    assert isinstance(caught.value.controller_failure, KeyError)
    assert calls[:2] == ["broken", "watch"]  # the other one hears of it all the same
    assert calls.count("broken") == 1
    text = "Broken.after_report raised KeyError: 'no such column'"
    assert str(caught.value).endswith(text)
    assert str(pickle.loads(pickle.dumps(caught.value))).endswith(text)


@pytest.mark.contract("F9.08")
@pytest.mark.heliostat_only("the text")
def test_a_score_that_no_checkpoint_has_is_told_once(
    fit: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "lines")

    def loop() -> None:
        for step in range(3):
            with tempfile.TemporaryDirectory() as folder:
                checkpoint = train.Checkpoint.from_directory(folder)
                train.report({"loss": 1.0, "step": step}, checkpoint=checkpoint)

    kept = train.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy")
    fit(loop, 1, checkpoint_config=kept)
    told = capfd.readouterr().err
    assert told.count("checkpoint_score_attribute='accuracy' was not reported") == 1
    assert "only 'loss', 'step'" in told
    kept = train.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="loss")
    fit(loop, 1, name="scored", checkpoint_config=kept)
    assert "checkpoint_score_attribute" not in capfd.readouterr().err


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("Ray waits for such a node")
def test_why_workers_cannot_start_is_told_once(fit: Any) -> None:
    with pytest.raises(ControllerError) as caught:
        fit(lambda: None, 1, scaling={"resources_per_worker": {"CPU": 999}})
    failure = str(caught.value.controller_failure).splitlines()[0]
    assert "".join(traceback.format_exception(caught.value)).count(failure) == 1
