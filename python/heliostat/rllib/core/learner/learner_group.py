"""All learners of an algorithm: the one of its process, or actors that share each batch."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import heliostat
from heliostat.exceptions import RayActorError
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec
from heliostat.rllib.utils.checkpoints import Checkpointable
from heliostat.rllib.utils.waiting import wait_for


class LearnerGroup(Checkpointable):
    """Learners that see their parts of a batch and apply the mean of their gradients.

    Args:
        config: The algorithm's settings; ``num_learners=0`` for a learner of this process.
        module_spec: What the modules are made from.
        placement_group: Kept for programs that pass it.
        told: Who hears of what is waited for. Default: nobody.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> config = PPOConfig().environment("CartPole-v1").learners(num_learners=2, num_gpus_per_learner=1)
        >>> def weights(algo):  # of config.build_algo()
        ...     return algo.learner_group.get_weights()
    """

    def __init__(
        self,
        *,
        config: Any,
        module_spec: Any = None,
        placement_group: Any = None,
        told: Any = None,
    ) -> None:
        self.config = config
        self._told = told
        if isinstance(module_spec, RLModuleSpec):
            module_spec = module_spec.as_multi_rl_module_spec()
        self._module_spec = module_spec
        self._learner: Any = None
        self._actors: list[Any] = []
        kind = config.learner_class
        if config.num_learners == 0:
            self._learner = kind(config=config, module_spec=module_spec)
            self._learner.build()
            return
        cpus = config.num_cpus_per_learner
        cpus = (1 if not config.num_gpus_per_learner else 0) if cpus == "auto" else cpus
        actor = heliostat.remote(_LearnerActor).options(
            num_cpus=cpus,
            num_gpus=config.num_gpus_per_learner,
            resources=config.custom_resources_per_learner or None,
            _preload=["torch"],
        )
        self._actors = [actor.remote(kind, config, module_spec) for _ in range(config.num_learners)]
        address = self._answers([self._actors[0].address.remote()])[0]
        self._answers(
            [a.join.remote(address, rank, len(self._actors)) for rank, a in enumerate(self._actors)]
        )

    def _answers(self, calls: list[Any]) -> list[Any]:
        """The results of the learners' calls, in their order."""
        wait_for({f"learner {rank}": call for rank, call in enumerate(calls)}, self._told)
        found: list[Any] = heliostat.get(calls)
        return found

    @property
    def is_local(self) -> bool:
        """Whether the learner is in this process."""
        return self._learner is not None

    @property
    def is_remote(self) -> bool:
        """Whether learners are actors."""
        return not self.is_local

    def __len__(self) -> int:
        return 1 if self.is_local else len(self._actors)

    def update(
        self,
        *,
        batch: Any = None,
        rollouts: list[Any] | None = None,
        episodes: list[Any] | None = None,
        async_update: bool = False,
        **how: Any,
    ) -> list[dict[Any, Any]]:
        """Train on a batch, on rollouts, or on episodes.

        Args:
            batch: Arrays by column, for each module id.
            rollouts: What runners sampled.
            episodes: Episodes, or parts of them.
            async_update: Refused: algorithms that learn while they sample keep references of calls
                themselves.
            how: As of ``Learner.update``.

        Returns:
            What each learner logged.

        Raises:
            ValueError: ``async_update`` is True.
            RuntimeError: A learner died.
        """
        if async_update:
            raise ValueError("async_update=True is not built: call update() in a thread.")
        if self._learner is not None:
            return [self._learner.update(batch, rollouts=rollouts, episodes=episodes, **how)]
        count = len(self._actors)
        calls = []
        for rank, actor in enumerate(self._actors):
            part: dict[str, Any] = {} if batch is None else {"batch": _rows(batch, rank, count)}
            if rollouts is not None:
                part["rollouts"] = rollouts[rank::count] or rollouts[:1]
            if episodes is not None:
                part["episodes"] = episodes[rank::count] or episodes[:1]
            calls.append(actor.update.remote(part, how))
        try:
            found: list[dict[Any, Any]] = self._answers(calls)
        except RayActorError as error:
            if self._told is not None:
                self._told.failed("A learner", error)
            raise RuntimeError(
                f"A learner died, and with it the optimizers' state: {error}\nMake the algorithm anew with "
                "from_checkpoint(), which goes on where the last save_to_path() was."
            ) from error
        return found

    def update_from_batch(self, batch: Any, **how: Any) -> list[dict[Any, Any]]:
        """Return what :meth:`update` with ``batch`` does, by its name of before.

        Args:
            batch: As of :meth:`update`.
            **how: As of :meth:`update`.
        """
        return self.update(batch=batch, **how)

    def update_from_episodes(self, episodes: list[Any], **how: Any) -> list[dict[Any, Any]]:
        """Return what :meth:`update` with ``episodes`` does, by its name of before.

        Args:
            episodes: As of :meth:`update`.
            **how: As of :meth:`update`.
        """
        return self.update(episodes=episodes, **how)

    def get_stats(self) -> dict[str, int]:
        """Return how much waits for the learners and how much was dropped: nothing, because
        :meth:`update` waits.
        """
        return {
            "learner_group_ts_dropped_lifetime": 0,
            "actor_manager_num_outstanding_async_reqs": 0,
        }

    def foreach_learner(self, func: Callable[..., Any], **kwargs: Any) -> list[Any]:
        """Return ``func(learner)`` of each learner.

        Args:
            func: Takes a learner; it must be possible to pickle it.
            **kwargs: More, in later releases.
        """
        if self._learner is not None:
            return [func(self._learner)]
        found: list[Any] = heliostat.get([actor.apply.remote(func) for actor in self._actors])
        return found

    def get_weights(
        self, module_ids: Any = None, *, inference_only: bool = False
    ) -> dict[str, Any]:
        """Return the weights by module id.

        Args:
            module_ids: Ids of modules. Default: all.
            inference_only: Only what acting needs. Default False.
        """
        state = self._of_first(_weights, inference_only)
        return {k: v for k, v in state.items() if module_ids is None or k in module_ids}

    def give_weights(self, module: Any) -> None:
        """Have a module for acting in this process take over the weights.

        Args:
            module: A module, or the modules of several agents.
        """
        if self._learner is not None:
            learned = self._learner.module
            one = learned.get(DEFAULT_MODULE_ID) if len(learned) == 1 else None
            source = learned if hasattr(module, "foreach_module") else one
            if source is not None and module._take_from(source):
                return
        weights = self.get_weights(inference_only=True)
        module.set_state(weights if hasattr(module, "foreach_module") else weights_of(weights))

    def put_weights(self, more: dict[str, Any]) -> Any:
        """Return the reference of a runner's state with the weights of now: one object, written once.

        Args:
            more: What else is in it.
        """
        if self._learner is not None:
            return heliostat.put(_published(self._learner, more))
        return self._actors[0].apply.remote(_published, more)

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Give all learners weights.

        Args:
            weights: The weights by module id.
        """
        self.foreach_learner(_Setter({"rl_module": weights}))

    def _of_first(self, func: Callable[..., Any], *arguments: Any) -> Any:
        if self._learner is not None:
            return func(self._learner, *arguments)
        return heliostat.get(self._actors[0].apply.remote(func, *arguments))

    def add_module(self, *, module_id: str, module_spec: Any, **how: Any) -> None:
        """Add a module to all learners.

        Args:
            module_id: The module's id.
            module_spec: Its specification.
            **how: As of ``Learner.add_module``.
        """
        self.foreach_learner(_Adder(module_id, module_spec, how))

    def remove_module(self, module_id: str, **how: Any) -> None:
        """Remove a module from all learners.

        Args:
            module_id: The module's id.
            **how: As of ``Learner.remove_module``.
        """
        self.foreach_learner(_Remover(module_id, how))

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the learners' state, which is the same in all.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            **kwargs: More, in later releases.
        """
        return {"learner": self._of_first(_state, not_components)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Give all learners a state.

        Args:
            state: The state.
        """
        if "learner" in state:
            self.foreach_learner(_Setter(state["learner"]))

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a group."""
        return (), {"config": self.config, "module_spec": self._module_spec}

    def save_to_path(self, path: Any = None, *, state: dict[str, Any] | None = None) -> str:
        """Save the learners' state into a folder, with folders for the learner and its modules."""
        folder = super().save_to_path(path, state={"learner": {}})
        self._as_local().save_to_path(f"{folder}/learner")
        return folder

    def restore_from_path(self, path: Any, *, component: str | None = None) -> None:
        """Take over what :meth:`save_to_path` wrote."""
        from pathlib import Path

        learner = self._as_local()
        rest = component.partition("/")[2] or None if component else None
        learner.restore_from_path(Path(path) / "learner", component=rest)
        if not self.is_local:
            self.foreach_learner(_Setter(learner.get_state()))

    def _as_local(self) -> Any:
        if self._learner is not None:
            return self._learner
        learner = self.config.learner_class(config=self.config, module_spec=self._module_spec)
        learner.build()
        learner.set_state(self._of_first(_state, None))
        return learner

    def shutdown(self) -> None:
        """End the learners."""
        if self._learner is not None:
            self._learner.shutdown()
        for actor in self._actors:
            heliostat.kill(actor)
        self._actors = []


class _LearnerActor:
    """A learner in a process of its own."""

    def __init__(self, kind: Any, config: Any, module_spec: Any) -> None:
        self._learner = kind(config=config, module_spec=module_spec)

    def address(self) -> str:
        import os

        with socket.socket() as found:
            found.bind(("", 0))
            port = found.getsockname()[1]
        return f"tcp://{os.environ.get('RAY_NODE_IP_ADDRESS') or _own_ip()}:{port}"

    def join(self, address: str, rank: int, size: int) -> None:
        import torch

        self._learner.rank, self._learner.world_size = rank, size
        if size > 1:
            gpu = self._learner.device.type == "cuda"
            torch.distributed.init_process_group(
                "nccl" if gpu else "gloo", init_method=address, rank=rank, world_size=size
            )
        # The same weights in all: the first learner's.
        self._learner.build()
        if size > 1:
            for module in self._learner.module.values():
                if hasattr(module, "parameters"):
                    for tensor in module.state_dict().values():
                        torch.distributed.broadcast(tensor, 0)

    def update(self, part: dict[str, Any], how: dict[str, Any]) -> Any:
        return self._learner.update(**part, **how)

    def apply(self, func: Any, *arguments: Any) -> Any:
        return func(self._learner, *arguments)


def _own_ip() -> str:
    return str(heliostat.util.get_node_ip_address())


def _weights(learner: Any, inference_only: bool) -> Any:
    return learner.module.get_state(inference_only=inference_only)


def _published(learner: Any, more: dict[str, Any]) -> dict[str, Any]:
    # The state is written at once, so that the weights themselves will do.
    weights = learner.module.get_state(inference_only=True, copied=False)
    return {**more, "rl_module": weights_of(weights)}


def weights_of(weights: dict[str, Any]) -> Any:
    """Weights as a runner of one agent takes them: of its one module.

    Args:
        weights: By module id.
    """
    return weights[DEFAULT_MODULE_ID] if set(weights) == {DEFAULT_MODULE_ID} else weights


def _state(learner: Any, not_components: Any) -> Any:
    return learner.get_state(not_components=not_components)


class _Setter:
    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def __call__(self, learner: Any) -> None:
        learner.set_state(self.state)


class _Adder:
    def __init__(self, module_id: str, spec: Any, how: dict[str, Any]) -> None:
        self.module_id, self.spec, self.how = module_id, spec, how

    def __call__(self, learner: Any) -> None:
        learner.add_module(module_id=self.module_id, module_spec=self.spec, **self.how)


class _Remover:
    def __init__(self, module_id: str, how: dict[str, Any]) -> None:
        self.module_id, self.how = module_id, how

    def __call__(self, learner: Any) -> None:
        learner.remove_module(self.module_id, **self.how)


def _rows(batch: dict[str, Any], rank: int, count: int) -> dict[str, Any]:
    from heliostat.rllib.utils.nest import mapped

    return {name: mapped(lambda leaf: leaf[rank::count], part) for name, part in batch.items()}
