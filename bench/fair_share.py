"""Whether a session behaves: `python bench/fair_share.py`; about a minute, public API only.

The cost of idle workers, how rates grow with the number of threads and drivers that call at once, and
whether each of them gets its share.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from core import cpu_seconds, descendants, memory_mb, show

CALLER = """
import json, sys, threading, time
import ray
address, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
ray.init(address=address, logging_level="ERROR", log_to_driver=False)
start = ray.remote(lambda: b"ok").remote
ray.get([start() for _ in range(1000)])
done = [0] * threads
print("ready", flush=True)
sys.stdin.readline()
until = time.monotonic() + seconds
def call(place):
    while time.monotonic() < until:
        ray.get([start() for _ in range(100)])
        done[place] += 100
them = [threading.Thread(target=call, args=(place,)) for place in range(threads)]
for one in them: one.start()
for one in them: one.join()
print(json.dumps(done), flush=True)
"""


def idle_workers(ray, count, seconds):
    """CPU of everything but the driver, in percent of a core, with so many workers and no work."""
    inside = ray.remote(num_cpus=1)(lambda: time.sleep(1) or os.getpid())
    pids = set(ray.get([inside.remote() for _ in range(count)]))
    time.sleep(2)
    them = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
    alive = pids.intersection(them)
    before, began = sum(map(cpu_seconds, them)), time.monotonic()
    time.sleep(seconds)
    left = [pid for pid in them if os.path.exists(f"/proc/{pid}")]
    used = sum(map(cpu_seconds, left)) - before
    size = sum(memory_mb(pid, "Pss:") for pid in left)
    return len(alive), 100 * used / (time.monotonic() - began), size


def callers(address, drivers, threads, seconds):
    """Calls per second of each thread of each driver, all at once."""
    command = [sys.executable, "-c", CALLER, address, str(threads), str(seconds)]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    them = [subprocess.Popen(command, **pipes) for _ in range(drivers)]
    for one in them:
        assert one.stdout.readline() == "ready\n"
    for one in them:
        one.stdin.write("go\n")
        one.stdin.flush()
    rates = [done / seconds for one in them for done in json.loads(one.stdout.readline())]
    for one in them:
        one.stdin.close()
        one.wait()
    return rates


def main(args):
    import ray

    context = ray.init(
        address="local", num_cpus=args.workers, logging_level="ERROR", log_to_driver=False
    )
    count, used, size = idle_workers(ray, args.workers, args.seconds)
    print(f"{count} idle workers: {used:.2f} % of a core, {size:.0f} MB with the daemon (PSS)\n")

    print("| drivers x threads | calls/s | slowest / mean | fastest / mean |\n|---|--:|--:|--:|")
    for drivers, threads in ((1, 1), (1, 2), (1, 4), (1, 16), (2, 1), (4, 1), (8, 1), (4, 4)):
        rates = callers(context.address_info["address"], drivers, threads, args.seconds)
        mean = sum(rates) / len(rates)
        print(
            f"| {drivers} x {threads} | {show(sum(rates))} "
            f"| {min(rates) / mean:.2f} | {max(rates) / mean:.2f} |",
            flush=True,
        )
    ray.shutdown()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=64)
    p.add_argument("--seconds", type=float, default=5)
    main(p.parse_args())
