"""Names of the API for things that this package does not have."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

SCRIPT_MODE = 0
WORKER_MODE = 1
SPILL_WORKER_MODE = 2
RESTORE_WORKER_MODE = 3


class Language(Enum):
    """The languages that a worker can be written in."""

    PYTHON = 0
    JAVA = 1
    CPP = 2


def java_function(class_name: str, function_name: str) -> NoReturn:
    """A function written in Java."""
    raise NotImplementedError("Java workers are not supported")


def java_actor_class(class_name: str) -> NoReturn:
    """An actor class written in Java."""
    raise NotImplementedError("Java workers are not supported")


def cpp_function(function_name: str) -> NoReturn:
    """A function written in C++."""
    raise NotImplementedError("C++ workers are not supported")


def cpp_actor_class(create_function_name: str, class_name: str) -> NoReturn:
    """An actor class written in C++."""
    raise NotImplementedError("C++ workers are not supported")
