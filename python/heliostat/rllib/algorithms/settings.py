"""The settings of algorithms by group: their names, their defaults, and those that are refused."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from heliostat.core.platform.spelling import did_you_mean


class _NotProvided:
    """The value of an argument that was not passed."""

    def __repr__(self) -> str:
        return "NotProvided"


NotProvided = _NotProvided()

# By group: names and defaults of the settings of every algorithm.
GROUPS: dict[str, dict[str, Any]] = {
    "resources": {
        "num_cpus_for_main_process": 1,
        "custom_resources_for_main_process": {},
        "num_gpus": 0,
        "placement_strategy": "PACK",
    },
    "framework": {
        "framework": "torch",
        "torch_compile_learner": False,
        "torch_compile_worker": False,
        "torch_ddp_kwargs": {},
        "torch_skip_nan_gradients": False,
    },
    "environment": {
        "env": None,
        "env_config": {},
        "observation_space": None,
        "action_space": None,
        "render_env": False,
        "clip_rewards": None,
        "normalize_actions": True,
        "clip_actions": False,
        "disable_env_checking": False,
        "is_atari": None,
        "action_mask_key": "action_mask",
    },
    "env_runners": {
        "env_runner_cls": None,
        "num_env_runners": 0,
        "create_local_env_runner": True,
        "create_env_on_local_worker": False,
        "num_envs_per_env_runner": 1,
        "gym_env_vectorize_mode": "sync",
        "num_cpus_per_env_runner": 1,
        "num_gpus_per_env_runner": 0,
        "custom_resources_per_env_runner": {},
        "validate_env_runners_after_construction": True,
        "sample_timeout_s": 60.0,
        "max_requests_in_flight_per_env_runner": 1,
        "env_to_module_connector": None,
        "module_to_env_connector": None,
        "add_default_connectors_to_env_to_module_pipeline": True,
        "add_default_connectors_to_module_to_env_pipeline": True,
        "episode_lookback_horizon": 1,
        "merge_env_runner_states": "training_only",
        "broadcast_env_runner_states": True,
        "compress_observations": False,
        "rollout_fragment_length": 200,
        "batch_mode": "truncate_episodes",
        "explore": True,
        "episodes_to_numpy": True,
    },
    "learners": {
        "num_learners": 0,
        "num_cpus_per_learner": "auto",
        "num_gpus_per_learner": 0,
        "custom_resources_per_learner": {},
        "num_aggregator_actors_per_learner": 0,
        "max_requests_in_flight_per_aggregator_actor": 3,
        "local_gpu_idx": 0,
        "max_requests_in_flight_per_learner": 3,
        "learner_class": None,
        "learner_connector": None,
        "add_default_connectors_to_learner_pipeline": True,
        "learner_config_dict": {},
    },
    "training": {
        "gamma": 0.99,
        "lr": 0.001,
        "grad_clip": None,
        "grad_clip_by": "global_norm",
        "train_batch_size": 32,
        "train_batch_size_per_learner": None,
        "num_epochs": 1,
        "minibatch_size": None,
        "shuffle_batch_per_epoch": False,
        "learner_class": None,
        "learner_connector": None,
        "add_default_connectors_to_learner_pipeline": True,
        "learner_config_dict": {},
    },
    "callbacks": {
        "callbacks_class": None,
        **{
            f"on_{event}": None
            for event in (
                *("algorithm_init", "train_result", "evaluate_start", "evaluate_end", "sample_end"),
                *("evaluate_offline_start", "evaluate_offline_end", "env_runners_recreated"),
                *("offline_eval_runners_recreated", "checkpoint_loaded", "environment_created"),
                *("episode_created", "episode_start", "episode_step", "episode_end"),
            )
        },
    },
    "evaluation": {
        "evaluation_interval": None,
        "evaluation_duration": 10,
        "evaluation_duration_unit": "episodes",
        "evaluation_sample_timeout_s": 120.0,
        "evaluation_parallel_to_training": False,
        "evaluation_force_reset_envs_before_iteration": True,
        "evaluation_config": None,
        "evaluation_num_env_runners": 0,
        "custom_evaluation_function": None,
        "evaluation_auto_duration_min_env_steps_per_sample": 100,
        "evaluation_auto_duration_max_env_steps_per_sample": 2000,
        "evaluation_unhealthy_workers_timeout_s": 0.0,
        "evaluation_error_after_n_consecutive_skips": None,
        "off_policy_estimation_methods": {},
        "ope_split_batch_by_episode": True,
        "offline_evaluation_interval": None,
        "num_offline_eval_runners": 0,
    },
    "offline_data": {
        "input_": "sampler",
        "offline_data_class": None,
        "input_read_method": "read_parquet",
        "input_read_method_kwargs": {},
        "input_read_schema": {},
        "input_read_episodes": False,
        "input_read_sample_batches": False,
        "input_read_batch_size": None,
        "input_filesystem": None,
        "input_filesystem_kwargs": {},
        "input_compress_columns": ["obs", "new_obs"],
        "materialize_data": False,
        "materialize_mapped_data": True,
        "map_batches_kwargs": {},
        "iter_batches_kwargs": {},
        "ignore_final_observation": False,
        "prelearner_class": None,
        "prelearner_buffer_class": None,
        "prelearner_buffer_kwargs": {},
        "prelearner_module_synch_period": 10,
        "prelearner_use_recorded_module_states": False,
        "dataset_num_iters_per_learner": None,
        "actions_in_input_normalized": False,
        "output": None,
        "output_compress_columns": ["obs", "new_obs"],
        "output_max_rows_per_file": None,
        "output_write_remaining_data": False,
        "output_write_method": "write_parquet",
        "output_write_method_kwargs": {},
        "output_filesystem": None,
        "output_filesystem_kwargs": {},
        "output_write_episodes": True,
    },
    "multi_agent": {
        "policies": None,
        "policy_mapping_fn": None,
        "policies_to_train": None,
        "count_steps_by": "env_steps",
    },
    "reporting": {
        "metrics_num_episodes_for_smoothing": 100,
        "min_time_s_per_iteration": None,
        "min_train_timesteps_per_iteration": 0,
        "min_sample_timesteps_per_iteration": 0,
        "log_gradients": False,
        "keep_per_episode_custom_metrics": False,
        "metrics_episode_collection_timeout_s": 60.0,
        "custom_stats_cls_lookup": None,
    },
    "checkpointing": {
        "export_native_model_files": False,
        "checkpoint_trainable_policies_only": False,
    },
    "debugging": {
        "log_level": "WARN",
        "log_sys_usage": True,
        "fake_sampler": False,
        "seed": None,
    },
    "fault_tolerance": {
        "restart_failed_env_runners": True,
        "ignore_env_runner_failures": False,
        "max_num_env_runner_restarts": 1000,
        "delay_between_env_runner_restarts_s": 60.0,
        "restart_failed_sub_environments": False,
        "num_consecutive_env_runner_failures_tolerance": 100,
        "env_runner_health_probe_timeout_s": 30.0,
        "env_runner_restore_timeout_s": 1800.0,
    },
    "rl_module": {
        "model_config": {},
        "rl_module_spec": None,
        "algorithm_config_overrides_per_module": {},
    },
    "experimental": {
        "_validate_config": True,
        "_use_msgpack_checkpoints": False,
        "_torch_grad_scaler_class": None,
        "_torch_lr_scheduler_classes": None,
    },
}

# Where a setting is kept under another name than its argument's.
ATTRIBUTES = {
    "framework": "framework_str",
    "is_atari": "_is_atari",
    "env_to_module_connector": "_env_to_module_connector",
    "module_to_env_connector": "_module_to_env_connector",
    "learner_class": "_learner_class",
    "learner_connector": "_learner_connector",
    "train_batch_size_per_learner": "_train_batch_size_per_learner",
    "model_config": "_model_config",
    "rl_module_spec": "_rl_module_spec",
    **{name: f"callbacks_{name}" for name in GROUPS["callbacks"] if name.startswith("on_")},
}

# Settings of the old API stack, and names of old: what takes their place.
REPLACED = {
    "model": "rl_module(model_config=DefaultModelConfig(...))",
    "optimizer": "a Learner with configure_optimizers_for_module()",
    "num_sgd_iter": "training(num_epochs=...)",
    "sgd_minibatch_size": "training(minibatch_size=...)",
    "lr_schedule": "training(lr=[[0, first], [timestep, value], ...])",
    "entropy_coeff_schedule": "training(entropy_coeff=[[0, first], [timestep, value], ...])",
    "vf_share_layers": "rl_module(model_config=DefaultModelConfig(vf_share_layers=...))",
    "num_rollout_workers": "env_runners(num_env_runners=...)",
    "num_workers": "env_runners(num_env_runners=...)",
    "num_envs_per_worker": "env_runners(num_envs_per_env_runner=...)",
    "num_cpus_per_worker": "env_runners(num_cpus_per_env_runner=...)",
    "num_gpus_per_worker": "env_runners(num_gpus_per_env_runner=...)",
    "custom_resources_per_worker": "env_runners(custom_resources_per_env_runner=...)",
    "validate_workers_after_construction": "env_runners(validate_env_runners_after_construction=...)",
    "ignore_worker_failures": "fault_tolerance(ignore_env_runner_failures=...)",
    "recreate_failed_workers": "fault_tolerance(restart_failed_env_runners=...)",
    "recreate_failed_env_runners": "fault_tolerance(restart_failed_env_runners=...)",
    "max_num_worker_restarts": "fault_tolerance(max_num_env_runner_restarts=...)",
    "num_consecutive_worker_failures_tolerance": (
        "fault_tolerance(num_consecutive_env_runner_failures_tolerance=...)"
    ),
    "num_learner_workers": "learners(num_learners=...)",
    "num_cpus_per_learner_worker": "learners(num_cpus_per_learner=...)",
    "num_gpus_per_learner_worker": "learners(num_gpus_per_learner=...)",
    "num_cpus_for_local_worker": "resources(num_cpus_for_main_process=...)",
    "evaluation_num_workers": "evaluation(evaluation_num_env_runners=...)",
    "exploration_config": "a distribution or epsilon of the module: training(epsilon=...) for DQN",
    "observation_filter": "env_runners(env_to_module_connector=lambda env: MeanStdFilter())",
    "preprocessor_pref": "env_runners(env_to_module_connector=...)",
    "sample_collector": "episodes, which env_runners(...) collects",
    "remote_worker_envs": 'env_runners(gym_env_vectorize_mode="async")',
    "remote_env_batch_wait_ms": 'env_runners(gym_env_vectorize_mode="async")',
    "enable_connectors": "env_runners(env_to_module_connector=...)",
    "synchronize_filter": "env_runners(merge_env_runner_states=...)",
    "use_worker_filter_stats": "env_runners(merge_env_runner_states=...)",
    "update_worker_filter_stats": "env_runners(merge_env_runner_states=...)",
    "model_config_dict": "rl_module(model_config=...)",
    "_enable_rl_module_api": "rl_module(rl_module_spec=...)",
    "_enable_learner_api": "learners(learner_class=...)",
    "rollouts": "env_runners(...)",
    "exploration": "env_runners(explore=...), and distributions of the module",
    "delay_between_worker_restarts_s": "fault_tolerance(delay_between_env_runner_restarts_s=...)",
    "worker_health_probe_timeout_s": "fault_tolerance(env_runner_health_probe_timeout_s=...)",
    "worker_restore_timeout_s": "fault_tolerance(env_runner_restore_timeout_s=...)",
    "get_marl_module_spec": "get_multi_rl_module_spec()",
    "get_multi_agent_setup": "get_multi_rl_module_spec()",
    "policy_map_capacity": "multi_agent(policies=...): every module is kept in memory",
    "policy_states_are_swappable": "multi_agent(policies=...): every module is kept in memory",
    "observation_fn": "env_runners(env_to_module_connector=...)",
    "replay_mode": "training(replay_buffer_config=...)",
    "buffer_size": "training(replay_buffer_config={'capacity': ...})",
    "prioritized_replay": "training(replay_buffer_config={'type': 'PrioritizedEpisodeReplayBuffer'})",
    "learning_starts": "training(num_steps_sampled_before_learning_starts=...)",
    "target_update_frequency": "training(target_network_update_freq=...)",
    "input_config": "offline_data(input_read_method_kwargs=...)",
    "postprocess_inputs": "learners(learner_connector=...)",
    "shuffle_buffer_size": "offline_data(iter_batches_kwargs={'local_shuffle_buffer_size': ...})",
    "output_config": "offline_data(output_write_method_kwargs=...)",
    "output_max_file_size": "offline_data(output_max_rows_per_file=...)",
    "always_attach_evaluation_results": "evaluation(evaluation_interval=...)",
    "env_task_fn": "callbacks(on_train_result=...), which sets the task",
    "timesteps_per_iteration": "reporting(min_sample_timesteps_per_iteration=...)",
    "eager_tracing": "framework('torch')",
    "eager_max_retraces": "framework('torch')",
    "tf_session_args": "framework('torch')",
    "local_tf_session_args": "framework('torch')",
}

# Settings that nothing here acts on: refused unless they are left as they are.
_LATER = "is not built in this release of Heliostat"
NOT_BUILT = {
    "render_env": f"{_LATER}: render in a callback, on_episode_step(env=...)",
    "num_aggregator_actors_per_learner": f"{_LATER}: learners batch what runners send",
    "compress_observations": f"{_LATER}: leave it False",
    "torch_compile_worker": f"{_LATER}: compile in your RLModule's setup()",
    "torch_compile_learner": f"{_LATER}: compile in your RLModule's setup()",
    "restart_failed_sub_environments": (
        f"{_LATER}: restart_failed_env_runners makes all environments of a runner anew"
    ),
    "off_policy_estimation_methods": f"{_LATER}: evaluate with an environment",
    "offline_evaluation_interval": f"{_LATER}: evaluate with an environment",
    "num_offline_eval_runners": f"{_LATER}: evaluate with an environment",
    "offline_data_class": f"{_LATER}: give input_ paths, and read them with input_read_method",
    "prelearner_class": f"{_LATER}: use learners(learner_connector=...)",
    "prelearner_buffer_class": f"{_LATER}: use learners(learner_connector=...)",
    "input_read_sample_batches": (
        f"{_LATER}: batches of the old API stack are read by Ray; write them anew as episodes"
    ),
    "export_native_model_files": f"{_LATER}: torch.save(algo.get_module(), path)",
    "checkpoint_trainable_policies_only": f"{_LATER}: leave it False",
    "fake_sampler": f"{_LATER}: leave it False",
    "log_gradients": f"{_LATER}: override Learner.postprocess_gradients()",
    "_torch_grad_scaler_class": f"{_LATER}: scale in your Learner's compute_gradients()",
    "_torch_lr_scheduler_classes": f"{_LATER}: give training(lr=...) a schedule",
    "custom_stats_cls_lookup": f"{_LATER}: use MetricsLogger's own kinds of `reduce`",
    "evaluation_parallel_to_training": f"{_LATER}: evaluation follows training",
    "input_filesystem": f"{_LATER}: input_read_method_kwargs={{'filesystem': ...}}",
    "input_filesystem_kwargs": f"{_LATER}: input_read_method_kwargs={{'filesystem': ...}}",
    "output_filesystem": f"{_LATER}: output_write_method_kwargs={{'filesystem': ...}}",
    "output_filesystem_kwargs": f"{_LATER}: output_write_method_kwargs={{'filesystem': ...}}",
    "action_mask_key": f"{_LATER}: name the mask 'action_mask'",
    "is_atari": f"{_LATER}: wrap the environment",
    "torch_ddp_kwargs": f"{_LATER}: leave it empty",
}
# Settings that change no result, and that nothing here acts on: a line says so.
WITHOUT_EFFECT = {
    *("create_env_on_local_worker", "max_requests_in_flight_per_learner"),
    *("max_requests_in_flight_per_aggregator_actor", "keep_per_episode_custom_metrics"),
    *("metrics_episode_collection_timeout_s", "log_level", "log_sys_usage"),
    *("env_runner_health_probe_timeout_s", "env_runner_restore_timeout_s"),
    *("_use_msgpack_checkpoints", "evaluation_unhealthy_workers_timeout_s"),
    *("evaluation_auto_duration_min_env_steps_per_sample",),
    *("evaluation_auto_duration_max_env_steps_per_sample",),
    *("evaluation_error_after_n_consecutive_skips", "ope_split_batch_by_episode"),
    *("input_compress_columns", "map_batches_kwargs", "prelearner_buffer_kwargs"),
    *("prelearner_module_synch_period", "prelearner_use_recorded_module_states"),
    "actions_in_input_normalized",
}


def attribute(name: str) -> str:
    """The attribute that keeps a setting."""
    return ATTRIBUTES.get(name, name)


def defaults() -> dict[str, Any]:
    """All settings with their defaults, by the names of attributes."""
    found: dict[str, Any] = {}
    for group in GROUPS.values():
        for name, default in group.items():
            found[attribute(name)] = copy.deepcopy(default)
    return found


def unknown(name: str, where: str, known: Iterable[str]) -> str:
    """Return the sentence about a setting that does not exist."""
    if name in REPLACED:
        return (
            f"{name!r} is a setting of RLlib's old API stack, which Heliostat does not have: "
            f"use {REPLACED[name]}."
        )
    for group, names in GROUPS.items():
        if name in names and not where.startswith(f"{group}("):
            return f"{where} has no setting {name!r}: it is one of .{group}({name}=...)."
    return f"{where} has no setting {name!r}.{did_you_mean(name, known)}"
