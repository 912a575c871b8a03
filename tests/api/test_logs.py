"""What workers print, on the driver's terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT, Finished, wait_until

# The last lines of a driver wait until the lines of the workers have come.
PRELUDE = """
import logging, os, sys, time
import ray
options = dict(address="local", num_cpus=4, include_dashboard=False)
def settle():
    time.sleep(float(os.environ["SETTLE"]))
"""

# Unbuffered, `print` writes its text and the end of the line apart, and what workers print may come between.
SETTLE = {"SETTLE": "1.0", "PYTHONUNBUFFERED": ""}


def lines(done: Finished) -> list[str]:
    """Every output line with a prefix, without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.output)
    return [line for line in text.splitlines() if re.match(r"\([^)]+ pid=\d+", line)]


def said(done: Finished) -> list[str]:
    return [line.partition(") ")[2] for line in lines(done)]


@pytest.mark.contract("F0.17")
def test_prefixes_of_tasks_and_actors(run_driver: Any) -> None:
    done = run_driver(
        PRELUDE
        + """
ray.init(**options)

@ray.remote
def speak(i):
    print(f"task says {i}")
    print(f"task complains {i}", file=sys.stderr)
    return os.getpid()

@ray.remote
class Speaker:
    def say(self, what):
        print(what)
        return os.getpid()

@ray.remote
class Named:
    def __repr__(self):
        return "MyName"
    def say(self, what):
        print(what)
        return os.getpid()

speaker, named = Speaker.remote(), Named.remote()
print(f"task={ray.get(speak.remote(1))}")
print(f"actor={ray.get(speaker.say.remote('actor says 2'))}")
print(f"named={ray.get(named.say.remote('named says 3'))}")
settle()
""",
        env=SETTLE,
    ).check()
    found = lines(done)
    assert f"(speak pid={done.value('task')}) task says 1" in found
    assert f"(speak pid={done.value('task')}) task complains 1" in found
    assert f"(Speaker pid={done.value('actor')}) actor says 2" in found
    assert f"(MyName pid={done.value('named')}) named says 3" in found


@pytest.mark.contract("F0.17", "F1.13")
def test_prefixes_are_the_names_that_the_user_gave(run_driver: Any) -> None:
    done = run_driver(
        PRELUDE
        + """
ray.init(**options)

@ray.remote(name="decorated")
def speak(what):
    print(what)

@ray.remote
class Lines:
    def __repr__(self):
        return "two\\nlines"
    def say(self):
        print("in one prefix")

ray.get([speak.remote("first"), speak.options(name="renamed").remote("second")])
ray.get(Lines.remote().say.remote())
settle()
""",
        env=SETTLE,
    ).check()
    found = [re.sub(r" pid=\d+", "", line) for line in lines(done)]
    assert "(decorated) first" in found
    assert "(renamed) second" in found
    # On Ray the rest of the name is printed as a line of its own.
    assert "(two lines) in one prefix" in found or not IS_HELIOSTAT


@pytest.mark.contract("F0.17")
@pytest.mark.heliostat_only("on Ray the actor dies of it")
def test_a_repr_that_raises_costs_the_actor_nothing(run_driver: Any) -> None:
    done = run_driver(
        PRELUDE
        + """
ray.init(**options)

@ray.remote
class Broken:
    def __repr__(self):
        raise ValueError("no repr")
    def say(self):
        print("all the same")
        return 1

print(f"said={ray.get(Broken.remote().say.remote())}")
settle()
""",
        env=SETTLE,
    ).check()
    assert done.value("said") == "1"
    assert "all the same" in said(done)


@pytest.mark.contract("F0.17")
def test_lines_arrive_without_a_pause_at_the_end(run_driver: Any) -> None:
    """What was printed before the result came is shown before the driver ends."""
    done = run_driver(
        PRELUDE
        + """
ray.init(**options)

@ray.remote
def speak():
    print("the last words")

ray.get(speak.remote())
ray.shutdown()
"""
    ).check()
    assert "the last words" in said(done)


