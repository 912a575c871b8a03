"""Logs of every node: each has a session's folder of its own, which the head does not look into."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import ray

from tests.helpers import web
from tests.helpers.commands import CLI
from tests.helpers.harness import IS_HELIOSTAT, wait_until

pytestmark = [
    pytest.mark.skipif(not IS_HELIOSTAT, reason="the nodes are started by the command heliostat"),
    pytest.mark.contract("F6.17", "F6.18", "F6.26"),
]

DRIVER = """
import json, os, sys, tempfile, time
import ray
from ray.experimental import tqdm_ray

ray.init(address="auto", logging_level="error", log_to_driver=False)

@ray.remote(num_cpus=0, resources={"second": 0.01})
class Printer:
    def say(self, text):
        print(text, flush=True)
        print("error of " + text, file=sys.stderr, flush=True)
        return os.getpid()

    def bar(self):
        for part in ("  0%", " 50%", "100%"):
            sys.stdout.write("\\r" + part + " by itself")
        sys.stdout.write("\\n")
        for _ in tqdm_ray.tqdm(range(20), desc="rays"):
            time.sleep(0.02)
        print("after the bars", flush=True)

@ray.remote(num_cpus=0, resources={"second": 0.01})
def task(text):
    print(text, flush=True)
    print("error of " + text, file=sys.stderr, flush=True)
    return ray.get_runtime_context().get_task_id(), os.getpid()

@ray.remote(num_cpus=0, resources={"second": 0.01}, max_retries=1)
def dies_once(mark):
    is_first = not os.path.exists(mark)
    print("of attempt", 0 if is_first else 1, flush=True)
    if is_first:
        open(mark, "w").close()
        os._exit(1)
    return ray.get_runtime_context().get_task_id()

with tempfile.TemporaryDirectory() as folder:
    retried_id = ray.get(dies_once.remote(os.path.join(folder, "mark")))
