"""Serve with an HTTP and a gRPC server on each machine that has a replica, and without a head for a while."""

from __future__ import annotations

import json

import pytest

from tests.helpers.greeter import FUNCTION, GENERATED
from tests.helpers.harness import wait_until
from tests.machines.machines import Machine, Machines

pytestmark = [
    pytest.mark.contract("F12.04"),
    pytest.mark.heliostat_only("machines of namespaces"),
]

HTTP, GRPC = 8123, 9123

DEPLOY = f"""
    import sys
    import ray
    from google.protobuf.wrappers_pb2 import StringValue
    from ray import serve

    ray.init()
    serve.start(
        proxy_location="EveryNode",
        http_options={{"host": "0.0.0.0", "port": {HTTP}}},
        grpc_options={{"port": {GRPC}, "grpc_servicer_functions": ["{FUNCTION}"]}},
    )

    @serve.deployment(num_replicas=2, max_replicas_per_node=1)
    class Far:
        def __init__(self, word):
            self.word = word

        def __call__(self, request):
            return self.word

        def Hello(self, request):
            return StringValue(value=f"{{self.word}} {{request.value}}")

    serve.run(Far.bind(sys.argv[1]), name="far")
    print("done=1")
"""

# What machines say of themselves and of the application; "" where nobody answers.
ASK = f"""
    import json
    import sys
    import urllib.request
    import grpc
    from google.protobuf.wrappers_pb2 import StringValue

    def http(ip, path):
        try:
            with urllib.request.urlopen(f"http://{{ip}}:{HTTP}{{path}}", timeout=30) as answer:
                return answer.read().decode()
        except OSError as error:
            return f"! {{error}}"

    def call(ip):
        with grpc.insecure_channel(f"{{ip}}:{GRPC}") as channel:
            method = channel.unary_unary(
                "/test.Greeter/Hello",
                request_serializer=StringValue.SerializeToString,
                response_deserializer=StringValue.FromString,
            )
            try:
                return method(StringValue(value="you"), timeout=30).value
            except grpc.RpcError as error:
                return f"! {{error.code()}}"

    found = {{ip: [http(ip, "/"), call(ip), http(ip, "/-/healthz")] for ip in sys.argv[1:]}}
    print("found=" + json.dumps(found))
"""


def asked(from_there: Machine, machines: list[Machine]) -> dict[str, list[str]]:
    """What each machine answers: over HTTP, over gRPC, and of its health."""
    ips = [machine.ip for machine in machines]
    told = from_there.start_script(ASK, name="ask", args=ips).finish().check()
    found: dict[str, list[str]] = json.loads(told.stdout.partition("found=")[2])
    return found


@pytest.mark.usefixtures("_can_make")
def test_every_machine_answers_also_while_the_head_is_away() -> None:
    with Machines(3) as machines:
        head, one, other = machines
        (head.directory / "greeter_pb2_grpc.py").write_text(GENERATED)
        env = {"PYTHONPATH": str(head.directory)}
        started = "--num-cpus=0"
        head.start_head(started, env=env)
        for machine in (one, other):
            machine.join(head, env=env)

        def deploy(word: str) -> None:
            head.start_script(DEPLOY, env=env, args=[word]).finish().check()

        def all_say(word: str, *, is_head_away: bool = False) -> bool:
            found = asked(one, machines)  # from a machine that is no head
            said = found[head.ip].pop()
            is_away = said.startswith("success\nThe daemon of this node has ended")
            healthy = [word, f"{word} you", "success"]
            wanted = {machine.ip: healthy for machine in (one, other)} | {head.ip: healthy[:2]}
            return found == wanted and is_away == is_head_away and said.startswith("success")

        deploy("here")
        wait_until(lambda: all_say("here"), what="the servers of all machines")
        head.run("bash", "-c", "kill -9 $(cat /tmp/ray/session_latest/node.pid)")
        wait_until(lambda: all_say("here", is_head_away=True), what="servers without a head")
        head.start_head(started, env=env)
        wait_until(lambda: all_say("here"), what="the next head")
        deploy("there")
        wait_until(lambda: all_say("there"), what="the next controller's word")