@pytest.mark.contract("F0.17")
def test_repeated_lines_are_folded(run_driver: Any) -> None:
    source = (
        PRELUDE
        + """
ray.init(**options)

@ray.remote(num_cpus=1)
def speak(i):
    print("the same line")
    time.sleep(0.3)

ray.get([speak.remote(i) for i in range(4)])
settle()
"""
    )
    folded = run_driver(source, env={"SETTLE": "6.5"}).check()
    same = [line for line in said(folded) if line.startswith("the same line")]
    assert "the same line" in same
    assert any(re.search(r"\[repeated 3x across cluster\]", line) for line in same), same
    assert len(same) == 2
    plain = run_driver(source, env={**SETTLE, "RAY_DEDUP_LOGS": "0"}).check()
    assert said(plain).count("the same line") == 4


@pytest.mark.contract("F0.17")
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_forwarding_can_be_turned_off(run_driver: Any, how: str) -> None:
    off = "log_to_driver=False" if how == "argument" else ""
    done = run_driver(
        PRELUDE
        + f"""
context = ray.init(**options, {off})

@ray.remote
def speak():
    print("not for the terminal")
    return os.getpid()

pid = ray.get(speak.remote())
settle()
logs = os.path.join(context.address_info["session_dir"], "logs")
names = [n for n in os.listdir(logs) if n.endswith(f"{{pid}}.out")]
print("file=" + open(os.path.join(logs, names[0])).read().replace("\\n", "|"))
""",
        env={**SETTLE, **({"RAY_LOG_TO_DRIVER": "0"} if how == "environment" else {})},
    ).check()
    assert "not for the terminal" in done.value("file")
    assert not [line for line in said(done) if "not for the terminal" in line]


@pytest.mark.contract("F0.17")
def test_odd_output(run_driver: Any) -> None:
    """No newline at the end, several lines in one write, bytes that are no UTF-8, long lines."""
    done = run_driver(
        PRELUDE
        + """
ray.init(**options)

@ray.remote
def speak():
    sys.stdout.write("one\\ntwo\\nthree without end")
    sys.stdout.flush()

@ray.remote
def binary():
    os.write(1, b"\\xff\\xfe raw bytes\\n")
    print("\\u2600 sun")
    print("L" * 5000)

ray.get([speak.remote(), binary.remote()])
settle()
""",
        env=SETTLE,
    ).check()
    found = said(done)
    assert {"one", "two"} <= set(found)
    assert any("raw bytes" in line for line in found)
    assert any("\u2600 sun" in line for line in found)
    assert "L" * 5000 in found


@pytest.mark.contract("F0.17", "F0.21")
def test_an_error_that_nobody_asked_for_is_shown(run_driver: Any) -> None:
    source = (
        PRELUDE
        + """
ray.init(**options)

@ray.remote
def fails():
    raise ValueError("nobody asked")

ref = fails.remote()
settle()
del ref
settle()
"""
    )
    done = run_driver(source, env=SETTLE).check()
    assert "Unhandled error" in done.output
    assert "nobody asked" in done.output
    quiet = run_driver(source, env={**SETTLE, "RAY_IGNORE_UNHANDLED_ERRORS": "1"}).check()
    assert "Unhandled error" not in quiet.output


@pytest.mark.contract("F0.17")
def test_output_of_children_and_of_logging(run_driver: Any) -> None:
    done = run_driver(
        PRELUDE
        + """
ray.init(**options)

@ray.remote
def speak():
    import subprocess
    subprocess.run(["echo", "from a child"], check=True)
    logging.getLogger("mine").warning("from logging")

ray.get(speak.remote())
settle()
""",
        env=SETTLE,
    ).check()
    assert any("from a child" in line for line in said(done))
    assert any("from logging" in line for line in said(done))


