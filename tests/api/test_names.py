"""Every public name is where programs look for it, under both names of the package."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
import ray

from tests.helpers.harness import IS_HELIOSTAT

# What `from MODULE import NAME` finds: the public names of Ray 2.60, by module.
NAMES = {
    "ray": """
        ActorClassID ActorID ClientBuilder DynamicObjectRefGenerator
        FunctionID JobID Language LoggingConfig
        NodeID ObjectID ObjectRef ObjectRefGenerator
        PlacementGroupID SCRIPT_MODE TaskID UniqueID
        WORKER_MODE WorkerID __version__ actor
        available_resources cancel client cluster_resources
        cpp_function get get_actor get_gpu_ids
        get_runtime_context init is_initialized java_actor_class
        java_function kill method nodes
        put remote shutdown timeline
        util wait
    """,
    "ray.util": """
        ActorPool accelerators as_completed connect
        deregister_serializer disable_log_once_globally disconnect enable_periodic_logging
        get_current_placement_group get_node_instance_id get_node_ip_address get_placement_group
        inspect_serializability list_named_actors log_once map_unordered
        placement_group placement_group_table register_serializer remove_placement_group
    """,
    "ray.exceptions": """
        ActorAlreadyExistsError ActorDiedError ActorHandleNotFoundError ActorPlacementGroupRemoved
        ActorUnavailableError ActorUnschedulableError AsyncioActorExit AuthenticationError
        CrossLanguageError GetTimeoutError LocalRayletDiedError NodeDiedError
        ObjectFetchTimedOutError ObjectFreedError ObjectLostError ObjectReconstructionFailedError
        ObjectRefStreamEndOfStreamError ObjectStoreFullError OufOfBandObjectRefSerializationException
        OutOfDiskError
        OutOfMemoryError OwnerDiedError PendingCallsLimitExceeded PlasmaObjectNotAvailable
        RayActorError RayCgraphCapacityExceeded RayChannelError RayChannelTimeoutError
        RayDirectTransportError RayError RaySystemError RayTaskError
        ReferenceCountingAssertionError RpcError RuntimeEnvSetupError
        StreamingGeneratorReplayInconsistentError
        TaskCancelledError TaskPlacementGroupRemoved TaskUnschedulableError UnserializableException
        UserCodeException WorkerCrashedError
    """,
    "ray.actor": """
        ActorClass ActorClassInheritanceException ActorHandle ActorMethod
        exit_actor method
    """,
    "ray.types": """
        ObjectRef
    """,
    "ray.util.accelerators": """
        AMD_INSTINCT_MI100 AMD_INSTINCT_MI210 AMD_INSTINCT_MI250 AMD_INSTINCT_MI250x
        AMD_INSTINCT_MI300x AMD_RADEON_HD_7900 AMD_RADEON_R9_200_HD_7900 APPLE_M1
        APPLE_M1_MAX APPLE_M1_PRO APPLE_M1_ULTRA APPLE_M2
        APPLE_M2_MAX APPLE_M2_PRO APPLE_M2_ULTRA APPLE_M3
        APPLE_M3_MAX APPLE_M3_PRO APPLE_SILICON AWS_NEURON_CORE
        GOOGLE_TPU_V2 GOOGLE_TPU_V3 GOOGLE_TPU_V4 GOOGLE_TPU_V5LITEPOD
        GOOGLE_TPU_V5P GOOGLE_TPU_V6E GOOGLE_TPU_V7X INTEL_GAUDI
        INTEL_MAX_1100 INTEL_MAX_1550 METAX_C500 METAX_C550
        MOBILINT_ARIES MOBILINT_REGULUS NVIDIA_A100 NVIDIA_H100
        NVIDIA_L4 NVIDIA_TESLA_A100 NVIDIA_TESLA_A10G NVIDIA_TESLA_K80
        NVIDIA_TESLA_P100 NVIDIA_TESLA_P4 NVIDIA_TESLA_T4 NVIDIA_TESLA_V100
    """,
    "ray.util.annotations": """
        AnnotationType Deprecated DeveloperAPI PublicAPI
        RayDeprecationWarning
    """,
    "ray.util.actor_pool": """
        ActorPool
    """,
    "ray.dag.input_node": """
        InputAttributeNode InputNode
    """,
    "ray.dag.output_node": """
        MultiOutputNode
    """,
    "ray.util.state": """
        StateApiClient get_actor get_job get_log get_node get_objects get_placement_group get_task
        get_worker list_actors list_cluster_events list_jobs list_logs list_nodes list_objects
        list_placement_groups list_runtime_envs list_tasks list_workers summarize_actors
        summarize_objects summarize_tasks
    """,
    "ray.util.state.common": """
        ActorState ClusterEventState GetApiOptions Humanify JobState ListApiOptions NodeState
        ObjectState PlacementGroupState RuntimeEnvState StateResource StateSchema SummaryApiOptions
        SummaryResource TaskState WorkerState state_column
    """,
    "ray.util.state.exception": """
        DataSourceUnavailable RayStateApiException ServerUnavailable
    """,
    "ray.util.queue": """
        Empty Full Queue
    """,
    "ray.util.metrics": """
        Counter Gauge Histogram
    """,
    "ray.util.scheduling_strategies": """
        DoesNotExist Exists In NodeAffinitySchedulingStrategy
        NodeLabelSchedulingStrategy NotIn PlacementGroupSchedulingStrategy
    """,
    "ray.util.serialization": """
        deregister_serializer register_serializer
    """,
    "ray.util.check_serialize": """
        FailureTuple inspect_serializability
    """,
    "ray.util.debug": """
        disable_log_once_globally enable_periodic_logging log_once reset_log_once
    """,
    "ray.util.joblib": """
        register_ray
    """,
    "ray.util.multiprocessing": """
        JoinableQueue Pool TimeoutError
    """,
    "ray.runtime_env": """
        RuntimeEnv RuntimeEnvConfig
    """,
    "ray.runtime_context": """
        RuntimeContext get_runtime_context
    """,
    "ray.job_config": """
        JobConfig
    """,
    "ray.cluster_utils": """
        AutoscalingCluster Cluster
    """,
    "ray.remote_function": """
        RemoteFunction
    """,
    "ray.cross_language": """
        cpp_function java_actor_class java_function
    """,
    "ray.util.helpers": """
        as_completed map_unordered
    """,
    "ray.dag": """
        ClassMethodNode ClassNode DAGInputData DAGNode FunctionNode InputAttributeNode InputNode
        MultiOutputNode
    """,
    "ray.cloudpickle": """
        CloudPickler Pickler dump dumps load loads register_pickle_by_value
        unregister_pickle_by_value
    """,
    "ray.job_submission": """
        DriverInfo JobDetails JobErrorType JobInfo JobStatus JobSubmissionClient JobType
    """,
    "ray.tune": """
        Callback Checkpoint CheckpointConfig Experiment ExperimentAnalysis FailureConfig
        PlacementGroupFactory Result ResultGrid ResumeConfig RunConfig Stopper SyncConfig Trainable
        TuneConfig TuneContext TuneError Tuner choice create_scheduler create_searcher
        get_checkpoint get_context grid_search lograndint loguniform qlograndint qloguniform
        qrandint qrandn quniform randint randn register_env register_trainable report run
        run_experiments sample_from uniform with_parameters with_resources
    """,
    "ray.tune.schedulers": """
        ASHAScheduler AsyncHyperBandScheduler FIFOScheduler MedianStoppingRule
        PopulationBasedTraining PopulationBasedTrainingReplay TrialScheduler create_scheduler
    """,
    "ray.tune.logger": """
        CSVLoggerCallback JsonLoggerCallback LoggerCallback TBXLoggerCallback pretty_print
    """,
    "ray.tune.search": """
        BasicVariantGenerator ConcurrencyLimiter Searcher create_searcher grid_search
    """,
    "ray.tune.stopper": """
        CombinedStopper ExperimentPlateauStopper FunctionStopper MaximumIterationStopper NoopStopper
        Stopper TimeoutStopper TrialPlateauStopper
    """,
    "ray.serve": """
        Application ControllerOptions Deployment HTTPOptions RunTarget TracingConfig batch delete
        deployment get_app_handle get_deployment_actor get_deployment_actor_context
        get_deployment_handle get_multiplexed_model_id get_replica_context get_trace_context ingress
        multiplexed run run_many shutdown shutdown_async start status
    """,
    "ray.serve.handle": """
        DeploymentBroadcastResponse DeploymentHandle DeploymentResponse DeploymentResponseGenerator
    """,
    "ray.serve.exceptions": """
        BackPressureError DeploymentUnavailableError RayServeException ReplicaUnavailableError
        RequestCancelledError
    """,
    "ray.serve.config": """
        AggregationFunction AutoscalingConfig AutoscalingContext AutoscalingPolicy
        BackpressureConfig ControllerOptions DeploymentActorConfig GangPlacementStrategy
        GangRuntimeFailurePolicy GangSchedulingConfig HTTPOptions ProxyLocation RequestRouterConfig
        gRPCOptions
    """,
    "ray.serve.gang": "GangContext",
    "ray.serve.utils": "get_trace_context",
    "ray.serve.autoscaling_policy": """
        default_autoscaling_policy replica_queue_length_autoscaling_policy
    """,
    "ray.serve.schema": """
        ApplicationStatus ApplicationStatusOverview DeploymentStatusOverview ProxyStatus ServeStatus
    """,
    "ray.util.collective": """
        allgather allreduce barrier broadcast create_collective_group destroy_collective_group
        get_collective_group_size get_group_handle get_rank gloo_available init_collective_group
        is_backend_available is_group_initialized nccl_available recv reduce reducescatter send
    """,
    "ray.util.collective.types": "Backend ReduceOp",
    "ray.util.multiprocessing.pool": "AsyncResult Pool PoolTaskError",
    "ray.util.placement_group": """
        PlacementGroup get_current_placement_group get_placement_group placement_group
        placement_group_table remove_placement_group
    """,
}

# Parts of Ray that are not in this release: asking for one names it.
ABSENT_MODULES = ["ray.util.spark"]
ABSENT_NAMES = [("ray.util", "spark")]

PAIRS = [(module, name) for module, names in NAMES.items() for name in names.split()]


@pytest.mark.contract("F0.01", "F0.15", "F0.23", "F0.24", "F0.25", "F1.20", "F2.29", "F4.11")
@pytest.mark.parametrize("module", NAMES)
def test_the_names_of_a_module(module: str) -> None:
    space: dict[str, Any] = {}
    names = NAMES[module].split()
    exec(f"from {module} import {', '.join(names)}", space)
    found = importlib.import_module(module)
    for name in names:
        assert space[name] is getattr(found, name)
        assert hasattr(found, name)


@pytest.mark.contract("F0.01", "F0.15")
@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray has one name")
@pytest.mark.parametrize("module", NAMES)
def test_both_packages_have_the_same_thing(module: str) -> None:
    ours = importlib.import_module(module.replace("ray", "heliostat", 1))
    for name in NAMES[module].split():
        one, other = getattr(ours, name), getattr(importlib.import_module(module), name)
        same = isinstance(one, ModuleType) or name == "__version__"  # each says its own
        assert one is other or same, name


@pytest.mark.contract("F0.01", "F0.15")
@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray has one name")
def test_a_second_name_of_a_module_changes_nothing_in_its_package() -> None:
    # A process of its own: here the modules may have both names already.
    script = """
