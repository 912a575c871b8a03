"""``A.__ray_metadata__``: what is known of an actor class, for tests and libraries that look at it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class ActorClassMethodMetadata:
    """The facts of the methods, by their names."""

    methods: dict[str, Any]
    signatures: dict[str, inspect.Signature]
    num_returns: dict[str, int | str | None]
    concurrency_group_for_methods: dict[str, str]


@dataclasses.dataclass(frozen=True)
class ActorClassMetadata:
    """An actor class: its plain class, and the options that it was decorated with.

    ``modified_class`` derives from the plain class and behaves as that does: it can be instantiated and
    subclassed.
    """

    modified_class: type
    class_name: str
    method_meta: ActorClassMethodMetadata
    language: str = "PYTHON"
    is_cross_language: bool = False
    max_restarts: int = 0
    max_task_retries: int = 0
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    object_store_memory: float | None = None
    resources: dict[str, float] | None = None
    label_selector: dict[str, str] | None = None
    fallback_strategy: Any = None
    accelerator_type: str | None = None
    runtime_env: Any = None
    concurrency_groups: Any = None
    scheduling_strategy: Any = None
    enable_tensor_transport: bool | None = None


_OPTIONS = [field.name for field in dataclasses.fields(ActorClassMetadata)][5:]


def describe(cls: type, options: Mapping[str, Any], method_options: str) -> ActorClassMetadata:
    """Describe a plain class and its options; ``method_options``: where methods keep those of their own."""
    methods = {
        name: member
        for name, member in inspect.getmembers(cls, inspect.isroutine)
        if inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member)))
    }
    own = {name: getattr(member, method_options, {}) for name, member in methods.items()}
    meta = ActorClassMethodMetadata(
        methods,
        {name: inspect.signature(member) for name, member in methods.items()},
        {name: given.get("num_returns") for name, given in own.items()},
        {name: g["concurrency_group"] for name, g in own.items() if g.get("concurrency_group")},
    )
    given = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    return ActorClassMetadata(_derived(cls), cls.__name__, meta, **given)


def _derived(cls: type) -> type:
    names = ("__module__", "__qualname__", "__doc__")
    body = {name: getattr(cls, name) for name in names} | {"__ray_actor_class__": cls}
    try:
        return type(cls)(cls.__name__, (cls,), body)
    except TypeError:  # its subclasses need arguments of their own
        return cls
