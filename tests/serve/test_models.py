"""Options that are Pydantic models: fields, defaults, errors and methods, and that they act as dicts do."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any

import pytest

pydantic = pytest.importorskip("pydantic", reason="the extra `serve` brings it")

from ray import serve  # noqa: E402
from ray.serve.config import (  # noqa: E402
    AutoscalingConfig,
    AutoscalingPolicy,
    HTTPOptions,
    ProxyLocation,
    gRPCOptions,
)
from ray.serve.schema import LoggingConfig  # noqa: E402

MODELS = [AutoscalingConfig, AutoscalingPolicy, HTTPOptions, LoggingConfig, gRPCOptions]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_one_of_pydantic(model: Any) -> None:
    made = model()
    assert isinstance(made, pydantic.BaseModel)
    told = made.model_dump()
    assert set(told) == set(model.model_fields)
    assert model.model_validate(told) == made
    assert model.model_validate_json(made.model_dump_json()) == made
    assert made.model_copy() == made
    assert model.model_json_schema()["type"] == "object"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pydantic's, of its older names
        assert made.dict() == told
        assert made.copy() == made
        assert model.parse_obj(told) == made
        assert made.json() == made.model_dump_json()
    assert pickle.loads(pickle.dumps(made)) == made


DEFAULTS = {
    AutoscalingConfig: {
        "min_replicas": 1,
        "initial_replicas": None,
        "max_replicas": 1,
        "target_ongoing_requests": 2,
        "metrics_interval_s": 10.0,
        "look_back_period_s": 30.0,
        "smoothing_factor": 1.0,
        "upscale_smoothing_factor": None,
        "downscale_smoothing_factor": None,
        "upscaling_factor": None,
        "downscaling_factor": None,
        "downscale_delay_s": 600.0,
        "downscale_to_zero_delay_s": None,
        "upscale_delay_s": 30.0,
        "aggregation_function": "mean",
    },
    HTTPOptions: {
        "host": "127.0.0.1",
        "port": 8000,
        "middlewares": [],
        "location": None,
        "num_cpus": 0,
        "root_url": "",
        "root_path": "",
        "request_timeout_s": None,
        "keep_alive_timeout_s": 90,
        "ssl_keyfile": None,
        "ssl_certfile": None,
        "ssl_keyfile_password": None,
        "ssl_ca_certs": None,
    },
    gRPCOptions: {
        "port": 9000,
        "grpc_servicer_functions": [],
        "request_timeout_s": None,
        "enable_reflection": True,
    },
    LoggingConfig: {
        "encoding": "TEXT",
        "log_level": "INFO",
        "logs_dir": None,
        "enable_access_log": True,
        "additional_log_standard_attrs": [],
    },
}


@pytest.mark.parametrize("model", DEFAULTS)
def test_fields_and_defaults_are_those_of_ray(model: Any) -> None:
    told = model().model_dump()
    policy = told.pop(
        "policy", {"policy_kwargs": {}, "policy_function": "default_autoscaling_policy"}
    )
    assert told == DEFAULTS[model]
    assert policy["policy_function"].endswith("default_autoscaling_policy")
    assert policy["policy_kwargs"] == {}


TAKEN: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (AutoscalingConfig, {"min_replicas": "3", "max_replicas": 5}, {"min_replicas": 3}),
    (AutoscalingConfig, {"target_ongoing_requests": None}, {"target_ongoing_requests": None}),
    (AutoscalingConfig, {"aggregation_function": "MAX"}, {"aggregation_function": "max"}),
    (AutoscalingConfig, {"no_such": 1}, {"min_replicas": 1}),
    (HTTPOptions, {"port": "9000"}, {"port": 9000}),
    (HTTPOptions, {"host": None}, {"location": ProxyLocation.Disabled}),
    (HTTPOptions, {"no_such": 1}, {"port": 8000}),
    (LoggingConfig, {"log_level": 10}, {"log_level": "DEBUG"}),
    (
        LoggingConfig,
        {"additional_log_standard_attrs": ["name", "name"]},
        {"additional_log_standard_attrs": ["name"]},
    ),
]


@pytest.mark.parametrize(("model", "given", "told"), TAKEN)
def test_values_are_taken_as_ray_takes_them(
    model: Any, given: dict[str, Any], told: dict[str, Any]
) -> None:
    made = model(**given).model_dump()
    assert {name: made[name] for name in told} == told


REFUSED: list[tuple[Any, dict[str, Any]]] = [
    (AutoscalingConfig, {"min_replicas": 2}),
    (AutoscalingConfig, {"min_replicas": -1}),
    (AutoscalingConfig, {"min_replicas": 1.5}),
    (AutoscalingConfig, {"max_replicas": 0}),
    (AutoscalingConfig, {"initial_replicas": 9, "max_replicas": 5}),
    (AutoscalingConfig, {"target_ongoing_requests": 0}),
    (AutoscalingConfig, {"aggregation_function": "median"}),
    (AutoscalingConfig, {"upscale_delay_s": -1}),
    (AutoscalingConfig, {"look_back_period_s": 0}),
    (AutoscalingConfig, {"smoothing_factor": 0}),
    (AutoscalingConfig, {"policy": None}),
    (AutoscalingConfig, {"policy": {"policy_kwargs": {"a": object()}}}),
    (AutoscalingPolicy, {"policy_kwargs": {"a": object()}}),
    (HTTPOptions, {"port": "x"}),
    (HTTPOptions, {"middlewares": [1]}),
    (HTTPOptions, {"num_cpus": 1}),
    (HTTPOptions, {"keep_alive_timeout_s": 1.5}),
    (LoggingConfig, {"encoding": "X"}),
    (LoggingConfig, {"encoding": "json"}),
    (LoggingConfig, {"log_level": "X"}),
    (LoggingConfig, {"log_level": 11}),
    (LoggingConfig, {"additional_log_standard_attrs": ["x"]}),
    (LoggingConfig, {"no_such": 1}),
]


@pytest.mark.parametrize(("model", "given"), REFUSED)
def test_what_makes_no_sense_is_a_validation_error(model: Any, given: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        model(**given)


def test_http_options_are_checked_when_they_change() -> None:
    options = HTTPOptions()
    options.port = "9001"
    assert options.port == 9001
    with pytest.raises(pydantic.ValidationError):
        options.port = "x"


def test_deprecated_options_warn() -> None:
    with pytest.warns(DeprecationWarning, match="proxy_location"):
        assert HTTPOptions(location="NoServer").location is ProxyLocation.Disabled
    with pytest.warns(DeprecationWarning, match="METRIC_PUSH_INTERVAL"):
        AutoscalingConfig(metrics_interval_s=5)
    with pytest.warns(FutureWarning, match="look_back_period_s"):
        AutoscalingConfig(look_back_period_s=5)


def test_factors_and_the_automatic_number() -> None:
    assert AutoscalingConfig.default().max_replicas == 100
    config = AutoscalingConfig(smoothing_factor=3, upscaling_factor=2)
    assert (config.get_upscaling_factor(), config.get_downscaling_factor()) == (2, 3)
    assert config.get_target_ongoing_requests() == 2


def scaled(context: Any) -> Any:
    """A policy of this module, which the cluster does not have."""
    return 2, {}


def test_a_policy_carries_its_code() -> None:
    policy = AutoscalingPolicy(policy_function=scaled)
    assert not policy.is_default_policy_function()
    assert policy.get_policy()(None) == (2, {})
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert again.get_policy()(None) == (2, {})
    assert AutoscalingPolicy().is_default_policy_function()
    config = AutoscalingConfig(max_replicas=3, policy=policy).model_copy()
    assert config.policy.get_policy()(None) == (2, {})


@pytest.mark.heliostat_only("as_options is ours")
def test_models_become_what_serve_works_with() -> None:
    from heliostat.serve import options

    for model in MODELS[:4]:
        made = model().as_options()
        assert made == options.of(type(made), model())
        assert type(made).__module__ == "heliostat.serve.options"
    config = AutoscalingConfig(max_replicas=3, policy=AutoscalingPolicy(policy_function=scaled))
    config.target_ongoing_requests = None
    plain = options.of(options.AutoscalingConfig, config)
    assert (plain.max_replicas, plain.target_ongoing_requests) == (3, 2.0)
    assert plain.policy.get_policy()(None) == (2, {})


@pytest.mark.heliostat_only("the modules are ours")
def test_only_who_asks_for_a_model_loads_pydantic() -> None:
    script = (
        "import sys, ray.serve, ray.serve.config, ray.serve.schema, ray.job_submission\n"
        "import heliostat.serve.replica.actor, heliostat.serve.controller.actor\n"
        "assert 'pydantic' not in sys.modules\n"
        "ray.serve.config.HTTPOptions, ray.serve.HTTPOptions, ray.serve.schema.LoggingConfig\n"
        "assert ray.serve.HTTPOptions is ray.serve.config.HTTPOptions\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_models_act_in_a_deployment(ray_start: Any) -> None:
    @serve.deployment(
        autoscaling_config=AutoscalingConfig(
            min_replicas=2, max_replicas=2, policy=AutoscalingPolicy(policy_function=scaled)
        ),
        logging_config=LoggingConfig(encoding="JSON", log_level="DEBUG"),
    )
    class Served:
        def __call__(self) -> int:
            return 7

    try:
        serve.start(http_options=HTTPOptions(host=None), grpc_options=gRPCOptions())
        handle = serve.run(Served.bind(), name="models", route_prefix=None)
        assert handle.remote().result(timeout_s=60) == 7
        states = serve.status().applications["models"].deployments["Served"].replica_states
        assert sum(states.values()) == 2
    finally:
        serve.shutdown()


@pytest.mark.contract("F12.04")
@pytest.mark.parametrize(
    "order", ["import starlette; from ray import serve", "from ray import serve; import starlette"]
)
def test_starlette_alone_is_imported_by_programs(order: str) -> None:
    code = f"""
{order}

