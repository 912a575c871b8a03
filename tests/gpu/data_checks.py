"""Datasets and a GPU: batches on their way to it, and models that it runs over them."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from gpu_kit import Bench, Row, at_least, at_most, busyness, check, holds, timed

NEEDS = ("numpy", "pyarrow")


def images(bench: Bench) -> Any:
    """Random bytes, as decoded images are: (rows, height, width, colours)."""
    import numpy as np

    rows, side = bench.pick((16_384, 224), (256, 16))
    return np.random.default_rng(0).integers(0, 256, (rows, side, side, 3), dtype=np.uint8)


def quiet() -> Any:
    import heliostat.data as rd

    rd.DataContext.get_current().enable_progress_bars = False
    return rd


def consume(bench: Bench, batches: Any, work: Any) -> int:
    """Run the work over all batches; the sum of every hundredth byte, so that none is lost."""
    total = None
    for batch in batches:
        part = batch.flatten()[::101].long().sum()
        total = part if total is None else total + part
        work(batch)
    bench.synchronize()
    return int(total.item()) if total is not None else 0


def kernels(bench: Bench) -> Any:
    """Some milliseconds of matrix products for each batch, so that copies have something to hide in."""
    import torch

    side = bench.pick(4096, 32)
    matrix = torch.ones(side, side, dtype=torch.bfloat16, device=bench.device)

    def work(_: Any) -> None:
        for _ in range(bench.pick(8, 1)):
            torch.mm(matrix, matrix)

    return work


@check(
    "data.batches",
    "iter_torch_batches to the device, beside a DataLoader",
    limit_s=120,
    needs=NEEDS,
)
def batches(bench: Bench) -> list[Row]:
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    array, size = images(bench), bench.pick(256, 32)
    bench.init()
    rd = quiet()
    blocks = bench.pick(64, 8)
    dataset = rd.from_numpy(np.array_split(array, blocks))
    work = kernels(bench)
    cuda = not bench.is_rehearsal

    def loader() -> Any:
        loader = DataLoader(
            TensorDataset(torch.from_numpy(array)),
            batch_size=size,
            num_workers=bench.pick(8, 0),
            pin_memory=cuda,
        )
        for (batch,) in loader:
            yield batch.to(bench.device, non_blocking=True)

    def ours(pin: bool) -> Any:
        options = {"batch_size": size, "device": bench.device, "prefetch_batches": 4}
        for batch in dataset.iter_torch_batches(pin_memory=pin and cuda, **options):
            yield batch["data"]

    resident = torch.from_numpy(array[:size]).to(bench.device)
    expected = sum(
        int(array[at : at + size].reshape(-1)[::101].astype("int64").sum())
        for at in range(0, len(array), size)
    )
    count = -(-len(array) // size)
    consume(bench, (resident for _ in range(3)), work)
    floor, _ = timed(lambda: consume(bench, (resident for _ in range(count)), work))
    plain, sum_plain = timed(lambda: consume(bench, loader(), work))
    rows = [holds("sum of the DataLoader", sum_plain, expected)]
    speeds = {}
    for name, pin in (("pinned memory", True), ("plain memory", False)):
        consume(bench, ours(pin), work)  # the first epoch starts workers and pins memory
        seconds, total = timed(lambda pin=pin: consume(bench, ours(pin), work))
        speeds[name] = array.nbytes / seconds / 1e9
        rows.append(holds(f"sum, {name}", total, expected))
        rows.append(
            at_least(f"GB/s, {name}", speeds[name], "GB/s", array.nbytes / plain / 1e9, 1.0)
        )
    best = array.nbytes / floor / 1e9
    rows.append(
        at_least("GB/s, pinned, beside kernels alone", speeds["pinned memory"], "GB/s", best, 0.8)
    )
    return rows


class Classifier:
    """A model on the device that is applied to batches of images."""

    def __init__(self, kind: str) -> None:
        import torch
        import workloads

        self.torch, self.device = torch, torch.device(kind)
        size = workloads.SIZES["vit", kind]
        self.side = size.length
        torch.manual_seed(0)
        self.model = workloads.Vit(size).to(self.device).eval()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        torch = self.torch
        pixels = torch.from_numpy(batch["data"]).to(self.device).permute(0, 3, 1, 2)
        if pixels.shape[-1] != self.side:
            pixels = torch.nn.functional.interpolate(pixels.float(), self.side)
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16):
            logits = self.model(pixels.float() / 255)
        return {"label": logits.float().argmax(1).cpu().numpy()}


@check(
    "data.inference", "map_batches with a model: is the GPU kept busy?", limit_s=120, needs=NEEDS
)
def inference(bench: Bench) -> list[Row]:
    import numpy as np

    array, size = images(bench), bench.pick(256, 32)
    bench.init()
    rd = quiet()
    dataset = rd.from_numpy(np.array_split(array, bench.pick(64, 8)))
    labelled = dataset.map_batches(
        Classifier, fn_constructor_args=[bench.kind], batch_size=size, num_gpus=1, concurrency=1
    )
    with busyness(bench) as seen:
        runs = [gather(labelled) for _ in range(2)]
    labels, arrivals, started = min(runs, key=lambda run: run[1][-1] - run[1][0])
    model = Classifier(bench.kind)

    def bare() -> Any:
        parts = [model({"data": array[at : at + size]}) for at in range(0, len(array), size)]
        return np.concatenate([part["label"] for part in parts])

    bare()
    plain, expected = timed(bare)
    code = f"import torch; torch.zeros(1, device={bench.device!r})"
    fresh, _ = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))
    same = float((np.sort(labels) == np.sort(expected)).mean())
    first, last = arrivals[0], arrivals[-1]
    rows = [
        holds("rows", len(labels), len(array)),
        holds("labels are the bare loop's, but for rounding", same > 0.99, True),
        at_least(
            "rows/s from the first batch to the last",
            (len(array) - size) / (last - first),
            "",
            len(array) / plain,
            0.7,
        ),
        at_most("start of the actor and first batch", first - started, "s", fresh + 5, fresh),
    ]
    if seen:
        busy = sorted(part for at, part in seen if first <= at <= last)
        median = busy[len(busy) // 2]
        rows.append(
            at_least("utilisation by NVML, median", median, "%", 100, 0.5, about="all the time")
        )
    return rows


def gather(dataset: Any) -> tuple[Any, list[float], float]:
    """All labels in the order in which they come, when each batch came, and when they were asked for."""
    import numpy as np

    labels, arrivals, began = [], [], time.perf_counter()
    for batch in dataset.iter_batches(batch_size=None):
        labels.append(batch["label"])
        arrivals.append(time.perf_counter())
    return np.concatenate(labels), arrivals, began


def shard(config: dict[str, Any]) -> None:
    """A training worker reads its shard; batches come to its device by themselves."""
    from heliostat import train
    from heliostat.train import torch as train_torch

    total, places, rows = 0, set(), 0
    for batch in train.get_dataset_shard("train").iter_torch_batches(batch_size=100):
        places.add(str(batch["id"].device))
        total += int(batch["id"].sum().item())
        rows += len(batch["id"])
    device = str(train_torch.get_device())
    train.report({"total": total, "places": sorted(places), "device": device, "rows": rows})


@check("data.shard", "a trainer's dataset arrives on its worker's GPU", limit_s=90, needs=NEEDS)
def ingest(bench: Bench) -> list[Row]:
    from heliostat.train import RunConfig
    from heliostat.train.torch import TorchTrainer

    bench.init()
    rd = quiet()
    result = TorchTrainer(
        shard,
        scaling_config=bench.scaling(),
        run_config=RunConfig(storage_path=str(bench.folder)),
        datasets={"train": rd.range(10_000)},
    ).fit()
    return [
        holds("rows", result.metrics["rows"], 10_000),
        holds("sum", result.metrics["total"], sum(range(10_000))),
        holds("where batches are", result.metrics["places"], [bench.device]),
        holds("the worker's device", result.metrics["device"], bench.device),
    ]
