"""The libraries that own parallelism, on the process group that the trainer sets up (CPU)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train.torch import enable_reproducibility, prepare_data_loader, prepare_model

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.usefixtures("quiet")]


def digits() -> Any:
    """scikit-learn's handwritten digits as tensors."""
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.utils.data.TensorDataset(
        torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    )


@pytest.mark.contract("F9.29", "F9.30", "F9.31")
def test_ddp_with_a_split_loader(fit: Any) -> None:
    data = digits()

    def loop() -> dict[str, Any]:
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, DistributedSampler

        torch.manual_seed(0)
        model = prepare_model(torch.nn.Linear(64, 10))
        loader = prepare_data_loader(DataLoader(data, batch_size=64, shuffle=True))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        first = 0.0
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            total = 0.0
            for x, y in loader:
                loss = torch.nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            first = first or total
            train.report({"loss": total / len(loader)})
        return {
            "ddp": isinstance(model, DistributedDataParallel),
            "sampler": isinstance(loader.sampler, DistributedSampler),
            "shuffle": loader.sampler.shuffle,
            "rows": len(loader.sampler),
            "better": total < first,
            "keys": list(model.module.state_dict()),
        }

    assert fit(loop, 2, torch=True).return_value == {
        "ddp": True,
        "sampler": True,
        "shuffle": True,
        "rows": 899,
        "better": True,
        "keys": ["weight", "bias"],
    }


@pytest.mark.contract("F9.29", "F9.30")
def test_one_worker_is_not_wrapped(fit: Any) -> None:
    def loop() -> str:
        import torch
        from torch.utils.data import DataLoader

        loader = DataLoader(list(range(8)), batch_size=4)
        assert [b.tolist() for b in prepare_data_loader(loader)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        return type(prepare_model(torch.nn.Linear(2, 2))).__name__

    assert fit(loop, 1, torch=True).return_value == "Linear"


@pytest.mark.contract("F9.30")
def test_loaders_that_are_not_split(fit: Any) -> None:
    def loop() -> None:
        import torch
        from torch.utils.data import (
            DataLoader,
            IterableDataset,
            SequentialSampler,
            WeightedRandomSampler,
        )

        class Stream(IterableDataset):  # type: ignore[type-arg] # its elements do not matter
            def __iter__(self) -> Any:
                return iter(range(4))

        assert len(list(prepare_data_loader(DataLoader(Stream(), batch_size=2)))) == 2
        rows = list(range(8))
        weighted = DataLoader(rows, sampler=WeightedRandomSampler([1.0] * 8, 8))
        assert prepare_data_loader(weighted).sampler is weighted.sampler
        plain = DataLoader(rows, batch_size=2)
        assert isinstance(
            prepare_data_loader(plain, add_dist_sampler=False).sampler, SequentialSampler
        )
        assert isinstance(prepare_data_loader(plain).sampler.shuffle, bool)
        assert not prepare_data_loader(plain).sampler.shuffle
        assert torch.distributed.is_initialized()

    fit(loop, 2, torch=True)


@pytest.mark.contract("F9.29", "F9.31")
@pytest.mark.heliostat_only("prepare_model(parallel_strategy='fsdp') fails on CPUs")
@pytest.mark.filterwarnings("ignore")
def test_fsdp_by_prepare_model(fit: Any) -> None:
    def loop() -> list[str]:
        import torch

        model = prepare_model(torch.nn.Linear(64, 10), parallel_strategy="fsdp")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(torch.ones(4, 64)).sum()
        loss.backward()
        optimizer.step()
        return [type(model).__name__]

    assert fit(loop, 2, torch=True).return_value == ["FullyShardedDataParallel"]


@pytest.mark.contract("F9.31")
@pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"),
    reason="fully_shard of this release of PyTorch (2.6) needs streams of a GPU",
)
def test_fully_shard(fit: Any) -> None:
    data = digits()

    def loop() -> dict[str, Any]:
        import torch
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import DTensor

        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
        )
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        x, y = data.tensors
        losses = []
        for _ in range(5):
            loss = torch.nn.functional.cross_entropy(model(x[:256]), y[:256])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        weight = model[0].weight
        return {
            "sharded": isinstance(weight, DTensor) and weight.to_local().shape[0] == 16,
            "better": losses[-1] < losses[0],
        }

    assert fit(loop, 2, torch=True).return_value == {"sharded": True, "better": True}


