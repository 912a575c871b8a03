"""Names of the API for things that this package does not have."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

SCRIPT_MODE = 0
WORKER_MODE = 1
SPILL_WORKER_MODE = 2
RESTORE_WORKER_MODE = 3


class Language(Enum):
    """The languages that a worker can be written in.

    Examples:
        >>> from ray import Language
        >>> [language.name for language in Language]  # workers run PYTHON alone
        ['PYTHON', 'JAVA', 'CPP']
    """

    PYTHON = 0
    JAVA = 1
    CPP = 2


def java_function(class_name: str, function_name: str) -> NoReturn:
    """Refused: Java workers are not supported.

    Args:
        class_name: Has no effect.
        function_name: Has no effect.

    Raises:
        NotImplementedError: Always.

    Examples:
        >>> import ray
        >>> try:
        ...     ray.java_function("org.example.Work", "run").remote()
        ... except NotImplementedError:
        ...     print("workers run Python")
        workers run Python
    """
    raise NotImplementedError("Java workers are not supported")


def java_actor_class(class_name: str) -> NoReturn:
    """Refused: Java workers are not supported.

    Args:
        class_name: Has no effect.

    Raises:
        NotImplementedError: Always.

    Examples:
        >>> import ray
        >>> try:
        ...     ray.java_actor_class("org.example.Counter").remote()
        ... except NotImplementedError:
        ...     print("workers run Python")
        workers run Python
    """
    raise NotImplementedError("Java workers are not supported")


def cpp_function(function_name: str) -> NoReturn:
    """Refused: C++ workers are not supported.

    Args:
        function_name: Has no effect.

    Raises:
        NotImplementedError: Always.

    Examples:
        >>> import ray
        >>> try:
        ...     ray.cpp_function("Add").remote(1, 2)
        ... except NotImplementedError:
        ...     print("workers run Python")
        workers run Python
    """
    raise NotImplementedError("C++ workers are not supported")


def cpp_actor_class(create_function_name: str, class_name: str) -> NoReturn:
    """Refused: C++ workers are not supported.

    Args:
        create_function_name: Has no effect.
        class_name: Has no effect.

    Raises:
        NotImplementedError: Always.

    Examples:
        >>> from ray.cross_language import cpp_actor_class
        >>> try:
        ...     cpp_actor_class("CreateCounter", "Counter").remote()
        ... except NotImplementedError:
        ...     print("workers run Python")
        workers run Python
    """
    raise NotImplementedError("C++ workers are not supported")
