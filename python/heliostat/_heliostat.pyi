"""The extension module: the runtime of this process, as Python sees it.

Everything here is Rust. ``heliostat.get``, ``put``, ``wait``, ``cancel``, ``kill`` are these functions
themselves, so that the hot path has no Python frame in it; they validate their arguments and, when
no session runs, begin one with ``heliostat.core.session.ensure`` first.

What it calls in Python, by name:

- ``heliostat.exceptions.from_system_error(kind, message, cause, object_id, actor_id, task_id, name, site)``
  makes the exception of an error of the system. `kind` is the number of `helio_proto::error::ErrorKind`,
  the ids are hex ("" where there is none), `cause` is a `native_types.Cause`.
- ``heliostat.exceptions.make_task_error(function_name, traceback_str, cause, pid, ip, actor_repr,
  actor_id)`` makes the `RayTaskError` that a failed call stores (the last two "" for tasks); `get`
  raises what its ``as_instanceof_cause()`` gives.
- the classes of ``heliostat.exceptions`` by name: `GetTimeoutError`, `RaySystemError`,
  `ActorAlreadyExistsError`, `PendingCallsLimitExceeded`, ...
- ``heliostat.core.serialize`` and ``heliostat.core.worker.main_loop``, ``aio``, ``async_actor``.
"""

import asyncio
import concurrent.futures
import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from typing import Any, ClassVar, final

from typing_extensions import Self

from heliostat.core.native_types import (
    ActorCreated,
    ActorPlan,
    ActorRow,
    GroupPlan,
    GroupRow,
    JobRow,
    NodeRow,
    Session,
    TaskPlan,
)

OPEN_TOKEN: str
"""The text that is shown instead of a token in a cluster that asks for none."""

__version__: str

# --- settings ----------------------------------------------------------------------------------------

def read_setting(name: str, environment: Mapping[str, str]) -> int | float | bool | str:
    """The value of a setting of the table (docs/settings.md) in an environment, or its default.

    Raises ``ValueError`` for a value that it cannot have, ``KeyError`` for a name without a setting.
    """

def check_settings(environment: dict[str, str]) -> list[str]:
    """A sentence for each ``HELIOSTAT_*`` variable that is not a setting, with the nearest name.

    Raises ``ValueError`` for a value that a setting cannot have.
    """

def knobs() -> list[str]:
    """Names of Ray's configuration that act."""

# --- ids -------------------------------------------------------------------------------------------

class BaseID:
    """A fixed-size byte string. Equality and hash go by class and bytes."""

    SIZE: ClassVar[int]
    def __init__(self, id: bytes) -> None: ...
    @classmethod
    def from_hex(cls, hex_id: str) -> Self:
        """The id that these hexadecimal digits write.

        Args:
            hex_id: ``2 * SIZE`` digits.

        Raises:
            ValueError: There are more or fewer digits, or something else.
        """
    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        """The id of these bytes, ``SIZE`` of them.

        Args:
            id_bytes: The bytes.

        Raises:
            ValueError: There are more or fewer bytes.
        """
    @classmethod
    def nil(cls) -> Self:
        """The id of nothing: every byte is 255."""
    @classmethod
    def from_random(cls) -> Self:
        """An id of random bytes."""
    @classmethod
    def size(cls) -> int:
        """The id's length in bytes."""
    def hex(self) -> str:
        """The id's bytes as hexadecimal digits."""
    def binary(self) -> bytes:
        """The id's bytes."""
    def is_nil(self) -> bool:
        """Whether it is the id of nothing."""
    def redis_shard_hash(self) -> int:
        """A hash of its bytes."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __lt__(self, other: object) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class JobID(BaseID):
    """A driver's run.

    Examples:
        >>> import ray
        >>> job_id = ray.JobID.from_int(7)
        >>> job_id.hex(), job_id.int()
        ('00000007', 7)
        >>> ray.JobID.from_hex(ray.get_runtime_context().get_job_id()).is_nil()
        False
    """

    @classmethod
    def from_int(cls, value: int) -> JobID:
        """The id of the job with this number.

        Args:
            value: A number from 0 to 4294967295.
        """
    def int(self) -> int:
        """The job's number."""

@final
class TaskID(BaseID):
    """A call of a task or of an actor's method, through all its attempts.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def me():
        ...     return ray.get_runtime_context().get_task_id()
        >>> ref = me.remote()
        >>> ref.task_id() == ray.TaskID.from_hex(ray.get(ref))
        True
        >>> ref.task_id().job_id() == ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
        True
    """

    def actor_id(self) -> ActorID:
        """The actor that the call is made to; for tasks, an id that names their job and no actor."""
    def job_id(self) -> JobID:
        """The job that the call belongs to."""

@final
class ActorID(BaseID):
    """An actor, through all its restarts.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Worker:
        ...     def me(self):
        ...         return ray.get_runtime_context().get_actor_id()
        >>> worker = Worker.remote()
        >>> actor_id = ray.ActorID.from_hex(ray.get(worker.me.remote()))
        >>> actor_id.job_id.hex() == ray.get_runtime_context().get_job_id()
        True
    """

    @property
    def job_id(self) -> JobID:
        """The job that made the actor."""

