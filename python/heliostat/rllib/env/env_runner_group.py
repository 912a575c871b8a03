"""All runners of an algorithm: the one in its process, and actors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import heliostat
from heliostat.exceptions import GetTimeoutError, RayActorError, RayError
from heliostat.rllib.core.learner.learner_group import LearnerGroup, weights_of
from heliostat.rllib.env.env_runner import is_of_users
from heliostat.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from heliostat.rllib.utils import old_names
from heliostat.rllib.utils.waiting import wait_for

_log = logging.getLogger("ray.rllib")

# Methods of the old API stack: what takes their place.
_GONE = {
    "add_policy": "algo.add_module()",
    "foreach_env_with_context": "foreach_env_runner(), which has runner.env and runner.worker_index",
    "foreach_policy": "foreach_env_runner(), which has runner.module",
    "foreach_policy_to_train": "foreach_env_runner(), which has runner.module",
    "foreach_worker": "foreach_env_runner()",
    "foreach_worker_with_id": "foreach_env_runner(), which has runner.worker_index",
    "get_merged_env_runner_state": "algo.env_runner.get_state()",
    "is_policy_to_train": "algo.config.policies_to_train",
    "local_worker": "local_env_runner",
    "remote_workers": "foreach_env_runner()",
    "reset": "stop(), and config.build_algo() anew",
    "sync_env_runner_states": "nothing: states of connectors are merged after each sample",
}


def runner_class(config: Any) -> Any:
    """The class of an algorithm's runners."""
    if config.env_runner_cls is not None:
        return config.env_runner_cls
    writes = config.output is not None and not config.in_evaluation
    if config.uses_connectors:
        from heliostat.rllib.env import connected_env_runner as connected

        if config.is_multi_agent:
            return connected.ConnectedMultiAgentEnvRunner
        if writes:
            from heliostat.rllib.offline.offline_env_runner import OfflineConnectedEnvRunner

            return OfflineConnectedEnvRunner
        return connected.ConnectedEnvRunner
    if config.is_multi_agent:
        from heliostat.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

        return MultiAgentEnvRunner
    if writes:
        from heliostat.rllib.offline.offline_env_runner import OfflineSingleAgentEnvRunner

        return OfflineSingleAgentEnvRunner
    return SingleAgentEnvRunner


