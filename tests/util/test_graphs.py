"""Task graphs: ``bind`` describes calls, ``execute`` makes them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import ray
from ray.dag import InputNode, MultiOutputNode

pytestmark = [
    pytest.mark.usefixtures("ray_start"),
    pytest.mark.filterwarnings("ignore:DAGNode.execute"),
]


@ray.remote
def add(x: int, y: int = 0) -> int:
    return x + y


@ray.remote
class Counter:
    def __init__(self, start: int) -> None:
        self.n = start

    def up(self, by: int) -> int:
        self.n += by
        return self.n


@pytest.mark.contract("F1.01", "F14.08")
def test_a_graph_of_functions() -> None:
    node = add.bind(1, y=add.options(num_cpus=2).bind(2, 3))
    assert ray.get(node.execute()) == 6
    assert ray.get(node.execute()) == 6


@pytest.mark.contract("F14.08")
def test_a_node_is_made_once_an_execution() -> None:
    random = ray.remote(lambda: uuid.uuid4().hex).bind()
    same = ray.remote(lambda x: x)
    both = MultiOutputNode([same.bind(random), same.bind(random)])
    one, other = ray.get(both.execute())
    assert one == other
    assert ray.get(both.execute()) != [one, other]


@pytest.mark.contract("F14.08")
def test_nodes_within_containers_are_references() -> None:
    @ray.remote
    def total(parts: list[Any], named: dict[str, Any]) -> int:
        return sum(ray.get(parts)) + ray.get(named["more"])

    node = add.bind(1, 1)
    assert ray.get(total.bind([node, node], {"more": node}).execute()) == 6


@pytest.mark.contract("F14.08", "F2.01")
def test_actors_are_made_anew_and_their_calls_keep_their_order() -> None:
    counter = Counter.bind(10)
    counter.up.bind(1)
    last = counter.up.bind(add.bind(1, 1))
    assert ray.get(last.execute()) == 13
    assert ray.get(last.execute()) == 13


@pytest.mark.contract("F14.08", "F2.03")
def test_methods_of_a_living_actor() -> None:
    handle = Counter.remote(100)
    node = handle.up.bind(1)
    assert [ray.get(node.execute()), ray.get(node.execute())] == [101, 102]


@pytest.mark.contract("F14.08")
def test_inputs() -> None:
    with InputNode() as one:
        single = add.bind(one, 1)
    with InputNode() as several:
        parts = add.bind(several[0], several.y)
    with InputNode() as mapping:
        key = add.bind(mapping["k"])
    assert ray.get(single.execute(4)) == 5
    assert ray.get(parts.execute(1, y=2)) == 3
    assert ray.get(key.execute({"k": 7})) == 7
    assert ray.get(key.execute(k=7)) == 7


@pytest.mark.contract("F14.08")
def test_what_a_node_is_not() -> None:
    node = add.bind(1)
    with pytest.raises(TypeError):
        node(1)
    with pytest.raises(AttributeError):
        node.remote()
    with pytest.raises(AttributeError):
        _ = Counter.bind(1).nothing
