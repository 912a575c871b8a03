"""The worker: an actor whose main thread runs the training function.

The function runs on the main thread, as in a plain script, so signal handlers, data loader workers
and CUDA behave as users know them. While it runs the actor takes no calls: what has to reach the
worker meanwhile comes through the control thread (see ``control``).
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat.train.context import set_session
from heliostat.train.errors import AttemptEnded, WorkerStartError
from heliostat.train.messages import Assignment, Job, Outcome, WorkerInfo
from heliostat.train.steps.clock import StepClock, set_clock
from heliostat.train.worker.control import Control
from heliostat.train.worker.session import WorkerSession

# Libraries that keep state of a run in their modules: a process that has loaded one of them is
# replaced, not reused, after a failure.
_STATEFUL = (
    "accelerate",
    "deepspeed",
    "jax",
    "lightgbm",
    "lightning",
    "megatron",
    "pytorch_lightning",
    "torchft",
    "xgboost",
)


# How long the coordinator is waited for that hears of the end.
_LEAVE_S = 2.0

# The stream of a worker's errors, whatever stands in ``sys.stderr``.
_STDERR = 2


class TrainWorker:
    """Runs any number of attempts, one after the other."""

    def __init__(self, preload: list[str]) -> None:
        """Import what every training function of the backend needs, all workers at once."""
        # A process that its libraries abort, such as NCCL's watchdog after a timeout, says where it was.
        faulthandler.enable(file=_STDERR, all_threads=True)
        for name in preload:
            with contextlib.suppress(ImportError):  # the function says what it misses
                importlib.import_module(name)

    def info(self) -> WorkerInfo:
        """Say where this worker runs."""
        runtime = ray.get_runtime_context()
        gpus = runtime.get_accelerator_ids().get("GPU", [])
        return WorkerInfo(
            node_id=runtime.get_node_id(),
            node_ip=ray.util.get_node_ip_address(),
            hostname=socket.gethostname(),
            pid=os.getpid(),
            gpu_ids=[str(g) for g in gpus],
            worker_id=runtime.get_worker_id(),
            actor_id=runtime.get_actor_id() or "",
        )

    def execute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` here; backends prepare the workers with it."""
        return function(*args, **kwargs)

    def run(self, assignment: Assignment, job: list[Any], coordinator: Any) -> Outcome:
        """Run the training function as ``assignment`` says. Never raises."""
        start = time.monotonic()
        seat = assignment.seat
        clock = StepClock() if assignment.settings.step_times else None
        control = Control(
            coordinator,
            assignment.attempt,
            assignment.world_rank,
            seat.incarnation if seat else 0,
            clock,
        )
        session: WorkerSession | None = None
        outcome = Outcome(ok=False)
        try:
            _enter(assignment)
            loaded: Job = ray.get(job[0])
            session = WorkerSession(assignment, coordinator, loaded.validation)
            set_session(session)
            control.on_save = session.ask_to_save
            set_clock(clock)
            value = control.guard(lambda: _call(loaded, session))
            outcome.ok = True
            if assignment.world_rank == 0:  # nobody looks at what the others return
                outcome.value, outcome.note = _sendable(value)
        except AttemptEnded:
            outcome.unwound = True
        except BaseException as error:
            described, portable = _describe(error), _portable(error)
            if _is_dismissed(coordinator, assignment.attempt):
                outcome.unwound = True
            else:
                outcome.traceback, outcome.error = described, portable
        finally:
            outcome.seconds = time.monotonic() - start
            outcome.reusable = assignment.settings.reuse_workers and not any(
                name in sys.modules for name in _STATEFUL
            )
            set_session(None)
            set_clock(None)
            if session is not None:
                session.close()
        if outcome.ok:
            beat = clock.beat() if clock is not None else None
            left = coordinator.leave.remote(assignment.attempt, assignment.world_rank, beat)
            ray.wait([left], timeout=_LEAVE_S)
        else:
            gc.collect()  # what the function held (process groups) closes its connections now
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        return outcome


def _is_dismissed(coordinator: Any, attempt: int) -> bool:
    """Whether all were told to end, and this rank has noticed it by the end of a peer."""
    try:
        told: bool = ray.get(coordinator.is_dismissed.remote(attempt))
    except ray.exceptions.RayError:
        return False  # the driver deals with a coordinator that is gone
    return told


def _call(job: Job, session: WorkerSession) -> Any:
    with job.backend_config.train_func_context():
        value = job.function(job.config) if job.takes_config else job.function()
        session.finish()
        return value


def _sendable(value: Any) -> tuple[Any, str]:
    """Return the value of the training function; None and the reason, where it cannot be sent.

    The training has succeeded by then: a result without this value is better than none.
    """
    if value is None or isinstance(value, str | int | float):
        return value, ""
    try:
        ray.cloudpickle.dumps(value)
    except Exception as error:
        return None, (
            f"Result.return_value is None, since the {type(value).__name__} that the training "
            f"function returned on rank 0 cannot be sent: {error}. Return plain values, and save "
            "models into a checkpoint."
        )
    return value, ""


def _enter(assignment: Assignment) -> None:
    """Environment variables, working directory, and a look at the storage."""
    os.environ.update(
        RANK=str(assignment.world_rank),
        WORLD_SIZE=str(assignment.world_size),
        LOCAL_RANK=str(assignment.local_rank),
        LOCAL_WORLD_SIZE=str(assignment.local_world_size),
        NODE_RANK=str(assignment.node_rank),
    )
    if assignment.working_dir is not None:
        os.makedirs(assignment.working_dir, exist_ok=True)
        os.chdir(assignment.working_dir)
    if not assignment.storage.sees_marker():
        raise WorkerStartError(
            f"The node of rank {assignment.world_rank} ({socket.gethostname()}) does not see the "
            f"files of the run at {assignment.storage.path}. Choose a storage_path that all nodes "
            "share: a network mount, or a URI such as s3://bucket/dir."
        )


def _describe(error: BaseException) -> str:
    """The traceback from the training function on, without the frames that called it."""
    here = os.path.abspath(__file__)
    tb = error.__traceback__
    inner = tb
    while tb is not None:
        if os.path.abspath(tb.tb_frame.f_code.co_filename) == here and tb.tb_next is not None:
            inner = tb.tb_next
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, inner))


def _portable(error: BaseException) -> Exception:
    """The exception as something that can be sent, without the frames that it holds."""
    for link in (error, error.__cause__, error.__context__):
        if link is not None and link.__traceback__ is not None:
            traceback.clear_frames(link.__traceback__)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return RuntimeError(f"the training function ended with {error!r}")
    try:
        from heliostat import cloudpickle

        copy = cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:
        copy = None
    if isinstance(copy, Exception):
        return copy
    return RuntimeError(f"{type(error).__name__}: {error}")
