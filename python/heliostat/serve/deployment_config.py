"""All options of a deployment together: whether they go together, and what follows from them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from heliostat.core.platform.serving import check_arguments
from heliostat.serve.options import (
    AutoscalingConfig,
    BackpressureConfig,
    DeploymentActorConfig,
    GangSchedulingConfig,
    LoggingConfig,
    RequestRouterConfig,
    check_least,
    check_whole,
    of,
)


@dataclass
class DeploymentConfig:
    """The options with which a deployment runs, defaults filled in."""

    num_replicas: int = 1
    ray_actor_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_ongoing_requests: int = 5
    max_queued_requests: int = -1
    backpressure_config: BackpressureConfig | None = None
    autoscaling_config: AutoscalingConfig | None = None
    user_config: Any = None
    graceful_shutdown_wait_loop_s: float = 2.0
    graceful_shutdown_timeout_s: float = 20.0
    health_check_period_s: float = 10.0
    health_check_timeout_s: float = 30.0
    max_constructor_retry_count: int = 20
    version: str | None = None
    logging_config: LoggingConfig | None = None
    rolling_update_percentage: float | None = None
    max_surge_percent: int | None = None
    placement_group_bundles: list[dict[str, float]] | None = None
    placement_group_strategy: str | None = None
    placement_group_bundle_label_selector: list[dict[str, str]] | None = None
    max_replicas_per_node: int | None = None
    request_router_config: RequestRouterConfig | None = None
    gang_scheduling_config: GangSchedulingConfig | None = None
    deployment_actors: list[DeploymentActorConfig] | None = None

    @property
    def gang_size(self) -> int:
        """The number of replicas that start and end together."""
        return 1 if self.gang_scheduling_config is None else self.gang_scheduling_config.gang_size

    def whole_gangs(self, number: int) -> int:
        """Return a number of replicas, rounded up to whole gangs."""
        return math.ceil(number / self.gang_size) * self.gang_size

    def resources(self) -> dict[str, float]:
        """Return the resources that a replica's actor takes of its node."""
        options = self.ray_actor_options
        taken = {
            "CPU": options.get("num_cpus", 1),
            "GPU": options.get("num_gpus"),
            "memory": options.get("memory"),
            **(options.get("resources") or {}),
        }
        return {name: number for name, number in taken.items() if number}

    def own_routing(self) -> RequestRouterConfig | None:
        """The router's own settings, where it is not the one that takes the replica with the fewest calls."""
        chosen = self.request_router_config
        return None if chosen is None or chosen.is_default() else chosen

    def backpressure(self) -> BackpressureConfig:
        """Return the answer to requests that are refused."""
        return self.backpressure_config or BackpressureConfig()

    def surge(self, target: int) -> int:
        """The number of replicas beyond the target while they are replaced."""
        if self.max_surge_percent is not None:
            return self.whole_gangs(math.ceil(target * self.max_surge_percent / 100))
        if self.rolling_update_percentage is not None:
            return 0
        return self.whole_gangs(max(1, math.ceil(target * 0.2)))

    def absent(self, target: int) -> int:
        """The number of replicas below the target while they are replaced: 0 where a surge is allowed."""
        if self.surge(target):
            return 0
        return self.whole_gangs(max(1, int(target * (self.rolling_update_percentage or 0.2))))

    def __post_init__(self) -> None:
        share = self.rolling_update_percentage
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"`rolling_update_percentage` must be in (0, 1], not {share!r}.")
        check_whole(self, "max_surge_percent")
        if self.max_surge_percent is not None and not 0 <= self.max_surge_percent <= 100:
            raise ValueError(
                f"`max_surge_percent` must be from 0 to 100, not {self.max_surge_percent!r}."
            )
        if self.gang_scheduling_config is not None:
            self.gang_scheduling_config = of(GangSchedulingConfig, self.gang_scheduling_config)
            self._check_gangs()
        self._check_group()
        self._check_actors()
        most = self.max_replicas_per_node
        if most is not None:
            check_whole(self, "max_replicas_per_node")
            if not 1 <= most <= 100:
                raise ValueError(f"`max_replicas_per_node` must be from 1 to 100, not {most!r}.")
            if self.placement_group_bundles is not None:
                raise ValueError(
                    "Give `max_replicas_per_node` or `placement_group_bundles`, not both."
                )
        if self.backpressure_config is not None:
            self.backpressure_config = of(BackpressureConfig, self.backpressure_config)
        if self.logging_config is not None:
            self.logging_config = of(LoggingConfig, self.logging_config)
        if self.request_router_config is not None:
            self.request_router_config = of(RequestRouterConfig, self.request_router_config)
        check_whole(self, "max_ongoing_requests", "max_queued_requests")
        check_least(self, {"max_ongoing_requests": 1, "max_queued_requests": -1})
        times = (
            "graceful_shutdown_wait_loop_s",
            "graceful_shutdown_timeout_s",
            "health_check_period_s",
            "health_check_timeout_s",
        )
        check_least(self, dict.fromkeys(times, 0))

    def _check_gangs(self) -> None:
        """The replicas make whole gangs, and nothing else says where they go."""
        size = self.gang_size
        if self.autoscaling_config is None and self.num_replicas % size:
            raise ValueError(
                f"num_replicas ({self.num_replicas}) must be a multiple of gang_size ({size})."
            )
        if self.max_replicas_per_node is not None:
            raise ValueError(
                "Setting `max_replicas_per_node` is not allowed when `gang_scheduling_config` is given: "
                "a gang has a placement group."
            )
        if self.placement_group_strategy is not None:
            raise ValueError(
                "Setting `placement_group_strategy` is not allowed when `gang_scheduling_config` is given: "
                "use its `gang_placement_strategy`."
            )

    def _check_actors(self) -> None:
        """Each deployment actor has a name of its own."""
        if self.deployment_actors is None:
            return
        self.deployment_actors = [of(DeploymentActorConfig, one) for one in self.deployment_actors]
        names = [one.name for one in self.deployment_actors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"`deployment_actors` must have unique names; there are two of {twice}."
            )

    def _check_group(self) -> None:
        """A placement group makes sense, and its first bundle holds the replica."""
        bundles, selectors = (
            self.placement_group_bundles,
            self.placement_group_bundle_label_selector,
        )
        if bundles is None:
            for name in ("placement_group_strategy", "placement_group_bundle_label_selector"):
                if getattr(self, name) is not None:
                    raise ValueError(f"`{name}` needs `placement_group_bundles`.")
            return
        if selectors is not None and len(selectors) == 1:
            self.placement_group_bundle_label_selector = selectors * len(bundles)
        strategy = self.placement_group_strategy or "PACK"
        selectors = self.placement_group_bundle_label_selector
        check_arguments(bundles, strategy, "detached", None, selectors, None)
        for name, number in self.resources().items():
            if number > bundles[0].get(name, 0):
                raise ValueError(
                    f"A replica is placed in the first of the `placement_group_bundles`, which has "
                    f"{bundles[0].get(name, 0)} {name}: `ray_actor_options` ask for {number}."
                )
