"""``/api/serve/applications/``, and the route that scales a deployment: a request's driver.

The head's HTTP server starts it:

``python -m heliostat.serve.rest '{"method": …}'`` reads the request's body and prints, as its last line,
``{"status", "text"}`` or ``{"status", "json"}``. It may leave Serve's controller behind, which is detached.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import heliostat as ray
from heliostat.serve import api, specs
from heliostat.serve.controller import details
from heliostat.serve.options import HTTPOptions, TracingConfig, gRPCOptions, of
from heliostat.serve.specs import DeploymentID

_SOURCES = ("imperative", "declarative")


def deploy(config: object) -> Any:
    """Start Serve where it does not run, and have it run what a configuration says; the controller.

    Does not wait for the applications. Raises ``ValueError`` for what cannot be.
    """
    from heliostat.serve import declaration

    schema = declaration.parsed(config)
    options = HTTPOptions(**schema.http_options.model_dump())
    controller = api.controller(
        options,
        schema.proxy_location,
        own=schema.controller_options or None,
        grpc=gRPCOptions(**schema.grpc_options.model_dump()),
        traced=of(TracingConfig, schema.tracing_config),
    )
    apps = [
        {"name": app.name, "route_prefix": app.route_prefix, **app.model_dump(exclude_unset=True)}
        for app in schema.applications
    ]
    for app in apps if schema.logging_config is not None else ():
        app.setdefault("logging_config", schema.logging_config)
    try:
        ray.get(controller.apply.remote(apps, schema.target_capacity))
    except ray.exceptions.RayTaskError as error:
        raise ValueError(str(error.cause)) from None
    return controller


def _answer(request: dict[str, Any], body: bytes) -> dict[str, Any]:
    method, source = request["method"], request.get("api_type")
    if method == "PUT":
        try:
            deploy(json.loads(body))
        except (ModuleNotFoundError, NotImplementedError, ValueError) as error:
            return {"status": 400, "text": str(error)}
        return {"status": 200}
    if method == "POST":
        return _scaled(DeploymentID(request["app"], request["deployment"]), body)
    if method == "DELETE":
        api.shutdown()
        return {"status": 200}
    if source is not None and source.lower() not in _SOURCES:
        text = f"Invalid 'api_type' value: '{source}'. Must be one of: {', '.join(_SOURCES)}"
        return {"status": 400, "text": text}
    told = details.empty()
    running = api.running()
    if running is not None:
        told = ray.get(running.details.remote(source and source.lower()))
    if request.get("hides_variables"):
        _hide(told)
    return {"status": 200, "json": told}


def _scaled(key: DeploymentID, body: bytes) -> dict[str, Any]:
    """Scale a deployment as ``{"target_num_replicas": 3}`` asks; return the answer."""
    try:
        number = json.loads(body)["target_num_replicas"]
    except (KeyError, TypeError, ValueError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        text = (
            'Invalid request body: it has to be {"target_num_replicas": N}, N a number from 0 on.'
        )
        return {"status": 400, "json": {"error": text}}
    running = api.running()
    if running is None:
        return {"status": 503, "json": {"error": "Serve does not run on this cluster."}}
    status, error = ray.get(running.scale.remote(key, number))
    if status != 200:
        return {"status": status, "json": {"error": error}}
    text = "Scaling request received. Deployment will get scaled asynchronously."
    return {"status": 200, "json": {"message": text}}


def _hide(value: Any) -> None:
    """Hide the values of environment variables: others may see the screen of a browser."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "env_vars" and isinstance(one, dict):
                value[key] = dict.fromkeys(one, "<hidden>")
            else:
                _hide(one)
    elif isinstance(value, list):
        for one in value:
            _hide(one)


def main() -> None:
    """The program."""
    request = json.loads(sys.argv[1])
    body = sys.stdin.buffer.read()
    ray.init("auto", namespace=specs.NAMESPACE, log_to_driver=False, logging_level="ERROR")
    try:
        said = _answer(request, body)
    except ImportError as error:
        text = f"Serve's own dependencies are missing ({error}): pip install 'heliostat[serve]'"
        said = {"status": 501, "text": text}
    sys.stdout.write("\n" + json.dumps(said, default=str) + "\n")


if __name__ == "__main__":
    main()