@final
class NodeID(BaseID):
    """A node, from its start to its end.

    Examples:
        >>> import ray
        >>> node_id = ray.NodeID.from_hex(ray.get_runtime_context().get_node_id())
        >>> node_id.hex() in {node["NodeID"] for node in ray.nodes()}
        True
    """

@final
class WorkerID(BaseID):
    """A process that runs tasks, or a driver.

    Examples:
        >>> import ray
        >>> worker_id = ray.WorkerID.from_hex(ray.get_runtime_context().get_worker_id())
        >>> worker_id == ray.WorkerID(worker_id.binary())
        True
    """

@final
class PlacementGroupID(BaseID):
    """A placement group.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> group = placement_group([{"CPU": 0.5}])
        >>> isinstance(group.id, ray.PlacementGroupID), group.id.is_nil()
        (True, False)
        >>> remove_placement_group(group)
    """

    @classmethod
    def of(cls, job_id: JobID) -> PlacementGroupID:
        """A fresh one of that job.

        Args:
            job_id: The job.
        """

@final
class UniqueID(BaseID):
    """Anything that has no class of ids of its own.

    Examples:
        >>> from ray import UniqueID
        >>> UniqueID.from_hex("00" * UniqueID.size()).binary() == bytes(UniqueID.SIZE)
        True
    """

@final
class FunctionID(BaseID):
    """A remote function.

    Examples:
        >>> from ray import FunctionID
        >>> function_id = FunctionID.from_random()
        >>> FunctionID(function_id.binary()) == function_id
        True
    """

@final
class ActorClassID(BaseID):
    """An actor class.

    Examples:
        >>> from ray import ActorClassID
        >>> ActorClassID.nil().is_nil(), len(ActorClassID.from_random().binary()) == ActorClassID.size()
        (True, True)
    """

@final
class ClusterID(BaseID):
    """A cluster, from the first start of its head.

    Examples:
        >>> from ray import ClusterID
        >>> cluster_id = ClusterID.from_random()
        >>> ClusterID.from_hex(cluster_id.hex()) == cluster_id
        True
    """

class ObjectRef(Awaitable[Any]):
    """A reference to an object, which may not be there yet. ``ray.get`` gives its value.

    Calls and ``ray.put`` return references. A reference keeps its object alive while some process holds it.
    One among the arguments of a call arrives as the value; one inside a list or another object arrives as a
    reference. ``await ref`` gives the value in ``async`` code.

    Examples:
        >>> import ray
        >>> ref = ray.put([1, 2])
        >>> ray.get(ref)
        [1, 2]
        >>> @ray.remote
        ... def total(numbers):
        ...     return sum(numbers)
        >>> ray.get(total.remote(ref))  # an argument that is a reference arrives as its value
        3
    """

    SIZE: ClassVar[int]
    def hex(self) -> str:
        """The object's id as hexadecimal digits."""
    def binary(self) -> bytes:
        """The bytes of the object's id."""
    def is_nil(self) -> bool:
        """Whether it refers to nothing."""
    def redis_shard_hash(self) -> int:
        """A hash of the id."""
    @classmethod
    def nil(cls) -> ObjectRef:
        """A reference to nothing."""
    @classmethod
    def from_random(cls) -> ObjectRef:
        """A reference with a random id, to no object."""
    @classmethod
    def from_hex(cls, hex_id: str) -> ObjectRef:
        """A reference by id, without an owner: good for comparing, and for ``get`` in its own process.

        Args:
            hex_id: The digits of an id.
        """
    @classmethod
    def from_binary(cls, id_bytes: bytes) -> ObjectRef:
        """As :meth:`from_hex`, from the bytes of the id.

        Args:
            id_bytes: The bytes.
        """
    @classmethod
    def size(cls) -> int:
        """The length of an id in bytes."""
    def task_id(self) -> TaskID:
        """The call that makes the object; of a value that was ``put``, the caller."""
    def job_id(self) -> JobID:
        """The job that the object belongs to."""
    def owner_address(self) -> bytes:
        """The address of the process that owns the object, as it goes over the wire."""
    def call_site(self) -> str:
        """The line that made the reference, with ``RAY_record_ref_creation_sites=1``; else ""."""
    def future(self) -> concurrent.futures.Future[Any]:
        """A future of the value, for threads.

        Examples:
            >>> import ray
            >>> ray.put(3).future().result()
            3
        """
    def as_future(self) -> asyncio.Future[Any]:
        """A future of the value, on the running event loop."""
    def _on_completed(self, callback: Callable[[Any], None]) -> None: ...
    def __await__(self) -> Generator[Any, None, Any]: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __class_getitem__(cls, item: Any) -> Any: ...

