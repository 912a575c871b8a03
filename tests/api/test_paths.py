"""Ray's other module paths to public names, which programs import."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

pytestmark = pytest.mark.heliostat_only("the tables are Heliostat's")

paths = importlib.import_module("heliostat._private.paths")
private = importlib.import_module("heliostat._private")

# Packages of optional libraries, which a row may need.
OPTIONAL = ("gymnasium", "jax", "joblib", "lightgbm", "pandas", "pyarrow", "torch", "xgboost")


def load(path: str) -> Any:
    try:
        module = importlib.import_module(f"ray.{path}")
        for name in module.__all__:
            getattr(module, name)
    except ImportError as error:
        if any(name in str(error) for name in OPTIONAL):
            pytest.skip(f"needs a library that is not here: {error}")
        raise
    return module


@pytest.mark.parametrize("path", sorted(paths.ROWS))
def test_a_path_leads_to_the_very_objects(path: str) -> None:
    module = load(path)
    row = paths.ROWS[path]
    assert row.why
    assert module is importlib.import_module(f"ray.{path}") is sys.modules[f"ray.{path}"]
    assert module is importlib.import_module(f"heliostat.{path}")
    if not row.names:
        assert module.__all__ == []
        return
    assert set(module.__all__) <= set(dir(module))
    found = 0
    for source, names in row.names.items():
        there = importlib.import_module(f"heliostat.{source}")
        for name in paths._public(there) if names == "*" else names.split():
            own, _, here = name.partition(":")
            assert getattr(module, here or own) is getattr(there, own)
            found += 1
    assert found == len(module.__all__)
    scope: dict[str, Any] = {}
    exec(f"from ray.{path} import *", scope)
    assert set(module.__all__) <= set(scope)


CLASHES = """
import importlib
from heliostat._private import paths
for path in paths.ROWS:
    above, _, last = path.rpartition(".")
    try:
        package = importlib.import_module(f"ray.{above}" if above else "ray")
        before = vars(package).get(last)
        module = importlib.import_module(f"ray.{path}")
    except ImportError:
        continue
    if before not in (None, module):
        print(path)
