"""Calls of gRPC: users' own services, their metadata, streams, errors, and what Serve's own service says."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue
from ray import serve
from ray.serve.config import RequestRouterConfig, gRPCOptions
from ray.serve.generated import serve_pb2, serve_pb2_grpc
from ray.serve.grpc_util import RayServegRPCContext, gRPCInputStream
from ray.serve.request_router import PendingRequest, RequestRouter

from tests.helpers.greeter import FUNCTION, GENERATED
from tests.helpers.harness import IS_HELIOSTAT, free_port, wait_until
from tests.helpers.scraping import until

CLUSTER = {"num_cpus": 4, "_metrics_export_port": free_port()}
# A deadline against a hang.
S = 60


@serve.deployment(max_ongoing_requests=20, ray_actor_options={"num_cpus": 0})
class Greeter:
    def __init__(self, name: str = "greeter") -> None:
        self.name = name
        self.seen: list[str] = []

    def Hello(self, request: StringValue) -> StringValue:
        return StringValue(value=f"{self.name} says hello to {request.value}")

    async def Fail(self, request: StringValue, grpc_context: RayServegRPCContext) -> StringValue:
        if request.value == "raise":
            raise ValueError("50 % of it\nis wrong: ü")
        if request.value == "wrong":
            return "text"  # type: ignore[return-value]
        if request.value == "slow":
            self.seen.append("begun")
            try:
                await asyncio.sleep(10 * S)
            except asyncio.CancelledError:
                self.seen.append("cancelled")
                raise
        if request.value == "metadata":
            metadata = dict(grpc_context.invocation_metadata())
            grpc_context.set_trailing_metadata(
                [("back", metadata["there"]), ("back-bin", metadata["there-bin"])]
            )
            said = [
                grpc_context.application(),
                grpc_context.request_id(),
                serve.get_multiplexed_model_id(),
                grpc_context.peer().split(":")[0],
            ]
            return StringValue(value=repr(said))
        grpc_context.set_code(grpc.StatusCode.DATA_LOSS)
        grpc_context.set_details("it is lost")
        if request.value == "raise with a code":
            raise ValueError("not said")
        return StringValue(value="x")

    async def Count(self, request: Int64Value) -> AsyncIterator[Int64Value]:
        for number in range(request.value):
            yield Int64Value(value=number)
        if request.value == 3:
            raise ValueError("no four")

    async def Sum(self, numbers: gRPCInputStream[Int64Value]) -> Int64Value:
        return Int64Value(value=sum([number.value async for number in numbers]))

    async def Chat(self, words: gRPCInputStream[StringValue]) -> AsyncIterator[StringValue]:
        yield StringValue(value="you first")
        async for word in words:
            yield StringValue(value=word.value.upper())

    def what(self) -> list[str]:
        return self.seen


class Calls:
    """A client: the methods of the service, by name."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)]
        )
        self.metadata: list[tuple[str, str]] = []
        self.own = serve_pb2_grpc.RayServeAPIServiceStub(self.channel)

    def _call(self, kind: str, name: str, asked: Any, said: Any) -> Any:
        make = getattr(self.channel, kind)
        return make(
            f"/test.Greeter/{name}",
            request_serializer=asked.SerializeToString,
            response_deserializer=said.FromString,
        )

    def hello(self, name: str, **options: Any) -> str:
        call = self._call("unary_unary", "Hello", StringValue, StringValue)
        return str(call(StringValue(value=name), timeout=S, **options).value)

    def fail(self, how: str, name: str = "Fail", **options: Any) -> grpc.RpcError:
        call = self._call("unary_unary", name, StringValue, StringValue)
        with pytest.raises(grpc.RpcError) as caught:
            call(StringValue(value=how), **{"timeout": S, **options})
        return caught.value

    def count(self, most: int) -> Any:
        call = self._call("unary_stream", "Count", Int64Value, Int64Value)
        return call(Int64Value(value=most), timeout=S, metadata=self.metadata)

    def sum(self, numbers: Iterator[int]) -> int:
        call = self._call("stream_unary", "Sum", Int64Value, Int64Value)
        return int(call((Int64Value(value=one) for one in numbers), timeout=S).value)

    def chat(self, words: Iterator[str]) -> Any:
        call = self._call("stream_stream", "Chat", StringValue, StringValue)
        return call((StringValue(value=one) for one in words), timeout=S)