@final
class ObjectRefGenerator:
    """The items of a streaming call, as references, in order. Calls of generator functions return it.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def count(n):
        ...     yield from range(n)
        >>> [ray.get(ref) for ref in count.remote(3)]
        [0, 1, 2]
    """

    def __iter__(self) -> Iterator[ObjectRef]: ...
    def __next__(self) -> ObjectRef: ...
    def __aiter__(self) -> AsyncIterator[ObjectRef]: ...
    def __anext__(self) -> Awaitable[ObjectRef]: ...
    def send(self, value: None) -> ObjectRef:
        """As ``next``: the value is not sent to the call.

        Args:
            value: Has no effect.
        """
    def throw(self, value: object) -> ObjectRef:
        """Refused: the call's frame is in another process.

        Args:
            value: Has no effect.

        Raises:
            NotImplementedError: Always.
        """
    def close(self) -> None:
        """Refused: use ``ray.cancel``.

        Raises:
            NotImplementedError: Always.
        """
    def asend(self, value: None) -> Awaitable[ObjectRef]:
        """As ``anext``: the value is not sent to the call.

        Args:
            value: Has no effect.
        """
    def athrow(self, value: object) -> Awaitable[ObjectRef]:
        """Refused: the call's frame is in another process.

        Args:
            value: Has no effect.

        Raises:
            NotImplementedError: Always.
        """
    def aclose(self) -> Awaitable[None]:
        """Refused: use ``ray.cancel``.

        Raises:
            NotImplementedError: Always.
        """
    def completed(self) -> ObjectRef:
        """A reference that is ready when the call has ended; ``get`` of it raises what the call raised."""
    def next_ready(self) -> bool:
        """Whether ``next`` would return at once. False at the end."""
    def is_finished(self) -> bool:
        """Whether every item was read."""
    def task_id(self) -> TaskID:
        """The call that makes the items."""
    def _get_next_ref(self) -> ObjectRef: ...
    def _try_next(self) -> ObjectRef | None:
        """The next reference without waiting; `StopAsyncIteration` at the end."""
    def _peek_next(self) -> ObjectRef:
        """The next item's reference before it is there; for watching only."""
    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef:
        """The next reference, or `ObjectRef.nil()` when none came in time."""

# --- the session -----------------------------------------------------------------------------------

def connect(
    *,
    node_socket: str,
    token: str,
    namespace: str = "",
    entrypoint: str = "",
    log_to_driver: bool = True,
    owns_cluster: bool = False,
    sys_path: Sequence[str] = (),
    cwd: str = "",
    runtime_env: str = "",
    script: str = "",
    entrance: int = 0,
    beside: bool = False,
) -> None:
    """Join the daemon as a driver. Raises `ConnectionError`.

    `entrance`: the port of this machine that leads into the cluster, 0: none is needed.
    `beside`: beside the process's session; this thread has chosen the new one then.
    """

def _cut_file(path: str) -> list[tuple[str, int]]:
    """A file's chunks, cut by content: (name, size in bytes) of each, in order. Raises `OSError`."""

def _chunk_name(data: bytes) -> str:
    """The name of the chunk that these bytes are."""

def _take_package(head: tuple[str, str, int, str, int], name: str, to: str) -> None:
    """Have a package of the head's written to a file. Raises `ConnectionError`.

    `head`: the folder of the session here, host, port, token, entrance (see `connect`).
    """

def _give_package(head: tuple[str, str, int, str, int], name: str, from_: str) -> None:
    """Bring a package to the head, unless that has it. `head`: as above. Raises `ConnectionError`."""

def shutdown() -> None:
    """Leave; idempotent. Refs and handles of this session are dead afterwards."""

def is_connected() -> bool: ...
def session() -> Session:
    """Raises `RaySystemError` when there is none."""

def session_epoch() -> int:
    """The number of the present session; without one, it changes when one ends. 0: there was none yet."""

def set_tracer(tracer: Callable[[str, str, str], tuple[Any, dict[str, str]]] | None) -> None:
    """From here on each call of this process asks it for a span, and what travels with the call.

    It is given "function" or "actor", the name of what is called, and the actor's id as hex or "".
    """

def choose_session(epoch: int) -> int:
    """From here on the session of that epoch is this thread's present one; 0: that of the process.

    Returns what the thread had chosen before.
    """

# --- objects ---------------------------------------------------------------------------------------

def put(value: Any, *, _owner: Any = None, _tensor_transport: str | None = None) -> ObjectRef:
    """Store a value in this node's object store.

    NumPy arrays and other buffers are copied once; readers on this node share that copy, read-only. Use it
    for a value that several calls take; an argument of one call needs no ``put``.

    Args:
        value: Anything that can be pickled, but no reference.

    Returns:
        A reference to the value. This process owns the object: it is lost when the process ends.

    Raises:
        TypeError: ``value`` is a reference, or cannot be pickled; the error names the part that cannot.
        ObjectStoreFullError: There is room neither in the store nor on the disk.

    Examples:
        >>> import ray
        >>> ref = ray.put([1, 2, 3])
        >>> ray.get(ref)
        [1, 2, 3]
    """

