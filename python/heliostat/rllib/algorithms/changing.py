"""Modules that are added to an algorithm that runs, and removed from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from heliostat.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec

# Learners, runners, runners of evaluation.
Where = tuple[bool, bool, bool]


def add(
    algo: Any,
    module_id: str,
    spec: Any,
    *,
    overrides: dict[str, Any] | None,
    mapping: Any,
    updated: Any,
    where: Where,
) -> MultiRLModuleSpec:
    """Add a module.

    Raises:
        ValueError: There is one of the id, or the algorithm is of one agent.
    """
    config = algo.config
    if not config.is_multi_agent:
        raise ValueError(
            "add_module() is for algorithms of several agents: set multi_agent(policies=..., "
            "policy_mapping_fn=...)."
        )
    if module_id in config.policies:
        raise ValueError(
            f"There is a module {module_id!r} already: the modules are {_listed(config.policies)}."
        )
    spaces = algo.env_runner_group.get_spaces()
    first = next(iter(config.policies))
    spec = copy.copy(spec)
    default = config.get_default_rl_module_spec()
    spec.module_class = spec.module_class or default.module_class
    spec.observation_space = spec.observation_space or spaces[first][0]
    spec.action_space = spec.action_space or spaces[first][1]
    own = spec._get_model_config() if spec.model_config is not None else {}
    spec.model_config = {**config.model_config, **own}
    if where[0]:
        algo.learner_group.add_module(
            module_id=module_id,
            module_spec=spec,
            config_overrides=overrides,
            new_should_module_be_updated=updated,
        )
    acting = copy.copy(spec)
    acting.inference_only = not acting.learner_only
    _settle(
        algo,
        {*config.policies, module_id},
        mapping,
        updated,
        {module_id: overrides},
        module_id,
        spec,
    )
    _tell(algo, _Adder(module_id, acting, mapping), where)
    algo.publish_weights()
    return _specs(algo)


def remove(
    algo: Any, module_id: str, *, mapping: Any, updated: Any, where: Where
) -> MultiRLModuleSpec:
    """Remove a module.

    Raises:
        ValueError: There is none of the id.
    """
    config = algo.config
    if module_id not in config.policies:
        raise ValueError(
            f"There is no module {module_id!r}: the modules are {_listed(config.policies)}."
        )
    if where[0]:
        algo.learner_group.remove_module(module_id, new_should_module_be_updated=updated)
    _settle(algo, {*config.policies} - {module_id}, mapping, updated, {}, module_id, None)
    _tell(algo, _Remover(module_id, mapping), where)
    algo.publish_weights()
    return _specs(algo)


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(repr, names)))


def _settle(
    algo: Any,
    policies: set[str],
    mapping: Any,
    updated: Any,
    overrides: dict[str, Any],
    module_id: str,
    spec: Any,
) -> None:
    # Runners that begin anew, and checkpoints, have the modules of now.
    made = algo.config.copy(copy_frozen=False)
    made.policies = policies
    if mapping is not None:
        made.policy_mapping_fn = mapping
    if updated is not None:
        made.policies_to_train = updated
    made.algorithm_config_overrides_per_module = {
        name: own
        for name, own in {**made.algorithm_config_overrides_per_module, **overrides}.items()
        if own and name in policies
    }
    given = made._rl_module_spec
    known = isinstance(given, MultiRLModuleSpec)
    specs = dict(given.rl_module_specs) if known else {name: _one(given) for name in policies}
    specs.pop(module_id, None)
    if spec is not None:
        specs[module_id] = spec
    kind = given.multi_rl_module_class if known else None
    made._rl_module_spec = MultiRLModuleSpec(multi_rl_module_class=kind, rl_module_specs=specs)
    made.__dict__.pop("_per_module", None)
    made.freeze()
    algo.config = made
    for group in (algo.env_runner_group, algo.eval_env_runner_group):
        if group is not None:
            group.config = (
                made if group is algo.env_runner_group else made.get_evaluation_config_object()
            )


def _one(given: Any) -> Any:
    from heliostat.rllib.core.rl_module.rl_module import RLModuleSpec

    return copy.copy(given) if given is not None else RLModuleSpec()


def _tell(algo: Any, change: Callable[[Any], None], where: Where) -> None:
    for group, wanted in (
        (algo.env_runner_group, where[1]),
        (algo.eval_env_runner_group, where[2]),
    ):
        if group is not None and wanted:
            group.foreach_env_runner(change)


def _specs(algo: Any) -> MultiRLModuleSpec:
    spaces = algo.env_runner_group.get_spaces()
    found: MultiRLModuleSpec = algo.config.get_multi_rl_module_spec(spaces=spaces)
    return found


class _Adder:
    def __init__(self, module_id: str, spec: Any, mapping: Any) -> None:
        self.module_id, self.spec, self.mapping = module_id, spec, mapping

    def __call__(self, runner: Any) -> None:
        module = self.spec.build()
        if hasattr(module, "eval"):
            module.eval()
        runner.module.add_module(self.module_id, module)
        _change(runner, {*runner.config.policies, self.module_id}, self.mapping)


class _Remover:
    def __init__(self, module_id: str, mapping: Any) -> None:
        self.module_id, self.mapping = module_id, mapping

    def __call__(self, runner: Any) -> None:
        runner.module.remove_module(self.module_id)
        runner._episodes = None  # those that go on have agents that it acts for: new ones begin
        _change(runner, {*runner.config.policies} - {self.module_id}, self.mapping)


def _change(runner: Any, policies: set[str], mapping: Any) -> None:
    config = runner.config.copy(copy_frozen=False)
    config.policies = policies
    if mapping is not None:
        config.policy_mapping_fn = mapping
    config.freeze()
    runner.config = config