@pytest.fixture(scope="module")
def servicer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The import path of the service's function, which processes of the cluster find, too."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "greeter_pb2_grpc.py").write_text(GENERATED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        yield FUNCTION
        sys.modules.pop("greeter_pb2_grpc", None)


@pytest.fixture
def calls(servicer: str, ray_start: Any) -> Iterator[Calls]:
    """Serve runs with a gRPC server, without applications."""
    port = free_port()
    options = gRPCOptions(port=port, grpc_servicer_functions=[servicer])
    serve.start(http_options={"port": free_port()}, grpc_options=options)
    client = Calls(port)
    yield client
    client.channel.close()
    serve.shutdown()


@pytest.mark.contract("F12.08", "F12.09")
def test_a_method_is_called_with_its_message_and_answers_with_one(calls: Calls) -> None:
    serve.run(Greeter.bind())
    assert calls.hello("you") == "greeter says hello to you"
    large = "x" * (9 << 20)
    assert calls.hello(large) == f"greeter says hello to {large}"
    names = [str(number) for number in range(200)]
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda at=at: found.extend(map(calls.hello, names[at : at + 25])))
        for at in range(0, 200, 25)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"greeter says hello to {name}" for name in names)


class Noted(RequestRouter):
    """Any replica; which methods it was asked for is written down."""

    def initialize_state(self, log: str = "") -> None:
        self.log = log

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: PendingRequest | None = None
    ) -> list[list[Any]]:
        assert pending_request is not None
        with open(self.log, "a") as file:
            file.write(f"{pending_request.args[0]['path']}\n")
        return [candidate_replicas]


