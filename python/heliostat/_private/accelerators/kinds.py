"""The kinds of devices that nodes lend out."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import ClassVar

from heliostat import _heliostat
from heliostat._private.accelerators.accelerator import AcceleratorManager
from heliostat._private.ray_constants import env_bool


class _Kind(AcceleratorManager):
    """A kind by its resource and its variable."""

    _resource: ClassVar[str]
    _variable: ClassVar[str]
    # Ray's variable by which workers are shown all devices.
    _leave_alone: ClassVar[str]
    # The form of a device's name in the variable.
    _prefix: ClassVar[str] = ""

    @classmethod
    def get_resource_name(cls) -> str:
        return cls._resource

    @classmethod
    def get_visible_accelerator_ids_env_var(cls) -> str:
        return cls._variable

    @classmethod
    def get_current_node_num_accelerators(cls) -> int:
        """Return the number of this machine's GPUs; of kinds that nodes do not look for, those it sees."""
        gpus = _heliostat.gpu_counts()
        if cls._variable in gpus:
            return gpus[cls._variable]
        return len(cls.get_current_process_visible_accelerator_ids() or ())

    @classmethod
    def get_current_node_accelerator_type(cls) -> str | None:
        return None

    @classmethod
    def validate_resource_request_quantity(cls, quantity: float) -> tuple[bool, str | None]:
        sizes = {kind: sizes for kind, _, _, sizes in _heliostat.device_kinds()}[cls._resource]
        if sizes and quantity not in sizes:
            return False, f"{cls._resource}: one of {', '.join(map(str, sizes))}, not {quantity}"
        if sizes is not None and quantity != int(quantity):
            return False, f"{cls._resource}: whole numbers, not {quantity}"
        return True, None

    @classmethod
    def get_current_process_visible_accelerator_ids(
        cls,
    ) -> list[str] | None:
        value = os.environ.get(cls._variable)
        if value is None:
            return None
        names = [name.removeprefix(cls._prefix) for name in value.split(",")]
        return [] if value in ("", "NoDevFiles") else names

    @classmethod
    def set_current_process_visible_accelerator_ids(cls, ids: list[str]) -> None:
        if not env_bool(cls._leave_alone, False):
            os.environ[cls._variable] = ",".join(f"{cls._prefix}{one}" for one in ids)


class NvidiaGPUAcceleratorManager(_Kind):
    """GPUs of NVIDIA."""

    _resource = "GPU"
    _variable = "CUDA_VISIBLE_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"

    @classmethod
    def get_current_node_accelerator_type(cls) -> str | None:
        for file in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")):
            for line in Path(file).read_text(errors="replace").splitlines():
                if line.startswith("Model:"):
                    return cls._gpu_name_to_accelerator_type(line.removeprefix("Model:").strip())
        return None

    @staticmethod
    def _gpu_name_to_accelerator_type(name: str | None) -> str | None:
        """``H100`` of ``NVIDIA H100 80GB HBM3``, ``GeForce-RTX-5090`` of ``NVIDIA GeForce RTX 5090``."""
        _, _, model = (name or "").partition(" ")
        # Words in capitals up to the first one with a digit.
        found = re.match(r"(?:[A-Z]+ )*[A-Z0-9]*\d[A-Z0-9]*", model)
        said = found[0] if found else (name or "").removeprefix("NVIDIA ").strip()
        return said.replace(" ", "-") or None


class AMDGPUAcceleratorManager(_Kind):
    """GPUs of AMD."""

    _resource = "GPU"
    _variable = "HIP_VISIBLE_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES"


class IntelGPUAcceleratorManager(_Kind):
    """GPUs of Intel."""

    _resource = "GPU"
    _variable = "ZE_AFFINITY_MASK"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_ZE_AFFINITY_MASK"


class TPUAcceleratorManager(_Kind):
    """TPUs of Google."""

    _resource = "TPU"
    _variable = "TPU_VISIBLE_CHIPS"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS"


class NeuronAcceleratorManager(_Kind):
    """Neuron cores of Amazon."""

    _resource = "neuron_cores"
    _variable = "NEURON_RT_VISIBLE_CORES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES"


class HPUAcceleratorManager(_Kind):
    """Gaudis of Intel."""

    _resource = "HPU"
    _variable = "HABANA_VISIBLE_MODULES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES"


class NPUAcceleratorManager(_Kind):
    """Ascends of Huawei."""

    _resource = "NPU"
    _variable = "ASCEND_RT_VISIBLE_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"


class RBLNAcceleratorManager(_Kind):
    """Devices of Rebellions."""

    _resource = "RBLN"
    _variable = "RBLN_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES"


class FuriosaAcceleratorManager(_Kind):
    """Devices of FuriosaAI."""

    _resource = "FURIOSA"
    _variable = "FURIOSA_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_FURIOSA_DEVICES"
    _prefix = "npu:"


class MBLTAcceleratorManager(_Kind):
    """Devices of Mobilint."""

    _resource = "MBLT"
    _variable = "QBRUNTIME_VISIBLE_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_MBLT_RT_VISIBLE_DEVICES"


class TTNPUAcceleratorManager(_Kind):
    """Devices of Tenstorrent."""

    _resource = "TTNPU"
    _variable = "TT_VISIBLE_DEVICES"
    _leave_alone = "RAY_EXPERIMENTAL_NOSET_TENSTORRENT_VISIBLE_DEVICES"


KINDS: frozenset[type[AcceleratorManager]] = frozenset(_Kind.__subclasses__())
