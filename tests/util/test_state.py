"""The state API: lists, single rows, summaries, the timeline (contract F6.17, F6.18, F6.20, F14.04)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util import state
from ray.util.state.common import GetApiOptions, StateResource, TaskState
from ray.util.state.exception import RayStateApiException

from tests.helpers.harness import wait_until

pytestmark = [
    pytest.mark.contract("F6.18", "F14.04"),
    pytest.mark.heliostat_only("Ray answers through its dashboard, which the tests do not start"),
    pytest.mark.usefixtures("ray_start"),
]


@ray.remote
def quick(n: int) -> int:
    return n


@ray.remote(max_retries=0)
def failing() -> None:
    raise ValueError("no")


@ray.remote(num_cpus=0)
def until(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self) -> None:
        self.n = 0

    def up(self) -> int:
        self.n += 1
        return self.n

    def spawn(self, path: str) -> list[Any]:
        return [until.remote(path)]


def of_name(name: str, **options: Any) -> list[Any]:
    rows = state.list_tasks(limit=10_000, detail=True, **options)
    return [row for row in rows if name in row.name]


def test_tasks_are_listed_from_their_submission_to_their_end(tmp_path: Path) -> None:
    go = tmp_path / "go"
    running = until.remote(str(go))
    waiting = quick.remote(running)
    assert ray.get([quick.remote(n) for n in range(3)]) == [0, 1, 2]
    with pytest.raises(ValueError, match="no"):
        ray.get(failing.remote())
    (row,) = wait_until(
        lambda: [row for row in of_name("until") if row.state == "RUNNING" and row.worker_pid]
    )
    assert row.task_id == running.task_id().hex()
    assert row.type == "NORMAL_TASK"
    assert row.node_id == ray.get_runtime_context().get_node_id()
    assert row.start_time_ms > 0
    assert row.end_time_ms is None
    assert row.worker_pid not in (0, os.getpid())
    (pending,) = [row for row in of_name("quick") if row.state == "PENDING_ARGS_AVAIL"]
    assert pending.task_id == waiting.task_id().hex()
    assert "waits for its argument" in pending.why
    done = of_name("quick", filters=[("state", "=", "finished")])
    assert len(done) == 3
    assert all(row.start_time_ms <= row.end_time_ms for row in done)
    (failed,) = of_name("failing")
    assert failed.state == "FAILED"
    assert failed.error_type == "TASK_EXECUTION_EXCEPTION"
    assert failed.error_message == "ValueError: no"
    go.touch()
    ray.get(running)
    found = state.get_task(running.task_id().hex())
    assert not isinstance(found, list)
    assert found is not None
    assert found.state == "FINISHED"
    assert state.get_task("00" * 24) is None


def test_calls_of_actors_and_nested_calls_are_listed(tmp_path: Path) -> None:
    counter = Counter.remote()
    (inner,) = ray.get(counter.spawn.remote(str(tmp_path / "go")))
    ray.get(counter.up.remote())
    (up,) = of_name("up")
    assert up.type == "ACTOR_TASK"
    assert up.actor_id == counter._actor_id.hex()
    nested = state.get_task(inner.task_id().hex())
    assert nested is not None, "it is the actor's, and the actor is asked"
    (tmp_path / "go").touch()
    ray.get(inner)


class Holds:
    def hold(self, path: str) -> None:
        while not os.path.exists(path):
            time.sleep(0.01)


class AsyncHolds:
    async def hold(self, path: str) -> None:
        while not os.path.exists(path):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("cls", "options", "n_running"),
    [
        (Holds, {}, 1),
        (Holds, {"max_concurrency": 2}, 2),
        (AsyncHolds, {"max_concurrency": 2}, 2),
        (Holds, {"concurrency_groups": {"io": 3}}, 3),
        (AsyncHolds, {"concurrency_groups": {"io": 3}}, 3),
    ],
)
def test_calls_that_wait_at_their_actor_do_not_run(
    cls: Any, options: dict[str, Any], n_running: int, tmp_path: Path
) -> None:
    go, name = str(tmp_path / "go"), f"Holder{cls.__name__}{n_running}"
    actor = ray.remote(num_cpus=0, **options)(type(name, (cls,), {})).remote()
    group = {"concurrency_group": "io"} if "concurrency_groups" in options else {}
    refs = [actor.hold.options(**group).remote(go) for _ in range(5)]
    waiting = ("PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY", None)
    expected = [waiting] * (5 - n_running) + [("RUNNING", None)] * n_running
    wait_until(lambda: states(f"{name}.hold") == expected)
    assert all(
        (row.start_time_ms is None) == (row.state != "RUNNING") for row in of_name(name + ".hold")
    )
    Path(go).touch()
    ray.get(refs)
    assert states(f"{name}.hold") == [("FINISHED", None)] * 5


def test_filters_limits_and_details() -> None:
    ray.get([quick.remote(n) for n in range(5)])
    assert len(state.list_tasks(limit=2)) == 2
    assert state.list_tasks(limit=1)[0].required_resources is None, "for detail only"
    assert state.list_tasks(limit=1, detail=True)[0].required_resources is not None
    assert state.list_tasks(filters=[("type", "!=", "NORMAL_TASK"), ("name", "=", "quick")]) == []
    with pytest.raises(ValueError, match="predicate"):
        state.list_tasks(filters=[("state", "<", "x")])
    with pytest.raises(ValueError, match="column, predicate, value"):
        state.list_tasks(filters=[("state", "=")])  # type: ignore[list-item] # what is refused
    with pytest.raises(RayStateApiException, match="column nonsense is not supported"):
        state.list_tasks(filters=[("nonsense", "=", "x")])
    with pytest.raises(RayStateApiException, match="start_time_ms is not supported"):
        state.list_tasks(filters=[("start_time_ms", "=", 1)])
    with pytest.raises(RayStateApiException, match="an integer"):
        state.list_tasks(filters=[("worker_pid", "=", "abc")])
    for limit in (-1, 10_001):
        with pytest.raises(RayStateApiException, match="10000"):
            state.list_tasks(limit=limit)
    assert state.list_tasks(limit=0) == []
    assert len(state.list_tasks(filters=[("NAME", "=", "QUICK"), ("state", "=", "finished")])) >= 5
    with pytest.warns(UserWarning, match="leave none"):
        assert state.list_tasks(filters=[("state", "=", "A"), ("state", "=", "B")]) == []
    with pytest.warns(UserWarning, match="1 of"):
        assert len(state.list_tasks(limit=1, _explain=True)) == 1
    assert [node.is_head_node for node in state.list_nodes(filters=[("is_head_node", "=", "1")])]
    with pytest.raises(RayStateApiException, match="true or false"):
        state.list_nodes(filters=[("is_head_node", "=", "perhaps")])


def test_ids_that_are_none_are_refused_and_those_that_name_nothing_give_none() -> None:
    with pytest.raises(RayStateApiException, match="not hexadecimal"):
        state.get_actor("nonsense")
    with pytest.raises(RayStateApiException, match="2 hexadecimal digits, not 56"):
        state.get_node("ab")
    assert state.get_actor("ab" * 16) is None
    assert state.get_worker("ab" * 28) is None
    assert state.get_placement_group("ab" * 18) is None
    assert state.get_objects("ab" * 28) == []
    ref = quick.remote(1)
    ray.get(ref)
    found = state.get_task(ref)
    assert isinstance(found, TaskState)
    assert found.task_id == ref.task_id().hex()
    with pytest.raises(ValueError, match="RUNTIME_ENVS"):
        state.StateApiClient().get(StateResource.RUNTIME_ENVS, "ab", GetApiOptions())


def test_an_actor_and_its_constructor_are_rows() -> None:
    counter = Counter.options(name="tall", resources=None).remote()
    ray.get(counter.up.remote())
    (plain,) = state.list_actors(filters=[("name", "=", "tall")])
    assert (plain.num_restarts, plain.is_detached, plain.death_cause) == (None, None, None)
    (row,) = state.list_actors(filters=[("name", "=", "tall")], detail=True)
    assert (row.num_restarts, row.is_detached, row.death_cause) == (0, False, None)
    made = state.list_tasks(
        filters=[("type", "=", "ACTOR_CREATION_TASK"), ("actor_id", "=", row.actor_id)]
    )
    assert [(one.name, one.state) for one in made] == [("Counter.__init__", "FINISHED")]
    ray.kill(counter)
    found = wait_until(lambda: _dead(row.actor_id))
    assert found.death_cause["actor_died_error_context"]["error_message"]


def _dead(actor_id: str) -> Any:
    found = state.get_actor(actor_id)
    return found if found is not None and found.state == "DEAD" else None


def test_environments_and_what_went_wrong_are_listed() -> None:
    ray.get(quick.options(runtime_env={"env_vars": {"STATE_TEST": "1"}}).remote(1))
    envs = [row.runtime_env for row in state.list_runtime_envs()]
    assert {"env_vars": {"STATE_TEST": "1"}} in envs

    wanted = {
        "pip": {
            "packages": ["/nowhere/no-1.0-py3-none-any.whl"],
            "pip_install_options": ["--no-index"],
        }
    }
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError):
        ray.get(quick.options(runtime_env=wanted).remote(1))
    rows = state.list_runtime_envs(detail=True)
    (failed,) = [row for row in rows if "pip" in row.runtime_env]
    assert (failed.success, failed.creation_time_ms, failed.starts) == (False, None, 0)
    assert "nowhere" in failed.error
    made = next(row for row in rows if row.runtime_env == {"env_vars": {"STATE_TEST": "1"}})
    assert (made.success, made.error) == (True, None)
    assert made.creation_time_ms >= 0
    assert made.starts >= 1

    @ray.remote(max_retries=0)
    def dies() -> None:
        os._exit(7)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(dies.remote())
    assert any("code 7" in event.message for event in state.list_cluster_events(limit=1000))


def test_logs_are_listed_and_read() -> None:
    @ray.remote(num_cpus=0)
    class Speaker:
        def say(self, text: str) -> str:
            print(text, flush=True)
            return ray.get_runtime_context().get_actor_id() or ""

    speaker = Speaker.remote()
    actor_id = ray.get(speaker.say.remote("first words"))
    ray.get(speaker.say.remote("second words"))

    def log(**options: Any) -> str:
        return "".join(state.get_log(actor_id=actor_id, **options))

    assert "first words\nsecond words" in wait_until(lambda: "second" in log() and log())
    assert log(tail=1).strip() == "second words"
    assert isinstance(next(iter(state.get_log(actor_id=actor_id, encoding=None))), bytes)
    node_id = ray.get_runtime_context().get_node_id()
    names = state.list_logs(node_id=node_id)
    assert names["worker_out"]
    text = "".join(state.get_log(node_id=node_id, filename=names["worker_out"][0]))
    assert text is not None
    with pytest.raises(RayStateApiException, match="no log file"):
        list(state.get_log(node_id=node_id, filename="../../etc/passwd"))
    with pytest.raises(ValueError, match="At least one"):
        list(state.get_log(node_id=node_id))
    with pytest.raises(ValueError, match="suffix"):
        list(state.get_log(actor_id=actor_id, suffix="log"))
    with pytest.raises(RayStateApiException, match="no actor_id"):
        list(state.get_log(actor_id="ab" * 16))
    with pytest.raises(AssertionError):
        state.list_logs()


def test_the_log_of_a_task_has_its_own_lines_only(tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    class Speaker:
        async def talk(self, name: str) -> None:
            for n in range(3):
                print(f"{name} says {n}", flush=True)
                print(f"{name} warns", file=sys.stderr, flush=True)
                await asyncio.sleep(0.01)

        async def pid(self) -> int:
            return os.getpid()

    @ray.remote(max_calls=0)
    def speak(text: str) -> int:
        if text:
            print(text)
        return os.getpid()

    def log(ref: Any, **options: Any) -> str:
        return "".join(state.get_log(task_id=ref.task_id().hex(), **options))

    speaker = Speaker.remote()
    talks = [speaker.talk.remote(name) for name in ("one", "two")]
    ray.get(talks)
    for name, talk in zip(("one", "two"), talks, strict=True):
        said = [f"{name} says {n}" for n in range(3)]
        assert wait_until(lambda talk=talk: len(log(talk).splitlines()) >= 3 and log(talk)).split(
            "\n"
        ) == [*said, ""]
        assert log(talk, tail=1) == said[-1] + "\n"
        assert wait_until(lambda talk=talk: log(talk, suffix="err")).startswith(f"{name} warns\n")
        assert set(log(talk, suffix="err").splitlines()) == {f"{name} warns"}
    refs = [speak.remote(text) for text in ("first", "", "third")]
    ray.get(refs)
    assert wait_until(lambda: log(refs[2])) == "third\n"
    assert [log(ref) for ref in refs] == ["first\n", "", "third\n"]
    names = state.list_logs(node_id=ray.get_runtime_context().get_node_id())
    assert not [name for kind in names.values() for name in kind if "tasks" in name]


def test_another_process_asks_without_a_session(run_driver: Any) -> None:
    counter = Counter.options(name="seen from afar").remote()
    ray.get(counter.up.remote())
    address = ray.get_runtime_context().gcs_address
    done = run_driver(
        f"""
        from ray.util import state
        rows = state.list_actors(address={address!r}, filters=[("name", "=", "seen from afar")])
        print("found=" + rows[0].class_name, flush=True)
        print("tasks=" + str(state.summarize_tasks(address={address!r})["cluster"]["total_tasks"]))
        try:
            state.list_nodes(address="127.0.0.1:1")
        except state.exception.RayStateApiException as error:
            print("refused=yes")
        """
    ).check()
    assert done.value("found") == "Counter"
    assert done.value("refused") == "yes"


def test_objects_say_who_holds_them_and_how_large_they_are() -> None:
    small, big = ray.put(1), ray.put(b"x" * 300_000)
    rows = {row.object_id: row for row in state.list_objects(limit=10_000)}
    assert rows[small.hex()].reference_type == "LOCAL_REFERENCE"
    assert rows[big.hex()].object_size >= 300_000
    assert rows[big.hex()].pid == os.getpid()
    assert rows[big.hex()].type == "DRIVER"
    value = ray.get(big)
    assert value is not None
    (row,) = state.get_objects(big.hex())
    assert row.task_status == "FINISHED"


def test_workers_are_listed_with_their_ends() -> None:
    counter = Counter.remote()
    ray.get(counter.up.remote())
    mine = [row for row in state.list_workers(limit=1000) if row.pid == os.getpid()]
    assert [row.worker_type for row in mine] == ["DRIVER"]
    (info,) = [row for row in state.list_actors() if row.actor_id == counter._actor_id.hex()]
    (worker,) = [row for row in state.list_workers(limit=1000) if row.pid == info.pid]
    assert worker.is_alive
    ray.kill(counter)

    def ended() -> Any:
        found = state.get_worker(worker.worker_id)
        return found if found is not None and not found.is_alive else None

    assert wait_until(ended).exit_type == "INTENDED_SYSTEM_EXIT"


@ray.remote(num_cpus=0)
class Ending:
    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def exit(self, code: int) -> None:
        os._exit(code)


ENDS: dict[str, tuple[str, str]] = {
    "ray.kill": ("INTENDED_SYSTEM_EXIT", "ray.kill"),
    "out of scope": ("INTENDED_SYSTEM_EXIT", "out of scope"),
    "exit_actor": ("INTENDED_USER_EXIT", "exit_actor"),
    "exit code": ("SYSTEM_ERROR", "3"),
    "signal": ("SYSTEM_ERROR", "SIGKILL"),
}


@pytest.mark.parametrize("by", ENDS)
def test_the_end_of_a_process_is_told_with_its_times(by: str) -> None:
    before = time.time() * 1000
    actor = Ending.remote()
    pid = ray.get(actor.pid.remote())
    (alive,) = [row for row in state.list_workers(limit=1000, detail=True) if row.pid == pid]
    assert before - 60_000 < alive.start_time_ms <= time.time() * 1000
    assert alive.end_time_ms is None
    if by == "ray.kill":
        ray.kill(actor)
    elif by == "out of scope":
        del actor
    elif by == "exit_actor":
        actor.leave.remote()
    elif by == "exit code":
        actor.exit.remote(3)
    else:
        os.kill(pid, signal.SIGKILL)

    def ended() -> Any:
        found = state.get_worker(alive.worker_id)
        return found if found is not None and not found.is_alive else None

    row = wait_until(ended)
    exit_type, detail = ENDS[by]
    assert (row.exit_type, detail in row.exit_detail) == (exit_type, True), row.exit_detail
    assert row.start_time_ms == alive.start_time_ms
    assert row.start_time_ms <= row.end_time_ms <= time.time() * 1000 + 1
    assert row.worker_launch_time_ms <= row.worker_launched_time_ms


def test_each_attempt_of_a_task_is_a_row(tmp_path: Path) -> None:
    @ray.remote(max_retries=2, retry_exceptions=[ValueError], num_cpus=0)
    def flaky(folder: str) -> int:
        number = len(os.listdir(folder))
        Path(folder, str(number)).touch()
        print("this is attempt", number)
        if number == 0:
            raise ValueError("the first")
        if number == 1:
            os._exit(9)
        return number

    ref = flaky.options(name="in attempts").remote(str(tmp_path))
    assert ray.get(ref) == 2

    def rows() -> Any:
        found = state.list_tasks(filters=[("name", "=", "in attempts")], detail=True)
        return found if len(found) == 3 else None

    found = sorted(wait_until(rows), key=lambda row: row.attempt_number)
    told = [(row.attempt_number, row.state, row.error_type) for row in found]
    assert told == [
        (0, "FAILED", "TASK_EXECUTION_EXCEPTION"),
        (1, "FAILED", "WORKER_DIED"),
        (2, "FINISHED", None),
    ]
    assert "the first" in found[0].error_message
    assert found[0].end_time_ms <= found[1].end_time_ms <= found[2].end_time_ms
    assert found[1].worker_id != found[2].worker_id
    several = state.get_task(ref)
    assert isinstance(several, list)
    assert {row.attempt_number for row in several} == {0, 1, 2}
    counts = state.summarize_tasks()["cluster"]["summary"]["in attempts"]["state_counts"]
    assert counts == {"FAILED": 2, "FINISHED": 1}


def test_each_attempt_of_a_method_is_a_row() -> None:
    @ray.remote(max_restarts=1, max_task_retries=1, num_cpus=0)
    class Dying:
        def die_once(self) -> int:
            if not ray.get_runtime_context().was_current_actor_reconstructed:
                os._exit(1)
            return 7

    actor = Dying.remote()
    ref = actor.die_once.options(name="method in attempts").remote()
    assert ray.get(ref) == 7
    found = state.get_task(ref)
    assert isinstance(found, list)
    told = sorted((row.attempt_number, row.state, row.error_type) for row in found)
    assert told == [(0, "FAILED", "ACTOR_DIED"), (1, "FINISHED", None)]


def test_references_say_where_they_were_made(run_driver: Any, tmp_path: Path) -> None:
    script = tmp_path / "their_script.py"
    script.write_text(
        """
