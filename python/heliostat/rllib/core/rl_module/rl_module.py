"""The neural networks of an agent, and what they are made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.rl_module.default_model_config import DefaultModelConfig
from heliostat.rllib.utils.checkpoints import Checkpointable


@dataclass
class RLModuleSpec:
    """The specification of a module.

    Attributes:
        module_class: A subclass of ``RLModule``. Default: the algorithm's.
        observation_space: The space of one observation. Default: the environment's.
        action_space: The space of one action. Default: the environment's.
        inference_only: Whether it is for acting alone.
        learner_only: Whether only learners have it.
        model_config: A ``DefaultModelConfig``, or a dict of what the module reads.
        catalog_class: Kept for programs that pass it.
        load_state_path: A checkpoint of a module whose state it begins with.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.core.rl_module import RLModuleSpec
        >>> narrow = RLModuleSpec(model_config={"fcnet_hiddens": [32, 32]})
        >>> config = PPOConfig().environment("CartPole-v1").rl_module(rl_module_spec=narrow)
    """

    module_class: type[RLModule] | None = None
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool = False
    learner_only: bool = False
    model_config: dict[str, Any] | DefaultModelConfig | None = None
    catalog_class: Any = None
    load_state_path: str | None = None

    def build(self) -> RLModule:
        """Make the module.

        Raises:
            ValueError: The specification lacks the class or a space.
        """
        for name in ("module_class", "observation_space", "action_space"):
            if getattr(self, name) is None:
                raise ValueError(
                    f"RLModuleSpec({name}=...) is needed to build a module, and is None."
                )
        assert self.module_class is not None
        module = self.module_class(
            observation_space=self.observation_space,
            action_space=self.action_space,
            inference_only=self.inference_only,
            learner_only=self.learner_only,
            model_config=self._get_model_config(),
            catalog_class=self.catalog_class,
        )
        if self.load_state_path is not None:
            module.restore_from_path(self.load_state_path)
        return module

    @classmethod
    def from_module(cls, module: RLModule) -> RLModuleSpec:
        """Return what makes a module of the same class, spaces and settings.

        Args:
            module: The module.
        """
        return cls(
            module_class=type(module),
            observation_space=module.observation_space,
            action_space=module.action_space,
            inference_only=module.inference_only,
            learner_only=module.learner_only,
            model_config=module.model_config,
            catalog_class=module.catalog_class,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by their names."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> RLModuleSpec:
        """Return the specification of what :meth:`to_dict` returned.

        Args:
            d: The dict.
        """
        return cls(**d)

    def update(self, other: RLModuleSpec, override: bool = True) -> None:
        """Take over the fields that another specification has.

        Args:
            other: The other one.
            override: Those that this one has, too. Default True; False: only those that are missing.
        """
        for field in dataclasses.fields(self):
            theirs = getattr(other, field.name)
            if theirs is not None and (override or getattr(self, field.name) is None):
                setattr(self, field.name, theirs)

    def as_multi_rl_module_spec(self) -> Any:
        """Return the specification of the one module ``default_policy``."""
        from heliostat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

        return MultiRLModuleSpec(rl_module_specs={DEFAULT_MODULE_ID: self})

    def _get_model_config(self) -> dict[str, Any]:
        return _fields(self.model_config)


class RLModule(Checkpointable):
    """Base of modules: what turns observations into actions, and what a loss is computed of.

    Write ``setup`` and ``_forward`` (or one of ``_forward_inference``, ``_forward_exploration``,
    ``_forward_train``). ``_forward`` gets a dict of tensors of shape ``(batch, ...)`` and returns a dict with
    ``Columns.ACTION_DIST_INPUTS`` or ``Columns.ACTIONS``. Modules of torch derive from ``TorchRLModule``.

    Args:
        observation_space: The space of one observation.
        action_space: The space of one action; its bounded boxes are ``[-1, 1]`` where actions are normalized.
        inference_only: Whether it is for acting alone.
        learner_only: Whether only learners have it.
        model_config: Settings of its own.
        catalog_class: Kept for programs that pass it.
        **kwargs: Is kept with the module.

    Examples:
        >>> import gymnasium as gym
        >>> import torch
        >>> from ray.rllib.core import Columns
        >>> from ray.rllib.core.rl_module.torch import TorchRLModule
        >>> class Linear(TorchRLModule):  # an RLModule of torch
        ...     def setup(self):
        ...         self.net = torch.nn.Linear(self.observation_space.shape[0], self.action_space.n)
        ...     def _forward(self, batch, **kwargs):
        ...         return {Columns.ACTION_DIST_INPUTS: self.net(batch[Columns.OBS])}
        >>> module = Linear(
        ...     observation_space=gym.spaces.Box(-1.0, 1.0, (4,)), action_space=gym.spaces.Discrete(2)
        ... )
        >>> module.forward_inference({Columns.OBS: torch.ones(3, 4)})[Columns.ACTION_DIST_INPUTS].shape
        torch.Size([3, 2])
    """

    STATE_FILE_NAME = "module_state"
    framework: str | None = None

    def __init__(
        self,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        inference_only: bool | None = None,
        learner_only: bool = False,
        model_config: dict[str, Any] | DefaultModelConfig | None = None,
        catalog_class: Any = None,
        **kwargs: Any,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.inference_only = bool(inference_only)
        self.learner_only = learner_only
        self.model_config: Any = dict(_fields(model_config))
        self.catalog_class = catalog_class
        self.action_dist_cls: Any = None
        self._ctor_kwargs = kwargs
        self.setup()

    def setup(self) -> None:
        """Make the layers. The spaces and ``model_config`` are there."""

    def get_inference_action_dist_cls(self) -> Any:
        """Return the distribution of actions when the module acts without exploration."""
        return self._action_dist_cls()

    def get_exploration_action_dist_cls(self) -> Any:
        """Return the distribution of actions when the module explores. Default: that without exploration."""
        return self.get_inference_action_dist_cls()

    def get_train_action_dist_cls(self) -> Any:
        """Return the distribution of actions when the module is trained. Default: that without
        exploration.
        """
        return self.get_inference_action_dist_cls()

    def _action_dist_cls(self) -> Any:
        if self.action_dist_cls is None:
            from heliostat.rllib.core.distribution.torch.torch_distribution import for_space

            self.action_dist_cls = for_space(self.action_space)
        return self.action_dist_cls

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError(
            f"{type(self).__name__} has no _forward(): write it, or each of _forward_inference(), "
            "_forward_exploration() and _forward_train()."
        )

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, **kwargs)

    def forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the outputs for acting without exploration.

        Args:
            batch: Tensors by column, of shape ``(batch, ...)``.
            **kwargs: More, in later releases.
        """
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the outputs for acting with exploration.

        Args:
            batch: Tensors by column, of shape ``(batch, ...)``.
            **kwargs: More, in later releases.
        """
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the outputs that losses are computed of.

        Args:
            batch: Tensors by column, of shape ``(batch, ...)``.
            **kwargs: More, in later releases.

        Raises:
            RuntimeError: The module is for acting alone.
        """
        if self.inference_only:
            raise RuntimeError(
                "This module was made with inference_only=True, so it has no forward_train()."
            )
        return self._forward_train(batch, **kwargs)

    def get_initial_state(self) -> Any:
        """Return the state that an episode begins with, of one episode; {} for a module without one."""
        return {}

    def is_stateful(self) -> bool:
        """Return whether the module carries a state from step to step."""
        return bool(self.get_initial_state())

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the weights.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            inference_only: Only what acting needs. Default False.
            **kwargs: More, in later releases.
        """
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights.

        Args:
            state: The weights.
        """

    def _use_state(self, state: dict[str, Any]) -> None:
        """Take over weights of an object that nobody writes to: without a copy, where that can be."""
        self.set_state(state)

    def _small_policy(self, rows: int) -> Any:
        """Return what acts for rows of observations without a call of the module, where that is possible."""
        return None

    def _take_from(self, other: Any) -> bool:
        """Take over the weights of a module of this process; False: by the states, which is for any."""
        return False

    def _own_weights(self) -> None:
        """Have weights of its own that somebody may write to, after :meth:`_use_state`."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a module."""
        return (), {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "inference_only": self.inference_only,
            "learner_only": self.learner_only,
            "model_config": self.model_config,
            "catalog_class": self.catalog_class,
        }

    def as_multi_rl_module(self) -> Any:
        """Return a ``MultiRLModule`` that has this one as ``default_policy``."""
        from heliostat.rllib.core.rl_module.multi_rl_module import MultiRLModule

        made = MultiRLModule()
        made.add_module(DEFAULT_MODULE_ID, self)
        return made

    def unwrapped(self) -> Any:
        """Return the module itself, where it is wrapped."""
        return self


def _fields(model_config: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(model_config) and not isinstance(model_config, type):
        return dataclasses.asdict(model_config)
    return dict(model_config or {})
