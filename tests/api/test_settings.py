"""Settings: one table, unknown variables, values that cannot be meant."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
import ray
from heliostat.core.driver import daemon
from heliostat.core.platform import settings
from heliostat.train.settings import TrainSettings

from tests.helpers.harness import clean_env

pytestmark = pytest.mark.heliostat_only("the table of settings is Heliostat's")


@pytest.mark.contract("F15.09")
def test_an_unknown_variable_is_named_once_with_the_nearest_setting(
    ray_fresh: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIOSTAT_memory_usage_treshold", "0.9")
    ray_fresh(num_cpus=1)
    ray.shutdown()
    ray_fresh(num_cpus=1)
    said = [line for line in capsys.readouterr().err.splitlines() if "usage_treshold" in line]
    assert len(said) == 1
    assert "did you mean HELIOSTAT_memory_usage_threshold?" in said[0]


@pytest.mark.contract("F15.09")
def test_the_command_names_an_unknown_variable() -> None:
    env = clean_env({"HELIOSTAT_SESSION_KEPT_MAX": "3", "HELIOSTAT_JOIN_WAIT_S": "0"})
    done = subprocess.run(
        [daemon.binary(), "start", "--address=127.0.0.1:1"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "did you mean HELIOSTAT_SESSIONS_KEPT_MAX?" in done.stderr


@pytest.mark.contract("F15.06", "F15.09")
@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("RAY_LOG_TO_DRIVER", "maybe", 'RAY_LOG_TO_DRIVER="maybe": give 1 or 0'),
        ("HELIOSTAT_COLOR_PREFIX", "blue", "HELIOSTAT_COLOR_PREFIX=.* one of auto, 1, 0"),
        ("RAY_max_lineage_bytes", "1 GB", r"RAY_max_lineage_bytes=.* whole number .*\(bytes\)"),
    ],
)
def test_a_bad_value_names_the_variable_and_the_range(
    ray_down: None, monkeypatch: pytest.MonkeyPatch, name: str, text: str, says: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=says):
        ray.init(address="local", num_cpus=1)
    assert not ray.is_initialized()


@pytest.mark.contract("F15.10")
def test_settings_of_training_come_from_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TrainSettings.from_environment().unwind_s == settings.number("TRAIN_UNWIND_S")
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "7")
    assert TrainSettings.from_environment().start_timeout_s == 7.0
    monkeypatch.setenv("HELIOSTAT_TRAIN_UNWIND_S", "-1")
    with pytest.raises(ValueError, match=r"HELIOSTAT_TRAIN_UNWIND_S=.* from 0 up \(s\)"):
        TrainSettings.from_environment()


def test_the_own_name_wins_and_a_name_outside_of_the_table_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(os.environ):
        if name.endswith("_TMPDIR"):
            monkeypatch.delenv(name)
    assert settings.text("TMPDIR") == "/tmp"
    monkeypatch.setenv("RAY_TMPDIR", "/a")
    assert settings.text("TMPDIR") == "/a"
    monkeypatch.setenv("HELIOSTAT_TMPDIR", "/b")
    assert settings.text("TMPDIR") == "/b"
    with pytest.raises(KeyError, match="not a setting"):
        settings.text("NO_SUCH_SETTING")
