"""Starts, watches and ends the actors of deployments, and tells the machine what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat.exceptions import RayActorError
from heliostat.serve import building, specs
from heliostat.serve.controller.events import ActorID, StartActor, StopActor
from heliostat.serve.controller.tasks import Tasks

logger = logging.getLogger("ray.serve")

# How often one is asked whether it lives. The question waits behind its calls: that is no fault until so many
# in a row have had no answer within that time.
_PERIOD_S, _ANSWER_S, _MISSED_MAX = 1.0, 30.0, 3


class ActorSupervisor:
    """The actors of all deployments."""

    def __init__(
        self,
        started: Callable[[ActorID], None],
        ended: Callable[[ActorID, str], None],
    ) -> None:
        self._tasks = Tasks()
        self._started = started
        self._ended = ended
        self._made: dict[ActorID, asyncio.Task[Any]] = {}  # handles, once they are there

    def start(self, action: StartActor) -> None:
        """Start one; its class is imported where it runs, not here."""
        one, spec = action.actor, action.spec
        env = spec.config.ray_actor_options.get("runtime_env")
        own = action.config.actor_options.get("runtime_env") or {}
        env = building.actor_environment(env, own, one)
        making = ray.remote(building.actor_made).options(num_cpus=0, max_retries=0, runtime_env=env)

        async def made() -> Any:
            return await making.remote(action.config, name_of(one), env)

        self._made[one] = asyncio.get_running_loop().create_task(made())
        self._tasks.start(self._follow(one, is_new=True))

    def adopt(self, one: ActorID) -> None:
        """Care for one that the controller before this one has started."""

        async def found() -> Any:
            return ray.get_actor(name_of(one), namespace=specs.NAMESPACE)

        self._made[one] = asyncio.get_running_loop().create_task(found())
        self._tasks.start(self._follow(one, is_new=False))

    async def _follow(self, one: ActorID, *, is_new: bool) -> None:
        """Follow an actor from its constructor to its end."""
        try:
            actor = await self._made[one]
            if is_new:
                await actor.__ray_ready__.remote()
                self._started(one)
            why = await self._until_end(one, actor)
        except Exception as error:
            why = str(error)
        if self._made.pop(one, None) is not None:
            logger.warning("The actor %r of %s ended: %s", one.name, one.deployment, why)
            await _killed(name_of(one))
            self._ended(one, why)

    async def _until_end(self, one: ActorID, actor: Any) -> str:
        missed = 0
        while one in self._made:
            await asyncio.sleep(_PERIOD_S)
            try:
                await asyncio.wait_for(actor.__ray_ready__.remote(), _ANSWER_S)
                missed = 0
            except asyncio.TimeoutError:
                missed += 1
                if missed >= _MISSED_MAX:
                    return f"it did not answer for {missed * _ANSWER_S:.0f} s"
            except RayActorError as error:
                return str(error)
        return ""

    def stop(self, action: StopActor) -> None:
        """End one; the machine hears of it once its name is free."""
        self._tasks.start(self._stop(action.actor))

    async def _stop(self, one: ActorID) -> None:
        made = self._made.pop(one, None)
        if made is not None:
            with contextlib.suppress(Exception):  # it did not even begin
                await asyncio.shield(made)
        await _killed(name_of(one))
        self._ended(one, "")


def name_of(one: ActorID) -> str:
    """The name of its actor."""
    return specs.deployment_actor_name(one.deployment, one.version, one.name)


async def _killed(name: str) -> None:
    """Kill the actor of that name, and wait until the name is free."""
    with contextlib.suppress(ValueError, RayActorError):
        actor = ray.get_actor(name, namespace=specs.NAMESPACE)
        ray.kill(actor)
        while True:
            await actor.__ray_ready__.remote()
