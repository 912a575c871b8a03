"""Starting, connecting and ending: ``init``, ``shutdown``, the context, ids, the session."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RaySystemError

from tests.helpers.harness import free_port, wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


@pytest.mark.contract("F0.01")
def test_version_and_what_a_bare_import_offers(run_driver: Any) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", ray.__version__)
    assert isinstance(ray.__commit__, str)
    done = run_driver(
        """
        import sys
        import ray
        assert callable(ray.util.get_node_ip_address)
        heavy = {"torch", "pandas", "pyarrow", "numpy"} & set(sys.modules)
        print(f"heavy={sorted(heavy)}")
        print(f"started={ray.is_initialized()}")
        """
    ).check()
    assert done.value("heavy") == "[]"
    assert done.value("started") == "False"


@pytest.mark.heliostat_only("how a start is quick")
def test_a_start_loads_no_module_that_it_does_not_use(run_driver: Any) -> None:
    """asyncio alone is 40 ms, of about 100 that `init` takes."""
    done = run_driver(
        """
        import sys
        import ray
        ray.init(num_cpus=1, log_to_driver=False)
        print(f"heavy={sorted({'asyncio', 'numpy', 'ssl', 'pydantic', 'unittest'} & set(sys.modules))}")
        """
    ).check()
    assert done.value("heavy") == "[]"


@pytest.mark.contract("F0.02")
def test_unknown_keywords_are_refused(ray_down: None) -> None:
    with pytest.raises(RuntimeError, match=r"Unknown keyword argument.*nonsense"):
        ray.init(nonsense=1)
    assert not ray.is_initialized()


@pytest.mark.contract("F0.02", "F0.05")
@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": -1},
        {"num_gpus": -1},
        {"resources": {"X": -1}},
        {"resources": {"CPU": 1}},
        {"num_cpus": "two"},
        {"job_config": 3},
        {"labels": {"a": 1}},
        {"namespace": ""},
        {"namespace": 3},
    ],
    ids=str,
)
def test_wrong_values_are_refused(options: dict[str, Any], ray_down: None) -> None:
    with pytest.raises((ValueError, TypeError, AssertionError)):
        ray.init(address="local", include_dashboard=False, **options)
    assert not ray.is_initialized()


@pytest.mark.contract("F0.12")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"local_mode": True}, "`local_mode` is no longer supported"),
        ({"storage": "/tmp/x"}, "storage.* has been removed"),
    ],
    ids=["local_mode", "storage"],
)
def test_removed_options_say_so(options: dict[str, Any], says: str, ray_down: None) -> None:
    with pytest.raises(RuntimeError, match=says):
        ray.init(**options)


@pytest.mark.contract("F0.10")
def test_other_ways_to_use_and_leave_a_context(ray_down: None) -> None:
    context = ray.init(address="local", num_cpus=1, include_dashboard=False)
    with pytest.warns(DeprecationWarning, match="address_info"):
        assert context["address"] == context.address_info["address"]
    assert "node_id" in list(context)
    with pytest.raises(KeyError), pytest.warns(DeprecationWarning, match="nothing"):
        context["nothing"]
    context.disconnect()
    assert not ray.is_initialized()
    with (
        pytest.raises(ZeroDivisionError),
        ray.init(address="local", num_cpus=1, include_dashboard=False),
    ):
        raise ZeroDivisionError
    assert not ray.is_initialized()


@pytest.mark.contract("F0.05")
@pytest.mark.parametrize(
    "options",
    [
        {"num_cpus": 1},
        {"num_gpus": 1},
        {"resources": {"X": 1}},
        {"labels": {"a": "b"}},
        {"object_store_memory": 100_000_000},
        {"_system_config": {"a": 1}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_an_existing_cluster_has_is_not_given_again(
    ray_start: Any, run_driver: Any, options: dict[str, Any]
) -> None:
    done = run_driver(
        f"""
        import ray
        try:
            ray.init({ray_start.address_info["address"]!r}, **{options!r})
        except ValueError as error:
            print(f"refused={{error}}")
        print(f"started={{ray.is_initialized()}}")
        """
    ).check()
    said = done.value("refused")
    assert "When connecting to an existing cluster" in said
    assert "must not be provided" in said
    assert done.value("started") == "False"


@pytest.mark.contract("F0.02", "F0.10")
def test_the_context(ray_start: Any) -> None:
    assert ray_start.ray_version == ray.__version__
    assert re.match(r"3\.\d+\.\d+", ray_start.python_version)
    assert ray_start.ray_commit == ray.__commit__
    assert not ray_start.dashboard_url
    info = ray_start.address_info
    host, _, port = info["address"].rpartition(":")
    assert host == info["node_ip_address"] == ray.util.get_node_ip_address()
    assert int(port) > 0
    assert info["gcs_address"] == info["address"]
    assert re.fullmatch(r"[0-9a-f]{56}", info["node_id"])


@pytest.mark.contract("F0.10")
def test_is_initialized_and_context_manager(ray_down: None) -> None:
    assert not ray.is_initialized()
    with ray.init(address="local", num_cpus=1, include_dashboard=False) as context:
        assert ray.is_initialized()
        assert context.address_info["node_id"] == ray.get_runtime_context().get_node_id()
    assert not ray.is_initialized()


@pytest.mark.contract("F0.03")
def test_a_second_init_is_refused_or_ignored(ray_start: Any) -> None:
    with pytest.raises(RuntimeError, match=r"ray\.init twice"):
        ray.init(num_cpus=1)
    again = ray.init(ignore_reinit_error=True)
    assert again.address_info["node_id"] == ray_start.address_info["node_id"]
    assert ray.cluster_resources()["CPU"] == 4.0


CONNECT = """
import sys
import ray

