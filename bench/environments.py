"""What environments cost: from a driver's start to the answer of a task on another machine of namespaces.

    PYTHONPATH=. python bench/environments.py [--rounds 3] [--megabytes 450]        as root

Each figure is of a driver of its own, so of a job of its own. Prints a Markdown table of medians: the first
time, and once the machine has it.
"""

import argparse
import statistics

from tests.machines.machines import Machines

# What makes the files, for both machines: packages come from a file here, code from the driver's machine.
FILES = """
    import os, random, sys, time, zipfile
    from pathlib import Path
    import ray

    kind, number, megabytes = os.environ["KIND"], os.environ["NUMBER"], int(os.environ["MEGABYTES"])
    folder = Path(f"/tmp/{kind}-{number}")
    if not folder.exists() and kind != "nothing":
        folder.mkdir()
        if kind.startswith("large"):
            chance = random.Random(int(number))
            for i in range(megabytes // 10):
                (folder / f"{i}.bin").write_bytes(chance.randbytes(10_000_000))
        (folder / "__init__.py").write_text(f"NUMBER = {number}")
        for i in range(100):
            (folder / f"module_{i}.py").write_text(f"VALUE = {i} + {number}\\n" * 100)
        with zipfile.ZipFile(folder / f"small-{number}-py3-none-any.whl", "w") as wheel:
            about = f"small-{number}.dist-info"
            files = {
                "small.py": f"NUMBER = {number}",
                f"{about}/METADATA": f"Metadata-Version: 2.1\\nName: small\\nVersion: {number}\\n",
                f"{about}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
            }
            files[f"{about}/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{about}/RECORD"])
            for name, text in files.items():
                wheel.writestr(name, text)
"""
DRIVER = """
    if os.environ.get("EDIT"):
        with open(folder / "0.bin", "r+b") as file:
            file.seek(5_000_000)
            file.write(f"one line {time.time()}".encode())
    wheel = {"packages": [str(folder / f"small-{number}-py3-none-any.whl")]}
    plain = ["--no-index", "--no-deps"]
    env = {
        "nothing": None,
        "variables": {"env_vars": {"NUMBER": number}},
        "folder": {"working_dir": str(folder)},
        "large": {"working_dir": str(folder)},
        "modules": {"py_modules": [str(folder)]},
        "uv": {"uv": {**wheel, "uv_pip_install_options": plain}},
        "pip": {"pip": {**wheel, "pip_install_options": plain}},
    }[kind]
    began = time.monotonic()
    ray.init(runtime_env=env, logging_level="error", log_to_driver=False)

    @ray.remote(num_cpus=0, resources={"m1": 1})
    def number_of_process():
        return os.getpid()

    ray.get(number_of_process.remote())
    print(f"took={time.monotonic() - began}")
"""
KINDS = {
    "nothing": "nothing",
    "variables": "`env_vars`",
    "folder": "`working_dir`, 100 files",
    "modules": "`py_modules`, 100 files",
    "uv": "`uv`, a small wheel",
    "pip": "`pip`, the same",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=450)
    options = parser.parse_args()
    found: dict[tuple[str, str], list[float]] = {}
    with Machines(2) as (head, other):
        head.start_head()
        other.join(head)

        def run(row: str, when: str, kind: str, number: int, **more: str) -> None:
            env = {"KIND": kind, "NUMBER": str(number), "MEGABYTES": str(options.megabytes), **more}
            if kind in ("uv", "pip"):
                other.start_script(FILES, env=env).finish(120).check()
            done = head.start_script(FILES + DRIVER, env=env).finish(300).check()
            found.setdefault((row, when), []).append(float(done.value("took") or "nan"))

        for number in range(1, options.rounds + 1):
            for kind, row in KINDS.items():
                run(row, "first", kind, number)
                run(row, "again", kind, number)
        large = f"`working_dir`, {options.megabytes} MB"
        for number in range(1, options.rounds + 1):
            run(large, "first", "large", 1, **({} if number == 1 else {"EDIT": "1"}))
            if number == 1:
                run(large, "again", "large", 1)
            else:
                found.setdefault((f"{large}, one line changed", "first"), []).append(
                    found[large, "first"].pop()
                )
    print("| environment | first, s | again, s |\n|---|--:|--:|")
    for row in dict.fromkeys(row for row, _ in found):
        times = [found.get((row, when), []) for when in ("first", "again")]
        cells = [f"{statistics.median(one):.2f}" if one else "" for one in times]
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
