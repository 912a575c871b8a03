"""The base of learners, which turn samples into better weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from heliostat.rllib.core import ALL_MODULES, DEFAULT_MODULE_ID
from heliostat.rllib.core.learner.batches import copied
from heliostat.rllib.core.rl_module.apis import SelfSupervisedLossAPI
from heliostat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec
from heliostat.rllib.utils.checkpoints import Checkpointable, chosen
from heliostat.rllib.utils.metrics.metrics_logger import MetricsLogger
from heliostat.rllib.utils.nest import at, first, leaves
from heliostat.rllib.utils.schedules import Scheduler
from heliostat.rllib.utils.threads import threads_for, work_of

DEFAULT_OPTIMIZER = "default_optimizer"
GATHERED_MB = 64  # of a batch whose rows are put into an epoch's order at once
POLICY_LOSS_KEY, VF_LOSS_KEY = "policy_loss", "vf_loss"
ENTROPY_KEY, LR_KEY = "entropy", "learning_rate"


class Learner(Checkpointable):
    """Base of learners: batches of samples, losses, gradients, optimizers.

    Override :meth:`compute_loss_for_module` for a loss of your own. A batch is a dict of tensors by column
    and of shape ``(batch, ...)``, for each module id.

    Args:
        config: The algorithm's settings.
        module_spec: What the modules are made from.
        module: The modules, in the place of their specification.

    Attributes:
        module: The ``MultiRLModule``.
        metrics: What the learner logs; results have it under ``learners``.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.algorithms.ppo.ppo_torch_learner import PPOTorchLearner
        >>> class Smaller(PPOTorchLearner):  # PPO's Learner
        ...     def compute_loss_for_module(self, *, module_id, config, batch, fwd_out):
        ...         loss = super().compute_loss_for_module(
        ...             module_id=module_id, config=config, batch=batch, fwd_out=fwd_out
        ...         )
        ...         sizes = sum(p.square().sum() for p in self.module[module_id].parameters())
        ...         return loss + 0.001 * sizes
        >>> config = PPOConfig().training(learner_class=Smaller)
    """

    framework = "torch"
    TOTAL_LOSS_KEY = "total_loss"

    def __init__(self, *, config: Any, module_spec: Any = None, module: Any = None) -> None:
        self.config = config
        if isinstance(module_spec, RLModuleSpec):
            module_spec = module_spec.as_multi_rl_module_spec()
        self._module_spec: MultiRLModuleSpec | None = module_spec
        self._module: Any = module.as_multi_rl_module() if module is not None else None
        self._optimizers: dict[tuple[str, str], tuple[Any, list[Any], Scheduler]] = {}
        self.metrics = MetricsLogger()
        self.rank, self.world_size = 0, 1
        self.weights_seq_no = 0
        self._built = False
        self._timestep = 0
        self._learner_connector: Any = None

    # --- what is there ---

    @property
    def module(self) -> Any:
        """The ``MultiRLModule`` that is trained."""
        return self._module

    @property
    def distributed(self) -> bool:
        """Whether there are other learners."""
        return self.world_size > 1

    @property
    def device(self) -> Any:
        """The device of the modules' weights."""
        raise NotImplementedError

    def build(self) -> None:
        """Make the modules and their optimizers.

        Raises:
            ValueError: There is neither a module nor a specification of one.
        """
        if self._built:
            return
        if self._module is None:
            if self._module_spec is None:
                raise ValueError("A Learner needs module_spec=... or module=...")
            self._module = self._module_spec.build()
        self._place()
        self.configure_optimizers()
        if self.config.uses_connectors:
            self._learner_connector = self.config.build_learner_connector(device=self.device)
        self._built = True

    def shutdown(self) -> None:
        """Give back what the learner holds."""

    def _place(self) -> None:
        raise NotImplementedError

    # --- optimizers ---

    def configure_optimizers(self) -> None:
        """Make the optimizers of each module that is trained."""
        for module_id in list(self.module.keys()):
            if self.should_module_be_updated(module_id):
                self.configure_optimizers_for_module(
                    module_id, self.config.get_config_for_module(module_id)
                )

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Make the optimizers of one module: call :meth:`register_optimizer` for each. To be implemented.

        Args:
            module_id: The module's id.
            config: Its settings.
        """
        raise NotImplementedError

    def register_optimizer(
        self,
        *,
        module_id: str = ALL_MODULES,
        optimizer_name: str = DEFAULT_OPTIMIZER,
        optimizer: Any,
        params: Any,
        lr_or_lr_schedule: Any = None,
    ) -> None:
        """Let an optimizer apply the gradients of some parameters.

        Args:
            module_id: The module.
            optimizer_name: Its name among the module's.
            optimizer: The optimizer.
            params: The parameters.
            lr_or_lr_schedule: A learning rate, or a schedule. Default: the setting ``lr``.
        """
        rate = lr_or_lr_schedule if lr_or_lr_schedule is not None else self.config.lr
        scheduler = Scheduler(rate)
        self._optimizers[module_id, optimizer_name] = (optimizer, list(params), scheduler)
        self._set_optimizer_lr(optimizer, scheduler.get_current_value())

    def get_optimizer(
        self, module_id: str = DEFAULT_MODULE_ID, optimizer_name: str = DEFAULT_OPTIMIZER
    ) -> Any:
        """Return an optimizer.

        Args:
            module_id: The module's id. Default: that of the only one.
            optimizer_name: The optimizer's name. Default: that of the only one.
        """
        return self._optimizers[module_id, optimizer_name][0]

    def get_optimizers_for_module(self, module_id: str = ALL_MODULES) -> list[tuple[str, Any]]:
        """Return the optimizers of a module with their names.

        Args:
            module_id: The module's id. Default: all modules.
        """
        return [
            (name, held[0])
            for (module, name), held in self._optimizers.items()
            if module_id in (ALL_MODULES, module)
        ]

    def should_module_be_updated(self, module_id: str, multi_agent_batch: Any = None) -> bool:
        """Return whether a module is trained: what ``policies_to_train`` says.

        Args:
            module_id: The module's id.
            multi_agent_batch: The batch.
        """
        wanted = self.config.policies_to_train
        if wanted is None:
            return True
        return (
            bool(wanted(module_id, multi_agent_batch)) if callable(wanted) else module_id in wanted
        )

    # --- losses ---

    def compute_losses(self, *, fwd_out: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
        """Return the loss of each module of the batch.

        Args:
            fwd_out: What the modules' ``forward_train`` returned, by module id.
            batch: The batch, by module id.
        """
        found = {}
        for module_id, out in fwd_out.items():
            about = {
                "module_id": module_id,
                "config": self.config.get_config_for_module(module_id),
                "batch": batch[module_id],
                "fwd_out": out,
            }
            module = self.module[module_id].unwrapped()
            if isinstance(module, SelfSupervisedLossAPI):
                found[module_id] = module.compute_self_supervised_loss(learner=self, **about)
            else:
                found[module_id] = self.compute_loss_for_module(**about)
        return found

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Any:
        """Return the loss of one module, a tensor of one number.

        Args:
            module_id: The module.
            config: Its settings.
            batch: Its columns, tensors of shape ``(batch, ...)``.
            fwd_out: What its ``forward_train`` returned.

        Raises:
            NotImplementedError: The learner is of the program's own and has none.
        """
        raise NotImplementedError

    def compute_gradients(self, loss_per_module: dict[str, Any], **kwargs: Any) -> dict[Any, Any]:
        """Return gradients by parameter.

        Args:
            loss_per_module: The losses by module id.
            **kwargs: More, in later releases.

        Raises:
            NotImplementedError: The framework's learner has it.
        """
        raise NotImplementedError

    def postprocess_gradients(self, gradients_dict: dict[Any, Any]) -> dict[Any, Any]:
        """Return gradients as they are applied: clipped, as ``grad_clip`` says.

        Args:
            gradients_dict: Gradients by parameter.

        Raises:
            NotImplementedError: The framework's learner has it.
        """
        raise NotImplementedError

    def apply_gradients(self, gradients_dict: dict[Any, Any]) -> None:
        """Let the optimizers step.

        Args:
            gradients_dict: Gradients by parameter.

        Raises:
            NotImplementedError: The framework's learner has it.
        """
        raise NotImplementedError

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Called before the first loss of an update.

        Args:
            timesteps: The numbers of steps sampled so far, by name.
        """

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Called after the last gradient of an update.

        Args:
            timesteps: The numbers of steps sampled so far, by name.
        """

    def get_parameters(self, module: Any) -> Any:
        """Return the parameters of a module.

        Args:
            module: The module.
        """
        return list(module.parameters())

    def get_param_ref(self, param: Any) -> Any:
        """Return what stands for a parameter as a key of dicts.

        Args:
            param: The parameter.
        """
        return param

    def filter_param_dict_for_optimizer(self, param_dict: dict[Any, Any], optimizer: Any) -> Any:
        """Return the part of a dict by parameter that an optimizer has.

        Args:
            param_dict: Values by parameter.
            optimizer: The optimizer.
        """
        own = {id(p) for held in optimizer.param_groups for p in held["params"]}
        return {param: value for param, value in param_dict.items() if id(param) in own}

    def postprocess_gradients_for_module(
        self,
        *,
        module_id: str,
        config: Any = None,
        module_gradients_dict: dict[Any, Any],
        optimizer_name: str = DEFAULT_OPTIMIZER,
    ) -> dict[Any, Any]:
        """Return the gradients of one optimizer of a module as they are applied.

        Args:
            module_id: The module.
            config: Its settings. Default: those of the algorithm.
            module_gradients_dict: Gradients by parameter.
            optimizer_name: The optimizer's name.
        """
        return module_gradients_dict

    def update_from_batch(self, batch: dict[str, Any], **how: Any) -> dict[Any, Any]:
        """Return what :meth:`update` with a batch does, by its name of before.

        Args:
            batch: As of :meth:`update`.
            **how: As of :meth:`update`.
        """
        return self.update(batch, **how)

    def update_from_episodes(self, episodes: list[Any], **how: Any) -> dict[Any, Any]:
        """Return what :meth:`update` with episodes does, by its name of before.

        Args:
            episodes: As of :meth:`update`.
            **how: As of :meth:`update`.
        """
        return self.update(episodes=episodes, **how)

    def apply(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Return ``func(this learner, ...)``.

        Args:
            func: Takes the learner.
            *args: Further arguments of it.
            **kwargs: Further keyword arguments of it.
        """
        return func(self, *args, **kwargs)

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        """Return the classes that modules must derive from. Default: none."""
        return []

    def rl_module_is_compatible(self, module: Any) -> bool:
        """Return whether a module derives from all of :meth:`rl_module_required_apis`.

        Args:
            module: The module.
        """
        return all(isinstance(module, api) for api in self.rl_module_required_apis())

    # --- updates ---

    def batch_of_rollouts(self, rollouts: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the train batch of what runners sampled: arrays by column, for each module.

        Args:
            rollouts: What runners sampled.

        Raises:
            NotImplementedError: The algorithm's learner has it.
        """
        raise NotImplementedError

    def batch_of_episodes(self, episodes: list[Any]) -> dict[str, dict[str, Any]]:
        """Return the train batch of episodes: arrays by column, for each module.

        Args:
            episodes: Episodes, or parts of them.

        Raises:
            NotImplementedError: The algorithm's learner has it.
        """
        raise NotImplementedError

    def update(self, batch: dict[str, dict[str, Any]] | None = None, **how: Any) -> dict[Any, Any]:
        """Train on a batch, on rollouts, or on episodes.

        Args:
            batch: Arrays by column, for each module id.
            how: ``rollouts`` or ``episodes`` in the place of a batch; ``timesteps``, how many steps were
                sampled so far (``num_env_steps_sampled_lifetime``); ``num_epochs``, how often all of it is
                gone through;
                ``minibatch_size``, steps of one gradient (default: all); ``shuffle_batch_per_epoch``, whether
                steps are in another order each time; ``num_total_minibatches``, how many gradients at most.

        Returns:
            What was logged, for ``MetricsLogger.aggregate``.
        """
        self.build()
        rows = how.get("minibatch_size") or self.config.train_batch_size_per_learner
        work = max((work_of(module, rows) for module in self.module.values()), default=0.0)
        with threads_for(work):
            return self._updated(batch, **how)

    def _updated(
        self,
        batch: dict[str, dict[str, Any]] | None = None,
        *,
        rollouts: list[Any] | None = None,
        episodes: list[Any] | None = None,
        timesteps: dict[str, Any] | None = None,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        shuffle_batch_per_epoch: bool = False,
        num_total_minibatches: int = 0,
        **kwargs: Any,
    ) -> dict[Any, Any]:
        timesteps = timesteps or {}
        self._timestep = int(timesteps.get("num_env_steps_sampled_lifetime", 0))
        piped = self._learner_connector is not None and batch is None
        if rollouts and not hasattr(rollouts[0], "columns"):
            # Episodes of several agents, or of runners with connectors.
            kept = [(getattr(r, "parts", None) if piped else None) or r.episodes for r in rollouts]
            episodes, rollouts = [episode for own in kept for episode in own], None
        if piped:
            batch = self._piped(episodes or [e for r in rollouts or [] for e in r.episodes()])
        elif batch is None:
            batch = (
                self.batch_of_rollouts(rollouts)
                if rollouts
                else self.batch_of_episodes(episodes or [])
            )
        batch = {
            name: part for name, part in batch.items() if self.should_module_be_updated(name, batch)
        }
        tensors = {name: self._convert_batch_type(part) for name, part in batch.items()}
        self.before_gradient_based_update(timesteps=timesteps)
        self._trained = dict.fromkeys(tensors, 0)
        sizes: dict[str, list[int]] = {name: [] for name in tensors}
        parts = self._minibatches(tensors, num_epochs, minibatch_size, shuffle_batch_per_epoch)
        for count, part in enumerate(parts, 1):
            self._update(part)
            for name, columns in part.items():
                sizes[name].append(_steps(columns))
            if num_total_minibatches and count >= num_total_minibatches:
                break
        self.weights_seq_no += 1
        self.after_gradient_based_update(timesteps=timesteps)
        self._log(sizes)
        return self.metrics.reduce()

    def _piped(self, episodes: list[Any]) -> dict[str, dict[str, Any]]:
        found = self._learner_connector(
            rl_module=self.module,
            batch={},
            episodes=[copied(episode) for episode in episodes if len(episode)],
            shared_data={},
            metrics=self.metrics,
        )
        other = [name for name in found if name not in self.module]
        if other:
            raise ValueError(
                f"The learner's pipeline returned {other[0]!r}, which is not a module: its batch must be "
                f"by module id ({', '.join(self.module.keys())}), as BatchIndividualItems makes it."
            )
        return self.completed_by_pipeline(found)

    def completed_by_pipeline(self, batch: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the batch of the learner's pipeline with what losses need besides.

        Args:
            batch: Tensors by column, for each module id.
        """
        return batch

    def _update(self, batch: dict[str, Any], **kwargs: Any) -> None:
        raise NotImplementedError

    def _convert_batch_type(self, batch: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _agreed(self, number: int) -> int:
        """The largest of what learners say: they must make as many gradients each."""
        return number

    def _minibatches(
        self, tensors: dict[str, Any], epochs: int, size: int | None, shuffle: bool
    ) -> Iterator[dict[str, Any]]:
        rows = {name: len(first(columns["obs"])) for name, columns in tensors.items()}
        if not rows:
            return
        # Rows of modules with a state are sequences: a minibatch has as many as make its number of steps.
        per_row = {n: _steps(c) / max(rows[n], 1) for n, c in tensors.items()}
        wanted = {n: max(1, int((size or 10**12) / max(per_row[n], 1))) for n in tensors}
        number = self._agreed(max(math.ceil(rows[n] / wanted[n]) for n in tensors))
        if number == 1 and not self.distributed:
            for _ in range(epochs):
                yield tensors
            return
        # One gather an epoch costs less than one for each minibatch, and as much memory as the batch has.
        whole = {n: _megabytes(columns) <= GATHERED_MB for n, columns in tensors.items()}
        for _ in range(epochs):
            order = {n: self._order(rows[n], shuffle) for n in tensors}
            gathered = {
                n: _rows_of(columns, order[n]) if shuffle else columns
                for n, columns in tensors.items()
                if whole[n] or not shuffle
            }
            for index in range(number):
                part = {}
                for n, columns in tensors.items():
                    begin = index * wanted[n]
                    if begin >= rows[n]:  # another module, or learner, has more
                        begin = 0
                    taken = slice(begin, begin + wanted[n])
                    part[n] = (
                        {key: at(value, taken) for key, value in gathered[n].items()}
                        if n in gathered
                        else _rows_of(columns, order[n][taken])
                    )
                yield part

    def _order(self, rows: int, shuffle: bool) -> Any:
        raise NotImplementedError

    def _log(self, sizes: dict[str, list[int]]) -> None:
        total = 0
        for name, each in sizes.items():
            if not each:
                continue
            steps = sum(each)
            total += steps
            log = self.metrics.log_value
            log((name, "num_module_steps_trained"), steps, reduce="sum")
            log((name, "num_module_steps_trained_lifetime"), steps, reduce="lifetime_sum")
            log((name, "module_train_batch_size_mean"), float(np.mean(each)), reduce="mean")
            log((name, "weights_seq_no"), self.weights_seq_no, reduce="item")
            for optimizer, _ in self.get_optimizers_for_module(name):
                rate = self._get_optimizer_lr(self.get_optimizer(name, optimizer))
                log((name, f"{optimizer}_learning_rate"), rate, reduce="item")
            module = self.module[name]
            if hasattr(module, "parameters"):
                known = self.__dict__.setdefault("_numbers", {})
                if name not in known:
                    known[name] = sum(p.numel() for p in module.parameters() if p.requires_grad)
                log((name, "num_trainable_parameters"), known[name], reduce="item")
        for key in ("num_env_steps_trained", "num_module_steps_trained"):
            self.metrics.log_value((ALL_MODULES, key), total, reduce="sum")
            self.metrics.log_value((ALL_MODULES, f"{key}_lifetime"), total, reduce="lifetime_sum")

    def _get_optimizer_lr(self, optimizer: Any) -> float:
        raise NotImplementedError

    def _set_optimizer_lr(self, optimizer: Any, lr: float) -> None:
        raise NotImplementedError

    # --- modules that come and go ---

    def add_module(
        self,
        *,
        module_id: str,
        module_spec: Any,
        config_overrides: dict[str, Any] | None = None,
        new_should_module_be_updated: Any = None,
    ) -> Any:
        """Add a module, and its optimizers.

        Args:
            module_id: The module's id.
            module_spec: Its specification.
            config_overrides: Settings that it has of its own. Default: none.
            new_should_module_be_updated: Which modules are trained from now on. Default: as before.

        Returns:
            All modules.
        """
        self.module.add_module(module_id, module_spec.build())
        self._settle(new_should_module_be_updated, {module_id: config_overrides})
        self._place()
        if self.should_module_be_updated(module_id):
            self.configure_optimizers_for_module(
                module_id, self.config.get_config_for_module(module_id)
            )
        self.build()  # what learners keep besides of each module
        return self.module

    def _settle(self, updated: Any, overrides: dict[str, Any]) -> None:
        config = self.config.copy(copy_frozen=False)
        if updated is not None:
            config.policies_to_train = updated
        own = {name: value for name, value in overrides.items() if value}
        config.algorithm_config_overrides_per_module = {
            **config.algorithm_config_overrides_per_module,
            **own,
        }
        config.__dict__.pop("_per_module", None)
        config.freeze()
        self.config = config

    def remove_module(
        self, module_id: str, *, new_should_module_be_updated: Any = None, **kwargs: Any
    ) -> Any:
        """Remove a module, and its optimizers.

        Args:
            module_id: The module's id.
            new_should_module_be_updated: Which modules are trained from now on. Default: as before.
            **kwargs: More, in later releases.

        Returns:
            The modules that are left.
        """
        self.module.remove_module(module_id)
        self._settle(new_should_module_be_updated, {})
        for key in [key for key in self._optimizers if key[0] == module_id]:
            del self._optimizers[key]
        return self.module

    # --- state ---

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return weights and the optimizers' state.

        Args:
            components: Which parts; default: all.
            not_components: Which parts not; default: none.
            **kwargs: More, in later releases.
        """
        found: dict[str, Any] = {"weights_seq_no": self.weights_seq_no, "own": self._own_state()}
        if self._learner_connector is not None:
            found["learner_connector"] = self._learner_connector.get_state()
        if chosen("rl_module", components, not_components):
            found["rl_module"] = self.module.get_state(**kwargs)
        if chosen("optimizer", components, not_components):
            found["optimizer"] = self._get_optimizer_state()
        return found

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_state` returned.

        Args:
            state: The state.
        """
        self.build()
        self.weights_seq_no = state.get("weights_seq_no", self.weights_seq_no)
        if "rl_module" in state:
            self.module.set_state(state["rl_module"])
        if "optimizer" in state:
            self._set_optimizer_state(state["optimizer"])
        self._set_own_state(state.get("own") or {})
        if self._learner_connector is not None:
            self._learner_connector.set_state(state.get("learner_connector") or {})

    def _own_state(self) -> dict[str, Any]:
        """Return the state of the learner besides weights: coefficients that adapt."""
        return {}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`_own_state` returned."""

    def _get_optimizer_state(self) -> dict[Any, Any]:
        raise NotImplementedError

    def _set_optimizer_state(self, state: dict[Any, Any]) -> None:
        raise NotImplementedError

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make such a learner."""
        return (), {"config": self.config, "module_spec": self._module_spec}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the modules."""
        return [("rl_module", self.module)]


def _rows_of(columns: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {
        key: [value[int(row)] for row in rows] if isinstance(value, list) else at(value, rows)
        for key, value in columns.items()
    }


def _megabytes(columns: dict[str, Any]) -> float:
    sizes = [
        leaf.nbytes
        for value in columns.values()
        if not isinstance(value, list)
        for _, leaf in leaves(value)
    ]
    return float(sum(sizes)) / 1e6


def _steps(columns: dict[str, Any]) -> int:
    mask = columns.get("loss_mask")
    return int(mask.sum()) if mask is not None else len(first(columns["obs"]))