def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any:
    """Wait for objects and return their values.

    Arrays come without a copy from this node's store and are read-only. A task that waits here gives its CPUs
    back meanwhile. In ``async`` code write ``await ref`` instead.

    Args:
        object_refs: An ``ObjectRef``, or a list of them, which may repeat.
        timeout: Seconds to wait for all of them. Default ``None``: without end; 0: take what is there
            now.

    Returns:
        The value, or a list of values in the order of the references.

    Raises:
        GetTimeoutError: A value was not there in time. The calls go on. It is a ``TimeoutError``, too.
        RayTaskError: The call that makes the value raised. The error is an instance of the class of the
            call's own exception, too, and has the remote traceback.
        WorkerCrashedError: The process of the task died, and no retries are left.
        ActorDiedError: The actor of the call has ended.
        TaskCancelledError: The call was cancelled.
        ObjectLostError: The value was lost and cannot be made again.
        ValueError: ``object_refs`` is neither a reference nor a list.
        TypeError: The list has something else in it.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def square(x):
        ...     return x * x
        >>> ray.get(square.remote(4))
        16
        >>> ray.get([square.remote(i) for i in range(3)], timeout=60)
        [0, 1, 4]
    """

def wait(
    ray_waitables: list[ObjectRef | ObjectRefGenerator],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Wait until some of several objects are there, and say which.

    Use it to work on results as they come, or to bound how many calls are under way.

    Args:
        ray_waitables: A list of different references, or of generators, whose next item counts.
        num_returns: How many are waited for: from 1 to the length of the list. Default 1.
        timeout: Seconds to wait. Default ``None``: without end; 0: look and return.
        fetch_local: Wait until a value is on this node. Default True; False: anywhere in the cluster.

    Returns:
        ``(ready, rest)``: a list of at most ``num_returns`` that are ready, and a list of the others,
        both in the order given. A call that failed is ready, too: ``get`` of it raises.

    Raises:
        TypeError: ``ray_waitables`` is not a list, or has something else in it.
        ValueError: A reference is there twice, ``timeout`` is negative, or ``num_returns`` is below 1
            or above the length of the list.

    Examples:
        >>> import ray
        >>> import time
        >>> @ray.remote
        ... def nap(seconds):
        ...     time.sleep(seconds)
        ...     return seconds
        >>> ready, rest = ray.wait([nap.remote(600), nap.remote(0)])
        >>> ray.get(ready)
        [0]
        >>> ray.cancel(rest[0], force=True)
    """

def cancel(
    ray_waitable: ObjectRef | ObjectRefGenerator, *, force: bool = False, recursive: bool = True
) -> None:
    """Stop the call that makes an object. Nothing happens if it has ended.

    A call that waits never runs. In a task that runs, ``KeyboardInterrupt`` is raised; in a method of an
    ``async`` actor, ``asyncio.CancelledError``. Whoever gets the object sees ``TaskCancelledError``.
    Returns at once; it does not wait for the end of the call.

    Args:
        ray_waitable: The ``ObjectRef`` or ``ObjectRefGenerator`` that the call gave.
        force: End the worker's process. For tasks only. Default False.
        recursive: Cancel the calls that it has made, too. Default True.

    Raises:
        ValueError: ``force`` with the call of an actor's method.
        TypeError: The argument is not a reference.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def wait_long():
        ...     import time
        ...     time.sleep(600)
        >>> ref = wait_long.remote()
        >>> ray.cancel(ref)
        >>> try:
        ...     ray.get(ref)
        ... except ray.exceptions.TaskCancelledError:
        ...     print("cancelled")
        cancelled
    """

def take(ref: ObjectRef) -> Any:
    """The value of an object that `is_ready`, `watch` or `take_ready` has named; raises its error."""

def is_ready(ref: ObjectRef) -> bool:
    """Whether `take` would return at once, for a reader that begins."""

def serialize(value: Any) -> bytes:
    """The bytes that would be stored; refs inside are pinned for good. For tests and handles."""

def deserialize(data: bytes, is_error: bool = False) -> Any:
    """Back again; raises when `is_error`. Refs inside are adopted."""

# --- calls -----------------------------------------------------------------------------------------

@final
class Definition:
    """A pickled function or class. Whatever options it is called with, it is sent once a connection."""

    def __new__(cls, pickle: bytes) -> Definition: ...

@final
class TaskOptions:
    """The options of a task, each given or by default: nothing else knows a default.

    `options[keyword]` is what calls are made with. `None` given stands for the default, except for
    `placement_group`. `max_retries` may come from the environment and is read when it is asked for.
    """

    def __new__(cls, given: dict[str, Any], is_generator: bool) -> TaskOptions: ...
    def __getitem__(self, keyword: str) -> Any:
        """Raises `KeyError` for an unknown option."""
    @staticmethod
    def keywords() -> list[str]: ...
    @property
    def resources(self) -> dict[str, float]:
        """The resources that a call holds while it runs, without zeros."""

@final
class ActorOptions:
    """The options of an actor, as :class:`TaskOptions` has those of a task."""

    def __new__(cls, given: dict[str, Any], is_async: bool) -> ActorOptions: ...
    def __getitem__(self, keyword: str) -> Any:
        """Raises `KeyError` for an unknown option."""
    @staticmethod
    def keywords() -> list[str]: ...
    @property
    def placement_resources(self) -> dict[str, float]:
        """The resources that must be free for the actor to be placed, without zeros."""
    @property
    def resources(self) -> dict[str, float]:
        """The resources that the actor holds while it lives, without zeros."""
    @property
    def is_unordered(self) -> bool:
        """Whether a call whose arguments are not there yet lets later ones pass."""

@final
class MethodOptions:
    """The options of a method, as :class:`TaskOptions` has those of a task; some are the actor's."""

    def __new__(
        cls, given: dict[str, Any], actor: ActorOptions, is_generator: bool
    ) -> MethodOptions: ...
    def __getitem__(self, keyword: str) -> Any:
        """Raises `KeyError` for an unknown option."""
    @staticmethod
    def keywords() -> list[str]: ...

@final
class Placement:
    """The placement of a call or an actor. Default: that of its caller, or anywhere."""

    def __new__(
        cls,
        *,
        spread: bool = ...,
        node_id: str | None = None,
        soft: bool = ...,  # elsewhere when that node is gone or full
        group: PlacementGroupID | None = None,
        bundle: int = ...,
        capture_children: bool = ...,
        captured: bool = ...,  # False: not into the caller's placement group
        labels: Sequence[tuple[str, str]] = ...,
        fallbacks: Sequence[
            Sequence[tuple[str, str]]
        ] = ...,  # selectors tried in turn after `labels`
    ) -> Placement: ...
    @property
    def may_be_captured(self) -> bool:
        """Whether the caller's placement group decides, if it captures."""

@final
class TaskCaller:
    """`.remote` of one function with one set of options.

    `prepare` is called at the first call and again only when the session, or the placement group that
    the running task captures its children into, has changed. `check(args, kwargs)` is called when
    keywords are used or the number of arguments is outside `min_args..=max_args`; it raises
    `TypeError` when they do not fit (`max_args=-1`: no bound). Bind `caller.remote` once and keep it:
    it is a builtin method and the quickest thing to call.
    """

    def __new__(
        cls,
        options: TaskOptions,
        placement: Placement,
        prepare: Callable[[], TaskPlan],
        check: Callable[[tuple[Any, ...], dict[str, Any]], object] | None,
        min_args: int,
        max_args: int,
    ) -> TaskCaller: ...
    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """`ObjectRef`, list of them, `None` (num_returns=0) or `ObjectRefGenerator`."""

class ActorHandleBase:
    """The base of `ActorHandle`: the actor's id and the reference that keeps it alive.

    Equality and hash go by actor id. `ref` is `None` for weak handles (`get_actor`, detached).
    A subclass per actor class carries a :class:`MethodSlot` per method, so that `handle.method` is one
    type look-up and one small allocation.
    """

    def __new__(
        cls, actor_id: ActorID, ref: ObjectRef | None = None, *args: Any
    ) -> ActorHandleBase: ...
    @property
    def _actor_id(self) -> ActorID: ...
    @property
    def _ref(self) -> ObjectRef | None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class MethodSlot:
    """A descriptor: what one actor method is called with. `full_name`: of calls that are given none."""

    def __new__(
        cls,
        name: str,
        full_name: str,
        options: MethodOptions,
        check: Callable[[tuple[Any, ...], dict[str, Any]], object] | None,
        min_args: int,
        max_args: int,
        on_options: Callable[..., Any],
        on_bind: Callable[..., Any],
        on_reduce: Callable[..., Any],
    ) -> MethodSlot: ...
    @property
    def name(self) -> str: ...
    @property
    def num_returns(self) -> int | str: ...
    def __get__(self, handle: ActorHandleBase | None, owner: type | None = None) -> Any:
        """An :class:`ActorMethod`; on the class, the slot itself."""
    def bound(self, handle: ActorHandleBase) -> ActorMethod:
        """The same, without the class: for `.options()`."""

@final
class ActorMethod:
    """A method of an actor's handle. It keeps the handle; called without ``.remote`` it raises TypeError.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... class Counter:
        ...     def __init__(self):
        ...         self.n = 0
        ...     def add(self, n):
        ...         self.n += n
        ...         return self.n
        >>> add = Counter.remote().add
        >>> isinstance(add, ray.actor.ActorMethod)
        True
        >>> ray.get([add.remote(1), add.options(name="more").remote(2)])
        [1, 3]
    """

    @property
    def handle(self) -> ActorHandleBase: ...
    @property
    def slot(self) -> MethodSlot: ...
    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method. Returns at once; calls of one caller run in the order in which they were made.

        Args:
            *args: Positional arguments. References among them become values.
            **kwargs: Keyword arguments.

        Returns:
            A reference, a list of as many as ``num_returns`` says, ``None`` for 0, or a generator of
            references.

        Raises:
            TypeError: The arguments do not fit the method.
            PendingCallsLimitExceeded: ``max_pending_calls`` calls of the handle have not ended.
        """
    def options(self, **options: Any) -> Any:
        """The same method with other options.

        Args:
            **options: ``num_returns``, ``name``, ``concurrency_group``, ``max_task_retries``,
                ``retry_exceptions`` and ``enable_task_events``, as of ``ray.method``.

        Returns:
            What has ``remote(...)`` and ``bind(...)``, with these options.
        """
    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that calls the method when the graph is executed.

        Args:
            *args: Positional arguments, which may be nodes.
            **kwargs: Keyword arguments, likewise.

        Returns:
            A node.
        """
    @property
    def __signature__(self) -> inspect.Signature: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __reduce__(self) -> tuple[Any, ...]:
        """`slot.on_reduce(self)`."""

def expect(
    runtime_env: str, workers: int, modules: Sequence[str], wait: float | None = None
) -> None:
    """Work in this environment comes soon: have workers started ahead. Waits for them, at most `wait`
    seconds; promises nothing."""

def new_actor_id() -> ActorID: ...
def create_actor(
    options: ActorOptions,
    placement: Placement,
    plan: ActorPlan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> ActorCreated:
    """Raises `ActorAlreadyExistsError`, `ValueError`."""

def know_actor(actor_id: ActorID, ref: ObjectRef | None = None) -> None:
    """A handle arrived from elsewhere (call it from the handle's `__setstate__` or factory)."""

def kill_actor(actor_id: ActorID, no_restart: bool = True) -> None: ...
def actor_pending_calls(actor_id: ActorID) -> int: ...

# --- asking the control service --------------------------------------------------------------------

def get_named_actor(name: str, namespace: str = "") -> tuple[ActorID, bytes] | None:
    """The actor's id and the bytes of its `handle`."""

def list_named_actors(all_namespaces: bool = False) -> list[tuple[str, str]]:
    """(name, namespace) of each."""

def list_nodes() -> list[NodeRow]: ...
def list_members() -> tuple[int, list[NodeRow]]:
    """The nodes, and the number of the latest change of who they are."""

def await_members(seen: int) -> ObjectRef:
    """Ready once a node has joined, is gone, is to leave or stays after all since ``seen``."""

def list_actors() -> list[ActorRow]: ...
def list_jobs() -> list[JobRow]: ...
def create_group(plan: GroupPlan) -> ObjectRef:
    """The ref is ready when the control service knows the group, or raises when it refuses."""

def await_group(group_id: PlacementGroupID, value: Any) -> ObjectRef:
    """The ref becomes `value` when every bundle is reserved; raises when the group is gone."""

def remove_group(group_id: PlacementGroupID) -> None: ...
def get_group(
    group_id: PlacementGroupID | None, name: str = "", namespace: str = ""
) -> GroupRow | None:
    """By name in the session's namespace when the id is `None`."""

def list_groups() -> list[GroupRow]: ...
def kv_put(key: bytes, value: bytes, *, namespace: str = "", overwrite: bool = True) -> bool:
    """Whether it was there already."""

def kv_get(key: bytes, *, namespace: str = "") -> bytes | None: ...
def kv_del(key: bytes, *, namespace: str = "") -> bool: ...
def kv_keys(prefix: bytes, *, namespace: str = "") -> list[bytes]: ...

# --- what steps of environments are worth ---------------------------------------------------------------
# `heliostat.util.returns` says what each argument is. Arrays are read and written in place: float32, truth
# values bool, places int64, chances and random numbers float64. Those that are written come last.

def _following(
    values: Any, last: Any, terminated: Any, end_places: Any, end_values: Any, out: Any
) -> None: ...
def _advantages(
    rewards: Any,
    values: Any,
    following: Any,
    over: Any,
    gamma: float,
    lambda_: float,
    out: Any,
) -> None: ...
def _vtrace(
    log_ratios: Any,
    rewards: Any,
    values: Any,
    following: Any,
    over: Any,
    gamma: float,
    clips: tuple[float, float],
    targets: Any,
    advantages: Any,
) -> None: ...
def _n_step(
    rewards: Any, over: Any, gamma: float, at_most: int, sums: Any, counts: Any
) -> None: ...
def _set_chances(sums: Any, places: Any, chances: Any) -> None: ...
def _draw_places(
    sums: Any, randoms: Any, size: int, beta: float, places: Any, weights: Any
) -> None: ...

# --- replicas of Serve -------------------------------------------------------------------------------

@final
class _ServeReader:
    """Reads what an ingress sends to a replica."""

    def __init__(self, token: str) -> None: ...
    def feed(self, data: bytes) -> list[tuple[Any, ...]]:
        """The frames that have come, with the kind and the request's number first.

        1: whether the body is whole, the ASGI scope, the body; 2: whether it is the last piece, the
        piece; 3 (cancelled): nothing; 4: how many bytes of the answer were taken. Raises `ValueError`
        for a stranger.
        """

def _serve_head(id: int, status: int, is_whole: bool, headers: Any, body: bytes) -> bytes:
    """The frame that an answer begins with. `TypeError` where a header is not two `bytes`."""

def _serve_piece(id: int, is_last: bool, data: bytes) -> bytes: ...
def _serve_trailers(id: int, headers: Any) -> bytes: ...
def _serve_taken(id: int, bytes: int) -> bytes: ...
def _serve_break(id: int, is_refused: bool) -> bytes: ...

@final
class _ServeTurns:
    """The rule by which replicas of Serve get calls, in the ingress and in handles."""

    def __init__(self) -> None: ...
    def pick(self, replicas: list[Any], most: int) -> Any:
        """The one of them that gets the next call, by its `calls` and `is_leaving`; `None` if none has room.

        The fewest calls win; among equals those have their turn that had none for longest.
        """

def _serve_seed(begin: str, number: int) -> None:
    """The ids of this process's requests begin so, and go on from that number."""

def _serve_request_id() -> str:
    """An id that no other request has, as a UUID is written."""

def _serve_traced() -> None:
    """From now on each call has a span: `_ServeRoute.send` sends none."""

class _ServeGate:
    """The bound on a replica's requests.

    A subclass has `left`, `failed`, `tell_soon` and `generator_error`.
    """

    most: int
    ongoing: int
    is_plain: bool
    is_told: bool
    servable: Any
    def __new__(cls, most: int, waiting: Any) -> Self: ...
    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> Any: ...
    def set_context(self, make: Callable[[Any], Any], variable: ContextVar[Any]) -> None: ...
    def take_ended(self) -> list[tuple[str, float, bool]]: ...
    def begin(
        self, row: tuple[Any, ...], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Something to await for a call's result; `None`: there is no room, or it is not a plain call."""

class _ServeLoad:
    """A replica, as a process's router knows it."""

    is_leaving: bool
    request: Any
    def __new__(cls, *args: Any) -> Self: ...
    @property
    def calls(self) -> set[Any]: ...

class _ServeRouter:
    """The parts of a router that most calls need."""

    only: Any
    most: int
    waiting: Any
    routing: Any
    epoch: int
    def __new__(cls, *args: Any) -> Self: ...

class _ServeCall:
    """A call through a handle. `row`: its context, as it crosses to another process."""

    args: Any
    kwargs: Any
    session: Any
    stays_here: bool
    sent: Any
    error: Any
    load: Any
    sent_to: Any
    is_watched: bool
    is_bound: bool
    is_shared: bool
    waiters: Any
    def __new__(
        cls,
        router: Any,
        row: tuple[Any, ...],
        method: str,
        streams: bool,
        args: Any,
        kwargs: Any,
        session: str = "",
        stays_here: bool = False,
    ) -> Self: ...
    @property
    def router(self) -> Any: ...
    @property
    def row(self) -> Any: ...
    @property
    def method(self) -> str: ...
    @property
    def streams(self) -> bool: ...

class _ServeResponse:
    """A call that was made."""

    _call: Any
    def __new__(cls, call: Any) -> Self: ...
    def _result(
        self, timeout_s: float | None, skips_check: bool, slowly: Callable[..., Any]
    ) -> Any: ...

@final
class _ServeRoute:
    """The part that all calls of a handle have in common."""

    def __new__(
        cls,
        method: str,
        model: str,
        session: str,
        app: str,
        stays_here: bool,
        variable: ContextVar[Any],
        call: type,
        response: type,
    ) -> Self: ...
    def send(self, router: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The response of a call that was sent to the router's only replica; `None`: it goes another way."""

# --- what there is and what it waits for ------------------------------------------------------------

def why(id: bytes, seconds: float) -> str:
    """Sentences on what an object (28 bytes), a task (24) or an actor (16) waits for.

    What others did not say within that time is left out.
    """

def state_rows(resource: str, limit: int | None = None) -> tuple[str, int, int]:
    """(At most `limit` rows as JSON, processes that did not answer, rows that there are).

    `resource` is tasks, objects, workers, actors, nodes, jobs or placement-groups; others raise
    `ValueError`.
    """

def state_summary(resource: str) -> tuple[str, int]:
    """A summary of tasks, objects or actors as JSON, and how many processes did not answer."""

def trace(now_us: int) -> str:
    """The calls and their times as the JSON of a Chrome trace; `now_us` is the time since 1970."""

def declare_metric(name: str, description: str, kind: int, boundaries: list[float]) -> None:
    """Make a metric of this process; kind 0 is a counter, 1 a gauge, 2 a histogram."""

def record_metric(name: str, tags: list[tuple[str, str]], value: float) -> None:
    """Add to a counter, set a gauge, or count a value of a histogram. Tags are sorted."""

def forget_metrics(key: str, value: str) -> None:
    """Let go of all series of all metrics that have this tag."""

# --- what runs here --------------------------------------------------------------------------------

@final
class Current:
    """The running call, or the driver, when it was asked for. Ids are hex, or `None` where there is none."""

    @property
    def is_driver(self) -> bool: ...
    @property
    def task_id(self) -> str | None: ...
    @property
    def task_name(self) -> str | None:
        """`Class.method`, or what the option `name` says."""

    @property
    def function_name(self) -> str | None: ...
    @property
    def actor_id(self) -> str | None: ...
    @property
    def actor_name(self) -> str | None: ...
    @property
    def actor_class(self) -> str | None: ...
    @property
    def resources(self) -> dict[str, float]: ...
    @property
    def gpu_ids(self) -> list[int]: ...
    @property
    def accelerator_ids(self) -> dict[str, list[str]]: ...
    @property
    def placement_group_id(self) -> str | None: ...
    @property
    def capture_children(self) -> bool: ...
    @property
    def runtime_env(self) -> str:
        """JSON; empty: none."""

    @property
    def namespace(self) -> str: ...
    @property
    def is_canceled(self) -> bool: ...
    @property
    def reconstructed(self) -> bool:
        """Whether the actor's process is not its first."""

def current() -> Current: ...
def current_actor() -> Any:
    """The instance this process is; `None` when it is not an actor."""

def _drop_actor() -> None:
    """Let go of the instance, so that its `__del__` runs."""

def current_actor_handle() -> bytes:
    """The `handle` bytes it was created with."""

def exit_actor() -> None:
    """End this actor after the present call; raises what unwinds it, `TypeError` off an actor."""

# --- the driver's terminal -------------------------------------------------------------------------

def take_logs(timeout: float) -> list[tuple[int, str, str, bool, str]]:
    """(pid, host, name, is_stderr, text); blocks without the GIL. Call it in a thread of its own."""

def take_notices() -> list[tuple[bool, str]]:
    """(is_warning, text)."""

def take_unhandled() -> list[bytes]:
    """Errors, serialized, of calls whose refs went before anybody had read them."""

def flush_logs(timeout: float) -> None: ...

# --- plumbing of heliostat.core --------------------------------------------------------------------

def _prepare_copies() -> None:
    """In the zygote: find out what is the same in all its copies."""

def run_worker() -> int:
    """Serve this worker process until it is told to end; the exit code."""

def notify_fd() -> int: ...
def clear_notification() -> None:
    """Clear the mark of ``notify_fd``, for a reader that looks at everything afterwards."""

def watch(ref: ObjectRef, reads: bool = True) -> bool:
    """Whether ``get`` would return at once, or without `reads` whether the object is made.

    If not, ``take_ready`` gives its id once that is so.
    """

def take_ready() -> list[bytes]:
    """Ids of watched objects that became as their watchers wish."""

def _process_ends(last: bool) -> None: ...
def gil_counts() -> dict[str, int]:
    """The number of times that each named site took the GIL; `io` must stay 0 (GIL-1)."""

def _after_fork() -> None:
    """In a copy of this process: forget the session, which is the parent's."""

def _set_call_variable(variable: Any) -> None: ...
def _loop_fd() -> int:
    """The file descriptor that the event loop watches between `_loop_sleeps` and `_loop_woke`."""

def _loop_sleeps() -> float:
    """The event loop is about to sleep. 0: something has come, it is not to sleep. Above 0: for at most
    so many seconds, and `_loop_woke` follows. Below 0: as long as it likes."""

def _loop_woke(slept: float, is_readable: bool) -> None: ...
def _loop_passes() -> None:
    """The event loop looks around between two pieces of work."""

def _next_call(waits: bool = False) -> _RunningCall | bytes | bool | None:
    """For async actors: a call, the id of one to cancel, whether to drain before the end, or nothing.

    Without `waits` nothing is waited for. Raises `ConnectionError` when the daemon is gone.
    """

class _RunningCall:
    """A call of an async actor's method, from its arrival to its answer."""

    @property
    def task(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def is_streaming(self) -> bool: ...
    @property
    def backpressure(self) -> int: ...
    def invoke(self) -> Any: ...
    def send(self, index: int, item: Any) -> None: ...
    def finish(self, value: Any) -> None: ...
    def finish_items(self, items: int) -> None: ...
    def fail(self, error: BaseException) -> int | None:
        """Answer with what was raised; the exit code if that ends the process."""

def _serve_pool(group: str) -> None:
    """A pool thread's life in a threaded actor."""

def _ask_to_leave(code: int) -> bool:
    """End with `code` after the calls that run, if this is an async or threaded actor; whether it is."""

def _asked_to_leave() -> int | None:
    """The exit code, if the end was asked for from within."""

def _end_in_time(code: int) -> None:
    """End with `code` once `actor_graceful_shutdown_timeout_ms` are over, whatever runs then."""

def _look_again() -> None:
    """Has whoever waits in `_next_call` look whether the process is to end."""

def object_places(
    refs: list[ObjectRef], own_view: bool, timeout: float | None
) -> list[tuple[list[str], int | None, bool] | None]:
    """(nodes, bytes, whether it is on disk) of each; `None`: its owner says nothing."""

def _line_is_open() -> None:
    """Note that the text that was printed last has no end of its line."""

def _note_error() -> None:
    """An error was raised here that may keep references; the end of the next call has it seen to."""

def _runs_calls() -> bool:
    """Whether calls run in this process."""

def device_kinds() -> list[tuple[str, str, list[str] | None, list[int] | None]]:
    """Resources whose units are devices: name, variable, visible ones, quantities that can be asked for."""

def gpu_counts() -> dict[str, int]:
    """The number of this machine's GPUs of each maker, by the variable that names those a process sees."""

def _display_name() -> str:
    """The name of the call that prints now; empty: none."""

def _printing_task() -> str:
    """The id of the call that prints now, as hex; empty: none."""

def _buffer_callback(buffer: Any) -> bool: ...

class _View:
    """Bytes of an object, for the buffer protocol; read-only."""

    def __len__(self) -> int: ...

def _restore_ref(data: bytes) -> ObjectRef: ...
def _take_ref(position: int) -> ObjectRef: ...
def _use_dispatch_table() -> None: ...
def _use_numpy_fast_path(enabled: bool) -> None: ...
