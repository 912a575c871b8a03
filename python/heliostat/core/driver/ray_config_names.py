"""The configuration names of Ray 2.60 that do nothing here: what they tune is not there, or done otherwise.

They are accepted, so that a program's ``_system_config`` and variables need not be cleaned before it runs
here; :mod:`heliostat.core.driver.ray_config` names them in one line of warning, with these reasons.
"""

from __future__ import annotations

from collections.abc import Mapping

_TEST = "it is for tests of Ray's own code"
_GROWS = "workers are started and ended as calls need them"
_STORAGE = "spilled objects are one file each, written as soon as memory is short"
_METRICS = "measurements are taken when they are asked for, and cost nothing until then"
_EVENTS = "tasks are asked of those who know them, not recorded in one place"
_LOCAL = "messages go over connections that stay open, without calls that time out one by one"

_BY_REASON = {
    "actors and groups are placed as soon as there is room": """
        actor_excess_queueing_warn_threshold actor_graceful_shutdown_timeout_ms
        actor_scheduling_queue_max_reorder_wait_seconds gcs_actor_table_min_duration_ms
        gcs_create_actor_retry_interval_ms gcs_create_placement_group_retry_max_interval_ms
        gcs_create_placement_group_retry_min_interval_ms gcs_create_placement_group_retry_multiplier
        maximum_actor_previous_incarnations task_actor_unavailable_retry_delay_base_ms
        task_actor_unavailable_retry_max_delay_ms
    """,
    "there is no agent beside the daemon": """
        agent_manager_retry_interval_ms agent_register_timeout_ms
        enable_pipe_based_agent_to_parent_health_check
    """,
    "there are no messages of gRPC: processes talk over sockets of their own": """
        agent_max_grpc_message_size core_worker_num_server_call_thread
        core_worker_rpc_server_reconnect_timeout_base_s
        core_worker_rpc_server_reconnect_timeout_max_s enable_grpc_metrics_collection_for
        gcs_grpc_initial_reconnect_backoff_ms gcs_grpc_max_reconnect_backoff_ms
        gcs_grpc_max_request_queued_max_bytes gcs_grpc_min_reconnect_backoff_ms
        gcs_max_active_rpcs_per_handler gcs_rpc_server_connect_timeout_s
        gcs_server_rpc_client_thread_num gcs_server_rpc_server_thread_num
        grpc_client_check_connection_status_interval_milliseconds grpc_client_idle_timeout_ms
        grpc_client_keepalive_time_ms grpc_client_keepalive_timeout_ms grpc_enable_http_proxy
        grpc_keepalive_time_ms grpc_keepalive_timeout_ms grpc_server_retry_timeout_milliseconds
        grpc_stream_buffer_size num_grpc_internal_threads
        num_server_call_thread nums_py_gcs_reconnect_retry object_manager_rpc_threads_num
        py_gcs_connect_timeout_s raylet_client_connect_timeout_milliseconds
        raylet_client_num_connect_attempts raylet_rpc_server_reconnect_timeout_base_s
        raylet_rpc_server_reconnect_timeout_max_s worker_num_grpc_internal_threads
    """,
    "ends of processes are known from the operating system and by their connections": """
        cancellation_retry_ms cancelled_lease_tombstone_ttl_ms core_worker_internal_heartbeat_ms
        gcs_mark_task_failed_on_job_done_delay_ms gcs_mark_task_failed_on_worker_dead_delay_ms
        kill_child_processes_on_worker_exit
        kill_child_processes_on_worker_exit_with_raylet_subreaper kill_worker_timeout_milliseconds
        max_cancelled_lease_tombstones process_group_cleanup_enabled
        raylet_check_for_unexpected_worker_disconnect_interval_ms
        raylet_core_dump_exclude_plasma_store raylet_liveness_self_check_interval_ms
        task_failure_entry_ttl_ms worker_core_dump_exclude_plasma_store
    """,
    "memory of the machine is watched by memory_usage_threshold alone": """
        count_swap_in_memory_monitor idle_worker_killing_memory_threshold_bytes
        max_kill_memory_buffer_bytes system_memory_bytes_min user_memory_proportion_high
        user_memory_proportion_max worker_oom_score_adjustment
    """,
    "which resources have numbered devices is fixed": """
        custom_unit_instance_resources predefined_unit_instance_resources
    """,
    "events and traces are made when they are asked for, not sent to a collector": """
        disable_open_telemetry_sdk_log emit_event_to_log_file emit_main_service_metrics
        enable_core_worker_ray_event_to_aggregator enable_core_worker_task_event_to_gcs
        enable_export_api_write enable_export_api_write_config enable_open_telemetry
        enable_ray_event enable_ray_task_event_recorder enable_task_events_to_dashboard_head
        event_level event_log_reporter_enabled export_task_events_write_batch_size
        io_context_event_loop_lag_collection_interval_ms metric_cardinality_level
        metrics_report_batch_size ray_event_recorder_max_queued_events ray_events_report_interval_ms
        task_events_dropped_task_attempt_batch_size task_events_gc_job_summary_interval_ms
        task_events_max_dropped_task_attempts_tracked_per_job_in_gcs
        task_events_max_num_export_status_events_buffer_on_worker
        task_events_max_num_profile_events_buffer_on_worker
        task_events_max_num_profile_events_per_task
        task_events_max_num_status_events_buffer_on_worker task_events_send_batch_size
        task_events_shutdown_flush_timeout_ms
    """,
    "objects go from store to store over connections of their own, in one stream each": """
        experimental_object_manager_enable_multiple_connections object_manager_client_connection_num
        object_manager_push_timeout_ms object_manager_timer_freq_ms
    """,
    "the state of the head is one file on its disk": """
        gcs_redis_heartbeat_interval_milliseconds
        gcs_redis_payload_metrics_enabled gcs_rocksdb_io_pool_size gcs_rocksdb_strand_buckets
        gcs_storage_path is_external_storage_type_fs num_redis_request_retries
        redis_db_connect_retries redis_db_connect_wait_milliseconds
        redis_db_probe_timeout_milliseconds redis_namespace_cleanup_use_unlink redis_retry_base_ms
        redis_retry_max_ms redis_retry_multiplier
    """,
    "objects are freed as soon as nobody holds them": """
        free_local_objects_backlog_warn_objects_per_node global_gc_min_interval_s
        local_gc_min_interval_s max_free_local_objects_batch_size
        plasma_store_usage_trigger_gc_threshold raylet_check_gc_period_milliseconds
        runtime_env_skip_local_gc start_python_gc_manager_thread
    """,
    "workers are started and ended as calls need them": """
        gcs_lease_worker_retry_interval_ms pop_worker_max_retries
        worker_cap_initial_backoff_delay_ms worker_cap_max_backoff_delay_ms
        worker_fetch_request_size worker_killing_policy_by_group
        worker_max_resource_analysis_iteration
    """,
    "nodes report what changes when it changes": """
        gcs_pull_resource_loads_period_milliseconds gcs_resource_broadcast_max_batch_delay_ms
        gcs_resource_broadcast_max_batch_size max_object_report_batch_size
        max_placement_group_load_report_size max_resource_shapes_per_load_report
        ray_syncer_message_refresh_interval_ms raylet_report_resources_period_milliseconds
        report_actor_placement_resources report_worker_backlog_interval_ms
    """,
    "it acts as the variable RAY_max_grpc_message_size": """
        max_grpc_message_size
    """,
    "it is an argument of init and of `ray start`": """
        object_spilling_directory
    """,
    "nothing is published and subscribed to in batches: news go to whom they concern": """
        publish_batch_size publisher_entity_buffer_max_bytes subscriber_timeout_ms
    """,
    "it is for tests of Ray's own code": """
        task_events_skip_driver_for_test testing_rpc_failure_avoid_intra_node_failures
    """,
    "the core does without what this tunes": """
        debug_dump_period_milliseconds enable_cluster_auth enable_infeasible_task_early_exit
        enable_output_error_log_if_still_retry get_check_signal_interval_milliseconds
        handler_warning_timeout_ms io_context_monitor_healthy_deadline_ms
        io_context_monitor_latency_window_ms io_context_monitor_probe_interval_ms
        local_fs_monitor_interval_ms log_rotation_backup_count log_rotation_max_bytes
        max_command_batch_size max_error_msg_size_bytes max_num_generator_returns
        maximum_gcs_dead_worker_cached_count maximum_gcs_deletion_batch_size
        object_store_get_max_ids_to_print_in_warning pipe_logger_read_buf_size
        raylet_start_wait_time_s scheduler_avoid_gpu_nodes scheduler_report_pinned_bytes_only
        support_fork system_concurrency_group_name verbose_spill_logs yield_plasma_lock_workaround
    """,
}

