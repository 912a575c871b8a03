"""GPUs of tasks and actors: who sees which, their memory, their death, and what the node says of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gpu_kit import MIB, Bench, Driver, Row, at_least, at_most, check, holds, timed, wait_until


def seen_here() -> dict[str, Any]:
    """What a task or an actor sees of its GPUs."""
    import heliostat as ray
    import torch

    return {
        "ids": ray.get_gpu_ids(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "devices": torch.cuda.device_count(),
        "name": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu",
        "pid": os.getpid(),
    }


class Holder:
    """An actor with a context on its device."""

    def __init__(self, device: str) -> None:
        import torch

        self.device = torch.device(device)
        self.kept: list[Any] = [torch.zeros(1, device=self.device)]

    def seen(self) -> dict[str, Any]:
        return seen_here()

    def fill(self, bytes_wanted: int) -> float:
        """Hold so much memory of the device; the sum of what lies in it."""
        import torch

        self.kept = [torch.ones(bytes_wanted // 4, dtype=torch.float32, device=self.device)]
        return float(self.kept[0][::1024].sum().item())

    def tensor(self, size: int) -> Any:
        import torch

        return torch.arange(size // 4, dtype=torch.int32, device=self.device)

    def take(self, tensor: Any) -> tuple[str, int]:
        """Where a tensor lies that came as an argument, and what is in it."""
        assert tensor.device.type == self.device.type, tensor.device
        return str(tensor.device), int(tensor[-1].item())


def holder(ray: Any, gpus: float) -> Any:
    return ray.remote(num_gpus=gpus, num_cpus=0)(Holder)


@check("core.whole", "a whole GPU: CUDA_VISIBLE_DEVICES and get_gpu_ids in tasks and actors")
def whole(bench: Bench) -> list[Row]:
    ray = bench.init()
    import torch

    count = 1 if bench.is_rehearsal else torch.cuda.device_count()
    task = ray.get(ray.remote(num_gpus=1, num_cpus=0)(seen_here).remote())
    actor = holder(ray, 1).remote(bench.device)
    seen = ray.get(actor.seen.remote())
    ray.kill(actor)
    without = ray.get(ray.remote(seen_here).remote())
    rows = [holds("GPUs of the cluster", ray.cluster_resources().get("GPU"), float(count))]
    for who, found in (("task", task), ("actor", seen)):
        own = [str(one) for one in found["ids"]]
        rows.append(holds(f"{who}: ids", len(own), 1))
        rows.append(holds(f"{who}: CUDA_VISIBLE_DEVICES", found["visible"], ",".join(own)))
        rows.append(holds(f"{who}: devices in torch", found["devices"], bench.pick(1, 0)))
    rows.append(holds("task without GPU: ids", without["ids"], []))
    return rows


@check("core.shared", "two actors with half of a GPU each")
def shared(bench: Bench) -> list[Row]:
    ray = bench.init()
    size = bench.pick(1 << 30, 1 << 20)
    two = [holder(ray, 0.5).remote(bench.device) for _ in range(2)]
    seen = ray.get([one.seen.remote() for one in two])
    sums = ray.get([one.fill.remote(size) for one in two])
    third = holder(ray, 1).remote(bench.device)
    ready, _ = ray.wait([third.seen.remote()], timeout=3)
    return [
        holds("ids of both", seen[0]["ids"] == seen[1]["ids"], True),
        holds("processes", len({one["pid"] for one in seen}), 2),
        holds("each has its own memory", sums, [float(-(-size // 4 // 1024))] * 2),
        holds("a third one waits", len(ready), 0),
    ]


@check("core.memory", "the memory of a GPU is free after a task")
def memory(bench: Bench) -> list[Row]:
    ray = bench.init()
    size = bench.pick(8 << 30, 8 << 20)
    driver = None if bench.is_rehearsal else Driver()

    @ray.remote(num_gpus=1)
    def fill(device: str) -> int:
        Holder(device).fill(size)
        return os.getpid()

    before = driver.memory_used() if driver else 0
    pid = ray.get(fill.remote(bench.device))
    gone = wait_until(lambda: not Path(f"/proc/{pid}").exists(), 30)
    if driver:
        # The driver takes a moment to count what the process had.
        wait_until(lambda: driver.memory_used() - before < 64 * MIB, 10)
    left = (driver.memory_used() - before) / MIB if driver else 0.0
    again = ray.get(fill.remote(bench.device))
    return [
        at_most("until its process has ended", gone, "s", 10),
        holds("memory left behind below 64 MiB", left < 64, True),
        holds("the next one has a process of its own", again != pid, True),
    ]


@check("core.tensors", "tensors from one actor to another on the same GPU")
def tensors(bench: Bench) -> list[Row]:
    ray = bench.init()
    import torch

    size = bench.pick(256 << 20, 4 << 20)
    one, two = (holder(ray, 0.5).remote(bench.device) for _ in range(2))
    ray.get([one.seen.remote(), two.seen.remote()])
    ray.get(two.take.remote(one.tensor.remote(size)))  # the first one warms up
    seconds, (device, last) = min(
        (timed(lambda: ray.get(two.take.remote(one.tensor.remote(size)))) for _ in range(3)),
        key=lambda pair: pair[0],
    )

    def plain() -> None:
        """To the host and back, which is what any way through the host does at least."""
        there = (
            torch.arange(size // 4, dtype=torch.int32, device=bench.device).cpu().to(bench.device)
        )
        there[-1].item()

    plain()
    floor = min(timed(plain)[0] for _ in range(3))
    return [
        holds("where it arrives", device, bench.device),
        holds("its last item", last, size // 4 - 1),
        at_least("GB/s", size / seconds / 1e9, "GB/s", size / floor / 1e9, 0.1),
    ]


@check(
    "core.death", "a worker that has a CUDA context is killed, and its actor comes back", limit_s=90
)
def death(bench: Bench) -> list[Row]:
    ray = bench.init()
    size = bench.pick(4 << 30, 4 << 20)
    actor = holder(ray, 1).options(max_restarts=1, max_task_retries=1).remote(bench.device)
    ray.get(actor.fill.remote(size))
    driver = None if bench.is_rehearsal else Driver()
    held = driver.memory_used() if driver else 0
    pid = ray.get(actor.seen.remote())["pid"]
    os.kill(pid, signal.SIGKILL)
    # Its memory has to be free before the next one can have as much.
    seconds, after = timed(lambda: ray.get(actor.seen.remote(), timeout=60))
    ray.get(actor.fill.remote(size))
    code = f"import torch; torch.zeros(1, device={bench.device!r})"
    fresh, _ = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))
    rows = [
        holds("another process", after["pid"] != pid, True),
        at_most("recovery", seconds, "s", fresh + 5, fresh),
    ]
    if driver:
        more = (driver.memory_used() - held) / MIB
        rows.append(holds("memory of the dead one is free", more < 256, True))
    return rows


class Parent:
    """An actor whose child process holds the device."""

    def start(self, device: str, bytes_wanted: int) -> int:
        """The child's process id, when the child has so much memory of the device."""
        code = (
            f"import torch; kept = torch.ones({bytes_wanted} // 4, device={device!r});"
            "print(kept[-1].item(), flush=True); import time; time.sleep(3600)"
        )
        self.child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert self.child.stdout is not None
        self.child.stdout.readline()
        return self.child.pid


