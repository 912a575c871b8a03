"""The pipelines of an algorithm: the connectors of its settings, and the default ones."""

from __future__ import annotations

import inspect
from typing import Any

from heliostat.rllib.connectors.common.module_to_agent_unmapping import ModuleToAgentUnmapping
from heliostat.rllib.connectors.connector_v2 import ConnectorV2


def env_to_module(config: Any, env: Any, spaces: Any, device: Any) -> Any:
    """The pipeline between environments and the module's forward."""
    from heliostat.rllib.connectors import env_to_module as pieces

    own = _own(config, "env_to_module_connector", env, spaces, device)
    seen, acted = _spaces(config, env, spaces)
    pipeline = pieces.EnvToModulePipeline(seen, acted, connectors=own)
    if config.add_default_connectors_to_env_to_module_pipeline:
        pipeline.append(pieces.AddObservationsFromEpisodesToBatch())
        pipeline.append(pieces.AddTimeDimToBatchAndZeroPad())
        pipeline.append(pieces.AddStatesFromEpisodesToBatch())
        if config.is_multi_agent:
            pipeline.append(_mapping(config, False))
        pipeline.append(pieces.BatchIndividualItems(multi_agent=config.is_multi_agent))
        pipeline.append(pieces.NumpyToTensor(device=device))
    return pipeline


def module_to_env(config: Any, env: Any, spaces: Any) -> Any:
    """The pipeline between what the module returns and actions of environments."""
    from heliostat.rllib.connectors import module_to_env as pieces

    own = _own(config, "module_to_env_connector", env, spaces)
    seen, acted = _spaces(config, env, spaces)
    pipeline = pieces.ModuleToEnvPipeline(seen, acted, connectors=own)
    if config.add_default_connectors_to_module_to_env_pipeline:
        pipeline.prepend(pieces.RemoveSingleTsTimeRankFromBatch())
        if config.is_multi_agent:
            pipeline.prepend(ModuleToAgentUnmapping())
        pipeline.prepend(pieces.UnBatchToIndividualItems())
        pipeline.prepend(pieces.TensorToNumpy())
        pipeline.prepend(pieces.GetActions())
        pipeline.append(
            pieces.NormalizeAndClipActions(
                normalize_actions=config.normalize_actions, clip_actions=config.clip_actions
            )
        )
        pipeline.append(pieces.ListifyDataForVectorEnv())
    return pipeline


def learner(config: Any, observation_space: Any, action_space: Any, device: Any) -> Any:
    """The pipeline between episodes and a learner's losses."""
    from heliostat.rllib.connectors import learner as pieces

    own = _own(config, "learner_connector", observation_space, action_space)
    pipeline = pieces.LearnerConnectorPipeline(observation_space, action_space, connectors=own)
    if config.add_default_connectors_to_learner_pipeline:
        pipeline.append(pieces.AddObservationsFromEpisodesToBatch(as_learner_connector=True))
        pipeline.append(pieces.AddColumnsFromEpisodesToTrainBatch())
        pipeline.append(pieces.AddTimeDimToBatchAndZeroPad(as_learner_connector=True))
        pipeline.append(pieces.AddStatesFromEpisodesToBatch(as_learner_connector=True))
        if config.is_multi_agent:
            pipeline.append(_mapping(config, True))
        pipeline.append(pieces.BatchIndividualItems(multi_agent=config.is_multi_agent))
        pipeline.append(pieces.NumpyToTensor(device=device))
    return pipeline


def _one_more_step(pipeline: Any, config: Any) -> None:
    from heliostat.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate

    pipeline.prepend(AddOneTsToEpisodesAndTruncate())


def _next_observations(pipeline: Any, config: Any) -> None:
    from heliostat.rllib.connectors import learner as pieces

    pipeline.insert_after(
        pieces.AddObservationsFromEpisodesToBatch,
        pieces.AddNextObservationsFromEpisodesToTrainBatch(),
    )


def _advantages(pipeline: Any, config: Any) -> None:
    from heliostat.rllib.connectors.learner import GeneralAdvantageEstimation

    lambda_ = config.lambda_ if config.get("use_gae", True) else 1.0
    pipeline.append(GeneralAdvantageEstimation(gamma=config.gamma, lambda_=lambda_))


# Additions of algorithms to their learners' pipelines: each episode's last observation as a row, the column
# `new_obs`, advantages with targets of values.
ADDED = {
    "one_more_step": _one_more_step,
    "next_observations": _next_observations,
    "advantages": _advantages,
}


def _mapping(config: Any, learns: bool) -> Any:
    from heliostat.rllib.connectors.common.agent_to_module_mapping import AgentToModuleMapping

    specs = getattr(config._rl_module_spec, "rl_module_specs", None) or set(config.policies)
    return AgentToModuleMapping(
        rl_module_specs=specs,
        agent_to_module_mapping_fn=config.policy_mapping_fn,
        as_learner_connector=learns,
    )


def _own(config: Any, name: str, *arguments: Any) -> list[ConnectorV2]:
    function = getattr(config, f"_{name}")
    if function is None:
        return []
    if not callable(function) or isinstance(function, ConnectorV2):
        raise ValueError(
            f"{name}={function!r} must be a function that returns a connector, or a list of them."
        )
    found = _called(function, *arguments)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    for one in found:
        if not isinstance(one, ConnectorV2):
            raise ValueError(
                f"The function {name} returned {one!r}: it must return an object of a class that derives "
                "from ConnectorV2, or a list of them."
            )
    return found


def _called(function: Any, *arguments: Any) -> Any:
    # With as many arguments as it takes: of older programs the environment alone.
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function(*arguments)
    for count in range(len(arguments), 0, -1):
        try:
            signature.bind(*arguments[:count])
        except TypeError:
            continue
        return function(*arguments[:count])
    return function()


def _spaces(config: Any, env: Any, spaces: Any) -> tuple[Any, Any]:
    if spaces and "__env_single__" in spaces:
        found: tuple[Any, Any] = spaces["__env_single__"]
        return found
    if env is None:
        return config.observation_space, config.action_space
    if hasattr(env, "single_observation_space"):
        return env.single_observation_space, env.single_action_space
    if not config.is_multi_agent:
        return env.observation_space, env.action_space
    return of_agents(env)


def of_agents(env: Any) -> tuple[Any, Any]:
    """The spaces of an environment of several agents, by agent."""
    from gymnasium import spaces

    agents = list(env.possible_agents or env.agents)
    return (
        spaces.Dict({agent: env.get_observation_space(agent) for agent in agents}),
        spaces.Dict({agent: env.get_action_space(agent) for agent in agents}),
    )