import heliostat.data, heliostat.serve, heliostat.train, heliostat.tune, importlib, ray, sys
kept = 0
for name in sorted(n for n in sys.modules if n.startswith("heliostat.")):
    package, _, last = name.rpartition(".")
    before = vars(sys.modules[package]).get(last)
    try:
        module = importlib.import_module(name.replace("heliostat", "ray", 1))
    except ModuleNotFoundError:
        continue  # of another name below ray
    assert module is sys.modules[name], name
    assert vars(sys.modules[package]).get(last) is before, name
    kept += before is not module
assert kept > 0
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=120)


@pytest.mark.contract("F0.14", "F0.15")
@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray has one name")
def test_classes_pickled_under_one_name_load_under_the_other() -> None:
    """What a program that knows only the one name has written, one that knows only the other reads."""
    for module, name in PAIRS:
        thing = getattr(importlib.import_module(module), name)
        if not isinstance(thing, type):
            continue
        data = pickle.dumps(thing, protocol=0)
        assert pickle.loads(data) is thing
        assert pickle.loads(data.replace(b"cheliostat", b"cray")) is thing, (module, name)


@pytest.mark.contract("F0.01")
@pytest.mark.heliostat_only("it is about the files of this package")
@pytest.mark.parametrize("package", ["", ".data", ".serve", ".train", ".tune", ".util"])
def test_no_import_of_a_submodule_hides_a_public_name(package: str) -> None:
    """A worker imports submodules that the code of a pickled function may name."""

    def kinds(imports: bool) -> str:
        program = f"""if True:
            import importlib, pkgutil
            package = importlib.import_module("heliostat{package}")
            submodules = {{module.name for module in pkgutil.iter_modules(package.__path__)}}
            for name in sorted(submodules & {{*package.__all__}}):
                if {imports}:
                    importlib.import_module(package.__name__ + "." + name)
                print(name, type(getattr(package, name)))
        """
        return subprocess.check_output([sys.executable, "-c", program], text=True)

    assert kinds(imports=True) == kinds(imports=False)


