"""What an actor's class may look like, and where handles and methods may go."""

from __future__ import annotations

import abc
import dataclasses
import functools
import pickle
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
import ray

from tests.helpers.actors import Counter

pytestmark = pytest.mark.usefixtures("ray_start")

T = TypeVar("T")


class Shape(abc.ABC):
    """Abstract; and every kind of member that a subclass inherits."""

    sides = 4

    def __init__(self, size: int, *, unit: str = "m") -> None:
        self.size, self.unit = size, unit

    @abc.abstractmethod
    def area(self) -> int: ...

    def described(self, prefix: str = "", *, loud: bool = False) -> str:
        text = f"{prefix}{self.area()} {self.unit}"
        return text.upper() if loud else text


class Square(Shape):
    def area(self) -> int:
        return self.size**2

    @staticmethod
    def corners() -> int:
        return 4

    @classmethod
    def named(cls) -> str:
        return cls.__name__

    def scaled(self, by: int, times: int) -> int:
        return self.size * by * times

    doubled = functools.partialmethod(scaled, 2)

    def __call__(self, x: int) -> int:
        return x * self.size

    def __len__(self) -> int:
        return self.size

    def options(self) -> str:
        return "mine"


@pytest.mark.contract("F2.01", "F2.03")
def test_an_abstract_base_and_what_its_subclass_inherits() -> None:
    square = ray.remote(Square).remote(3, unit="cm")
    assert ray.get(square.area.remote()) == 9
    assert ray.get(square.described.remote("is ", loud=True)) == "IS 9 CM"
    assert ray.get(square.doubled.remote(5)) == 30
    assert ray.get([square.corners.remote(), square.named.remote()]) == [4, "Square"]
    with pytest.raises(TypeError, match="too many"):
        square.described.remote("is ", True)


@pytest.mark.contract("F2.01")
def test_an_abstract_class_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"abstract class Shape.*area"):
        ray.remote(Shape)


@pytest.mark.contract("F2.01")
def test_static_and_class_methods_need_no_actor() -> None:
    remote = ray.remote(Square)
    assert (remote.corners(), remote.named(), remote.sides) == (4, "Square", 4)
    with pytest.raises((AttributeError, TypeError)):
        remote.area()


@pytest.mark.contract("F2.03")
def test_special_methods_are_called_by_name_and_a_method_may_be_called_options() -> None:
    square = ray.remote(Square).remote(3)
    assert ray.get([square.__call__.remote(5), square.__len__.remote()]) == [15, 3]
    assert ray.get(square.options.remote()) == "mine"
    with pytest.raises(TypeError):
        len(square)


@pytest.mark.contract("F2.01")
def test_dataclasses_generics_and_slots() -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2

        def total(self) -> int:
            return self.x + self.y

    class Box(Generic[T]):
        __slots__ = ("item",)

        def __init__(self, item: T) -> None:
            self.item = item

        def get(self) -> T:
            return self.item

    assert ray.get(ray.remote(Point).remote(1).total.remote()) == 3
    assert ray.get(ray.remote(Box).remote("x").get.remote()) == "x"
    with pytest.raises(TypeError, match="too many"):
        ray.remote(Point).remote(1, 2, 3)


@pytest.mark.contract("F2.12", "F2.01")
def test_a_constructor_may_be_a_coroutine() -> None:
    @ray.remote
    class Slow:
        async def __init__(self, ref: Any) -> None:
            self.value = await ref[0]

        def get(self) -> int:
            return int(self.value)

    assert ray.get(Slow.remote([ray.put(5)]).get.remote()) == 5


@dataclasses.dataclass
class Carries:
    handle: Any
    label: str


@pytest.mark.contract("F2.24")
def test_handles_in_closures_containers_dataclasses_and_files(tmp_path: Path) -> None:
    counter = Counter.remote()

    @ray.remote
    def closes() -> int:
        return int(ray.get(counter.incr.remote()))

    @ray.remote
    def carried(box: Any) -> int:
        return int(ray.get(box["deep"][0].handle.incr.remote()))

    @ray.remote
    def from_file(path: str) -> int:
        return int(ray.get(pickle.loads(Path(path).read_bytes()).incr.remote()))

    assert ray.get(closes.remote()) == 1
    assert ray.get(carried.remote({"deep": [Carries(counter, "x")]})) == 2
    path = tmp_path / "handle"
    path.write_bytes(ray.cloudpickle.dumps(counter))
    assert ray.get(from_file.remote(str(path))) == 3


@pytest.mark.contract("F2.24", "F2.15")
def test_a_method_travels_with_its_handle_and_its_options() -> None:
    @ray.remote
    class Pairs:
        def pair(self) -> tuple[int, int]:
            return 1, 2

    @ray.remote
    def call(method: Any, *args: Any) -> Any:
        return ray.get(method.remote(*args))

    counter = Counter.remote()
    assert ray.get(call.remote(counter.incr, 5)) == 5
    assert ray.get(call.remote(Pairs.remote().pair.options(num_returns=2))) == [1, 2]


@pytest.mark.contract("F2.24", "F2.06")
def test_handles_in_the_state_of_other_actors_and_in_circles() -> None:
    @ray.remote
    class Node:
        def __init__(self, other: Any = None) -> None:
            self.other = other

        def join(self, other: Any) -> None:
            self.other = other

        def name(self) -> str:
            return str(ray.get_runtime_context().get_actor_id())

        def others_name(self) -> str:
            return str(ray.get(self.other.name.remote()))

    first = Node.remote()
    second = Node.remote(first)
    ray.get(first.join.remote(second))
    names = [first._actor_id.hex(), second._actor_id.hex()]
    # One after the other: each is busy while it asks.
    assert [ray.get(node.others_name.remote()) for node in (second, first)] == names


