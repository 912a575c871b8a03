"""`heliostat history open`: the page of a cluster that is gone, from what its head wrote down."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from heliostat.util.history_command import Copy, Store, fetch

from tests.helpers import web
from tests.helpers.answers import Answer
from tests.helpers.browser import BROWSER, WAIT, accessible, fits
from tests.helpers.commands import CLI
from tests.helpers.harness import kill_daemon, wait_until
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05"),
    pytest.mark.heliostat_only("what Ray's head knows ends with it"),
]

WAIT_S = 120

DRIVER = """
import os, sys, ray
ray.init(address=sys.argv[1], namespace="past")

@ray.remote
def square(x):
    return x * x

@ray.remote(max_retries=0)
def fails():
    raise ValueError("no such column")

@ray.remote
class Counter:
    def add(self, n):
        return n

@ray.remote
def waits():
    import time
    time.sleep(3600)

assert ray.get([square.remote(n) for n in range(300)])[-1] == 299 * 299
counter = Counter.options(name="kept", lifetime="detached").remote()
assert ray.get([counter.add.remote(n) for n in range(20)])[-1] == 19
try:
    ray.get(fails.remote())
except ValueError:
    pass
@ray.remote
def step(n):
    return n

held = waits.remote()
print("ready", flush=True)
sys.stdin.readline()
import itertools, time
for n in itertools.count():
    ray.get(step.remote(n))
    print(n, flush=True)
    time.sleep(0.01)
"""


# A history's folder, its head, the tasks that the head had shown, the last call of `step` that it must have.
Past = tuple[Path, Head, list[dict[str, Any]], int]


class Opened:
    """A history that is served."""

    def __init__(self, port: int, cookie: str) -> None:
        self._port = port
        self._cookie = cookie
        self.url = f"http://127.0.0.1:{port}"

    @property
    def cookie(self) -> dict[str, str]:
        """As a browser takes it."""
        name, _, value = self._cookie.partition("=")
        return {"name": name, "value": value, "url": self.url}

    def ask(self, path: str, method: str = "GET") -> Answer:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT_S)
        try:
            link.request(method, path, headers={"Cookie": self._cookie, "Origin": self.url})
            answer = link.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            link.close()

    def get(self, path: str) -> Any:
        answer = self.ask(path)
        assert answer.status == 200, (path, answer.status, answer.text)
        return answer.json()

    def rows(self, resource: str, **filters: str) -> list[dict[str, Any]]:
        query = [("limit", "10000"), ("detail", "1")]
        for name, value in filters.items():
            query += [("filter_keys", name), ("filter_predicates", "="), ("filter_values", value)]
        told = self.get(f"/api/v0/{resource}?{urlencode(query)}")["data"]["result"]
        rows: list[dict[str, Any]] = told["result"]
        assert told["num_filtered"] == len(rows)
        return rows

    @property
    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/api/v0/cluster_metadata")["data"]["history"]
        return found


@contextlib.contextmanager
def opened(place: Path | str, env: dict[str, str]) -> Iterator[Opened]:
    served = subprocess.Popen(
        [CLI, "history", "open", str(place), "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        assert served.stdout is not None
        assert served.stderr is not None
        line = served.stdout.readline().strip()
        assert line, served.stderr.read()
        link = urlsplit(line)
        assert link.port is not None
        asked = http.client.HTTPConnection("127.0.0.1", link.port, timeout=WAIT_S)
        asked.request("GET", f"{link.path}?{link.query}")
        entered = asked.getresponse()
        entered.read()
        asked.close()
        yield Opened(link.port, (entered.headers["set-cookie"] or "").partition(";")[0])
    finally:
        # A history of a store is served by a child of the command.
        for child in Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGTERM)
        served.terminate()
        served.communicate()


def refused(place: Path | str, env: dict[str, str]) -> str:
    """What `open` says of a history that it does not open."""
    done = subprocess.run(
        [CLI, "history", "open", str(place)],
        capture_output=True,
        text=True,
        env=env,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr


@contextlib.contextmanager
def driver_on(head: Head) -> Iterator[subprocess.Popen[str]]:
    """A driver that has run its tasks and is there still; told to, it calls `step` on and on."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, f"127.0.0.1:{head.port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=head.env,
    ) as driver:
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline().strip() == "ready"
            yield driver
        finally:
            driver.kill()


def kill_head(head: Head) -> Path:
    """The head ends without warning; the folder of its session."""
    session = head.session()
    kill_daemon(session)
    return session