"""


def test_a_path_takes_no_name_of_its_package() -> None:
    """An import binds the module in its package, over what the package means by the name."""
    done = subprocess.run(
        [sys.executable, "-c", CLASHES], capture_output=True, timeout=60, check=True
    )
    assert done.stdout == b""


@pytest.mark.parametrize("path", sorted(paths.ROWS))
def test_a_name_that_is_not_there_says_so(path: str) -> None:
    module = load(path)
    with pytest.raises(AttributeError, match="ask for it in an issue of Heliostat") as caught:
        _ = module.no_such_name
    assert str(caught.value).startswith(f"Heliostat does not have ray.{path}.no_such_name:")
    assert "\n" not in str(caught.value)


def test_modules_that_are_packages_on_ray_are_listed() -> None:
    below = (*paths.ROWS, *private.PLACES, *private._ELSEWHERE)
    above = {path.rpartition(".")[0] for path in below} - {""}
    plain = set()
    for path in above - set(paths.ROWS):
        ours = importlib.util.find_spec(f"heliostat.{private.PLACES.get(path, path)}")
        assert ours is not None, path
        if ours.submodule_search_locations is None:
            plain.add(path)
    assert plain == private.PACKAGES


@pytest.mark.parametrize(
    "statements",
    [
        "import ray.tune.experiment.trial as trial; Trial = trial.Trial",
        "from ray.tune.experiment.trial import Trial",
        "import ray, ray.tune; from ray.tune.experiment import trial; Trial = trial.Trial",
        "from ray.tune.utils import util; from ray.tune.experiment.trial import Trial",
        "import heliostat.tune; from ray.tune.experiment.trial import Trial",
        "from ray.tune.experiment import Trial as A; from ray.tune.experiment.trial import Trial",
    ],
)
def test_the_order_of_imports_does_not_matter(statements: str) -> None:
    script = (
        f"{statements}\nfrom ray.tune.experiment import Trial as public\nassert Trial is public"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_import_ray_does_not_load_the_table() -> None:
    script = "import ray, sys, ray.data; assert 'heliostat._private.paths' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_module_that_is_nowhere_is_missing_as_before() -> None:
    for name, words in (
        ("ray.tune.stopper.no_such", "this release of Heliostat has no"),
        ("ray.tune.experiment.no_such", "this release of Heliostat has no"),
        ("ray.dashboard.no_such", "this release of Heliostat has no"),
        ("ray._common.no_such", "is private to Ray"),
        ("ray.serve._private.no_such", "is private to Ray"),
        ("ray.core.generated.common_pb2", "the messages of Ray's own daemons, which speak gRPC"),
        ("ray.experimental.channel", "compiled graphs, which Heliostat does not have: call the"),
        ("ray.experimental.channel.torch_tensor_type", "use ray.util.collective between them"),
    ):
        with pytest.raises(ModuleNotFoundError, match=words):
            importlib.import_module(name)


@pytest.mark.parametrize(
    ("path", "public", "name"),
    [
        ("experimental.state.common", "util.state.common", "ActorState"),
        ("experimental.state.exception", "util.state.exception", "RayStateApiException"),
        ("train._internal.data_config", "train", "DataConfig"),
        ("train._internal.syncer", "train", "SyncConfig"),
    ],
)
def test_paths_that_are_files(path: str, public: str, name: str) -> None:
    module = importlib.import_module(f"ray.{path}")
    assert getattr(module, name) is getattr(importlib.import_module(f"ray.{public}"), name)


def test_workers_import_them_too(ray_start: Any) -> None:
    @ray.remote
    def look() -> bool:
        from ray.runtime_env.runtime_env import RuntimeEnv
        from ray.tune.experiment.trial import Trial

        return Trial.__name__ == "Trial" and RuntimeEnv(env_vars={"A": "1"})["env_vars"]["A"] == "1"

    assert ray.get(look.remote(), timeout=60)


# --- helpers that have no other place ---


def test_signals_and_conditions(ray_start: Any) -> None:
    from ray._private.test_utils import Semaphore, SignalActor, wait_for_condition

    signal = SignalActor.remote()
    waiting = [signal.wait.remote() for _ in range(3)]
    wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 3, timeout=60)
    ray.get(signal.send.remote(clear=True))
    ray.get(waiting, timeout=60)
    later = signal.wait.remote()
    assert ray.wait([later], timeout=0.1)[0] == []
    ray.get(signal.wait.remote(should_wait=False), timeout=60)
    semaphore = Semaphore.remote(value=1)
    ray.get(semaphore.acquire.remote(), timeout=60)
    assert ray.get(semaphore.locked.remote(), timeout=60)
    ray.get(semaphore.release.remote(), timeout=60)
    assert not ray.get(semaphore.locked.remote(), timeout=60)


def test_a_condition_that_is_not_met() -> None:
    import asyncio

    from ray._common.test_utils import async_wait_for_condition, wait_for_condition

    def broken(at: int) -> bool:
        raise ValueError(f"at {at}")

    with pytest.raises(RuntimeError, match=r"wasn't met .* ValueError: at 3"):
        wait_for_condition(broken, timeout=0.2, retry_interval_ms=1, at=3)
    with pytest.raises(ValueError, match="at 4"):
        wait_for_condition(broken, raise_exceptions=True, at=4)
    with pytest.raises(RuntimeError, match="wasn't met"):
        asyncio.run(async_wait_for_condition(lambda: False, timeout=0.1, retry_interval_ms=1))

    async def met() -> bool:
        return True

    asyncio.run(async_wait_for_condition(met))


def test_drivers_of_their_own() -> None:
    from ray._private.test_utils import (
        run_string_as_driver,
        run_string_as_driver_nonblocking,
        wait_for_pid_to_exit,
    )

    assert run_string_as_driver("print(6 * 7)").strip() == "42"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_string_as_driver("print('before'); raise SystemExit(3)")
    assert (caught.value.returncode, caught.value.output) == (3, "before\n")
    process = run_string_as_driver_nonblocking("print('there')")
    assert process.communicate(timeout=60)[0] == b"there\n"
    wait_for_pid_to_exit(process.pid)


def test_a_server_that_listens_and_one_that_does_not() -> None:
    import socket

    from ray._private.test_utils import format_web_url, wait_until_server_available

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert wait_until_server_available(f"127.0.0.1:{port}", timeout_ms=60_000)
    assert not wait_until_server_available(f"127.0.0.1:{port}", timeout_ms=100)
    assert format_web_url("a:1") == format_web_url("http://a:1") == "http://a:1"


def test_actors_are_waited_for(ray_start: Any) -> None:
    from ray._private.test_utils import (
        RayTestTimeoutException,
        kill_actor_and_wait_for_failure,
        wait_for_num_actors,
    )

    @ray.remote
    class Kept:
        def ping(self) -> None: ...

    actor = Kept.remote()
    ray.get(actor.ping.remote(), timeout=60)
    wait_for_num_actors(1, "ALIVE", timeout=60)
    kill_actor_and_wait_for_failure(actor, timeout=60)
    with pytest.raises(RayTestTimeoutException):
        wait_for_num_actors(10_000, timeout=0.2)


def test_nested_dicts() -> None:
    from ray.tune.utils.util import flatten_dict, unflatten_dict, unflatten_list_dict

    nested = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert unflatten_dict(flatten_dict(nested)) == nested
    assert unflatten_dict({"a.b": 1}, delimiter=".") == {"a": {"b": 1}}
    with pytest.raises(TypeError, match="goes on below 'a'"):
        unflatten_dict({"a": 1, "a/b": 2})
    lists = {"aaa/0/bb": 12, "aaa/1/cc": 56, "aaa/1/dd": 92}
    assert unflatten_list_dict(lists) == {"aaa": [{"bb": 12}, {"cc": 56, "dd": 92}]}
    assert unflatten_list_dict({"0/a": 1, "1": 2}) == [{"a": 1}, 2]
    for broken in ({"a/1": 2}, {"a/1/b": 2}):
        with pytest.raises(ValueError, match="lists begin at 0"):
            unflatten_list_dict(broken)


def test_anything_becomes_json() -> None:
    numpy = pytest.importorskip("numpy", reason="numbers of numpy")
    from ray.tune.utils.util import SafeFallbackEncoder, is_nan_or_inf

    values = [numpy.float32(0.5), numpy.int64(2), numpy.bool_(True), numpy.arange(2), object]
    text = json.dumps(values, cls=SafeFallbackEncoder)
    assert json.loads(text) == [0.5, 2, True, [0, 1], "<class 'object'>"]
    assert json.dumps(numpy.float32("nan"), cls=SafeFallbackEncoder) == '"null"'
    assert is_nan_or_inf(math.inf)
    assert not is_nan_or_inf(1)


def test_functions_are_retried() -> None:
    from ray.tune.utils.util import retry_fn

    calls = []

    def third() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("not yet")

    assert retry_fn(third, OSError, num_retries=3, sleep_time=0)
    assert len(calls) == 3
    calls.clear()
    assert not retry_fn(third, OSError, num_retries=2, sleep_time=0)


def test_two_streams_as_one() -> None:
    import io

    from ray.tune.utils.util import Tee

    first, second = io.StringIO(), io.StringIO()
    tee = Tee(first, second)
    tee.write("a")
    tee.flush()
    second.close()
    tee.write("b")
    assert first.getvalue() == "ab"


def test_a_gpu_that_is_not_there() -> None:
    from ray.tune.utils import wait_for_gpu

    with pytest.raises((RuntimeError, ValueError), match=r"nvidia-smi|no GPU 'none'"):
        wait_for_gpu("none", retry=1)


def test_paths_on_their_filesystems(tmp_path: Path) -> None:
    fs = pytest.importorskip("pyarrow.fs", reason="filesystems are pyarrow's")
    from ray.data.datasource.path_util import (
        _has_file_extension,
        _resolve_paths_and_filesystem,
        _unwrap_protocol,
    )

    for given in (tmp_path, str(tmp_path), [f"local://{tmp_path}"], [f"file://{tmp_path}"]):
        paths_there, filesystem = _resolve_paths_and_filesystem(given)
        assert paths_there == [str(tmp_path)]
        assert isinstance(filesystem, fs.LocalFileSystem)
    local = fs.LocalFileSystem()
    assert _resolve_paths_and_filesystem(["/a", "/b"], local) == (["/a", "/b"], local)
    with pytest.raises(ValueError, match="at least one path"):
        _resolve_paths_and_filesystem([])
    assert _unwrap_protocol("s3://key@bucket/a#b?c=d") == "bucket/a#b?c=d"
    assert _unwrap_protocol("file:///a/b") == _unwrap_protocol("/a/b") == "/a/b"
    assert _has_file_extension("a.CSV?v=1", ["csv"])
    assert _has_file_extension("a.b", None)
    assert not _has_file_extension("a.json", [".csv"])


def test_libraries_that_report_their_use() -> None:
    import ray._private.usage.usage_lib as usage
    from ray._private.client_mode_hook import client_mode_hook, client_mode_should_convert

    usage.record_library_usage("mine")
    usage.record_extra_usage_tag(usage.TagKey.ANY_NAME, "1")
    assert not usage.usage_stats_enabled()
    assert not client_mode_should_convert()
    assert client_mode_hook(len) is len
    assert client_mode_hook(local_only_kwargs=("a",))(len) is len


def test_an_event_loop_is_found_or_made() -> None:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from ray._common.utils import get_or_create_event_loop

    async def running() -> bool:
        return get_or_create_event_loop() is asyncio.get_running_loop()

    async def waiting() -> str:
        return "done"

    def by_hand() -> None:
        loop = get_or_create_event_loop()
        task = loop.create_task(waiting())
        try:
            assert get_or_create_event_loop() is loop, "the thread keeps it"
            assert loop.run_until_complete(running())
            assert loop.run_until_complete(task) == "done"
        finally:
            loop.close()
            asyncio.set_event_loop(None)

    by_hand()
    assert asyncio.run(running())
    by_hand()  # `run` leaves the thread without a loop
    with ThreadPoolExecutor(1) as other:
        other.submit(by_hand).result()
    chosen = asyncio.new_event_loop()
    asyncio.set_event_loop(chosen)
    assert get_or_create_event_loop() is chosen
    by_hand()


USES = """
import ray, ray.tune.stopper.trial_plateau, ray.util.collective.collective
from ray.tune.stopper import trial_plateau
from ray.util import collective

