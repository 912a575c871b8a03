"""Replicas that follow the load, and a picture of them and of the latency over time.

python examples/autoscaling.py
python examples/autoscaling.py --picture autoscaling.svg --seconds 40

Callers come in three waves: few, many, few. Each asks again once it has its answer. A replica has two
requests at a time, each for a tenth of a second; beyond that they wait. So with many callers the latency
rises first, then the replicas do, then the latency falls again.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import heliostat as ray
from heliostat import serve
from heliostat.serve.handle import DeploymentHandle

REQUEST_S = 0.1
FEW, MANY = 3, 24
# Parts of the time until which there are so many callers.
WAVES = [(0.2, FEW), (0.6, MANY), (1.0, FEW)]
BIN_S = 0.5


@serve.deployment(
    max_ongoing_requests=2,
    ray_actor_options={"num_cpus": 0.1},
    autoscaling_config={
        "min_replicas": 1,
        "max_replicas": 10,
        "target_ongoing_requests": 2,
        "look_back_period_s": 1,
        "metrics_interval_s": 0.5,
        "upscale_delay_s": 1,
        "downscale_delay_s": 3,
    },
)
class Model:
    """Stands for a model: what it does is to take its time."""

    async def __call__(self) -> None:
        await asyncio.sleep(REQUEST_S)


@dataclass
class Seen:
    """What happened when, in seconds from the beginning."""

    latencies: list[tuple[float, float]] = field(default_factory=list)
    replicas: list[tuple[float, int]] = field(default_factory=list)
    callers: list[tuple[float, int]] = field(default_factory=list)


def callers_at(part: float) -> int:
    """How many callers there are in that part of the time."""
    return next((number for until, number in WAVES if part < until), 0)


async def watch(handle: DeploymentHandle, seconds: float) -> Seen:
    """Have callers come and go, and note what they see."""
    seen, begin = Seen(), time.monotonic()

    def now() -> float:
        return time.monotonic() - begin

    async def call(number: int) -> None:
        while now() < seconds:
            if number >= callers_at(now() / seconds):
                await asyncio.sleep(0.05)
                continue
            asked = now()
            await handle.remote()
            if now() < seconds:
                seen.latencies.append((now(), now() - asked))

    async def count() -> None:
        loop = asyncio.get_running_loop()
        while now() < seconds:
            status = await loop.run_in_executor(None, serve.status)
            states = status.applications["default"].deployments["Model"].replica_states
            running = sum(number for state, number in states.items() if state == "RUNNING")
            seen.replicas.append((now(), running))
            seen.callers.append((now(), callers_at(now() / seconds)))
            await asyncio.sleep(0.2)

    await asyncio.gather(count(), *map(call, range(MANY)))
    return seen


def by_time(latencies: list[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """The median and the 95th percentile of the latencies, in milliseconds, for each half second."""
    bins: dict[int, list[float]] = {}
    for when, latency in latencies:
        bins.setdefault(int(when / BIN_S), []).append(latency * 1e3)
    rows = []
    for place, values in sorted(bins.items()):
        values.sort()
        worst = values[min(len(values) - 1, int(0.95 * len(values)))]
        rows.append(((place + 0.5) * BIN_S, statistics.median(values), worst))
    return rows


WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 170, 60, 30, 60


def panel(
    top: float,
    title: str,
    seconds: float,
    most: float,
    lines: list[tuple[str, str, list[tuple[float, float]], bool]],
) -> list[str]:
    """A panel: a title, two scales, and lines, each with a name, a colour, points, and steps or not."""
    right, bottom = LEFT + WIDTH, top + HEIGHT
    parts = [f'<text x="{LEFT}" y="{top - 10}" class="title">{title}</text>']
    for place in range(5):
        value, height = most * place / 4, bottom - HEIGHT * place / 4
        parts.append(f'<path d="M{LEFT} {height:.1f}H{right}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4:.1f}" class="y">{value:g}</text>')
    for place in range(0, int(seconds) + 1, max(1, int(seconds) // 8)):
        across = LEFT + WIDTH * place / seconds
        parts.append(f'<text x="{across:.1f}" y="{bottom + 16}" class="x">{place} s</text>')
    for row, (name, colour, points, is_stepped) in enumerate(lines):
        path = ""
        for when, value in points:
            across, height = LEFT + WIDTH * when / seconds, bottom - HEIGHT * value / most
            across = f"{across:.1f}"
            path += f"H{across}V{height:.1f}" if path and is_stepped else f"L{across} {height:.1f}"
        parts.append(f'<path d="M{path[1:]}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = right - 170 + 90 * row
        parts.append(f'<text x="{at}" y="{top - 10}" style="fill:{colour}">{name}</text>')
    return parts


def picture(seen: Seen, seconds: float) -> str:
    """Both panels as SVG."""
    rows = by_time(seen.latencies)
    most = 8 * -(-max(MANY, *(number for _, number in seen.replicas)) // 8)
    slowest = 200 * -(-int(max(worst for _, _, worst in rows)) // 200)
    counts = [
        ("callers", "#888", [(t, float(n)) for t, n in seen.callers], True),
        ("replicas", "#c2410c", [(t, float(n)) for t, n in seen.replicas], True),
    ]
    times = [
        ("median", "#1d4ed8", [(t, middle) for t, middle, _ in rows], False),
        ("95 %", "#7dd3fc", [(t, worst) for t, _, worst in rows], False),
    ]
    parts = panel(TOP, "Callers and replicas", seconds, most, counts)
    parts += panel(TOP + HEIGHT + GAP, "Latency in ms", seconds, slowest, times)
    size = f"0 0 {LEFT + WIDTH + 20} {TOP + 2 * HEIGHT + GAP + 30}"
    style = (
        "text{font:12px sans-serif;fill:#555}.title{font-size:14px;fill:#222}"
        ".x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#ddd;fill:none}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}">',
            f"<style>{style}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--picture", type=Path, help="write the picture there, as SVG")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()

    ray.init()
    serve.start(http_options={"port": given.port})
    handle = serve.run(Model.bind())
    seen = asyncio.run(watch(handle, given.seconds))
    serve.shutdown()

    for when, middle, worst in by_time(seen.latencies):
        replicas = next((number for t, number in reversed(seen.replicas) if t <= when), 1)
        number = callers_at(when / given.seconds)
        print(
            f"{when:5.1f} s: {number:2} callers, {replicas:2} replicas, "
            f"median {middle:4.0f} ms, 95 % {worst:4.0f} ms"
        )
    print(f"most replicas: {max(number for _, number in seen.replicas)}")
    print(f"replicas at the end: {seen.replicas[-1][1]}")
    if given.picture is not None:
        given.picture.write_text(picture(seen, given.seconds))
        print(f"picture: {given.picture}")


if __name__ == "__main__":
    main()