@pytest.mark.contract("F12.08")
@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's routers get a message for an argument")
def test_a_router_of_the_users_own_decides_for_calls(calls: Calls, tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = RequestRouterConfig(
        request_router_class=Noted, request_router_kwargs={"log": str(log)}
    )
    serve.run(Greeter.options(num_replicas=2, request_router_config=config).bind())
    large = "x" * (2 << 20)
    assert [calls.hello(one) for one in ("you", large)] == [
        f"greeter says hello to {one}" for one in ("you", large)
    ]
    assert [one.value for one in calls.count(5)] == [0, 1, 2, 3, 4]
    # A client that streams is not passed on.
    assert calls.sum(iter(range(10))) == 45
    asked = [line.rpartition("/")[2] for line in log.read_text().splitlines()]
    assert len(asked) == 3
    assert asked[0] == asked[1] != asked[2]


@pytest.mark.contract("F12.08")
def test_streams_go_either_way_and_both(calls: Calls) -> None:
    serve.run(Greeter.bind())
    assert [one.value for one in calls.count(5)] == [0, 1, 2, 3, 4]
    assert [one.value for one in calls.count(0)] == []
    assert calls.sum(iter(range(1000))) == sum(range(1000))
    assert calls.sum(iter([])) == 0
    # Each answer is waited for before the next word is sent, and the first comes before any.
    heard: list[str] = []
    ready = threading.Semaphore(0)

    def words() -> Iterator[str]:
        for word in ("a", "b", "c"):
            assert ready.acquire(timeout=S)
            yield word

    for answer in calls.chat(words()):
        heard.append(answer.value)
        ready.release()
    assert heard == ["you first", "A", "B", "C"]


@pytest.mark.contract("F12.08")
def test_a_stream_that_fails_gives_what_came_before(calls: Calls) -> None:
    serve.run(Greeter.bind())
    heard = []
    with pytest.raises(grpc.RpcError) as caught:
        for one in calls.count(3):
            heard.append(one.value)
    assert heard == [0, 1, 2]
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "no four" in caught.value.details()
    if IS_HELIOSTAT:
        tags = {"application": "default", "method": "/test.Greeter/Count"}
        until("ray_serve_num_grpc_requests_total", 1, status_code="13", **tags)
        until("ray_serve_num_grpc_error_requests_total", 1, error_code="13", **tags)
        until("ray_serve_grpc_request_latency_ms_count", 1, **tags)
        until("ray_serve_num_ongoing_grpc_requests", 0, deployment="Greeter")


@pytest.mark.contract("F12.08")
def test_what_is_wrong_is_said_by_a_status(calls: Calls) -> None:
    serve.run(Greeter.bind())
    raised = calls.fail("raise")
    assert raised.code() is grpc.StatusCode.INTERNAL
    assert "50 % of it\nis wrong: ü" in raised.details()
    chosen = calls.fail("choose")
    assert (chosen.code(), chosen.details()) == (grpc.StatusCode.DATA_LOSS, "it is lost")
    both = calls.fail("raise with a code")
    assert (both.code(), both.details()) == (grpc.StatusCode.DATA_LOSS, "it is lost")
    assert calls.fail("wrong").code() is grpc.StatusCode.INTERNAL
    late = calls.fail("slow", timeout=1)
    assert late.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.heliostat_only("Ray says INTERNAL, and its sentences are others")
def test_methods_that_are_not_there_are_named(calls: Calls) -> None:
    serve.run(Greeter.bind())
    absent = calls.fail("x", name="Absent")
    assert absent.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "'Absent'" in absent.details()
    unheard = calls.fail("x", name="Unheard")
    assert unheard.code() is grpc.StatusCode.UNIMPLEMENTED
    wrong = calls.fail("wrong")
    assert "returned a str" in wrong.details()


@pytest.mark.contract("F12.08")
def test_metadata_goes_there_and_back(calls: Calls) -> None:
    serve.run(Greeter.bind(), name="one")
    call = calls._call("unary_unary", "Fail", StringValue, StringValue)
    metadata = [
        ("application", "one"),
        ("request_id", "number 7"),
        ("multiplexed_model_id", "large"),
        ("there", "a b"),
        ("there-bin", b"\x00\xff"),
    ]
    answer, done = call.with_call(StringValue(value="metadata"), metadata=metadata, timeout=S)
    assert answer.value == repr(["one", "number 7", "large", "ipv4"])
    back = dict(done.trailing_metadata())
    assert (back["back"], back["back-bin"]) == ("a b", b"\x00\xff")
    assert back["request_id"] == "number 7"


@pytest.mark.contract("F12.08")
def test_the_application_is_picked_by_metadata(calls: Calls) -> None:
    serve.run(Greeter.bind("first"), name="one", route_prefix="/one")
    assert calls.hello("x").startswith("first"), "there is one only"
    serve.run(Greeter.bind("second"), name="two", route_prefix="/two")
    assert calls.hello("x", metadata=[("application", "one")]).startswith("first")
    assert calls.hello("x", metadata=[("application", "two")]).startswith("second")
    for metadata in ([], [("application", "three")]):
        error = calls.fail("x", metadata=metadata)
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert "/ray.serve.RayServeAPIService/ListApplications" in error.details()
    listed = calls.own.ListApplications(serve_pb2.ListApplicationsRequest(), timeout=S)
    assert sorted(listed.application_names) == ["one", "two"]
    assert calls.own.Healthz(serve_pb2.HealthzRequest(), timeout=S).message == "success"


@pytest.mark.contract("F12.08")
def test_before_any_application_nothing_is_healthy(calls: Calls) -> None:
    for ask in (calls.own.Healthz, calls.own.ListApplications):
        with pytest.raises(grpc.RpcError) as caught:
            ask(serve_pb2.HealthzRequest(), timeout=S)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert calls.fail("x", name="Hello").code() is grpc.StatusCode.NOT_FOUND


def _health(calls: Calls) -> bytes:
    check = calls.channel.unary_unary("/grpc.health.v1.Health/Check")
    return bytes(check(b"", timeout=S))


@pytest.mark.heliostat_only("Ray has no such service")
def test_load_balancers_ask_the_usual_service_of_health(calls: Calls) -> None:
    assert _health(calls) == b"\x08\x02"  # NOT_SERVING
    serve.run(Greeter.bind())
    assert _health(calls) == b"\x08\x01"  # SERVING


@pytest.mark.contract("F12.09")
@pytest.mark.parametrize("version", ["v1alpha", "v1"])
def test_tools_are_told_of_services_and_their_messages(calls: Calls, version: str) -> None:
    if version == "v1" and not IS_HELIOSTAT:
        pytest.skip("Ray's package has v1alpha")
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    # list_services, file_containing_symbol, file_by_filename and a symbol that is not there
    asked = [b"\x3a\x01*", b"\x22\x0ctest.Greeter", b"\x1a\x0dgreeter.proto", b"\x22\x01x"]
    listed, by_symbol, by_name, nothing = calls.channel.stream_stream(path)(iter(asked), timeout=S)
    assert b"test.Greeter" in listed
    assert b"grpc.reflection" in listed
    module = sys.modules["greeter_pb2_grpc"]
    for found in (by_symbol, by_name):
        assert module.FILE.SerializeToString() in found
    assert b"\x08\x05" in nothing  # NOT_FOUND


@pytest.mark.contract("F12.08")
def test_a_call_whose_client_goes_is_cancelled(calls: Calls) -> None:
    handle = serve.run(Greeter.bind())
    call = calls._call("unary_unary", "Fail", StringValue, StringValue)
    asked = call.future(StringValue(value="slow"), timeout=S)
    wait_until(lambda: "begun" in handle.what.remote().result())
    asked.cancel()
    wait_until(lambda: "cancelled" in handle.what.remote().result())


@pytest.mark.contract("F12.08")
@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_understood(calls: Calls, how: grpc.Compression) -> None:
    serve.run(Greeter.bind())
    name = "x" * 100_000
    assert calls.hello(name, compression=how) == f"greeter says hello to {name}"


@pytest.mark.heliostat_only("gRPC's own server says this on Ray")
def test_messages_that_are_none_are_refused(calls: Calls) -> None:
    serve.run(Greeter.bind())
    raw = calls.channel.unary_unary("/test.Greeter/Hello")
    with pytest.raises(grpc.RpcError) as caught:
        raw(b"\xff\xff\xff", timeout=S)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "not of the method's kind" in caught.value.details()
    assert calls.hello("x") == "greeter says hello to x"


@pytest.mark.contract("F12.08")
def test_calls_outlive_an_update_and_a_replica(calls: Calls) -> None:
    serve.run(Greeter.options(num_replicas=2).bind("old"))
    stop, failed, heard = threading.Event(), [], set()

    def ask() -> None:
        while not stop.is_set():
            try:
                heard.add(calls.hello("x").split()[0])
            except grpc.RpcError as error:
                failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: "old" in heard)
    serve.run(Greeter.options(num_replicas=2).bind("new"))
    wait_until(lambda: "new" in heard)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.contract("F12.09")
