"""What workers print takes a bounded part of the disk, by file and by session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT, wait_until

SOURCE = """
import sys
import ray

context = ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
print("session=" + context.address_info["session_dir"], flush=True)

@ray.remote
class Talker:
    def talk(self, lines, name):
        for n in range(lines):
            print(f"{name} {n:08} " + "x" * 80)
            print(f"{name} {n:08} " + "x" * 80, file=sys.stderr)
        return n

for round in range(int(sys.argv[1])):
    talker = Talker.remote()
    for _ in range(int(sys.argv[2])):
        ray.get(talker.talk.remote(2_000, f"round{round}"))
    del talker
print("done=yes", flush=True)
sys.stdin.read()
"""


def outputs(session: Path) -> list[Path]:
    return sorted(path for path in (session / "logs").glob("worker-*") if path.is_file())


@pytest.mark.contract("F15.06")
def test_files_are_bounded_as_the_variables_say(start_driver: Any) -> None:
    env = {"RAY_ROTATION_MAX_BYTES": "1000000", "RAY_ROTATION_BACKUP_COUNT": "2"}
    driver = start_driver(SOURCE, args=["1", "30"], env=env)
    session = Path(driver.wait_line("session"))
    driver.wait_line("done", within=120)

    def is_rotated() -> bool:
        written = [path for path in outputs(session) if path.stat().st_size > 500_000]
        names = {path.name.split(".", 1)[1] for path in written}
        return {"out.1", "out.2", "err.1", "err.2"} <= names

    wait_until(is_rotated, what="the files are put aside")
    for path in outputs(session):
        # Ray looks only after a line was written.
        assert path.stat().st_size <= (1_000_000 if IS_HELIOSTAT else 1_100_000), path
        assert ".3" not in path.suffixes, path
    if IS_HELIOSTAT:
        for path in outputs(session):
            lines = path.read_text().splitlines()
            whole = [line for line in lines if line.startswith("round")]
            assert len(whole) == len(lines) or path.name.endswith(".tasks"), "lines are whole"
        newest = [path for path in outputs(session) if path.suffix == ".out"]
        assert any("round0 00001999" in path.read_text() for path in newest)


@pytest.mark.contract("F15.06")
@pytest.mark.heliostat_only("Ray bounds each file, not all of them")
def test_all_files_of_a_session_together_are_bounded(start_driver: Any) -> None:
    bound = 1_500_000
    env = {"HELIOSTAT_WORKER_OUTPUT_MAX_BYTES": str(bound), "RAY_ROTATION_MAX_BYTES": "400000"}
    driver = start_driver(SOURCE, args=["6", "3"], env=env)
    session = Path(driver.wait_line("session"))
    driver.wait_line("done", within=120)
    wait_until(
        lambda: any("round5 00001999" in path.read_text() for path in outputs(session)),
        what="the last lines are kept",
    )
    sizes = {path.name: path.stat().st_size for path in outputs(session)}
    assert sum(sizes.values()) <= bound, sizes
    assert sum(sizes.values()) > bound / 3, "it is used"
