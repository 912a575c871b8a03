"""The rows of the table: which function, which trainer, what it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.frameworks import (
    of_arrays,
    of_boosting,
    of_deepspeed,
    of_hugging_face,
    of_lightning,
    of_torch,
    of_trl,
    work,
)


@dataclass(frozen=True)
class Program:
    """One row: a library and a parallelism."""

    train: Callable[[dict[str, Any]], float]
    # What must be there to run it.
    needs: str = "torch"
    # Module and name of its trainer.
    trainer: tuple[str, str] = ("ray.train.torch", "TorchTrainer")
    alone: Callable[[], float] = work.alone
    # Courses that the library itself cannot go through.
    cannot: tuple[str, ...] = ()
    # The courses that `make test` takes it through: a death for each library, and all for one program.
    # `make test-extras` takes every program through all courses.
    of_test: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.train.__name__


_XGBOOST = ("ray.train.xgboost", "XGBoostTrainer")
_LIGHTGBM = ("ray.train.lightgbm", "LightGBMTrainer")
_JAX = ("ray.train.v2.jax", "JaxTrainer")
_TENSORFLOW = ("ray.train.tensorflow", "TensorflowTrainer")

_DEATH = ("killed",)
# DeepSpeed loads the optimizer's state into as many workers as wrote it, and a pipeline into as many stages.
_FIXED = ("elastic",)

# Not here: TorchTitan's own train script, which ends on a machine without a GPU (0.3.0).
PROGRAMS = (
    Program(of_torch.torch_ddp, of_test=work.COURSES),
    Program(of_torch.torch_fsdp2, of_test=_DEATH),
    Program(of_torch.torch_tensor_parallel),
    Program(of_hugging_face.accelerate_ddp, "accelerate"),
    Program(of_hugging_face.accelerate_fsdp, "accelerate", of_test=_DEATH),
    Program(of_hugging_face.accelerate_deepspeed, "deepspeed"),
    Program(of_hugging_face.transformers_ddp, "transformers", of_test=_DEATH),
    Program(of_hugging_face.transformers_fsdp, "transformers"),
    Program(of_hugging_face.transformers_deepspeed, "deepspeed", cannot=_FIXED),
    Program(of_trl.trl_sft_ddp, "trl", alone=of_trl.trl_alone),
    Program(of_lightning.lightning_ddp, "lightning", of_test=_DEATH),
    Program(of_lightning.lightning_fsdp, "lightning"),
    Program(of_deepspeed.deepspeed_zero1, "deepspeed", cannot=_FIXED),
    Program(of_deepspeed.deepspeed_zero2, "deepspeed", cannot=_FIXED),
    Program(of_deepspeed.deepspeed_zero3, "deepspeed", cannot=_FIXED, of_test=_DEATH),
    Program(of_deepspeed.deepspeed_pipeline, "deepspeed", cannot=_FIXED),
    Program(of_boosting.xgboost, "xgboost", _XGBOOST, of_boosting.xgboost_alone, of_test=_DEATH),
    Program(
        of_boosting.lightgbm, "lightgbm", _LIGHTGBM, of_boosting.lightgbm_alone, of_test=_DEATH
    ),
    Program(of_arrays.jax, "jax", _JAX),
    Program(of_arrays.tensorflow, "tensorflow", _TENSORFLOW),
)
