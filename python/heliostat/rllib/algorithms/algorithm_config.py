"""The settings of an algorithm, in groups."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from heliostat.rllib.algorithms import settings
from heliostat.rllib.algorithms.settings import GROUPS, NotProvided, attribute
from heliostat.rllib.core import DEFAULT_MODULE_ID, DEFAULT_POLICY_ID

_log = logging.getLogger("ray.rllib")

Self = TypeVar("Self", bound="AlgorithmConfig")

_SPELLINGS = {"lambda": "lambda_", "input": "input_", "callbacks": "callbacks_class"}


def group(name: str, summary: str) -> Callable[..., Any]:
    """A method that sets the settings of one group, with the names of the table in its signature."""

    def method(self: AlgorithmConfig, *arguments: Any, **given: Any) -> AlgorithmConfig:
        return self._set_group(name, arguments, given)

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    kinds = inspect.Parameter
    positional = _POSITIONAL.get(name)
    for setting in GROUPS[name]:
        kind = kinds.POSITIONAL_OR_KEYWORD if setting == positional else kinds.KEYWORD_ONLY
        parameters.append(inspect.Parameter(setting, kind, default=NotProvided))
    method.__name__ = name
    method.__qualname__ = f"AlgorithmConfig.{name}"
    listed = "\n".join(f"    {n}: Default: {d!r}." for n, d in GROUPS[name].items())
    method.__doc__ = f"{summary}\n\nArgs:\n{listed}\n\nReturns:\n    This object.\n"
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # inspect reads it
    return method


# The argument of a group that may be given without its name.
_POSITIONAL = {
    "environment": "env",
    "framework": "framework",
    "callbacks": "callbacks_class",
    "checkpointing": "export_native_model_files",
}


class AlgorithmConfig:
    """The settings of an algorithm.

    Each group of settings is a method that returns the object: ``PPOConfig().environment("CartPole-v1")``.
    The settings are attributes of the same names (``config.gamma``). :meth:`build_algo` makes the algorithm
    and freezes its copy.

    Args:
        algo_class: The algorithm's class.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> config = (
        ...     PPOConfig()
        ...     .environment("CartPole-v1")
        ...     .env_runners(num_env_runners=2)
        ...     .training(lr=0.001, gamma=0.95)
        ... )
        >>> config.gamma, config.num_env_runners
        (0.95, 2)
    """

    # Settings of one algorithm: its class of settings names them with their defaults.
    own: ClassVar[dict[str, Any]] = {}
    # Settings of every algorithm with another default in this one.
    changed: ClassVar[dict[str, Any]] = {}
    # Further connectors of one algorithm's learners: names of `connectors.building.ADDED`.
    learner_pieces: ClassVar[tuple[str, ...]] = ()
    # Programs ask which API stack it is: always the new one.
    enable_rl_module_and_learner = enable_env_runner_and_connector_v2 = True

    def __init__(self, algo_class: type | None = None) -> None:
        object.__setattr__(self, "_is_frozen", False)
        self.algo_class = algo_class
        for name, value in settings.defaults().items():
            setattr(self, name, value)
        from heliostat.rllib.callbacks.callbacks import RLlibCallback

        self.callbacks_class: Any = RLlibCallback
        self.policies: Any = {DEFAULT_POLICY_ID}
        self.policy_mapping_fn: Any = self.DEFAULT_POLICY_MAPPING_FN
        self.in_evaluation = False
        self.env_creator: Any = None
        for kind in reversed(type(self).__mro__):
            for name, value in {
                **vars(kind).get("changed", {}),
                **vars(kind).get("own", {}),
            }.items():
                setattr(self, attribute(name), copy.deepcopy(value))

    # --- groups ---

    resources = group("resources", "What the algorithm's own process takes.")
    framework = group("framework", "The framework of modules, which is torch.")
    environment = group("environment", "The environment, and what is done to actions and rewards.")
    env_runners = group("env_runners", "The processes that step environments.")
    learners = group("learners", "The processes that update modules.")
    callbacks = group("callbacks", "What is called when something happens.")
    evaluation = group("evaluation", "When, how long and by whom modules are evaluated.")
    offline_data = group(
        "offline_data", "Recorded episodes that are read, and those that are written."
    )
    multi_agent = group("multi_agent", "Which module acts for which agent, and which are trained.")
    reporting = group("reporting", "How long an iteration is, and over what means are taken.")
    checkpointing = group("checkpointing", "What checkpoints have.")
    debugging = group("debugging", "The seed, and what is logged.")
    fault_tolerance = group("fault_tolerance", "What becomes of runners that fail.")
    experimental = group("experimental", "Settings that may go.")

    def training(self: Self, **given: Any) -> Self:
        """Settings of the updates of modules: those of every algorithm, and those of this one.

        Args:
            **given: The settings by name.

        Returns:
            This object.

        Raises:
            AttributeError: The algorithm has no such setting; the message names the nearest.
        """
        self._set_group("training", (), given)
        return self

    def rl_module(
        self: Self,
        *,
        model_config: Any = NotProvided,
        rl_module_spec: Any = NotProvided,
        algorithm_config_overrides_per_module: Any = NotProvided,
        **given: Any,
    ) -> Self:
        """The module.

        Args:
            model_config: A ``DefaultModelConfig``, or a dict of its fields or of a module of your own.
            rl_module_spec: An ``RLModuleSpec``, or a ``MultiRLModuleSpec``.
            algorithm_config_overrides_per_module: By module id, dicts of settings that it has of its own.
            **given: Further settings of this group.

        Returns:
            This object.
        """
        for name, value in (
            ("model_config", model_config),
            ("rl_module_spec", rl_module_spec),
            ("algorithm_config_overrides_per_module", algorithm_config_overrides_per_module),
        ):
            if value is not NotProvided:
                given[name] = value
        self._set_group("rl_module", (), given)
        return self

    def api_stack(
        self: Self,
        enable_rl_module_and_learner: Any = NotProvided,
        enable_env_runner_and_connector_v2: Any = NotProvided,
    ) -> Self:
        """Choose the new API stack, which is the only one here.

        Args:
            enable_rl_module_and_learner: True.
            enable_env_runner_and_connector_v2: True.

        Returns:
            This object.

        Raises:
            ValueError: An argument is False.
        """
        for name, value in (
            ("enable_rl_module_and_learner", enable_rl_module_and_learner),
            ("enable_env_runner_and_connector_v2", enable_env_runner_and_connector_v2),
        ):
            if value is not NotProvided and not value:
                raise ValueError(
                    f"{name}=False chooses RLlib's old API stack, which Heliostat does not have: "
                    "leave it True, "
                    "and write models as RLModules, policies' losses as Learners."
                )
        return self

    def python_environment(self: Self, **given: Any) -> Self:
        """Refused: a runtime environment sets variables of processes.

        Args:
            **given: Has no effect.

        Returns:
            Nothing; it raises.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "python_environment() is not built: pass the variables to "
            "ray.init(runtime_env={'env_vars': {...}})."
        )

    def _set_group(
        self: Self, name: str, arguments: tuple[Any, ...], given: dict[str, Any]
    ) -> Self:
        if arguments:
            first = _POSITIONAL.get(name)
            if first is None or len(arguments) > 1 or first in given:
                raise TypeError(f"{name}() takes its settings by name: .{name}(name=value).")
            given = {first: arguments[0], **given}
        known = dict(GROUPS[name])
        if name == "training":
            known |= self._own_settings()
        for setting, value in given.items():
            spelled = _SPELLINGS.get(setting, setting)
            if spelled not in known:
                where = (
                    f"{name}()" if name != "training" else f"training() of {type(self).__name__}"
                )
                if value is NotProvided:
                    continue
                raise AttributeError(settings.unknown(setting, where, known))
            if value is not NotProvided:
                self._set(spelled, value)
        return self

    def _set(self, name: str, value: Any) -> None:
        default = settings.defaults().get(attribute(name))
        now = getattr(self, attribute(name), default)
        if name in settings.NOT_BUILT and value not in (default, now):
            raise ValueError(f"{name}={value!r}: {name} {settings.NOT_BUILT[name]}.")
        if name in settings.WITHOUT_EFFECT and value not in (default, now):
            _log.warning("%s has no effect in this release of Heliostat.", name)
        if name == "framework" and value != "torch":
            raise ValueError(
                f"framework({value!r}): modules are written in torch; leave the framework as it is."
            )
        if name == "env_config":
            value = {**self.env_config, **value}
        if name == "policies":
            value = self.policies if value is None else _policies(value)
        if name == "policy_mapping_fn" and value is None:
            value = self.DEFAULT_POLICY_MAPPING_FN
        if name == "callbacks_class" and value is None:
            from heliostat.rllib.callbacks.callbacks import RLlibCallback

            value = RLlibCallback
        setattr(self, attribute(name), value)

    def _own_settings(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind in reversed(type(self).__mro__):
            found |= vars(kind).get("own", {})
        return found

    @staticmethod
    def DEFAULT_POLICY_MAPPING_FN(
        agent_id: Any, episode: Any = None, *arguments: Any, **keywords: Any
    ) -> str:
        """Return ``default_policy``: every agent acts by that module.

        Args:
            agent_id: The agent.
            episode: The episode.
            *arguments: More, in later releases.
            **keywords: More, in later releases.
        """
        return DEFAULT_POLICY_ID

    DEFAULT_AGENT_TO_MODULE_MAPPING_FN = DEFAULT_POLICY_MAPPING_FN

    # --- as a dict ---

    def _names(self) -> list[str]:
        return [name for name in vars(self) if name not in ("algo_class", "_is_frozen")]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dict, as ``Tuner(param_space=...)`` takes it."""
        found = {name: copy.copy(getattr(self, name)) for name in self._names()}
        spelled = {value: key for key, value in _SPELLINGS.items()}
        return {spelled.get(name, name): value for name, value in found.items()}

    def update_from_dict(self: Self, config_dict: Any) -> Self:
        """Set what a dict has.

        Args:
            config_dict: The settings by name, or an ``AlgorithmConfig``.

        Returns:
            This object.

        Raises:
            AttributeError: There is no such setting; the message names the nearest.
        """
        if isinstance(config_dict, AlgorithmConfig):
            config_dict = config_dict.to_dict()
        known = set(self._names())
        by_argument = {name: attribute(name) for names in GROUPS.values() for name in names}
        for given, value in config_dict.items():
            name = _SPELLINGS.get(given, given)
            if name in ("env_creator", "in_evaluation"):
                setattr(self, name, value)
            elif name in by_argument:
                self._set(name, value)
            elif name in known:
                setattr(self, name, value)
            elif name in ("is_frozen", "framework_str"):
                continue
            else:
                raise AttributeError(
                    settings.unknown(given, type(self).__name__, [*known, *by_argument])
                )
        return self

    @classmethod
    def from_dict(cls: type[Self], config_dict: Mapping[str, Any]) -> Self:
        """Return settings made of a dict.

        Args:
            config_dict: The settings by name.
        """
        return cls().update_from_dict(config_dict)

    @classmethod
    def overrides(cls, **given: Any) -> dict[str, Any]:
        """Return a dict of settings, for ``evaluation_config`` and for modules of their own.

        Args:
            **given: The settings by name.

        Raises:
            KeyError: There is no such setting; the message names the nearest.
        """
        default = cls()
        known = set(default._names()) | {n for names in GROUPS.values() for n in names}
        for name in given:
            if _SPELLINGS.get(name, name) not in known:
                raise KeyError(settings.unknown(name, cls.__name__, known))
        return given

    def get_state(self) -> dict[str, Any]:
        """Return what :meth:`from_state` makes the same settings of."""
        return {"class": type(self), "algo_class": self.algo_class, "settings": self.to_dict()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> AlgorithmConfig:
        """Return settings made of what :meth:`get_state` returned.

        Args:
            state: The state.
        """
        kind: type[AlgorithmConfig] = state["class"]
        made = kind(algo_class=state["algo_class"])
        return made.update_from_dict(state["settings"])

    def copy(self: Self, copy_frozen: bool | None = None) -> Self:
        """Return a copy.

        Args:
            copy_frozen: Whether it is frozen. Default: as this object.
        """
        made = type(self).__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(made, name, _copied(value))
        frozen = self._is_frozen if copy_frozen is None else copy_frozen
        object.__setattr__(made, "_is_frozen", frozen)
        return made

    def freeze(self) -> None:
        """Refuse changes from now on."""
        object.__setattr__(self, "_is_frozen", True)

    @property
    def is_frozen(self) -> bool:
        """Whether changes are refused."""
        return bool(self._is_frozen)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_frozen:
            raise AttributeError(
                f"Cannot set {name!r}: the settings of an algorithm that was built are frozen. "
                "Change config.copy(copy_frozen=False), and build another algorithm."
            )
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_is_frozen":
            raise AttributeError(name)
        raise AttributeError(settings.unknown(name, type(self).__name__, vars(self)))

    def __getitem__(self, name: str) -> Any:
        spelled = _SPELLINGS.get(name, name)
        return getattr(self, attribute(spelled) if not hasattr(self, spelled) else spelled)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update_from_dict({name: value})

    def __contains__(self, name: str) -> bool:
        return hasattr(self, _SPELLINGS.get(name, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting, or ``default`` where there is none.

        Args:
            name: The setting.
            default: What is returned where there is none. Default ``None``.
        """
        return self[name] if name in self else default  # noqa: SIM401 - it is this method

    def keys(self) -> Collection[str]:
        """Return the names of the settings."""
        return self.to_dict().keys()

    def items(self) -> Collection[tuple[str, Any]]:
        """Return the settings with their names."""
        return self.to_dict().items()

    def values(self) -> Collection[Any]:
        """Return the settings without their names."""
        return self.to_dict().values()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self.env!r})"

    # --- what follows from the settings ---

    @property
    def train_batch_size_per_learner(self) -> int:
        """Steps that a learner gets in one update."""
        if self._train_batch_size_per_learner is not None:
            return int(self._train_batch_size_per_learner)
        return int(self.train_batch_size) // (self.num_learners or 1)

    @train_batch_size_per_learner.setter
    def train_batch_size_per_learner(self, value: int | None) -> None:
        self._train_batch_size_per_learner = value

    @property
    def total_train_batch_size(self) -> int:
        """Steps that all learners get in one update."""
        return self.train_batch_size_per_learner * (self.num_learners or 1)

    @property
    def learner_class(self) -> Any:
        """The class of learners."""
        return self._learner_class or self.get_default_learner_class()

    @property
    def is_multi_agent(self) -> bool:
        """Whether there are modules of names of their own."""
        mapped = self.policy_mapping_fn is not AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN
        return set(self.policies) != {DEFAULT_POLICY_ID} or mapped

    @property
    def supports_multi_agent(self) -> bool:
        """Whether the algorithm trains the modules of several agents."""
        return False

    @property
    def uses_connectors(self) -> bool:
        """Whether samples go through pipelines of connectors: those of the program, or states of several
        agents' modules.
        """
        kinds = ("env_to_module", "module_to_env", "learner")
        return (
            any(getattr(self, f"_{kind}_connector") for kind in kinds)
            or not all(
                getattr(self, f"add_default_connectors_to_{kind}_pipeline") for kind in kinds
            )
            or (self.is_multi_agent and bool(self.model_config.get("use_lstm")))
        )

    @property
    def is_online(self) -> bool:
        """Whether episodes come from environments, and not from files."""
        return True

    @property
    def is_offline(self) -> bool:
        """Whether episodes come from files."""
        return not self.is_online

    @property
    def rl_module_spec(self) -> Any:
        """The ``RLModuleSpec`` or ``MultiRLModuleSpec`` that is set; the algorithm's own where none is."""
        return self._rl_module_spec or self.get_default_rl_module_spec()

    @property
    def uses_new_env_runners(self) -> bool:
        """True: there are no others."""
        return True

    @property
    def model_config(self) -> dict[str, Any]:
        """The settings of the module, as a dict."""
        import dataclasses

        given = self._model_config
        if dataclasses.is_dataclass(given) and not isinstance(given, type):
            given = dataclasses.asdict(given)
        return {**self._model_config_auto_includes, **given}

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        """The model settings that an algorithm's modules have unless ``model_config`` says
        otherwise.
        """
        return {}

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps of each environment make one sample of a runner.

        Args:
            worker_index: The runner. Default 0: the algorithm's own.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        environments: int = self.num_envs_per_env_runner * max(self.num_env_runners, 1)
        return max(1, -(-self.total_train_batch_size // environments))

    def get_default_rl_module_spec(self) -> Any:
        """Return the algorithm's ``RLModuleSpec``.

        Raises:
            NotImplementedError: The algorithm names none.
        """
        raise NotImplementedError(f"{type(self).__name__} names no module of its own.")

    def get_default_learner_class(self) -> Any:
        """Return the algorithm's class of learners.

        Raises:
            NotImplementedError: The algorithm names none.
        """
        raise NotImplementedError(f"{type(self).__name__} names no learner of its own.")

    def build_env_to_module_connector(
        self, env: Any = None, spaces: Any = None, device: Any = None
    ) -> Any:
        """Return the pipeline between environments and the module, an ``EnvToModulePipeline``.

        Args:
            env: The environments.
            spaces: Their spaces as a runner's ``get_spaces()`` gives them. Default: those of ``env``, or of
                the settings.
            device: Where tensors go. Default: the CPU.
        """
        from heliostat.rllib.connectors import building

        return building.env_to_module(self, env, spaces, device)

    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> Any:
        """Return the pipeline between the module and environments, a ``ModuleToEnvPipeline``.

        Args:
            env: The environments.
            spaces: As of :meth:`build_env_to_module_connector`.
        """
        from heliostat.rllib.connectors import building

        return building.module_to_env(self, env, spaces)

    def build_learner_connector(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        device: Any = None,
    ) -> Any:
        """Return the pipeline between episodes and losses, a ``LearnerConnectorPipeline``.

        Args:
            input_observation_space: The space of observations. Default: connectors are given none.
            input_action_space: The space of actions. Default: connectors are given none.
            device: Where tensors go. Default: the CPU.
        """
        from heliostat.rllib.connectors import building

        pipeline = building.learner(self, input_observation_space, input_action_space, device)
        if self.add_default_connectors_to_learner_pipeline:
            for add in self.learner_pieces:
                building.ADDED[add](pipeline, self)
        return pipeline

    def get_config_for_module(self: Self, module_id: str) -> Self:
        """Return the settings with those of one module.

        Args:
            module_id: The module's id.
        """
        own = self.algorithm_config_overrides_per_module.get(module_id)
        if not own:
            return self
        kept = self.__dict__.setdefault("_per_module", {})
        if module_id not in kept:
            kept[module_id] = self.copy(copy_frozen=False).update_from_dict(own)
        made: Self = kept[module_id]
        return made

    def get_evaluation_config_object(self: Self) -> Self:
        """Return the settings that evaluation has."""
        made = self.copy(copy_frozen=False)
        own = self.evaluation_config
        if own:
            made.update_from_dict(own.to_dict() if isinstance(own, AlgorithmConfig) else own)
        made.in_evaluation = True
        if made.env is not self.env:
            made.env_creator = None
        made.num_env_runners = self.evaluation_num_env_runners
        made.num_learners = 0
        made.freeze()
        return made

    def get_multi_rl_module_spec(
        self, *, env: Any = None, spaces: Any = None, inference_only: bool = False
    ) -> Any:
        """Return the specification of all modules.

        Args:
            env: Whose spaces are taken where ``spaces`` has none.
            spaces: By module id, the spaces of observations and of actions.
            inference_only: Whether the modules are for acting alone.
        """
        from heliostat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
        from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

        given = self._rl_module_spec
        ids = list(self.policies) if self.is_multi_agent else [DEFAULT_MODULE_ID]
        if isinstance(given, MultiRLModuleSpec):
            by_module = dict(given.rl_module_specs)
            kind = given.multi_rl_module_class
        else:
            by_module = {module: given or RLModuleSpec() for module in ids}
            kind = None
        default = None
        specs = {}
        for module, one in by_module.items():
            spec = copy.copy(one)
            if spec.module_class is None:
                default = default or self.get_default_rl_module_spec()
                spec.module_class = default.module_class
                spec.catalog_class = spec.catalog_class or default.catalog_class
            config = self.get_config_for_module(module)
            own = spec._get_model_config() if spec.model_config is not None else None
            base = config.model_config
            if default is not None and spec.module_class is default.module_class:
                base = {**default._get_model_config(), **base}
            spec.model_config = {**config._model_config_auto_includes, **own} if own else base
            found = (spaces or {}).get(module) or _spaces_of(env)
            own_spaces = found or (self.observation_space, self.action_space)
            spec.observation_space = spec.observation_space or own_spaces[0]
            spec.action_space = spec.action_space or own_spaces[1]
            spec.inference_only = inference_only and not spec.learner_only
            specs[module] = spec
        return MultiRLModuleSpec(multi_rl_module_class=kind, rl_module_specs=specs)

    def get_rl_module_spec(
        self, env: Any = None, spaces: Any = None, inference_only: bool = False
    ) -> Any:
        """Return the specification of the one module.

        Args:
            env: The environment.
            spaces: The spaces, by module id, instead of an environment's.
            inference_only: Only what acting needs. Default False.
        """
        multi = self.get_multi_rl_module_spec(env=env, spaces=spaces, inference_only=inference_only)
        return multi.rl_module_specs[DEFAULT_MODULE_ID]

    def validate(self) -> None:
        """Check the settings against each other; :meth:`build_algo` calls it.

        Raises:
            ValueError: They do not fit; the message says what to change.
        """
        from heliostat.rllib.algorithms import validation

        validation.check(self)

    def build_algo(self, env: Any = None, use_copy: bool = True, **gone: Any) -> Any:
        """Make the algorithm.

        Args:
            env: The environment, where the settings have none.
            use_copy: Whether the algorithm has a copy of the settings.
            **gone: Refused.

        Returns:
            The algorithm.

        Raises:
            ValueError: Settings do not fit.
            TypeError: An argument is unknown.

        Examples:
            >>> import ray
            >>> from ray.rllib.algorithms.ppo import PPOConfig
            >>> config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
            >>> config = config.training(lr=0.0003, train_batch_size_per_learner=2000)
            >>> algo = config.build_algo()  # doctest: +SKIP
            >>> algo.train()["env_runners"]["episode_return_mean"]  # doctest: +SKIP
            23.1
        """
        if gone:
            raise TypeError(
                f"build_algo() takes env and use_copy, not {', '.join(gone)}: loggers are Tune's callbacks."
            )
        config = self
        if env is not None:
            config = self.copy(copy_frozen=False)
            config.env = env
            use_copy = False
        if self.algo_class is None:
            raise ValueError(
                f"{type(self).__name__} names no algorithm: build PPOConfig() or one of the others, or pass "
                "AlgorithmConfig(algo_class=...)."
            )
        return self.algo_class(config=config.copy(copy_frozen=False) if use_copy else config)

    def build(self, *arguments: Any, **keywords: Any) -> Any:
        """Call :meth:`build_algo`, whose name of earlier releases this is.

        Args:
            *arguments: As of it.
            **keywords: As of it.

        Returns:
            The algorithm.
        """
        warnings.warn(
            "AlgorithmConfig.build() is now build_algo().", DeprecationWarning, stacklevel=2
        )
        return self.build_algo(*arguments, **keywords)

    def build_learner(self, *, env: Any = None, spaces: Any = None) -> Any:
        """Return a learner of this process that is built.

        Args:
            env: The environment.
            spaces: The spaces, by module id, instead of an environment's.
        """
        spec = self.get_multi_rl_module_spec(env=env, spaces=spaces)
        learner = self.learner_class(config=self, module_spec=spec)
        learner.build()
        return learner

    def build_learner_group(
        self,
        *,
        env: Any = None,
        spaces: Any = None,
        rl_module_spec: Any = None,
        placement_group: Any = None,
    ) -> Any:
        """Return the group of learners.

        Args:
            env: The environment.
            spaces: The spaces, by module id, instead of an environment's.
            rl_module_spec: The modules. Default: those of the settings.
            placement_group: Where the learners are placed. Default: anywhere.
        """
        from heliostat.rllib.core.learner.learner_group import LearnerGroup

        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        return LearnerGroup(config=self, module_spec=spec, placement_group=placement_group)


def _policies(given: Any) -> Any:
    if isinstance(given, dict):
        for name, spec in given.items():
            if spec is not None and type(spec).__name__ != "PolicySpec":
                raise ValueError(
                    f"policies[{name!r}] is {spec!r}: name modules as a set, and give what they are made "
                    "from by rl_module(rl_module_spec=MultiRLModuleSpec(...))."
                )
        return set(given)
    if isinstance(given, (list, tuple, set, frozenset)):
        return set(given)
    raise ValueError(f"multi_agent(policies={given!r}) must be a set of names of modules.")


def _spaces_of(env: Any) -> tuple[Any, Any] | None:
    if env is None:
        return None
    single = getattr(env, "single_observation_space", None)
    if single is not None:
        return single, env.single_action_space
    return env.observation_space, env.action_space


def _copied(value: Any) -> Any:
    # Containers of settings are its own; modules, classes and environments are shared.
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_copied(part) for part in value]
    return value
