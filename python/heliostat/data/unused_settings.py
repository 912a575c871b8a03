"""Settings of Ray's ``DataContext`` that have nothing to act on here.

They belong to parts that work differently (one shuffle, one block format, admission by the bytes that
exist) or that are not there (lakehouse tables, issue detectors). A program may set and read them: they
have Ray's defaults, also by Ray's variables, travel with a dataset like all others, and change nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from heliostat.core.platform import settings

MIB = 1 << 20

TRANSIENT_S3_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
)


class ShuffleStrategy(str, enum.Enum):
    """Ray's ways to shuffle. Here there is one, whichever is chosen.

    Examples:
        >>> import ray
        >>> from ray.data.context import ShuffleStrategy
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.shuffle_strategy = ShuffleStrategy.HASH_SHUFFLE  # has no effect here
        >>> with ray.data.DataContext.current(context):
        ...     ray.data.range(6).groupby("id").count().count()
        6
    """

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"


@dataclass
class AutoscalingConfig:
    """Settings of the growth of Ray's actor pools.

    Examples:
        >>> import ray
        >>> from ray.data.context import AutoscalingConfig
        >>> config = AutoscalingConfig(actor_pool_util_upscaling_threshold=2.0)  # has no effect here
        >>> pool = ray.data.ActorPoolStrategy(min_size=1, max_size=4)  # bounds an actor pool
    """

    actor_pool_util_upscaling_threshold: float = 1.75
    actor_pool_util_downscaling_threshold: float = 0.5
    actor_pool_max_upscaling_delta: int | None = None


@dataclass
class HangingDetectorConfig:
    """Settings of Ray's warning of a task that takes much longer than others."""

    op_task_stats_min_count: int = 10
    op_task_stats_std_factor: float = 10
    detection_time_interval_s: float = 30.0


@dataclass
class HashShuffleDetectorConfig:
    """Settings of Ray's warning of shuffle actors that do not start."""

    detection_time_interval_s: float = 30
    min_wait_time_s: float = 300


@dataclass
class HighMemoryDetectorConfig:
    """Settings of Ray's warning of tasks that use more memory than they asked for."""

    detection_time_interval_s: float = 30


@dataclass
class IssueDetectorsConfiguration:
    """The issues for which Ray's executions are watched."""

    hanging_detector_config: HangingDetectorConfig = field(default_factory=HangingDetectorConfig)
    hash_shuffle_detector_config: HashShuffleDetectorConfig = field(
        default_factory=HashShuffleDetectorConfig
    )
    high_memory_detector_config: HighMemoryDetectorConfig = field(
        default_factory=HighMemoryDetectorConfig
    )
    detectors: list[type] = field(default_factory=list)


# Errors of a catalog's request that Ray tries again.
TRANSIENT_REQUEST_ERRORS = (
    "429",
    "503",
    "502",
    "500",
    "Too Many Requests",
    "Service Unavailable",
    "Internal Server Error",
    "Connection reset",
    "Connection refused",
    "Connection timed out",
    "Read timed out",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
)


@dataclass
class DeltaConfig:
    """Settings of Ray's writes of Delta tables.

    Examples:
        >>> from ray.data.context import DeltaConfig
        >>> DeltaConfig(commit_max_attempts=10).commit_max_attempts  # has no effect here
        10
    """

    commit_max_attempts: int = 5
    commit_retry_max_backoff_s: int = 16
    commit_retried_errors: list[str] = field(default_factory=lambda: [*TRANSIENT_REQUEST_ERRORS])
    credential_refresh_enabled: bool = True


@dataclass
class IcebergConfig:
    """Settings of Ray's reads and writes of Iceberg tables.

    Examples:
        >>> from ray.data.context import IcebergConfig
        >>> IcebergConfig(catalog_max_attempts=10).catalog_max_attempts  # has no effect here
        10
    """

    write_file_max_attempts: int = 10
    write_file_retry_max_backoff_s: int = 32
    catalog_max_attempts: int = 5
    catalog_retry_max_backoff_s: int = 16
    catalog_retried_errors: list[str] = field(default_factory=lambda: [*TRANSIENT_REQUEST_ERRORS])
    read_file_tasks_sequentially: bool = True


@dataclass
class LanceConfig:
    """Settings of Ray's reads and writes of Lance tables.

    Examples:
        >>> from ray.data.context import LanceConfig
        >>> LanceConfig(read_fragments_max_attempts=5).read_fragments_max_attempts  # has no effect here
        5
    """

    read_fragments_errors_to_retry: list[str] = field(default_factory=lambda: ["LanceError(IO)"])
    read_fragments_max_attempts: int = 10
    read_fragments_retry_max_backoff_s: int = 32
    write_fragments_errors_to_retry: list[str] = field(default_factory=lambda: ["LanceError(IO)"])
    write_fragments_max_attempts: int = 10
    write_fragments_retry_max_backoff_s: int = 32


