"""Prefect: a flow whose tasks run on Ray, and in threads."""

import os

from prefect import flow, task
from prefect.task_runners import ThreadPoolTaskRunner
from prefect_ray import RayTaskRunner


@task
def square(number):
    return number * number, os.getpid()


@task
def add(results):
    return sum(number for number, _ in results)


def make(runner):
    @flow(task_runner=runner)
    def squares():
        futures = [square.submit(number) for number in range(6)]
        return [future.result() for future in futures], add.submit(futures).result()

    return squares


if __name__ == "__main__":
    there, total_there = make(RayTaskRunner(init_kwargs={"num_cpus": 2}))()
    here, total_here = make(ThreadPoolTaskRunner())()
    assert [number for number, _ in there] == [number for number, _ in here]
    assert total_there == total_here == 55
    assert os.getpid() not in {pid for _, pid in there}
    print("compared=7")
