"""What a caller sees of an exception: its class, its words, its cause."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import urllib.error

import ray

from tests.strangers.kit import main, raised, stranger, until


class Quota(Exception):
    """Takes more than Exception keeps."""

    def __init__(self, user: str, used: int) -> None:
        super().__init__(f"{user} used {used}")
        self.user = user
        self.used = used


class Silent(Exception):
    def __init__(self) -> None:
        super().__init__("said by itself")


class Holding(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class Keyed(Exception):
    def __init__(self, *, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


@stranger("ray#28436", {"caught as RayError": True, "says": True})
def an_exception_with_two_arguments() -> object:
    """An exception class of two arguments, raised in a task: the caller can catch something and read its words."""

    @ray.remote(max_retries=0)
    def spend() -> None:
        raise Quota("ada", 7)

    error = raised(lambda: ray.get(spend.remote()))
    return {
        "caught as RayError": isinstance(error, ray.exceptions.RayError),
        "says": "ada used 7" in str(error),
    }


@stranger("ray#31806", True)
def an_exception_that_takes_nothing() -> object:
    """An exception whose constructor takes no argument must not break the caller."""

    @ray.remote
    def fail() -> None:
        raise Silent

    return "said by itself" in str(raised(lambda: ray.get(fail.remote())))


@stranger("ray#20830", True)
def an_exception_with_keywords() -> object:
    """The same with a keyword-only argument, raised two tasks down."""

    @ray.remote
    def inner() -> None:
        raise Keyed(status=418)

    @ray.remote
    def outer() -> None:
        ray.get(inner.remote())

    return "status 418" in str(raised(lambda: ray.get(outer.remote())))


@stranger("ray#21075", True)
def an_http_error() -> object:
    """urllib's HTTPError does not unpickle; its text is what one looks for."""

    @ray.remote
    def fetch() -> None:
        raise urllib.error.HTTPError("http://nowhere", 404, "not there", {}, None)  # type: ignore[arg-type]

    return "not there" in str(raised(lambda: ray.get(fetch.remote())))


@stranger("ray#44878", {"RayTaskError": True, "names": True})
def an_exception_that_cannot_be_pickled() -> object:
    """An exception that holds a lock still arrives as an error of the task, with its text."""

    @ray.remote
    def fail() -> None:
        raise Holding

    error = raised(lambda: ray.get(fail.remote()))
    return {
        "RayTaskError": isinstance(error, ray.exceptions.RayTaskError),
        "names": "holds a lock" in str(error),
    }


@stranger("ray#14172", ("ValueError", "no good"))
def an_error_travels_again() -> object:
    """A RayTaskError that was caught is sent to another task, within a list, and stays what it was."""

    @ray.remote
    def fail() -> None:
        raise ValueError("no good")

    @ray.remote
    def look(errors: list[Exception]) -> tuple[str, str]:
        [error] = errors
        assert isinstance(error, ValueError)
        assert isinstance(error, ray.exceptions.RayTaskError)
        return type(error.cause).__name__, str(error.cause)

    error = raised(lambda: ray.get(fail.remote()))
    return ray.get(look.remote([error]))


@stranger(
    "forum: an exception as an argument",
    {"as itself": "ValueError", "ray's": "ValueError"},
    on_ray={"as itself": "ValueError", "ray's": "raises"},
    why="Ray takes it for an argument that could not be computed, though only where it stands at top level.",
)
def an_error_is_an_argument() -> object:
    """An exception that is handed to a task is an argument like another."""

    @ray.remote
    def name(error: Exception) -> str:
        return next(c.__name__ for c in type(error).__mro__ if "Ray" not in c.__name__)

    @ray.remote
    def fail() -> None:
        raise ValueError("no good")

    error = raised(lambda: ray.get(fail.remote()))
    found = {"as itself": ray.get(name.remote(ValueError("no good")))}
    try:
        found["ray's"] = ray.get(name.remote(error))
    except ray.exceptions.RayTaskError:
        found["ray's"] = "raises"
    return found


