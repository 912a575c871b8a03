"""Where tasks and actors go: the strategies users name, and the plan the runtime takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heliostat.core.placement import PlacementGroup

if TYPE_CHECKING:
    from heliostat.core.plans import StrategyPlan

_NODE_ID = re.compile("[0-9a-fA-F]{56}")
_DEFAULT, _SPREAD, _NODE_AFFINITY, _PLACEMENT_GROUP = range(4)


class PlacementGroupSchedulingStrategy:
    """In a placement group: in the bundle of that index, or in any."""

    def __init__(
        self,
        placement_group: PlacementGroup,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """On the node of that id; with ``soft``, elsewhere when it is gone or full."""

    def __init__(
        self,
        node_id: Any,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        self.node_id: str = node_id if isinstance(node_id, str) else node_id.hex()
        if not _NODE_ID.fullmatch(self.node_id):
            raise ValueError(
                f"Invalid node_id '{self.node_id}'. Node ID must be a valid hex string. "
                "ray.nodes() lists the nodes and their ids."
            )
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable


class _OneOf:
    """An operator on a label that names values."""

    def __init__(self, *values: Any) -> None:
        for value in values:
            if not isinstance(value, str):
                raise ValueError(
                    f"Type of value in {type(self).__name__} must be str, not {value!r}"
                )
        self.values = list(values)


class In(_OneOf):
    """The label has one of these values."""


class NotIn(_OneOf):
    """The label has none of these values."""


class Exists:
    """The node has the label."""


class DoesNotExist:
    """The node lacks the label."""


_Operators = Mapping[str, In | NotIn | Exists | DoesNotExist]


class NodeLabelSchedulingStrategy:
    """On a node whose labels fit."""

    def __init__(self, hard: _Operators, *, soft: _Operators | None = None) -> None:
        if not hard and not soft:
            raise ValueError(
                "The `hard` and `soft` parameter of NodeLabelSchedulingStrategy cannot both be empty."
            )
        for side in (hard, soft or {}):
            for key, operator in side.items():
                if not isinstance(operator, In | NotIn | Exists | DoesNotExist):
                    raise ValueError(
                        f"The value of key {key!r} must be In, NotIn, Exists, DoesNotExist"
                    )
        self.hard = dict(hard)
        self.soft = dict(soft or {})


def strategy_plan(options: Mapping[str, Any]) -> StrategyPlan | None:
    """What the runtime takes, or ``None`` for the default. Raises ``ValueError``."""
    plan = _chosen(options)
    selector = options.get("label_selector") or {}
    if selector:
        plan["labels"] = [*plan.get("labels", ()), *selector.items()]
        if options.get("fallback_strategy"):
            raise NotImplementedError("`fallback_strategy` is not supported yet")
    return plan or None


def _chosen(options: Mapping[str, Any]) -> StrategyPlan:
    strategy = options.get("scheduling_strategy")
    group = options.get("placement_group")
    index = options.get("placement_group_bundle_index", -1)
    if strategy is None and isinstance(group, PlacementGroup):
        strategy = PlacementGroupSchedulingStrategy(
            group, index, options.get("placement_group_capture_child_tasks")
        )
    elif index != -1:
        raise ValueError("If placement group is not set, the value of bundle index must be -1.")
    if strategy is None or strategy == "DEFAULT":
        return {}
    if strategy == "SPREAD":
        return {"kind": _SPREAD}
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        return {"kind": _NODE_AFFINITY, "node_id": strategy.node_id, "soft": strategy.soft}
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        return _in_group(strategy)
    if isinstance(strategy, NodeLabelSchedulingStrategy):
        return {"labels": [(key, _selector(op)) for key, op in strategy.hard.items()]}
    raise ValueError(
        f"Invalid scheduling_strategy value {strategy}. Valid values are "
        '["DEFAULT" | "SPREAD" | PlacementGroupSchedulingStrategy | NodeAffinitySchedulingStrategy]'
    )


def _in_group(strategy: PlacementGroupSchedulingStrategy) -> StrategyPlan:
    group, index = strategy.placement_group, strategy.placement_group_bundle_index
    if not -1 <= index < group.bundle_count:
        raise ValueError(
            f"placement group bundle index {index} is invalid. "
            f"Valid placement group indexes: 0-{group.bundle_count - 1}"
        )
    return {
        "kind": _PLACEMENT_GROUP,
        "placement_group_id": group.id,
        "bundle": index,
        "capture_children": bool(strategy.placement_group_capture_child_tasks),
    }


def _selector(operator: In | NotIn | Exists | DoesNotExist) -> str:
    if isinstance(operator, In | NotIn):
        inside = f"in({','.join(operator.values)})"
        return inside if isinstance(operator, In) else f"!{inside}"
    raise NotImplementedError("the label operators Exists and DoesNotExist are not supported yet")
