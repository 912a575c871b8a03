"""What a check is: a function with a name, figures with rules, and a time limit.

A check gets a :class:`Bench`, which says which device it is about, and returns rows. A row's rule
either holds or does not; one about time is only reported in a rehearsal on the CPU.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


@dataclass
class Row:
    """One figure of a check."""

    figure: str
    value: float | str | bool | None
    unit: str = ""
    plain: float | str | None = None  # the same without Heliostat
    rule: str = ""
    holds: bool = True
    is_about_time: bool = False


@dataclass
class Check:
    """A check that can be run by its name."""

    name: str
    title: str
    limit_s: float
    run: Callable[[Bench], list[Row]]
    needs: tuple[str, ...] = ()  # modules that have to be installed


CHECKS: dict[str, Check] = {}


def check(
    name: str, title: str, limit_s: float = 60, needs: tuple[str, ...] = ()
) -> Callable[[Callable[[Bench], list[Row]]], Callable[[Bench], list[Row]]]:
    """Register a check under a name."""

    def register(run: Callable[[Bench], list[Row]]) -> Callable[[Bench], list[Row]]:
        assert name not in CHECKS, name
        CHECKS[name] = Check(name, title, limit_s, run, needs)
        return run

    return register


@dataclass
class Bench:
    """The device that checks are about, and a folder of their own."""

    kind: str  # "cuda"; "cpu" in a rehearsal
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="gpu-check-")))

    @property
    def is_rehearsal(self) -> bool:
        return self.kind != "cuda"

    @property
    def device(self) -> str:
        """The first device, in torch's words."""
        return "cpu" if self.is_rehearsal else "cuda:0"

    def pick(self, real: Any, rehearsed: Any) -> Any:
        """A size for the GPU, or the small one of a rehearsal."""
        return rehearsed if self.is_rehearsal else real

    def init(self) -> Any:
        """Begin a session; its GPUs are found, but for a rehearsal, which claims one."""
        import heliostat as ray

        claimed: dict[str, Any] = {"num_gpus": 1} if self.is_rehearsal else {}
        ray.init(
            include_dashboard=False,
            num_cpus=self.pick(None, 4),
            _metrics_export_port=0,
            **claimed,
        )
        return ray

    def scaling(self, **more: Any) -> Any:
        """One training worker with a GPU; with a CPU in a rehearsal."""
        from heliostat.train import ScalingConfig

        return ScalingConfig(num_workers=1, use_gpu=not self.is_rehearsal, **more)

    def synchronize(self) -> None:
        """Wait for every kernel that was started."""
        if not self.is_rehearsal:
            import torch

            torch.cuda.synchronize()

    def plain(self, *command: str) -> dict[str, Any]:
        """Run a program of this folder without Heliostat; what it printed last, as JSON."""
        done = subprocess.run(
            [sys.executable, *command], cwd=HERE, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result


def at_least(
    figure: str, value: float, unit: str, plain: float, part: float, *, about: str = "the plain way"
) -> Row:
    """A speed that must reach a part of the plain way's."""
    rule = f"at least {part:.0%} of {about}"
    holds = value >= part * plain
    return Row(figure, round(value, 3), unit, round(plain, 3), rule, holds, is_about_time=True)


def at_most(figure: str, value: float, unit: str, bound: float, plain: float | None = None) -> Row:
    """An amount that must stay below a bound."""
    rounded = None if plain is None else round(plain, 3)
    rule = f"at most {bound:.4g} {unit}".rstrip()
    return Row(figure, round(value, 3), unit, rounded, rule, value <= bound, is_about_time=True)


def holds(figure: str, value: Any, expected: Any) -> Row:
    """A value that must be exactly this one."""
    shown = value if isinstance(value, bool | int | float | str | None) else repr(value)
    return Row(figure, shown, rule=f"is {expected!r}", holds=value == expected)


def rows_as_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


# ---- the driver's own figures, read without Heliostat ----


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Driver:
    """NVIDIA's management library on the first GPU that this process may use."""

    NAMES = ("libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1")

    def __init__(self) -> None:
        self._library = self._load()
        self._call("nvmlInit_v2")
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self.count = count.value
        self._device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self._device))

    @classmethod
    def _load(cls) -> Any:
        for name in cls.NAMES:
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise OSError(f"none of {', '.join(cls.NAMES)} can be loaded: is the driver installed?")

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise OSError(f"{name} answered {code}")

    def memory_used(self) -> int:
        """Bytes in use, whoever uses them."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return memory.used

    def memory_total(self) -> int:
        """Bytes that the GPU has."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return memory.total

    def utilization(self) -> int:
        """Percentage of the last sample period during which a kernel ran."""
        rates = _Utilization()
        self._call("nvmlDeviceGetUtilizationRates", self._device, ctypes.byref(rates))
        return rates.gpu


@contextmanager
def busyness(bench: Bench) -> Iterator[list[tuple[float, int]]]:
    """Collects the GPU's utilisation in percent ten times a second, each with its time by ``perf_counter``,
    while the block runs; nothing in a rehearsal.
    """
    seen: list[tuple[float, int]] = []
    if bench.is_rehearsal:
        yield seen
        return
    driver, ended = Driver(), threading.Event()

    def sample() -> None:
        while not ended.wait(0.1):
            seen.append((time.perf_counter(), driver.utilization()))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and its result."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def wait_until(holds: Callable[[], bool], limit_s: float) -> float:
    """Seconds until a condition holds; the limit when it does not."""
    began = time.perf_counter()
    while not holds() and time.perf_counter() - began < limit_s:
        time.sleep(0.05)
    return time.perf_counter() - began
