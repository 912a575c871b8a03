"""From the logical plan to operators at work: steps that can share a task are joined into a stage."""

from __future__ import annotations

from heliostat.data.context import DataContext
from heliostat.data.execute.actor_pool import ActorLauncher
from heliostat.data.execute.exchange import ExchangeOperator, Tasks
from heliostat.data.execute.launch import TaskLauncher
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.map_operator import MapOperator
from heliostat.data.execute.physical import (
    InputOperator,
    LimitOperator,
    MixOperator,
    Physical,
    UnionOperator,
)
from heliostat.data.execute.work import Stage
from heliostat.data.plan.operators import (
    ActorPoolStrategy,
    Exchange,
    InputBlocks,
    Limit,
    Map,
    Mix,
    MixStoppingCondition,
    Operator,
    Ordered,
    Read,
    Rebundle,
    Union,
    is_plain,
)


class Planner:
    """Makes the operators of one execution, sources first."""

    def __init__(self, limits: Limits, context: DataContext, execution: int = 0) -> None:
        self._limits, self._context, self._execution = limits, context, execution
        self.operators: list[Physical] = []

    def make(self, plan: Operator) -> Physical:
        """The operator for a plan, after those that it reads."""
        made = self._make(plan)
        self.operators.append(made)
        return made

    def _make(self, plan: Operator) -> Physical:
        if isinstance(plan, Map | Read):
            return self._stage(plan)
        if isinstance(plan, InputBlocks):
            return InputOperator(plan.bundles)
        if isinstance(plan, Exchange):
            return self._exchange(plan, [])
        sources = [self.make(source) for source in plan.inputs]
        if isinstance(plan, Limit):
            return LimitOperator(plan.name, sources[0], plan.rows)
        if isinstance(plan, Union):
            return UnionOperator(sources)
        if isinstance(plan, Mix):
            shortest = plan.stopping is MixStoppingCondition.STOP_ON_SHORTEST
            return MixOperator(sources, plan.weights, shortest)
        assert isinstance(plan, Rebundle), plan
        launcher = TaskLauncher(self._new_stage([]), {}, self._limits, None)
        return MapOperator(
            plan.name, sources, launcher, self._limits, self._context, exact_rows=plan.rows
        )

    def _exchange(self, plan: Exchange, following: list[Map]) -> Physical:
        """An exchange whose last tasks do what follows, too."""
        sources = [self.make(source) for source in plan.inputs]
        name = "->".join(part.name for part in (plan, *following))
        tasks = Tasks(name, self._limits, self._context)
        tasks.following = [step.transform for step in following]
        tasks.execution = self._execution
        return ExchangeOperator(name, sources, plan.run, tasks)

    def _new_stage(self, steps: list[Map]) -> Stage:
        transforms = [step.transform for step in steps]
        return Stage(transforms, self._limits.block_bytes, self._context, self._execution)

    def _stage(self, plan: Map | Read) -> Physical:
        steps, source, reads = chain(plan)
        parts: list[Operator] = [source, *steps] if reads else [*steps]
        name = "->".join(part.name for part in parts)
        stage = self._new_stage(steps)
        if isinstance(source, Read) and reads:
            # Read and steps are one task, which asks for what both of them need.
            merged = {**source.remote_args, **(steps[0].remote_args if steps else {})}
            size = source.concurrency or (_task_size(steps[0]) if steps else None)
            launcher = TaskLauncher(stage, merged, self._limits, size)
            tasks = source.tasks
            if isinstance(tasks, Ordered):
                tasks = tasks.of_execution(self._execution)
            return MapOperator(name, [], launcher, self._limits, self._context, reads=tasks())
        if isinstance(source, Exchange) and follow(steps, source, self._context):
            return self._exchange(source, steps)
        last = steps[0]
        remote_args = dict(last.remote_args)
        # Called once for each execution, as late as can be: it may look at the cluster.
        if last.remote_args_fn is not None:
            remote_args.update(last.remote_args_fn())
        made: TaskLauncher | ActorLauncher
        if isinstance(last.compute, ActorPoolStrategy):
            made = ActorLauncher(stage, remote_args, self._limits, last.compute)
        else:
            made = TaskLauncher(stage, remote_args, self._limits, _task_size(last))
        input_operator = self.make(source)
        return MapOperator(
            name,
            [input_operator],
            made,
            self._limits,
            self._context,
            min_rows=steps[0].min_rows,
            min_bytes=steps[0].min_bytes,
        )


def _task_size(step: Map) -> int | None:
    return None if isinstance(step.compute, ActorPoolStrategy) else step.compute.size


def chain(plan: Map | Read) -> tuple[list[Map], Operator, bool]:
    """The steps that run in one task, first to last; what they read; whether that is a `Read` which
    runs in the same task.
    """
    steps: list[Map] = []
    at: Operator = plan
    # Steps in one task pass tables on in memory: a block less in the store for each.
    while isinstance(at, Map) and (not steps or _joins(at, steps[0])):
        steps.insert(0, at)
        at = at.source
    return steps, at, isinstance(at, Read) and (not steps or _reads_in(at, steps[0]))


def _joins(earlier: Map, later: Map) -> bool:
    if isinstance(later.compute, ActorPoolStrategy) or _is_apart(later):
        return False
    return (
        earlier.compute == later.compute
        and _plain(earlier.remote_args) == _plain(later.remote_args)
        and earlier.remote_args_fn is None
    )


def _reads_in(read: Read, step: Map) -> bool:
    if isinstance(step.compute, ActorPoolStrategy) or _is_apart(step):
        return False
    size = step.compute.size
    alike = not read.remote_args or _plain(read.remote_args) == _plain(step.remote_args)
    return alike and (read.concurrency is None or read.concurrency == size) and size is None


def _is_apart(step: Map) -> bool:
    return step.begins_stage or step.remote_args_fn is not None


def _plain(remote_args: dict[str, object]) -> dict[str, object]:
    # One CPU is what a task without the option takes: the two are the same.
    return {k: v for k, v in remote_args.items() if not (k == "num_cpus" and v == 1)}


def follow(steps: list[Map], exchange: Exchange, context: DataContext) -> bool:
    """Whether steps may run in the last tasks of the exchange before them.

    The user's functions may not: they may make more than the budget allows, or fail for a block.
    """
    return (
        getattr(exchange.run, "ends_in_tasks", False)
        and not getattr(exchange.run, "remote_args", None)
        and not context.max_errored_blocks
        and all(is_plain(step) and step.transform.udf is None for step in steps)
    )