class EnvRunnerGroup:
    """Runners, of which those that fail are replaced.

    Args:
        config: The algorithm's settings.
        local_env_runner: Whether there is one in this process.
        told: Who hears of failures, and of what is waited for. Default: nobody.

    Attributes:
        restarts: How often a runner was replaced.
    """

    def __init__(self, *, config: Any, local_env_runner: bool = True, told: Any = None) -> None:
        self.config = config
        self._told = told
        self._class = runner_class(config)
        self._count = config.num_env_runners
        self.restarts = 0
        self._local: Any = None
        self._unread: Any = None  # the weights that it has not taken over
        if local_env_runner:
            self._local = self._class(config=config, worker_index=0)
        self._actors: dict[int, Any] = {}
        # Calls of `foreach_env_runner_async` whose answers nobody took: the runner's number, and the tag.
        self._asked: dict[Any, tuple[int, str | None]] = {}
        self._given: Any = None  # the state of `sync_weights`, which is newer than the algorithm's
        self._dropped = 0
        self._failures = 0  # rounds in a row of which nothing came
        self._raised = 0  # of them, those in which code raised
        self._last_restart: dict[int, float] = {}
        self.restored: list[int] = []
        for index in range(1, self._count + 1):
            self._start(index)
        if self._actors and config.validate_env_runners_after_construction:
            calls = {f"env runner {i}": a.assert_healthy.remote() for i, a in self._actors.items()}
            heliostat.get(wait_for(calls, told))

    def _start(self, index: int, recreated: bool = False) -> None:
        config = self.config
        options: dict[str, Any] = {
            "num_cpus": config.num_cpus_per_env_runner,
            "num_gpus": config.num_gpus_per_env_runner,
            "resources": config.custom_resources_per_env_runner or None,
            "_preload": ["torch"],
        }
        kind = heliostat.remote(self._class).options(
            **{name: value for name, value in options.items() if value is not None}
        )
        self._actors[index] = kind.remote(
            config=config, worker_index=index, num_workers=self._count, recreated_worker=recreated
        )

    # --- who is there ---

    @property
    def local_env_runner(self) -> Any:
        """The runner of this process, or None."""
        self._look()
        return self._local

    def num_remote_env_runners(self) -> int:
        """Return how many actors there are."""
        return len(self._actors)

    num_healthy_remote_env_runners = num_remote_env_runners
    # As Ray called them before.
    num_remote_workers = num_healthy_remote_workers = num_remote_env_runners

    def num_healthy_env_runners(self) -> int:
        """Return how many runners there are, with that of this process."""
        return len(self._actors) + (self._local is not None)

    num_healthy_workers = num_healthy_env_runners

    def num_remote_worker_restarts(self) -> int:
        """Return how often a runner was replaced."""
        return self.restarts

    def num_env_runners_dropped_lifetime(self) -> int:
        """Return how many answers of runners came too late for the time that a call gave them."""
        return self._dropped

    def healthy_env_runner_ids(self) -> list[int]:
        """Return the numbers of actors."""
        return sorted(self._actors)

    healthy_worker_ids = healthy_env_runner_ids

    def add_workers(self, num_workers: int, validate: bool = False) -> None:
        """Start more runners.

        Args:
            num_workers: How many.
            validate: Wait until each has its environments and its module. Default False.

        Raises:
            RayError: One of them failed.
        """
        first = self._count + 1
        self._count += num_workers
        for index in range(first, self._count + 1):
            self._start(index)
            if self._given is not None:
                self._actors[index].set_state.remote(self._given)
        if validate:
            calls = {
                f"env runner {index}": self._actors[index].assert_healthy.remote()
                for index in range(first, self._count + 1)
            }
            heliostat.get(wait_for(calls, self._told))

    def get_spaces(self) -> dict[str, tuple[Any, Any]]:
        """Return the spaces by module id."""
        if self._local is not None:
            found: dict[str, tuple[Any, Any]] = self._local.get_spaces()
            return found
        actor = next(iter(self._actors.values()))
        given: dict[str, tuple[Any, Any]] = heliostat.get(actor.get_spaces.remote())
        return given

    # --- what they do ---

    def foreach_env_runner(
        self,
        func: Callable[..., Any] | str | list[Callable[..., Any] | str],
        *,
        kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        local_env_runner: bool = True,
        healthy_only: bool = True,
        remote_worker_ids: list[int] | None = None,
        timeout_seconds: float | None = None,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
    ) -> list[Any]:
        """Return what each runner makes of a function of it, or of its method of a name; actors that failed
        are left out.

        Args:
            func: Takes a runner, or is the name of a method; or a list with one for each runner.
            kwargs: Keyword arguments, or a list with those of each runner. Default: none.
            local_env_runner: Whether the runner of this process is the first of them. Default True.
            healthy_only: Has no effect: a runner that failed is replaced or gone.
            remote_worker_ids: The numbers of the actors. Default: all.
            timeout_seconds: How long answers are awaited; 0 for not at all. Default: until all are there.
            return_obj_refs: Return references of what actors answer. Default False.
            mark_healthy: Has no effect.

        Raises:
            ValueError: A list has not one item for each runner.
        """
        local = local_env_runner and self._local is not None
        chosen = self._chosen(remote_worker_ids)
        asked = _each(func, kwargs, len(chosen) + local)
        found = []
        if local:
            self._look()
            what, given = asked.pop(0)
            call = getattr(self._local, what) if isinstance(what, str) else what
            found.append(call(**given) if isinstance(what, str) else call(self._local, **given))
        calls = {
            index: _called(actor, *what)
            for (index, actor), what in zip(chosen.items(), asked, strict=True)
        }
        if return_obj_refs:
            return found + list(calls.values())
        if timeout_seconds == 0:
            return found
        results, failed = self._gathered(calls, timeout_seconds)
        self._judge(failed)
        return found + [results[index] for index in sorted(results)]

    def _chosen(self, indices: list[int] | None) -> dict[int, Any]:
        return {i: actor for i, actor in self._actors.items() if indices is None or i in indices}

    def foreach_env_runner_async(
        self,
        func: Callable[..., Any] | str | list[Callable[..., Any] | str],
        tag: str | None = None,
        *,
        kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        healthy_only: bool = True,
        remote_worker_ids: list[int] | None = None,
    ) -> int:
        """Begin a call of each actor, for :meth:`fetch_ready_async_reqs`. An actor that has
        ``max_requests_in_flight_per_env_runner`` calls gets no other.

        Args:
            func: As of :meth:`foreach_env_runner`.
            tag: What the calls are fetched by. Default: none.
            kwargs: As of :meth:`foreach_env_runner`.
            healthy_only: Has no effect.
            remote_worker_ids: The numbers of the actors. Default: all.

        Returns:
            How many calls began.

        Raises:
            ValueError: A list has not one item for each runner.
        """
        chosen = self._chosen(remote_worker_ids)
        begun = 0
        for (index, actor), what in zip(
            chosen.items(), _each(func, kwargs, len(chosen)), strict=True
        ):
            busy = sum(1 for held, _ in self._asked.values() if held == index)
            if busy < self.config.max_requests_in_flight_per_env_runner:
                self._asked[_called(actor, *what)] = (index, tag)
                begun += 1
        return begun

    def fetch_ready_async_reqs(
        self,
        *,
        tags: str | list[str] | tuple[str, ...] | None = None,
        timeout_seconds: float | None = 0.0,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
    ) -> list[tuple[int, Any]]:
        """Return what calls of :meth:`foreach_env_runner_async` have come to; those that failed are left
        out, and their actors replaced.

        Args:
            tags: Only calls of this tag, or of these. Default: all.
            timeout_seconds: How long the first answer is awaited; None for as long as it takes. Default 0.
            return_obj_refs: Return references of answers. Default False.
            mark_healthy: Has no effect.

        Returns:
            The number of an actor, and its answer.
        """
        refs = [ref for ref, (_, tag) in self._asked.items() if _is_of(tag, tags)]
        if not refs:
            return []
        if timeout_seconds != 0:
            heliostat.wait(refs, timeout=timeout_seconds)
        ready, _ = heliostat.wait(refs, num_returns=len(refs), timeout=0)
        found: list[tuple[int, Any]] = []
        failed: dict[int, Exception] = {}
        for ref in ready:
            index, _ = self._asked.pop(ref)
            if return_obj_refs:
                found.append((index, ref))
                continue
            try:
                found.append((index, heliostat.get(ref)))
            except RayError as error:
                failed[index] = error
        if failed:
            self._asked = {r: held for r, held in self._asked.items() if held[0] not in failed}
            self._judge(failed)
        return found

    def foreach_env_runner_async_fetch_ready(
        self,
        func: Callable[..., Any] | str | list[Callable[..., Any] | str],
        kwargs: dict[str, Any] | None = None,
        tag: str | None = None,
        timeout_seconds: float | None = 0.0,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
        healthy_only: bool = True,
        remote_worker_ids: list[int] | None = None,
        return_actor_ids: bool = False,
    ) -> list[Any]:
        """Return answers of earlier calls that are ready, and begin the next calls.

        Args:
            func: As of :meth:`foreach_env_runner`.
            kwargs: As of :meth:`foreach_env_runner`.
            tag: What the calls are fetched by. Default: none.
            timeout_seconds: How long the first answer is awaited. Default 0.
            return_obj_refs: Return references of answers. Default False.
            mark_healthy: Has no effect.
            healthy_only: Has no effect.
            remote_worker_ids: The numbers of the actors. Default: all.
            return_actor_ids: Return pairs of an actor's number and its answer. Default False.
        """
        found = self.fetch_ready_async_reqs(
            tags=tag, timeout_seconds=timeout_seconds, return_obj_refs=return_obj_refs
        )
        self.foreach_env_runner_async(func, tag, kwargs=kwargs, remote_worker_ids=remote_worker_ids)
        return found if return_actor_ids else [answer for _, answer in found]

    def num_in_flight_async_reqs(self, tag: str | None = None) -> int:
        """Return how many calls of :meth:`foreach_env_runner_async` nobody has fetched.

        Args:
            tag: Only calls of this tag. Default: all.
        """
        return sum(1 for _, held in self._asked.values() if _is_of(held, tag))

    def foreach_env(self, func: Callable[[Any], Any]) -> list[list[Any]]:
        """Return for each runner what a function makes of each of its environments.

        Args:
            func: Takes an environment.
        """
        return self.foreach_env_runner(_OfEnvironments(func))

    def probe_unhealthy_env_runners(self, timeout_seconds: float | None = None) -> list[int]:
        """Start runners whose pause is over; the numbers of those that began anew.

        Args:
            timeout_seconds: Has no effect: nobody is waited for.
        """
        self._start_due()
        return list(self.restored)

    def sync_weights(
        self,
        policies: list[str] | None = None,
        from_worker_or_learner_group: Any = None,
        to_worker_indices: list[int] | None = None,
        global_vars: dict[str, Any] | None = None,
        timeout_seconds: float | None = 0.0,
        inference_only: bool = False,
    ) -> None:
        """Give runners the weights of learners or of a runner, as a ``training_step`` of a program does.

        Args:
            policies: The ids of modules. Default: all.
            from_worker_or_learner_group: Whose weights. Default: the runner's of this process.
            to_worker_indices: The numbers of the actors. Default: all.
            global_vars: Has no effect.
            timeout_seconds: How long it is waited for that they have them; None until they do. Default: it
                is not waited for, and a runner has them before its next call.
            inference_only: Whether only weights that acting needs are given. Default False.

        Raises:
            ValueError: There is no such runner or group.
        """
        source = from_worker_or_learner_group
        if source is None:
            source = self.local_env_runner
        if source is None:
            raise ValueError(
                "sync_weights() has nobody to take weights from: give from_worker_or_learner_group."
            )
        if isinstance(source, LearnerGroup):
            weights = weights_of(source.get_weights(policies, inference_only=True))
        else:
            weights = source.get_state()["rl_module"]
            if policies is not None and hasattr(source.module, "foreach_module"):
                weights = {name: own for name, own in weights.items() if name in policies}
        state = {"rl_module": weights}
        if self._local is not None and source is not self._local:
            self._unread = None
            self._local.set_state(state)
        if not self._actors:
            return
        ref = heliostat.put(state)
        if policies is None and to_worker_indices is None:
            self._given = ref
        calls = {i: a.set_state.remote(ref) for i, a in self._chosen(to_worker_indices).items()}
        if timeout_seconds != 0:
            self._judge(self._gathered(calls, timeout_seconds)[1])

    def publish(
        self, learners: Any, seq_no: int, timesteps: int = 0, connectors: Any = None
    ) -> Any:
        """Give every runner the weights of learners: one object, which is read where the runners are.

        Args:
            learners: The ``LearnerGroup``.
            seq_no: The number of the weights.
            timesteps: How many steps were sampled so far.
            connectors: States of pipelines, by their names. Default: those of the runner in this process.

        Returns:
            The object's reference; None without actors.
        """
        state = {"weights_seq_no": seq_no, "num_env_steps_sampled_lifetime": timesteps}
        given = connectors or {}
        self._given = None
        if not self._actors:
            if self._local is not None:
                if is_of_users(self._class):
                    weights = weights_of(learners.get_weights(inference_only=True))
                    self._local.set_state({"rl_module": weights, **state, **given})
                else:
                    self._local.set_state({**state, **given})
                    learners.give_weights(self._local.module)
            return None
        if connectors is None and self.config.broadcast_env_runner_states:
            own = getattr(self._local, "connector_states", None)
            given = own() if own is not None else {}
        ref = learners.put_weights({**state, **given})
        if self._local is not None:  # its weights follow when somebody looks at it
            self._local.set_state({**state, **(connectors or {})})
            self._unread = ref
        return ref

    def _look(self) -> None:
        """Let the runner of this process have the weights of now."""
        ref, self._unread = self._unread, None
        if ref is not None:
            self._local.set_state({"rl_module": heliostat.get(ref)["rl_module"]})

    def merge_connectors(self, rollouts: list[Any]) -> None:
        """Add what runners' pipelines saw to that of this process.

        Args:
            rollouts: What they sampled.
        """
        states = [r.connectors for r in rollouts if getattr(r, "connectors", None)]
        if not states or not self.config.merge_env_runner_states or self._local is None:
            return
        merged = {}
        for name, pipeline in self._local.get_checkpointable_components():
            own = [state[name] for state in states if name in state]
            if own:
                merged[name] = pipeline.merge_states(own)
        self._local.set_connector_states(merged)

    def sample(
        self, *, weights: Any = None, timeout_s: float | None = None, **how: Any
    ) -> list[tuple[Any, dict[Any, Any]]]:
        """Sample with every runner once.

        Args:
            weights: A reference to a state that actors take over first.
            timeout_s: How long slower ones are waited for. Default: ``sample_timeout_s``.
            how: As of ``sample_rollout``.

        Returns:
            A rollout and metrics of each that did; empty where all failed and others took their places.

        Raises:
            RayError: A runner failed, and neither ``restart_failed_env_runners`` nor
                ``ignore_env_runner_failures`` is set; or all failed too often in a row.
        """
        if not self._actors:
            if self._local is None:
                raise ValueError(
                    "No env runner is left: all failed. Set restart_failed_env_runners=True."
                )
            self._look()
            return [self._local.sample_and_measure(**how)]
        weights = weights if self._given is None else None  # they have newer ones
        calls = {
            index: actor.sample_and_measure_with.remote(weights, how)
            if hasattr(actor, "sample_and_measure_with")
            else actor.apply.remote(_sample, weights, how)
            for index, actor in self._actors.items()
        }
        wait = self.config.sample_timeout_s if timeout_s is None else timeout_s
        results, failed = self._gathered(calls, wait)
        self._judge(failed)
        self._count_failures(bool(results), failed)
        return [results[index] for index in sorted(results)]

    def sample_some(self, weights: Any = None, **how: Any) -> list[tuple[Any, dict[Any, Any]]]:
        """Let every runner sample without end, and take what is ready: at least one sample, unless all
        failed.

        Args:
            weights: A reference to the state that those begin with that sample anew.
            how: As of ``sample_rollout``.

        Returns:
            Rollouts and metrics.

        Raises:
            RayError: As of :meth:`sample`.
        """
        if not self._actors:
            return self.sample(**how)
        weights = weights if self._given is None else None
        running: dict[Any, int] = self.__dict__.setdefault("_running", {})
        busy: dict[int, int] = {}
        for index in running.values():
            busy[index] = busy.get(index, 0) + 1
        for index, actor in self._actors.items():
            for _ in range(busy.get(index, 0), self.config.max_requests_in_flight_per_env_runner):
                running[actor.apply.remote(_sample, weights, how)] = index
        calls = {f"env runner {index}, call {n}": r for n, (r, index) in enumerate(running.items())}
        done = wait_for(calls, self._told, self.config.sample_timeout_s, number=1)
        if len(running) > len(done):  # those that are ready by now, too
            done, _ = heliostat.wait(list(running), num_returns=len(running), timeout=0)
        results: list[Any] = []
        failed: dict[int, Exception] = {}
        if not done:
            failed = dict.fromkeys(self._actors, self._late())
        for ref in done:
            index = running.pop(ref)
            try:
                results.append(heliostat.get(ref))
            except RayError as error:
                failed[index] = error
        if failed:
            self._running = {r: i for r, i in running.items() if i not in failed}
        self._judge(failed)
        self._count_failures(bool(results), failed)
        return results

    def _count_failures(self, some: bool, failed: dict[int, Exception]) -> None:
        if some:
            self._failures = self._raised = 0
        elif failed:
            self._failures += 1
            raised = all(_is_of_code(error) for error in failed.values())
            self._raised = self._raised + 1 if raised else 0
            if (
                self._raised >= 3
                or self._failures > self.config.num_consecutive_env_runner_failures_tolerance
            ):
                raise next(iter(failed.values()))

    def _late(self) -> Exception:
        return GetTimeoutError(
            f"No env runner answered within {self.config.sample_timeout_s} s: give "
            "env_runners(sample_timeout_s=...) more, or make rollout_fragment_length smaller."
        )

    def _gathered(
        self, calls: dict[int, Any], timeout_s: float | None
    ) -> tuple[dict[int, Any], dict[int, Exception]]:
        by_ref = {ref: index for index, ref in calls.items()}
        results: dict[int, Any] = {}
        failed: dict[int, Exception] = {}
        if not by_ref:
            return results, failed
        named = {f"env runner {index}": ref for index, ref in calls.items()}
        done = wait_for(named, self._told, timeout_s)
        late = [ref for ref in by_ref if ref not in set(done)]
        self._dropped += len(late)
        for ref in done:
            try:
                results[by_ref[ref]] = heliostat.get(ref)
            except RayError as error:
                failed[by_ref[ref]] = error
        for ref in late:
            failed[by_ref[ref]] = GetTimeoutError(
                f"Env runner {by_ref[ref]} did not answer within {timeout_s} s: give "
                "env_runners(sample_timeout_s=...) more, or make rollout_fragment_length smaller."
            )
        return results, failed

    def _judge(self, failed: dict[int, Exception]) -> None:
        config = self.config
        for index, error in failed.items():
            if self._told is not None:
                self._told.failed(f"Env runner {index}", error)
            if not (config.restart_failed_env_runners or config.ignore_env_runner_failures):
                raise error
            _log.warning("Env runner %s failed: %s", index, str(error).strip().splitlines()[-1])
            actor = self._actors.pop(index)
            heliostat.kill(actor)
            if not config.restart_failed_env_runners:
                continue
            if self.restarts >= config.max_num_env_runner_restarts:
                raise error
            self.restarts += 1
            # Code that raises again and again is given time between; a process that died is replaced at once.
            dead = isinstance(error, RayActorError) and not error.actor_init_failed
            since = time.monotonic() - self._last_restart.get(index, -1e9)
            pause = config.delay_between_env_runner_restarts_s
            if not dead and since < pause and len(self._actors):
                self._waiting[index] = time.monotonic() + pause - since
                continue
            self._again(index)

    @property
    def _waiting(self) -> dict[int, float]:
        held: dict[int, float] = self.__dict__.setdefault("_due", {})
        return held

    def _again(self, index: int) -> None:
        self._last_restart[index] = time.monotonic()
        self._start(index, recreated=True)
        if self._given is not None:
            self._actors[index].set_state.remote(self._given)
        self.restored.append(index)

    def __getattr__(self, name: str) -> Any:
        if name in _GONE:
            raise AttributeError(old_names.sentence(f"EnvRunnerGroup.{name}", _GONE[name]))
        raise AttributeError(f"EnvRunnerGroup has no attribute {name!r}.")

    def restore(self) -> list[int]:
        """Start runners whose pause is over; the numbers of all that began anew since the last call."""
        self._start_due()
        found, self.restored = self.restored, []
        return found

    def _start_due(self) -> None:
        for index, due in list(self._waiting.items()):
            if time.monotonic() >= due or not self._actors:
                del self._waiting[index]
                self._again(index)

    def stop(self) -> None:
        """End all runners."""
        if self._local is not None:
            self._local.stop()
        if self.config.output is not None and self.config.output_write_remaining_data:
            calls = {index: actor.stop.remote() for index, actor in self._actors.items()}
            for index, error in self._gathered(calls, self.config.sample_timeout_s)[1].items():
                _log.warning("Env runner %s did not write what it had left: %s", index, error)
        for actor in self._actors.values():
            heliostat.kill(actor)
        self._actors.clear()


