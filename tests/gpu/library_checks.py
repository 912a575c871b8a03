"""GPUs of what stands on tasks and actors: replicas of Serve, trials of Tune."""

from __future__ import annotations

from typing import Any

from core_checks import seen_here
from gpu_kit import Bench, Row, check, holds


@check("serve.replica", "a deployment whose replica has the GPU", limit_s=90)
def replica(bench: Bench) -> list[Row]:
    bench.init()
    from heliostat import serve

    size, device = 1024, bench.device

    @serve.deployment(ray_actor_options={"num_gpus": 1, "num_cpus": 0})
    class Model:
        def __init__(self) -> None:
            import torch

            self.layer = torch.nn.Linear(size, 1, bias=False).to(device)
            torch.nn.init.ones_(self.layer.weight)

        def __call__(self, value: float) -> tuple[float, str]:
            import torch

            rows = torch.full((1, size), value, device=device)
            return float(self.layer(rows).item()), str(self.layer.weight.device)

    handle = serve.run(Model.bind(), route_prefix=None)
    answer, where = handle.remote(0.5).result()
    serve.shutdown()
    return [
        holds("the answer", answer, size * 0.5),
        holds("computed on", where, bench.device),
    ]


@check("tune.trials", "four trials with half of a GPU each, two at a time", limit_s=120)
def trials(bench: Bench) -> list[Row]:
    bench.init()
    from heliostat import tune
    from heliostat.tune import RunConfig

    def trial(config: dict[str, Any]) -> None:
        import time

        import torch

        began = time.time()
        total = torch.ones(1 << 20, device=config["device"]).sum().item()
        time.sleep(1)  # long enough to lie beside another one
        tune.report(
            {"total": total, "began": began, "ended": time.time(), "ids": seen_here()["ids"]}
        )

    found = tune.Tuner(
        tune.with_resources(trial, {"gpu": 0.5, "cpu": 0}),
        param_space={"device": bench.device, "index": tune.grid_search([0, 1, 2, 3])},
        run_config=RunConfig(storage_path=str(bench.folder), verbose=0),
    ).fit()
    rows = [result.metrics for result in found]
    # There are most of them at the moment at which one begins.
    beside = [sum(row["began"] <= one["began"] < row["ended"] for row in rows) for one in rows]
    return [
        holds("trials", len(rows), 4),
        holds("sums", {row["total"] for row in rows}, {float(1 << 20)}),
        holds("ids of each", {len(row["ids"]) for row in rows}, {1}),
        holds("never more than two at once", max(beside) <= 2, True),
    ]
