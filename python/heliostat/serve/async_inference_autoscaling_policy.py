"""A policy of autoscaling that counts the tasks of a queue with a deployment's requests."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.serve.options import AutoscalingContext

__all__ = ["AsyncInferenceAutoscalingPolicy"]

logger = logging.getLogger("ray.serve")


class AsyncInferenceAutoscalingPolicy:
    """Ask for replicas that have ``target_ongoing_requests`` each of the requests and waiting tasks.

    ``AutoscalingPolicy(policy_function=AsyncInferenceAutoscalingPolicy, policy_kwargs={"broker_url": …,
    "queue_name": …})``, for deployments with ``@task_consumer``. The broker is asked beside the controller;
    where it does not answer, the number that it gave last stays.

    Args:
        broker_url: The broker.
        queue_name: The queue.
        rabbitmq_management_url: Has no effect: RabbitMQ says over its own protocol how many messages a
            queue has.
        poll_interval_s: Seconds between two questions. Default 10.

    Examples:
        >>> from ray.serve.async_inference_autoscaling_policy import AsyncInferenceAutoscalingPolicy
        >>> from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
        >>> policy = AutoscalingPolicy(
        ...     policy_function=AsyncInferenceAutoscalingPolicy,
        ...     policy_kwargs={"broker_url": "redis://broker:6379/0", "queue_name": "pictures"},
        ... )
        >>> config = AutoscalingConfig(
        ...     min_replicas=1, max_replicas=8, target_ongoing_requests=2, policy=policy
        ... )

        ``@serve.deployment(autoscaling_config=config)`` has a deployment follow it.
    """

    def __init__(
        self,
        broker_url: str,
        queue_name: str,
        rabbitmq_management_url: str | None = None,
        poll_interval_s: float = 10.0,
    ) -> None:
        self._broker_url = broker_url
        self._queue_name = queue_name
        self._poll_interval_s = poll_interval_s
        self._length = 0
        self._asked_at = float("-inf")
        self._asking: threading.Thread | None = None

    def __call__(self, ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
        """The number of replicas, and how long the queue was."""
        now = time.monotonic()
        is_free = self._asking is None or not self._asking.is_alive()
        if is_free and now - self._asked_at >= self._poll_interval_s:
            self._asked_at = now
            # The thread must not keep a replaced policy alive, nor hold up the caller of the policy.
            args = (weakref.ref(self), self._broker_url, self._queue_name)
            self._asking = threading.Thread(target=_ask, args=args, daemon=True)
            self._asking.start()
        work, state = ctx.total_num_requests + self._length, {"queue_length": self._length}
        if ctx.current_num_replicas == 0:
            return float(work > 0), state
        return work / ctx.config.target_ongoing_requests, state


def _ask(policy: weakref.ref[AsyncInferenceAutoscalingPolicy], broker_url: str, queue: str) -> None:
    try:
        length = queue_length(broker_url, queue)
    except Exception as error:
        logger.warning("The length of the queue %r is not known: %s", queue, error)
        return
    found = policy()
    if found is not None:
        found._length = length


def queue_length(broker_url: str, queue: str) -> int:
    """The number of tasks that wait in a queue of Celery's; 0 for one that is missing."""
    kombu = required("kombu", "AsyncInferenceAutoscalingPolicy")
    with kombu.Connection(broker_url, connect_timeout=5) as connection:
        connection.ensure_connection(max_retries=1)
        try:
            told = connection.default_channel.queue_declare(queue=queue, passive=True)
        except connection.channel_errors:
            return 0
        return int(told.message_count)
