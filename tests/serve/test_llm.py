"""Language models behind OpenAI's routes, with a small model that is made here: without a network."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import struct
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import small_models
from tests.helpers.harness import IS_HELIOSTAT
from tests.helpers.serving import Client

transformers = pytest.importorskip("transformers", reason="the extra `transformers` brings it")
pytest.importorskip("tokenizers", reason="transformers brings it")
if not IS_HELIOSTAT:
    pytest.skip("Ray's needs vLLM or SGLang", allow_module_level=True)

from heliostat.serve.specs import ReplicaPlace  # noqa: E402
from heliostat.util.engines.engine import Sampling, Stops  # noqa: E402
from heliostat.util.engines.transformers_engine import TransformersEngine  # noqa: E402
from ray import serve  # noqa: E402
from ray.serve.config import DeploymentID  # noqa: E402
from ray.serve.llm import (  # noqa: E402
    LLMConfig,
    OpenAiIngress,
    build_dp_deployment,
    build_dp_openai_app,
    build_llm_deployment,
    build_openai_app,
)
from ray.serve.llm.openai_api_models import (  # noqa: E402
    ChatCompletionRequest,
    CompletionRequest,
)
from ray.serve.llm.request_router import PrefixCacheAffinityRouter  # noqa: E402
from ray.serve.request_router import PendingRequest, RequestMetadata, RunningReplica  # noqa: E402

CLUSTER = {"num_cpus": 8}
S = 60
pytestmark = pytest.mark.contract("F12.10")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small GPT-2."""
    return small_models.make(tmp_path_factory.mktemp("model"))


def config(model: str, name: str = "tiny", **options: Any) -> LLMConfig:
    return LLMConfig(
        model_loading_config={"model_id": name, "model_source": model},
        llm_engine="transformers",
        deployment_config={"ray_actor_options": {"num_cpus": 1}, **options},
    )


@pytest.fixture
def api(web: Client, model: str) -> Iterator[Client]:
    serve.run(build_openai_app({"llm_configs": [config(model)]}))
    return web


def ask(web: Client, path: str, **body: Any) -> Any:
    answer = web.ask("POST", path, json.dumps(body), {"content-type": "application/json"})
    return answer.status, answer.json()