@ray.remote
def by_name():
    return trial_plateau.TrialPlateauStopper.__name__

@ray.remote
def of_a_package():  # its words name `ray.util.collective.collective` too
    return collective.is_group_initialized("none")

ray.init(num_cpus=1)
print(ray.get([by_name.remote(), of_a_package.remote()], timeout=60))
"""


def test_a_function_that_uses_a_path_travels() -> None:
    """A worker that imported nothing of Ray's before finds the module of a function's global."""
    done = subprocess.run(
        [sys.executable, "-c", USES], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "['TrialPlateauStopper', False]\n"


def test_the_kinds_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import accelerators
    from ray._private.accelerators import NvidiaGPUAcceleratorManager as Nvidia
    from ray._private.accelerators import TPUAcceleratorManager as Tpu
    from ray._private.accelerators.accelerator import AcceleratorManager
    from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager

    assert NvidiaGPUAcceleratorManager is Nvidia
    managers = accelerators.get_all_accelerator_managers()
    assert all(issubclass(one, AcceleratorManager) for one in managers)
    kinds = accelerators.get_all_accelerator_resource_names()
    assert {"GPU", "TPU", "NPU", "HPU", "neuron_cores"} <= kinds
    for kind in kinds:
        found = accelerators.get_accelerator_manager_for_resource(kind)
        assert found is not None
        assert found.get_resource_name() == kind
    assert accelerators.get_accelerator_manager_for_resource("CPU") is None

    variables = {one.get_visible_accelerator_ids_env_var() for one in managers}
    assert {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"} <= variables
    monkeypatch.delenv("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", raising=False)
    for value, ids in ((None, None), ("", []), ("NoDevFiles", []), ("3,1", ["3", "1"])):
        if value is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert Nvidia.get_current_process_visible_accelerator_ids() == ids
    Nvidia.set_current_process_visible_accelerator_ids(["0", "2"])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,2"
    monkeypatch.setenv("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", "1")
    Nvidia.set_current_process_visible_accelerator_ids(["5"])
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,2"

    assert Nvidia.validate_resource_request_quantity(0.5) == (True, None)
    assert Tpu.validate_resource_request_quantity(4) == (True, None)
    assert Tpu.validate_resource_request_quantity(3)[0] is False
    assert Nvidia.get_current_node_num_accelerators() >= 0
    for name, kind in (
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("NVIDIA GeForce RTX 5090", "GeForce-RTX-5090"),
    ):
        assert Nvidia._gpu_name_to_accelerator_type(name) == kind


@pytest.mark.heliostat_only("the variables of its own table")
def test_every_kind_has_the_variable_of_the_table() -> None:
    from ray._private import accelerators

    rows = importlib.import_module("heliostat._heliostat").device_kinds()
    table = {kind: variable for kind, variable, *_ in rows}
    assert table.keys() == accelerators.get_all_accelerator_resource_names()
    for kind, variable in table.items():
        found = accelerators.get_accelerator_manager_for_resource(kind)
        assert found is not None, kind
        assert found.get_visible_accelerator_ids_env_var() == variable


def test_small_helpers(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from ray._private import ray_constants, utils
    from ray._private.utils import binary_to_hex, hex_to_binary

    assert binary_to_hex(b"\x01\xff") == "01ff"
    assert hex_to_binary("01ff") == hex_to_binary(b"01ff") == b"\x01\xff"
    assert utils.ensure_str(b"a") == utils.ensure_str("a") == "a"
    assert utils.is_main_thread()
    assert utils.split_address("my_module://host:1/a://b") == ("my_module", "host:1/a://b")
    with pytest.raises(ValueError, match="must contain '://'"):
        utils.split_address("host:1")
    assert len(ray.ObjectRef.nil().binary()) == ray_constants.ID_SIZE
    monkeypatch.setenv("A_NUMBER", "2.5")
    assert ray_constants.env_float("A_NUMBER", 0.0) == 2.5
    assert ray_constants.env_integer("A_NUMBER", 7) == 7
    assert ray_constants.env_integer("NO_SUCH", 7) == 7
    for text, told in (("TRUE", True), ("1", True), ("0", False), ("yes", False)):
        monkeypatch.setenv("A_FLAG", text)
        assert ray_constants.env_bool("A_FLAG", not told) is told
    assert ray_constants.env_bool("NO_SUCH", True) is True


def test_calls_that_are_kept_on_this_node(ray_start: Any) -> None:
    from ray.air.util.node import (
        _force_on_current_node,
        _force_on_node,
        _get_node_id_from_node_ip,
    )

    @ray.remote
    def where() -> str:
        return ray.get_runtime_context().get_node_id()

    here = ray.get_runtime_context().get_node_id()
    assert ray.get(_force_on_current_node(where).remote(), timeout=60) == here
    assert ray.get(where.options(**_force_on_current_node()).remote(), timeout=60) == here
    gone = _force_on_node("f" * len(here), where).remote()
    with pytest.raises(ray.exceptions.RayError):
        ray.get(gone, timeout=60)
    assert _get_node_id_from_node_ip(ray.util.get_node_ip_address()) == here
    assert _get_node_id_from_node_ip("no address") is None


STOPS = """
import sys
import ray.util.rpdb