@pytest.mark.contract("F0.01")
@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray has them")
def test_what_is_absent_is_named() -> None:
    for module in ABSENT_MODULES:
        with pytest.raises(ModuleNotFoundError, match=module.rpartition(".")[2]) as caught:
            importlib.import_module(module)
        assert caught.value.name == module
    for module, name in ABSENT_NAMES:
        assert not hasattr(importlib.import_module(module), name)
        with pytest.raises(AttributeError, match=name):
            getattr(importlib.import_module(module), name)


@pytest.mark.contract("F0.01", "F14.11")
def test_workflows_say_that_they_are_gone() -> None:
    with pytest.raises(RuntimeError, match="deprecated"):
        importlib.import_module("ray.workflow")


@pytest.mark.contract("F14.12")
@pytest.mark.parametrize("name", ["horovod", "lightgbm", "sgd", "xgboost"])
def test_what_train_has_replaced_says_so(name: str) -> None:
    with pytest.raises(DeprecationWarning, match=r"(?i)train"):
        importlib.import_module(f"ray.util.{name}")


@pytest.mark.contract("F0.01")
def test_probing_finds_a_version() -> None:
    major, minor, _ = ray.__version__.split(".", 2)
    assert (int(major), int(minor)) >= (2, 60)
    assert isinstance(ray.__commit__, str)
    assert ray.__name__ == "ray"
    assert not hasattr(ray, "no_such_name")


@pytest.mark.contract("F1.20")
def test_other_languages_are_refused() -> None:
    from ray import cross_language

    assert {"cpp_function", "java_function", "java_actor_class"} <= set(dir(cross_language))
    if IS_HELIOSTAT:
        with pytest.raises(NotImplementedError, match="Java"):
            ray.java_function("A", "f")
