"""The guide's third common issue: an actor holds its GPU until it is killed."""

import ray

ray.init(address="local", num_cpus=4, num_gpus=1)


@ray.remote(num_cpus=2, num_gpus=1)
class Trainer:
    def device(self):
        return ray.get_gpu_ids()


@ray.remote(num_gpus=1)
def needs_gpu():
    return "ran"


actor = Trainer.remote()
print(f"device={ray.get(actor.device.remote())}")
future = needs_gpu.remote()
ready, _ = ray.wait([future], timeout=0.5)
print(f"while_held={len(ready)}")
ray.kill(actor)
print(f"after_kill={ray.get(future, timeout=30)}")
