"""What every random program is written with: values, the log of executions, troubles and checks.

A program's text begins with the sources of this file and of ``ways``, or imports them. Nothing but
``ray`` and the standard library is imported; numpy is where a program asks for an array.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Iterator
from typing import Any

import ray

LONG_S = 120.0
NONE_KEY = 0


class Boom(Exception):
    """The error that programs raise; its argument is the tag of the call."""


class Wrong(Exception):
    """A value or an error that is not what the program must give."""


class Blob:
    """Bytes that travel outside the pickle, as arrays do: they are read where they lie."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Blob, (pickle.PickleBuffer(self.data),)


class Holder:
    """A value with references inside."""

    def __init__(self, value: Any, refs: list[Any]) -> None:
        self.value = value
        self.refs = refs


class Seen:
    """Stands for a value that was read elsewhere: its key."""

    def __init__(self, key: int) -> None:
        self.key = key


def fold(tag: Any, parts: list[int]) -> int:
    """The key of what a call makes of the keys that it was given."""
    return zlib.crc32(repr((tag, list(parts))).encode())


def pattern(key: int, size: int) -> bytes:
    return (key.to_bytes(8, "big") * (size // 8 + 1))[: max(size, 8)]


def make(kind: str, size: int, key: int) -> Any:
    """A value of about ``size`` bytes from which ``digest`` reads the key."""
    if kind == "none":
        return None
    if kind == "int":
        return key
    if kind == "str":
        return (f"{key:016x}" * (size // 16 + 1))[: max(size, 16)]
    if kind == "dict":
        return {"key": key, "parts": [pattern(key, size // 2), pattern(key, size - size // 2)]}
    if kind == "blob":
        return Blob(bytearray(pattern(key, size)))
    if kind == "array":
        import numpy

        return numpy.full(max(size // 8, 1), key, dtype=numpy.uint64)
    return pattern(key, size)


def digest(value: Any) -> int:
    """The key of a value of which every byte is right."""
    if value is None:
        return NONE_KEY
    if isinstance(value, int):
        return value
    if isinstance(value, Blob):
        value = bytes(value.data)
    if isinstance(value, bytes):
        key = int.from_bytes(value[:8], "big")
        whole = value == pattern(key, len(value))
    elif isinstance(value, str):
        key = int(value[:16], 16)
        whole = value == make("str", len(value), key)
    elif isinstance(value, dict):
        key = value["key"]
        whole = all(part == pattern(key, len(part)) for part in value["parts"])
    else:
        key = int(value[0])
        whole = bool((value == value[0]).all())
    if not whole:
        raise Wrong(f"the bytes of a {type(value).__name__} of key {key} were changed")
    return key


# Executions ---------------------------------------------------------------------------------------


def ran(log: str, tag: str) -> int:
    """Record that the call runs; returns which attempt this is, from 1."""
    with open(log, "a+b", buffering=0) as file:
        file.write(f"{tag} {os.getpid()}\n".encode())
        file.seek(0)
        return sum(line.split()[0] == tag.encode() for line in file.read().splitlines())


def check_runs(log: str, most: dict[str, int]) -> None:
    """No call may have run more often than its retries allow."""
    with open(log, "rb") as file:
        tags = [line.split()[0].decode() for line in file.read().splitlines()]
    for tag in sorted(set(tags)):
        if tags.count(tag) > most.get(tag, 0):
            raise Wrong(f"{tag} ran {tags.count(tag)} times, {most.get(tag, 0)} are allowed")


# Troubles -----------------------------------------------------------------------------------------


def fail(attempt: int, until: int, tag: str) -> None:
    if attempt <= until:
        raise Boom(tag)


def crash(attempt: int, until: int) -> None:
    if attempt <= until:
        os.kill(os.getpid(), signal.SIGKILL)


def leave(attempt: int, until: int) -> None:
    if attempt <= until:
        os._exit(1)


def hang() -> None:
    """Run until the call is cancelled; a call that nobody cancels ends with an error."""
    end = time.monotonic() + 2 * LONG_S
    while time.monotonic() < end:
        time.sleep(0.005)
    raise Wrong("was not cancelled")


def pause(seconds: float) -> None:
    time.sleep(seconds)


# Checks -------------------------------------------------------------------------------------------


def waits() -> dict[int, tuple[str, list[Any]]]:
    """What threads of this process wait for. No global of this file: those travel with functions."""
    found: dict[int, tuple[str, list[Any]]] = sys.__dict__.setdefault("_waits_of_programs", {})
    return found


@contextlib.contextmanager
def waiting(where: str, refs: list[Any]) -> Iterator[None]:
    mark = id(refs)
    waits()[mark] = (where, refs)
    try:
        yield
    finally:
        del waits()[mark]


class Err:
    """Expected: an error that is one of these; "Boom:tag" names the call that raised."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __repr__(self) -> str:
        return f"Err({', '.join(map(repr, self.names))})"


class Either(Err):
    """Expected: the value of the key, or an error that a fault of the program explains."""

    def __init__(self, key: int, *names: str) -> None:
        super().__init__(*names)
        self.key = key

    def __repr__(self) -> str:
        return f"Either({self.key}, {', '.join(map(repr, self.names))})"


def chain(error: BaseException | None) -> list[BaseException]:
    """The error and what caused it, as far as the chain of causes goes."""
    found: list[BaseException] = []
    while isinstance(error, BaseException) and error not in found:
        found.append(error)
        error = getattr(error, "cause", None) or error.__cause__
    return found


def names_of(error: BaseException) -> set[str]:
    """Every class that the error or one of its causes can be caught as."""
    names = {cls.__name__ for part in chain(error) for cls in type(part).__mro__}
    return names | {f"Boom:{part.args[0]}" for part in chain(error) if type(part) is Boom}


def text_of(outcome: Any) -> str:
    if not isinstance(outcome, BaseException):
        return f"the value of key {outcome}"
    lines = traceback.format_exception(type(outcome), outcome, outcome.__traceback__)
    return f"{type(outcome).__name__}: {str(outcome)[:1500]}\n{''.join(lines)[-1500:]}"


def compare(where: str, outcomes: list[Any], expected: list[Any]) -> None:
    for i, (outcome, want) in enumerate(zip(outcomes, expected, strict=True)):
        if isinstance(outcome, BaseException):
            is_right = isinstance(want, Err) and not names_of(outcome).isdisjoint(want.names)
        else:
            is_right = outcome == (want.key if isinstance(want, Either) else want)
        if not is_right:
            raise Wrong(f"{where}[{i}]: expected {want!r}, there is {text_of(outcome)}")


def keys(outcomes: list[Any]) -> list[int]:
    """The keys; the first error is raised."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if not errors:
        return outcomes
    try:
        raise errors[0]
    finally:
        # An error whose frames hold it would keep their references until a collection.
        del outcomes, errors


def report_waiting() -> str:
    """What the threads of this process wait for, and why."""
    why = getattr(ray.util, "why", None)
    lines = []
    for where, refs in list(waits().values()):
        for ref in refs:
            lines.append(f"{where}: {ref}\n    {why(ref) if why else 'Ray cannot say why'}")
    return "\n".join(lines)


# Streams ------------------------------------------------------------------------------------------


def take_next(where: str, stream: Any) -> Any:
    with waiting(where, [stream]):
        return next(stream)


def take_async(where: str, stream: Any) -> Any:
    """The next item, taken on an event loop."""

    async def take() -> Any:
        return await stream.__anext__()

    with waiting(where, [stream]):
        return asyncio.run(take())


def take_wait(where: str, stream: Any) -> Any:
    """The next item, once ``wait`` says that it is ready."""
    with waiting(where, [stream]):
        ready, _ = ray.wait([stream], timeout=LONG_S)
        if not ready:
            raise Wrong(f"{where}: no item in {LONG_S} s")
        return next(stream)


def expect_end(where: str, stream: Any, seconds: float = LONG_S) -> None:
    """The stream has no further item."""
    with waiting(where, [stream]):
        try:
            extra = next(stream)
        except StopIteration:
            return
    raise Wrong(f"{where}: one item too many, {extra}")


# Actors that keep references ----------------------------------------------------------------------


class Keeper:
    """What actors of programs have beside their own methods."""

    def keep(self, slot: str, refs: list[Any]) -> None:
        self.__dict__.setdefault("slots", {})[slot] = refs

    def lend(self, slot: str) -> list[Any]:
        return self.__dict__["slots"][slot]

    def release(self, slot: str) -> None:
        del self.__dict__["slots"][slot]


def later(call: Any, *given: Any) -> Any:
    """The call, to be made at the end."""
    return lambda: call(*given)


def end_detached(name: str) -> None:
    with contextlib.suppress(ValueError):
        ray.kill(ray.get_actor(name, namespace="programs"))


def in_group(group: Any) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(group)


def remove_group(group: Any) -> None:
    ray.util.remove_placement_group(group)


def pinned(ref: Any) -> None:
    """Note a reference that a function captures: it is kept for as long as the session lasts."""
    sys.__dict__.setdefault("_pinned_by_programs", set()).add(ref.hex())


# Sessions -----------------------------------------------------------------------------------------

CLUSTER: Any = None
# The port for drivers elsewhere, where this driver knows nothing else of its cluster.
GATEWAY = ""
NODES: dict[str, Any] = {}


def start(kind: str, config: Any = None) -> None:
    """Begin the session that a program of this kind wants; ``config``: its ``_system_config``."""
    global CLUSTER
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if kind == "afar":
        ray.init(start_head(config), **quiet)
        return
    if kind != "nodes":
        store = (100 if kind == "small" else 400) << 20
        given: dict[str, Any] = {"object_store_memory": store, "include_dashboard": False, **quiet}
        ray.init("local", num_cpus=16, _system_config=config, **given)
        return
    from ray.cluster_utils import Cluster

    head: dict[str, Any] = {"num_cpus": 16, "object_store_memory": 200 << 20}
    head["resources"] = {"n0": 1000}
    if config:
        head["_system_config"] = config
    CLUSTER = Cluster(initialize_head=True, head_node_args=head)
    for name in ("n1", "n2"):
        CLUSTER.add_node(num_cpus=32, object_store_memory=100 << 20, resources={name: 1000})
    CLUSTER.wait_for_nodes()
    ray.init(address=CLUSTER.address, **quiet)


def start_head(config: Any) -> str:
    """A cluster that this driver is no part of; its port for drivers elsewhere."""
    global GATEWAY
    # A short path: sockets lie in it.
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="afar", dir="/tmp")
    os.environ["HELIOSTAT_AUTH_TOKEN"] = "of random programs"
    size = ["--num-cpus=16", f"--object-store-memory={400 << 20}"]
    ports = ["--port=0", "--ray-client-server-port=0", "--include-dashboard=false"]
    said = ray_command(
        "start", "--head", *size, *ports, f"--system-config={json.dumps(config or {})}"
    )
    GATEWAY = next(word for word in said.split('"') if word.startswith("ray://"))
    return GATEWAY


def ray_command(*words: str) -> str:
    command = [os.path.join(os.path.dirname(sys.executable), "ray"), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def stop() -> None:
    global CLUSTER, GATEWAY
    ray.shutdown()
    if GATEWAY:
        GATEWAY = ""
        ray_command("stop", "--force")
        shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)
    if CLUSTER is not None:
        CLUSTER.shutdown()
        CLUSTER = None


def add_node(name: str) -> Any:
    """A node without CPUs: only what asks for it by name runs there, as long as it lives."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    NODES[name] = CLUSTER.add_node(num_cpus=0, object_store_memory=100 << 20)
    return NodeAffinitySchedulingStrategy(NODES[name].node_id, soft=True)


def remove_node(name: str, gracefully: bool = False) -> None:
    node = NODES.pop(name, None)
    if node is not None:
        CLUSTER.remove_node(node, allow_graceful=gracefully)


# Other drivers ------------------------------------------------------------------------------------


def script() -> str:
    """The file that has this text and that of ``ways``."""
    return __file__.replace("kit.py", "ways.py")


def other_driver(where: str, name: str, slot: str, way: str, expected: list[Any]) -> None:
    """Have another driver read what the named actor keeps, and compare there."""
    address = GATEWAY or ray.get_runtime_context().gcs_address
    given = [where, address, name, slot, way, repr(expected)]
    with tempfile.TemporaryFile() as out:
        command = [sys.executable, script(), "other", json.dumps(given)]
        try:
            code = subprocess.run(command, stdout=out, stderr=out, timeout=LONG_S).returncode
        except subprocess.TimeoutExpired:
            code = "a hang"
        out.seek(0)
        if code:
            raise Wrong(f"{where}: the other driver ended with {code}\n{out.read()[-4000:]!r}")


def as_other_driver(given: str, ways: dict[str, Any]) -> None:
    where, address, name, slot, way, expected = json.loads(given)
    ray.init(address=address, namespace="programs", log_to_driver=False, logging_level="error")
    actor = ray.get_actor(name)
    refs = ray.get(actor.lend.remote(slot), timeout=LONG_S)
    compare(where, ways["settle"](ways[way], refs), eval(expected))
    ray.shutdown()


def in_threads(*calls: Any) -> None:
    """Run the calls side by side, each in a thread of its own; the first error is raised."""
    errors: list[BaseException] = []

    def run(call: Any) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def main(kind: str, program: Any, names: dict[str, Any]) -> None:
    """Run a script of one program."""
    if sys.argv[1:2] == ["other"]:
        as_other_driver(sys.argv[2], names)
        return

    def hung() -> None:
        print(report_waiting(), file=sys.stderr, flush=True)
        os._exit(3)

    timer = threading.Timer(1.5 * LONG_S, hung)
    timer.daemon = True
    timer.start()
    start(kind)
    with tempfile.NamedTemporaryFile() as log:
        program(log.name)
    stop()
    print("every reading gave what it must")
