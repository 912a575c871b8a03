"""``ray.serve._private.constants``: names and defaults that tests and scripts of operators look up."""

from __future__ import annotations

from heliostat.serve.specs import CONTROLLER_NAME as SERVE_CONTROLLER_NAME
from heliostat.serve.specs import NAMESPACE as SERVE_NAMESPACE

__all__ = [
    "DEFAULT_GRPC_PORT",
    "DEFAULT_HTTP_PORT",
    "DEFAULT_MAX_ONGOING_REQUESTS",
    "DEFAULT_TARGET_ONGOING_REQUESTS",
    "SERVE_CONTROLLER_NAME",
    "SERVE_DEFAULT_APP_NAME",
    "SERVE_HTTP_REQUEST_ID_HEADER",
    "SERVE_LOGGER_NAME",
    "SERVE_MULTIPLEXED_MODEL_ID",
    "SERVE_NAMESPACE",
]

SERVE_DEFAULT_APP_NAME = "default"
SERVE_LOGGER_NAME = "ray.serve"
SERVE_MULTIPLEXED_MODEL_ID = "serve_multiplexed_model_id"  # a header of requests
SERVE_HTTP_REQUEST_ID_HEADER = "x-request-id"
DEFAULT_HTTP_PORT, DEFAULT_GRPC_PORT = 8000, 9000
DEFAULT_MAX_ONGOING_REQUESTS = 5  # of a replica
DEFAULT_TARGET_ONGOING_REQUESTS = 2  # of a replica that is scaled
