"""`heliostat dashboard` opens the page of a script's own cluster, which opens no port by itself."""

from __future__ import annotations

import http.client
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.helpers import harness, web
from tests.helpers.commands import CLI

pytestmark = [
    pytest.mark.contract("F6.05"),
    pytest.mark.heliostat_only("Ray's dashboard is part of its head"),
]

WAIT_S = 120

DRIVER = """
import pathlib, sys, time, ray
ray.init(num_cpus=1)

@ray.remote
def seen():
    return 1

ray.get(seen.remote())
pathlib.Path(sys.argv[1], "ready").touch()
gate = pathlib.Path(sys.argv[1], "gate")
while not gate.exists():
    time.sleep(0.05)
"""


def test_the_page_of_a_local_session_is_there_on_demand_and_until_it_ends(tmp_path: Path) -> None:
    with web.shell() as shell:
        env = {"RAY_TMPDIR": str(shell.home)}
        driver = harness.start_driver(tmp_path, DRIVER, args=[str(tmp_path)], env=env)
        driver.wait_file(tmp_path / "ready", within=WAIT_S)
        assert "`heliostat dashboard` opens its page" in driver.stderr()
        served = subprocess.Popen(
            [CLI, "dashboard", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=harness.clean_env(env),
        )
        asked: http.client.HTTPConnection | None = None
        try:
            assert served.stdout is not None
            link = urlsplit(served.stdout.readline().strip())
            assert "until the session ends" in served.stdout.readline()
            assert link.port is not None
            asked = http.client.HTTPConnection("127.0.0.1", link.port, timeout=WAIT_S)
            asked.request("GET", f"{link.path}?{link.query}")
            entered = asked.getresponse()
            entered.read()
            cookie = {"Cookie": (entered.headers["set-cookie"] or "").partition(";")[0]}
            for path, text in (("/", "<noscript>"), ("/api/v0/tasks", '"seen"')):
                asked.request("GET", path, headers=cookie)
                answer = asked.getresponse()
                assert (answer.status, text in answer.read().decode()) == (200, True)
            # Drivers that the server starts find the cluster, too.
            asked.request("GET", "/api/v0/workers?detail=1", headers=cookie)
            told = json.loads(asked.getresponse().read())["data"]["result"]["result"]
            row = next(row for row in told if row["worker_type"] == "WORKER" and row["is_alive"])
            asked.request("GET", f"/api/v0/stacks/{row['node_id']}/{row['pid']}", headers=cookie)
            answer = asked.getresponse()
            assert (answer.status, answer.read().decode()[:1]) == (200, "{")
            (tmp_path / "gate").touch()
            driver.finish(WAIT_S).check()
            assert "The session has ended." in served.communicate(timeout=WAIT_S)[0]
            assert served.returncode == 0
        finally:
            if asked is not None:
                asked.close()
            served.kill()
            served.communicate()
            driver.kill()