def written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.history"))


def kill_head_while_calls_run(head: Head, driver: subprocess.Popen[str]) -> tuple[Path, int]:
    """Kill the head when it has written twice after a call was over; its session's folder, and that call."""
    folder = head.session() / "history"
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write("go on\n")
    driver.stdin.flush()
    last = [int(driver.stdout.readline()) for _ in range(20)][-1]
    # What was asked for before the call may be written after it, and what is asked for then has it.
    for _ in range(2):
        size = written(folder)
        while written(folder) == size:
            assert driver.stdout.readline(), "the driver has ended"
    return kill_head(head), last


@pytest.fixture(scope="module")
def past() -> Iterator[Past]:
    """The history of a head that was killed, and the tasks that it had to have."""
    head = web.new()
    head.start()
    try:
        with driver_on(head) as driver:
            history = head.session() / "history"

            def shown() -> list[dict[str, Any]]:
                told = head.get("/api/v0/tasks?limit=10000&detail=1")["data"]["result"]["result"]
                found: list[dict[str, Any]] = told
                return found

            def runs() -> bool:
                return any(row["name"] == "waits" and row["state"] == "RUNNING" for row in shown())

            wait_until(runs, what="a running task", within=WAIT_S)
            before = shown()
            # What the head writes within its second.
            size = written(history)
            wait_until(
                lambda: (
                    len(head.get("/api/v0/metrics/past")["at"]) > 2 and written(history) >= size
                ),
                what="figures",
                within=WAIT_S,
            )

            def is_kept() -> bool:
                with opened(history, head.env) as told:
                    rows = told.rows("tasks")
                return len(rows) >= len(before) and any(row["name"] == "waits" for row in rows)

            wait_until(is_kept, what="the tasks in the history", within=WAIT_S)
            session, last = kill_head_while_calls_run(head, driver)
        copy = Path(head.home) / "copy"
        shutil.copytree(session / "history", copy / "history")
        shutil.copytree(session / "metrics", copy / "metrics")
        yield copy, head, before, last
    finally:
        web.end(head)


def test_the_page_of_a_head_that_was_killed_is_as_it_was(
    past: Past,
) -> None:
    folder, head, before, last = past
    with opened(folder, head.env) as told:
        assert "<noscript>" in told.ask("/").text
        after = {(row["task_id"], row["attempt_number"]): row for row in told.rows("tasks")}
        columns = ["name", "state", "job_id", "type", "parent_task_id", "error_type", "worker_pid"]
        columns += ["creation_time_ms", "node_id", "actor_id", "required_resources"]
        for row in before:
            kept = after[row["task_id"], row["attempt_number"]]
            assert {name: kept[name] for name in columns} == {name: row[name] for name in columns}
        assert len(told.rows("tasks", name="square", state="FINISHED")) == 300
        assert len(told.rows("tasks", name="Counter.add")) == 20
        assert [row["state"] for row in told.rows("tasks", name="waits")] == ["RUNNING"]
        # What was over before the last but one question is there, however the head ended.
        assert len(told.rows("tasks", name="step", state="FINISHED")) > last
        (failed,) = told.rows("tasks", state="failed")
        assert "no such column" in failed["error_message"]
        (one,) = told.rows("tasks", task_id=failed["task_id"])
        assert one == failed

        summary = told.get("/api/v0/tasks/summarize")["data"]["result"]["result"]
        counts = summary["node_id_to_summary"]["cluster"]["summary"]["square"]["state_counts"]
        assert counts == {"FINISHED": 300}
        (actor,) = told.rows("actors", name="kept")
        assert (actor["class_name"], actor["state"]) == ("Counter", "ALIVE")
        (node,) = told.rows("nodes")
        assert node["is_head_node"]
        assert any(row["type"] == "DRIVER" for row in told.get("/api/jobs/"))
        assert told.rows("workers")
        assert told.get("/api/v0/tasks/errors")["groups"][0]["function"] == "fails"
        assert len(told.get("/api/v0/tasks/activity?since=0")["bars"]) >= 300
        assert told.get("/api/v0/tasks/timeline")
        assert told.get("/api/v0/metrics/past")["at"]
        assert told.get("/nodes?view=summary")["data"]["summary"]
        assert told.get("/api/v0/training") == {"runs": []}
        assert told.about["notes"] == []
        assert told.about["begun_ms"] < told.about["ended_ms"]