actor = Printer.options(name="the_printer", lifetime="detached").remote()
pid = ray.get(actor.say.remote("of the Actor"))
ray.get(actor.bar.remote())
task_id, task_pid = ray.get(task.remote("of the task"))
other_id, _ = ray.get(task.remote("of another task"))
print("SAID", json.dumps({
    "actor_id": actor._actor_id.hex(), "pid": pid, "task_id": task_id, "task_pid": task_pid,
    "retried_id": retried_id,
}))
"""


@dataclasses.dataclass
class Two:
    """A head and a node with its own folder of sessions, and what a driver did there."""

    head: web.Head
    second: web.Head
    said: dict[str, Any]
    node_id: str = ""

    def logs(self, *arguments: str, check: bool = True) -> str:
        return self.head.run("logs", *arguments, check=check).stdout


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    head = web.new()
    head.start()
    home = Path(tempfile.mkdtemp(prefix="dash2", dir="/tmp"))
    second = dataclasses.replace(head, home=home, env={**head.env, "RAY_TMPDIR": str(home)})
    try:
        second.run("start", f"--address=127.0.0.1:{head.port}", '--resources={"second": 1}')
        submit = ("job", "submit", "--submission-id=the-driver", "--", sys.executable, "-c")
        output = head.run(*submit, DRIVER).stdout
        (line,) = (line for line in output.splitlines() if line.startswith("SAID "))
        found = Two(head, second, json.loads(line.removeprefix("SAID ")))
        nodes = head.get("/api/v0/nodes?detail=1")["data"]["result"]["result"]
        found.node_id = next(
            node["node_id"] for node in nodes if "second" in node["resources_total"]
        )
        yield found
    finally:
        second.run("stop", "--force", check=False)
        web.end(head)
        shutil.rmtree(home, ignore_errors=True)


def test_what_an_actor_of_another_node_printed(two: Two) -> None:
    by_id, node = ("actor", "--id", two.said["actor_id"]), ("--node-id", two.node_id)
    by_pid = ("--pid", str(two.said["pid"]), *node)
    for which in (by_id, ("actor", *by_pid), ("worker", *by_pid)):
        assert two.logs(*which).splitlines()[0] == "of the Actor"
        assert two.logs(*which, "--err").splitlines() == ["error of of the Actor"]
        assert two.logs(*which, "--tail", "1") == "after the bars\n"


def test_bars_are_folded(two: Two) -> None:
    lines = two.logs("actor", "--id", two.said["actor_id"]).splitlines()
    assert lines[1] == "100% by itself"
    assert [line for line in lines if "rays" in line] == lines[2:3]
    assert "20/20" in lines[2]
    assert lines[-1] == "after the bars"
    assert "__ray_tqdm_magic_token__" not in "".join(lines)


def test_what_a_task_of_another_node_printed(two: Two) -> None:
    which = ("task", "--id", two.said["task_id"])
    assert two.logs(*which) == "of the task\n"
    assert two.logs(*which, "--err") == "error of of the task\n"


def test_each_attempt_of_a_task_has_its_own_output(two: Two) -> None:
    which = ("task", "--id", two.said["retried_id"])
    assert two.logs(*which) == "of attempt 1\n"
    assert two.logs(*which, "-a", "0") == "of attempt 0\n"
    assert two.logs(*which, "--attempt-number=1") == "of attempt 1\n"
    done = two.head.run("logs", *which, "-a", "2", check=False)
    assert done.returncode == 1
    assert "Attempt 2 of task_id" in done.stdout


def test_a_process_is_found_on_whatever_node_it_is(two: Two) -> None:
    pid = str(two.said["pid"])
    for what in ("worker", "actor"):
        assert two.logs(what, "-pid", pid).splitlines()[0] == "of the Actor"
    # Where several nodes have files of one process id, it takes a node to say which is meant.
    folder = two.head.home / "ray" / "session_latest" / "logs"
    other = folder / f"worker-of-another-node-{pid}.out"
    other.write_text("of the head's\n")
    try:
        done = two.head.run("logs", "worker", "--pid", pid, check=False)
        assert done.returncode == 1
        assert f"Process {pid} is there on 2 nodes" in done.stdout
        assert two.node_id in done.stdout
        assert two.logs("worker", "--pid", pid, "-id", two.node_id).startswith("of the Actor")
    finally:
        other.unlink()


def test_what_a_job_printed(two: Two) -> None:
    assert "SAID" in two.logs("job", "--id", "the-driver")
    assert two.logs("job", "--id", "the-driver", "--tail", "0") == ""


def test_files_are_listed_with_size_time_and_owner(two: Two) -> None:
    text = two.logs()
    assert text.count(f"Node {ray.util.get_node_ip_address()} (") == 2
    (line,) = (line for line in text.splitlines() if f"-{two.said['pid']}.out" in line)
    assert "actor Printer 'the_printer'" in line
    assert two.said["actor_id"] in line
    rows = two.head.get(f"/api/v0/logs?detail=1&node_id={two.node_id}")["data"]["result"]["files"]
    (row,) = (row for row in rows if row["name"].endswith(f"-{two.said['pid']}.out"))
    path = next(two.second.home.rglob(f"logs/{row['name']}"))
    assert (row["size"], row["kind"]) == (path.stat().st_size, "worker_out")
    assert row["modified_ms"] == path.stat().st_mtime_ns // 1_000_000
    assert {row["node_id"] for row in rows} == {two.node_id}
    # In the shape of Ray's clients, too.
    kinds = two.head.get(f"/api/v0/logs?node_id={two.node_id}")["data"]["result"]
    assert row["name"] in kinds["worker_out"]


def test_one_file_that_fits_is_printed(two: Two) -> None:
    name = f"worker-*-{two.said['task_pid']}.out"
    assert "of the task" in two.logs(name)
    assert "of the task" in two.logs("cluster", name, "--node-id", two.node_id)
    assert "No log file fits" in two.logs("no-such-*", check=False)


def test_a_search_looks_through_all_files(two: Two) -> None:
    path = next(two.second.home.rglob(f"logs/*-{two.said['pid']}.out"))
    with open(path, "a") as file:
        file.write("filler\n" * 100_000 + "the NEEDLE at the end\n")
    lines = path.read_bytes().count(b"\n")
    assert two.logs("search", "NEEDLE") == (
        f"{ray.util.get_node_ip_address()} {path.name}:{lines}: the NEEDLE at the end\n"
    )
    assert two.logs("search", "needle", check=False) == "No line of '*' has 'needle'.\n"
    assert "NEEDLE" in two.logs("search", "needle", "--ignore-case", "worker-*")
    assert two.logs("search", "filler", "--limit", "2").count("filler") == 2
    found = two.head.get(f"/api/v0/logs/search?text={quote('of the task')}")["data"]["result"]
    assert {line["node_id"] for line in found["lines"]} >= {two.node_id}


def test_a_log_is_followed_across_nodes(two: Two) -> None:
    follow = subprocess.Popen(
        [CLI, "logs", "actor", "--id", two.said["actor_id"], "--follow", "--tail", "0"],
        env=two.head.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    say = """
