"""Every exception that the API raises, except the one that wraps errors of user code.

``heliostat.exceptions`` (and ``ray.exceptions``) is the public face of this module and of
:mod:`heliostat.core.errors.task`; the classes say so in ``__module__``.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

PUBLIC_MODULE = "heliostat.exceptions"


class RayError(Exception):
    """The base of everything that the API raises on its own account.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def fail():
        ...     raise ValueError("no such file")
        >>> try:
        ...     ray.get(fail.remote())
        ... except ray.exceptions.RayError as error:
        ...     print(type(error).__name__, isinstance(error, ValueError))
        RayTaskError(ValueError) True
    """


# --- why a process ended ---------------------------------------------------------------------------


class DeathKind:
    """The words of ``DeathCause.kind``."""

    UNKNOWN = "Unknown"
    EXITED = "Exited"
    SIGNALED = "Signaled"
    INTENDED = "Intended"
    NODE_DIED = "NodeDied"
    OUT_OF_MEMORY = "OutOfMemory"
    INIT_FAILED = "InitFailed"
    USER_EXIT = "UserExit"
    START_FAILED = "StartFailed"
    GROUP_REMOVED = "GroupRemoved"
    ENV_FAILED = "EnvFailed"


@dataclass(frozen=True)
class DeathCause:
    """Why a process, or the actor in it, ended."""

    kind: str = DeathKind.UNKNOWN
    code: int = 0
    pid: int = 0
    message: str = ""
    log_tail: str = ""
    method: str = ""  # in which an actor's code asked for the end

    def sentence(self) -> str:
        """Return the cause as a sentence, with the exit code or the signal's name."""
        known = self.message.rstrip(". \n")
        if self.kind == DeathKind.EXITED and f"code {self.code}" not in known:
            known = _joined(known, f"its process exited with code {self.code}")
        elif self.kind == DeathKind.SIGNALED:
            name = signal_name(self.code)
            if name not in known:
                known = _joined(known, f"its process was killed by {name} (signal {self.code})")
        return known or "nobody saw how its process ended"

    def describe(self) -> str:
        """The sentence, and the last lines of the log where there are any."""
        text = self.sentence() + "."
        if self.log_tail.strip():
            lines = self.log_tail.rstrip().splitlines()
            text += "\nThe last lines of its log:\n" + "\n".join("    " + line for line in lines)
        return text


def _joined(first: str, second: str) -> str:
    return f"{first}: {second}" if first else second


