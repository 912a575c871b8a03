"""Tasks and actors: the two ways to run something in parallel.

python examples/tasks_and_actors.py
python examples/tasks_and_actors.py --address auto     # on the cluster that `heliostat start` made

A task is a function that runs somewhere and leaves nothing behind; an actor is an object that lives
in a process of its own and keeps its state between calls.
"""

from __future__ import annotations

import argparse

import heliostat as ray


@ray.remote
def square(x: int) -> int:
    """A task."""
    return x * x


@ray.remote
class Counter:
    """An actor."""

    def __init__(self) -> None:
        self.i = 0

    def get(self) -> int:
        return self.i

    def incr(self, value: int) -> None:
        self.i += value


@ray.remote(num_cpus=1, resources={"slot": 1})
def exclusive(name: str) -> str:
    """A task that waits until what it asks for is free."""
    return f"{name} had the slot"


def main() -> None:
    """Call them, and see what the cluster had to offer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--address", help="'auto' for the running cluster, or HOST:PORT")
    options = parser.parse_args()
    if options.address:
        # The variables reach every task and actor of this job.
        ray.init(
            address=options.address,
            runtime_env={"env_vars": {"RAY_RUNTIME_ENV_CREATE_WORKING_DIR": "0"}},
        )
    else:
        ray.init(num_cpus=4, resources={"slot": 1})

    # Four at once; `get` waits for them and brings the results, or the first error.
    futures = [square.remote(i) for i in range(4)]
    print("squares:", ray.get(futures))

    # Calls of one actor run in the order in which they were made.
    counter = Counter.remote()
    for _ in range(10):
        counter.incr.remote(1)
    print("counter:", ray.get(counter.get.remote()))
    # What an actor has reserved is free again once it is gone.
    ray.kill(counter)

    if "slot" in ray.cluster_resources():
        print("slots:", ray.get([exclusive.remote(name) for name in ("first", "second")]))

    # The two slips that everybody makes once.
    try:
        square(3)
    except TypeError as error:
        print("without .remote():", str(error).splitlines()[0])
    print("without get():", type(square.remote(3)).__name__, "- the result is still on its way")
    ray.shutdown()


if __name__ == "__main__":
    main()
