"""F15: environment variables."""

from __future__ import annotations

from typing import Any

from kit import driver, snippet


@snippet("F15.02", "F7.01")
def ordinary_variable() -> Any:
    import os

    import ray

    @ray.remote(runtime_env={"env_vars": {"RAY_RUNTIME_ENV_CREATE_WORKING_DIR": "0"}})
    def see() -> Any:
        return os.environ.get("RAY_RUNTIME_ENV_CREATE_WORKING_DIR")

    return ray.get(see.remote())


@snippet("F15.04")
def process_group_variables() -> Any:
    import os

    import ray

    @ray.remote
    class Worker:
        def set(self, values: dict[str, str]) -> None:
            os.environ.update(values)

        def get(self, *names: str) -> Any:
            return [os.environ.get(n) for n in names]

    names = ["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"]
    w = Worker.remote()
    before = ray.get(w.get.remote(*names))
    ray.get(w.set.remote(dict.fromkeys(names, "1")))
    return before, ray.get(w.get.remote(*names, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))


@snippet("F15.05", cluster=None)
def store_sizes() -> Any:
    source = """
        import ray
        ray.init(num_cpus=1, include_dashboard=False)
        print(">", int(ray.cluster_resources()["object_store_memory"]) == 100_000_000)
        """
    return driver(source, env={"RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "100000000"})


@snippet("F15.06", cluster=None)
def log_levels() -> Any:
    source = """
        import logging, ray
        ray.init(num_cpus=1, include_dashboard=False)
        @ray.remote
        def f():
            import logging
            logging.getLogger("mine").warning("a warning of mine")
            logging.getLogger("mine").info("an info of mine")
        ray.get(f.remote())
        import time
        time.sleep(2)
        """
    return {
        "default": driver(source, show=["Started a local", "a warning of mine", "an info of mine"]),
        "error": driver(source, env={"RAY_LOGGER_LEVEL": "ERROR"}, show=["Started a local"]),
        "json": driver(
            source, env={"RAY_LOGGING_CONFIG_ENCODING": "JSON"}, show=['"levelname": "WARNING"']
        ),
    }


@snippet("F15.08", "F6.22", cluster=None)
def tokens() -> Any:
    source = """
        import os, ray
        try:
            ray.init(num_cpus=1, include_dashboard=False)
            print(">", ray.get(ray.put(1)))
        except Exception as error:
            print(">", type(error).__name__)
        """
    token = "a" * 40
    return {
        "given": driver(source, env={"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}),
        "disabled": driver(source, env={"RAY_AUTH_MODE": "disabled"}),
        "no file": driver(
            source, env={"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/nonexistent/token"}
        ),
    }


@snippet("F15.10", "F15.11", "F15.07", cluster=None)
def harmless() -> Any:
    names = [
        "RAY_TRAIN_V2_ENABLED", "RAY_DATA_DISABLE_PROGRESS_BARS", "RAY_DISABLE_IMPORT_WARNING",
        "RAY_BACKEND_LOG_LEVEL", "RAY_max_lineage_bytes", "RAY_record_ref_creation_sites",
        "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE",
    ]  # fmt: skip
    return driver(
        """
        import ray
        ray.init(num_cpus=1, include_dashboard=False)
        print(">", ray.get(ray.remote(lambda: 1).remote()))
        """,
        env=dict.fromkeys(names, "1"),
    )
