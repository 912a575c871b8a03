"""Runs a user's :class:`RequestRouter` for the calls of a process to one deployment."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heliostat.serve.context import ReplicaID, own_node
from heliostat.serve.options import RequestRouterConfig
from heliostat.serve.request_router import (
    FIFOMixin,
    MultiplexMixin,
    PendingRequest,
    RequestMetadata,
    RequestRouter,
    RunningReplica,
)

if TYPE_CHECKING:
    from heliostat.serve.router import Call, Load, Router


# How long a thread may take to end.
_ENDS_S = 5.0
_running: set[Routing] = set()


@atexit.register
def _end_all() -> None:
    """A thread that is in native code when the interpreter ends takes the process with it."""
    ended = list(_running)
    for one in ended:
        one.end()
    for one in ended:
        one.join()


class Routing:
    """A thread with an event loop, on which the user's router is asked.

    ``take`` of the process's :class:`Router` decides, under its lock, whether a replica has room: this class
    only asks for ranks and waits.
    """

    def __init__(self, router: Router, config: RequestRouterConfig) -> None:
        self.config = config
        self._router = router
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._chosen: RequestRouter | None = None
        self._replicas: dict[str, RunningReplica] = {}
        self._slots = asyncio.Semaphore(RequestRouter.max_num_routing_tasks_cap)
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: dict[Call, PendingRequest] = {}
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="serve-routing", daemon=True)
        self._thread.start()
        _running.add(self)

    def is_of(self, config: RequestRouterConfig | None) -> bool:
        """Whether a deployment that is configured so is routed by this."""
        return config == self.config and config._pickled == self.config._pickled

    def begin(self, call: Call) -> None:
        """Look for a replica; the call is in the router's queue."""
        self._tell(self._begin, call)

    def heard(self, loads: list[Load], most: int) -> None:
        """These replicas take calls now."""
        self._tell(self._update, list(loads), most)

    def released(self, call: Call, load: Load) -> None:
        """A replica has a call less."""
        self._tell(self._released, call, load)

    def died(self, load: Load) -> None:
        """A replica gets no more calls."""
        self._tell(self._died, load)

    def end(self) -> None:
        """End the routing."""
        self._tell(self._loop.stop)
        _running.discard(self)

    def join(self) -> None:
        """Wait for its thread, which the user's code may hold up for a moment."""
        self._thread.join(_ENDS_S)

    def _tell(self, what: Callable[..., Any], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(what, *args)

    # --- on the loop's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._make)
        self._loop.run_forever()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    def _make(self) -> None:
        try:
            chosen = self.config.get_request_router_class()(
                deployment_id=self._router.deployment,
                self_node_id=own_node(),
                initial_backoff_s=self.config.initial_backoff_s,
                backoff_multiplier=self.config.backoff_multiplier,
                max_backoff_s=self.config.max_backoff_s,
            )
            chosen.initialize_state(**self.config.request_router_kwargs)
            self._slots = asyncio.Semaphore(chosen.max_num_routing_tasks_cap)
            chosen.update_replicas(list(self._replicas.values()))
            self._chosen = chosen
        except Exception as error:  # each call's error from now on
            self._error = error

    def _update(self, loads: list[Load], most: int) -> None:
        before, self._replicas = self._replicas, {}
        for load in loads:
            one = before.get(load.place.id)
            if one is None:
                one = RunningReplica(load.place, self._router.deployment, most)
            one.update(load.place, most)
            self._replicas[load.place.id] = one
        if self._chosen is not None:
            self._chosen.update_replicas(list(self._replicas.values()))
        self._wake()

    def _released(self, call: Call, load: Load) -> None:
        request = self._requests.pop(call, None)
        if self._chosen is not None and request is not None:
            replica = ReplicaID(load.place.id, self._router.deployment)
            self._chosen._ongoing[replica] = max(self._chosen._ongoing.get(replica, 1) - 1, 0)
            self._chosen.on_request_completed(replica, request.metadata.internal_request_id)
        self._wake()

    def _died(self, load: Load) -> None:
        self._replicas.pop(load.place.id, None)
        if self._chosen is not None:
            self._chosen.on_replica_actor_died(ReplicaID(load.place.id, self._router.deployment))

    def _wake(self) -> None:
        """Wake the calls that wait for room to look again; calls that come later wait for the next
        time.
        """
        self._changed.set()
        self._changed = asyncio.Event()

    def _begin(self, call: Call) -> None:
        task = self._loop.create_task(self._route(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _route(self, call: Call) -> None:
        request = PendingRequest(
            list(call.args),
            dict(call.kwargs),
            RequestMetadata(
                call.context.request_id,
                call_method=call.method,
                route=call.context.route,
                app_name=call.context.app_name,
                multiplexed_model_id=call.context.multiplexed_model_id,
                session_id=call.session,
                is_streaming=call.streams,
            ),
        )
        self._requests[call] = request
        try:
            async with self._slots:
                await self._find(call, request)
        except Exception as error:
            self._forget(call)
            self._router.give_up(call, error)

    async def _find(self, call: Call, request: PendingRequest) -> None:
        pause: float | None = None
        while self._router.is_waiting(call):
            if self._error is not None:
                raise self._error
            changed, chosen = self._changed, self._chosen
            if chosen is not None and self._replicas:
                ranks = await chosen.choose_replicas(list(self._replicas.values()), request)
                taken = self._router.take(call, _checked(ranks), self._others(chosen, call))
                if taken is not None:
                    self._sent(chosen, *taken)
                    continue
                pause = (
                    chosen.initial_backoff_s if pause is None else pause * chosen.backoff_multiplier
                )
                pause = min(pause, chosen.max_backoff_s)
            try:
                await asyncio.wait_for(changed.wait(), pause)
            except asyncio.TimeoutError:
                continue
        self._forget(call)

    def _others(self, chosen: RequestRouter, call: Call) -> Callable[[list[Call]], Call]:
        """Return the choice of the waiting call that takes a replica which was chosen for this one."""
        if not isinstance(chosen, FIFOMixin):
            return lambda _: call
        model = call.context.multiplexed_model_id
        if not isinstance(chosen, MultiplexMixin) or not model:
            return lambda waiting: waiting[0]
        return lambda waiting: next(
            (one for one in waiting if one.context.multiplexed_model_id == model), waiting[0]
        )

    def _sent(self, chosen: RequestRouter, call: Call, load: Load) -> None:
        replica = ReplicaID(load.place.id, self._router.deployment)
        chosen._ongoing[replica] = chosen._ongoing.get(replica, 0) + 1
        call.send(load)
        # The call's end is noticed even where nobody reads its answer.
        call.watch()
        request = self._requests.get(call)
        if request is not None and call.sent is not None:
            chosen.on_request_routed(request, replica, call.sent)

    def _forget(self, call: Call) -> None:
        """A call that was cancelled while it waited, or has failed, is no more."""
        request = self._requests.pop(call, None) if call.sent is None else None
        if request is not None and self._chosen is not None:
            self._chosen.on_request_cancelled(request.metadata.internal_request_id)


def _checked(ranks: Any) -> list[list[str]]:
    """The replicas' ids of each rank."""
    try:
        return [[one.replica_id.unique_id for one in rank] for rank in ranks]
    except (TypeError, AttributeError):
        raise TypeError(
            "choose_replicas has to return ranks of the replicas that it is given, a list of lists, not "
            f"{ranks!r}."
        ) from None