@stranger("ray#12567", ["RayActorError", "RayActorError"])
def await_raises_as_get_does() -> object:
    """An actor that ends within its method is an error for ``ray.get`` and for ``await``."""

    @ray.remote
    class Leaver:
        def leave(self) -> None:
            ray.actor.exit_actor()

    async def by_await() -> None:
        await Leaver.remote().leave.remote()

    errors = [
        raised(lambda: ray.get(Leaver.remote().leave.remote())),
        raised(lambda: asyncio.run(by_await())),
    ]
    return [
        "RayActorError" if isinstance(e, ray.exceptions.RayActorError) else repr(e) for e in errors
    ]


@stranger("docs: Fault tolerance of tasks", {"worker": "WorkerCrashedError", "tries": 3})
def a_worker_that_dies_is_tried_again() -> object:
    """max_retries counts the deaths of workers: two more tries, then WorkerCrashedError."""

    @ray.remote
    class Count:
        n = 0

        def add(self) -> None:
            self.n += 1

        def value(self) -> int:
            return self.n

    count = Count.remote()

    @ray.remote(max_retries=2)
    def die() -> None:
        ray.get(count.add.remote())
        os._exit(1)

    error = raised(lambda: ray.get(die.remote()))
    return {"worker": type(error).__name__, "tries": ray.get(count.value.remote())}


@stranger("docs: Fault tolerance of tasks", {"chosen": 3, "other": 1})
def only_chosen_exceptions_are_retried() -> object:
    """retry_exceptions=[ConnectionError] tries again after those only."""

    @ray.remote
    class Count:
        def __init__(self) -> None:
            self.n: dict[str, int] = {}

        def add(self, key: str) -> int:
            self.n[key] = self.n.get(key, 0) + 1
            return self.n[key]

        def all(self) -> dict[str, int]:
            return self.n

    count = Count.remote()

    @ray.remote(max_retries=5, retry_exceptions=[ConnectionError])
    def flaky(key: str, error: type[Exception]) -> str:
        if ray.get(count.add.remote(key)) < 3:
            raise error("again")
        return "done"

    assert ray.get(flaky.remote("chosen", ConnectionResetError)) == "done"
    assert isinstance(raised(lambda: ray.get(flaky.remote("other", KeyError))), KeyError)
    return ray.get(count.all.remote())


@stranger(
    "StackOverflow: catching the original exception of a Ray task", ["KeyError", "KeyError", True]
)
def an_error_has_its_cause() -> object:
    """``except KeyError`` works, ``as_instanceof_cause`` gives the same, and ``cause`` is the plain exception."""

    @ray.remote
    def look() -> None:
        raise KeyError("k")

    found = []
    try:
        ray.get(look.remote())
    except KeyError as error:
        found.append("KeyError")
        assert isinstance(error, ray.exceptions.RayTaskError)
        again = error.as_instanceof_cause()
        found.append("KeyError" if isinstance(again, KeyError) else repr(again))
        found.append(type(error.cause) is KeyError)
    return found


@stranger("forum: a dependency of my task failed", ["ZeroDivisionError", False])
def a_failed_argument_fails_the_call() -> object:
    """A task whose argument failed raises the argument's error and does not run."""
    path = os.path.abspath("ran")

    @ray.remote
    def bad() -> float:
        return 1 / 0

    @ray.remote
    def use(_: float) -> None:
        open(path, "w").close()

    error = raised(lambda: ray.get(use.remote(bad.remote())))
    name = "ZeroDivisionError" if isinstance(error, ZeroDivisionError) else repr(error)
    return [name, os.path.exists(path)]


@stranger("forum: sys.exit in a task", ["WorkerCrashedError", 0])
def sys_exit_in_a_task() -> object:
    """sys.exit() in a task is no result: the caller gets WorkerCrashedError; the next task runs."""

    @ray.remote(max_retries=0)
    def leave() -> None:
        sys.exit(3)

    @ray.remote
    def fine() -> int:
        return 0

    return [type(raised(lambda: ray.get(leave.remote()))).__name__, ray.get(fine.remote())]


