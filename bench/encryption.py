"""What encryption between machines costs: two machines of namespaces, in the clear and encrypted by turns.

    PYTHONPATH=. python bench/encryption.py [--rounds 5]        as root

Prints a Markdown table: the median of the rounds each way, and the encrypted one as a part of the other.
"""

import argparse
import statistics

from tests.machines.machines import Machines

DRIVER = """
    import time
    import numpy as np
    import ray

    ray.init(log_to_driver=False)
    MIB = 1 << 20

    @ray.remote(num_cpus=0, resources={"m1": 1})
    class Far:
        def nothing(self):
            return None
        def take(self, box):
            return len(ray.get(box[0]))
        def echo(self, value):
            return value

    far = Far.remote()
    ray.get(far.nothing.remote())

    def rate(call, unit, seconds=2.0):
        call()
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            call()
            count += unit
        return count / (time.monotonic() - began)

    text = b"x" * 50_000
    print(f"calls, one at a time (/s)={rate(lambda: ray.get(far.nothing.remote()), 1)}")
    print(f"calls, 1000 at once (/s)="
          f"{rate(lambda: ray.get([far.nothing.remote() for _ in range(1000)]), 1000)}")
    print(f"calls with 50 kB each way (/s)={rate(lambda: ray.get(far.echo.remote(text)), 1)}")
    for size in (1, 100):
        rates = []
        for _ in range(6 if size > 1 else 50):
            ref = ray.put(np.random.bytes(size * MIB))
            began = time.monotonic()
            ray.get(far.take.remote([ref]))
            rates.append(size / 1024 / (time.monotonic() - began))
            del ref
        print(f"objects of {size} MiB (GiB/s)={sorted(rates)[len(rates) // 2]}")
"""


def measured(tls: bool) -> dict[str, float]:
    field = Machines(2)
    try:
        head, other = field.all
        options = ("--object-store-memory=1000000000", *(("--tls=auto",) if tls else ()))
        head.start_head("--include-dashboard=false", *options)
        other.join(head, *options)
        driver = head.start_script(DRIVER).finish(120).check()
        lines = (line.partition("=") for line in driver.stdout.splitlines() if "=" in line)
        return {name: float(value) for name, _, value in lines}
    finally:
        field.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    plain, encrypted = [], []
    for _ in range(args.rounds):
        plain.append(measured(False))
        encrypted.append(measured(True))
    print("| row | in the clear | encrypted | ratio |\n|---|---|---|---|")
    for row in plain[0]:
        clear = statistics.median(found[row] for found in plain)
        secret = statistics.median(found[row] for found in encrypted)
        print(f"| {row} | {clear:,.2f} | {secret:,.2f} | {secret / clear:.2f} |")


if __name__ == "__main__":
    main()