def stream(web: Client, path: str, **body: Any) -> list[Any]:
    link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=S)
    link.request(
        "POST", path, json.dumps({**body, "stream": True}), {"content-type": "application/json"}
    )
    answer = link.getresponse()
    assert (answer.status, answer.headers.get_content_type()) == (200, "text/event-stream")
    events = answer.read().decode().split("\n\n")
    link.close()
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def test_the_routes_of_openai_answer(api: Client) -> None:
    listed = api.get("/v1/models").json()
    assert [one["id"] for one in listed["data"]] == ["tiny"]
    assert api.get("/v1/models/tiny").json()["object"] == "model"
    assert api.get("/v1/models/none").status == 404

    usual = {"model": "tiny", "temperature": 0, "max_tokens": 12}
    status, said = ask(api, "/v1/completions", prompt="hello", **usual)
    assert (status, said["object"]) == (200, "text_completion")
    assert said["usage"] == {"prompt_tokens": 5, "completion_tokens": 12, "total_tokens": 17}
    [choice] = said["choices"]
    assert choice["finish_reason"] == "length"
    # There is but one model to mean.
    assert ask(api, "/v1/completions", prompt="hello", **{**usual, "model": None})[1][
        "choices"
    ] == [choice]
    several = ask(api, "/v1/completions", prompt=["hello", "x"], **usual)[1]
    assert [one["index"] for one in several["choices"]] == [0, 1]
    assert several["choices"][0]["text"] == choice["text"]
    pieces = stream(api, "/v1/completions", prompt="hello", **usual)
    assert "".join(one["choices"][0]["text"] for one in pieces) == choice["text"]
    assert pieces[-1]["choices"][0]["finish_reason"] == "length"

    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    status, said = ask(api, "/v1/chat/completions", messages=messages, **usual)
    assert (status, said["object"]) == (200, "chat.completion")
    message = said["choices"][0]["message"]
    assert message["role"] == "assistant"
    pieces = stream(
        api,
        "/v1/chat/completions",
        messages=messages,
        stream_options={"include_usage": True},
        **usual,
    )
    deltas = [one["choices"][0]["delta"] for one in pieces if one["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(one["content"] for one in deltas) == message["content"]
    assert pieces[-1]["usage"] == said["usage"]

    status, said = ask(api, "/v1/embeddings", model="tiny", input=["a", "b"])
    assert (status, said["usage"]["prompt_tokens"]) == (200, 2)
    first, second = (row["embedding"] for row in said["data"])
    assert len(first) == 32
    assert first != second
    coded = ask(api, "/v1/embeddings", model="tiny", input="a", encoding_format="base64")[1]
    packed = base64.b64decode(coded["data"][0]["embedding"])
    assert struct.unpack("<32f", packed) == pytest.approx(first, rel=1e-5)


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("completions", {"model": "none", "prompt": "x"}, 404, "there are: tiny."),
    ("completions", {"model": "tiny", "prompt": "x" * 200}, 400, "200 tokens"),
    ("completions", {"model": "tiny", "prompt": "x", "n": 3}, 400, "`n` has no effect"),
    ("completions", {"model": "tiny", "prompt": "x", "top_p": 2}, 400, "top_p"),
    ("chat/completions", {"model": "tiny", "messages": []}, 400, "messages"),
    (
        "chat/completions",
        {"model": "tiny", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "text alone",
    ),
    ("embeddings", {"model": "tiny", "input": "a", "dimensions": 3}, 400, "dimensions"),
]


def test_what_is_asked_wrongly_is_said(api: Client) -> None:
    for path, body, status, words in WRONG:
        found, said = ask(api, f"/v1/{path}", **body)
        assert (found, said["error"]["code"]) == (status, status), (path, body, said)
        assert words in said["error"]["message"]


def test_a_handle_gets_pieces_or_the_answer(web: Client, model: str) -> None:
    handle = serve.run(build_llm_deployment(config(model)), route_prefix=None)
    request = CompletionRequest(prompt="hello", max_tokens=5, seed=1)
    calls = handle.options(stream=True)
    [whole] = list(calls.completions.remote(request))
    pieces = list(calls.completions.remote(request.model_copy(update={"stream": True})))
    assert "".join(one.choices[0].text for one in pieces) == whole.choices[0].text
    chat = ChatCompletionRequest(messages=[{"role": "user", "content": "x"}], max_tokens=3)
    assert next(calls.chat.remote(chat)).usage.completion_tokens == 3


async def read(engine: Any, prompt: str, sampling: Sampling) -> tuple[str, Any]:
    text, last = "", None
    async for last in engine.generate(prompt, sampling):
        text += last.text
    return text, last


def test_an_answer_ends_at_a_stop_and_its_reader_may_go(model: str) -> None:
    async def steps() -> None:
        engine = TransformersEngine(config(model).model)
        whole, last = await read(engine, "hello", Sampling(20, 0))
        assert (last.tokens, last.finish_reason) == (20, "length")
        stop = whole[4:6]
        text, last = await read(engine, "hello", Sampling(20, 0, stops=(stop,)))
        assert (text, last.finish_reason) == (whole[: whole.index(stop)], "stop")
        # Drawn by the same seed the same, by another one another; of one token it is the most likely.
        drawn = [(await read(engine, "hello", Sampling(20, 1, seed=one)))[0] for one in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        assert (await read(engine, "hello", Sampling(20, 1, top_k=1)))[0] == whole
        assert (await read(engine, "hello", Sampling(20, 1, top_p=1e-9)))[0] == whole
        # Who goes leaves the engine to the next; the context is not exceeded.
        async for _ in engine.generate("hello", Sampling(temperature=0)):
            break
        _, last = await read(engine, "x" * 120, Sampling(temperature=0))
        assert last.tokens <= 8

    asyncio.run(asyncio.wait_for(steps(), S))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_stop_is_found_in_whatever_pieces_it_comes(size: int) -> None:
    def shown(text: str, *stops: str) -> str:
        found, told = Stops(stops), ""
        for at in range(0, len(text), size):
            told += found.take(text[at : at + size])
            if found.was_met:
                return told
        return told + found.take("", is_last=True)

    assert shown("one two three", " t") == "one"
    assert shown("aab", "ab") == "a"
    assert shown("abcabd", "abd", "x") == "abc"
    assert shown("ab", "abc") == "ab"


class FakeEngine:
    """As vLLM's: outputs have the text so far."""

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments

    from_engine_args = classmethod(lambda cls, arguments: cls(arguments))

    async def check_health(self) -> None:
        pass

    async def generate(self, prompt: str, parameters: Any, name: str) -> Any:
        assert name
        for number in range(1, parameters.max_tokens + 1):
            is_last = number == parameters.max_tokens
            made = types.SimpleNamespace(
                text="ab" * number,
                token_ids=[0] * number,
                finish_reason="length" if is_last else None,
            )
            yield types.SimpleNamespace(outputs=[made], prompt_token_ids=[*prompt])


def test_vllm_is_asked_where_it_is_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = config(model).model_copy(
        update={"llm_engine": "vLLM", "engine_kwargs": {"max_model_len": 9}}
    )
    from heliostat.util.engines.loading import load

    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match="pip install vllm"):
        load(named.model)
    fake: Any = types.ModuleType("vllm")
    fake.AsyncLLMEngine = FakeEngine
    fake.AsyncEngineArgs = fake.SamplingParams = types.SimpleNamespace
    monkeypatch.setitem(sys.modules, "vllm", fake)
    made: Any = load(named.model)
    assert vars(made._engine.arguments) == {"model": model, "max_model_len": 9}
    text, last = asyncio.run(read(made, "hi", Sampling(3)))
    assert (text, last.prompt_tokens, last.tokens, last.finish_reason) == ("ababab", 2, 3, "length")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "at least one model"),
        ([{"model_loading_config": {"model_id": "a"}}] * 2, "of its own"),
        ([{"model_loading_config": {"model_id": "a"}, "llm_engine": "x"}], "llm_engine"),
        ([{"model_loading_config": {"model_id": "a"}, "lora_config": {}}], "merged"),
        (["nothing.yaml"], "no file 'nothing.yaml'"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build_openai_app({"llm_configs": given})


def test_a_model_may_be_described_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("model_loading_config: {model_id: a/b}\ndeployment_config: {num_replicas: 2}\n")
    app: Any = build_openai_app({"llm_configs": [str(file)]})
    [server] = app._deployment._args[0].values()
    assert (server._deployment.name, server._deployment.num_replicas) == ("LLMServer:a--b", 2)


class Greeting(OpenAiIngress):  # type: ignore[misc] # without types on Ray
    """Routes of one's own class."""

    def __init__(self, models: Any, greeting: str) -> None:
        super().__init__(models)
        self.greeting = greeting


def test_one_model_has_as_many_replicas_as_its_engine_is_to_have_parts() -> None:
    named = {"model_loading_config": {"model_id": "a"}, "engine_kwargs": {"data_parallel_size": 3}}
    own = {"ingress_cls": Greeting, "ingress_extra_kwargs": {"greeting": "hello"}}
    app: Any = build_dp_openai_app({"llm_config": named, "ingress_cls_config": own})
    routes = app._deployment
    assert routes.func_or_class.__name__ == "Greeting"
    assert routes._kwargs == {"greeting": "hello"}
    [server] = routes._args[0].values()
    assert server._deployment.num_replicas == 3
    [model] = server._deployment._args
    assert model.engine_kwargs == {}
    scaled = LLMConfig.model_validate({**named, "deployment_config": {"autoscaling_config": {}}})
    with pytest.raises(ValueError, match=r"leave .*autoscaling_config.* out"):
        build_dp_deployment(scaled)
    with pytest.raises(ValueError, match="positive integer, not 0"):
        build_dp_deployment(scaled.model_copy(update={"engine_kwargs": {"data_parallel_size": 0}}))
    with pytest.raises(ValueError, match="`llm_config` is missing"):
        build_dp_openai_app({})


def test_a_prompt_goes_where_its_beginning_was_read() -> None:
    key = DeploymentID("app", "d")
    router = PrefixCacheAffinityRouter(key)
    router.initialize_state(
        imbalanced_threshold=1, eviction_threshold_chars=800, eviction_target_chars=400
    )

    def places(*names: str) -> list[RunningReplica]:
        made = [ReplicaPlace(name, None, "node", "host") for name in names]
        return [RunningReplica(place, key, 8) for place in made]

    a, b, c = replicas = places("a", "b", "c")
    router.update_replicas(replicas)

    def request(text: str) -> PendingRequest:
        body = ChatCompletionRequest(messages=[{"role": "user", "content": text}])
        return PendingRequest([body], {}, RequestMetadata("1"))

    def first(text: str) -> list[RunningReplica]:
        ranks = asyncio.run(router.choose_replicas(replicas, request(text)))
        assert ranks[-1] is replicas
        return ranks[0]

    story = "Once upon a time there was a router. "
    assert first(story) == replicas, "nobody has read anything"
    router.on_request_routed(request(story), b.replica_id, None)
    assert first(story + "It chose.") == [b]
    assert first("Something else entirely, from the first word") == [a, c], "who has read least"
    router.on_request_routed(request(story + "It chose well, for once."), a.replica_id, None)
    assert first(story + "It chose well, for sure.") == [a], "the longer part"
    assert first(story) == [a, b]
    # Less than a tenth of it is known.
    assert first(story[:16] + "x" * 400) == [c]
    router._ongoing[a.replica_id] = 2
    assert asyncio.run(router.choose_replicas(replicas, request(story))) == [replicas]
    router._ongoing.clear()
    # Of much text the old is forgotten.
    router.on_request_routed(request("y" * 900), b.replica_id, None)
    assert first(story) == [a]
    router.update_replicas([b, c])
    assert asyncio.run(router.choose_replicas([b, c], None)) == [[b, c]]
    assert asyncio.run(
        router.choose_replicas([b, c], PendingRequest([1], {}, RequestMetadata("2")))
    ) == [[b, c]]
    for wrong in ({"match_rate_threshold": 2}, {"eviction_target_chars": 500_000}):
        with pytest.raises(ValueError, match=r"not 2|is from 1 to"):
            router.initialize_state(**wrong)