@pytest.mark.skipif(not BROWSER, reason="HELIOSTAT_BROWSER names no Chromium")
def test_the_page_says_that_the_cluster_is_gone(
    past: Past,
) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    folder, head, *_ = past
    with opened(folder, head.env) as told, playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.context.add_cookies([told.cookie])
        page.goto(told.url)
        page.get_by_text("This cluster has ended.").wait_for(timeout=WAIT)
        seen = page.get_by_role("application", name=re.compile("Tasks in the last minute: [1-9]"))
        seen.wait_for(timeout=WAIT)
        accessible(page)
        for part, text in (("tasks", "square"), ("actors", "Counter"), ("nodes", "ALIVE")):
            page.goto(f"{told.url}/#/{part}")
            page.get_by_role("table").get_by_text(text).first.wait_for(timeout=WAIT)
            accessible(page)
        for part in ("logs", "objects"):
            page.goto(f"{told.url}/#/{part}")
            page.get_by_text(f"A history has no {part}.").wait_for(timeout=WAIT)
        page.goto(f"{told.url}/#/metrics")
        page.get_by_role("img", name="CPUs of the machine, %").wait_for(timeout=WAIT)
        fits(page, 400)
        browser.close()
        assert problems == []


def test_pages_of_the_past_go_on_where_they_ended(
    past: Past,
) -> None:
    folder, head, *_ = past
    with opened(folder, head.env) as told:
        for order in ("", "&order=took"):
            seen: list[tuple[str, int]] = []
            after = ""
            while True:
                page = told.get(f"/api/v0/tasks?limit=70{order}{after}")["data"]["result"]
                seen += [(row["task_id"], row["attempt_number"]) for row in page["result"]]
                if page["next"] is None:
                    break
                after = f"&next={page['next']}"
            assert len(seen) == len(set(seen)) == page["total"]


def test_what_a_history_has_not_is_said(past: Past) -> None:
    folder, head, *_ = past
    with opened(folder, head.env) as told:
        (node,) = told.rows("nodes")
        for path in (
            f"/api/v0/logs?node_id={node['node_id']}",
            f"/api/v0/stacks/{node['node_id']}/1",
            "/api/serve/applications/",
        ):
            answer = told.ask(path)
            assert (answer.status, "This cluster has ended." in answer.text) == (404, True)
        assert told.ask("/api/jobs/", "POST").status == 404
        missing = told.ask("/api/v0/tasks?filter_keys=colour&filter_predicates=%3D&filter_values=1")
        assert (missing.status, "`colour`" in missing.text) == (400, True)
        assert told.rows("objects") == []


def test_a_history_that_is_cut_or_of_another_form_opens_with_what_is_there(
    past: Past, tmp_path: Path
) -> None:
    folder, head, *_ = past
    cut = tmp_path / "cut"
    shutil.copytree(folder / "history", cut)
    (file,) = cut.glob("*.history")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) * 2 // 3])
    with opened(cut, head.env) as told:
        assert told.rows("nodes")
        (note,) = told.about["notes"]
        assert "is cut or damaged" in note
        page = told.get("/api/v0/tasks")["data"]["result"]
        assert page["partial_failure_warning"] == note

    # A further file of a later form: what is known is shown.
    file.write_bytes(whole)
    about = whole.split(b"\n", 2)[1].replace(b'"release":"', b'"release":"9.')
    (cut / "00000002.history").write_bytes(b"heliostat-history 99\n" + about + b"\nsomething")
    with opened(cut, head.env) as told:
        assert told.rows("tasks")
        (note,) = told.about["notes"]
        assert "in form 99" in note
        assert "Heliostat 9." in note
    (cut / "00000001.history").unlink()
    assert "in form 99" in refused(cut, head.env)

    # The same form, of another release.
    file.write_bytes(whole.replace(b'"release":"', b'"release":"9.', 1))
    (cut / "00000002.history").unlink()
    with opened(cut, head.env) as told:
        assert told.rows("tasks")
        (note,) = told.about["notes"]
        assert "It was written by Heliostat 9." in note

    (cut / "00000001.history").write_bytes(b"nothing of that kind")
    assert "not a file of a history" in refused(cut, head.env)
    assert "There is no history in" in refused(tmp_path, head.env)
    assert "cannot be read" in refused(tmp_path / "absent", head.env)


