"""Who may ask the head's HTTP server, and what it says of itself."""

from __future__ import annotations

import json
import re
import socket
from urllib.parse import urlencode

import pytest
import ray

from tests.helpers.harness import free_port
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05", "F6.22", "F6.25"),
    pytest.mark.heliostat_only("Ray's dashboard needs more packages than the tests install"),
]

OWN_PAGE = {"Content-Type": "application/x-www-form-urlencoded"}


def test_the_version_is_told_to_who_has_the_token(head: Head) -> None:
    said = head.get("/api/version")
    assert said["ray_version"] == ray.__version__
    assert int(said["version"]) >= 4
    assert said["session_name"] == head.session().name


@pytest.mark.parametrize("path", ["/api/version", "/api/nothing", "/api/jobs/", "/metrics"])
def test_nobody_is_answered_without_the_token(head: Head, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert head.ask(method, path, token=False).status == 401
        wrong = {"Authorization": "Bearer " + "0" * 32}
        assert head.ask(method, path, headers=wrong, token=False).status == 403


def test_the_token_is_taken_from_either_header(head: Head) -> None:
    for name in ("Authorization", "X-Ray-Authorization"):
        given = {name: f"Bearer {head.token}"}
        assert head.ask("GET", "/api/version", headers=given, token=False).status == 200


def test_probes_are_answered_without_one(head: Head) -> None:
    for path in ("/api/gcs_healthz", "/api/local_raylet_healthz"):
        answer = head.ask("GET", path, token=False)
        assert (answer.status, answer.text) == (200, "success")
    answer = head.ask("GET", "/api/healthz", token=False)
    assert (answer.status, answer.text) == (200, "raylet: success\ngcs: success")


def _cookie(head: Head, answer_headers: dict[str, str]) -> str:
    cookie = answer_headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert head.token not in cookie
    return cookie.partition(";")[0]


def test_a_browser_logs_in_with_the_token(head: Head) -> None:
    page = head.ask("GET", "/login", token=False)
    assert page.status == 200
    assert "<form" in page.text
    home = head.ask("GET", "/", token=False)
    assert (home.status, home.headers["location"]) == (303, "/login")

    refused = head.ask("POST", "/login", urlencode({"token": "x"}), OWN_PAGE, token=False)
    assert refused.status == 403
    assert "token" in refused.text
    entered = head.ask("POST", "/login", urlencode({"token": head.token}), OWN_PAGE, token=False)
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = {"Cookie": _cookie(head, dict(entered.headers))}
    assert head.ask("GET", "/api/version", headers=cookie, token=False).status == 200


def test_a_link_logs_in_once(head: Head) -> None:
    printed = re.search(r"http://\S+/login\?key=\S+", head.said)
    assert printed
    assert printed[0].startswith(head.url)
    assert head.token not in head.said
    again = head.run("dashboard").stdout.strip()
    for link in (printed[0], again):
        path = link.removeprefix(head.url)
        first = head.ask("GET", path, token=False)
        assert first.status == 303
        cookie = {"Cookie": _cookie(head, dict(first.headers))}
        assert head.ask("GET", "/api/version", headers=cookie, token=False).status == 200
        assert head.ask("GET", path, token=False).status == 403


def test_pages_of_others_cannot_use_the_cookie(head: Head) -> None:
    """A page of another server changes nothing, and a name that it points here is not ours."""
    entered = head.ask("POST", "/login", urlencode({"token": head.token}), OWN_PAGE, token=False)
    cookie = {"Cookie": _cookie(head, dict(entered.headers))}
    job = json.dumps({"entrypoint": "true"})
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{free_port()}"):
        sent = {**cookie, "Origin": origin, "Content-Type": "application/json"}
        assert head.ask("POST", "/api/jobs/", job, sent, token=False).status == 403
    assert head.ask("POST", "/api/jobs/", job, cookie, token=False).status == 403
    rebound = {**cookie, "Host": f"evil.example:{head.web_port}"}
    assert head.ask("GET", "/api/version", headers=rebound, token=False).status == 421


def test_what_is_not_there_is_named(head: Head) -> None:
    answer = head.ask("GET", "/api/nothing")
    assert answer.status == 404
    assert "/api/nothing" in answer.text
    answer = head.ask("DELETE", "/api/version")
    assert answer.status == 405


@pytest.mark.parametrize(
    "sent",
    [b"\x00\xff" * 100, b"GET / HTTP/9.9\r\n\r\n", b"G" * 70_000, b"GET / HTTP/1.1\r\nA" * 9000],
)
def test_what_is_no_http_is_refused_and_serves_on(head: Head, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", head.web_port), timeout=60) as link:
        link.sendall(sent)
        try:
            said = link.recv(100)
        except ConnectionResetError:
            said = b""
    assert said == b"" or said.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert head.ask("GET", "/api/version").status == 200


def test_a_taken_port_is_named(own_head: Head) -> None:
    with socket.create_server(("127.0.0.1", own_head.web_port)):
        done = own_head.run(
            "start",
            "--head",
            f"--port={own_head.port}",
            f"--dashboard-port={own_head.web_port}",
            check=False,
        )
    assert done.returncode != 0
    assert f"127.0.0.1:{own_head.web_port}" in done.stdout
    assert "--dashboard-port" in done.stdout


def test_init_serves_when_it_is_asked_to(ray_down: None) -> None:
    context = ray.init(num_cpus=1, include_dashboard=True, dashboard_port=0)
    host, _, port = context.dashboard_url.partition(":")
    assert host == "127.0.0.1"
    with socket.create_connection((host, int(port)), timeout=60) as link:
        link.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert link.recv(100).startswith(b"HTTP/1.1 401")
    ray.shutdown()
    context = ray.init(num_cpus=1)
    assert context.dashboard_url == ""
