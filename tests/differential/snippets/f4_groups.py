"""F4: placement groups and labels."""

from __future__ import annotations

from typing import Any

import ray
from kit import outcome, snippet, until
from ray.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote
def where() -> Any:
    context = ray.get_runtime_context()
    return context.get_placement_group_id() is not None, context.get_assigned_resources().get("CPU")


@snippet("F4.12", "F4.13")
def groups() -> Any:
    pg = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK", name="mine")
    found: dict[str, Any] = {
        "ready": type(ray.get(pg.ready(), timeout=30)).__name__,
        "wait": [pg.wait(10), pg.wait(0)],
        "specs": pg.bundle_specs,
        "count": pg.bundle_count,
        "named": get_placement_group("mine") == pg,
        "missing": outcome(lambda: get_placement_group("other"), "other"),
        "current": get_current_placement_group(),
        "id": type(pg.id).__name__,
    }
    table = placement_group_table(pg)
    found["table"] = sorted(table)
    found["state"] = table["state"]
    found["all"] = outcome(lambda: len(placement_group_table()) >= 1)
    never = placement_group([{"CPU": 1000}])
    found["pending"] = [never.wait(0.2), placement_group_table(never)["state"]]
    remove_placement_group(never)
    remove_placement_group(pg)
    found["removed"] = until(lambda: placement_group_table(pg)["state"] == "REMOVED")
    found["again"] = outcome(lambda: remove_placement_group(pg))
    found["free"] = until(lambda: ray.available_resources().get("CPU") == 4)
    return found


@snippet("F4.12")
def wrong_groups() -> Any:
    return {
        "empty": outcome(lambda: placement_group([])),
        "no list": outcome(lambda: placement_group({"CPU": 1})),
        "empty bundle": outcome(lambda: placement_group([{}])),
        "zero": outcome(lambda: placement_group([{"CPU": 0}])),
        "negative": outcome(lambda: placement_group([{"CPU": -1}])),
        "strategy": outcome(lambda: placement_group([{"CPU": 1}], strategy="ODD"), "ODD"),
        "lifetime": outcome(lambda: placement_group([{"CPU": 1}], lifetime="odd")),
        "text": outcome(lambda: placement_group([{"CPU": "1"}])),
        "topology": outcome(lambda: placement_group([{"CPU": 1}], topology_strategy="x"), "dict"),
        "selectors": [
            outcome(lambda s=s: placement_group([{"CPU": 1}], bundle_label_selector=s))
            for s in ([{"zone": "a"}] * 2, {"zone": "a"}, [{"zone": "in("}])
        ],
    }


@snippet("F4.14", "F4.13")
def in_groups() -> Any:
    pg = placement_group([{"CPU": 1}, {"CPU": 1}])
    ray.get(pg.ready())
    strategy = PlacementGroupSchedulingStrategy

    def run(**options: Any) -> Any:
        def call() -> Any:
            task = where.options(scheduling_strategy=strategy(pg, **options))
            return ray.get(task.remote(), timeout=30)

        return outcome(call)

    @ray.remote
    def parent() -> Any:
        return ray.get(where.options(num_cpus=0.5).remote())

    captured = parent.options(
        num_cpus=0.5,
        scheduling_strategy=strategy(pg, placement_group_capture_child_tasks=True),
    )
    loose = parent.options(scheduling_strategy=strategy(pg))
    actor = ray.remote(type("A", (), {"f": lambda self: where._function()}))
    held = actor.options(num_cpus=1, scheduling_strategy=strategy(pg)).remote()
    inside = ray.get(held.f.remote())
    ray.kill(held)
    found = {
        "any": run(),
        "first": run(placement_group_bundle_index=0),
        "too far": run(placement_group_bundle_index=2),
        "negative": run(placement_group_bundle_index=-2),
        "captured": ray.get(captured.remote()),
        "loose": ray.get(loose.remote()),
        "actor": inside,
        "too large": outcome(
            lambda: where.options(num_cpus=2, scheduling_strategy=strategy(pg)).remote()
        ),
    }
    waiting = actor.options(num_cpus=1, scheduling_strategy=strategy(pg)).remote()
    ray.get(waiting.f.remote())
    remove_placement_group(pg)
    until(lambda: "raises" in outcome(lambda: ray.get(waiting.f.remote(), timeout=30)))
    found["actor's end"] = outcome(lambda: ray.get(waiting.f.remote(), timeout=30))
    found["late"] = outcome(
        lambda: ray.get(where.options(scheduling_strategy=strategy(pg)).remote(), timeout=30)
    )
    return found


@snippet("F4.17", cluster={"num_cpus": 2, "labels": {"zone": "a", "kind": "big"}})
def labels() -> Any:
    def run(selector: Any) -> Any:
        task = where.options(label_selector=selector)
        return outcome(lambda: [len(x) for x in ray.wait([task.remote()], timeout=3)])

    return {
        "node": {k: ray.nodes()[0]["Labels"].get(k) for k in ("zone", "kind")},
        "equal": run({"zone": "a"}),
        "other": run({"zone": "b"}),
        "not": run({"zone": "!b"}),
        "in": run({"zone": "in(a,b)"}),
        "not in": run({"zone": "!in(a,b)"}),
        "fallback": outcome(
            lambda: len(
                ray.wait(
                    [
                        where.options(
                            label_selector={"zone": "b"},
                            fallback_strategy=[{"label_selector": {"zone": "a"}}],
                        ).remote()
                    ],
                    timeout=10,
                )[0]
            )
        ),
        "wrong": [
            outcome(lambda s=s: where.options(label_selector=s).remote())
            for s in ({"zone": "in()"}, {"zone": "in(a"}, {"-bad": "a"}, {"zone": "a b"}, {3: "a"})
        ],
        "wrong too": [
            outcome(lambda s=s: where.options(label_selector=s).remote())
            for s in ({"zone": None}, {"zone": "!"}, {"": "a"}, "zone=a")
        ],
        "wrong fallbacks": [
            outcome(lambda f=f: where.options(fallback_strategy=f).remote())
            for f in ([{}], [{"num_cpus": 1}], [{"label_selector": {"zone": "in("}}], {}, "x")
        ],
        "context": ray.get(
            ray.remote(
                lambda: {
                    k: v
                    for k, v in ray.get_runtime_context().get_node_labels().items()
                    if k in ("zone", "kind")
                }
            ).remote()
        ),
    }
