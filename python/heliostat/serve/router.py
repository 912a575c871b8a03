"""The choice of the replica for a handle's call.

A process has one router a deployment, whatever handles it has. The router counts the calls that each replica
has of this process: the one with the fewest gets the next, by the rule of the ingress (``helio-turns``),
none gets more than ``max_ongoing_requests``, and further calls wait here, in order. A call is over when its
answer was read, or when its end is noticed: that is watched only where somebody waits for it or nobody will
read the answer.

The controller says which replicas there are: one call to it is always open and is answered when that changes.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.core.errors import ActorDeath, DeathKind
from heliostat.core.platform import serving
from heliostat.exceptions import ActorDiedError
from heliostat.serve import specs
from heliostat.serve.context import RequestContext, own_node
from heliostat.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    ReplicaUnavailableError,
    RequestCancelledError,
)
from heliostat.serve.specs import DeploymentID, ReplicaPlace, Targets

if TYPE_CHECKING:
    from heliostat.serve.routing import Routing

# How long to wait before the controller is looked for again.
_AGAIN_S = 0.2
# How soon the controller hears of another number of calls that wait, where it wants to know.
_COUNTS_S = 0.05


class Load(serving.LoadBase):
    """A replica, and the calls of this process that it has."""

    def __init__(self, place: ReplicaPlace) -> None:
        self.update(place)

    def update(self, place: ReplicaPlace) -> None:
        """Take over the state of the replica."""
        self.place = place
        # Found once, not for each call.
        self.request = place.actor.handle_request
        self.stream = place.actor.handle_stream.remote


class Call(serving.CallBase):
    """A call through a handle, from its queue to its answer. ``row``: its context, as it crosses."""

    __slots__ = ()

    @property
    def context(self) -> RequestContext:
        """The values that go with the request."""
        return RequestContext._make(self.row)

    def is_settled(self) -> bool:
        """Whether it was sent, or never will be."""
        return self.sent is not None or self.error is not None

    def when_settled(self, waiter: Callable[[], None]) -> None:
        """Call back once it was sent, or will not be."""
        with self.router.lock:
            if not self.is_settled():
                self.waiters = [*(self.waiters or ()), waiter]
                return
        waiter()

    def settle(self, sent: Any, error: BaseException | None) -> None:
        """Note that the call was sent, or will not be."""
        with self.router.lock:
            self.sent, self.error = sent, error
            waiters, self.waiters = self.waiters, None
        if waiters:
            for waiter in waiters:
                waiter()

    def method_of(self, load: Load) -> Callable[..., Any]:
        """The replica's method that takes a call with a stream of answers."""
        method: Callable[..., Any] = load.stream
        return method

    def send(self, load: Load) -> None:
        """To that replica; it counts as its call already."""
        self.sent_to = load
        try:
            # The context as a plain tuple: a class would have to be looked up over there.
            method = self.method_of(load) if self.streams else load.request.remote
            sent = method(tuple(self.row), self.method, *self.args, **self.kwargs)
        except Exception as error:
            self.release()
            self.settle(None, error)
        else:
            if self.is_shared:
                self.settle(sent, None)
            else:
                self.sent = sent

    def release(self) -> None:
        """Free the call's place at its replica."""
        load, self.load = self.load, None
        if load is None:
            return
        load.calls.discard(self)
        self.released(load)

    def released(self, load: Load) -> None:
        """Note that the place at the replica has been freed."""
        router = self.router
        if router.routing is not None:
            router.routing.released(self, load)
        elif router.waiting:
            router.feed()

    def failed(self, error: BaseException) -> None:
        """Note that the call has no answer. A replica that has died gets no other, though the
        controller may not know yet.
        """
        load = self.sent_to
        if load is not None and isinstance(error, (ActorDiedError, ReplicaUnavailableError)):
            load.is_leaving = True
            if self.router.routing is not None:
                self.router.routing.died(load)
        self.release()

    def watch(self) -> None:
        """Release it when it ends, whoever reads the answer."""
        sent = self.sent
        if sent is None or self.is_watched:
            return
        self.is_watched = True
        ref = sent.completed() if self.streams else sent
        serving.on_completed(ref, lambda _: self.release())

    def again(self, error: BaseException) -> bool:
        """Send it to another replica where the error says that its own was leaving and did not begin it."""
        if self.is_bound or not was_not_begun(error):
            return False
        load = self.sent_to
        if load is not None:
            load.is_leaving = True
        self.release()
        self.is_watched = False
        self.sent = None
        self.router.submit(self)
        return True


class Reservation(Call):
    """A place at a replica, for a call that is made later: it waits for one as a call does."""

    __slots__ = ()

    def send(self, load: Load) -> None:
        """The place is there."""
        self.sent_to = load
        self.settle(load, None)

    def watch(self) -> None:
        """Do nothing: the holder of the reservation gives it back."""

    def pass_on(self, call: Call) -> None:
        """Have another call take the place, and send it."""
        load = self.load
        if load is None or load.is_leaving:
            self.release()
            call.settle(
                None,
                ReplicaUnavailableError(load.place.id if load else str(call.router.deployment)),
            )
            return
        call.is_bound = True
        call.router.replace(self, call, load)
        call.send(load)


