"""``RAY_AUTH_MODE=disabled``: no port asks for a token, and a line at the start says what that means."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers import web
from tests.helpers.harness import clean_env, wait_until
from tests.helpers.web import Head

pytestmark = pytest.mark.contract("F6.22")


@pytest.fixture(scope="module")
def open_head() -> Iterator[Head]:
    """A head without authentication, which the tests of this module share."""
    head = web.new()
    head.env = {
        **{name: value for name, value in head.env.items() if name != "HELIOSTAT_AUTH_TOKEN"},
        "RAY_AUTH_MODE": "disabled",
        "HOME": str(head.home),
    }
    head.start()
    yield head
    web.end(head)


def test_the_start_says_what_anybody_may_do(open_head: Head) -> None:
    warnings = [line for line in open_head.said.splitlines() if line.startswith("Warning:")]
    assert len(warnings) == 1, open_head.said
    for part in ("RAY_AUTH_MODE=disabled", "ask for no token", "any code"):
        assert part in warnings[0]
    assert "export RAY_AUTH_MODE=disabled" in open_head.said
    assert f"{open_head.url}/\n" in open_head.said, "a link without a key"
    assert not (open_head.home / ".heliostat").exists(), "no token is made"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer of-a-proxy"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"X-Ray-Authorization": "Bearer x"},
        {"Host": "raycluster-head-svc.default.svc:8265"},
        {"Authorization": "Bearer x", "Host": "head.example"},
    ],
    ids=str,
)
def test_every_program_is_answered(open_head: Head, headers: dict[str, str]) -> None:
    for path in ("/api/jobs/", "/api/version", "/nodes?view=summary", "/api/v0/nodes"):
        answer = open_head.ask("GET", path, headers=headers, token=False)
        assert answer.status == 200, (path, answer.text)
    mode = open_head.ask("GET", "/api/authentication_mode", token=False).json()
    assert mode == {"authentication_mode": "disabled"}


def test_a_job_of_a_client_with_headers_of_its_own(open_head: Head) -> None:
    for how, authorization in enumerate(("Bearer of-a-proxy", "Basic dXNlcjpwYXNz")):
        headers = {"Authorization": authorization, "Content-Type": "application/json"}
        script = "import ray; ray.init(); print('answer', ray.get(ray.remote(abs).remote(-42)))"
        body = {"entrypoint": f'{sys.executable} -c "{script}"', "submission_id": f"open{how}"}
        made = open_head.ask("POST", "/api/jobs/", json.dumps(body), headers, token=False)
        assert made.status == 200, made.text

        def has_ended(job: str = body["submission_id"], headers: Any = headers) -> Any:
            info = open_head.ask("GET", f"/api/jobs/{job}", headers=headers, token=False).json()
            return info if info["status"] in ("SUCCEEDED", "FAILED") else None

        info = wait_until(has_ended)
        path = f"/api/jobs/{body['submission_id']}/logs"
        log = open_head.ask("GET", path, headers=headers, token=False)
        assert info["status"] == "SUCCEEDED", log.text
        assert "answer 42" in log.text


def test_the_client_sends_what_it_is_given(open_head: Head, run_driver: Any) -> None:
    done = run_driver(
        f"""
        from ray.job_submission import JobSubmissionClient

        for headers in ({{"Authorization": "TOK:<MY_TOKEN>"}}, None):
            client = JobSubmissionClient({open_head.url!r}, headers=headers)
            print("version", client.get_version(), len(client.list_jobs()) >= 0)
        """,
        env={"HOME": str(open_head.home)},
    ).check()
    assert done.stdout.count("version") == 2


def test_measurements_are_anybodys(open_head: Head) -> None:
    nodes = open_head.ask("GET", "/api/v0/nodes?detail=true", token=False).json()
    text = json.dumps(nodes)
    assert "ALIVE" in text
    targets = open_head.ask("GET", "/api/prometheus/sd", token=False).json()
    target = targets[0]["targets"][0]
    with urllib.request.urlopen(f"http://{target}/metrics", timeout=60) as answer:
        assert answer.status == 200


def test_pages_of_strangers_are_kept_out(open_head: Head) -> None:
    """A browser in a network that reaches the head is no way in for the pages that it shows."""
    agent = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"}
    own = {**agent, "Host": f"127.0.0.1:{open_head.web_port}"}
    assert open_head.ask("GET", "/api/jobs/", headers=own, token=False).status == 200
    rebound = {**agent, "Host": "evil.example"}
    assert open_head.ask("GET", "/api/jobs/", headers=rebound, token=False).status == 421
    foreign = {**own, "Origin": "http://evil.example", "Content-Type": "text/plain"}
    body = json.dumps({"entrypoint": "true"})
    assert open_head.ask("POST", "/api/jobs/", body, foreign, token=False).status == 403


def test_drivers_and_nodes_join_without_a_token(open_head: Head, run_driver: Any) -> None:
    address = f"127.0.0.1:{open_head.port}"
    env = clean_env({"RAY_TMPDIR": open_head.env["RAY_TMPDIR"], "HOME": str(open_head.home)})
    asks = {**env, "HELIOSTAT_AUTH_TOKEN": "a" * 32}
    before = open_head.env
    try:
        for wrong in (env, asks):
            open_head.env = wrong
            refused = open_head.run("start", f"--address={address}", "--num-cpus=1", check=False)
            assert refused.returncode != 0
            assert "start the node with RAY_AUTH_MODE=disabled" in refused.stdout
    finally:
        open_head.env = before
    said = open_head.run("start", f"--address={address}", "--num-cpus=1", '--resources={"b": 1}')
    assert "Warning: RAY_AUTH_MODE=disabled" in said.stdout
    # A driver joins, whatever it was told of tokens: the session's folder says that there is none.
    for own in ({}, {"HELIOSTAT_AUTH_TOKEN": "a" * 32}, {"RAY_AUTH_MODE": "disabled"}):
        done = run_driver(
            f"""
            import ray

            ray.init(address={address!r})

            @ray.remote(resources={{"b": 1}})
            def there(x):
                return len(x), ray.get_runtime_context().get_node_id()

            size, node = ray.get(there.remote(bytes(5_000_000)))
            print(f"size={{size}}")
            print(f"other={{node != ray.get_runtime_context().get_node_id()}}")
            """,
            env={"RAY_TMPDIR": open_head.env["RAY_TMPDIR"], "HOME": str(open_head.home), **own},
        ).check()
        assert (done.value("size"), done.value("other")) == ("5000000", "True")


def test_the_token_stays_the_default(own_head: Head) -> None:
    """A process that was told of no token does not get in where one is asked for."""
    own_head.start()
    assert "RAY_AUTH_MODE" not in own_head.said
    assert own_head.ask("GET", "/api/jobs/", token=False).status == 401
    mode = own_head.ask("GET", "/api/authentication_mode", token=False).json()
    assert mode == {"authentication_mode": "token"}
    own_head.env = {**own_head.env, "RAY_AUTH_MODE": "disabled"}
    refused = own_head.run(
        "start", f"--address=127.0.0.1:{own_head.port}", "--num-cpus=1", check=False
    )
    assert refused.returncode != 0
    assert "leave RAY_AUTH_MODE=disabled out" in refused.stdout


def test_a_slip_of_the_keys_is_told(own_head: Head) -> None:
    own_head.env = {**own_head.env, "RAY_AUTH_MODE": "disable"}
    refused = own_head.run("start", "--head", f"--port={own_head.port}", check=False)
    assert refused.returncode != 0
    assert "RAY_AUTH_MODE" in refused.stdout
    assert "token, disabled" in refused.stdout