@pytest.mark.contract("F9.31")
def test_tensor_parallelism_with_a_device_mesh(fit: Any) -> None:
    def loop() -> dict[str, Any]:
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        size = train.get_context().get_world_size()
        mesh = init_device_mesh("cpu", (size,))
        torch.manual_seed(0)
        plain = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        x = torch.randn(3, 8)
        expected = plain(x).detach().clone()
        split = parallelize_module(plain, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        return {
            "same": bool(torch.allclose(split(x), expected, atol=1e-5)),
            "local": list(split[0].weight.to_local().shape),
        }

    assert fit(loop, 2, torch=True).return_value == {"same": True, "local": [8, 8]}


@pytest.mark.contract("F9.33")
def test_reproducibility(fit: Any) -> None:
    def loop() -> list[float]:
        import torch

        enable_reproducibility(3)
        numbers: list[float] = torch.rand(3).tolist()
        return numbers

    assert fit(loop, 1, torch=True).return_value == fit(loop, 1, torch=True, name="b").return_value


@pytest.mark.contract("F9.34")
@pytest.mark.parametrize("name", ["accelerate", "backward", "prepare_optimizer"])
def test_helpers_of_the_first_generation_are_refused(name: str) -> None:
    from ray.train import torch as train_torch

    arguments = () if name == "accelerate" else (None,)
    with pytest.raises(DeprecationWarning):
        getattr(train_torch, name)(*arguments)


@pytest.mark.contract("F9.34")
@pytest.mark.filterwarnings("ignore:.*TorchCheckpoint")
def test_a_checkpoint_of_one_model() -> None:
    import torch
    from ray.train.torch import TorchCheckpoint

    model = torch.nn.Linear(2, 1)
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    checkpoint = TorchCheckpoint.from_state_dict(state)
    found = checkpoint.get_model(torch.nn.Linear(2, 1))
    assert torch.equal(found.weight, model.weight)
    with pytest.raises(ValueError):
        checkpoint.get_model()
    whole = TorchCheckpoint.from_model(model).get_model()
    assert torch.equal(whole.weight, model.weight)
    # What the inputs go through stands beside the model.
    assert checkpoint.get_preprocessor() is None
    for made in (
        TorchCheckpoint.from_model(model, preprocessor=["scaled"]),
        TorchCheckpoint.from_state_dict(state, preprocessor=["scaled"]),
    ):
        assert TorchCheckpoint(made.path).get_preprocessor() == ["scaled"]


@pytest.mark.heliostat_only("ray.train.tensorflow needs TensorFlow there")
def test_a_checkpoint_of_keras_is_made_of_files(tmp_path: Path) -> None:
    """Without TensorFlow: what is in the folder, and what its metadata say."""
    from ray.train.tensorflow import TensorflowCheckpoint

    file = tmp_path / "model.h5"
    with pytest.raises(ValueError, match="h5"):
        TensorflowCheckpoint.from_h5(str(file))
    file.write_bytes(b"HDF")
    made = TensorflowCheckpoint.from_h5(str(file), preprocessor=["scaled"])
    assert Path(made.path, "model.h5").read_bytes() == b"HDF"
    assert made.get_metadata()["_model_filename"] == "model.h5"
    assert made.get_preprocessor() == ["scaled"]
    whole = TensorflowCheckpoint.from_saved_model(str(tmp_path))
    assert Path(whole.path, "model.h5").exists()
    with pytest.raises(ValueError):
        TensorflowCheckpoint.from_saved_model(str(file))