@dataclass
class UnusedSettings:
    """The settings, by what they are about in Ray."""

    # actors and retries
    actor_init_max_retries: int = 3
    actor_init_retry_on_errors: bool | list[type[BaseException]] = False
    actor_prefetcher_enabled: bool = False
    max_consecutive_actor_init_deaths: int = 0
    max_map_retries: int = 0
    max_tasks_in_flight_per_actor: int | None = None
    retried_map_errors: bool | list[str] = False
    write_file_retry_on_errors: tuple[str, ...] = TRANSIENT_S3_ERRORS

    # blocks and formats
    arrow_fixed_shape_tensor_format: object = "v2"
    batch_to_block_arrow_format: bool = True
    decoding_size_estimation: bool = True
    enable_fallback_to_arrow_object_ext_type: bool | None = None
    enable_pandas_block: bool = True
    enable_tensor_extension_casting: bool = True
    enforce_schemas: bool = False
    pandas_block_ignore_metadata: bool = False
    s3_try_create_dir: bool = False
    streaming_read_buffer_size: int = 32 * MIB
    use_arrow_tensor_v2: bool = True
    use_datasource_v2: bool = True
    use_polars: bool = False
    use_polars_sort: bool = False

    # shuffles
    default_hash_shuffle_parallelism: int = 200
    gpu_shuffle_num_actors: int | None = None
    gpu_shuffle_rmm_pool_size: int | str | None = None
    gpu_shuffle_setup_timeout_s: float = 120.0
    gpu_shuffle_spill_memory_limit: int | str | None = "auto"
    hash_aggregate_operator_actor_num_cpus_override: float | None = None
    hash_shuffle_aggregator_health_warning_interval_s: int = 30
    hash_shuffle_compression: str | None = "zstd"
    hash_shuffle_operator_actor_num_cpus_override: float | None = None
    hash_shuffle_reduce_batch_size: int = 16
    hash_shuffle_reduce_get_timeout_s: float = 1800.0
    join_operator_actor_num_cpus_override: float | None = None
    max_hash_shuffle_aggregators: int | None = None
    max_hash_shuffle_finalization_batch_size: int | None = None
    min_hash_shuffle_aggregator_wait_time_in_s: int = 300
    pipeline_push_based_shuffle_reduce_tasks: bool = True
    shuffle_compression: str | None = "zstd"
    shuffle_input_batch_bytes: int = 1024 * MIB
    shuffle_strategy: ShuffleStrategy = ShuffleStrategy.SHUFFLE_V2
    use_disk_based_hash_shuffle: bool = False
    use_external_hash_shuffle: bool = False
    use_push_based_shuffle: bool = field(
        default_factory=lambda: settings.flag("DATA_PUSH_BASED_SHUFFLE")
    )

    # admission and memory
    autoscaling_config: AutoscalingConfig = field(default_factory=AutoscalingConfig)
    default_map_logical_memory_enabled: bool = False
    downstream_capacity_backpressure_ratio: float | None = 2.0
    enable_dynamic_output_queue_size_backpressure: bool = False
    enable_get_object_locations_for_metrics: bool = False
    enable_lineage_reconstruction_resource_accounting: bool = True
    enable_ray_data_reconstruction: bool = False
    isolate_read_workers: bool = False
    large_args_threshold: int = 50 * MIB
    memory_usage_poll_interval_s: float | None = 1
    object_store_memory_pressure_fraction: float | None = None
    object_store_reservation_overshoot_ratio: float | None = None
    op_resource_reservation_enabled: bool = True
    op_resource_reservation_ratio: float = 0.5
    output_backpressure_guard_release_interval_s: float | None = None
    override_object_store_memory_limit_fraction: float | None = None
    scheduling_strategy_large_args: object = "DEFAULT"
    warn_on_driver_memory_usage_bytes: int = 2048 * MIB

    # logs, statistics, watching
    accurate_map_phase_timing: bool = False
    dataset_logger_id: str | None = None
    enable_auto_log_stats: bool = False
    enable_operator_progress_bars: bool = True
    enable_per_node_metrics: bool = False
    enable_progress_bar_name_truncation: bool = True
    issue_detectors_config: IssueDetectorsConfiguration = field(
        default_factory=IssueDetectorsConfiguration
    )
    log_internal_stack_trace: bool = field(
        default_factory=lambda: settings.flag(
            "DATA_LOG_INTERNAL_STACK_TRACE"
            if settings.is_given("DATA_LOG_INTERNAL_STACK_TRACE")
            else "DATA_LOG_INTERNAL_STACK_TRACE_TO_STDOUT"
        )
    )
    per_stage_map_timing: bool = False
    print_on_execution_start: bool = True
    raise_original_map_exception: bool = field(
        default_factory=lambda: settings.flag("DATA_RAISE_ORIGINAL_MAP_EXCEPTION")
    )
    trace_allocations: bool = False
    use_legacy_dataset_ids: bool = False
    use_ray_tqdm: bool = True
    verbose_stats_logs: bool = False

    # what is not there: callbacks, lakehouse tables
    custom_execution_callback_classes: list[type] = field(default_factory=list)
    delta_config: DeltaConfig = field(default_factory=DeltaConfig)
    execution_callback_classes: list[type] = field(default_factory=list)
    iceberg_config: IcebergConfig = field(default_factory=IcebergConfig)
    lance_config: LanceConfig = field(default_factory=LanceConfig)