def signal_name(number: int) -> str:
    """The name of a signal, for people."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- calls -----------------------------------------------------------------------------------------


class TaskCancelledError(RayError):
    """The call was cancelled before it could end.

    Examples:
        >>> import time
        >>> import ray
        >>> @ray.remote
        ... def nap():
        ...     time.sleep(600)
        >>> ref = nap.remote()
        >>> ray.cancel(ref)
        >>> try:
        ...     ray.get(ref)
        ... except ray.exceptions.TaskCancelledError:
        ...     print("cancelled")
        cancelled
    """

    def __init__(self, task_id: Any = None, error_message: str | None = None) -> None:
        super().__init__(task_id, error_message)
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        said = self.error_message or ""
        if self.task_id is None:
            return said or "The task was cancelled."
        return f"Task: {self.task_id} was cancelled. {said}".rstrip()


class GetTimeoutError(RayError, TimeoutError):
    """``get`` had to wait for longer than its timeout.

    Examples:
        >>> import time
        >>> import ray
        >>> @ray.remote
        ... def nap():
        ...     time.sleep(600)
        >>> ref = nap.remote()
        >>> try:
        ...     ray.get(ref, timeout=0.1)
        ... except ray.exceptions.GetTimeoutError:
        ...     print("not yet")
        not yet
        >>> ray.cancel(ref, force=True)
    """


class WorkerCrashedError(RayError):
    """The process that ran the task ended, and the task has no retries left.

    Examples:
        >>> import os
        >>> import ray
        >>> @ray.remote(max_retries=0)
        ... def crash():
        ...     os._exit(1)
        >>> try:
        ...     ray.get(crash.remote())
        ... except ray.exceptions.WorkerCrashedError:
        ...     print("its process has ended")
        its process has ended
    """

    def __str__(self) -> str:
        text = "The worker died unexpectedly while executing this task."
        return " ".join([text, *map(str, self.args)])


class PendingCallsLimitExceeded(RayError):
    """The actor has ``max_pending_calls`` unfinished calls from this handle already.

    Examples:
        >>> import time
        >>> import ray
        >>> @ray.remote(max_pending_calls=1)
        ... class Slow:
        ...     def nap(self):
        ...         time.sleep(600)
        >>> slow = Slow.remote()
        >>> ref = slow.nap.remote()
        >>> try:
        ...     slow.nap.remote()
        ... except ray.exceptions.PendingCallsLimitExceeded:
        ...     print("one call at a time")
        one call at a time
        >>> ray.kill(slow)
    """


class TaskUnschedulableError(RayError):
    """The task can never be placed.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        >>> @ray.remote
        ... def work():
        ...     pass
        >>> gone = NodeAffinitySchedulingStrategy(node_id="00" * 28, soft=False)  # no such node
        >>> try:
        ...     ray.get(work.options(scheduling_strategy=gone).remote())
        ... except ray.exceptions.TaskUnschedulableError:
        ...     print("it can never be placed")
        it can never be placed
    """

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The task is not schedulable: {self.error_message}"


class TaskPlacementGroupRemoved(RayError):
    """The placement group that the task was to run in is gone.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        >>> group = placement_group([{"CPU": 1000}])  # waits for such a node
        >>> @ray.remote(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
        ... def work():
        ...     pass
        >>> ref = work.remote()
        >>> remove_placement_group(group)
        >>> try:
        ...     ray.get(ref)
        ... except ray.exceptions.TaskPlacementGroupRemoved:
        ...     print("its group is gone")
        its group is gone
    """

    def __str__(self) -> str:
        return "The placement group corresponding to this task has been removed."


# --- actors ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActorDeath:
    """The death of an actor, and its cause."""

    actor_id: str
    class_name: str = ""
    cause: DeathCause = DeathCause()
    preempted: bool = False


class RayActorError(RayError):
    """The actor could not finish the call.

    Examples:
        >>> import os
        >>> import ray
        >>> @ray.remote
        ... class Fragile:
        ...     def crash(self):
        ...         os._exit(1)
        >>> try:
        ...     ray.get(Fragile.remote().crash.remote())
        ... except ray.exceptions.RayActorError:
        ...     print("the actor could not finish the call")
        the actor could not finish the call
    """

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str = "The actor experienced an error before finishing this task.",
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        super().__init__(actor_id, error_msg, actor_init_failed, preempted)
        self.actor_id = actor_id
        self.error_msg = error_msg
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted

    @property
    def actor_init_failed(self) -> bool:
        """Whether the actor's constructor raised."""
        return self._actor_init_failed

    @property
    def preempted(self) -> bool:
        """Whether the actor's node was taken away."""
        return self._preempted

    def __str__(self) -> str:
        return self.error_msg


class ActorDiedError(RayActorError):
    """The actor is dead and will not come back.

    Made from the error of its constructor (a ``RayTaskError``), from an :class:`ActorDeath`, or from
    nothing when no more is known.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Counter:
        ...     def add(self):
        ...         return 1
        >>> counter = Counter.remote()
        >>> ray.kill(counter)
        >>> try:
        ...     ray.get(counter.add.remote())
        ... except ray.exceptions.ActorDiedError:
        ...     print("the actor is dead")
        the actor is dead
    """

    def __init__(self, cause: Any = None) -> None:
        if isinstance(cause, ActorDeath):
            super().__init__(cause.actor_id, _death_message(cause), preempted=cause.preempted)
        elif isinstance(cause, BaseException):
            text = f"The actor died because of an error raised in its creation task, {cause}"
            super().__init__(getattr(cause, "_actor_id", None), text, actor_init_failed=True)
        else:
            super().__init__(None, "The actor died unexpectedly before finishing this task.")
        self.args = (cause,)


def _death_message(death: ActorDeath) -> str:
    asked_for = (DeathKind.INTENDED, DeathKind.USER_EXIT, DeathKind.GROUP_REMOVED)
    intended = death.cause.kind in asked_for
    unexpectedly = "" if intended else " unexpectedly"
    lines = [f"The actor died{unexpectedly} before finishing this task."]
    facts = {"class_name": death.class_name, "actor_id": death.actor_id, "pid": death.cause.pid}
    lines += [f"\t{name}: {value}" for name, value in facts.items() if value]
    return "\n".join([*lines, f"The actor is dead because {death.cause.describe()}"])


class ActorUnavailableError(RayActorError):
    """The actor does not answer just now; it may come back.

    Examples:
        >>> import ray
        >>> def add(counter, n):  # of a method that may run twice
        ...     while True:
        ...         try:
        ...             return ray.get(counter.add.remote(n))
        ...         except ray.exceptions.ActorUnavailableError:
        ...             print("it is being restarted; the call may or may not have run")
        >>> issubclass(ray.exceptions.ActorUnavailableError, ray.exceptions.RayActorError)
        True
    """

    def __init__(self, error_message: str, actor_id: bytes | None) -> None:
        hexed = actor_id.hex() if actor_id is not None else None
        text = (
            f"The actor {hexed} is unavailable: {error_message.rstrip('.')}. "
            "The task may or may not have been executed on the actor."
        )
        super().__init__(hexed, text)
        self.args = (error_message, actor_id)


class ActorUnschedulableError(RayError):
    """The actor can never be placed.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        >>> @ray.remote
        ... class Worker:
        ...     def work(self):
        ...         pass
        >>> gone = NodeAffinitySchedulingStrategy(node_id="00" * 28, soft=False)  # no such node
        >>> worker = Worker.options(scheduling_strategy=gone).remote()
        >>> try:
        ...     ray.get(worker.work.remote())
        ... except ray.exceptions.ActorUnschedulableError:
        ...     print("it can never be placed")
        it can never be placed
    """

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The actor is not schedulable: {self.error_message}"


class ActorPlacementGroupRemoved(RayError):
    """The placement group that the actor lived in is gone.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        >>> group = placement_group([{"CPU": 1000}])  # waits for such a node
        >>> @ray.remote(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
        ... class Worker:
        ...     def work(self):
        ...         pass
        >>> ref = Worker.remote().work.remote()
        >>> remove_placement_group(group)
        >>> try:
        ...     ray.get(ref)
        ... except ray.exceptions.ActorPlacementGroupRemoved:
        ...     print("its group is gone")
        its group is gone
    """

    def __str__(self) -> str:
        return "The placement group corresponding to this Actor has been removed."


class ActorDiedWithPlacementGroup(ActorDiedError, ActorPlacementGroupRemoved):
    """The actor lived in a placement group that was removed.

    Ray raises ``ActorDiedError`` here, and documents ``ActorPlacementGroupRemoved``: this is both.
    """


class ActorUnplacedWithPlacementGroup(ActorUnschedulableError, ActorPlacementGroupRemoved):
    """The actor waited for a placement group that was removed.

    Ray raises ``ActorUnschedulableError`` here, and documents ``ActorPlacementGroupRemoved``: this is
    both.
    """


class ActorAlreadyExistsError(ValueError, RayError):
    """The name is taken by another actor of the namespace.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Counter:
        ...     pass
        >>> counter = Counter.options(name="counter").remote()
        >>> try:
        ...     Counter.options(name="counter").remote()  # get_if_exists=True gives the first
        ... except ray.exceptions.ActorAlreadyExistsError:
        ...     print("the name is taken")
        the name is taken
        >>> ray.kill(counter)
    """

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message


class ActorHandleNotFoundError(ValueError, RayError):
    """The handle belongs to a session that is over.

    Examples:
        >>> import ray
        >>> def call(handle):  # of an actor of a session that ray.shutdown() has ended
        ...     try:
        ...         return ray.get(handle.work.remote())
        ...     except ray.exceptions.ActorHandleNotFoundError:
        ...         handle = ray.get_actor("worker", namespace="jobs")  # look it up again
        ...         return ray.get(handle.work.remote())
    """

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message


class AsyncioActorExit(RayError):
    """Unwinds a method of an asyncio actor that leaves by ``exit_actor``.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Worker:
        ...     async def leave(self):
        ...         try:
        ...             ray.actor.exit_actor()
        ...         except ray.exceptions.AsyncioActorExit:
        ...             ...  # the last words; then let it go on
        ...             raise
        >>> try:
        ...     ray.get(Worker.remote().leave.remote())
        ... except ray.exceptions.ActorDiedError:
        ...     print("the actor has left")
        the actor has left
    """


# --- objects ---------------------------------------------------------------------------------------


class ObjectLostError(RayError):
    """No copy of the object is left.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Maker:
        ...     def make(self):
        ...         return [ray.put(bytes(10**6))]
        >>> maker = Maker.remote()
        >>> [ref] = ray.get(maker.make.remote())
        >>> ray.kill(maker)
        >>> while True:  # until the end of its maker is known here
        ...     try:
        ...         _ = ray.get(ref)
        ...     except ray.exceptions.ObjectLostError as error:
        ...         print(error.object_ref_hex == ref.hex())
        ...         break
        True
    """

    _REASON = "All copies of the object are gone, with the nodes or processes that held them."

    def __init__(
        self,
        object_ref_hex: str,
        owner_address: bytes | None = None,
        call_site: str = "",
        reason: str = "",
    ) -> None:
        super().__init__(object_ref_hex, owner_address, call_site, reason)
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site.replace("\n  ", "\n").strip()
        self.reason = reason

    def __str__(self) -> str:
        made = (
            f" The ObjectRef was created at: {self.call_site}"
            if self.call_site
            else " To see where its ObjectRef was created, set RAY_record_ref_creation_sites=1."
        )
        why = self.reason or self._REASON
        return f"Failed to retrieve object {self.object_ref_hex}.{made}\n\n{why}"


class ObjectFetchTimedOutError(ObjectLostError):
    """The place of an object was not known in time.

    Examples:
        >>> import ray
        >>> def value(ref, again):
        ...     try:
        ...         return ray.get(ref)
        ...     except ray.exceptions.ObjectLostError:  # this one, and the others of lost objects
        ...         return ray.get(again())
        >>> issubclass(ray.exceptions.ObjectFetchTimedOutError, ray.exceptions.ObjectLostError)
        True
    """

    _REASON = "No node that has the object was found in time."


class ObjectFreedError(ObjectLostError):
    """The object was freed by hand.

    Examples:
        >>> import ray
        >>> def value(ref):  # never raised here: an object lives as long as references to it
        ...     try:
        ...         return ray.get(ref)
        ...     except ray.exceptions.ObjectFreedError:
        ...         return None
        >>> value(ray.put(1))
        1
    """

    _REASON = "The object was freed although references to it were left."


class OwnerDiedError(ObjectLostError):
    """The process that made the object, by a call or by ``put``, has ended.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Maker:
        ...     def make(self):
        ...         return [ray.put(bytes(10**6))]
        >>> maker = Maker.remote()
        >>> [ref] = ray.get(maker.make.remote())
        >>> ray.kill(maker)
        >>> while True:  # until its end is known here
        ...     try:
        ...         _ = ray.get(ref)
        ...     except ray.exceptions.OwnerDiedError:
        ...         print("its maker has ended")
        ...         break
        its maker has ended
    """

    _REASON = (
        "The object's owner has exited: the process that made it, by `.remote()` or by `put`, "
        "is gone, and what it owned with it."
    )


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and could not be made again.

    Examples:
        >>> import ray
        >>> @ray.remote(max_retries=3)  # a result that is lost is made again so often
        ... def make():
        ...     return bytes(10**6)
        >>> ref = make.remote()
        >>> try:
        ...     size = len(ray.get(ref))
        ... except ray.exceptions.ObjectReconstructionFailedError:
        ...     size = len(ray.get(make.remote()))
        >>> size
        1000000
    """

    _REASON = "The object was lost, and the call that made it could not be run again."


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was deleted although a reference to it was left.

    Examples:
        >>> import ray
        >>> issubclass(ray.exceptions.ReferenceCountingAssertionError, ray.exceptions.ObjectLostError)
        True
    """

    _REASON = "The object has been deleted already although it is still referred to."


class ObjectStoreFullError(RayError):
    """The object store has no room, and nothing in it can be moved out.

    Examples:
        >>> import ray
        >>> def put(value):
        ...     try:
        ...         return ray.put(value)
        ...     except ray.exceptions.ObjectStoreFullError:
        ...         raise SystemExit("let go of references, or start with a larger object_store_memory")
        >>> ray.get(put([1, 2]))
        [1, 2]
    """

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\n"
            "The local object store is full of objects that are still in scope and cannot be evicted."
            " Tip: Use the `ray memory` command to list active objects in the cluster."
        )