import ray
ray.init(address="auto", logging_level="error", log_to_driver=False, namespace=None)
for found in ray.util.list_named_actors(all_namespaces=True):
    ray.get(ray.get_actor(**found).say.remote("said later"))
"""
    try:
        assert follow.stdout is not None

        # It may be asked before the first look at the file: said again until it is heard.
        def heard() -> str:
            two.head.run("job", "submit", "--", sys.executable, "-c", say)
            assert follow.stdout is not None
            return follow.stdout.readline()

        assert wait_until(heard) == "said later\n"
    finally:
        follow.kill()
        follow.wait()
        if follow.stdout is not None:
            follow.stdout.close()


def test_an_actor_that_has_printed_nothing_yet_is_followed(two: Two) -> None:
    make = """
import ray
ray.init(address="auto", logging_level="error", log_to_driver=False)

@ray.remote(num_cpus=0, resources={"second": 0.01})
class Quiet:
    def say(self):
        print("the first line", flush=True)

actor = Quiet.options(name="quiet", namespace="quiet", lifetime="detached").remote()
ray.get(actor.__ray_ready__.remote())
print("ID", actor._actor_id.hex())
"""
    then = """
import ray
ray.init(address="auto", logging_level="error", log_to_driver=False, namespace="quiet")
actor = ray.get_actor("quiet")
{}
"""
    submit = ("job", "submit", "--", sys.executable, "-c")
    made = two.head.run(*submit, make).stdout
    (line,) = (line for line in made.splitlines() if line.startswith("ID "))
    which = ("actor", "--id", line.removeprefix("ID "))
    assert "has printed nothing" in two.logs(*which, check=False)
    follow = subprocess.Popen(
        [CLI, "logs", *which, "--follow"],
        env=two.head.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert follow.stdout is not None
        two.head.run(*submit, then.format("ray.get(actor.say.remote())"))
        assert follow.stdout.readline() == "the first line\n"
    finally:
        follow.kill()
        follow.wait()
        if follow.stdout is not None:
            follow.stdout.close()
        two.head.run(*submit, then.format("ray.kill(actor)"), check=False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("actor", "--id", "00"), "There is no actor_id 00"),
        (("task", "--id", "00"), "There is no task_id 00"),
        (("job", "--id", "none"), "There is no job none"),
        (("worker", "--pid", "1"), "There is no log file of process 1 on any node."),
        (("worker", "--pid", "one"), "--pid is 'one': write the number of a process."),
        (("actor",), "Give --id"),
        (("cluster", "--node-id", "00"), "There is no node 00"),
    ],
)
def test_what_there_is_not(two: Two, arguments: tuple[str, ...], says: str) -> None:
    done = two.head.run("logs", *arguments, check=False)
    assert done.returncode != 0
    assert says in done.stdout


def test_names_do_not_lead_out_of_the_folder(two: Two) -> None:
    for name in ("../node.json", "/etc/passwd", "..%2fnode.json"):
        path = f"/api/v0/logs/file?node_id={two.node_id}&filename={name}"
        assert two.head.ask("GET", path).status == 404


def test_a_node_that_is_gone_says_so(two: Two) -> None:
    """The last of the module: it ends the second node."""
    two.second.run("stop", "--force")
    shutil.rmtree(two.second.home)
    path = f"/api/v0/logs/file?node_id={two.node_id}&filename=node.err"
    answer = wait_until(
        lambda: (found := two.head.ask("GET", path)).status >= 400 and found, what="a refusal"
    )
    assert "node" in answer.text.lower()
