"""Gradio in deployments. Needs ``gradio``; the package is not a part of Serve."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from heliostat.serve import api

__all__ = ["GradioIngress", "GradioServer"]


class GradioIngress:
    """Answers HTTP requests with a Gradio application: an ``Interface`` or ``Blocks``.

    ``builder`` takes nothing and makes it, in the replica.
    """

    def __init__(self, builder: Callable[[], Any]) -> None:
        routes: Any = importlib.import_module("gradio.routes")
        self._serve_asgi_app = routes.App.create_app(builder())


try:
    importlib.import_module("gradio")
except ModuleNotFoundError as _error:
    _error.msg += ": pip install gradio"
    raise

GradioServer = api.deployment(GradioIngress)
"""The same as a deployment: ``GradioServer.options(num_replicas=2).bind(builder)``."""
