"""Settings of an algorithm checked against each other, before processes start."""

from __future__ import annotations

from typing import Any

_COUNTS = {
    "num_env_runners": 0,
    "num_envs_per_env_runner": 1,
    "num_learners": 0,
    "num_epochs": 1,
    "evaluation_num_env_runners": 0,
    "metrics_num_episodes_for_smoothing": 1,
    "max_requests_in_flight_per_env_runner": 1,
}
_ONE_OF = {
    "batch_mode": ("truncate_episodes", "complete_episodes"),
    "gym_env_vectorize_mode": ("sync", "async", "vector_entry_point"),
    "grad_clip_by": ("value", "norm", "global_norm"),
    "evaluation_duration_unit": ("timesteps", "episodes"),
    "count_steps_by": ("env_steps", "agent_steps"),
}


def check(config: Any) -> None:
    """Fails where settings do not fit.

    Raises:
        ValueError: Names the setting, what it is, and what it may be.
    """
    for name, least in _COUNTS.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number of at least {least}.")
    for name, choices in _ONE_OF.items():
        value = getattr(config, name)
        value = str(getattr(value, "value", value))
        if value not in choices:
            raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}.")
    if not 0.0 <= config.gamma <= 1.0:
        raise ValueError(f"gamma={config.gamma!r} must be from 0 to 1.")
    length = config.rollout_fragment_length
    if length != "auto" and (not isinstance(length, int) or length < 1):
        raise ValueError(f"rollout_fragment_length={length!r} must be 'auto' or at least 1.")
    if (
        config.num_env_runners == 0
        and not config.create_local_env_runner
        and config.env is not None
    ):
        raise ValueError(
            "num_env_runners=0 with create_local_env_runner=False leaves nobody to step environments: "
            "set num_env_runners to at least 1."
        )
    _recorded(config)
    schedule("lr", config.lr)
    size, minibatch = config.train_batch_size_per_learner, config.minibatch_size
    if size < 1:
        raise ValueError(f"train_batch_size_per_learner={size!r} must be at least 1.")
    if minibatch is not None and minibatch > size:
        raise ValueError(
            f"minibatch_size={minibatch} is more than train_batch_size_per_learner={size}: make it smaller."
        )
    if config.is_multi_agent:
        _several(config)
    if config.is_multi_agent and not callable(config.policy_mapping_fn):
        raise ValueError(
            "multi_agent(policy_mapping_fn=...) must be a function of an agent's id and its episode, "
            f"not {config.policy_mapping_fn!r}."
        )
    own = set(config.algorithm_config_overrides_per_module)
    if config.is_multi_agent and not own <= set(config.policies):
        raise ValueError(
            "algorithm_config_overrides_per_module has "
            f"{', '.join(sorted(map(str, own - set(config.policies))))}, which "
            "multi_agent(policies=...) has not."
        )


def _several(config: Any) -> None:
    if not config.supports_multi_agent:
        raise ValueError(
            f"multi_agent(...) is not built for {type(config).__name__} in this release of Heliostat: "
            "use PPO."
        )
    wanted = config.policies_to_train
    if wanted is not None and not callable(wanted):
        more = set(wanted) - set(config.policies)
        if more:
            raise ValueError(
                f"policies_to_train has {', '.join(sorted(map(repr, more)))}, which "
                "multi_agent(policies=...) has not."
            )
    for name, needed in (("output", None), ("count_steps_by", "env_steps")):
        if getattr(config, name) != needed:
            raise ValueError(
                f"{name}={getattr(config, name)!r} is not built for several agents: leave it {needed!r}."
            )
    if config.gym_env_vectorize_mode != "sync":
        raise ValueError(
            "gym_env_vectorize_mode must be 'sync' with multi_agent(...): take more runners."
        )


def _recorded(config: Any) -> None:
    if config.is_online and config.input_ != "sampler":
        raise ValueError(
            "offline_data(input_=...) is for BC, MARWIL and CQL: "
            f"{type(config).__name__} samples an environment."
        )
    most = config.output_max_rows_per_file
    if most is not None and (not isinstance(most, int) or most < 1):
        raise ValueError(f"output_max_rows_per_file={most!r} must be None or at least 1.")
    if config.output is not None:
        from heliostat import data

        if not hasattr(data.Dataset, str(config.output_write_method)):
            raise ValueError(
                f"output_write_method={config.output_write_method!r} is not a method of ray.data.Dataset: "
                "it is 'write_parquet', 'write_json' or another."
            )


def schedule(name: str, value: Any) -> None:
    """Fails for what is neither a number nor a schedule.

    Raises:
        ValueError: Says what a schedule is.
    """
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return
    right = isinstance(value, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value
    )
    if not right or not value or value[0][0] != 0:
        raise ValueError(
            f"{name}={value!r} must be a number, or a schedule [[0, first], [timestep, value], ...]."
        )
