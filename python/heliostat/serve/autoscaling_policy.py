"""Policies of autoscaling: from the load of a deployment to the number of replicas that it needs."""

from __future__ import annotations

from typing import Any

from heliostat.serve.options import AutoscalingContext
from heliostat.serve.prometheus import (
    PrometheusQueryMixin,
    PrometheusSample,
    PrometheusScalar,
    PrometheusVector,
)

__all__ = [
    "PrometheusQueryMixin",
    "PrometheusSample",
    "PrometheusScalar",
    "PrometheusVector",
    "default_autoscaling_policy",
    "replica_queue_length_autoscaling_policy",
]


def replica_queue_length_autoscaling_policy(
    ctx: AutoscalingContext,
) -> tuple[float, dict[str, Any]]:
    """Return as many replicas as have ``target_ongoing_requests`` each, and no state.

    For policies to build on. Without a replica that runs: one where there are requests, else the present
    target.

    Args:
        ctx: What is known of the deployment.

    Returns:
        How many replicas, before the factors and bounds of the ``AutoscalingConfig``; and an empty dict.

    Examples:
        >>> from ray.serve.autoscaling_policy import replica_queue_length_autoscaling_policy
        >>> from ray.serve.config import AutoscalingPolicy
        >>> def at_least_two_by_day(context):
        ...     wanted, state = replica_queue_length_autoscaling_policy(context)
        ...     hour = context.current_time // 3600 % 24
        ...     return max(wanted, 2 if 8 <= hour < 18 else 0), state
        >>> policy = AutoscalingPolicy(policy_function=at_least_two_by_day)
    """
    if ctx.current_num_replicas == 0:
        waits = ctx.total_num_requests > 0
        return max(ctx.target_num_replicas, 1 if waits else 0), {}
    return ctx.total_num_requests / ctx.config.target_ongoing_requests, {}


default_autoscaling_policy = replica_queue_length_autoscaling_policy
