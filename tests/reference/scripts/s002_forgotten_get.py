"""The guide's second common issue: without ``ray.get`` the error of a task is not raised."""

import ray

ray.init(address="local", num_cpus=1)


@ray.remote
def fails():
    raise ValueError("nobody asked")


futures = [fails.remote() for _ in range(2)]
print("reached=the end")
