"""The details of Serve for the REST routes, as Ray's ``ServeInstanceDetails`` has them: plain data
for JSON.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from enum import Enum
from typing import Any

import heliostat as ray
from heliostat.serve import specs
from heliostat.serve.controller import health
from heliostat.serve.controller.state import App, Replica
from heliostat.serve.controller.view import DeploymentView, View
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.options import (
    HTTPOptions,
    ProxyLocation,
    RequestRouterConfig,
    gRPCOptions,
)
from heliostat.serve.schema import ProxyStatus, ReplicaState
from heliostat.serve.specs import DeploymentSpec, ReplicaLocation

# By Ray's name, of the one that is taken where none is given.
_POLICY = "ray.serve.autoscaling_policy:default_autoscaling_policy"

_ACTOR = (
    "node_id",
    "node_ip",
    "node_instance_id",
    "actor_id",
    "actor_name",
    "worker_id",
    "log_file_path",
)


def _actor(**known: Any) -> dict[str, Any]:
    return {**dict.fromkeys(_ACTOR), **known}


def empty() -> dict[str, Any]:
    """The details where Serve does not run."""
    return {
        "controller_info": _actor(),
        "proxy_location": None,
        "http_options": None,
        "grpc_options": None,
        "proxies": {},
        "applications": {},
        "target_capacity": None,
        "target_groups": [],
        "controller_health_metrics": health.unknown(),
        "restores_unset_config_options": True,
    }


def of(
    view: View,
    controller: dict[str, Any],
    location: ProxyLocation,
    options: HTTPOptions,
    grpc: gRPCOptions,
    proxies: dict[str, ProxyStatus],
    hosts: dict[str, str],
    actors: dict[str, Any],
    fares: dict[str, Any],
) -> dict[str, Any]:
    """The state of the whole instance, as the REST API tells it.

    ``controller``: what is known of its actor; ``hosts``: the machines of servers that are not beside it, by
    node; ``actors``: what is known of replicas, by their ids; ``fares``: how the controller does.
    """
    # Not for others: how middlewares are imported, and the password of a key.
    http = {
        key: value
        for key, value in dataclasses.asdict(options).items()
        if key not in ("location", "middlewares", "num_cpus", "root_url", "ssl_keyfile_password")
    }
    told = empty()
    told["controller_info"] = _actor(**controller, actor_name=specs.CONTROLLER_NAME)
    told["proxy_location"] = location.value
    told["http_options"] = http
    told["grpc_options"] = grpc.as_row()
    told["proxies"] = {
        node: {
            **_actor(
                node_id=node,
                node_ip=hosts.get(node, controller.get("node_ip")),
                log_file_path="/serve-ingress.err",
            ),
            "status": status.value,
        }
        for node, status in proxies.items()
    }
    told["target_groups"] = _target_groups(told["proxies"], options, grpc)
    told["controller_health_metrics"] = fares
    told["target_capacity"] = view.capacity
    told["applications"] = {name: app_of(view, app, actors) for name, app in view.apps.items()}
    return told


def _target_groups(
    proxies: dict[str, Any], http: HTTPOptions, grpc: gRPCOptions
) -> list[dict[str, Any]]:
    """The targets of a load balancer: each server answers for all applications."""
    protocols = [("HTTP", http.port), *([("gRPC", grpc.port)] if grpc.methods else [])]
    up = [one for one in proxies.values() if one["status"] == ProxyStatus.HEALTHY.value]
    return [
        {
            "targets": [
                {
                    "ip": one["node_ip"],
                    "port": port,
                    "instance_id": "",
                    "name": f"serve-ingress-{one['node_id']}",
                }
                for one in up
            ],
            "route_prefix": "/",
            "protocol": protocol,
            "app_name": "",
            "ingress_request_router_targets": [],
            "ingress_deployment_name": "",
        }
        for protocol, port in protocols
        if up
    ]


def place_row(actor: Any, where: ReplicaLocation | None) -> dict[str, Any]:
    """The known facts of a replica's process; ``actor`` may be none any more."""
    row = {} if actor is None else {"actor_id": actor._actor_id.hex()}
    if where is not None:
        row |= {
            "actor_id": where.actor,
            "node_id": where.node,
            "node_ip": where.host,
            "worker_id": where.worker,
            "log_file_path": where.log,
        }
    return row


def own_row() -> dict[str, str | None]:
    """The known facts of this process, an actor."""
    here = ray.get_runtime_context()
    worker = here.get_worker_id()
    log = f"/worker-{worker}-{os.getpid()}.err"
    return {"actor_id": here.get_actor_id(), "worker_id": worker, "log_file_path": log}


