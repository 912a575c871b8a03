"""Applications from import paths: how a configuration file becomes what the controller deploys."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from typing import Any

import heliostat as ray
from heliostat import cloudpickle
from heliostat.serve import deployment, specs
from heliostat.serve.controller.events import ActorID
from heliostat.serve.deployment import Application
from heliostat.serve.options import DeploymentActorConfig, attribute
from heliostat.serve.specs import AppSpec, code_version, scaled_from_outside, with_logging


def application(path: str, args: dict[str, Any], *, again: bool = False) -> Application:
    """The application at an import path: itself, or what a function there makes of ``args``.

    A function takes a dict, or a Pydantic model where its parameter is annotated with one. Raises
    ``TypeError`` for anything else, ``ValueError`` for arguments where there is no function.
    """
    found = attribute(path, again=again)
    if isinstance(found, Application):
        if args:
            raise ValueError(
                f"Arguments were given, but {path} is an application and no function that makes one."
            )
        return found
    if not inspect.isfunction(found):
        raise TypeError(
            f"{path} must be an application or a function that returns one, not a {type(found).__name__}."
        )
    made = found(_argument(found, args)) if inspect.signature(found).parameters else found()
    if not isinstance(made, Application):
        raise TypeError(
            f"The function {path} must return an application, the result of `deployment.bind()`, not a "
            f"{type(made).__name__}."
        )
    return made


def _argument(function: Any, args: dict[str, Any]) -> Any:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1:
        raise TypeError(
            f"A function that makes an application takes one parameter, a dict or a Pydantic model, not "
            f"{len(parameters)}."
        )
    kind = typing.get_type_hints(function).get(parameters[0].name)
    parse = getattr(kind, "model_validate", None)
    return args if parse is None else parse(args)


def built(name: str, route_prefix: str | None, path: str, args: dict[str, Any]) -> AppSpec:
    """The deployments of the application at an import path, with the options of the code."""
    return deployment.build(application(path, args), name, route_prefix)


def overridden(spec: AppSpec, config: dict[str, Any]) -> AppSpec:
    """An application with the options of its configuration in place of the code's.

    ``config`` is what was given of a ``ServeApplicationSchema``. Raises ``ValueError`` for a deployment that
    is not there, and what options of deployments raise.
    """
    deployments = dict(spec.deployments)
    env = environment(config)
    given = {one["name"]: one for one in config.get("deployments") or []}
    missing = sorted(given.keys() - deployments.keys())
    if missing:
        raise ValueError(
            f"Deployment {missing[0]!r} does not exist in application {spec.name!r}. Its deployments are "
            f"{sorted(deployments)}."
        )
    for name, one in deployments.items():
        options = {key: value for key, value in given.get(name, {}).items() if key != "name"}
        actor = dict(options.get("ray_actor_options", one.config.ray_actor_options) or {})
        own = actor.get("runtime_env") or {}
        if env or own:
            variables = {**(env.get("env_vars") or {}), **(own.get("env_vars") or {})}
            actor["runtime_env"] = {**env, **own, **({"env_vars": variables} if variables else {})}
        if actor != one.config.ray_actor_options:
            options["ray_actor_options"] = actor
        changed = dataclasses.replace(one, config=deployment.configured(one.config, options))
        deployments[name] = dataclasses.replace(changed, code_version=code_version(changed))
    route = config.get("route_prefix", "/")
    made = dataclasses.replace(spec, route_prefix=route, deployments=deployments)
    made = scaled_from_outside(made, bool(config.get("external_scaler_enabled")))
    return with_logging(made, config.get("logging_config"))


def environment(config: dict[str, Any]) -> dict[str, Any]:
    """The runtime environment of an application; ``local://`` names a folder that each node has."""
    env = dict(config.get("runtime_env") or {})
    if env.get("working_dir"):
        env["working_dir"] = env["working_dir"].removeprefix("local://")
    if env.get("py_modules"):
        env["py_modules"] = [one.removeprefix("local://") for one in env["py_modules"]]
    return env


def actor_environment(
    env: dict[str, Any] | None, own: dict[str, Any], actor: ActorID
) -> dict[str, Any]:
    """The runtime environment of a deployment with an actor's own laid over it; it says which actor it is.

    Raises ``ValueError`` where the user has said that already.
    """
    env = dict(env or {})
    variables = {**(env.get("env_vars") or {}), **(own.get("env_vars") or {})}
    if specs.ACTOR_VARIABLE in variables:
        raise ValueError(f"The variable {specs.ACTOR_VARIABLE} is Serve's own.")
    key = actor.deployment
    variables[specs.ACTOR_VARIABLE] = json.dumps([*key, actor.name, actor.version])
    return {**env, **own, "env_vars": variables}


def actor_made(config: DeploymentActorConfig, name: str, env: dict[str, Any]) -> Any:
    """An actor of a deployment, on its way: its handle. Raises what importing its class raises."""
    cls, args, kwargs = cloudpickle.loads(config.code)
    if cls is None:
        cls = attribute(config.actor_class)
    if not hasattr(cls, "__ray_actor_class__"):
        cls = ray.remote(cls)
    options = {**config.actor_options, "runtime_env": env, "max_restarts": 0, "name": name}
    options |= {"namespace": specs.NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return cls.options(**options).remote(*args, **kwargs)


def is_same_code(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two configurations of an application import the same."""
    return all(
        (one.get(key) or None) == (other.get(key) or None)
        for key in ("import_path", "runtime_env", "args")
    )
