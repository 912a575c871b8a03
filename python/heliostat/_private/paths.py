"""Ray's other module paths to public names, which programs import: rows of a table, no modules of ours.

Ray keeps most public names in a file of their own (``ray.tune.stopper.trial_plateau``) beside the package
that documents them (``ray.tune.stopper``), and programs import them from either. :data:`ROWS` has the files
that at least three public repositories were seen to import from. What a row lists are the very objects of
the package; a name that it does not list is missing, and says so in one line.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from heliostat._private.rllib_paths import PATHS


class Row(NamedTuple):
    """A module of Ray's."""

    why: str  # who imports from it
    names: Mapping[str, str] = {}  # module below `heliostat`: names in it


_TYPES = "annotations and isinstance checks"
_OLDER = "programs written before the package itself had the names"
_DEVICES = "launchers that show processes their devices"
_TESTS = "tests of programs and libraries"

_TORCH_UTILS = {
    "train.torch": "accelerate backward enable_reproducibility get_device get_devices "
    "prepare_data_loader prepare_model prepare_optimizer"
}

ROWS: dict[str, Row] = {
    # --- ray ---
    "runtime_env.runtime_env": Row(_TYPES, {"runtime_env": "RuntimeEnv RuntimeEnvConfig"}),
    "autoscaler.sdk.sdk": Row("programs that scale", {"autoscaler.sdk": "*"}),
    "experimental.dynamic_resources": Row(
        "programs that set resources", {"experimental": "set_resource"}
    ),
    "util.client_connect": Row("drivers that connect", {"util": "connect disconnect"}),
    "util.client.common": Row(
        _TYPES,
        {
            "_private.raylet": "ObjectRef:ClientObjectRef",
            "actor": "ActorHandle:ClientActorHandle",
        },
    ),
    "util.timer": Row("training loops that time their steps", {"_private.timing": "*"}),
    "util.rpdb": Row(
        "programs that stop in the debugger by its name",
        {"_private.rpdb": "set_trace _is_ray_debugger_post_mortem_enabled"},
    ),
    "util.accelerators.accelerators": Row("options of programs", {"util.accelerators": "*"}),
    "util.collective.collective": Row("worker groups", {"util.collective": "*"}),
    "util.joblib.ray_backend": Row("joblib backends", {"util.joblib.backend": "RayBackend"}),
    "_private.accelerators.amd_gpu": Row(
        _DEVICES, {"_private.accelerators": "AMDGPUAcceleratorManager"}
    ),
    "_private.accelerators.hpu": Row(_DEVICES, {"_private.accelerators": "HPUAcceleratorManager"}),
    "_private.accelerators.intel_gpu": Row(
        _DEVICES, {"_private.accelerators": "IntelGPUAcceleratorManager"}
    ),
    "_private.accelerators.neuron": Row(
        _DEVICES, {"_private.accelerators": "NeuronAcceleratorManager"}
    ),
    "_private.accelerators.npu": Row(_DEVICES, {"_private.accelerators": "NPUAcceleratorManager"}),
    "_private.accelerators.nvidia_gpu": Row(
        _DEVICES, {"_private.accelerators": "NvidiaGPUAcceleratorManager"}
    ),
    "_private.accelerators.tpu": Row(_DEVICES, {"_private.accelerators": "TPUAcceleratorManager"}),
    "client_builder": Row(
        "drivers that connect", {"core.driver.remote": "ClientBuilder ClientContext client"}
    ),
    "scripts": Row("a package"),
    "scripts.scripts": Row("scripts that are the command", {"cli": "main"}),
    # --- jobs ---
    "dashboard": Row("a package"),
    "dashboard.modules": Row("a package"),
    "dashboard.modules.job": Row("a package"),
    "dashboard.modules.job.common": Row(
        "services that submit jobs", {"job_submission": "JobInfo JobStatus"}
    ),
    "dashboard.modules.job.pydantic_models": Row(
        "services that submit jobs", {"job_submission": "DriverInfo JobDetails JobType"}
    ),
    "dashboard.modules.job.sdk": Row(
        "services that submit jobs",
        {
            "job_submission": "JobDetails JobStatus JobSubmissionClient",
            "runtime_env": "RuntimeEnv",
        },
    ),
    # --- data ---
    "data.constants": Row("readers of tensors", {"_private.air_constants": "TENSOR_COLUMN_NAME"}),
    "data.read_api": Row(
        "pipelines with sources of their own",
        {
            "data": "from_arrow from_arrow_refs from_blocks from_daft from_dask from_huggingface from_items "
            "from_mars from_modin from_numpy from_numpy_refs from_pandas from_pandas_refs from_spark from_tf "
            "from_torch range range_tensor read_audio read_avro read_bigquery read_binary_files "
            "read_clickhouse read_csv read_databricks_tables read_datasource read_delta "
            "read_delta_sharing_tables read_hudi read_iceberg read_images read_json read_kafka read_lance "
            "read_lerobot read_mcap read_mongo read_numpy read_orc read_parquet read_snowflake read_sql "
            "read_text read_tfrecords read_unity_catalog read_videos read_webdataset read_zarr"
        },
    ),
    "data.stats": Row("summaries of columns", {"data": "DatasetSummary"}),
    "data.datasource.path_util": Row(
        "sources and sinks of programs",
        {
            "_private.path_util": "_has_file_extension _resolve_paths_and_filesystem _unwrap_protocol"
        },
    ),
    "data.datasource.file_meta_provider": Row(
        "sources of programs", {"data.sources.file_metadata": "*"}
    ),
    "data.util": Row("a package"),
    "data.util.data_batch_conversion": Row("predictors", {"data.accessor": "BatchFormat"}),
    "data.util.torch_utils": Row("collate functions of programs", {"_private.torch_tensors": "*"}),
    "data.preprocessors.utils": Row(
        "tokenizers of programs",
        {"data.preprocessors.features": "simple_hash simple_split_tokenizer"},
    ),
    "data._internal.arrow_block": Row(
        "sources and sinks of programs",
        {
            "_private.data_tables": "ArrowRow",
            "data.accessor": "ArrowBlockAccessor",
            "data._internal.delegating_block_builder": "DelegatingBlockBuilder:ArrowBlockBuilder",
        },
    ),
    "data._internal.arrow_ops": Row("a package"),
    "data._internal.arrow_ops.transform_pyarrow": Row(
        "sources and sinks of programs",
        {"_private.data_tables": "combine_chunks concat take_table unify_schemas"},
    ),
    "data._internal.compute": Row(_OLDER, {"data": "ActorPoolStrategy TaskPoolStrategy"}),
    "data._internal.execution": Row("a package"),
    "data._internal.execution.interfaces": Row(
        "sources and sinks of programs",
        {
            "data": "ExecutionOptions ExecutionResources NodeIdStr",
            "data.ref_bundle": "RefBundle",
            "data.sinks.datasink": "TaskContext",
        },
    ),
    "data._internal.execution.interfaces.execution_options": Row(
        "limits of programs", {"data": "ExecutionOptions ExecutionResources"}
    ),
    "data._internal.execution.interfaces.ref_bundle": Row(_TYPES, {"data.ref_bundle": "RefBundle"}),
    "data._internal.execution.interfaces.task_context": Row(
        "sinks of programs", {"data.sinks.datasink": "TaskContext"}
    ),
    "data._internal.pandas_block": Row(_TYPES, {"data.accessor": "PandasBlockAccessor"}),
    "data._internal.datasource": Row("a package"),
    "data._internal.datasource.clickhouse_datasink": Row(
        "settings of sinks", {"data": "ClickHouseTableSettings SinkMode"}
    ),
    "data._internal.datasource.databricks_credentials": Row(
        "credentials of programs",
        {
            "data.databricks": (
                "DatabricksCredentialProvider EnvironmentCredentialProvider StaticCredentialProvider"
            )
        },
    ),
    "data._internal.datasource.kafka_datasource": Row(
        "settings of sources", {"data": "KafkaAuthConfig"}
    ),
    "data._internal.savemode": Row("sinks of programs", {"data": "SaveMode"}),
    # --- train ---
    "train.constants": Row("names of datasets and folders", {"_private.train_constants": "*"}),
    "train.error": Row("handlers of errors", {"_private.train_constants": "SessionMisuseError"}),
    "train.session": Row(
        "functions of Ray's first Train generations",
        {
            "air.session": "get_checkpoint get_dataset_shard get_experiment_name get_local_rank "
            "get_local_world_size get_node_rank get_world_rank get_world_size report"
        },
    ),
    "train.collective.collectives": Row(
        "training functions", {"train.collective": "barrier broadcast_from_rank_zero"}
    ),
    "train._checkpoint": Row(_TYPES, {"train": "Checkpoint"}),
    "train.huggingface.transformers._transformers_utils": Row(
        _OLDER, {"train.huggingface.transformers": "RayTrainReportCallback prepare_trainer"}
    ),
    "train.lightning._lightning_utils": Row(
        _OLDER,
        {
            "train.lightning": "RayDDPStrategy RayDeepSpeedStrategy RayFSDPStrategy "
            "RayLightningEnvironment RayTrainReportCallback prepare_trainer",
            "train.lightning.library": "_find:import_lightning",
        },
    ),
    "train.lightgbm.lightgbm_checkpoint": Row(_OLDER, {"train.lightgbm": "LightGBMCheckpoint"}),
    "train.lightgbm.lightgbm_trainer": Row(_OLDER, {"train.lightgbm": "LightGBMTrainer"}),
    "train.lightgbm.v2": Row(_OLDER, {"train.lightgbm": "LightGBMTrainer"}),
    "train.torch.torch_checkpoint": Row(_OLDER, {"train.torch": "TorchCheckpoint"}),
    "train.torch.torch_trainer": Row(_OLDER, {"train.torch": "TorchTrainer"}),
    "train.torch.train_loop_utils": Row("training functions", _TORCH_UTILS),
    "train.xgboost.v2": Row(_OLDER, {"train.xgboost": "XGBoostTrainer"}),
    "train.xgboost.xgboost_checkpoint": Row(_OLDER, {"train.xgboost": "XGBoostCheckpoint"}),
    "train.xgboost.xgboost_trainer": Row(_OLDER, {"train.xgboost": "XGBoostTrainer"}),
    "train.v2.api.config": Row(
        _TYPES,
        {"train": "CheckpointConfig FailureConfig LoggingConfig RunConfig ScalingConfig"},
    ),
    "train.v2.api.context": Row(_TYPES, {"train": "TrainContext"}),
    "train.v2.api.exceptions": Row(
        "handlers of errors",
        {
            "train": "ControllerError NCCLHangError PreemptionError TrainingFailedError WorkerGroupError"
        },
    ),
    "train.v2.api.preemption": Row(_TYPES, {"train": "PreemptionInfo"}),
    "train.v2.api.report_config": Row(
        "training functions", {"train": "CheckpointConsistencyMode CheckpointUploadMode"}
    ),
    "train.v2.api.reported_checkpoint": Row(
        _TYPES, {"train": "ReportedCheckpoint ReportedCheckpointStatus"}
    ),
    "train.v2.api.result": Row(_TYPES, {"train": "Result"}),
    "train.v2.api.train_fn_utils": Row(
        "training functions",
        {
            "train": "get_all_reported_checkpoints get_checkpoint get_context get_dataset_shard "
            "get_preemption_info report"
        },
    ),
    "train.v2.api.validation_config": Row(
        "training functions", {"train": "ValidationConfig ValidationFn ValidationTaskConfig"}
    ),
    "train.v2.jax.config": Row(_OLDER, {"train.jax": "JaxConfig"}),
    "train.v2.jax.jax_trainer": Row(_OLDER, {"train.jax": "JaxTrainer"}),
    "train.v2.lightgbm": Row("a package"),
    "train.v2.lightgbm.lightgbm_trainer": Row(_OLDER, {"train.lightgbm": "LightGBMTrainer"}),
    "train.v2.torch.torch_trainer": Row(_OLDER, {"train.torch": "TorchTrainer"}),
    "train.v2.torch.train_loop_utils": Row("training functions", _TORCH_UTILS),
    "train.v2.xgboost": Row("a package"),
    "train.v2.xgboost.config": Row(_OLDER, {"train.xgboost": "XGBoostConfig"}),
    "train.v2.xgboost.xgboost_trainer": Row(_OLDER, {"train.xgboost": "XGBoostTrainer"}),
    # --- air ---
    "air.constants": Row("readers of checkpoints and of folders", {"_private.air_constants": "*"}),
    "air._internal": Row("a package"),
    "air._internal.json": Row("loggers of programs", {"_private.tune_util": "SafeFallbackEncoder"}),
    "air._internal.torch_utils": Row(
        "training functions", {"train.torch": "get_device get_devices"}
    ),
    "air._internal.util": Row(
        "schedulers and callbacks of programs", {"_private.tune_util": "is_nan is_nan_or_inf"}
    ),
    "air.util": Row("a package"),
    "air.util.tensor_extensions": Row("a package"),
    "air.util.tensor_extensions.arrow": Row(
        "columns of tensors",
        {
            "data.extensions": "ArrowConversionError ArrowTensorArray ArrowTensorType ArrowTensorTypeV2 "
            "ArrowVariableShapedTensorType get_arrow_extension_tensor_types"
        },
    ),
    "air.util.tensor_extensions.pandas": Row(
        "columns of tensors", {"data.extensions": "TensorArray TensorDtype"}
    ),
    "air.util.node": Row("libraries that keep a call on this node", {"_private.node_util": "*"}),
    "air.util.data_batch_conversion": Row("predictors", {"data.accessor": "BatchFormat"}),
    # --- tune ---
    "tune.analysis.experiment_analysis": Row(
        "scripts that read results", {"tune.analysis": "ExperimentAnalysis"}
    ),
    "tune.constants": Row("settings of programs", {"_private.tune_constants": "*"}),
    "tune.experiment.experiment": Row(_TYPES, {"tune.experiment": "Experiment"}),
    "tune.experiment.trial": Row(
        "callbacks, loggers and schedulers of programs",
        {"tune.experiment": "Trial", "_private.tune_constants": "ExportFormat"},
    ),
    "tune.impl": Row("a package"),
    "tune.impl.config": Row(_TYPES, {"tune.config": "CheckpointConfig FailureConfig RunConfig"}),
    "tune.logger.csv": Row("loggers of programs", {"tune.logger": "CSVLoggerCallback"}),
    "tune.logger.json": Row("loggers of programs", {"tune.logger": "JsonLoggerCallback"}),
    "tune.search.concurrency_limiter": Row(
        "searches with a searcher", {"tune.search": "ConcurrencyLimiter"}
    ),
    "tune.stopper.experiment_plateau": Row(
        "stoppers of programs", {"tune.stopper": "ExperimentPlateauStopper"}
    ),
    "tune.stopper.function_stopper": Row(
        "stoppers of programs", {"tune.stopper": "FunctionStopper"}
    ),
    "tune.stopper.maximum_iteration": Row(
        "stoppers of programs", {"tune.stopper": "MaximumIterationStopper"}
    ),
    "tune.stopper.noop": Row("stoppers of programs", {"tune.stopper": "NoopStopper"}),
    "tune.stopper.stopper": Row(
        "stoppers of programs", {"tune.stopper": "CombinedStopper Stopper"}
    ),
    "tune.stopper.timeout": Row("stoppers of programs", {"tune.stopper": "TimeoutStopper"}),
    "tune.stopper.trial_plateau": Row(
        "stoppers of programs", {"tune.stopper": "TrialPlateauStopper"}
    ),
    "tune.syncer": Row("configurations of searches", {"tune.config": "SyncConfig"}),
    "tune.trainable.trainable_fn_utils": Row(
        "trainables and callbacks",
        {"tune": "Checkpoint get_checkpoint report", "tune.context": "in_trial:_in_tune_session"},
    ),
    "tune.tune_config": Row(_TYPES, {"tune.config": "ResumeConfig TuneConfig"}),
    "tune.utils.log": Row("verbosity of searches", {"_private.tune_log": "*"}),
    "tune.utils.util": Row(
        "loggers, schedulers and scripts of programs",
        {
            "tune.utils": "date_str deep_update diagnose_serialization flatten_dict merge_dicts "
            "unflattened_lookup validate_save_restore wait_for_gpu warn_if_slow",
            "_private.tune_util": "*",
        },
    ),
    # --- serve ---
    "serve._private": Row("a package"),
    "serve._private.common": Row(
        "tests and scripts of operators",
        {
            "serve.specs": "DeploymentID",
            "serve.context": "ReplicaID",
            "serve.schema": "DeploymentStatus ReplicaState",
        },
    ),
    "serve._private.constants": Row(
        "tests and scripts of operators", {"_private.serve_constants": "*"}
    ),
    # --- private ---
    "_private.dict": Row(
        "scripts that read results",
        {
            "tune.utils": "deep_update flatten_dict merge_dicts unflattened_lookup",
            "_private.tune_util": "unflatten_dict unflatten_list_dict",
        },
    ),
    "_common": Row("a package"),
    "_common.network_utils": Row(
        "libraries that make servers of their own",
        {
            "_private.network_util": "build_address find_free_port is_ipv6 is_localhost parse_address"
        },
    ),
    "_common.test_utils": Row(
        _TESTS,
        {
            "_private.test_utils": "Semaphore SignalActor async_wait_for_condition wait_for_condition"
        },
    ),
    "_common.utils": Row(
        "libraries that wait in event loops", {"_private.common_utils": "get_or_create_event_loop"}
    ),
    "_common.usage": Row("a package"),
    "_common.usage.usage_lib": Row(
        "libraries that report their use", {"_private.usage.usage_lib": "*"}
    ),
}