OTHERS = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
"""Each name, and why it does nothing."""

_IDLE: dict[str, str] = {
    # Memory of the machine.
    "min_memory_free_bytes": "only the part counts: memory_usage_threshold",
    "task_oom_retries": "what memory ended is tried again, at growing intervals, without end",
    "task_oom_retry_delay_base_ms": "the first wait is one second, and doubles",
    "worker_killing_policy": "the newest call that may be tried again ends first",
    # Values and the calls that made them.
    "lineage_pinning_enabled": "finished calls are remembered up to max_lineage_bytes",
    "max_direct_call_object_size": "values below 100 KiB travel with their call",
    "task_rpc_inlined_bytes_limit": "values below 100 KiB travel with their call",
    "task_retry_delay_ms": "a call is tried again as soon as a worker is free",
    "fetch_warn_timeout_milliseconds": "`heliostat why` says what a read waits for",
    "fetch_fail_timeout_milliseconds": "a value is lost when its last copy is, not by time",
    # The object store and the disk behind it.
    "automatic_object_spilling_enabled": "a full store always spills",
    "object_spilling_threshold": "spilling begins when the store is four fifths full",
    "min_spilling_size": _STORAGE,
    "max_fused_object_count": _STORAGE,
    "max_spilling_file_size_bytes": _STORAGE,
    "object_store_full_delay_ms": "who waits for room has it as soon as it is there",
    "preallocate_plasma_memory": "memory of the store is taken when it is written",
    "object_timeout_milliseconds": _LOCAL,
    "object_manager_default_chunk_size": _LOCAL,
    "object_manager_pull_timeout_ms": _LOCAL,
    "object_manager_max_bytes_in_flight": _LOCAL,
    "free_objects_period_milliseconds": "objects are freed as soon as nobody holds them",
    "free_objects_batch_size": "objects are freed as soon as nobody holds them",
    "local_gc_interval_s": "objects are freed as soon as nobody holds them",
    "high_plasma_storage_usage": "objects are freed as soon as nobody holds them",
    # Detection of deaths.
    "num_heartbeats_timeout": "health_check_failure_threshold says it",
    "raylet_heartbeat_period_milliseconds": "health_check_period_ms says it",
    "raylet_death_check_interval_milliseconds": "workers notice at once by their connection",
    "gcs_server_request_timeout_seconds": _LOCAL,
    "gcs_failover_worker_reconnect_timeout": "gcs_rpc_server_reconnect_timeout_s says it",
    "timeout_ms_task_wait_for_death_info": "the daemon knows why a process ended",
    # Workers and where calls go.
    "worker_register_timeout_seconds": _GROWS,
    "num_workers_soft_limit": _GROWS,
    "idle_worker_killing_time_threshold_ms": _GROWS,
    "kill_idle_workers_interval_ms": _GROWS,
    "prestart_worker_first_driver": _GROWS,
    "enable_worker_prestart": _GROWS,
    "worker_maximum_startup_concurrency": _GROWS,
    "maximum_startup_concurrency": _GROWS,
    "worker_lease_timeout_milliseconds": "a worker is kept while its calls keep coming",
    "worker_cap_enabled": _GROWS,
    "scheduler_spread_threshold": "a call runs here while there is room, else elsewhere",
    "scheduler_top_k_fraction": "a call runs here while there is room, else elsewhere",
    "scheduler_top_k_absolute": "a call runs here while there is room, else elsewhere",
    "max_pending_lease_requests_per_scheduling_category": "requests follow the queue",
    "locality_aware_leasing_enabled": "calls go to their large arguments",
    # Observation from outside.
    "event_stats": _METRICS,
    "event_stats_print_interval_ms": _METRICS,
    "metrics_report_interval_ms": _METRICS,
    "enable_metrics_collection": _METRICS,
    "enable_timeline": "the timeline is made when it is asked for",
    "task_events_report_interval_ms": _EVENTS,
    "task_events_max_num_task_in_gcs": _EVENTS,
    "task_events_max_num_task_events_for_master": _EVENTS,
    "record_task_actor_creation_sites": "`heliostat why` names the call that waits",
    "maximum_gcs_dead_node_cached_count": "dead nodes are listed up to a fixed number",
    "maximum_gcs_destroyed_actor_cached_count": "dead actors are listed up to a fixed number",
    "maximum_gcs_storage_operation_batch_size": "the state is one file of the head",
    "gcs_storage": "the state is one file of the head",
    "external_storage_namespace": "the state is one file of the head",
    "enable_autoscaler_v2": "there is no autoscaler in this release",
    "use_ray_syncer": "nodes tell each other of their resources over one connection",
    "testing_asio_delay_us": _TEST,
    "testing_rpc_failure": _TEST,
}

IDLE: Mapping[str, str] = {**OTHERS, **_IDLE}
"""Names of Ray's that do nothing here, and why."""
