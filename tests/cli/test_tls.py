"""Variables of encryption that are missing or wrong are told at the start, and nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.helpers import web
from tests.helpers.certificates import DAY, Authority
from tests.helpers.commands import CLI, ran
from tests.helpers.harness import clean_env, free_port

pytestmark = [
    pytest.mark.contract("F6.28", "F15.12"),
    pytest.mark.heliostat_only("Ray says it elsewhere, and in other words"),
]
NAMES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


@pytest.fixture
def home() -> Iterator[Path]:
    with web.folder("tls") as home:
        yield home


def heliostat(home: Path, *args: str, **variables: str) -> tuple[int, str]:
    done = ran(
        [CLI, *args],
        env=clean_env({"RAY_TMPDIR": str(home), **variables}),
        within=120,
    )
    return done.returncode, done.stdout


def start(home: Path, **variables: str) -> tuple[int, str]:
    quiet = (f"--port={free_port()}", "--num-cpus=1", "--include-dashboard=false")
    here = "--node-ip-address=127.0.0.1"
    return heliostat(home, "start", "--head", here, *quiet, **variables)


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_that_is_missing_is_named(
    home: Path, ray_down: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    authority = Authority(home / "authority")
    variables = authority.variables(authority.sign("this", "127.0.0.1"))
    del variables[name]
    code, said = start(home, **variables)
    assert code != 0
    assert f"and {name} is not set" in said
    assert not list(home.rglob("session_*")), "nothing was started"
    for key, text in variables.items():
        monkeypatch.setenv(key, text)
    with pytest.raises(Exception, match=f"and {name} is not set"):
        ray.init(address="local", num_cpus=1)


def test_a_file_of_no_use_is_named(home: Path) -> None:
    authority, stranger = Authority(home / "authority"), Authority(home / "stranger", "strangers")
    good = authority.variables(authority.sign("this", "127.0.0.1"))
    other = stranger.variables(stranger.sign("other", "127.0.0.1"))
    old = authority.variables(authority.sign("old", since=-3 * DAY, until=-DAY))
    nothing = home / "nothing"
    nothing.write_text("")
    certificate, key, believed = NAMES
    for changed, said in (
        ({certificate: str(home / "none")}, f"{certificate}={home / 'none'} cannot be used"),
        ({key: str(nothing)}, f"{key}={nothing} cannot be used"),
        ({believed: str(nothing)}, f"{believed}={nothing} cannot be used: there is no certificate"),
        ({believed: other[believed]}, "is not of an authority in RAY_TLS_CA_CERT"),
        ({key: other[key]}, f"is not the key of {certificate}="),
        (old, "has expired: renew it"),
        ({"RAY_USE_TLS": "maybe"}, "RAY_USE_TLS"),
    ):
        code, told = start(home, **{**good, **changed})
        assert code != 0
        assert said in told
    assert not list(home.rglob("session_*")), "nothing was started"
    assert start(home, **good)[0] == 0