def work():
    here = 41
    ray.util.rpdb.set_trace()
    return here

print("result", work())
"""


def test_a_driver_stops_in_the_caller_of_set_trace() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPS],
        input="p here + 1\ncontinue\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "42" in done.stdout
    assert done.stdout.endswith("result 41\n")


def test_a_worker_passes_set_trace_where_debugging_is_off(ray_start: Any) -> None:
    @ray.remote(runtime_env={"env_vars": {"RAY_DEBUG": "0"}})
    def work() -> bool:
        import ray.util.rpdb

        ray.util.rpdb.set_trace()
        return bool(ray.util.rpdb._is_ray_debugger_post_mortem_enabled())

    assert ray.get(work.remote(), timeout=60) is False


def test_a_timer_and_addresses_of_libraries() -> None:
    from ray._common.network_utils import build_address, find_free_port, parse_address
    from ray.train._internal.utils import get_address_and_port
    from ray.util.timer import _Timer

    timer = _Timer(window_size=2)
    assert (timer.mean, timer.mean_throughput, timer.has_units_processed()) == (0.0, 0.0, False)
    with timer:
        pass
    assert timer.count == 1
    for seconds, units in ((1.0, 10), (2.0, 20), (4.0, 40)):
        timer.push(seconds)
        timer.push_units_processed(units)
    assert (timer.mean, timer.mean_units_processed, timer.mean_throughput) == (3.0, 30.0, 10.0)

    assert build_address("10.0.0.1", 80) == "10.0.0.1:80"
    assert build_address("::1", "80") == "[::1]:80"
    assert parse_address("[::1]:80") == ("::1", "80")
    assert parse_address("host:1") == ("host", "1")
    assert parse_address("host") is parse_address("::1") is None
    assert find_free_port() > 0
    assert get_address_and_port()[0] == ray.util.get_node_ip_address()


def test_verbosity_of_searches() -> None:
    from ray.tune.utils.log import Verbosity, has_verbosity, set_verbosity

    assert int(Verbosity.V2_TRIAL_NORM) == 2
    set_verbosity(1)
    assert has_verbosity(Verbosity.V1_EXPERIMENT)
    assert not has_verbosity(Verbosity.V2_TRIAL_NORM)
    set_verbosity(Verbosity.V3_TRIAL_DETAILS)
    assert has_verbosity(3)


def test_types_of_drivers_afar_are_those_of_all(ray_start: Any) -> None:
    from ray.util.client.common import ClientActorHandle, ClientObjectRef

    assert isinstance(ray.put(1), ClientObjectRef)
    assert issubclass(ray.actor.ActorHandle, ClientActorHandle)


def test_the_library_of_gpus_is_named_where_it_is_missing() -> None:
    if importlib.util.find_spec("pynvml") is not None:
        pytest.skip("the library is here")
    with pytest.raises(ModuleNotFoundError, match="pip install nvidia-ml-py"):
        importlib.import_module("ray._private.thirdparty.pynvml")