class OutOfDiskError(RayError):
    """The object store and the disk behind it are full.

    Examples:
        >>> import ray
        >>> def put(value):
        ...     try:
        ...         return ray.put(value)
        ...     except ray.exceptions.OutOfDiskError:
        ...         raise SystemExit("free some of the disk: `df` shows it, `ray memory` the objects")
        >>> ray.get(put([1, 2]))
        [1, 2]
    """

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\n"
            "The local object store is full, and so is the disk that objects are spilled to."
            " Tip: `df` shows the disk, `ray memory` the objects."
        )


class OufOfBandObjectRefSerializationException(RayError):
    """A reference was pickled outside the API although that was switched off.

    Examples:
        >>> import ray
        >>> def keep(ref):  # with RAY_allow_out_of_band_object_ref_serialization=0
        ...     try:
        ...         return ray.cloudpickle.dumps(ref)
        ...     except ray.exceptions.OufOfBandObjectRefSerializationException:
        ...         return ray.cloudpickle.dumps(ray.get(ref))
        >>> isinstance(keep(ray.put(1)), bytes)
        True
    """


class PlasmaObjectNotAvailable(RayError):
    """The object is not in the local object store (yet).

    Examples:
        >>> import ray
        >>> ref = ray.put(1)
        >>> ready, _ = ray.wait([ref], timeout=60)  # asks whether it is here, and raises no error
        >>> ready == [ref], issubclass(ray.exceptions.PlasmaObjectNotAvailable, ray.exceptions.RayError)
        (True, True)
    """