@pytest.mark.contract("F0.17")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_without_an_end_is_shown_when_its_call_is_over(
    start_driver: Any, stream: str
) -> None:
    """And not when the next line comes: the actor prints nothing more."""
    driver = start_driver(
        PRELUDE
        + f"""
ray.init(**options)
out = lambda text: print(text, end="", file=sys.{stream})

@ray.remote
class Plain:
    def __init__(self): out("constructed")
    def say(self, what): out(what)

@ray.remote
class Loop:
    async def say(self, what): out(what)

@ray.remote(max_concurrency=2)
class Threads:
    def say(self, what): out(what)

@ray.remote
def task(what): out(what)

@ray.remote
def stream():
    out("of a stream")
    yield 1

@ray.remote(max_retries=0)
def fail():
    out("before the error")
    raise ValueError

actors = [Plain.remote(), Loop.remote(), Threads.remote()]
ray.get([actor.say.remote(what) for actor, what in zip(actors, ["plain", "loop", "threads"])])
ray.get(task.remote("of a task"))
ray.get(list(stream.remote()))
ray.wait([fail.remote()])
print("done=yes", flush=True)
time.sleep(1000)
"""
    )
    wanted = {"plain", "loop", "threads", "of a task", "of a stream", "before the error"}
    wanted |= {"constructed"}
    driver.wait_line("done")

    def shown() -> bool:
        found = re.findall(r"^\(\w+ pid=\d+\) (.*)$", driver.stdout() + driver.stderr(), re.M)
        return wanted <= set(found)

    wait_until(shown, what="every line of a call that is over")


@pytest.mark.contract("F0.17")
@pytest.mark.heliostat_only("on Ray a line without an end is joined with what the next call writes")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_written_past_python_is_shown(start_driver: Any, stream: str) -> None:
    """Whatever runs, whether or not its line has an end, and between lines that Python prints."""
    driver = start_driver(
        PRELUDE
        + f"""
ray.init(**options)

def write(who, how, end):
    text = f"<{{who}} {{how}} {{'ended' if end else 'open'}}>" + end
    if how == "print":
        print(text, end="", file=sys.{stream})
    else:
        os.write(sys.__{stream}__.fileno(), text.encode())

@ray.remote
class Plain:
    def say(self, *what): write("plain", *what)

@ray.remote
class Loop:
    async def say(self, *what): write("loop", *what)

@ray.remote(max_concurrency=2)
class Threads:
    def say(self, *what): write("threads", *what)

@ray.remote
def task(*what): write("task", *what)

@ray.remote(runtime_env={{"env_vars": {{"A": "in a worker of its own"}}}})
def items(*what):
    write("items", *what)
    yield 1

actors = [Plain.remote(), Loop.remote(), Threads.remote()]
for how, end in [("raw", "\\n"), ("print", ""), ("raw", ""), ("print", "\\n"), ("raw", "")]:
    for actor in actors:
        ray.get(actor.say.remote(how, end))
    ray.get(task.remote(how, end))
    ray.get(list(items.remote(how, end)))
print("done=yes", flush=True)
time.sleep(1000)
"""
    )
    driver.wait_line("done")
    whos = ("plain", "loop", "threads", "task", "items")
    wanted = [f"<{who} {how}>" for who in whos for how in ("raw ended", "print open", "raw open")]
    wanted += [f"<{who} {how}>" for who in whos for how in ("print ended", "raw open")]

    def shown() -> bool:
        text = driver.stdout() + driver.stderr()
        return sorted(re.findall(r"^\(\w+ pid=\d+\) (.*)$", text, re.M)) == sorted(wanted)

    wait_until(shown, what="every line, each once and by itself")


@pytest.mark.contract("F0.17")
@pytest.mark.heliostat_only("on Ray all of it is printed, or pieces of it")
def test_of_a_progress_bar_its_last_state_is_shown(run_driver: Any) -> None:
    done = run_driver(
        PRELUDE
        + """
context = ray.init(**options)

@ray.remote
def work(kind):
    out = sys.stderr
    for step in range(50):
        out.write(f"\\r{kind}: {step * 2}%|{'#' * step}")
        out.flush()
    out.write(f"\\r{kind}: 100%" + {"ended": "\\n", "open": "", "wiped": "\\r" + " " * 60 + "\\r"}[kind])
    return os.getpid()

pids = {kind: ray.get(work.remote(kind)) for kind in ("ended", "open", "wiped")}
logs = os.path.join(context.address_info["session_dir"], "logs")
ray.shutdown()
kept = "".join(open(os.path.join(logs, n), newline="").read() for n in os.listdir(logs) if n.endswith(".err"))
print("kept=" + str(kept.count("\\r")))
"""
    ).check()
    assert [line for line in said(done) if "%" in line] == ["ended: 100%", "open: 100%"]
    assert int(done.value("kept")) >= 3 * 51
