"""Drivers outside a cluster: addresses, the builder, refusals. Links: `tests/machines/test_afar.py`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers import harness
from tests.helpers.certificates import Authority

pytestmark = pytest.mark.heliostat_only("Ray's client is another program than its driver")

HELIOSTAT = Path(sys.executable).with_name("heliostat")
TOKEN = "the token of a cluster for drivers elsewhere"


class Head(NamedTuple):
    """A head of its own."""

    address: str  # host:port of its port for drivers
    pid: int


@contextlib.contextmanager
def a_head(*more: str, **variables: str) -> Iterator[Head]:
    """Starts one."""
    folder = tempfile.mkdtemp(prefix="afar", dir="/tmp")  # short: sockets lie in it
    env = {
        **harness.clean_env(),
        "RAY_TMPDIR": folder,
        "HOME": folder,
        "HELIOSTAT_AUTH_TOKEN": TOKEN,
        **variables,
    }
    options = ["--port=0", "--ray-client-server-port=0", "--include-dashboard=false"]
    size = ["--num-cpus=2", f"--object-store-memory={100 << 20}"]
    start = [str(HELIOSTAT), "start", "--head", *options, *size, *more]
    done = subprocess.run(start, capture_output=True, text=True, env=env, timeout=120)
    try:
        found = re.search(r'ray\.init\("ray://([^"]+)"\)', done.stdout)
        assert found is not None, done.stdout + done.stderr
        yield Head(found[1], int(Path(folder, "ray", "session_latest", "node.pid").read_text()))
    finally:
        subprocess.run([str(HELIOSTAT), "stop", "--force"], env=env, timeout=120, check=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with a_head() as head:
        yield head


@pytest.fixture
def gateway(head: Head) -> str:
    return head.address


Run = Callable[..., harness.Finished]


@pytest.fixture
def run(run_driver: Run, gateway: str) -> Run:
    """Runs a script with the token and ``GATEWAY``."""

    def run(source: str, **env: str) -> harness.Finished:
        env = {"HELIOSTAT_AUTH_TOKEN": TOKEN, "GATEWAY": gateway, **env}
        return run_driver(source, env=env)

    return run


@pytest.mark.contract("F8.01", "F8.02")
@pytest.mark.parametrize(
    "connect",
    [
        'ray.init("ray://" + gateway, namespace="n")',
        'ray.init("heliostat://" + gateway + "/", namespace="n")',
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


MANY = """
    import os, threading
    from pathlib import Path
    import ray

    address, errors = "ray://" + os.environ["GATEWAY"], []

    @ray.remote
    def double(x):
        return 2 * x

    @ray.remote(num_cpus=0)
    class Actor:
        def triple(self, x):
            return 3 * x

    def connect(numbers):
        try:
            for number in numbers:
                context = ray.init(address, allow_multiple=True, logging_level="error")
                contexts.append(context)
                with context:
                    actor = Actor.remote()
                    assert ray.get([double.remote(number), actor.triple.remote(number)]) == [
                        2 * number, 3 * number
                    ]
                    ray.kill(actor)
        except BaseException as error:
            errors.append(error)

    def descriptors():
        return len(list(Path(f"/proc/{os.environ['HEAD_PID']}/fd").iterdir()))

    contexts = []
    threads = [threading.Thread(target=connect, args=(range(i, 12, 3),)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert len(contexts) == ray.util.client.num_connected_contexts() == 12
    refs = []
    for number, context in enumerate(contexts):
        with context:
            refs.append(double.remote(number))
    for number, (context, ref) in enumerate(zip(contexts, refs)):
        with context:
            assert ray.get(ref) == 2 * number
    print(f"connected={descriptors()}", flush=True)
    for context in contexts:
        context.disconnect()
"""


@pytest.mark.contract("F8.01")
def test_many_drivers_are_there_at_once_and_leave_nothing_at_the_head(run: Run, head: Head) -> None:
    """``bench/afar.py --drivers 500`` has more."""

    def descriptors() -> int:
        return len(list(Path(f"/proc/{head.pid}/fd").iterdir()))

    run("import os, ray; ray.init('ray://' + os.environ['GATEWAY']).disconnect()").check()
    before = descriptors()
    assert int(run(MANY, HEAD_PID=str(head.pid)).check().value("connected")) > before
    harness.wait_until(lambda: descriptors() <= before, what="the end of their connections")


ENCRYPTED = """
    import os, socket, threading
    import numpy as np
    import ray

    # Between the driver and the gateway, as somebody on the wire; no certificate names its address.
    host, _, port = os.environ["GATEWAY"].rpartition(":")
    heard = bytearray()
    listener = socket.create_server(("127.0.0.2", 0))

    def lead(source, sink):
        while data := source.recv(1 << 16):
            heard.extend(data)
            sink.sendall(data)

    def serve():
        while True:
            near, _ = listener.accept()
            far = socket.create_connection((host, int(port)))
            threading.Thread(target=lead, args=(near, far), daemon=True).start()
            threading.Thread(target=lead, args=(far, near), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    SECRET = "a value that nobody else may read"

    @ray.remote(num_cpus=0)
    def tell(value, box):
        print(value)
        return value, len(ray.get(box[0]))

    with ray.init(f"ray://127.0.0.2:{listener.getsockname()[1]}"):
        large = ray.put(np.frombuffer((SECRET * 10_000).encode(), np.uint8))
        assert ray.get(tell.remote(SECRET, [large])) == (SECRET, 10_000 * len(SECRET))
    assert len(heard) > 10_000 * len(SECRET)
    for secret in (SECRET, os.environ["HELIOSTAT_AUTH_TOKEN"]):
        assert secret.encode() not in heard
"""


@pytest.mark.contract("F8.01", "F6.28")
def test_a_cluster_that_encrypts_by_its_token_needs_nothing_else(run_driver: Run) -> None:
    """``--tls=auto``, through a relay whose address no certificate names."""
    with a_head("--tls=auto") as (address, _):
        env = {"HELIOSTAT_AUTH_TOKEN": TOKEN, "GATEWAY": address}
        run_driver(ENCRYPTED, env=env).check()
        for guess in ("a guess that is as long as a token has to be", "short"):
            refused = run_driver(
                f"import ray; ray.init('ray://{address}')", env={"HELIOSTAT_AUTH_TOKEN": guess}
            )
            assert refused.rc == 1
            assert "certificates of this token do not encrypt" in refused.stderr
            assert "use the authentication token of the cluster's head node" in refused.stderr


@pytest.mark.contract("F8.01", "F6.28")
def test_a_cluster_with_certificates_of_its_own_says_that_they_are_wanted(
    run_driver: Run, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.sign("head", "127.0.0.1")
    files = {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(certificate),
        "RAY_TLS_SERVER_KEY": str(key),
        "RAY_TLS_CA_CERT": str(authority.path),
    }
    with a_head("--node-ip-address=127.0.0.1", **files) as (address, _):
        script = f"import ray; ray.init('ray://{address}'); print('in=1')"
        refused = run_driver(script, env={"HELIOSTAT_AUTH_TOKEN": TOKEN})
        assert refused.rc == 1
        assert "set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT" in refused.stderr
        assert run_driver(script, env={"HELIOSTAT_AUTH_TOKEN": TOKEN, **files}).check().value("in")


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
def test_a_second_connection_is_refused_unless_it_is_asked_for(run: Run, gateway: str) -> None:
    run(
        """
        import os
        import ray

        address = "ray://" + os.environ["GATEWAY"]

        def refused(error, says, act):
            try:
                act()
            except error as raised:
                assert says in str(raised), raised
            else:
                raise AssertionError("it was not refused")

        refused(RuntimeError, "ray://head", lambda: ray.init(allow_multiple=True))
        ray.init(address)
        refused(RuntimeError, "ray.shutdown()", lambda: ray.init(address))
        ray.init(address, ignore_reinit_error=True)
        ray.shutdown()
        context = ray.init(address, allow_multiple=True)
        assert not ray.is_initialized()
        refused(ValueError, "allow_multiple=True", lambda: ray.init(address))
        context.disconnect()
        ray.init(address)
        refused(
            RuntimeError,
            "Module: nowhere_at_all does not exist.",
            lambda: ray.client("nowhere_at_all://x"),
        )
        """
    ).check()


SEVERAL = """
    import asyncio
    import os
    import threading
    import ray

    address = "ray://" + os.environ["GATEWAY"]
    ray.init(num_cpus=1, namespace="own")
    one = ray.init(address, namespace="one", allow_multiple=True)
    two = ray.init(address, namespace="two", allow_multiple=True)
    assert ray.util.client.num_connected_contexts() == 2 and not ray.util.client.ray.is_connected()

    @ray.remote(num_cpus=0)
    def here():
        context = ray.get_runtime_context()
        return context.namespace, context.get_job_id(), context.get_node_id()

    @ray.remote(num_cpus=0)
    class Named:
        def say(self, n):
            return n, ray.get_runtime_context().namespace
        def count(self):
            yield from range(3)

    def seen():
        return ray.get(here.remote())

    own = seen()
    with one:
        first = seen()
        with two:
            second = seen()
        assert seen() == first
    assert seen() == own
    assert [own[0], first[0], second[0]] == ["own", "one", "two"]
    assert len({own[1:], first[1:], second[1:]}) == 3, "jobs of their own"
    assert own[2] != first[2] == second[2], "two are in one cluster, and one is in another"

    def refused(error, act):
        try:
            act()
        except error:
            return
        raise AssertionError("it was not refused")

    with one:
        kept, actor = ray.put("of one"), Named.options(name="a").remote()
        assert ray.get(actor.say.remote(1)) == (1, "one")
        items = actor.count.options(num_returns="streaming").remote()
    with two:
        refused(ValueError, lambda: ray.get_actor("a"))
        refused(ValueError, lambda: ray.get(kept))
        refused(ray.exceptions.RayError, lambda: actor.say.remote(2))
        del items
    with one:
        assert ray.get(kept) == "of one" and ray.get(actor.say.remote(3)) == (3, "one")

    def work(context, name):
        with context:
            mine = Named.remote()
            for n in range(30):
                assert ray.get(mine.say.remote(n)) == (n, name)
                assert seen()[0] == name

            async def wait():
                return await asyncio.gather(*[mine.say.remote(n) for n in range(20)])

            assert asyncio.run(wait()) == [(n, name) for n in range(20)]
            assert mine.say.remote(5).future().result(60) == (5, name)
        done.append(name)

    done = []
    threads = [threading.Thread(target=work, args=of) for of in [(one, "one"), (two, "two")] * 2]
    for thread in threads:
        thread.start()
    for _ in range(30):
        assert seen() == own
    for thread in threads:
        thread.join()
    assert sorted(done) == ["one", "one", "two", "two"]

    one.disconnect()
    one.disconnect()
    with one:
        assert not ray.is_initialized()
    assert ray.util.client.num_connected_contexts() == 1
    with two:
        assert seen() == second
    assert seen() == own
    ray.shutdown()
    assert ray.util.client.num_connected_contexts() == 0
    with two:
        assert not ray.is_initialized()
"""


@pytest.mark.contract("F8.02")
def test_a_process_has_several_connections_and_each_thread_chooses_its_own(run: Run) -> None:
    run(SEVERAL).check()


class Cutter:
    """Leads connections to the gateway, and cuts each after some frames behind its greeting."""

    GREETING = 2  # frames of each direction: the handshake, and what begins a session

    def __init__(self, gateway: str) -> None:
        host, _, port = gateway.rpartition(":")
        self._gateway = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cuts, self.cutting = 0, False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        left = [1 + self.cuts % 3]
        with near, socket.create_connection(self._gateway) as far:
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self._lead, args=(far, near, left), daemon=True)
            back.start()
            self._lead(near, far, left)
            back.join()

    def _lead(self, source: socket.socket, sink: socket.socket, left: list[int]) -> None:
        count = 0
        with contextlib.suppress(OSError):
            while (head := self._read(source, 4)) and left[0] > 0:
                frame = head + self._read(source, int.from_bytes(head, "little"))
                count += 1
                if self.cutting and count > self.GREETING:
                    left[0] -= 1
                    if left[0] == 0:
                        self.cuts += 1
                        frame = frame[: len(frame) // 2 if self.cuts % 2 else len(frame)]
                sink.sendall(frame)
                if left[0] == 0:
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _read(self, source: socket.socket, length: int) -> bytes:
        read = b""
        while len(read) < length and (more := source.recv(length - len(read))):
            read += more
        return read

    def close(self) -> None:
        self._listener.close()


@pytest.mark.contract("F8.01")
def test_a_connection_that_ends_after_every_frame_or_in_its_middle_loses_nothing(
    gateway: str, tmp_path: Path
) -> None:
    cutter = Cutter(gateway)
    source = """
    import os, time
    import numpy as np
    import ray

    ray.init("ray://" + os.environ["GATEWAY"], log_to_driver=False)

    @ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)
    class Counter:
        def __init__(self):
            self.calls = 0
        def count(self, number):
            self.calls += 1
            return self.calls, number
        def total(self, values):
            return int(values.sum())
        def up(self):
            yield from range(3)

    counter = Counter.remote()
    assert ray.get(counter.count.remote(1)) == (1, 1)
    print("ready=1", flush=True)
    while not os.path.exists("cutting"):
        time.sleep(0.01)
    for calls in range(2, 22):
        assert ray.get(counter.count.remote(calls)) == (calls, calls)
    assert ray.get(counter.total.remote(ray.put(np.ones(300_000, np.uint8)))) == 300_000
    up = counter.up.options(num_returns="streaming").remote()
    assert [ray.get(item) for item in up] == [0, 1, 2]
    print("done=1")
    """
    try:
        env = {"HELIOSTAT_AUTH_TOKEN": TOKEN, "GATEWAY": cutter.address}
        driver = harness.start_driver(tmp_path, source, env=env)
        driver.wait_line("ready")
        cutter.cutting = True
        (tmp_path / "cutting").touch()
        assert driver.finish().check().value("done") == "1"
        assert cutter.cuts > 20, "it was cut again and again"
    finally:
        cutter.close()


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
    ).check()