class ObjectRefStreamEndOfStreamError(RayError):
    """The stream has no more items.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def count(n):
        ...     yield from range(n)
        >>> items = count.remote(1)
        >>> ray.get(next(items))
        0
        >>> try:
        ...     next(items)  # of Ray's internals: iterating ends with StopIteration
        ... except StopIteration:
        ...     print("that was all")
        that was all
    """


# --- the system ------------------------------------------------------------------------------------


class RaySystemError(RayError):
    """Something in the system itself went wrong, or there is no session.

    Examples:
        >>> import ray
        >>> def resources():
        ...     try:
        ...         return ray.cluster_resources()
        ...     except ray.exceptions.RaySystemError as error:
        ...         raise SystemExit(f"there is no session: {error}") from error
        >>> resources()["CPU"] >= 1
        True
    """

    def __init__(self, client_exc: Any, traceback_str: str | None = None) -> None:
        super().__init__(client_exc, traceback_str)
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\ntraceback: {self.traceback_str}" if self.traceback_str else text


class RayChannelError(RaySystemError):
    """A channel between actors failed.

    Examples:
        >>> import ray
        >>> issubclass(ray.exceptions.RayChannelError, ray.exceptions.RaySystemError)
        True
    """


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel between actors was not ready in time.

    Examples:
        >>> import ray
        >>> issubclass(ray.exceptions.RayChannelTimeoutError, TimeoutError)  # which catches it
        True
    """


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph has more results in flight than it may.

    Examples:
        >>> import ray
        >>> issubclass(ray.exceptions.RayCgraphCapacityExceeded, ray.exceptions.RaySystemError)
        True
    """