@serve.deployment
class Model:
    def __call__(self, request: starlette.requests.Request) -> None: pass

assert starlette.responses.JSONResponse
assert not hasattr(starlette, "nothing")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_models_are_where_files_of_applications_have_them() -> None:
    from ray.serve import config, schema

    for name in ("AutoscalingConfig", "BackpressureConfig", "RequestRouterConfig"):
        assert getattr(schema, name) is getattr(config, name)
    assert schema.AutoscalingPolicy is config.AutoscalingPolicy
    assert schema.ControllerOptions is config.ControllerOptions


@pytest.mark.parametrize(
    "given",
    [
        {"num_replicas": 2, "autoscaling_config": {"min_replicas": 1}},
        {"max_replicas_per_node": 1, "placement_group_bundles": [{"CPU": 1}]},
    ],
)
def test_options_that_exclude_each_other_are_refused_where_they_are_written(
    given: dict[str, Any],
) -> None:
    from pydantic import ValidationError
    from ray.serve.schema import DeploymentSchema, ServeApplicationSchema

    with pytest.raises(ValidationError):
        DeploymentSchema(name="d", **given)
    with pytest.raises(ValidationError, match=r"deployments\.0"):
        ServeApplicationSchema(import_path="a:b", deployments=[{"name": "d", **given}])
