"""TorchRL: experience that is collected by actors."""

from proof import on_the_cluster
from torchrl.collectors.distributed import RayCollector
from torchrl.envs import PendulumEnv
from torchrl.modules.tensordict_module.exploration import RandomPolicy

collector = RayCollector(
    create_env_fn=[PendulumEnv, PendulumEnv],
    policy=RandomPolicy(PendulumEnv().action_spec),
    frames_per_batch=50,
    total_frames=200,
    remote_configs={"num_cpus": 1, "num_gpus": 0, "memory": 100 * 1024**2},
    ray_init_config={"num_cpus": 4},
    sync=True,
)
frames = 0
for batch in collector:
    if not frames:  # after the last batch it ends the cluster
        on_the_cluster("Collector")
    frames += batch.numel()
assert frames == 200
collector.shutdown()
