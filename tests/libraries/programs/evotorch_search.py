"""EvoTorch: an evolution whose candidates are judged by a pool of actors."""

import torch
from evotorch import Problem
from evotorch.algorithms import SNES
from proof import on_the_cluster


def sphere(x):
    return torch.sum(x**2)


problem = Problem("min", sphere, solution_length=5, initial_bounds=(-1, 1), num_actors=2)
search = SNES(problem, stdev_init=1.0, popsize=20)
search.run(40)
assert search.status["best_eval"] < 0.2
on_the_cluster("EvaluationActor")
