"""Drivers outside a cluster: addresses, the builder, refusals. Links: `tests/machines/test_afar.py`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest

pytestmark = pytest.mark.heliostat_only("Ray's client is another program than its driver")

HELIOSTAT = Path(sys.executable).with_name("heliostat")
TOKEN = "the token of a cluster for drivers elsewhere"


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    """A head of its own; `host:port` of its port for drivers."""
    folder = tempfile.mkdtemp(prefix="afar", dir="/tmp")  # short: sockets lie in it
    env = {
        **harness.clean_env(),
        "RAY_TMPDIR": folder,
        "HOME": folder,
        "HELIOSTAT_AUTH_TOKEN": TOKEN,
    }
    options = ["--port=0", "--ray-client-server-port=0", "--include-dashboard=false"]
    size = ["--num-cpus=2", f"--object-store-memory={100 << 20}"]
    start = [str(HELIOSTAT), "start", "--head", *options, *size]
    done = subprocess.run(start, capture_output=True, text=True, env=env, timeout=120)
    try:
        found = re.search(r'ray\.init\("ray://([^"]+)"\)', done.stdout)
        assert found is not None, done.stdout + done.stderr
        yield found[1]
    finally:
        subprocess.run([str(HELIOSTAT), "stop", "--force"], env=env, timeout=120, check=True)
        shutil.rmtree(folder, ignore_errors=True)


Run = Callable[..., harness.Finished]


@pytest.fixture
def run(run_driver: Run, gateway: str) -> Run:
    """Runs a script with the token and ``GATEWAY``."""

    def run(source: str, seconds: float = 60, **env: str) -> harness.Finished:
        env = {"HELIOSTAT_AUTH_TOKEN": TOKEN, "GATEWAY": gateway, **env}
        return run_driver(source, env=env, timeout=seconds)

    return run


@pytest.mark.contract("F8.01", "F8.02")
@pytest.mark.parametrize(
    "connect",
    [
        'ray.init("ray://" + gateway, namespace="n")',
        'ray.init("heliostat://" + gateway + "/", namespace="n", allow_multiple=True)',
        'ray.client(gateway).namespace("n").env({"env_vars": {"A": "b"}}).connect()',
        'ray.client("ray://" + gateway).namespace("n").connect()',
        'ray.util.connect(gateway, namespace="n")',
    ],
)
def test_every_way_to_say_it_connects(run: Run, connect: str) -> None:
    run(
        f"""
        import os, warnings
        import ray

        warnings.simplefilter("ignore", DeprecationWarning)
        gateway = os.environ["GATEWAY"]
        context = {connect}

        @ray.remote
        def double(x):
            return 2 * x, os.environ.get("A", "")

        assert ray.get(double.remote(4)) == (8, "b" if "env_vars" in {connect!r} else "")
        assert ray.get_runtime_context().namespace == "n"
        assert ray.util.client.ray.is_connected() and len(ray.nodes()) == 1
        if not isinstance(context, dict):
            assert context.python_version.count(".") == 2 and context.ray_version == ray.__version__
            with context:
                pass
        else:
            ray.util.disconnect()
        assert not ray.is_initialized() and not ray.util.client.ray.is_connected()
        """
    ).check()


@pytest.mark.contract("F8.01")
def test_the_variable_names_it(run: Run, gateway: str) -> None:
    run(
        """
        import ray
        ray.init()
        assert ray.util.client.ray.is_connected()
        ray.shutdown()
        ray.client()._deprecation_warn_enabled = False
        ray.client(_deprecation_warn_enabled=False).connect()
        assert ray.util.client.ray.is_connected()
        """,
        RAY_ADDRESS=f"ray://{gateway}",
    ).check()


@pytest.mark.contract("F8.01")
def test_two_drivers_at_once_and_no_name_of_one_is_the_others(run: Run, gateway: str) -> None:
    run(
        """
        import os, subprocess, sys
        import ray

        ray.init("ray://" + os.environ["GATEWAY"])

        @ray.remote(num_cpus=0)
        class Named:
            def say(self, n):
                return n

        one = Named.options(name="one").remote()
        assert ray.get(one.say.remote(1)) == 1
        if len(sys.argv) == 1:
            other = [sys.executable, __file__, "other"]
            subprocess.run(other, check=True, timeout=100)
        assert ray.get([one.say.remote(n) for n in range(100)]) == list(range(100))
        """
    ).check()


REFUSED: list[tuple[str, dict[str, str], str, str]] = [
    ("ray://head:port", {}, "ValueError", "Give the head's host and its port for drivers"),
    ("ray://", {}, "ValueError", "such as ray://head.example.com:10001"),
    ("ray://127.0.0.1:1", {}, "ConnectionError", "is not reached: Connection refused"),
    ("GATEWAY", {"HELIOSTAT_AUTH_TOKEN": "no"}, "AuthenticationError", "authentication token"),
]


@pytest.mark.contract("F8.01")
@pytest.mark.parametrize(("address", "env", "error", "says"), REFUSED)
def test_what_is_refused_says_what_to_do(
    run: Run, gateway: str, address: str, env: dict[str, str], error: str, says: str
) -> None:
    address = address.replace("GATEWAY", f"ray://{gateway}")
    finished = run(f"import ray\nray.init({address!r})", **env)
    assert finished.rc == 1
    assert error in finished.stderr, finished.stderr
    assert says in finished.stderr, finished.stderr


@pytest.mark.contract("F8.01")
def test_another_minor_version_of_python_is_refused_and_another_patch_is_not(run: Run) -> None:
    finished = run(
        """
        import os, platform, sys
        import ray

        minor = ".".join(platform.python_version_tuple()[:2])
        platform.python_version = lambda: minor + ".99"
        with ray.init("ray://" + os.environ["GATEWAY"]):
            pass
        platform.python_version = lambda: "3.7.1"
        try:
            ray.init("ray://" + os.environ["GATEWAY"])
        except ConnectionError as error:
            assert f"run the driver with Python {minor}" in str(error), error
            assert "the driver runs Python 3.7.1" in str(error), error
            print("refused=1")
        """
    )
    assert finished.check().value("refused") == "1"


@pytest.mark.contract("F8.02")
def test_a_second_connection_of_a_process_is_refused(run: Run) -> None:
    run(
        """
        import os
        import ray

        address = "ray://" + os.environ["GATEWAY"]
        ray.init(address)
        for keywords, error in [({}, RuntimeError), ({"allow_multiple": True}, NotImplementedError)]:
            try:
                ray.init(address, **keywords)
                raise AssertionError("it was not refused")
            except error as refused:
                assert "ray.shutdown()" in str(refused)
        ray.init(address, ignore_reinit_error=True)
        try:
            ray.client("nowhere_at_all://x")
            raise AssertionError("it was not refused")
        except RuntimeError as refused:
            assert "Module: nowhere_at_all does not exist." in str(refused)
        """
    ).check()


def test_the_port_for_drivers_is_no_port_of_the_head(gateway: str, run_driver: Any) -> None:
    """What comes there by mistake hears where to go."""
    host, _, port = gateway.rpartition(":")
    locate = [str(HELIOSTAT), "locate", f"--address={host}:{port}"]
    env = {
        **harness.clean_env(),
        "HELIOSTAT_AUTH_TOKEN": TOKEN,
        "HOME": os.environ.get("HOME", "/"),
    }
    done = subprocess.run(locate, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode
    assert "this is the port for drivers outside the cluster" in done.stderr


@pytest.mark.contract("F8.01")
def test_the_libraries_work_through_it(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    run(
        f"""
        import os
        import ray
        from ray import serve, train, tune

        ray.init("ray://" + os.environ["GATEWAY"])
        dataset = ray.data.range(1000, override_num_blocks=4).map_batches(lambda b: {{"id": b["id"] * 2}})
        assert dataset.sum("id") == 999_000

        def trial(config):
            tune.report({{"square": config["side"] ** 2}})

        found = tune.Tuner(
            trial,
            param_space={{"side": tune.grid_search([1, 2, 3])}},
            run_config=tune.RunConfig(storage_path={str(tmp_path)!r}, verbose=0),
        ).fit()
        assert sorted(result.metrics["square"] for result in found) == [1, 4, 9]

        @serve.deployment(ray_actor_options={{"num_cpus": 0}})
        class Thrice:
            def __call__(self, value):
                return 3 * value

        assert serve.run(Thrice.bind(), route_prefix=None).remote(14).result(timeout_s=60) == 42
        serve.shutdown()

        def loop():
            context = train.get_context()
            train.report({{"rank": context.get_world_rank(), "size": context.get_world_size()}})

        result = train.DataParallelTrainer(
            loop,
            scaling_config=train.ScalingConfig(num_workers=2),
            run_config=train.RunConfig(storage_path={str(tmp_path)!r}),
        ).fit()
        assert result.metrics["size"] == 2
        """,
        seconds=150,
    ).check()
