"""Exceptions: the tree, how errors of tasks reach the caller, and how they read."""

from __future__ import annotations

import builtins
import os
import re
import signal
import sys
from typing import Any

import pytest
import ray
from ray import exceptions
from ray.exceptions import RayError, RayTaskError

from tests.helpers.samples import SampleError

pytestmark = pytest.mark.usefixtures("ray_start")

TREE = {
    "RayError": ["Exception"],
    "RayTaskError": ["RayError"],
    "RayActorError": ["RayError"],
    "ActorDiedError": ["RayActorError"],
    "ActorUnavailableError": ["RayActorError"],
    "TaskCancelledError": ["RayError"],
    "WorkerCrashedError": ["RayError"],
    "GetTimeoutError": ["RayError", "TimeoutError"],
    "ObjectLostError": ["RayError"],
    "ObjectFetchTimedOutError": ["ObjectLostError"],
    "ObjectFreedError": ["ObjectLostError"],
    "OwnerDiedError": ["ObjectLostError"],
    "ObjectReconstructionFailedError": ["ObjectLostError"],
    "ReferenceCountingAssertionError": ["ObjectLostError", "AssertionError"],
    "ObjectStoreFullError": ["RayError"],
    "OutOfDiskError": ["RayError"],
    "OutOfMemoryError": ["RayError"],
    "NodeDiedError": ["RayError"],
    "LocalRayletDiedError": ["RayError"],
    "RuntimeEnvSetupError": ["RayError"],
    "TaskPlacementGroupRemoved": ["RayError"],
    "ActorPlacementGroupRemoved": ["RayError"],
    "PendingCallsLimitExceeded": ["RayError"],
    "TaskUnschedulableError": ["RayError"],
    "ActorUnschedulableError": ["RayError"],
    "RaySystemError": ["RayError"],
    "AuthenticationError": ["RayError"],
    "UserCodeException": ["RayError"],
    "UnserializableException": ["RayError"],
    "CrossLanguageError": ["RayError"],
    "ActorAlreadyExistsError": ["RayError", "ValueError"],
    "ActorHandleNotFoundError": ["RayError", "ValueError"],
    "RpcError": ["RayError"],
    "PlasmaObjectNotAvailable": ["RayError"],
    "AsyncioActorExit": ["RayError"],
    "ObjectRefStreamEndOfStreamError": ["RayError"],
}


@pytest.mark.contract("F0.15")
@pytest.mark.parametrize(("name", "bases"), TREE.items(), ids=TREE)
def test_exception_tree(name: str, bases: list[str]) -> None:
    cls = getattr(exceptions, name)
    assert issubclass(cls, Exception)
    for base in bases:
        expected = getattr(exceptions, base, None) or getattr(builtins, base)
        assert issubclass(cls, expected)


@ray.remote
def raises(error: Exception) -> None:
    raise error


@ray.remote
def use(value: Any) -> Any:
    return value


@pytest.mark.contract("F0.16")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("v"),
        KeyError("k"),
        OSError(2, "gone"),
        StopIteration("s"),
        ZeroDivisionError("z"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "why"),
        AssertionError(),
        MemoryError("m"),
        SampleError(7),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_arrive_as_their_own_class_and_as_ray_task_error(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        ray.get(raises.remote(error))
    raised = caught.value
    assert isinstance(raised, RayTaskError)
    assert type(raised).__name__ == f"RayTaskError({type(error).__name__})"
    assert type(raised.cause) is type(error)
    assert raised.cause.args == error.args


@pytest.mark.contract("F0.16")
def test_attributes_fall_through_to_the_cause() -> None:
    with pytest.raises(SampleError) as caught:
        ray.get(raises.remote(SampleError(41)))
    assert caught.value.code == 41
    assert caught.value.cause.code == 41


@pytest.mark.contract("F0.16")
def test_the_message_is_the_remote_traceback() -> None:
    def inner_frame() -> None:
        raise ValueError("deep down")

    @ray.remote
    def outer_frame() -> None:
        inner_frame()

    with pytest.raises(ValueError) as caught:
        ray.get(outer_frame.remote())
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(caught.value))
    assert re.search(r"ray::outer_frame\(\) \(pid=\d+, ip=[\d.]+\)", text)
    assert "in outer_frame" in text or "inner_frame()" in text
    assert "ValueError: deep down" in text
    assert "_raylet" not in text
    assert "worker_main" not in text


@pytest.mark.contract("F0.16")
def test_the_message_of_an_actor_call_names_class_and_method() -> None:
    @ray.remote
    class Faulty:
        def method(self) -> None:
            raise ValueError("in method")

    with pytest.raises(ValueError) as caught:
        ray.get(Faulty.remote().method.remote())
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(caught.value))
    assert re.search(r"ray::Faulty\.method\(\) \(pid=\d+, ip=[\d.]+, actor_id=[0-9a-f]{32}", text)


@pytest.mark.contract("F0.16")
def test_a_local_exception_class_can_be_caught() -> None:
    class Mine(ValueError):
        pass

    with pytest.raises(Mine, match="own class"):
        ray.get(raises.remote(Mine("own class")))