try:
    ray.init(address=sys.argv[1])
except ConnectionError as error:
    print(f"refused={error}".replace("\\n", " "))
"""


@pytest.mark.contract("F0.04")
def test_threads_that_begin_a_session_together_share_it(ray_down: None) -> None:
    barrier, found = threading.Barrier(3), []

    def begin() -> None:
        barrier.wait()
        context = ray.init(num_cpus=1, ignore_reinit_error=True)
        found.append(context.address_info["session_dir"])

    threads = [threading.Thread(target=begin) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1


@pytest.mark.contract("F0.04")
def test_auto_without_a_cluster(run_driver: Any, ray_down: None) -> None:
    env = {"RAY_TMPDIR": "/tmp/none-here"}
    assert run_driver(CONNECT, args=["auto"], env=env).check().value("refused")


@pytest.mark.contract("F0.04")
@pytest.mark.heliostat_only("Ray tries for minutes")
def test_connecting_where_nobody_listens(run_driver: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    refused = run_driver(CONNECT, args=[address]).check().value("refused")
    assert "Failed to connect to Ray cluster" in refused
    assert address in refused


@pytest.mark.contract("F0.04", "F0.05", "F0.08")
def test_a_second_driver_of_the_same_cluster(run_driver: Any, ray_start: Any) -> None:
    """It sees the resources, may not change them, and leaves the cluster running."""
    done = run_driver(
        """
        import sys
        import ray

        try:
            ray.init(address=sys.argv[1], num_cpus=2)
        except ValueError as error:
            print(f"refused={error}")
        context = ray.init(address=sys.argv[1])
        print(f"node={context.address_info['node_id']}")
        print(f"cpus={ray.cluster_resources()['CPU']}")
        print(f"job={ray.get_runtime_context().get_job_id()}")

        @ray.remote
        def one():
            return 1

        print(f"sum={sum(ray.get([one.remote() for _ in range(10)]))}")
        """,
        args=[ray_start.address_info["address"]],
    ).check()
    assert "must not be provided" in done.value("refused")
    assert done.value("node") == ray_start.address_info["node_id"]
    assert done.value("cpus") == "4.0"
    assert done.value("sum") == "10"
    assert done.value("job") != ray.get_runtime_context().get_job_id()
    assert ray.get(ray.put(1)) == 1


@pytest.mark.contract("F0.06", "F4.18")
def test_object_store_memory_is_what_was_asked_for(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=1, object_store_memory=200 * 1024 * 1024)
    assert ray.cluster_resources()["object_store_memory"] == 200 * 1024 * 1024
    assert ray.available_resources()["object_store_memory"] == 200 * 1024 * 1024
    (node,) = ray.nodes()
    assert node["Resources"]["object_store_memory"] == 200 * 1024 * 1024


@pytest.mark.contract("F0.06")
def test_the_store_has_a_part_of_the_memory_unless_told_otherwise(ray_fresh: Any) -> None:
    def most() -> float:
        meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(meminfo["MemAvailable"].split()[0]) * 1024
        shm = os.statvfs("/dev/shm")
        return min(0.3 * available, shm.f_bsize * shm.f_blocks, 200e9)

    # Others on this machine take memory and give it back meanwhile.
    before = most()
    ray_fresh(num_cpus=1)
    after = most()
    size = ray.cluster_resources()["object_store_memory"]
    assert 0.5 * min(before, after) < size < 1.5 * max(before, after)


@pytest.mark.contract("F0.02", "F4.09", "F0.13")
def test_resources_and_namespace(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=2, num_gpus=2, resources={"X": 3}, namespace="mine")
    total = ray.cluster_resources()
    assert (total["CPU"], total["GPU"], total["X"]) == (2.0, 2.0, 3.0)
    assert ray.get_runtime_context().namespace == "mine"


@pytest.mark.contract("F0.08")
def test_shutdown_can_be_repeated_and_ends_what_was_made(ray_down: None) -> None:
    ray.init(address="local", num_cpus=1, include_dashboard=False)

    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    class Actor:
        def one(self) -> int:
            return 1

    ref, actor = one.remote(), Actor.remote()
    assert ray.get(actor.one.remote()) == 1
    ray.shutdown()
    ray.shutdown()
    assert not ray.is_initialized()
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    assert ray.get(one.remote()) == 1, "a remote function works again after a new init"
    with pytest.raises(Exception):  # noqa: B017 - the class depends on what was lost
        ray.get(ref, timeout=1)
    with pytest.raises(Exception):  # noqa: B017
        ray.get(actor.one.remote(), timeout=1)
    assert ray.get(Actor.remote().one.remote()) == 1


@pytest.mark.contract("F0.09")
def test_what_starts_a_cluster_by_itself_and_what_does_not(run_driver: Any, ray_down: None) -> None:
    done = run_driver(
        """
        import ray

        for ask in (ray.nodes, ray.cluster_resources, ray.available_resources):
            try:
                ask()
            except ray.exceptions.RaySystemError as error:
                print(f"{ask.__name__}={error}")
        print(f"before={ray.is_initialized()}")
        ref = ray.put(5)
        print(f"after={ray.is_initialized()}")
        print(f"value={ray.get(ref)}")
        """,
        env={"RAY_TMPDIR": "/tmp/hs-auto-init"},
    ).check()
    for name in ("nodes", "cluster_resources", "available_resources"):
        assert "has not been started yet" in done.value(name)
    assert (done.value("before"), done.value("after"), done.value("value")) == (
        "False",
        "True",
        "5",
    )


@pytest.mark.contract("F0.09")
@pytest.mark.parametrize(
    "call",
    [
        "ray.get([])",
        "ray.wait([ray.put(1)])",
        "ray.kill(3)",
        "ray.cancel(3)",
        "ray.get_actor('x')",
        "ray.remote(lambda: 1).remote()",
        "ray.get_gpu_ids()",
        "ray.get_runtime_context()",
        "ray.util.list_named_actors()",
        "ray.util.placement_group([{'CPU': 1}])",
        "from ray.util.placement_group import placement_group; placement_group([{'CPU': 1}])",
        "ray.util.placement_group_table()",
        "ray.util.get_placement_group('none')",
        "ray.util.get_current_placement_group()",
        "from ray.util.placement_group import *; remove_placement_group(PlacementGroup.empty())",
        "from ray.util.queue import Queue; Queue()",
        "import ray.data; ray.data.range(1)",
    ],
)
def test_each_begins_a_session(run_driver: Any, call: str) -> None:
    done = run_driver(
        f"""
        import ray
        try:
            {call}
        except (TypeError, ValueError):
            pass
        print(f"started={{ray.is_initialized()}}")
        """,
        env={"RAY_TMPDIR": "/tmp/hs-auto-init"},
    ).check()
    assert done.value("started") == "True"


@pytest.mark.contract("F0.09")
def test_auto_init_can_be_turned_off(run_driver: Any) -> None:
    done = run_driver(
        """
        import ray

        try:
            ray.put(5)
        except ray.exceptions.RaySystemError as error:
            print(f"refused={error}")
        """,
        env={"RAY_ENABLE_AUTO_CONNECT": "0"},
    ).check()
    assert "has not been started yet" in done.value("refused")


@pytest.mark.contract("F0.09")
def test_before_init_nothing_is_known(ray_down: None) -> None:
    with pytest.raises(RaySystemError, match="has not been started yet"):
        ray.nodes()


@pytest.mark.contract("F0.07", "F0.22")
def test_a_runtime_env_for_the_whole_job(ray_fresh: Any) -> None:
    ray_fresh(num_cpus=2, runtime_env={"env_vars": {"OF_THE_JOB": "1"}})

    @ray.remote
    def read() -> list[str | None]:
        return [os.environ.get("OF_THE_JOB"), os.environ.get("MORE")]

    @ray.remote
    class Reader:
        def read(self) -> str | None:
            return os.environ.get("OF_THE_JOB")

    assert ray.get(read.remote()) == ["1", None]
    assert ray.get(Reader.remote().read.remote()) == "1"
    more = read.options(runtime_env={"env_vars": {"MORE": "2"}})
    assert ray.get(more.remote()) == ["1", "2"]


@pytest.mark.contract("F0.07", "F7.02", "F7.03", "F7.08")
def test_every_field_of_the_jobs_environment_is_inherited(ray_fresh: Any, tmp_path: Path) -> None:
    for folder, value in (("work", "of work"), ("of_the_job", "of the job")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(f"VALUE = {value!r}")
        (tmp_path / folder / "data.txt").write_text(value)
    ray_fresh(
        num_cpus=4,
        runtime_env={
            "env_vars": {"A": "job", "B": "job"},
            "working_dir": str(tmp_path / "work"),
            "py_modules": [str(tmp_path / "of_the_job")],
        },
    )

    def look() -> list[Any]:
        import importlib

        def value(name: str) -> Any:
            try:
                return importlib.import_module(name).VALUE
            except ImportError:
                return None

        environ = os.environ
        data = Path("data.txt").read_text()
        return [environ.get("A"), environ.get("B"), data, value("of_the_job")]

    task = ray.remote(look)

    @ray.remote
    class Actor:
        def look(self) -> list[Any]:
            return look()

        def nested(self) -> Any:
            return ray.get(task.remote())

    @ray.remote
    def nested(env: Any = None) -> Any:
        return ray.get(task.options(runtime_env=env).remote())

    own = {"env_vars": {"B": "own"}}
    everywhere = ["job", "job", "of work", "of the job"]
    merged = ["job", "own", "of work", "of the job"]
    actor = Actor.remote()
    plain = [task.remote(), actor.look.remote(), actor.nested.remote(), nested.remote()]
    assert ray.get(plain) == [everywhere] * 4
    changed = [
        task.options(runtime_env=own).remote(),
        Actor.options(runtime_env=own).remote().look.remote(),
        nested.remote(own),
        nested.options(runtime_env=own).remote(),
    ]
    assert ray.get(changed) == [merged] * 4
    assert os.environ.get("A") is None


@pytest.mark.contract("F0.18")
def test_the_session_directory(ray_start: Any) -> None:
    directory = Path(ray_start.address_info["session_dir"])
    assert re.match(r"session_\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}", directory.name)
    latest = directory.parent / "session_latest"
    assert latest.is_symlink()
    assert (directory / "logs").is_dir()

    @ray.remote
    def say() -> int:
        print("a line for the log")
        print("and another", file=sys.stderr)
        return os.getpid()

    pid = ray.get(say.remote())
    for end in ("out", "err"):
        wait_until(lambda end=end: [*directory.glob(f"logs/worker-*{pid}.{end}")], what=end)


@pytest.mark.contract("F0.18")
@pytest.mark.heliostat_only("Ray's sockets are open to every user of the machine")
def test_the_sockets_are_the_users_own(ray_start: Any) -> None:
    sockets = Path(ray_start.address_info["session_dir"]) / "sockets"
    assert sockets.stat().st_mode & 0o777 == 0o700


@pytest.mark.contract("F0.18")
@pytest.mark.heliostat_only("Ray keeps the folders of all sessions")
def test_folders_of_old_sessions_are_removed(start_driver: Any, tmp_path: Path) -> None:
    def ended(name: str, days: float) -> Path:
        folder = tmp_path / "ray" / name
        (folder / "logs").mkdir(parents=True)
        (folder / "auth_token").touch()
        os.utime(folder, (time.time() - days * 86_400,) * 2)
        return folder

    old = [ended(f"session_old_{n}", 8) for n in range(3)]
    many = [ended(f"session_{n:02}", 1 + n / 100) for n in range(30)]
    driver = start_driver(
        """
        import time
        import ray
        context = ray.init(num_cpus=1, include_dashboard=False)
        print("session=" + context.address_info["session_dir"], flush=True)
        time.sleep(600)
        """,
        env={"HELIOSTAT_TMPDIR": str(tmp_path)},
    )
    session = Path(driver.wait_line("session"))
    wait_until(lambda: not any(folder.exists() for folder in [*old, *many[20:]]), what="removal")
    assert all(folder.exists() for folder in many[:20])
    assert (session / "logs").is_dir()


@pytest.mark.contract("F0.14")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ObjectRef", 28),
        ("TaskID", 24),
        ("ActorID", 16),
        ("JobID", 4),
        ("NodeID", 28),
        ("WorkerID", 28),
        ("PlacementGroupID", 18),
        ("FunctionID", 28),
        ("ActorClassID", 28),
        ("UniqueID", 28),
    ],
)
def test_ids(name: str, size: int) -> None:
    cls = getattr(ray, name)
    raw = bytes(range(1, size + 1))
    one, same = cls(raw), cls(raw)
    assert one.binary() == raw
    assert one.hex() == raw.hex()
    assert one == same
    assert hash(one) == hash(same)
    assert cls.size() == size
    assert not one.is_nil()
    if name not in ("ObjectRef", "UniqueID"):
        assert cls.from_hex(one.hex()) == one
    assert repr(one) == f"{name}({raw.hex()})"
    assert cls.nil().is_nil()
    with pytest.raises(ValueError):
        cls(raw[:-1])


@pytest.mark.heliostat_only("Ray's libraries begin their sessions without a lock")
def test_threads_that_begin_at_once_through_several_libraries_share_one_session(
    run_driver: Any,
) -> None:
    done = run_driver(
        """
        import threading
        import ray
        import ray.data
        from ray import tune
        from ray.util.multiprocessing import Pool

        together, jobs, errors = threading.Barrier(4), set(), []

        def use(library):
            together.wait()
            try:
                library()
                jobs.add(ray.get_runtime_context().get_job_id())
            except BaseException as error:
                errors.append(repr(error))

        libraries = [
            lambda: ray.data.range(8).count(),
            lambda: Pool(1).close(),
            lambda: tune.Tuner(lambda config: {"score": 1}).fit(),
            lambda: ray.put(1),
        ]
        threads = [threading.Thread(target=use, args=(one,)) for one in libraries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"errors={errors}")
        print(f"sessions={len(jobs)}")
        """
    ).check()
    assert done.value("errors") == "[]"
    assert done.value("sessions") == "1"
