"""Policies of autoscaling that ask a Prometheus server."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

logger = logging.getLogger("ray.serve")

FETCH_INTERVAL_S = 5.0
CACHE_TTL_S = 15.0
QUERY_TIMEOUT_S = 5.0
_QUERY_PATH = "/api/v1/query"
_HEADERS_VARIABLE = "RAY_PROMETHEUS_HEADERS"


@dataclass(frozen=True)
class PrometheusScalar:
    """A number, and its Unix time.

    Args:
        value: The number.
        timestamp: When it was measured, in seconds.

    Examples:
        >>> from ray.serve.autoscaling_policy import PrometheusScalar
        >>> PrometheusScalar(value=12.0, timestamp=1700000000.0).value
        12.0
    """

    value: float
    timestamp: float


@dataclass(frozen=True)
class PrometheusSample:
    """A number of a vector, with its labels and its Unix time.

    Args:
        labels: Its labels, by name.
        value: The number.
        timestamp: When it was measured, in seconds.

    Examples:
        >>> from ray.serve.autoscaling_policy import PrometheusSample
        >>> sample = PrometheusSample(labels={"queue": "pictures"}, value=12.0, timestamp=1700000000.0)
        >>> sample.labels["queue"], sample.value
        ('pictures', 12.0)
    """

    labels: Mapping[str, str]
    value: float
    timestamp: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))


@dataclass(frozen=True)
class PrometheusVector:
    """Numbers of the same time; those that are not finite are left out.

    Args:
        samples: The numbers, with their labels.

    Examples:
        >>> from ray.serve.autoscaling_policy import PrometheusSample, PrometheusVector
        >>> pictures = PrometheusSample({"queue": "pictures"}, 12.0, 1700000000.0)
        >>> films = PrometheusSample({"queue": "films"}, 3.0, 1700000000.0)
        >>> vector = PrometheusVector((pictures, films))  # in prometheus_results, of sum by (queue)
        >>> max(sample.value for sample in vector.samples)
        12.0
    """

    samples: tuple[PrometheusSample, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", tuple(self.samples))


Result = PrometheusScalar | PrometheusVector


def _headers(text: str) -> dict[str, str]:
    """Headers of requests, given as a JSON object, or as a list of pairs; raises ``ValueError``."""
    given = json.loads(text)
    if isinstance(given, list) and all(isinstance(one, list) and len(one) == 2 for one in given):
        given = dict(map(tuple, given))
    texts = isinstance(given, dict) and all(isinstance(one, str) for one in given.values())
    if not texts:
        raise ValueError(
            f"{_HEADERS_VARIABLE} has to be a JSON object of texts, or a JSON list of pairs of texts."
        )
    return dict(given)


def _point(row: Any) -> tuple[float, float] | None:
    """Value and time; ``None`` where the value is not finite, as of an empty range."""
    at, value = float(row[0]), float(row[1])
    return (value, at) if math.isfinite(value) else None


def _ask(url: str, query: str, headers: dict[str, str]) -> Result | None:
    """Ask one question; raises ``ValueError`` for an answer that is neither a scalar nor a vector."""
    import urllib.parse  # here: most programs ask no server, and it brings all of `http` and `email`
    import urllib.request

    asked = urllib.request.Request(
        f"{url}?{urllib.parse.urlencode({'query': query})}", None, headers
    )
    with urllib.request.urlopen(asked, timeout=QUERY_TIMEOUT_S) as answer:
        told = json.load(answer)
    if told.get("status") != "success":
        raise ValueError(f"the server refuses it: {told.get('error', told)}")
    kind, result = told["data"]["resultType"], told["data"]["result"]
    if kind == "scalar":
        point = _point(result)
        return None if point is None else PrometheusScalar(*point)
    if kind != "vector":
        raise ValueError(f"its answer is a {kind}: only a scalar or an instant vector can be used")
    samples = []
    for row in result:
        if "value" not in row:
            raise ValueError("its answer has native histograms, which cannot be used")
        point = _point(row["value"])
        if point is not None:
            samples.append(PrometheusSample(row.get("metric", {}), *point))
    return PrometheusVector(tuple(samples))


class _Cache:
    """The last answers. It does not know the policy: who drops the policy ends the thread, too."""

    def __init__(self, address: str, queries: list[str], headers: dict[str, str]) -> None:
        address = address.rstrip("/")
        if not address.startswith(("http://", "https://")):
            address = f"http://{address}"
        self.url = address if address.endswith(_QUERY_PATH) else address + _QUERY_PATH
        self.queries = queries
        self.headers = headers
        self.is_over = threading.Event()
        self.found: tuple[float, dict[str, Result]] | None = None

    def fetch(self) -> None:
        """Ask all questions; what fails or has no value is left out."""
        found: dict[str, Result] = {}
        for query in self.queries:
            try:
                result = _ask(self.url, query, self.headers)
            except Exception as error:
                logger.warning("Prometheus was asked %r in vain: %s", query, error)
                continue
            if result is not None:
                found[query] = result
        self.found = (time.monotonic(), found) if found else None

    def run(self, interval_s: float) -> None:
        """Ask again and again."""
        while not self.is_over.is_set():
            self.fetch()
            self.is_over.wait(interval_s)


class PrometheusQueryMixin:
    """Keeps the answers of a Prometheus server for a policy, which reads them in its ``__call__``.

    A thread asks from the first reading on. Reading waits for nothing.

    Args:
        prometheus_address: The server, as ``host:port`` or a URL. Default: the environment variable
            ``RAY_PROMETHEUS_HOST``; ``RAY_PROMETHEUS_HEADERS`` has headers as JSON.
        prometheus_queries: What is asked, in PromQL.
        fetch_interval_s: Seconds from one answer to the next question. Default 5.
        cache_ttl_s: How old answers may be, in seconds. Default 15.
        **kwargs: For the classes beside this one.

    Raises:
        ValueError: ``RAY_PROMETHEUS_HEADERS`` is neither an object of texts nor a list of pairs.

    Examples:
        >>> from ray.serve.autoscaling_policy import PrometheusQueryMixin
        >>> from ray.serve.config import AutoscalingPolicy
        >>> WAITING = "sum(queue_length)"
        >>> class ByQueue(PrometheusQueryMixin):
        ...     def __call__(self, context):
        ...         metrics = self.prometheus_metrics  # None while there is no answer
        ...         if metrics is None:
        ...             return context.target_num_replicas, {}
        ...         return metrics[WAITING] / 10, {}
        >>> policy = AutoscalingPolicy(
        ...     policy_function=ByQueue,
        ...     policy_kwargs={"prometheus_address": "prometheus:9090", "prometheus_queries": [WAITING]},
        ... )
    """

    def __init__(
        self,
        *,
        prometheus_address: str | None = None,
        prometheus_queries: list[str] | None = None,
        fetch_interval_s: float = FETCH_INTERVAL_S,
        cache_ttl_s: float = CACHE_TTL_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        address = prometheus_address or os.environ.get("RAY_PROMETHEUS_HOST")
        headers = _headers(os.environ.get(_HEADERS_VARIABLE, "{}"))
        self._prometheus = _Cache(address or "", list(prometheus_queries or ()), headers)
        self._asks = bool(address and prometheus_queries)
        self._fetch_interval_s = fetch_interval_s
        self._cache_ttl_s = cache_ttl_s

    @property
    def prometheus_results(self) -> dict[str, Result] | None:
        """The last answers by their questions; ``None`` while there are none, or only older ones."""
        cache = self._prometheus
        if self._asks:
            self._asks = False
            thread = threading.Thread(
                target=cache.run,
                args=(self._fetch_interval_s,),
                name="serve-prometheus",
                daemon=True,
            )
            thread.start()
            weakref.finalize(self, cache.is_over.set)
        if cache.found is None or time.monotonic() - cache.found[0] > self._cache_ttl_s:
            return None
        return dict(cache.found[1])

    @property
    def prometheus_metrics(self) -> dict[str, float] | None:
        """The last answers that are one number; ``None`` where there are none."""
        numbers = {}
        for query, result in (self.prometheus_results or {}).items():
            if isinstance(result, PrometheusScalar):
                numbers[query] = result.value
            elif len(result.samples) == 1:
                numbers[query] = result.samples[0].value
        return numbers or None
