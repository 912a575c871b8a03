"""Whether a session gets slower or larger with age: `python bench/aging.py`; minutes, not hours.

Rates of the first minute against those after millions of tasks, actors and objects, and the memory of
driver and daemon before and after.
"""

import argparse
import gc
import os
import time

from core import descendants, memory_mb, show, window


def rates(ray, task, actor):
    def batch(start):
        return lambda: ray.get([start() for _ in range(1000)])

    rows = {
        "tasks async": (batch(task.remote), 1000),
        "tasks sync": (lambda: ray.get(task.remote()), 1),
        "actor async": (batch(actor.small.remote), 1000),
        "put small": (lambda: ray.put(0), 1),
    }
    out = {}
    for name, (fn, mult) in rows.items():
        window(fn, 0.3)
        out[name] = max(mult * window(fn, 0.7) for _ in range(5))
    return out


def memory():
    gc.collect()
    session = [p for p in descendants(os.getppid()) if p != os.getpid()]
    return {
        "driver": memory_mb(os.getpid(), "Rss:"),
        "everything else": sum(memory_mb(p, "Pss:") for p in session),
    }


def main(args):
    import ray

    ray.init(address="local", num_cpus=args.num_cpus, logging_level="ERROR", log_to_driver=False)

    @ray.remote
    def small():
        return b"ok"

    @ray.remote(num_cpus=0)
    class Server:
        def small(self):
            return b"ok"

    actor = Server.remote()
    rates(ray, small, actor)
    first, before = rates(ray, small, actor), memory()
    began = time.monotonic()

    def age(what, count, step, fn):
        for done in range(0, count, step):
            fn()
            if time.monotonic() - age.said > 10:
                age.said = time.monotonic()
                print(f"{age.said - began:4.0f} s: {done:,} of {count:,} {what}", flush=True)

    age.said = began
    age("tasks", args.tasks, 10_000, lambda: ray.get([small.remote() for _ in range(10_000)]))
    age("objects", args.objects, 10_000, lambda: [ray.put(i) for i in range(10_000)])

    def actors():
        them = [Server.remote() for _ in range(20)]
        ray.get([one.small.remote() for one in them])

    age("actors", args.actors, 20, actors)
    time.sleep(2)  # the last actors' processes end
    last, after = rates(ray, small, actor), memory()
    ray.shutdown()

    print(f"\n{args.tasks:,} tasks, {args.objects:,} objects, {args.actors:,} actors later:")
    print("| | at the beginning | at the end | |\n|---|--:|--:|--:|")
    is_flat = True
    for name, rate in first.items():
        is_flat &= last[name] > 0.9 * rate
        print(f"| {name}, 1/s | {show(rate)} | {show(last[name])} | {last[name] / rate:.2f} |")
    for name, size in before.items():
        is_flat &= after[name] < size + 20
        print(
            f"| memory of {name}, MB | {size:.1f} | {after[name]:.1f} | {after[name] - size:+.1f} |"
        )
    print("flat" if is_flat else "NOT flat: a rate fell by a tenth or memory grew by 20 MB")
    return not is_flat


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    for name, default in dict(
        tasks=5_000_000, objects=1_000_000, actors=100_000, num_cpus=4
    ).items():
        p.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    raise SystemExit(main(p.parse_args()))