def test_functions_that_are_not_there_are_named_before_anything_starts(ray_start: Any) -> None:
    for path, kind in {
        "no_such_module.add": ModuleNotFoundError,
        "json.add_Nothing": ValueError,
    }.items():
        with pytest.raises(kind, match=path.split(".")[0]):
            serve.start(
                http_options={"port": free_port()},
                grpc_options=gRPCOptions(port=free_port(), grpc_servicer_functions=[path]),
            )
        with pytest.raises(kind):
            gRPCOptions(grpc_servicer_functions=[path]).grpc_servicer_func_callable  # noqa: B018
    serve.shutdown()


@pytest.mark.heliostat_only("Ray's servers say this of a port in their logs")
def test_a_port_that_is_taken_is_named(servicer: str, ray_start: Any) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=rf"127\.0\.0\.1:{port}: .*grpc_options"):
            serve.start(
                http_options={"port": free_port()},
                grpc_options={"port": port, "grpc_servicer_functions": [servicer]},
            )
    serve.shutdown()


@pytest.mark.contract("F12.01", "F12.08")
@pytest.mark.heliostat_only("Ray writes them elsewhere")
def test_a_call_is_a_trace_of_the_server_and_the_replica(servicer: str, ray_start: Any) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra `tracing` brings it")
    from tests.helpers.spans import of

    serve.start(
        http_options={"port": free_port()},
        grpc_options=gRPCOptions(port=(port := free_port()), grpc_servicer_functions=[servicer]),
        tracing_config={"enabled": True, "sampling_ratio": 1},
    )
    client = Calls(port)
    try:
        serve.run(Greeter.bind())
        for trace_id, most, code in (("a" * 32, 2, 0), ("b" * 32, 3, 13)):
            client.metadata = [("traceparent", f"00-{trace_id}-{'1' * 16}-01")]
            with contextlib.suppress(grpc.RpcError):
                list(client.count(most))
            found = of(trace_id, 2)
            server = found["proxy_grpc_request Greeter /test.Greeter/Count"]
            assert server["parent_id"] == f"0x{'1' * 16}"
            assert server["attributes"]["rpc.method"] == "Count"
            assert server["attributes"]["rpc.grpc.status_code"] == code
            assert (server["status"]["status_code"] == "ERROR") == bool(code)
            (replica,) = (row for row in found.values() if row is not server)
            assert replica["parent_id"] == server["context"]["span_id"]
    finally:
        client.channel.close()
        serve.shutdown()
