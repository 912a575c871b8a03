"""``ray._private.accelerators.accelerator``: what a kind of devices answers."""

from __future__ import annotations

import abc
from typing import Any

__all__ = ["AcceleratorManager"]


class AcceleratorManager(abc.ABC):
    """A kind of devices; programs derive kinds of their own from it."""

    @staticmethod
    @abc.abstractmethod
    def get_resource_name() -> str:
        """The resource that calls ask for."""

    @staticmethod
    @abc.abstractmethod
    def get_visible_accelerator_ids_env_var() -> str | None:
        """The variable that names the devices which a process sees."""

    @staticmethod
    @abc.abstractmethod
    def get_current_node_num_accelerators() -> int:
        """Return the number of accelerators of this machine."""

    @staticmethod
    @abc.abstractmethod
    def get_current_node_accelerator_type() -> str | None:
        """Their model, such as ``"H100"``; None where it is not known."""

    @staticmethod
    @abc.abstractmethod
    def validate_resource_request_quantity(quantity: float) -> tuple[bool, str | None]:
        """Whether a call may ask for so many; if not, why."""

    @staticmethod
    @abc.abstractmethod
    def get_current_process_visible_accelerator_ids() -> list[str] | None:
        """The devices that this process sees; None: all."""

    @staticmethod
    @abc.abstractmethod
    def set_current_process_visible_accelerator_ids(ids: list[str]) -> None:
        """Show this process these devices alone."""

    @staticmethod
    def get_current_node_additional_resources() -> dict[str, float] | None:
        """Further resources that this machine has by its devices; None: no further ones."""
        return None

    @staticmethod
    def get_current_node_accelerator_labels() -> dict[str, str] | None:
        """Labels that this machine has by its devices; None: no labels."""
        return None

    @staticmethod
    def get_ec2_instance_num_accelerators(instance_type: str, instances: Any) -> int | None:
        """Return the number of accelerators of a type of Amazon's machines; None if unknown."""
        return None

    @staticmethod
    def get_ec2_instance_accelerator_type(instance_type: str, instances: Any) -> str | None:
        """The model that a type of Amazon's machines has; None where that is not known."""
        return None
