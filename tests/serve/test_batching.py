"""``@serve.batch``: batches of generators, batches by a measure, batches of one model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ray import serve
from ray.serve.exceptions import RayServeException

from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 4}
S = 60


@pytest.mark.contract("F12.05")
def test_generators_are_run_together(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=100)
    class Counts:
        @serve.batch(max_batch_size=3, batch_wait_timeout_s=60)
        async def up_to(self, ends: list[int]) -> AsyncIterator[list[Any]]:
            for number in range(max(ends) + 1):
                yield [(number, len(ends)) if number < end else StopIteration for end in ends]

        async def __call__(self, end: int) -> AsyncIterator[Any]:
            async for item in self.up_to(end):
                yield item

    handle = serve.run(Counts.bind(), route_prefix=None).options(stream=True)
    calls = [handle.remote(end) for end in (2, 0, 3)]
    assert [list(call) for call in calls] == [
        [(number, 3) for number in range(end)] for end in (2, 0, 3)
    ]


@pytest.mark.contract("F12.05")
def test_a_generator_that_fails_has_given_what_it_gave(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=100)
    class Fails:
        @serve.batch(max_batch_size=2, batch_wait_timeout_s=60)
        async def raises(self, given: list[int]) -> AsyncIterator[list[Any]]:
            yield [given[0], StopAsyncIteration]
            raise ValueError("on purpose")

        @serve.batch(max_batch_size=2, batch_wait_timeout_s=60)
        async def short(self, given: list[int]) -> AsyncIterator[list[int]]:
            yield given
            yield given[1:]

        async def items(self, method: str, number: int) -> AsyncIterator[Any]:
            try:
                async for item in getattr(self, method)(number):
                    yield item
            except Exception as error:
                yield type(error).__name__

    handle = serve.run(Fails.bind(), route_prefix=None).items.options(stream=True)
    calls = [handle.remote("raises", number) for number in (1, 2)]
    assert [list(call) for call in calls] == [[1, "ValueError"], []]
    calls = [handle.remote("short", number) for number in (1, 2)]
    error = RayServeException.__name__
    assert [list(call) for call in calls] == [[1, error], [2, error]]


@pytest.mark.contract("F12.05")
def test_a_caller_that_leaves_a_generator_does_not_disturb_the_others(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=100)
    class Counts:
        @serve.batch(max_batch_size=2, batch_wait_timeout_s=60)
        async def numbers(self, ends: list[int]) -> AsyncIterator[list[int]]:
            for number in range(ends[0]):
                yield [number] * len(ends)
                await asyncio.sleep(0)

        async def __call__(self) -> list[int]:
            leaves, stays = self.numbers(5), self.numbers(5)
            assert await leaves.__anext__() == 0
            await leaves.aclose()
            return [number async for number in stays]

    handle = serve.run(Counts.bind(), route_prefix=None)
    assert handle.remote().result(timeout_s=S) == [0, 1, 2, 3, 4]


def words_of(letters: int, seconds: float) -> Any:
    """Joins words in batches of so many letters, and gives the name of an error in place of an answer."""

    @serve.deployment(max_ongoing_requests=100)
    class Words:
        @serve.batch(
            max_batch_size=letters,
            batch_wait_timeout_s=seconds,
            batch_size_fn=lambda ws: sum(map(len, ws)),
        )
        async def joined(self, words: list[Any]) -> list[str]:
            return ["+".join(words)] * len(words)

        async def __call__(self, words: list[Any]) -> list[str]:
            calls = [self.joined(word) for word in words]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            return [a if isinstance(a, str) else type(a).__name__ for a in answers]

    return Words.bind()


@pytest.mark.contract("F12.05")
def test_batches_are_as_large_as_their_measure_says(web: Client) -> None:
    handle = serve.run(words_of(6, 0.2), route_prefix=None)
    full = handle.remote(["aa", "bbb", "c", "dddddd"]).result(timeout_s=S)
    assert full == ["aa+bbb+c"] * 3 + ["dddddd"]
    # The third does not fit beside the two before it; the last would fit into no batch.
    more = handle.remote(["aaa", "bb", "cccc", "ddddddd"]).result(timeout_s=S)
    assert more == ["aaa+bb", "aaa+bb", "cccc", "RuntimeError"]
    with pytest.raises(TypeError, match="callable"):
        serve.batch(batch_size_fn=3)
    with pytest.raises(TypeError, match="max_concurrent_batches"):
        serve.batch(max_concurrent_batches=0)


@pytest.mark.contract("F12.05")
@pytest.mark.heliostat_only(
    "Ray's batching ends with an error of the measure, and calls wait forever"
)
def test_a_measure_that_raises_fails_its_call_alone(web: Client) -> None:
    handle = serve.run(words_of(2, 60), route_prefix=None)
    assert handle.remote(["a", 1, "b"]).result(timeout_s=S) == ["a+b", "TypeError", "a+b"]


@pytest.mark.contract("F12.05", "F12.08")
def test_calls_for_different_models_are_in_different_batches(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=100)
    class Models:
        @serve.batch(max_batch_size=4, batch_wait_timeout_s=60)
        async def run(self, numbers: list[int]) -> list[tuple[str, int]]:
            return [(serve.get_multiplexed_model_id(), number) for number in numbers]

        async def __call__(self, number: int) -> tuple[str, int]:
            return await self.run(number)

    handle = serve.run(Models.bind(), route_prefix=None)
    models = ["a", "b", "a", "b"]
    calls = [
        handle.options(multiplexed_model_id=model).remote(number)
        for number, model in enumerate(models)
    ]
    answers = [call.result(timeout_s=S) for call in calls]
    assert answers == [(model, number) for number, model in enumerate(models)]