ROWS |= {path: Row(*row) for path, row in PATHS.items()}


def made(path: str) -> ModuleType:
    """Make the module of a row: names are looked up when they are first used."""
    places = _places(ROWS[path])
    name = f"ray.{path}"
    # The name is that under `ray`: a worker finds the module of a function by that one alone.
    module = ModuleType(name, f"Ray's path to public names, for {ROWS[path].why}.")

    def find(wanted: str) -> Any:
        place = places.get(wanted)
        if place is None:
            where = f" Of this module there are {', '.join(sorted(places))}." if places else ""
            raise AttributeError(
                f"Heliostat does not have {name}.{wanted}: ask for it in an issue of Heliostat, naming the "
                f"library that uses it.{where}"
            )
        value = getattr(importlib.import_module(place[0]), place[1])
        setattr(module, wanted, value)
        return value

    module.__dict__.update(
        __getattr__=find, __dir__=lambda: sorted({*vars(module), *places}), __all__=sorted(places)
    )
    return module


def _places(row: Row) -> dict[str, tuple[str, str]]:
    """The place of each name of a row: module and name there, which differ in `there:here`."""
    found: dict[str, tuple[str, str]] = {}
    for below, names in row.names.items():
        source = f"heliostat.{below}"
        listed = _public(importlib.import_module(source)) if names == "*" else names.split()
        for one in listed:
            there, _, here = one.partition(":")
            found[here or there] = (source, there)
    return found


def _public(module: ModuleType) -> list[str]:
    named: list[str] | None = getattr(module, "__all__", None)
    return named or [name for name in vars(module) if name.isupper()]
