"""``ray._private.accelerators``: the kinds of devices, for programs that name, count or hide them themselves.

A kind is a class, without objects. Which kinds there are, by which variable a process is shown some of its
devices, and how many a call may ask for, is in one table: :func:`heliostat._heliostat.device_kinds`.
"""

from __future__ import annotations

from typing import NoReturn

from heliostat import _heliostat
from heliostat._private import missing
from heliostat._private.accelerators.accelerator import AcceleratorManager
from heliostat._private.accelerators.kinds import (
    KINDS,
    AMDGPUAcceleratorManager,
    FuriosaAcceleratorManager,
    HPUAcceleratorManager,
    IntelGPUAcceleratorManager,
    MBLTAcceleratorManager,
    NeuronAcceleratorManager,
    NPUAcceleratorManager,
    NvidiaGPUAcceleratorManager,
    RBLNAcceleratorManager,
    TPUAcceleratorManager,
    TTNPUAcceleratorManager,
)

__all__ = [
    "AMDGPUAcceleratorManager",
    "AcceleratorManager",
    "FuriosaAcceleratorManager",
    "HPUAcceleratorManager",
    "IntelGPUAcceleratorManager",
    "MBLTAcceleratorManager",
    "NPUAcceleratorManager",
    "NeuronAcceleratorManager",
    "NvidiaGPUAcceleratorManager",
    "RBLNAcceleratorManager",
    "TPUAcceleratorManager",
    "TTNPUAcceleratorManager",
    "get_accelerator_manager_for_resource",
    "get_all_accelerator_managers",
    "get_all_accelerator_resource_names",
]


def get_all_accelerator_managers() -> set[type[AcceleratorManager]]:
    """All kinds of devices."""
    return set(KINDS)


def get_all_accelerator_resource_names() -> set[str]:
    """The resources whose units are devices."""
    return {manager.get_resource_name() for manager in get_all_accelerator_managers()}


def get_accelerator_manager_for_resource(resource_name: str) -> type[AcceleratorManager] | None:
    """The kind that a resource is on this machine; None for one that has no devices."""
    variables = {kind: variable for kind, variable, *_ in _heliostat.device_kinds()}
    for manager in get_all_accelerator_managers():
        if manager.get_visible_accelerator_ids_env_var() == variables.get(resource_name):
            return manager
    return None


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.accelerators.{name}"))
