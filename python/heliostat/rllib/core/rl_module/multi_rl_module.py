"""Modules by their ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, KeysView, ValuesView
from dataclasses import dataclass, field
from typing import Any

from heliostat.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from heliostat.rllib.utils.checkpoints import chosen


@dataclass
class MultiRLModuleSpec:
    """The specification of several modules.

    Attributes:
        multi_rl_module_class: A subclass of ``MultiRLModule``. Default: ``MultiRLModule`` itself.
        observation_space: The space of observations. Default: each module's own.
        action_space: The space of actions, likewise.
        inference_only: Modules are for acting alone.
        model_config: Settings of the whole.
        rl_module_specs: By module id, the specification of the module.
        load_state_path: A folder that weights are loaded from.
        modules_to_load: Ids of the modules that are. Default: all.

    Examples:
        >>> from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
        >>> spec = MultiRLModuleSpec(rl_module_specs={"left": RLModuleSpec(), "right": RLModuleSpec()})
        >>> sorted(spec.rl_module_specs)
        ['left', 'right']
    """

    multi_rl_module_class: Any = None
    observation_space: Any = None
    action_space: Any = None
    inference_only: bool | None = None
    model_config: dict[str, Any] | None = None
    rl_module_specs: dict[str, RLModuleSpec] = field(default_factory=dict)
    load_state_path: str | None = None
    modules_to_load: Collection[str] | None = None

    def build(self, module_id: str | None = None) -> Any:
        """Make the modules, or the one of an id.

        Args:
            module_id: The one module that is made. Default: all of them.

        Returns:
            The module or modules.
        """
        if module_id is not None:
            return self.rl_module_specs[module_id].build()
        kind = self.multi_rl_module_class or MultiRLModule
        made = kind(rl_module_specs=self.rl_module_specs, model_config=self.model_config)
        if self.load_state_path is not None:
            made.restore_from_path(self.load_state_path)
        return made

    def add_modules(self, module_specs: dict[str, RLModuleSpec], override: bool = True) -> None:
        """Add specifications.

        Args:
            module_specs: By module id.
            override: Replace those of the same id. Default True; False: they stay as they are.
        """
        for name, spec in module_specs.items():
            if override or name not in self.rl_module_specs:
                self.rl_module_specs[name] = spec

    def remove_modules(self, module_ids: str | Collection[str]) -> None:
        """Remove specifications.

        Args:
            module_ids: An id or several; those that are not there are passed over.
        """
        for name in [module_ids] if isinstance(module_ids, str) else module_ids:
            self.rl_module_specs.pop(name, None)

    def __contains__(self, module_id: str) -> bool:
        return module_id in self.rl_module_specs

    def __getitem__(self, module_id: str) -> RLModuleSpec:
        return self.rl_module_specs[module_id]


class MultiRLModule(RLModule):
    """Several modules, each of which gets its part of a batch: ``{module id: batch}``.

    Override :meth:`setup` for parts that modules share.

    Args:
        rl_module_specs: By module id, the specification of the module.
        **kwargs: Those of ``RLModule``.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.core.rl_module import MultiRLModule, MultiRLModuleSpec, RLModuleSpec
        >>> class Sharing(MultiRLModule):
        ...     def setup(self):
        ...         super().setup()
        ...         ...  # give self["left"] and self["right"] one encoder
        >>> spec = MultiRLModuleSpec(
        ...     multi_rl_module_class=Sharing,
        ...     rl_module_specs={"left": RLModuleSpec(), "right": RLModuleSpec()},
        ... )
        >>> config = PPOConfig().rl_module(rl_module_spec=spec)
    """

    framework = "torch"

    def __init__(
        self, *, rl_module_specs: dict[str, RLModuleSpec] | None = None, **kwargs: Any
    ) -> None:
        self.rl_module_specs = dict(rl_module_specs or {})
        self._rl_modules: dict[str, Any] = {}
        super().__init__(**kwargs)

    def setup(self) -> None:
        """Make each module of its specification."""
        for name, spec in self.rl_module_specs.items():
            self._rl_modules[name] = spec.build()

    def _each(self, method: str, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        found = {}
        for name, part in batch.items():
            if name not in self._rl_modules:
                raise KeyError(
                    f"There is no module {name!r}: there are {', '.join(self._rl_modules)}."
                )
            found[name] = getattr(self._rl_modules[name], method)(part, **kwargs)
        return found

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._each("forward_inference", batch, **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._each("forward_exploration", batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._each("forward_train", batch, **kwargs)

    def get_initial_state(self) -> Any:
        """Return the state of each module that has one."""
        found = {name: module.get_initial_state() for name, module in self._rl_modules.items()}
        return {name: state for name, state in found.items() if state}

    def is_stateful(self) -> bool:
        """Return whether one of the modules has a state."""
        return any(module.is_stateful() for module in self._rl_modules.values())

    def add_module(self, module_id: str, module: RLModule, *, override: bool = False) -> None:
        """Add a module.

        Args:
            module_id: The module's id.
            module: The module.
            override: Replace one of the same id. Default False.

        Raises:
            ValueError: There is one of the id, and ``override`` is False.
        """
        if module_id in self._rl_modules and not override:
            raise ValueError(
                f"There is a module {module_id!r} already: pass override=True to replace it."
            )
        self._rl_modules[module_id] = module
        self.rl_module_specs[module_id] = RLModuleSpec.from_module(module)

    def remove_module(self, module_id: str, *, raise_err_if_not_found: bool = True) -> None:
        """Remove a module.

        Args:
            module_id: The module's id.
            raise_err_if_not_found: Raise where there is none. Default True.

        Raises:
            ValueError: There is none of the id.
        """
        if module_id not in self._rl_modules and raise_err_if_not_found:
            raise ValueError(
                f"There is no module {module_id!r}: there are {', '.join(self._rl_modules)}."
            )
        self._rl_modules.pop(module_id, None)
        self.rl_module_specs.pop(module_id, None)

    def foreach_module(
        self, func: Callable[..., Any], *, return_dict: bool = False, **kwargs: Any
    ) -> Any:
        """Call a function with each module.

        Args:
            func: Takes the id and the module.
            return_dict: Return a dict by id. Default False.
            **kwargs: Further arguments of ``func``.

        Returns:
            What it returned: a list, or a dict by id.
        """
        found = {name: func(name, module, **kwargs) for name, module in self._rl_modules.items()}
        return found if return_dict else list(found.values())

    def __contains__(self, item: str) -> bool:
        return item in self._rl_modules

    def __getitem__(self, module_id: str) -> Any:
        if module_id not in self._rl_modules:
            raise KeyError(
                f"There is no module {module_id!r}: there are {', '.join(self._rl_modules)}."
            )
        return self._rl_modules[module_id]

    def get(self, module_id: str, default: Any = None) -> Any:
        """Return the module of an id, or ``default``.

        Args:
            module_id: The module's id.
            default: What is returned where there is none. Default ``None``.
        """
        return self._rl_modules.get(module_id, default)

    def items(self) -> ItemsView[str, Any]:
        """Return ids and modules."""
        return self._rl_modules.items()

    def keys(self) -> KeysView[str]:
        """Return the ids."""
        return self._rl_modules.keys()

    def values(self) -> ValuesView[Any]:
        """Return the modules."""
        return self._rl_modules.values()

    def __len__(self) -> int:
        return len(self._rl_modules)

    def __repr__(self) -> str:
        return f"MultiRLModule({self._rl_modules})"

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the weights by module id.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            inference_only: Only what acting needs. Default False.
            **kwargs: More, in later releases.
        """
        return {
            name: module.get_state(inference_only=inference_only, **kwargs)
            for name, module in self._rl_modules.items()
            if chosen(name, components, not_components)
            and not (inference_only and module.learner_only)
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights by module id; ids that are not here are passed over.

        Args:
            state: The weights by module id.
        """
        for name, part in state.items():
            if name in self._rl_modules:
                self._rl_modules[name].set_state(part)

    def _use_state(self, state: dict[str, Any]) -> None:
        for name, part in state.items():
            if name in self._rl_modules:
                self._rl_modules[name]._use_state(part)

    def _take_from(self, other: Any) -> bool:
        return all(
            module._take_from(other.get(name, module)) for name, module in self._rl_modules.items()
        )

    def _own_weights(self) -> None:
        for module in self._rl_modules.values():
            module._own_weights()

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a module."""
        return (), {"rl_module_specs": self.rl_module_specs, "model_config": self.model_config}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the modules by id."""
        return list(self._rl_modules.items())

    def as_multi_rl_module(self) -> MultiRLModule:
        """Return this module."""
        return self