def _is_of_code(error: Exception) -> bool:
    """Whether code raised, which will do so again: of a runner's calls, or as it was made."""
    if isinstance(error, RayActorError):
        return error.actor_init_failed
    return not isinstance(error, GetTimeoutError)


def _sample(runner: Any, weights: Any, how: dict[str, Any]) -> Any:
    if weights is not None:
        runner.set_state(weights)
    return runner.sample_and_measure(**how)


def _each(func: Any, kwargs: Any, count: int) -> list[tuple[Any, dict[str, Any]]]:
    """The function and the keyword arguments for each of so many runners."""
    funcs = list(func) if isinstance(func, (list, tuple)) else [func] * count
    given = list(kwargs) if isinstance(kwargs, (list, tuple)) else [kwargs] * count
    for name, held in (("func", funcs), ("kwargs", given)):
        if len(held) != count:
            raise ValueError(f"{name} is a list of {len(held)}, and there are {count} runners.")
    return [(one, own or {}) for one, own in zip(funcs, given, strict=True)]


def _called(actor: Any, func: Any, kwargs: dict[str, Any]) -> Any:
    if isinstance(func, str):
        return getattr(actor, func).remote(**kwargs)
    return actor.apply.remote(func, **kwargs)


def _is_of(tag: str | None, tags: Any) -> bool:
    return tags is None or (tag == tags if isinstance(tags, str) else tag in tags)


class _OfEnvironments:
    """A function that is called with each environment of a runner."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __call__(self, runner: Any) -> list[Any]:
        env = runner.env.unwrapped
        return [self.func(one) for one in getattr(env, "envs", [env])]
