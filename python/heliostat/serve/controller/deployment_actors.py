"""The actors that deployments are to have: a part of the machine, without clock and I/O.

A deployment's actors are those of a version. They start before its replicas do, and end once no replica has
that version any more.
"""

from __future__ import annotations

from heliostat.serve.controller.events import ActorID, StartActor, StopActor
from heliostat.serve.schema import ReplicaState
from heliostat.serve.specs import DeploymentID, DeploymentSpec

STARTING, RUNNING, STOPPING = ReplicaState.STARTING, ReplicaState.RUNNING, ReplicaState.STOPPING


class DeploymentActors:
    """The actors of one deployment."""

    def __init__(self, key: DeploymentID) -> None:
        self._key = key
        self._count = 0
        self._states: dict[ActorID, ReplicaState] = {}

    def begin(self, spec: DeploymentSpec) -> list[StartActor]:
        """Return the starts of the actors that are missing. One of the same name that ends makes
        the new one wait.
        """
        there = {(one.version, one.name) for one in self._states}
        starts = []
        for config in spec.config.deployment_actors or ():
            if (spec.code_version, config.name) not in there:
                one = self._add(spec.code_version, config.name, STARTING)
                starts.append(StartActor(one, config, spec))
        return starts

    def _add(self, version: str, name: str, state: ReplicaState) -> ActorID:
        self._count += 1
        one = ActorID(self._key, version, name, self._count)
        self._states[one] = state
        return one

    def are_there(self, spec: DeploymentSpec) -> bool:
        """Whether all that the replicas are to find run."""
        if not spec.config.deployment_actors:
            return True
        running = {
            (one.version, one.name) for one, state in self._states.items() if state is RUNNING
        }
        return all(
            (spec.code_version, config.name) in running for config in spec.config.deployment_actors
        )

    def end(self, versions: set[str]) -> list[StopActor]:
        """Return the stops of the actors of other versions than these."""
        stops = [
            one
            for one, state in self._states.items()
            if one.version not in versions and state is not STOPPING
        ]
        for one in stops:
            self._states[one] = STOPPING
        return [StopActor(one) for one in stops]

    def started(self, one: ActorID) -> bool:
        """Note that the actor runs; return whether that is news."""
        is_news = self._states.get(one) is STARTING
        if is_news:
            self._states[one] = RUNNING
        return is_news

    def ended(self, one: ActorID) -> ReplicaState | None:
        """Note that the actor is gone; return its state before."""
        return self._states.pop(one, None)

    def saved(self) -> list[tuple[str, str, ReplicaState]]:
        """Return the state for a later machine."""
        return [(one.version, one.name, state) for one, state in self._states.items()]

    def restore(self, version: str, name: str, state: ReplicaState, *, is_wanted: bool) -> None:
        """Take in an actor that ran before this machine began.

        Of one that was starting nothing is known: it is started again, or ended.
        """
        if state is RUNNING or not is_wanted:
            self._add(version, name, RUNNING)

    def are_gone(self) -> bool:
        """Whether there is none, not even one that ends."""
        return not self._states

    def running(self) -> list[ActorID]:
        """Return the actors that run."""
        return [one for one, state in self._states.items() if state is RUNNING]