def test_a_history_is_listed_and_can_lie_elsewhere_or_nowhere(
    own_head: Head, tmp_path: Path
) -> None:
    own_head.env["HELIOSTAT_HISTORY"] = str(tmp_path)
    own_head.start()
    (folder,) = wait_for_folders(tmp_path)
    assert folder.name == own_head.session().name
    wait_until(lambda: written(folder) > 0, what="a history", within=WAIT_S)
    listed = own_head.run("history", "list").stdout
    assert str(folder) in listed
    assert listed.split()[:5] == ["FROM", "TO", "TASKS", "SIZE", "FOLDER"]
    own_head.run("stop", "--force")

    own_head.env["HELIOSTAT_HISTORY"] = "0"
    own_head.start()
    wait_until(lambda: own_head.get("/api/v0/metrics/past")["at"], what="a second", within=WAIT_S)
    assert not (own_head.session() / "history").exists()
    assert list(tmp_path.iterdir()) == [folder]


def test_a_copy_in_a_store_follows_and_is_opened(own_head: Head, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="copies in stores are written by fsspec")
    own_head.env["HELIOSTAT_HISTORY"] = f"file://{tmp_path}"
    own_head.start()
    with driver_on(own_head):
        (folder,) = wait_for_folders(tmp_path)
        place = f"file://{folder}"

        def has_tasks() -> bool:
            if not list(folder.iterdir()):
                return False
            with opened(place, own_head.env) as told:
                return len(told.rows("tasks", name="square")) == 300

        wait_until(has_tasks, what="the tasks in the copy", within=WAIT_S)
        own_head.run("stop", "--force")
    # The process that copies has ended with the head.
    own = own_head.session() / "history"
    packed = folder / "metrics.tar.gz"
    names = {path.name.partition(".part-")[0] for path in folder.iterdir()} - {packed.name}
    wait_until(
        lambda: (
            sum(path.stat().st_size for path in folder.glob("*.history*")) == written(own)
            and names == {path.name for path in own.iterdir()}
        ),
        what="the whole copy",
        within=WAIT_S,
    )

    def has_figures() -> bool:
        with opened(place, own_head.env) as told:
            return bool(told.get("/api/v0/metrics/past")["at"])

    wait_until(has_figures, what="what the machine used", within=WAIT_S)


def test_a_copy_that_began_anew_is_read_to_its_end(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="copies in stores are read by fsspec")
    own, there, read = tmp_path / "history", tmp_path / "copy", tmp_path / "read"
    own.mkdir()
    read.mkdir()
    store = Store(f"file://{there}")
    file = own / "00000001.history"
    file.write_bytes(b"first ")
    before = Copy(own, store)
    before.bring_up_to_date()
    file.write_bytes(b"first second ")
    before.bring_up_to_date()
    # The store did not answer, so the process that copies has ended, and another begins.
    file.write_bytes(b"first second third ")
    again = Copy(own, store)
    again.bring_up_to_date()
    file.write_bytes(b"first second third fourth")
    again.bring_up_to_date()
    fetch(store, read)
    assert (read / file.name).read_bytes() == file.read_bytes()
    # Of a part that was lost, and of what is behind it, nothing is put together.
    store.remove("00000001.history.part-000000000000")
    fetch(store, read)
    assert (read / file.name).read_bytes() == b""


def test_a_store_that_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="copies in stores are read by fsspec")
    env = {**os.environ, "RAY_TMPDIR": str(tmp_path)}
    # Nobody listens there.
    said = refused("ftp://127.0.0.1:1/histories", env)
    assert said.startswith("ftp://127.0.0.1:1/histories cannot be re")
    assert "Traceback" not in said
    assert "There is no history in memory://nothing" in refused("memory://nothing", env)


def wait_for_folders(place: Path) -> list[Path]:
    wait_until(lambda: list(place.iterdir()), what="a history", within=WAIT_S)
    return list(place.iterdir())


def test_a_head_that_comes_back_goes_on_with_its_history(own_head: Head) -> None:
    own_head.start()
    folder = own_head.session() / "history"
    wait_until(lambda: written(folder) > 0, what="a history", within=WAIT_S)
    kill_head(own_head)
    own_head.start()
    if own_head.session() / "history" != folder:
        return
    wait_until(lambda: len(list(folder.iterdir())) == 2, what="a further file", within=WAIT_S)
    with opened(folder, own_head.env) as told:
        assert json.dumps(told.about["notes"]) == "[]"