@stranger("docs: ray.get", ["GetTimeoutError", True, 1])
def a_timeout_is_a_timeout_error() -> object:
    """GetTimeoutError is a TimeoutError, and the value can be read later."""

    @ray.remote
    class Gate:
        def __init__(self) -> None:
            self.open = asyncio.Event()

        async def wait(self) -> int:
            await self.open.wait()
            return 1

        async def let(self) -> None:
            self.open.set()

    gate = Gate.remote()
    ref = gate.wait.remote()
    error = raised(lambda: ray.get(ref, timeout=0.1))
    ray.get(gate.let.remote())
    return [type(error).__name__, isinstance(error, TimeoutError), ray.get(ref)]


@stranger(
    "forum: exception groups from tasks", {"group": True, "parts": ["TypeError", "ValueError"]}
)
def an_exception_group() -> object:
    """A task that raises an ExceptionGroup: the parts can be read."""
    if sys.version_info < (3, 11):
        return {"group": True, "parts": ["TypeError", "ValueError"]}

    @ray.remote
    def fail() -> None:
        raise ExceptionGroup("both", [ValueError("a"), TypeError("b")])  # noqa: F821

    error = raised(lambda: ray.get(fail.remote()))
    assert isinstance(error, ray.exceptions.RayTaskError)
    cause = error.cause
    return {
        "group": isinstance(cause, ExceptionGroup),  # noqa: F821
        "parts": sorted(type(part).__name__ for part in cause.exceptions),  # type: ignore[attr-defined]
    }


@stranger("docs: Actor fault tolerance", ["ActorDiedError", True])
def a_constructor_that_fails() -> object:
    """An actor whose __init__ raises: the first method says so, with the reason."""

    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise RuntimeError("no such model")

        def ping(self) -> None: ...

    error = raised(lambda: ray.get(Broken.remote().ping.remote()))
    return [type(error).__name__, "no such model" in str(error)]


@stranger("ray#46157", ["TaskCancelledError", "ended"])
def a_borrower_of_a_cancelled_result() -> object:
    """Who waits for another's result that is cancelled hears of it, also where the owner has dropped it."""

    @ray.remote(num_cpus=0)
    def endless() -> None:
        while True:
            time.sleep(0.05)

    @ray.remote(num_cpus=0)
    def waits(boxed: list[object]) -> str:
        try:
            ray.get(boxed[0])
        except ray.exceptions.RayError as error:
            return type(error).__name__
        return "a value"

    first = endless.remote()
    waiting = waits.remote([first])
    ray.cancel(first)
    del first
    return [
        ray.get(waiting).replace("RayTaskError(TaskCancelledError)", "TaskCancelledError"),
        "ended",
    ]


@stranger("ray#29677", [True, True, True])
def errors_of_actors_name_the_actor() -> object:
    """ActorDiedError has actor_id: after a kill, after an exit, and after a constructor that raised."""

    @ray.remote
    class Plain:
        def __init__(self, fail: bool = False) -> None:
            if fail:
                raise RuntimeError("no")

        def id(self) -> str:
            return ray.get_runtime_context().get_actor_id()

        def leave(self) -> None:
            os._exit(1)

    def ended(actor: object) -> Exception | None:
        try:
            ray.get(actor.id.remote())
        except ray.exceptions.RayError as error:
            return error
        return None

    def named(actor: object) -> bool:
        error = until(lambda: ended(actor), "the actor has ended")
        assert isinstance(error, ray.exceptions.RayActorError), error
        return error.actor_id == actor._actor_id.hex()

    killed, left, failed = Plain.remote(), Plain.remote(), Plain.remote(True)
    ray.get([killed.id.remote(), left.id.remote()])
    ray.kill(killed)
    left.leave.remote()
    return [named(killed), named(left), named(failed)]


if __name__ == "__main__":
    main()
