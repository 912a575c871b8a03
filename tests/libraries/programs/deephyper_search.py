"""DeepHyper: a Bayesian search whose evaluations are tasks."""

from deephyper.evaluator import Evaluator
from deephyper.hpo import CBO, HpProblem
from proof import ran


def run(job):
    return -((job.parameters["x"] - 2) ** 2)


problem = HpProblem()
problem.add_hyperparameter((-5.0, 5.0), "x")
evaluator = Evaluator.create(
    run, method="ray", method_kwargs={"num_cpus": 2, "num_cpus_per_task": 1}
)
found = CBO(problem, random_state=1).search(evaluator, max_evals=12)
assert len(found) >= 12
assert found["objective"].max() > -4
assert ran()
print("cluster=yes")
