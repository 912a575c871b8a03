"""From what a module returns to actions of environments."""

from __future__ import annotations

from heliostat.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2


class ModuleToEnvPipeline(ConnectorPipelineV2):
    """The connectors between the module's forward and environments.

    Examples:
        >>> import torch
        >>> from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline, TensorToNumpy
        >>> pipeline = ModuleToEnvPipeline(connectors=[TensorToNumpy()])
        >>> pipeline(batch={"actions": torch.tensor([1, 0])}, episodes=[], rl_module=None)["actions"].tolist()
        [1, 0]
    """
