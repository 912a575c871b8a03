import os

import ray

ray.init(
    address="auto",  # connects to existing cluster
    runtime_env={
        "env_vars": {
            "RAY_RUNTIME_ENV_CREATE_WORKING_DIR": "0",
        }
    },  # only sets env vars; it does not sync code/data across nodes
)


@ray.remote
def setting():
    return os.environ["RAY_RUNTIME_ENV_CREATE_WORKING_DIR"]


print(f"setting={ray.get(setting.remote())}")
print(f"cpus={ray.cluster_resources()['CPU']}")
