"""The result of ``init``."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heliostat.core.platform.annotations import RayDeprecationWarning
from heliostat.core.platform.version import COMMIT, RAY_VERSION


class BaseContext:
    """A connection to a cluster; leaving it as a context manager ends the connection."""

    dashboard_url: str | None
    python_version: str
    ray_version: str

    def disconnect(self) -> None:
        """End the connection."""
        raise NotImplementedError

    def __enter__(self) -> BaseContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def _repr_html_(self) -> str:
        """The context as a notebook shows it."""
        from html import escape

        from heliostat.core.platform.notebooks import table

        page = self.dashboard_url and f"http://{self.dashboard_url}"
        rows = {
            "Python version": escape(self.python_version),
            "Ray version": escape(self.ray_version),
            "Dashboard": f'<a href="{escape(page)}">{escape(page)}</a>' if page else "not running",
        }
        return table(rows)


class RayContext(BaseContext, Mapping[str, Any]):
    """The connection that ``init`` made. Reading it as a mapping is deprecated."""

    def __init__(self, address_info: Mapping[str, Any], disconnect: Callable[[], None]) -> None:
        self.address_info = dict(address_info)
        self.dashboard_url = str(address_info.get("webui_url") or "")
        self.python_version = platform.python_version()
        self.ray_version = RAY_VERSION
        self.ray_commit = COMMIT
        self._disconnect = disconnect

    def disconnect(self) -> None:
        """End the connection."""
        self._disconnect()

    def __getitem__(self, key: str) -> Any:
        if key == "webui_url":
            return self.dashboard_url
        warnings.warn(
            f'Accessing values through ctx["{key}"] is deprecated. '
            f'Use ctx.address_info["{key}"] instead.',
            RayDeprecationWarning,
            stacklevel=2,
        )
        return self.address_info[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def __enter__(self) -> RayContext:
        return self

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return (
            f"RayContext(dashboard_url={self.dashboard_url!r}, "
            f"python_version={self.python_version!r}, ray_version={self.ray_version!r}, "
            f"ray_commit={self.ray_commit!r})"
        )
