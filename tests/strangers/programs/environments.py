"""Runtime environments: variables, working directories, modules, hooks; what workers have of the driver."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import ray

from tests.strangers.kit import main, raised, stranger


def _package(folder: str, name: str, text: str) -> Path:
    """A package of one module in a new folder."""
    path = Path(folder).absolute() / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "__init__.py").write_text(text)
    return path


@stranger(
    "ray#16295",
    {"A": "job's", "B": "task's"},
    cluster={"num_cpus": 2, "runtime_env": {"env_vars": {"A": "job's", "B": "job's"}}},
)
def variables_are_merged() -> object:
    """A task's env_vars are laid over the job's."""

    @ray.remote(runtime_env={"env_vars": {"B": "task's"}})
    def read() -> dict[str, str]:
        return {k: os.environ[k] for k in ("A", "B")}

    return ray.get(read.remote())


@stranger("ray#21494", ["actor's", "actor's"])
def children_have_their_parents_environment() -> object:
    """What a task or an actor starts has its environment."""

    @ray.remote
    def child() -> str:
        return os.environ["WHOSE"]

    @ray.remote(runtime_env={"env_vars": {"WHOSE": "actor's"}})
    class A:
        def own(self) -> str:
            return os.environ["WHOSE"]

        def childs(self) -> str:
            return ray.get(child.remote())

    a = A.remote()
    return ray.get([a.own.remote(), a.childs.remote()])


@stranger("docs: Environment variables, expansion", ["one:two", True])
def a_variable_that_names_another() -> object:
    """env_vars may name variables that are there: "${X}:two"."""
    os.environ["STRANGERS_X"] = "one"
    try:

        @ray.remote(runtime_env={"env_vars": {"STRANGERS_X": "one", "Y": "a"}})
        def read() -> list[object]:
            return [os.environ["STRANGERS_X"] + ":two", os.environ["Y"] == "a"]

        return ray.get(read.remote())
    finally:
        del os.environ["STRANGERS_X"]


@stranger("docs: working_dir", ["text of the file", 7], cluster=None)
def a_working_directory() -> object:
    """Files and modules of working_dir are there in the workers."""
    Path("work").mkdir(exist_ok=True)
    Path("work/data.txt").write_text("text of the file")
    Path("work/helper_of_strangers.py").write_text("def seven():\n    return 7\n")
    ray.init(
        address="local", num_cpus=1, include_dashboard=False, runtime_env={"working_dir": "work"}
    )

    @ray.remote
    def use() -> list[object]:
        import helper_of_strangers

        return [open("data.txt").read(), helper_of_strangers.seven()]

    return ray.get(use.remote())


@stranger("docs: working_dir, excludes", [["kept.txt"]], cluster=None)
def files_that_are_left_out() -> object:
    """excludes and .gitignore leave files out of the working directory."""
    Path("some/logs").mkdir(parents=True, exist_ok=True)
    for name in ("kept.txt", "left.bin", "logs/a.log", "ignored.tmp"):
        Path("some", name).write_text("x")
    Path("some/.gitignore").write_text("*.tmp\n")
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        runtime_env={"working_dir": "some", "excludes": ["*.bin", "/logs/"]},
    )

    @ray.remote
    def see() -> list[str]:
        return sorted(n for n in os.listdir(".") if not n.startswith(".") and n != "logs")

    return [ray.get(see.remote())]


@stranger("docs: py_modules", ["a folder", "a module"], cluster=None)
def modules_that_are_sent() -> object:
    """py_modules of a job takes a folder of a package, and a module that was imported."""
    path = _package("mods", "sent_as_a_folder", "WORD = 'a folder'\n")
    _package("mods", "sent_as_a_module", "WORD = 'a module'\n")
    sys.path.insert(0, str(path.parent))
    import sent_as_a_module

    sys.path.pop(0)
    environment = {"py_modules": [str(path), sent_as_a_module]}
    ray.init(address="local", num_cpus=1, include_dashboard=False, runtime_env=environment)

    @ray.remote
    def read() -> list[str]:
        import sent_as_a_folder
        import sent_as_a_module

        return [sent_as_a_folder.WORD, sent_as_a_module.WORD]

    return ray.get(read.remote())


@stranger("docs: worker_process_setup_hook", ["set", "set"], cluster=None)
def a_hook_when_workers_begin() -> object:
    """worker_process_setup_hook runs in each worker before its first task."""

    def hook() -> None:
        os.environ["HOOKED"] = "set"

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        runtime_env={"worker_process_setup_hook": hook},
    )

    @ray.remote
    def read() -> str:
        return os.environ.get("HOOKED", "not set")

    @ray.remote
    class A:
        def read(self) -> str:
            return os.environ.get("HOOKED", "not set")

    return ray.get([read.remote(), A.remote().read.remote()])


@stranger(
    "forum: a setup hook that captures what workers print",
    ["begun", "kept: a line", 5],
    cluster=None,
)
def a_hook_that_takes_the_output() -> object:
    """The hook prints, and puts a file of its own in the place of sys.stdout; tasks print into that."""
    path = os.path.abspath("kept.txt")

    def hook() -> None:
        print("the hook speaks")
        Path(path).write_text("begun\n")

        class Kept(io.TextIOBase):
            def write(self, text: str) -> int:
                with open(path, "a") as file:
                    return file.write(f"kept: {text}" if text.strip() else text)

        sys.stdout = Kept()

    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        runtime_env={"worker_process_setup_hook": hook},
    )

    @ray.remote
    def speak() -> int:
        print("a line")
        return 5

    value = ray.get(speak.remote())
    # Ray writes its own marks into it, too.
    return [*(line for line in Path(path).read_text().splitlines() if " :" not in line), value]


@stranger("forum: a runtime_env that is misspelt", ["refused", "refused", "refused"])
def environments_that_make_no_sense() -> object:
    """A value of the wrong kind is refused when the environment is made or used."""
    for environment in (
        {"env_vars": {"A": 1}},
        {"working_dir": 5},
        {"py_modules": "a string"},
    ):

        def use(environment: dict[str, object] = environment) -> None:
            @ray.remote(runtime_env=environment)
            def f() -> None: ...

            ray.get(f.remote())

        raised(use)
    return ["refused"] * 3


@stranger("docs: get_runtime_context, runtime_env", [{"A": "1"}, {"A": "1"}])
def the_environment_can_be_read() -> object:
    """A task reads its environment from the context."""

    @ray.remote(runtime_env={"env_vars": {"A": "1"}})
    def read() -> object:
        context = ray.get_runtime_context()
        return [dict(context.runtime_env["env_vars"]), dict(context.runtime_env.env_vars())]

    return ray.get(read.remote())


@stranger("StackOverflow: ModuleNotFoundError in a Ray task", "found it", cluster=None)
def a_module_beside_the_script() -> object:
    """A script imports a module of its own folder; its tasks do so, too."""
    folder = Path("project")
    folder.mkdir(exist_ok=True)
    (folder / "beside.py").write_text("WORD = 'found it'\n")
    (folder / "script.py").write_text(
        textwrap.dedent(
            """
            import ray
            import beside

            @ray.remote
            def use():
                import beside as again
                return again.WORD

            ray.init(address="local", num_cpus=1, include_dashboard=False)
            print("word=" + ray.get(use.remote()))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    [word] = [line[5:] for line in done.stdout.splitlines() if line.startswith("word=")]
    return word