class RayDirectTransportError(RaySystemError):
    """A tensor could not be sent from device to device.

    Examples:
        >>> import ray
        >>> issubclass(ray.exceptions.RayDirectTransportError, ray.exceptions.RaySystemError)
        True
    """


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A generator that ran again gave other items than before.

    Examples:
        >>> import random
        >>> import ray
        >>> @ray.remote(max_retries=3)
        ... def numbers(seed):  # a generator that runs again has to yield the same items
        ...     source = random.Random(seed)
        ...     for _ in range(2):
        ...         yield source.randrange(10)
        >>> first, again = ([ray.get(ref) for ref in numbers.remote(7)] for _ in range(2))
        >>> first == again
        True
    """


class _Said(RayError):
    """An error that is its message and no more."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0])


class NodeDiedError(_Said):
    """The node of the call or the actor is gone.

    Examples:
        >>> import ray
        >>> def value(ref, again):
        ...     try:
        ...         return ray.get(ref)
        ...     except ray.exceptions.NodeDiedError as error:
        ...         print(error)  # names the node, and why it is gone
        ...         return ray.get(again())
        >>> value(ray.put(1), None)
        1
    """


class OutOfMemoryError(_Said):
    """The memory monitor ended the task's process.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def load(rows):
        ...     return rows
        >>> def load_in_parts(rows):
        ...     try:
        ...         return ray.get(load.remote(rows))
        ...     except ray.exceptions.OutOfMemoryError:
        ...         half = rows // 2
        ...         return load_in_parts(half) + load_in_parts(rows - half)
        >>> load_in_parts(1000)
        1000
    """


