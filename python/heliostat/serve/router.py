"""Which replica a handle's call goes to.

A process has one router a deployment, whatever handles it has. The router counts the calls that each replica
has of this process: the one with the fewest gets the next, none gets more than ``max_ongoing_requests``, and
further calls wait here, in order. A call is over when its answer was read, or when its end is noticed: that
is watched only where somebody waits for it or nobody will read the answer.

The controller says which replicas there are: one call to it is always open and is answered when that changes.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat.core import serving
from heliostat.core.errors import ActorDeath, DeathKind
from heliostat.exceptions import ActorDiedError
from heliostat.serve import specs
from heliostat.serve.context import RequestContext
from heliostat.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    ReplicaUnavailableError,
    RequestCancelledError,
)
from heliostat.serve.specs import DeploymentID, ReplicaPlace, Targets

# How long to wait before the controller is looked for again.
_AGAIN_S = 0.2
# How soon the controller hears of another number of calls that wait, where it wants to know.
_COUNTS_S = 0.05


class Load:
    """A replica, and the calls of this process that it has."""

    def __init__(self, place: ReplicaPlace) -> None:
        self.place = place
        self.calls: set[Call] = set()
        self.is_leaving = False


class Call:
    """A call through a handle, from its queue to its answer."""

    __slots__ = (
        "args",
        "context",
        "error",
        "is_broadcast",
        "is_watched",
        "kwargs",
        "load",
        "lock",
        "method",
        "router",
        "sent",
        "session",
        "streams",
        "waiters",
    )

    def __init__(
        self,
        router: Router,
        context: RequestContext,
        method: str,
        streams: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        session: str = "",
    ) -> None:
        self.router = router
        self.context = context
        self.method = method
        self.streams = streams
        self.args = args
        self.kwargs = kwargs
        self.session = session
        self.sent: Any = None  # the reference, or the generator
        self.error: BaseException | None = None
        self.load: Load | None = None
        self.is_watched = False
        self.is_broadcast = False  # of one replica, not of any
        self.waiters: list[Callable[[], None]] = []
        self.lock = threading.Lock()

    def is_settled(self) -> bool:
        """Whether it was sent, or never will be."""
        return self.sent is not None or self.error is not None

    def when_settled(self, waiter: Callable[[], None]) -> None:
        """Call back once it was sent, or will not be."""
        with self.lock:
            if not self.is_settled():
                self.waiters.append(waiter)
                return
        waiter()

    def settle(self, sent: Any, error: BaseException | None) -> None:
        """It was sent, or will not be."""
        with self.lock:
            self.sent, self.error = sent, error
            waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()

    def send(self, load: Load) -> None:
        """To that replica; it counts as its call already."""
        actor = load.place.actor
        method = actor.handle_stream if self.streams else actor.handle_request
        try:
            sent = method.remote(self.context, self.method, *self.args, **self.kwargs)
        except Exception as error:
            self.release()
            self.settle(None, error)
        else:
            self.settle(sent, None)

    def release(self) -> None:
        """Its replica is free for another."""
        load, self.load = self.load, None
        if load is not None:
            self.router.release(self, load)

    def failed(self, error: BaseException) -> None:
        """It has no answer. A replica that has died gets no other, though the controller may not know yet."""
        load = self.load
        if load is not None and isinstance(error, (ActorDiedError, ReplicaUnavailableError)):
            load.is_leaving = True
        self.release()

    def watch(self) -> None:
        """Release it when it ends, whoever reads the answer."""
        sent = self.sent
        if sent is None or self.is_watched:
            return
        self.is_watched = True
        ref = sent.completed() if self.streams else sent
        ref._on_completed(lambda _: self.release())

    def again(self, error: BaseException) -> bool:
        """Send it to another replica where the error says that its own was leaving and did not begin it."""
        if self.is_broadcast or not was_not_begun(error):
            return False
        load = self.load
        if load is not None:
            load.is_leaving = True
        self.release()
        self.is_watched = False
        with self.lock:
            self.sent = None
        self.router.submit(self)
        return True


class Router:
    """The calls of this process to one deployment."""

    def __init__(self, deployment: DeploymentID) -> None:
        self.deployment = deployment
        self.lock = threading.RLock()
        self.targets: Targets | None = None
        self.loads: dict[str, Load] = {}
        self.waiting: deque[Call] = deque()
        self.unheard: list[Callable[[], None]] = []  # to do once there are targets
        self.turn = 0
        self.name = uuid.uuid4().hex
        self.told = 0  # calls that wait, as the controller knows
        self.counter: threading.Timer | None = None
        self.epoch = serving.session_epoch()
        self._listen()

    def submit(self, call: Call) -> None:
        """Send it, or have it wait for a replica."""
        with self.lock:
            load = None if self.waiting else self._pick(call)
            error = None
            if load is None:
                error = self._refusal()
                if error is None:
                    self.waiting.append(call)
                    self._watch_all()
                    self._count_soon()
            else:
                call.load = load
                load.calls.add(call)
        if load is not None:
            call.send(load)
        elif error is not None:
            call.settle(None, error)

    def broadcast(
        self, make: Callable[[], Call], sent: concurrent.futures.Future[list[Call]]
    ) -> None:
        """Send a call to each replica, whatever it has to do; ``sent`` gets the calls."""
        with self.lock:
            if self.targets is None:
                self.unheard.append(lambda: self.broadcast(make, sent))
                return
            calls: list[tuple[Call, Load]] = []
            for load in self.loads.values():
                if not load.is_leaving:
                    call = make()
                    call.is_broadcast, call.load = True, load
                    load.calls.add(call)
                    calls.append((call, load))
        for call, load in calls:
            call.send(load)
        if calls:
            sent.set_result([call for call, _ in calls])
        else:
            sent.set_exception(DeploymentUnavailableError(self.deployment))

    def _refusal(self) -> Exception | None:
        targets = self.targets
        if targets is None:
            return None
        if not targets.is_there or targets.failure is not None:
            return DeploymentUnavailableError(self.deployment)
        most = targets.max_queued
        if 0 <= most <= len(self.waiting):
            return BackPressureError(len(self.waiting), most)
        return None

    def _pick(self, call: Call) -> Load | None:
        targets = self.targets
        if targets is None:
            return None
        most = targets.max_ongoing
        free = [
            load for load in self.loads.values() if not load.is_leaving and len(load.calls) < most
        ]
        if not free:
            return None
        kept = call.session or call.context.multiplexed_model_id
        if kept:
            # Each session and model has its own order of replicas, the same in every process.
            return max(free, key=lambda load: _affinity(kept, load.place.id))
        least = min(len(load.calls) for load in free)
        equal = [load for load in free if len(load.calls) == least]
        self.turn += 1
        return equal[self.turn % len(equal)]

    def _count_soon(self) -> None:
        """Tell the controller how many wait, again and again while some do."""
        if self.counter is None and self.targets is not None and self.targets.is_counted:
            self.counter = threading.Timer(_COUNTS_S, self._count)
            self.counter.daemon = True
            self.counter.start()

    def _count(self) -> None:
        with self.lock:
            self.counter = None
            number = len(self.waiting)
            if number or self.told:
                self._count_soon()
            if number == self.told or serving.session_epoch() != self.epoch:
                return
            self.told = number
        try:
            with serving.begins_none():
                controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
                controller.queue.remote(self.deployment, self.name, number)
        except Exception:
            self.told = -1  # whoever comes after the controller is told

    def _watch_all(self) -> None:
        for load in self.loads.values():
            for call in list(load.calls):
                call.watch()

    def release(self, call: Call, load: Load) -> None:
        """The replica has that call no more."""
        with self.lock:
            load.calls.discard(call)
        if self.waiting:
            self._feed()

    def _feed(self) -> None:
        while True:
            with self.lock:
                if not self.waiting:
                    return
                call = self.waiting[0]
                load = self._pick(call)
                if load is None:
                    self._watch_all()
                    return
                self.waiting.popleft()
                call.load = load
                load.calls.add(call)
            call.send(load)

    def cancel(self, call: Call) -> bool:
        """Whether it still waited here."""
        with self.lock:
            if call not in self.waiting:
                return False
            self.waiting.remove(call)
        call.settle(None, RequestCancelledError(call.context.request_id))
        return True

    def _listen(self) -> None:
        if serving.session_epoch() != self.epoch:
            return
        version = -1 if self.targets is None else self.targets.version
        try:
            with serving.begins_none():
                controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
                answer = controller.listen.remote(self.deployment, self.name, version)
        except Exception:
            self._listen_later()
        else:
            answer._on_completed(self._heard)

    def _listen_later(self) -> None:
        timer = threading.Timer(_AGAIN_S, self._listen)
        timer.daemon = True
        timer.start()

    def _heard(self, targets: Any) -> None:
        if not isinstance(targets, Targets):
            self._listen_later()
            return
        refused: list[Call] = []
        with self.lock:
            self.targets = targets
            before = self.loads
            self.loads = {one.id: before.get(one.id) or Load(one) for one in targets.replicas}
            if self.waiting:
                self._count_soon()
            if not targets.is_there or targets.failure is not None:
                refused, self.waiting = list(self.waiting), deque()
            unheard, self.unheard = self.unheard, []
        for begin in unheard:
            begin()
        for call in refused:
            call.settle(None, DeploymentUnavailableError(self.deployment))
        self._feed()
        self._listen()


def was_not_begun(error: BaseException) -> bool:
    """Whether a call ended with that error because its replica was leaving, and before it ran."""
    if isinstance(error, ReplicaUnavailableError):
        return True
    death = error.args[0] if isinstance(error, ActorDiedError) and error.args else None
    # A replica leaves once it has answered what it has begun. The code of a deployment may leave, too.
    return (
        isinstance(death, ActorDeath)
        and death.cause.kind == DeathKind.USER_EXIT
        and death.cause.message.endswith(f", in {specs.LEAVE_METHOD}.")
    )


def _affinity(kept: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{kept}\0{replica}".encode(), digest_size=8).digest()


_routers: dict[DeploymentID, Router] = {}
_lock = threading.Lock()


def router_of(deployment: DeploymentID) -> Router:
    """This process's router for a deployment.

    Raises:
        RayServeException: There is no session.
    """
    found = _routers.get(deployment)
    if found is None or found.epoch != serving.session_epoch():
        with _lock:
            found = _routers.get(deployment)
            if found is None or found.epoch != serving.session_epoch():
                if not ray.is_initialized():
                    raise RayServeException(
                        f"No session is there that {deployment} could answer in: it ended with "
                        "`ray.shutdown()`. Run the application again, and use the handle that it gives."
                    )
                found = _routers[deployment] = Router(deployment)
    return found


def forget_all() -> None:
    """Serve has ended: what comes after it begins anew."""
    with _lock:
        for router in _routers.values():
            router.epoch = -1
        _routers.clear()