import ray, subprocess, sys, os
from ray.util import state
ray.init("local", num_cpus=1, include_dashboard=False)

def put():
    return ray.put(b"x" * 2_000_000)

ref = put()
made = ray.remote(lambda: 1).remote()
ray.get(made)
(row,) = [row for row in state.list_objects() if row.object_id == ref.hex()]
print("put=" + row.call_site)
(row,) = [row for row in state.list_objects() if row.object_id == made.hex()]
print("made=" + row.call_site)
print("enabled=%s" % state.summarize_objects()["cluster"]["callsite_enabled"])
address = ray.get_runtime_context().gcs_address  # other clusters may run beside this one
command = [os.path.join(os.path.dirname(sys.executable), "ray"), "memory", "--address", address]
def memory(*words):
    done = subprocess.run([*command, *words], capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout
text = memory("--group-by", "STACK_TRACE", "--units", "MB")
(line,) = [line for line in text.splitlines() if ref.hex() in line]
print("line=" + " ".join(line.split()))
print("group=%s" % any(line.startswith("--- (put object)") and ":put:" in line for line in text.splitlines()))
print("total=" + memory("--stats-only", "--units", "MB").strip())
rows = memory("--sort-by", "PID", "--n", "1")
print("rows=%d" % sum("LOCAL_REFERENCE" in line for line in rows.splitlines()))
"""
    )
    done = run_driver(script, env={"RAY_record_ref_creation_sites": "1"}).check()
    assert done.value("put").startswith("(put object)")
    assert "their_script.py:put:7" in done.value("put")
    assert "their_script.py:<module>:10" in done.value("made")
    assert done.value("enabled") == "True"
    assert "1.91 MB LOCAL_REFERENCE" in done.value("line")
    assert "their_script.py:put:7" in done.value("line")
    assert done.value("group") == "True"
    assert done.value("total").startswith("Total: ")
    assert done.value("rows") == "1"


def test_summaries_count_by_name_and_state() -> None:
    ray.get([quick.remote(n) for n in range(3)])
    counter = Counter.remote()
    ray.get(counter.up.remote())
    tasks = state.summarize_tasks()["cluster"]
    (name,) = [name for name in tasks["summary"] if name.endswith("quick")]
    assert tasks["summary"][name]["state_counts"]["FINISHED"] >= 3
    assert tasks["total_tasks"] >= 3
    assert tasks["total_actor_tasks"] >= 1
    actors = state.summarize_actors()["cluster"]
    assert actors["summary"]["Counter"]["state_counts"]["ALIVE"] >= 1
    kept = ray.put(b"x" * (1 << 20))
    objects = state.summarize_objects()["cluster"]
    assert objects["total_size_mb"] >= 1
    assert kept is not None


def states(name: str) -> list[tuple[str, str | None]]:
    return sorted((row.state, row.error_type) for row in of_name(name))


def test_a_call_that_ends_its_process_well_has_finished() -> None:
    class Leaver:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def end(self, code: int) -> None:
            sys.exit(code)

        def after(self) -> None: ...

    class Async(Leaver):
        async def leave(self) -> None:
            ray.actor.exit_actor()

        async def end(self, code: int) -> None:
            sys.exit(code)

    @ray.remote(max_retries=0)
    def task_end(code: int) -> None:
        sys.exit(code)

    @ray.remote(max_retries=0)
    def task_cut() -> None:
        os._exit(0)

    def lost(ref: Any) -> None:
        with pytest.raises((ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError)):
            ray.get(ref, timeout=60)

    kinds = {
        "Plain": ray.remote(num_cpus=0)(type("Plain", (Leaver,), {})),
        "Threaded": ray.remote(num_cpus=0, max_concurrency=2)(type("Threaded", (Leaver,), {})),
        "Async": ray.remote(num_cpus=0)(Async),
    }
    for name, kind in kinds.items():
        leaves, ends, fails = kind.remote(), kind.remote(), kind.remote()
        lost(leaves.leave.remote())
        lost(leaves.after.remote())
        lost(ends.end.remote(0))
        lost(fails.end.remote(3))
        assert states(f"{name}.leave") == [("FINISHED", None)]
        assert states(f"{name}.after") == [("FAILED", "ACTOR_DIED")], "a call of a dead actor"
        assert states(f"{name}.end") == [("FAILED", "ACTOR_DIED"), ("FINISHED", None)]
    lost(task_end.remote(0))
    lost(task_end.remote(1))
    lost(task_cut.remote())
    assert states("task_end") == [("FAILED", "WORKER_DIED"), ("FINISHED", None)]
    assert states("task_cut") == [("FAILED", "WORKER_DIED")], "nobody knows that it was meant"


def test_what_is_not_to_be_told_is_not_listed() -> None:
    @ray.remote(enable_task_events=False)
    def secret() -> int:
        return 1

    @ray.remote(num_cpus=0, enable_task_events=False)
    class Secret:
        def hidden(self) -> int:
            return 1

        @ray.method(enable_task_events=True)
        def shown(self) -> int:
            return 1

    @ray.remote(num_cpus=0)
    class Partly:
        @ray.method(enable_task_events=False)
        def hidden(self) -> int:
            return 1

        def shown(self) -> int:
            return 1

    one, other = Secret.remote(), Partly.remote()
    told = secret.options(enable_task_events=True, name="told").remote()
    calls = [secret.remote(), one.hidden.remote(), one.shown.remote()]
    calls += [other.hidden.remote(), other.shown.remote()]
    calls += [other.hidden.options(enable_task_events=True).remote()]
    calls += [other.shown.options(enable_task_events=False).remote()]
    assert ray.get([told, *calls]) == [1] * 8
    names = [row.name for row in state.list_tasks(limit=10_000)]
    assert [name for name in names if "secret" in name or name == "told"] == ["told"]
    assert sorted(n for n in names if n.startswith("Secret.")) == ["Secret.shown"]
    partly = ["Partly.__init__", "Partly.hidden", "Partly.shown"]
    assert sorted(n for n in names if n.startswith("Partly.")) == partly


@ray.remote(num_cpus=0)
class Keeper:
    def wait(self, path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.01)
        return os.getpid()


@ray.remote(num_cpus=0)
class Caller:
    def call(self, keeper: Any, folder: str) -> int:
        done, go = f"{folder}/done", f"{folder}/go"
        ray.get([keeper.wait.remote(done), until.options(name="inner done").remote(done)])
        self.calls = [keeper.wait.remote(go), until.options(name="inner runs").remote(go)]
        return os.getpid()


def test_calls_of_a_process_that_was_killed_are_listed(tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    keeper, caller = Keeper.options(max_concurrency=2).remote(), Caller.remote()
    pid = ray.get(caller.call.remote(keeper, str(tmp_path)))
    wait_until(lambda: states("inner runs") == [("RUNNING", None)])
    wait_until(lambda: states("Keeper.wait") == [("FINISHED", None), ("RUNNING", None)])
    before = {row.task_id: row.worker_pid for row in of_name("wait")}
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: states("inner runs") == [("FAILED", "WORKER_DIED")])
    assert states("inner done") == [("FINISHED", None)]
    assert states("Keeper.wait") == [("FINISHED", None), ("RUNNING", None)]
    rows = of_name("wait")
    assert {row.task_id: row.worker_pid for row in rows} == before
    assert {row.job_id for row in rows} == {ray.get_runtime_context().get_job_id()}
    assert {row.actor_id for row in rows} == {keeper._actor_id.hex()}
    (tmp_path / "go").touch()
    wait_until(lambda: states("Keeper.wait") == [("FINISHED", None)] * 2)


def test_calls_of_processes_that_have_ended_are_listed(run_driver: Any, tmp_path: Path) -> None:
    """A worker that left, and a driver with its workers."""
    (tmp_path / "done").touch()

    @ray.remote(num_cpus=0)
    class Parent:
        def run(self, path: str) -> None:
            ray.get(until.options(name="of the parent").remote(path))

        def leave(self) -> None:
            ray.actor.exit_actor()

    parent = Parent.remote()
    ray.get(parent.run.remote(str(tmp_path / "done")))
    parent.leave.remote()
    wait_until(lambda: _dead(parent._actor_id.hex()))
    (row,) = of_name("of the parent")
    assert (row.state, row.start_time_ms > 0) == ("FINISHED", True)
    keeper = Keeper.options(name="keeper", namespace="state", max_concurrency=2).remote()
    ray.get(keeper.__ray_ready__.remote())
    done = run_driver(
        f"""
        import time
        import ray
        ray.init({ray.get_runtime_context().gcs_address!r}, namespace="state")
        print("job=" + ray.get_runtime_context().get_job_id())

        @ray.remote(num_cpus=0, name="of the driver")
        def other(seconds):
            time.sleep(seconds)

        keeper = ray.get_actor("keeper")
        ray.get([other.remote(0), keeper.wait.remote({str(tmp_path / "done")!r})])
        kept = [other.remote(3600), keeper.wait.remote({str(tmp_path / "go")!r})]
        ready, _ = ray.wait(kept, timeout=1)
        assert not ready
        """
    ).check()
    job = done.value("job")
    rows = of_name("of the driver") + [row for row in of_name("wait") if row.job_id == job]
    found = sorted((row.name, row.state, row.error_type) for row in rows)
    assert found == [
        ("Keeper.wait", "FINISHED", None),
        ("Keeper.wait", "RUNNING", None),
        ("of the driver", "FAILED", "WORKER_DIED"),
        ("of the driver", "FINISHED", None),
    ]
    assert {row.job_id for row in rows} == {job}
    (tmp_path / "go").touch()


def test_calls_of_a_driver_that_was_killed_are_listed(start_driver: Any, tmp_path: Path) -> None:
    """Those that were done and those that ran: of tasks, of tasks within tasks, of actors."""
    driver = start_driver(
        f"""
        import time
        import ray
        ray.init({ray.get_runtime_context().gcs_address!r}, namespace="killed")
        print("job=" + ray.get_runtime_context().get_job_id())

        @ray.remote(num_cpus=0)
        def leaf(seconds):
            time.sleep(seconds)

        @ray.remote(num_cpus=0)
        def outer(seconds):
            ray.get(leaf.options(name=f"inner {{seconds}}").remote(seconds))

        @ray.remote(num_cpus=0, max_concurrency=2)
        class Server:
            def work(self, seconds):
                time.sleep(seconds)

        server = Server.remote()
        kept = []
        for seconds in (0, 3600):
            kept = [
                leaf.options(name=f"plain {{seconds}}").remote(seconds),
                outer.options(name=f"outer {{seconds}}").remote(seconds),
                server.work.remote(seconds),
            ]
            if seconds == 0:
                ray.get(kept)
        print("started=yes", flush=True)
        time.sleep(3600)
        """
    )
    try:
        job = driver.wait_line("job")
        driver.wait_line("started")
        kinds = ("plain", "outer", "inner")
        running = [(f"{kind} 3600", "RUNNING", None) for kind in kinds]
        running.append(("Server.work", "RUNNING", None))
        done = [(f"{kind} 0", "FINISHED", None) for kind in kinds]
        done.append(("Server.work", "FINISHED", None))

        def listed() -> list[tuple[str, str, str | None]]:
            rows = [row for row in state.list_tasks(limit=10_000) if row.job_id == job]
            named = [row for row in rows if row.name.split()[0] in (*kinds, "Server.work")]
            return sorted(((row.name, row.state, row.error_type) for row in named), key=str)

        wait_until(lambda: listed() == sorted(running + done, key=str))
        driver.process.kill()
        driver.process.wait(60)
        ended = [(name, "FAILED", "WORKER_DIED") for name, *_ in running]
        wait_until(lambda: listed() == sorted(ended + done, key=str), what="each call's row, once")
    finally:
        driver.kill()


def test_what_ended_is_forgotten_in_time() -> None:
    """LIMIT-1: a process remembers its latest 10,000 tasks."""
    for _ in range(6):
        ray.get([quick.remote(n) for n in range(2_000)])
    rows = state.list_tasks(limit=10_000)
    assert len(rows) == 10_000


@pytest.mark.contract("F6.20")
def test_the_timeline_is_a_chrome_trace(tmp_path: Path) -> None:
    before = time.time() * 1e6
    ray.get([quick.remote(n) for n in range(3)])
    events = ray.timeline()
    assert events is not None
    mine = [
        e for e in events if e["ph"] == "X" and e["name"].endswith("quick") and e["ts"] >= before
    ]
    assert len(mine) == 3
    assert all(event["dur"] >= 0 and event["pid"].startswith("Node ") for event in mine)
    path = tmp_path / "trace.json"
    assert ray.timeline(str(path)) is None
    assert len(json.loads(path.read_text())) >= len(events)