def app_of(view: View, app: App, actors: dict[str, Any]) -> dict[str, Any]:
    """An application with its deployments and replicas."""
    name = app.spec.name
    row = view.app_of(name)
    assert row is not None
    # The row says how users see them, the machine what there is: each has names that the other lacks.
    known = {one.id.name: one for one in view.deployments(name)}
    return {
        "name": name,
        "route_prefix": app.spec.route_prefix,
        "docs_path": None,
        "status": row.status.value,
        "message": row.message,
        "last_deployed_time_s": row.last_deployed_time_s,
        "deployed_app_config": app.config,
        "source": "imperative" if app.config is None else "declarative",
        "deployments": {
            key: {
                "name": key,
                "status": one.status.value,
                "status_trigger": one.status_trigger,
                "message": one.message,
                **_deployment(known[key], actors),
            }
            for key, one in row.deployments.items()
        },
        "external_scaler_enabled": app.spec.is_scaled_from_outside,
        "deployment_topology": _topology(app),
    }


def _topology(app: App) -> dict[str, Any] | None:
    """The handles from deployment to deployment, as the application was bound."""
    if not app.spec.deployments:
        return None
    name, ingress = app.spec.name, app.spec.ingress
    return {
        "app_name": name,
        "nodes": {
            one.name: {
                "name": one.name,
                "app_name": name,
                "outbound_deployments": [{"name": to, "app_name": name} for to in one.outbound],
                "is_ingress": one.name == ingress,
            }
            for one in app.spec.deployments.values()
        },
        "ingress_deployment": ingress,
    }


def _deployment(known: DeploymentView, actors: dict[str, Any]) -> dict[str, Any]:
    options = known.spec.config.ray_actor_options
    resources = {"CPU": options.get("num_cpus", 1), **(options.get("resources") or {})}
    if options.get("num_gpus"):
        resources["GPU"] = options["num_gpus"]
    return {
        "deployment_config": _with_defaults(known.spec),
        "target_num_replicas": known.target,
        "required_resources": resources,
        "replicas": [_replica(one, actors) for one in known.replicas],
        "recent_dead_replicas": [
            {**_replica(one, actors), "state": ReplicaState.STOPPING.value} for one in known.dead
        ],
    }


def _with_defaults(spec: DeploymentSpec) -> dict[str, Any]:
    """All that applies to a deployment, also what nobody has said."""
    config, told = spec.config, options_of(spec)
    told["backpressure_config"] = dataclasses.asdict(config.backpressure())
    told["request_router_config"] = dataclasses.asdict(
        config.request_router_config or RequestRouterConfig()
    )
    told["ray_actor_options"] = {"num_cpus": 1.0, **config.ray_actor_options}
    if config.autoscaling_config is not None:
        scaling = dataclasses.asdict(config.autoscaling_config)
        policy = scaling.pop("policy") or {"policy_function": _POLICY, "policy_kwargs": {}}
        plain = {key: one.value if isinstance(one, Enum) else one for key, one in scaling.items()}
        told["autoscaling_config"] = {**plain, "policy": policy}
    return told


def _replica(one: Replica, actors: dict[str, Any]) -> dict[str, Any]:
    return {
        **_actor(**actors.get(one.id, {}), actor_name=one.id),
        "replica_id": one.id,
        "state": one.state.value,
        "pid": one.pid or None,
        "start_time_s": one.since,
    }


def options_of(spec: DeploymentSpec, *, changed: bool = False) -> dict[str, Any]:
    """A deployment's options as a configuration file has them; with ``changed`` only those not by default."""
    config, usual = spec.config, DeploymentConfig()
    options: dict[str, Any] = {"name": spec.name}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        # Fields of the code and not of its options, or told below in another form.
        if field.name in ("version", "autoscaling_config", "max_constructor_retry_count"):
            continue
        if hasattr(value, "as_row") and field.name == "gang_scheduling_config":
            value = value.as_row()
        elif field.name == "deployment_actors" and value is not None:
            value = [one.as_row() for one in value]
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        if not changed or value != getattr(usual, field.name):
            options[field.name] = copy.copy(value)
    if config.autoscaling_config is not None:
        scaling = dataclasses.asdict(config.autoscaling_config)
        # The number follows the load: the one that was set first says nothing now.
        options.pop("num_replicas", None)
        options["autoscaling_config"] = {
            key: value.value if isinstance(value, Enum) else value
            for key, value in scaling.items()
            if value is not None
        }
    elif changed and "num_replicas" not in options:
        options["num_replicas"] = config.num_replicas
    return options
