"""Code that the driver's machine has, and others do not: each machine has a /tmp of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.machines.machines import HELIOSTAT, Machine

pytestmark = [
    pytest.mark.heliostat_only("the machines run the command heliostat"),
]

Make = Callable[..., list[Machine]]

# What each run of the driver makes is the same, and so is the package.
DRIVER = """
    import os, random
    from pathlib import Path
    import ray

    work, library = Path("/tmp/work"), Path("/tmp/library")
    files = {
        work / "of_the_driver.py": "VALUE = 'came'",
        work / "sub" / "data.txt": "data",
        work / ".gitignore": "*.log",
        work / "much.log": "left",
        work / "secret": "left",
        library / "a_library" / "__init__.py": "VALUE = 'too'",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (work / "large.bin").write_bytes(random.Random(1).randbytes(30 << 20))
    (work / "run").write_text("")
    (work / "run").chmod(0o755)
    env = {
        "working_dir": str(work),
        "py_modules": [str(library / "a_library")],
        "excludes": ["secret"],
    }
    ray.init(runtime_env=env, logging_level="error")
    (work / "of_the_driver.py").write_text("VALUE = 'edited'")

    @ray.remote(num_cpus=0.1)
    class Worker:
        def look(self):
            import a_library, of_the_driver
            names = sorted(str(path) for path in Path().rglob("*") if "__py" not in str(path))
            size = os.path.getsize("large.bin")
            found = (of_the_driver.VALUE, a_library.VALUE, names, size, os.access("run", os.X_OK))
            return found, (os.getcwd(), os.stat(".").st_ino)

    names = [".gitignore", "large.bin", "of_the_driver.py", "run", "sub", "sub/data.txt"]
    for machine in ("m0", "m1"):
        workers = [Worker.options(resources={machine: 1}).remote() for _ in range(4)]
        seen = ray.get([worker.look.remote() for worker in workers], timeout=100)
        for found, _ in seen:
            assert found == ("came", "too", names, 30 << 20, True), found
        assert len({where for _, where in seen}) == 1, seen
    print("done=1")
"""


@pytest.mark.contract("F7.02", "F7.03")
@pytest.mark.parametrize("at", [0, 1], ids=["on_the_head", "elsewhere"])
def test_code_of_the_drivers_machine_reaches_the_others(make_machines: Make, at: int) -> None:
    machines = make_machines(2)
    driver = machines[at]
    driver.start_script(DRIVER).finish().check()
    assert driver.sent() > 30 << 20
    before = driver.sent()
    driver.start_script(DRIVER, name="again").finish().check()
    assert driver.sent() < before + (10 << 20), "what is there is not sent again"
    left = "ls -d /tmp/ray/session_2*/working_dirs/* /tmp/ray/session_2*/packages/*"
    for machine in reversed(machines):
        assert "_ray_pkg_" in machine.run("bash", "-c", left, check=False).stdout
        machine.run(str(HELIOSTAT), "stop")
        assert machine.run("bash", "-c", left, check=False).stdout == ""


# A version of a package, in a folder that stands for an index.
WHEELS = """
    import sys, zipfile
    from pathlib import Path

    folder, version = Path("/tmp/wheels"), sys.argv[1]
    folder.mkdir(exist_ok=True)
    info = f"a_sample-{version}.dist-info"
    files = {
        "a_sample.py": f"VERSION = {version!r}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: a-sample\\nVersion: {version}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any",
    }
    files[f"{info}/RECORD"] = "\\n".join(f"{name},," for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"a_sample-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text + "\\n")
"""

INSTALLED = """
    import sys
    import ray

    options = ["--no-index", "--find-links", "/tmp/wheels"]
    env = {"pip": {"packages": ["a-sample"], "pip_install_options": options}}
    ray.init(logging_level="error")

    @ray.remote(num_cpus=0, runtime_env=env)
    def version():
        import a_sample
        return a_sample.VERSION

    print("version=" + ray.get(version.options(resources={sys.argv[1]: 1}).remote(), timeout=100))
"""


@pytest.mark.contract("F7.04")
@pytest.mark.parametrize("first", [0, 1], ids=["the_head_first", "another_node_first"])
def test_all_nodes_install_the_versions_that_the_first_one_found(
    make_machines: Make, first: int
) -> None:
    machines = make_machines(2)

    def publish(version: str) -> None:
        for machine in machines:
            machine.start_script(WHEELS, name=f"wheel{version}", args=[version]).finish().check()

    def installed(at: int) -> str:
        driver = machines[0].start_script(INSTALLED, name=f"at{at}", args=[f"m{at}"])
        return driver.finish().check().value("version")

    publish("1")
    assert installed(first) == "1"
    publish("2")
    assert installed(1 - first) == "1"


@pytest.mark.contract("F7.02", "F7.08", "F6.14")
def test_a_submitted_job_has_its_code_on_every_machine(make_machines: Make) -> None:
    head, _ = make_machines(2)
    main = """
import ray
ray.init(logging_level="error")

@ray.remote(num_cpus=0)
def look():
    import of_the_job
    return of_the_job.VALUE, open("data.txt").read()

there = [look.options(resources={machine: 1}) for machine in ("m0", "m1")]
print("found", ray.get([task.remote() for task in there], timeout=100))
"""
    files = {"main.py": main, "of_the_job.py": "VALUE = 5", "data.txt": "data"}
    source = f"""
    from pathlib import Path
    for name, text in {files!r}.items():
        Path("/tmp/job").mkdir(exist_ok=True)
        Path("/tmp/job", name).write_text(text)
    """
    head.start_script(source).finish().check()
    submit = [str(HELIOSTAT), "job", "submit", "--working-dir", "/tmp/job"]
    done = head.run(*submit, "--", sys.executable, "main.py")
    assert "found [(5, 'data'), (5, 'data')]" in done.stdout
