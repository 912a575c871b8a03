"""Placement of tasks and actors: the strategies users name, and the runtime's form of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heliostat import _heliostat
from heliostat.core.calls.placement import (
    PlacementGroup,
    check_placement_group_index,
    get_current_placement_group,
)

if TYPE_CHECKING:
    from heliostat.core.native_types import PlacementKeywords

_NODE_ID = re.compile("[0-9a-fA-F]{56}")
ANY_BUNDLE = -1


class PlacementGroupSchedulingStrategy:
    """Run in a placement group.

    Args:
        placement_group: The group. ``"default"``: the caller's, where that captures its children;
            ``None``: no group, also where the caller's captures its children.
        placement_group_bundle_index: The bundle's index. Default -1: any of the group.
        placement_group_capture_child_tasks: Whether what runs there submits into the group, too.
            Default: it does not.

    Examples:
        >>> import ray
        >>> from ray.util import placement_group, remove_placement_group
        >>> from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        >>> group = placement_group([{"CPU": 1}])
        >>> @ray.remote(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
        ... def where():
        ...     return ray.util.get_current_placement_group() == group
        >>> ray.get(where.remote())
        True
        >>> remove_placement_group(group)
    """

    def __init__(
        self,
        placement_group: PlacementGroup | str | None,
        placement_group_bundle_index: int = ANY_BUNDLE,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """Run on the node of that id.

    Args:
        node_id: The id, as hexadecimal digits or as a ``NodeID``.
        soft: Elsewhere when that node is gone or full. False: fail when it is gone, and wait while it
            is full.

    Raises:
        ValueError: It is not the id of a node.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        >>> here = ray.get_runtime_context().get_node_id()
        >>> @ray.remote
        ... def where():
        ...     return ray.get_runtime_context().get_node_id()
        >>> strategy = NodeAffinitySchedulingStrategy(here, soft=False)
        >>> ray.get(where.options(scheduling_strategy=strategy).remote()) == here
        True
    """

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
    """The label has one of these values.

    Args:
        *values: Texts.

    Raises:
        ValueError: A value is not a text, or there is none.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import In, NodeLabelSchedulingStrategy
        >>> somewhere = NodeLabelSchedulingStrategy(hard={"region": In("eu", "us")})
        >>> @ray.remote(scheduling_strategy=somewhere)
        ... def work():
        ...     pass
    """


class NotIn(_OneOf):
    """The label has none of these values.

    Args:
        *values: Texts.

    Raises:
        ValueError: A value is not a text, or there is none.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn
        >>> elsewhere = NodeLabelSchedulingStrategy(hard={"region": NotIn("moon")})
        >>> @ray.remote(scheduling_strategy=elsewhere)
        ... def work():
        ...     return "done"
        >>> ray.get(work.remote())
        'done'
    """


class Exists:
    """The node has the label.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import Exists, NodeLabelSchedulingStrategy
        >>> labelled = NodeLabelSchedulingStrategy(hard={"region": Exists()})
        >>> @ray.remote(scheduling_strategy=labelled)
        ... def work():
        ...     pass
    """


class DoesNotExist:
    """The node lacks the label.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import DoesNotExist, NodeLabelSchedulingStrategy
        >>> not_for_sale = NodeLabelSchedulingStrategy(hard={"spot": DoesNotExist()})
        >>> @ray.remote(scheduling_strategy=not_for_sale)
        ... def work():
        ...     return "done"
        >>> ray.get(work.remote())
        'done'
    """


_Operators = Mapping[str, In | NotIn | Exists | DoesNotExist]


class NodeLabelSchedulingStrategy:
    """Run on a node whose labels fit.

    Args:
        hard: What labels must be: ``In``, ``NotIn``, ``Exists()`` or ``DoesNotExist()`` by label.
        soft: What they should be, where several nodes fit. Default: nothing.

    Raises:
        ValueError: Neither is given, or one of them is not a dictionary of such operators.

    Examples:
        >>> import ray
        >>> from ray.util.scheduling_strategies import In, NodeLabelSchedulingStrategy
        >>> in_europe = NodeLabelSchedulingStrategy(hard={"region": In("eu-1", "eu-2")})
        >>> @ray.remote(scheduling_strategy=in_europe)
        ... def work():
        ...     return 1
    """

    def __init__(self, hard: _Operators, *, soft: _Operators | None = None) -> None:
        for side, given in (("hard", hard), ("soft", soft)):
            if given and not isinstance(given, Mapping):
                raise ValueError(
                    f'The {side} parameter must be a map (e.g. {{"key1": In("value1")}}) but got type '
                    f"{type(given)}."
                )
        if not hard and not soft:
            raise ValueError(
                "The `hard` and `soft` parameter of NodeLabelSchedulingStrategy cannot both be empty."
            )
        for side_of in (hard or {}, soft or {}):
            for key, operator in side_of.items():
                if not isinstance(operator, In | NotIn | Exists | DoesNotExist):
                    raise ValueError(
                        f"The value of key {key!r} must be In, NotIn, Exists, DoesNotExist"
                    )
        self.hard = dict(hard or {})
        self.soft = dict(soft or {})


def placement_of(
    options: _heliostat.TaskOptions | _heliostat.ActorOptions,
    needs: Mapping[str, Mapping[str, float]],
    name: str,
) -> _heliostat.Placement:
    """The placement of a call with these options. Raises ``ValueError``.

    ``needs``: what the call needs, by what for (``"run"``, ``"start"``); ``name``: for messages.
    """
    chosen = _chosen(options, needs, name)
    selector = options["label_selector"]
    if selector:
        chosen["labels"] = [*chosen.get("labels", ()), *selector.items()]
    fallbacks = options["fallback_strategy"]
    if fallbacks:
        chosen["fallbacks"] = [
            *chosen.get("fallbacks", ()),
            *(list(entry["label_selector"].items()) for entry in fallbacks),
        ]
    return _heliostat.Placement(**chosen)


def _chosen(
    options: _heliostat.TaskOptions | _heliostat.ActorOptions,
    needs: Mapping[str, Mapping[str, float]],
    name: str,
) -> PlacementKeywords:
    strategy, group = options["scheduling_strategy"], options["placement_group"]
    index = options["placement_group_bundle_index"]
    if strategy is None and isinstance(group, PlacementGroup):
        strategy = PlacementGroupSchedulingStrategy(
            group, index, options["placement_group_capture_child_tasks"]
        )
    elif index != ANY_BUNDLE:
        raise ValueError("If placement group is not set, the value of bundle index must be -1.")
    if strategy == "DEFAULT" or (strategy is None and group is None):
        return {"captured": False}
    if strategy is None:
        return {}
    if strategy == "SPREAD":
        return {"spread": True}
    if isinstance(strategy, NodeAffinitySchedulingStrategy):
        return {"node_id": strategy.node_id, "soft": bool(strategy.soft)}
    if isinstance(strategy, PlacementGroupSchedulingStrategy):
        return _in_group(strategy, needs, name)
    if isinstance(strategy, NodeLabelSchedulingStrategy):
        return _by_label(strategy)
    raise ValueError(
        f"Invalid scheduling_strategy value {strategy}. Valid values are "
        '["DEFAULT" | "SPREAD" | PlacementGroupSchedulingStrategy | NodeAffinitySchedulingStrategy]'
    )


def _in_group(
    strategy: PlacementGroupSchedulingStrategy, needs: Mapping[str, Mapping[str, float]], name: str
) -> PlacementKeywords:
    group, index = strategy.placement_group, strategy.placement_group_bundle_index
    if group is None:
        group = PlacementGroup.empty()
    if group == "default":
        # As without a strategy: the caller's own group, if that captures what the caller submits.
        check_placement_group_index(PlacementGroup.empty(), index)
        return {}
    if not isinstance(group, PlacementGroup):
        raise ValueError(
            f'placement_group must be a PlacementGroup, None or "default", got {group!r}'
        )
    check_placement_group_index(group, index)
    if group.is_empty:
        return {"captured": False}
    _check_fits(group, index, needs, name)
    group._is_known()
    return {
        "group": group.id,
        "bundle": index,
        "capture_children": bool(strategy.placement_group_capture_child_tasks),
    }


def check_captured(needs: Mapping[str, Mapping[str, float]], name: str) -> None:
    """Refuse what is submitted inside a capturing group, names no other place and does not fit.

    Raises ``ValueError``.
    """
    if not _heliostat.is_connected():
        return
    current = _heliostat.current()
    if current.capture_children and current.placement_group_id is not None:
        group = get_current_placement_group()
        if group is not None:
            _check_fits(group, ANY_BUNDLE, needs, name)


def _check_fits(
    group: PlacementGroup, index: int, needs: Mapping[str, Mapping[str, float]], name: str
) -> None:
    bundles = group.bundle_specs
    for purpose, need in needs.items():
        fit = [
            i
            for i, bundle in enumerate(bundles)
            if all(bundle.get(resource, 0) >= amount for resource, amount in need.items())
        ]
        if fit and index in (ANY_BUNDLE, *fit):
            continue
        where = "any bundle" if index == ANY_BUNDLE else f"bundle {index}"
        if purpose == "start":
            raise ValueError(
                f"Cannot schedule {name} with the placement group because the actor requires "
                f"{need.get('CPU', 0):g} CPU for creation, but it cannot fit into {where} of "
                f"{bundles}. Give the bundle CPUs, or create the actor with num_cpus=0."
            )
        raise ValueError(
            f"Cannot schedule {name} with the placement group because the resource request "
            f"{dict(need)} cannot fit into {where} of {bundles}."
        )


def _by_label(strategy: NodeLabelSchedulingStrategy) -> PlacementKeywords:
    hard = [(key, _selector(operator)) for key, operator in strategy.hard.items()]
    soft = [(key, _selector(operator)) for key, operator in strategy.soft.items()]
    if not soft:
        return {"labels": hard}
    # Labels that are only wished for are given up when no node has it.
    return {"labels": [*hard, *soft], "fallbacks": [hard]}


def _selector(operator: In | NotIn | Exists | DoesNotExist) -> str:
    if isinstance(operator, In | NotIn):
        inside = f"in({','.join(operator.values)})"
        return inside if isinstance(operator, In) else f"!{inside}"
    return "*" if isinstance(operator, Exists) else "!*"
