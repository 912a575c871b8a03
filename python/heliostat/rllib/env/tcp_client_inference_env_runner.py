"""The runner of external environments, under its earlier name."""

from __future__ import annotations

from heliostat.rllib.env.external.env_runner_server_for_external_inference import (
    EnvRunnerServerForExternalInference,
)

TcpClientInferenceEnvRunner = EnvRunnerServerForExternalInference