class AuthenticationError(_Said):
    """The cluster's token is missing or wrong.

    Examples:
        >>> import ray
        >>> def main():
        ...     try:
        ...         ray.init("ray://head.example.com:10001")
        ...     except ray.exceptions.AuthenticationError as error:
        ...         raise SystemExit(f"{error}: set RAY_AUTH_TOKEN") from error
        >>> str(ray.exceptions.AuthenticationError("The token is wrong"))
        'The token is wrong'
    """


def unwelcome(kind: str, message: str) -> Exception:
    """Return the error of a process that a cluster does not let in.

    ``kind`` is the name of a ``RefusalKind`` in `crates/helio-proto/src/hello.rs`.
    """
    return AuthenticationError(message) if kind == "token" else ConnectionError(message)


class LocalRayletDiedError(RayError):
    """The daemon of this node has ended.

    Examples:
        >>> import ray
        >>> def value(ref):  # never raised here: a process whose daemon has ended ends, too
        ...     try:
        ...         return ray.get(ref)
        ...     except ray.exceptions.LocalRayletDiedError:
        ...         return None
        >>> value(ray.put(1))
        1
    """

    def __str__(self) -> str:
        return "The task's local node daemon died. Its log is in the session's `logs` folder."


class RuntimeEnvSetupError(RayError):
    """A runtime environment could not be made.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def work():
        ...     import emoji
        ...     return emoji.__version__
        >>> def main():
        ...     try:
        ...         return ray.get(work.options(runtime_env={"pip": ["emoji==2.14.0"]}).remote())
        ...     except ray.exceptions.RuntimeEnvSetupError as error:
        ...         raise SystemExit(f"what pip says: {error}") from error
    """

    def __init__(self, error_message: str | None = None) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        lines = ["Failed to set up runtime environment.", self.error_message or ""]
        return "\n".join(filter(None, lines))


class UserCodeException(RayError):
    """Code that the user handed to a library raised.

    Examples:
        >>> import ray
        >>> from ray.exceptions import UserCodeException
        >>> def fail(row):
        ...     raise ValueError("no such column")
        >>> try:
        ...     ray.data.range(1).map(fail).materialize()
        ... except UserCodeException as error:
        ...     print(isinstance(error, ValueError))
        True
    """


class UnserializableException(RayError):
    """The exception of a call could not be read here.

    Examples:
        >>> import ray
        >>> class Odd(Exception):
        ...     def __reduce__(self):
        ...         return (ray.no_such_function, ())  # cannot be read anywhere
        >>> def value(ref):
        ...     try:
        ...         return ray.get(ref)
        ...     except ray.exceptions.UnserializableException as error:
        ...         return str(error)  # has the original traceback
        >>> value(ray.put(1))
        1
    """

    def __init__(self, original_stack_trace: str = "") -> None:
        super().__init__(original_stack_trace)
        self._original_stack_trace = original_stack_trace

    def __str__(self) -> str:
        return (
            "Failed to deserialize exception. An exception class needs a constructor that takes the"
            f" exception's `args`, or a `__reduce__`.\nOriginal exception:\n"
            f"{self._original_stack_trace}"
        )


class CrossLanguageError(RayError):
    """A call in another language raised.

    Examples:
        >>> import ray
        >>> def value(ref):  # never raised here: workers run Python
        ...     try:
        ...         return ray.get(ref)
        ...     except ray.exceptions.CrossLanguageError:
        ...         return None
        >>> value(ray.put(1))
        1
    """


class RpcError(RayError):
    """A message to another process failed.

    Examples:
        >>> import ray
        >>> def ask(question):
        ...     try:
        ...         return question()
        ...     except ray.exceptions.RpcError as error:
        ...         return f"no answer: {error.message}"
        >>> ask(lambda: 1)
        1
    """

    def __init__(self, message: str, rpc_code: int | None = None) -> None:
        super().__init__(message, rpc_code)
        self.message = message
        self.rpc_code = rpc_code

    def __str__(self) -> str:
        return self.message


for _class in [c for c in vars().values() if isinstance(c, type) and issubclass(c, RayError)]:
    _class.__module__ = PUBLIC_MODULE
del _class
