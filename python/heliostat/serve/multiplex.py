"""``@serve.multiplexed``: a replica holds several models and loads them as requests ask for them."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import Any

from heliostat.serve.context import request_context
from heliostat.serve.metrics import Counter, Gauge, Histogram


def get_multiplexed_model_id() -> str:
    """The model that the present request asks for, by header ``serve_multiplexed_model_id`` or handle.

    Empty where it names none.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... class Models:
        ...     @serve.multiplexed(max_num_models_per_replica=2)
        ...     async def load(self, name):
        ...         return f"weights of {name}"
        ...     async def __call__(self):
        ...         return await self.load(serve.get_multiplexed_model_id())
        >>> handle = serve.run(Models.bind(), name="models", route_prefix=None)
        >>> handle.options(multiplexed_model_id="small").remote().result()
        'weights of small'
        >>> serve.delete("models")
    """
    return request_context.get().multiplexed_model_id


_BOUNDS_MS = [1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 60_000, 600_000]


# The models of functions, which have no instance that keeps them.
_of_functions: list[_Models] = []
# Set when a model was loaded or went, for whoever tells others of it.
_changes: list[asyncio.Event] = []


def changes() -> asyncio.Event:
    """An event of the running loop that is set each time the models of this process change."""
    event = asyncio.Event()
    _changes.append(event)
    return event


def loaded_by(instance: Any) -> tuple[str, ...]:
    """The models that an instance, or a function, has loaded."""
    found = [*getattr(instance, "__dict__", {}).values(), *_of_functions]
    return tuple(
        sorted({name for one in found if isinstance(one, _Models) for name in one.names()})
    )


class _Meter:
    """The measurements of a replica's models, under Ray's names."""

    def __init__(self) -> None:
        self.asked = Counter(
            "serve_multiplexed_get_model_requests_counter", "How often a model was asked for."
        )
        self.loads = Counter("serve_multiplexed_models_load_counter", "Models that were loaded.")
        self.unloads = Counter(
            "serve_multiplexed_models_unload_counter", "Models that made room for others."
        )
        self.load_ms = Histogram(
            "serve_multiplexed_model_load_latency_ms",
            "How long a model took to load.",
            list(_BOUNDS_MS),
        )
        self.unload_ms = Histogram(
            "serve_multiplexed_model_unload_latency_ms",
            "How long a model took to go.",
            list(_BOUNDS_MS),
        )
        self.there = Gauge("serve_num_multiplexed_models", "Models that are loaded now.")
        self.names = Gauge(
            "serve_registered_multiplexed_model_id",
            "1 for each model that is loaded.",
            ("model_id",),
        )


class _Models:
    """The models of one instance, those used last at the end."""

    def __init__(self, load: Callable[[str], Any], most: int) -> None:
        self._load = load
        self._meter = _Meter()
        self._most = most
        self._models: OrderedDict[str, Any] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Any]] = {}
        self._lock = asyncio.Lock()

    def names(self) -> list[str]:
        """Return the names of the loaded models."""
        return list(self._models)

    async def get(self, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError("The model ID must be a string.")
        if not name:
            raise ValueError("The model ID cannot be empty.")
        self._meter.asked.inc()
        if name in self._models:
            self._models.move_to_end(name)
            return self._models[name]
        task = self._loading.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._add(name))
            self._loading[name] = task
            task.add_done_callback(lambda _: self._loading.pop(name, None))
        # A request that is cancelled does not cancel the model for others.
        return await asyncio.shield(task)

    async def _add(self, name: str) -> Any:
        async with self._lock:
            while 0 < self._most <= len(self._models):
                await self._make_room()
            began = perf_counter()
            self._models[name] = model = await self._load(name)
            self._meter.load_ms.observe((perf_counter() - began) * 1e3)
            self._meter.loads.inc()
            self._meter.names.set(1, {"model_id": name})
            self._meter.there.set(len(self._models))
            for event in _changes:
                event.set()
            return model

    async def _make_room(self) -> None:
        name, old = self._models.popitem(last=False)
        began = perf_counter()
        await _end(old)
        self._meter.unload_ms.observe((perf_counter() - began) * 1e3)
        self._meter.unloads.inc()
        self._meter.names.set(0, {"model_id": name})
        self._meter.there.set(len(self._models))


async def _end(model: Any) -> None:
    """End a model that goes, now and not when Python finds the time."""
    ends = getattr(type(model), "__del__", None)
    if ends is None:
        return
    if inspect.iscoroutinefunction(ends):
        await ends(model)
    else:
        ends(model)
    # Once is enough.
    model.__class__ = type(type(model).__name__, (type(model),), {"__del__": lambda _self: None})


def multiplexed(func: Callable[..., Any] | None = None, max_num_models_per_replica: int = 3) -> Any:
    """Have a replica keep several models, which an ``async`` function loads.

    The one used longest ago makes room. Requests with a model go to the same replica as those before.

    Args:
        func: The function, when there are no parentheses: takes a model's id; returns the model.
        max_num_models_per_replica: How many models a replica keeps; -1: any number. Default 3.

    Returns:
        The function, or a decorator of it.

    Raises:
        TypeError: The number is not an integer, or the function is not ``async def``.
        ValueError: The number is neither positive nor -1.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... class Models:
        ...     @serve.multiplexed(max_num_models_per_replica=2)
        ...     async def load(self, model_id):
        ...         return f"model {model_id}"
        ...     async def __call__(self, x):
        ...         return await self.load(serve.get_multiplexed_model_id())
        >>> handle = serve.run(Models.bind(), name="models", route_prefix=None)
        >>> handle.options(multiplexed_model_id="a").remote(1).result()
        'model a'
        >>> serve.delete("models")
    """
    if not isinstance(max_num_models_per_replica, int):
        raise TypeError("max_num_models_per_replica must be an integer.")
    if max_num_models_per_replica != -1 and max_num_models_per_replica <= 0:
        raise ValueError("max_num_models_per_replica must be positive.")

    def decorate(load: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.iscoroutinefunction(load):
            raise TypeError("The load function of @serve.multiplexed must be 'async def'.")
        count = len(inspect.signature(load).parameters)
        if count not in (1, 2):
            raise TypeError(
                "The load function of @serve.multiplexed takes the model's id, and perhaps self."
            )
        name = f"_serve_models_{load.__name__}"
        alone: list[_Models] = []

        @functools.wraps(load)
        async def loaded(*args: Any) -> Any:
            *instance, model = args
            if instance:
                models = vars(instance[0]).get(name)
                if models is None:
                    models = _Models(load.__get__(instance[0]), max_num_models_per_replica)
                    vars(instance[0])[name] = models
            else:
                if not alone:
                    alone.append(_Models(load, max_num_models_per_replica))
                    _of_functions.extend(alone)
                models = alone[0]
            return await models.get(model)

        return loaded

    return decorate(func) if callable(func) else decorate