@check("core.child", "an actor leaves a child process that holds the GPU")
def child(bench: Bench) -> list[Row]:
    ray = bench.init()
    size = bench.pick(4 << 30, 4 << 20)
    driver = None if bench.is_rehearsal else Driver()
    before = driver.memory_used() if driver else 0
    parent = ray.remote(num_gpus=1, num_cpus=0)(Parent).remote()
    pid = ray.get(parent.start.remote(bench.device, size))
    del parent
    gone = wait_until(lambda: not Path(f"/proc/{pid}").exists(), 30)
    if driver:
        # The driver takes a moment to count what the process had.
        wait_until(lambda: driver.memory_used() - before < 64 * MIB, 10)
    left = (driver.memory_used() - before) / MIB if driver else 0.0
    after = holder(ray, 1).remote(bench.device)
    ready, _ = ray.wait([after.seen.remote()], timeout=30)
    return [
        at_most("until the child has ended", gone, "s", 10),
        holds("memory left behind below 64 MiB", left < 64, True),
        holds("the next actor has the GPU", len(ready), 1),
    ]


@check("core.nvml", "the node's own word on its GPUs: `status` and the measurements")
def nvml(bench: Bench) -> list[Row]:
    ray = bench.init()
    import urllib.request

    from heliostat.core.platform import auth

    size = bench.pick(2 << 30, 2 << 20)
    actor = holder(ray, 1).remote(bench.device)
    ray.get(actor.fill.remote(size))
    (node,) = ray.nodes()
    request = urllib.request.Request(
        f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics",
        headers={"Authorization": f"Bearer {auth.token(False)}"},
    )

    def read() -> dict[str, float]:
        with urllib.request.urlopen(request, timeout=10) as answer:
            found = re.findall(r"^ray_node_(g\w+)\{.*\} (\S+)$", answer.read().decode(), re.M)
        return {name: float(value) for name, value in found}

    if bench.is_rehearsal:
        named = [name for name in read() if name.startswith("gram")]
        return [holds("measurements of GPUs where there is none", named, [])]
    driver = Driver()

    def is_current() -> bool:
        return abs(read().get("gram_used", 0) - driver.memory_used() / MIB) < 64

    wait_until(is_current, 15)  # the node reads every five seconds
    measured = read()
    command = Path(sys.executable).with_name("heliostat")
    status = subprocess.run([command, "status", "-v"], capture_output=True, text=True, check=False)
    import torch

    name = torch.cuda.get_device_name(0)
    return [
        holds("GPUs", measured.get("gpus_available"), 1.0),
        holds("memory is the driver's within 64 MiB", is_current(), True),
        holds("utilisation is there", "gpus_utilization" in measured, True),
        holds("`status -v` names the GPU", f"{name}: " in status.stdout, True),
    ]


@check("core.start", "the first task on a GPU, from nothing", limit_s=90)
def start(bench: Bench) -> list[Row]:
    code = f"import torch; torch.zeros(1, device={bench.device!r})"
    fresh, _ = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))
    ray = bench.init()
    began = time.perf_counter()
    make = ray.remote(num_gpus=1)(lambda device: Holder(device).fill(4096))
    ray.get(make.remote(bench.device))
    first = time.perf_counter() - began
    ray.get(make.remote(bench.device))
    second = time.perf_counter() - began - first
    return [
        at_most("first task, torch and context included", first, "s", fresh + 5, fresh),
        at_most("second task, in a process of its own", second, "s", fresh + 5, fresh),
    ]
