"""Connections between machines that are encrypted: what is heard on the wire, and who is let in."""

from __future__ import annotations

from collections.abc import Iterator

import harness
import pytest
from certificates import Authority

from machines.machines import HELIOSTAT, PORT, TOKEN, Machine, Machines
from machines.wire import Listener

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.heliostat_only("Ray's ports are many, and its objects travel otherwise"),
]

SECRET = "a value that nobody else may read"

# Values, names and code of every kind go from each machine to each other, through every kind of connection:
# calls to workers and actors, small and large objects, packages of code, logs, the control service.
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
            assert driver.finish(120).check().value("machines") == "3"
        heard = listener.stop()
    assert len(heard) > 20 << 20, "large objects went over the wire"
    for secret in (SECRET, TOKEN):
        assert (secret.encode() in heard) is not is_encrypted


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