@pytest.mark.contract("F0.16")
def test_an_exception_that_cannot_be_pickled_still_fails_the_task() -> None:
    @ray.remote
    def bad() -> None:
        import threading

        error = ValueError("with a lock")
        error.lock = threading.Lock()  # type: ignore[attr-defined] # errors take attributes
        raise error

    with pytest.raises(RayTaskError) as caught:
        ray.get(bad.remote())
    assert isinstance(caught.value.cause, RayError)
    assert "serializ" in str(caught.value.cause)


@pytest.mark.contract("F0.16")
def test_chained_exceptions_show_both() -> None:
    @ray.remote
    def chain() -> None:
        try:
            raise KeyError("first cause")
        except KeyError as e:
            raise ValueError("second") from e

    with pytest.raises(ValueError) as caught:
        ray.get(chain.remote())
    assert "first cause" in str(caught.value)
    assert "second" in str(caught.value)


@pytest.mark.contract("F0.16")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has exception groups since 3.11")
def test_exception_groups() -> None:
    with pytest.raises(ExceptionGroup) as caught:  # noqa: F821
        ray.get(raises.remote(ExceptionGroup("several", [ValueError("a"), KeyError("b")])))  # noqa: F821
    assert [type(e) for e in caught.value.exceptions] == [ValueError, KeyError]


@pytest.mark.contract("F0.16")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has notes since 3.11")
def test_notes_come_along() -> None:
    error = ValueError("noted")
    error.add_note("a note of mine")  # type: ignore[attr-defined] # since Python 3.11
    with pytest.raises(ValueError) as caught:
        ray.get(raises.remote(error))
    assert "a note of mine" in str(caught.value)
    assert caught.value.__notes__ == ["a note of mine"]  # type: ignore[attr-defined]


@pytest.mark.contract("F0.16", "F5.04")
@pytest.mark.heliostat_only("Ray names no cause")
def test_the_end_of_a_process_is_told_once() -> None:
    @ray.remote(max_retries=0)
    def crash() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(exceptions.WorkerCrashedError) as caught:
        ray.get(crash.remote())
    assert str(caught.value).count("SIGKILL") == 1


@pytest.mark.contract("F0.16")
def test_an_error_goes_through_dependents() -> None:
    ran = use.remote(use.remote(raises.remote(SampleError(3))))
    with pytest.raises(SampleError) as caught:
        ray.get(ran)
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(caught.value))
    assert "At least one of the input arguments for this task could not be computed:" in text
    assert "sample error 3" in text


@pytest.mark.contract("F0.16")
def test_every_return_of_a_failed_task_raises() -> None:
    @ray.remote(num_returns=2)
    def fail() -> Any:
        raise KeyError("both")

    for ref in fail.remote():
        with pytest.raises(KeyError):
            ray.get(ref)


@pytest.mark.contract("F0.16")
def test_an_error_inside_a_nested_task_reaches_the_driver() -> None:
    @ray.remote
    def outer() -> Any:
        return ray.get(raises.remote(SampleError(9)))

    with pytest.raises(SampleError) as caught:
        ray.get(outer.remote())
    assert caught.value.code == 9


@pytest.mark.contract("F0.16")
def test_a_caught_error_can_be_pickled_and_stored() -> None:
    with pytest.raises(ValueError) as caught:
        ray.get(raises.remote(ValueError("kept")))
    (again,) = ray.get(ray.put([caught.value]))
    assert isinstance(again, RayTaskError)
    assert isinstance(again, ValueError)
    assert "kept" in str(again)
    assert isinstance(ray.get(ray.put([ValueError("as value")]))[0], ValueError)


@pytest.mark.contract("F0.16")
def test_exceptions_as_values_are_not_raised() -> None:
    value = ray.get(use.remote([KeyError("value")]))[0]
    assert isinstance(value, KeyError)


@pytest.mark.contract("F0.16")
def test_system_exit_in_a_task() -> None:
    """Leaving the process is a crash of the worker, and is not an error of the task."""

    @ray.remote(max_retries=0)
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(exceptions.WorkerCrashedError):
        ray.get(leave.remote())


@pytest.mark.contract("F0.15", "F2.11")
def test_fields_of_actor_errors() -> None:
    error = exceptions.RayActorError(actor_id="ab", error_msg="it is gone")
    assert "it is gone" in str(error)
    assert error.actor_id == "ab"
    assert error.error_msg == "it is gone"
    assert not error.actor_init_failed
    assert not error.preempted
    unavailable = exceptions.ActorUnavailableError("why", b"\x01" * 16)
    assert "unavailable: why" in str(unavailable)
    assert unavailable.actor_id == (b"\x01" * 16).hex()


@pytest.mark.contract("F0.15")
def test_names_of_the_cause_survive_isinstance_and_except() -> None:
    caught = None
    try:
        ray.get(raises.remote(ZeroDivisionError("division")))
    except ArithmeticError as e:
        caught = e
    assert isinstance(caught, ZeroDivisionError)
    assert isinstance(caught, RayTaskError)
    assert caught.as_instanceof_cause() is not None
