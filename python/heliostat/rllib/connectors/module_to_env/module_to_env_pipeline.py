"""From what a module returns to actions of environments."""

from __future__ import annotations

from heliostat.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2


class ModuleToEnvPipeline(ConnectorPipelineV2):
    """The connectors between the module's forward and environments."""