@pytest.mark.contract("F2.03")
@pytest.mark.parametrize("kind", ["plain", "threaded", "async", "groups"])
def test_an_attribute_that_has_a_methods_name_changes_no_call(kind: str) -> None:
    class Base:
        def inherited(self) -> str:
            return f"inherited {self.n}"

    class Plain(Base):
        def __init__(self) -> None:
            self.n, self.total, self.inherited = 1, 7, 8  # type: ignore[method-assign,assignment]
            self.other = lambda: "instance"  # type: ignore[method-assign,assignment]
            self.alias = self.other  # type: ignore[method-assign]

        def total(self, more: int = 0) -> str:
            return f"total {self.n + more}"

        def other(self) -> str:
            return "class"

        def alias(self) -> str:
            return "alias"

        @staticmethod
        def static(x: int) -> int:
            return x

        @classmethod
        def of_class(cls, x: int) -> tuple[str, int]:
            return cls.__name__, x

        partial = functools.partialmethod(total, 2)

        def __call__(self, x: int) -> int:
            return self.n + x

        def change(self) -> None:
            """What is put on the class later counts."""
            type(self).other = lambda self: "changed"  # type: ignore[method-assign,assignment]

    class Async(Plain):
        async def total(self, more: int = 0) -> str:  # type: ignore[override]
            return f"total {self.n + more}"

    options: dict[str, Any] = {"threaded": {"max_concurrency": 2}}.get(kind, {})
    if kind == "groups":
        options["concurrency_groups"] = {"io": 1}
    actor = ray.remote(num_cpus=0, **options)(Async if kind == "async" else Plain).remote()
    for _ in range(2):
        assert ray.get(actor.total.remote()) == "total 1"
        assert ray.get(actor.total.remote(more=1)) == "total 2"
        assert ray.get(actor.inherited.remote()) == "inherited 1"
        assert ray.get([actor.other.remote(), actor.alias.remote()]) == ["class", "alias"]
        assert ray.get(actor.static.remote(3)) == 3
        assert ray.get(actor.of_class.remote(4)) == (
            (Async if kind == "async" else Plain).__name__,
            4,
        )
        assert ray.get(actor.partial.remote()) == "total 3"
        assert ray.get(actor.__call__.remote(5)) == 6
    ray.get(actor.change.remote())
    assert ray.get(actor.other.remote()) == "changed"


class Plain:
    """Of the user's."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    @ray.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return self.count, self.count + 1

    def up(self) -> int:
        self.count += 1
        return self.count


@pytest.mark.contract("F2.01")
def test_an_actor_class_is_of_a_type_of_its_own() -> None:
    one, other = ray.remote(Plain), ray.remote(num_cpus=2)(Plain)
    assert type(one).__name__ == "ActorClass(Plain)"
    assert isinstance(one, ray.actor.ActorClass)
    assert type(other) is not type(ray.remote(type("Else", (), {})))
    again = pickle.loads(ray.cloudpickle.dumps(other))
    assert type(again).__name__ == "ActorClass(Plain)"
    assert again.__ray_metadata__.num_cpus == 2


@pytest.mark.contract("F2.01")
def test_the_metadata_of_an_actor_class() -> None:
    options = {"num_cpus": 2, "max_restarts": 3, "max_task_retries": 1, "resources": {"x": 1.0}}
    known = ray.remote(**options)(Plain).__ray_metadata__
    assert known.class_name == "Plain"
    assert {name: getattr(known, name) for name in options} == options
    assert (known.num_gpus, known.memory, known.is_cross_language) == (None, None, False)
    assert {"pair", "up"} <= set(known.method_meta.methods)
    assert known.method_meta.num_returns["pair"] == 2
    # The plain class, for tests without a cluster and for subclasses.
    made = known.modified_class(4)
    assert made.up() == 5
    assert isinstance(made, Plain)
    assert known.modified_class.__mro__[1] is Plain
    assert known.modified_class.__name__ == "Plain"
    assert ray.remote(Plain).__ray_metadata__.max_restarts == 0


@pytest.mark.contract("F2.01", "F2.02")
def test_a_subclass_of_the_plain_class_is_an_actor(ray_start: Any) -> None:
    base = ray.remote(Plain).__ray_metadata__.modified_class

    @ray.remote
    class Child(base):  # type: ignore[misc, valid-type] # found at run time
        def twice(self) -> int:
            return 2 * self.up()

    child = Child.remote(1)
    assert ray.get(child.twice.remote()) == 4
    assert ray.get(child.pair.remote()) == [2, 3]


@pytest.mark.contract("F2.01")
def test_a_completion_offers_methods_and_no_more_than_that() -> None:
    shown = {name for name in dir(ray.remote(Plain)) if not name.startswith("_")}
    assert shown == {"remote", "options", "bind", "pair", "up"}


@pytest.mark.contract("F2.01")
def test_a_completion_offers_what_every_actor_has() -> None:
    assert {"__ray_ready__", "__ray_call__", "__ray_terminate__"} <= set(dir(ray.remote(Plain)))


@pytest.mark.contract("F1.01", "F2.01")
def test_the_older_way_to_give_options(ray_start: Any) -> None:
    actor = ray.remote(Plain)._remote(args=[7], num_cpus=0)
    assert ray.get(actor.up.remote()) == 8
    add = ray.remote(lambda x, y=0: x + y)
    assert ray.get(add._remote(args=(1,), kwargs={"y": 2}, num_cpus=0)) == 3
    assert ray.get(ray.remote(lambda: 5)._remote()) == 5
