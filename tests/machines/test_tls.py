"""Connections between machines that are encrypted: what is heard on the wire, and who is let in."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.helpers import clocks, harness
from tests.helpers.certificates import DAY, Authority
from tests.machines.machines import HELIOSTAT, PORT, TOKEN, Machine, Machines
from tests.machines.wire import Listener

pytestmark = [
    pytest.mark.heliostat_only("Ray's ports are many, and its objects travel otherwise"),
]

SECRET = "a value that nobody else may read"

# Values, names and code of every kind go from each machine to each other, through every kind of connection:
# calls to workers and actors, small and large objects, packages of code, logs, the control service.
# A machine that was stopped by force is known to be dead only after a while.
GONE = """
    import time
    import ray

    ray.init(logging_level="error")
    deadline = time.monotonic() + 60
    while "{resource}" in ray.cluster_resources():
        assert time.monotonic() < deadline, "the machine counts as alive"
        time.sleep(0.1)
"""
EVERYTHING = """
    import os
    import numpy as np
    import ray

    SECRET = "a value that nobody else may read"
    MIB = 1 << 20
    package = os.path.join(os.path.dirname(__file__), "package")
    os.makedirs(package, exist_ok=True)
    with open(os.path.join(package, "secret.py"), "w") as file:
        file.write(f"SECRET = {SECRET!r} # " + SECRET * 1000)
    ray.init(namespace=SECRET, runtime_env={"py_modules": [package]})

    def large():
        return np.frombuffer((SECRET * (4 * MIB // len(SECRET) + 1)).encode(), dtype=np.uint8)

    @ray.remote(num_cpus=0)
    def tell(value):
        print(value[:100])
        return value

    @ray.remote(num_cpus=0)
    class Keeper:
        def keep(self, box):
            return bytes(ray.get(box[0])[:len(SECRET)]).decode()
        def make(self):
            return ray.put(large())
        def call(self, other, box):
            return ray.get(other.keep.remote(box))
        def medium(self):
            return (SECRET * 1000)

    names = sorted(name for name in ray.cluster_resources() if name[:1] == "m" and name[1:].isdigit())
    on = [{"resources": {name: 1}} for name in names]
    assert ray.get([tell.options(**o).remote(SECRET * n) for o in on for n in (1, 1000, 100_000)]) == [
        SECRET * n for o in on for n in (1, 1000, 100_000)
    ]
    keepers = [Keeper.options(name=f"{SECRET} {i}", **o).remote() for i, o in enumerate(on)]
    ours = ray.put(large())
    assert ray.get([k.keep.remote([ours]) for k in keepers]) == [SECRET] * len(on)
    for i, one in enumerate(keepers):
        theirs = ray.get(one.make.remote())
        for other in keepers[:i] + keepers[i + 1 :]:
            assert ray.get(one.call.remote(other, [theirs])) == SECRET
        assert ray.get(one.medium.remote()) == SECRET * 1000
        assert ray.get(ray.get_actor(f"{SECRET} {i}").medium.remote()) == SECRET * 1000
    assert ray.get([k.keep.remote([ray.put(large())]) for k in keepers for _ in range(2)])
    print(f"machines={len(on)}")
"""


class Field:
    """Machines with certificates of one authority."""

    def __init__(self, count: int) -> None:
        self.field = Machines(count)
        self.authority = Authority(self.field.directory / "authority")
        self.all = self.field.all

    def variables(self, machine: Machine, authority: Authority | None = None) -> dict[str, str]:
        authority = authority or self.authority
        return authority.variables(authority.sign(f"machine{machine.index}", machine.ip))

    def start(self, *options: str) -> list[Machine]:
        head, *others = self.all
        head.start_head("--include-dashboard=false", *options, env=self.variables(head))
        for machine in others:
            machine.join(head, env=self.variables(machine))
        return self.all


@pytest.fixture
def make_field(_can_make: None) -> Iterator[type[Field]]:
    made: list[Field] = []

    class Made(Field):
        def __init__(self, count: int) -> None:
            super().__init__(count)
            made.append(self)

    yield Made
    for field in made:
        field.field.close()


def start(machine: Machine, *options: str, env: dict[str, str]) -> tuple[int, str]:
    """A start that may fail: its code, and what it says."""
    done = machine.run(str(HELIOSTAT), "start", *machine.common(*options), env=env, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.contract("F6.28")
@pytest.mark.parametrize("is_encrypted", [True, False])
def test_nothing_is_heard_on_the_wire(make_field: type[Field], is_encrypted: bool) -> None:
    """The same without encryption shows that the listener would have heard it."""
    field = make_field(3)
    with Listener(*field.all) as listener:
        if is_encrypted:
            field.start()
        else:
            head, *others = field.all
            head.start_head("--include-dashboard=false")
            for machine in others:
                machine.join(head)
        for machine in field.all[:2]:
            env = field.variables(machine) if is_encrypted else {}
            driver = machine.start_script(EVERYTHING, env=env)
            assert driver.finish().check().value("machines") == "3"
        heard = listener.stop()
    assert len(heard) > 20 << 20, "large objects went over the wire"
    for secret in (SECRET, TOKEN):
        assert (secret.encode() in heard) is not is_encrypted


@pytest.mark.contract("F6.28", "F8.01")
def test_nothing_of_a_driver_outside_the_cluster_is_heard_on_the_wire(
    make_field: type[Field],
) -> None:
    field = make_field(3)
    head, node, laptop = field.all
    field.field.partition([laptop], [node])
    with Listener(*field.all) as listener:
        head.start_head("--include-dashboard=false", env=field.variables(head))
        node.join(head, env=field.variables(node))
        # The cluster's machines reach the laptop at the head's address.
        shown = field.authority.variables(field.authority.sign("laptop", head.ip))
        address = {"RAY_ADDRESS": f"ray://{head.ip}:10001"}
        driver = laptop.start_script(EVERYTHING, env={**shown, **address})
        assert driver.finish().check().value("machines") == "2"
        heard = listener.stop()
    assert len(heard) > 10 << 20, "large objects went over the wire"
    for secret in (SECRET, TOKEN):
        assert secret.encode() not in heard


@pytest.mark.contract("F6.28")
def test_who_is_no_member_is_told_both_ends(make_field: type[Field]) -> None:
    """And whoever is a member joins afterwards."""
    field = make_field(2)
    head, other = field.all
    head.start_head("--include-dashboard=false", env=field.variables(head))
    stranger = Authority(field.field.directory / "stranger", "strangers")
    of_stranger = stranger.variables(stranger.sign("other", other.ip))
    both = field.field.directory / "both.crt"
    both.write_bytes(field.authority.path.read_bytes() + stranger.path.read_bytes())
    cases = [
        # What it shows, what it says, what the head says.
        ({}, "are encrypted: set RAY_USE_TLS=1", "are encrypted: set RAY_USE_TLS=1"),
        (of_stranger, "its certificate is not of an authority", "in the other machine's"),
        # The head is believed, and believes nobody of that authority.
        ({**of_stranger, "RAY_TLS_CA_CERT": str(both)}, "in the other machine's", "is not of an"),
    ]
    for env, said_here, said_there in cases:
        code, said = start(other, f"--address={head.ip}:{PORT}", env=env)
        assert code != 0
        assert said_here in said, said

        def is_told(text: str = said_there) -> bool:
            return text in head.logs()

        harness.wait_until(is_told, what=said_there)
    other.join(head, env=field.variables(other))


@pytest.mark.contract("F6.28")
def test_an_encrypted_node_is_told_that_the_cluster_is_not(make_field: type[Field]) -> None:
    field = make_field(2)
    head, other = field.all
    head.start_head("--include-dashboard=false")
    code, said = start(other, f"--address={head.ip}:{PORT}", env=field.variables(other))
    assert code != 0
    assert "connections of this cluster are not encrypted: unset RAY_USE_TLS" in said
    harness.wait_until(lambda: "are not encrypted" in head.logs(), what="the head says so, too")
    other.join(head)


ASK = """
    import sys, urllib.request, urllib.error, ssl

    url, ca, token = sys.argv[1:]
    context = ssl.create_default_context(cafile=ca) if url.startswith("https") else None
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            print(answer.status, answer.read().decode()[:1000])
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode()[:1000])
"""


def ask(machine: Machine, url: str, authority: Authority, token: str = TOKEN) -> str:
    script = textwrap.dedent(ASK)
    return machine.run(sys.executable, "-c", script, url, str(authority.path), token).stdout


@pytest.mark.contract("F6.28", "F14.01")
def test_http_between_machines_is_encrypted(make_field: type[Field]) -> None:
    field = make_field(2)
    head, other = field.all
    head.start_head(
        "--dashboard-host=0.0.0.0", "--metrics-export-port=9100", env=field.variables(head)
    )
    other.join(head, env=field.variables(other))
    server, authority = f"{head.ip}:8265", field.authority
    with Listener(head, other) as listener:
        submit = [str(HELIOSTAT), "job", "submit", "--address", f"https://{server}", "--verify"]
        command = ["--", "echo", SECRET]
        said = other.run(*submit, str(authority.path), *command).stdout
        assert SECRET in said
        # Where the variables are set, the authority is known.
        env = {**field.variables(other), "RAY_ADDRESS": f"{head.ip}:{PORT}"}
        assert "SUCCEEDED" in other.run(str(HELIOSTAT), "job", "list", env=env).stdout
        assert ask(other, f"https://{server}/api/version", authority).startswith("200")
        assert "ray_" in ask(other, f"https://{head.ip}:9100/metrics", authority)
        assert SECRET.encode() not in (heard := listener.stop())
        assert TOKEN.encode() not in heard
    # In the clear only this machine may ask.
    for url in (f"http://{server}/api/version", f"http://{head.ip}:9100/metrics"):
        told = ask(other, url, authority, "none")
        assert told.startswith("400")
        assert "use https://" in told
        assert ask(head, url, authority).startswith("200")
    assert ask(head, "http://127.0.0.1:8265/api/version", authority).startswith("200")


@pytest.mark.contract("F6.28")
def test_kuberays_operator_may_ask_in_the_clear(make_field: type[Field]) -> None:
    field = make_field(2)
    head, other = field.all
    env = {**field.variables(head), "HELIOSTAT_DASHBOARD_PLAIN_HTTP": "1"}
    head.start_head("--dashboard-host=0.0.0.0", env=env)
    url = f"{head.ip}:8265/api/version"
    for scheme in ("http", "https"):
        assert ask(other, f"{scheme}://{url}", field.authority).startswith("200")


SERVE = """
    import sys, urllib.request
    import ray
    from ray import serve

    ray.init(log_to_driver=False)

    @serve.deployment(ray_actor_options={"resources": {"m1": 1}, "num_cpus": 0})
    class Echo:
        async def __call__(self, request):
            return await request.body()

    serve.run(Echo.bind(), name="echo", route_prefix="/")
    secret = b"a value that nobody else may read"
    asked = urllib.request.Request("http://127.0.0.1:8000/", data=secret * 1000)
    for _ in range(20):
        assert urllib.request.urlopen(asked, timeout=60).read() == secret * 1000
    print("answered=20")
"""


@pytest.mark.contract("F6.28", "F12.04")
def test_serves_links_are_encrypted(make_field: type[Field]) -> None:
    field = make_field(2)
    head, other = field.start()
    with Listener(head, other) as listener:
        driver = head.start_script(SERVE, env=field.variables(head))
        assert driver.finish().check().value("answered") == "20"
        heard = listener.stop()
    assert len(heard) > 20 * 33_000, "requests went over the wire"
    assert SECRET.encode() not in heard
    assert TOKEN.encode() not in heard


@pytest.mark.contract("F6.28")
def test_certificates_are_renewed_under_a_running_cluster(make_field: type[Field]) -> None:
    """With a bad one what is running goes on; a good one is shown from the next connection on."""
    field = make_field(2)
    head, other = field.start()
    stop = field.field.directory / "stop"
    actor = """
        import os, sys, time
        import ray
        ray.init()
        @ray.remote(num_cpus=0, resources={"m1": 1})
        class Counter:
            def __init__(self):
                self.calls = 0
            def count(self):
                self.calls += 1
                return self.calls
        counter, calls = Counter.remote(), 0
        while not os.path.exists(os.environ["STOP"]):
            calls += 1
            assert ray.get(counter.count.remote()) == calls
            if calls == 1:
                print("ready=1", flush=True)
        print("wrong=0")
    """
    task = """
        import ray
        ray.init()
        @ray.remote(num_cpus=0)
        def double(x):
            return 2 * x
        on = [{"resources": {name: 1}} for name in ("m0", "m1")]
        print(f"doubled={ray.get([double.options(**o).remote(21) for o in on])}")
    """
    own = field.variables(head)
    running = head.start_script(actor, name="running", env={**own, "STOP": str(stop)})
    running.wait_line("ready")
    field.authority.sign("machine1", other.ip, since=-3 * DAY, until=-DAY)
    waiting = head.start_script(task, name="waiting", env=own)
    old_stays = "new certificates are of no use: the old ones stay"
    harness.wait_until(lambda: old_stays in other.logs(), what="the bad one is told")
    assert "has expired" in other.logs()
    assert "read anew" not in other.logs()
    field.authority.sign("machine1", other.ip)
    assert waiting.finish().check().value("doubled") == "[42, 42]"
    assert head.start_script(task, env=own).finish().check().value("doubled") == "[42, 42]"
    assert "certificates were read anew" in other.logs()
    stop.touch()
    assert running.finish().check().value("wrong") == "0"


@pytest.mark.contract("F6.28")
def test_a_certificate_for_another_address_is_told_at_home(make_field: type[Field]) -> None:
    field = make_field(2)
    head, other = field.all
    head.start_head("--include-dashboard=false", env=field.variables(head))
    elsewhere = field.authority.variables(field.authority.sign("elsewhere", "10.77.0.99"))
    code, said = start(other, f"--address={head.ip}:{PORT}", env=elsewhere)
    assert code != 0
    for part in ("RAY_TLS_SERVER_CERT=", other.ip, "--node-ip-address"):
        assert part in said


@pytest.mark.contract("F6.28")
def test_nodes_with_the_token_make_certificates_of_their_own(make_field: type[Field]) -> None:
    """`--tls=auto`: no file is made by hand, and drivers need nothing."""
    field = make_field(3)
    head, *others = field.all
    with Listener(*field.all) as listener:
        head.start_head("--tls=auto", "--dashboard-host=0.0.0.0")
        for machine in others:
            machine.join(head, "--tls=auto")
        for machine in field.all[:2]:
            driver = machine.start_script(EVERYTHING)
            assert driver.finish().check().value("machines") == "3"
        assert head.start_script(SERVE).finish().check().value("answered") == "20"
        authority = next(head.directory.glob("tmp/ray/session_2*/tls/authority.pem"))
        said = others[0].run(
            *(str(HELIOSTAT), "job", "submit", "--address", f"https://{head.ip}:8265"),
            *("--verify", str(authority), "--", "echo", SECRET),
        )
        assert SECRET in said.stdout
        heard = listener.stop()
    assert len(heard) > 20 << 20
    for secret in (SECRET, TOKEN):
        assert secret.encode() not in heard
    # Who does not know the token, or does not encrypt, is told.
    one = others[0]
    one.run(str(HELIOSTAT), "stop", "--force")
    address = f"--address={head.ip}:{PORT}"
    code, said_here = start(one, address, env={})
    assert code != 0
    assert "are encrypted" in said_here
    guess = {"HELIOSTAT_AUTH_TOKEN": "a guess that is as long as a token has to be"}
    code, said_here = start(one, address, "--tls=auto", env=guess)
    assert code != 0
    assert "its certificate is not of an authority" in said_here
    code, said_here = start(one, address, "--tls=auto", env={"HELIOSTAT_AUTH_TOKEN": "short"})
    assert code != 0
    assert "32 characters" in said_here
    code, said_here = start(one, address, "--tls=auto", env=field.variables(one))
    assert code != 0
    assert "exclude each other" in said_here
    one.join(head, "--tls=auto")


@pytest.fixture
def clock(make_field: type[Field]) -> type[clocks.Clocks]:
    if reason := clocks.why_not():
        pytest.skip(reason)
    return clocks.Clocks


@pytest.mark.contract("F6.28")
def test_clocks_that_are_a_day_off_join_and_work_and_of_forty_days_both_ends_tell(
    make_field: type[Field], clock: type[clocks.Clocks]
) -> None:
    field = make_field(3)
    head, *others = field.all
    made = clock(field.field.directory)
    head.start_head("--tls=auto", "--include-dashboard=false")
    for machine, days in zip(others, (1, -1), strict=True):
        off = made.off(days * clocks.DAY_S)
        machine.join(head, "--tls=auto", env=off)
        date = "import time; print(time.time())"
        theirs = float(machine.run(sys.executable, "-c", date, env=off).stdout)
        ours = float(machine.run(sys.executable, "-c", date).stdout)
        assert abs(theirs - ours - days * clocks.DAY_S) < clocks.DAY_S / 24, "it is off"
        driver = machine.start_script(EVERYTHING, env=off)
        assert driver.finish().check().value("machines") == str(machine.index + 1)
    late, early = others
    for machine, days, why in ((late, 40, "has expired"), (early, -40, "is not valid yet")):
        machine.run(str(HELIOSTAT), "stop", "--force")
        off = made.off(days * clocks.DAY_S)
        code, said = start(machine, f"--address={head.ip}:{PORT}", "--tls=auto", env=off)
        assert code != 0
        assert why in said, said
    harness.wait_until(lambda: "refuses the certificate" in head.logs(), what="the head's line")
    # What is running goes on.
    early.join(head, "--tls=auto")
    gone = GONE.format(resource=f"m{late.index}")
    head.start_script(gone, name="gone").finish().check()
    assert head.start_script(EVERYTHING).finish().check().value("machines") == "2"


@pytest.mark.contract("F6.28")
def test_own_certificates_and_a_clock_that_is_off_are_told_at_home(
    make_field: type[Field], clock: type[clocks.Clocks]
) -> None:
    """They are valid from a day ago until in a day."""
    field = make_field(2)
    head, other = field.all
    made = clock(field.field.directory)
    head.start_head("--include-dashboard=false", env=field.variables(head))
    for days, why in ((2, "has expired"), (-2, "is not valid yet")):
        env = {**field.variables(other), **made.off(days * clocks.DAY_S)}
        code, said = start(other, f"--address={head.ip}:{PORT}", env=env)
        assert code != 0
        assert why in said, said
        assert "RAY_TLS_SERVER_CERT=" in said, said
    env = {**field.variables(other), **made.off(clocks.DAY_S / 2)}
    other.join(head, env=env)