class Router(serving.RouterBase):
    """The calls of this process to one deployment.

    A call to the only replica is sent without the lock (``serve_call.rs``), and its end noticed: who
    begins to wait looks for room again afterwards.
    """

    only: Load | None  # the replica, where there is one and no choice
    waiting: deque[Call]
    routing: Routing | None  # the user's own choice of replicas

    def __init__(self, deployment: DeploymentID) -> None:
        self.deployment = deployment
        self.lock = threading.RLock()
        self.targets: Targets | None = None
        self.loads: dict[str, Load] = {}
        self.waiting: deque[Call] = deque()
        self.unheard: list[Callable[[], None]] = []  # to do once there are targets
        self.turns = serving.Turns()
        self.order: list[Load] = []  # all of `loads`
        self.name = uuid.uuid4().hex
        self.told = 0  # calls that wait, as the controller knows
        self.counter: threading.Timer | None = None
        self.epoch = serving.session_epoch()
        self.is_listening = False  # so the controller would have told of a change
        self.heard = -1  # the version that this controller has told last
        self._listen()

    def submit(self, call: Call) -> None:
        """Send it, or have it wait for a replica."""
        own = None
        with self.lock:
            load = self.only
            if self.waiting or load is None or len(load.calls) >= self.most or load.is_leaving:
                own = self._own_routing()
                load = None if self.waiting or own is not None else self._pick(call)
            error, asks = None, False
            if load is not None:
                call.load = load
                load.calls.add(call)
            else:
                asks = self._is_gone() and not self.is_listening
                error = None if asks else self._refusal()
                if error is None:
                    call.is_shared = True
                    self.waiting.append(call)
                    self._watch_all()
                    self._count_soon()
        if load is not None:
            call.send(load)
        elif error is not None:
            call.settle(None, error)
        elif asks:
            self._listen()  # Serve may have begun anew: what was gone may be there
        elif own is not None:
            own.begin(call)
        else:
            self.feed()

    # --- the user's own choice of replicas

    def _own_routing(self) -> Routing | None:
        """Return the user's own routing, if there is one; made when there are the first targets."""
        targets = self.targets
        if targets is None or targets.routing is None:
            return self.routing
        wanted = targets.routing
        if self.routing is None:
            from heliostat.serve.routing import Routing

            self.routing = Routing(self, wanted)
        return self.routing

    def _follow_routing(self, targets: Targets) -> list[Call]:
        """Have the replicas chosen as the deployment says now; the calls that are to begin with it."""
        before = self.routing
        if before is not None and not before.is_of(targets.routing):
            before.end()
            self.routing = None
        own = self._own_routing()
        if own is None:
            return []
        own.heard([one for one in self.loads.values() if not one.is_leaving], targets.max_ongoing)
        return [] if own is before else list(self.waiting)

    def is_waiting(self, call: Call) -> bool:
        """Whether a call has no replica yet, and still wants one."""
        with self.lock:
            return call in self.waiting

    def take(
        self, call: Call, ranks: list[list[str]], whose: Callable[[list[Call]], Call]
    ) -> tuple[Call, Load] | None:
        """A place at a replica of the first rank that has room, for one of the calls that wait.

        ``whose`` chooses that one. The caller sends it. ``None``: there is no room.
        """
        with self.lock:
            if self.targets is None or call not in self.waiting:
                return None
            for rank in ranks:
                loads = [self.loads[one] for one in rank if one in self.loads]
                # The first of equals, as the user's router has ranked them: none has had a turn.
                load: Load | None = serving.Turns().pick(loads, self.targets.max_ongoing)
                if load is not None:
                    taker = whose(list(self.waiting))
                    self.waiting.remove(taker)
                    taker.load = load
                    load.calls.add(taker)
                    return taker, load
            self._watch_all()
            return None

    def give_up(self, call: Call, error: BaseException) -> None:
        """No replica will be found for a call that waits."""
        with self.lock:
            if call not in self.waiting:
                return
            self.waiting.remove(call)
        call.settle(None, error)

    def _has_room(self, load: Load) -> bool:
        assert self.targets is not None
        return not load.is_leaving and len(load.calls) < self.targets.max_ongoing

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
                    call.is_bound, call.load = True, load
                    load.calls.add(call)
                    calls.append((call, load))
        for call, load in calls:
            call.send(load)
        if calls:
            sent.set_result([call for call, _ in calls])
        else:
            sent.set_exception(DeploymentUnavailableError(self.deployment))

    def _is_gone(self) -> bool:
        targets = self.targets
        return targets is not None and (not targets.is_there or targets.failure is not None)

    def _refusal(self) -> Exception | None:
        targets = self.targets
        if targets is None:
            return None
        if self._is_gone():
            return DeploymentUnavailableError(self.deployment)
        most = targets.max_queued
        if 0 <= most <= len(self.waiting):
            return _too_many(targets, len(self.waiting))
        return None

    def _refuse_beyond_queue(self) -> None:
        """Refuse the calls, made before there were targets, that find no place to wait."""
        refused: list[tuple[Call, BackPressureError]] = []
        with self.lock:
            targets = self.targets
            if targets is None or targets.max_queued < 0:
                return
            # A router of the user's has given nothing to the replicas yet.
            room = 0 if self.routing is None else targets.max_ongoing * len(self.loads)
            most = targets.max_queued + room
            while len(self.waiting) > most:
                refused.append((self.waiting.pop(), _too_many(targets, most)))
        for call, error in refused:
            call.settle(None, error)

    def _pick(self, call: Call) -> Load | None:
        targets = self.targets
        if targets is None:
            return None
        kept = call.session or call.context.multiplexed_model_id
        free = self.order
        if kept or call.stays_here:
            free = [load for load in free if self._has_room(load)]
        if call.stays_here:
            free = [load for load in free if load.place.node == own_node()] or free
        if kept:
            # Each session and model has its own order of replicas, the same in every process.
            return max(free, key=lambda load: _affinity(kept, load.place.id), default=None)
        found: Load | None = self.turns.pick(free, targets.max_ongoing)
        return found

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

    def replace(self, before: Call, after: Call, load: Load) -> None:
        """A replica has one call in place of another."""
        with self.lock:
            load.calls.discard(before)
            load.calls.add(after)
            before.load, after.load = None, load

    def _watch_all(self) -> None:
        for load in self.loads.values():
            for call in list(load.calls):
                call.watch()

    def feed(self) -> None:
        """Send the calls that wait to the replicas that have room."""
        while True:
            with self.lock:
                if not self.waiting or self.routing is not None:
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
        with self.lock:
            if self.is_listening:
                return
            self.is_listening = True
        try:
            with serving.begins_none():
                controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
                answer = controller.listen.remote(self.deployment, self.name, self.heard)
        except Exception:
            self._lost()
        else:
            serving.on_completed(answer, self._heard)

    def _lost(self) -> None:
        """Forget versions: the controller is not there or has ended, and the next one has its own."""
        refused: list[Call] = []
        with self.lock:
            self.is_listening, self.heard = False, -1
            if self._is_gone():
                refused, self.waiting = list(self.waiting), deque()
        for call in refused:
            call.settle(None, DeploymentUnavailableError(self.deployment))
        self._listen_later()

    def _listen_later(self) -> None:
        timer = threading.Timer(_AGAIN_S, self._listen)
        timer.daemon = True
        timer.start()

    def _heard(self, targets: Any) -> None:
        if not isinstance(targets, Targets):
            self._lost()
            return
        refused: list[Call] = []
        with self.lock:
            is_first = self.targets is None
            self.targets, self.heard = targets, targets.version
            self.is_listening = False
            before = self.loads
            self.loads = {one.id: before.get(one.id) or Load(one) for one in targets.replicas}
            self.order = list(self.loads.values())
            for one in targets.replicas:
                self.loads[one.id].update(one)
            begun = self._follow_routing(targets)
            own = self.routing
            has_choice = len(self.loads) != 1 or own is not None
            self.only = None if has_choice else next(iter(self.loads.values()))
            self.most = targets.max_ongoing
            if self.waiting:
                self._count_soon()
            if self._is_gone():
                refused, self.waiting = list(self.waiting), deque()
            unheard, self.unheard = self.unheard, []
        for begin in unheard:
            begin()
        for call in refused:
            call.settle(None, DeploymentUnavailableError(self.deployment))
        self.feed()
        if is_first:
            self._refuse_beyond_queue()
        for call in begun:
            assert own is not None
            own.begin(call)
        self._listen()


def _too_many(targets: Targets, waiting: int) -> BackPressureError:
    told = targets.backpressure
    return BackPressureError(waiting, targets.max_queued, told.status_code, told.retry_after_s)


def was_not_begun(error: BaseException) -> bool:
    """Whether a call ended with that error because its replica was leaving, and before it ran."""
    if isinstance(error, ReplicaUnavailableError):
        return True
    death = error.args[0] if isinstance(error, ActorDiedError) and error.args else None
    # A replica leaves once it has answered what it has begun. The code of a deployment may leave, too.
    return (
        isinstance(death, ActorDeath)
        and death.cause.kind == DeathKind.USER_EXIT
        and death.cause.method == specs.LEAVE_METHOD
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


def is_known(deployment: DeploymentID) -> bool:
    """Whether this process has a router for a deployment in the present session."""
    found = _routers.get(deployment)
    return found is not None and found.epoch == serving.session_epoch()


def forget_all() -> None:
    """Serve has ended: what comes after it begins anew."""
    with _lock:
        for router in _routers.values():
            router.epoch = -1
            if router.routing is not None:
                router.routing.end()
        _routers.clear()