@stranger(
    "StackOverflow: environment variables of the driver in workers",
    ["set before", None],
    cluster=None,
)
def variables_of_the_driver() -> object:
    """What was in os.environ before ray.init is in the workers; what came later is not."""
    os.environ["BEFORE_INIT"] = "set before"
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    os.environ["AFTER_INIT"] = "set after"

    @ray.remote
    def read() -> list[str | None]:
        return [os.environ.get("BEFORE_INIT"), os.environ.get("AFTER_INIT")]

    try:
        return ray.get(read.remote())
    finally:
        del os.environ["BEFORE_INIT"], os.environ["AFTER_INIT"]


@stranger("forum: the working directory of tasks", True)
def where_tasks_run() -> object:
    """Without a working_dir a task on the driver's machine runs in the driver's folder."""

    @ray.remote
    def where() -> str:
        return os.getcwd()

    return os.path.realpath(ray.get(where.remote())) == os.path.realpath(os.getcwd())


@stranger("docs: ray.init, context", [True, True, True, False])
def the_life_of_a_session() -> object:
    """is_initialized, a second init, ignore_reinit_error, shutdown twice."""
    first = ray.is_initialized()
    second = isinstance(raised(lambda: ray.init()), RuntimeError)
    third = ray.init(ignore_reinit_error=True) is not None
    ray.shutdown()
    ray.shutdown()
    return [first, second, third, ray.is_initialized()]


@stranger("docs: ray.init as a context manager", [4, False], cluster=None)
def init_in_a_with_block() -> object:
    """``with ray.init()`` ends the session at the end of the block."""

    @ray.remote
    def four() -> int:
        return 4

    with ray.init(address="local", num_cpus=1, include_dashboard=False):
        found = ray.get(four.remote())
    return [found, ray.is_initialized()]


@stranger("docs: local mode and starting by itself", 5, cluster=None)
def a_call_without_init() -> object:
    """The first .remote() starts a session."""

    @ray.remote
    def five() -> int:
        return 5

    return ray.get(five.remote())


@stranger("ray#59343", ["from the folder", True])
def requirements_of_the_working_dir() -> object:
    """A task finds files of its working_dir by relative paths, and the folder is on sys.path."""
    folder = os.path.abspath("project-with-requirements")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "own_module_of_59343.py"), "w") as file:
        file.write("WORDS = 'from the folder'\n")
    with open(os.path.join(folder, "requirements_lock.txt"), "w") as file:
        file.write("")

    @ray.remote
    def look() -> list[object]:
        import own_module_of_59343

        return [own_module_of_59343.WORDS, os.path.exists("requirements_lock.txt")]

    return ray.get(look.options(runtime_env={"working_dir": folder}).remote())


if __name__ == "__main__":
    main()
