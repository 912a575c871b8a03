"""Models whose prompts other replicas read, of speech, in a cloud's storage; and routing by cost."""

from __future__ import annotations

import asyncio
import io
import math
import wave
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import small_models
from tests.helpers.harness import IS_HELIOSTAT

pytest.importorskip("transformers", reason="the extra `transformers` brings it")
pytest.importorskip("tokenizers", reason="transformers brings it")
if not IS_HELIOSTAT:
    pytest.skip("Ray's needs vLLM or SGLang", allow_module_level=True)

from heliostat import cloudpickle
from heliostat.serve.llm import ingress, mirror
from heliostat.serve.llm.prefill_decode import PDDecodeServer, PDPrefillServer
from heliostat.serve.specs import ReplicaPlace
from heliostat.util.engines import speech_engine
from heliostat.util.engines.engine import Model, Piece, Sampling
from heliostat.util.engines.transformers_engine import TransformersEngine
from ray.serve.config import DeploymentID
from ray.serve.llm import (
    CloudMirrorConfig,
    LLMConfig,
    LLMServer,
    build_pd_openai_app,
)
from ray.serve.llm.openai_api_models import CompletionRequest, TranscriptionRequest
from ray.serve.llm.request_router import KVAwareRouter
from ray.serve.request_router import PendingRequest, RequestMetadata, RunningReplica

pytestmark = pytest.mark.contract("F12.10")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small GPT-2."""
    return small_models.make(tmp_path_factory.mktemp("model"))


def config(source: Any, name: str = "tiny", **options: Any) -> LLMConfig:
    return LLMConfig(
        model_loading_config={"model_id": name, "model_source": source},
        llm_engine="transformers",
        **options,
    )


def recording(seconds: float, rate: int, width: int = 2, channels: int = 1) -> bytes:
    """A WAV file with a tone of 440 Hz, half as loud as can be."""
    tone = [0.5 * math.sin(2 * math.pi * 440 * at / rate) for at in range(int(seconds * rate))]
    most = 2 ** (8 * width - 1)
    rows = [int(one * (most - 1)) + (most if width == 1 else 0) for one in tone]
    raw = b"".join(one.to_bytes(width, "little", signed=width > 1) * channels for one in rows)
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw)
    return made.getvalue()


async def served(cls: Any, *args: Any) -> Any:
    """A server as a replica makes it."""
    made = cls.__new__(cls)
    await made.__init__(*args)
    return made


class Handle:
    """Calls another server as a handle does, and gives its errors as a call's."""

    def __init__(self, server: Any) -> None:
        self.prefill = self
        self.server = server
        self.prompts: list[str] = []

    async def remote(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        return cloudpickle.loads(cloudpickle.dumps(await self.server.prefill(prompt)))


def test_prompts_are_read_by_replicas_of_their_own(model: str) -> None:
    both = {"prefill_config": config(model), "decode_config": config(model)}
    routes: Any = build_pd_openai_app(both)
    [decode] = routes._deployment._args[0].values()
    prefill = decode._deployment._kwargs["prefill_server"]
    names = [one._deployment.name for one in (prefill, decode)]
    assert names == ["Prefill:tiny", "Decode:tiny"]

    async def all_of_it() -> None:
        readers = Handle(await served(PDPrefillServer, config(model)))
        apart = await served(PDDecodeServer, config(model), readers)
        whole = await served(LLMServer, config(model))
        for prompt in ("hello there", "x"):  # of one token nothing is read before
            body = CompletionRequest(prompt=prompt, max_tokens=12, temperature=0)
            [said] = [one async for one in apart.completions(body)]
            [wanted] = [one async for one in whole.completions(body)]
            assert said.choices == wanted.choices
            assert said.usage == wanted.usage
        assert readers.prompts == ["hello there", "x"]
        body = CompletionRequest(prompt="x" * 500)
        [wrong] = [one async for one in apart.completions(body)]
        assert wrong.error.message.startswith("The text has 500 tokens")
        form = TranscriptionRequest(file=recording(0.1, 8000))
        [wrong] = [one async for one in whole.transcriptions(form)]
        assert "reads no recordings" in wrong.error.message

    asyncio.run(all_of_it())


def test_what_was_read_is_of_the_same_model_and_text(model: str) -> None:
    engine = TransformersEngine(Model(model))

    async def go_on(prompt: str, read: Any) -> list[Piece]:
        sampling = Sampling(max_tokens=4, temperature=0)
        return [one async for one in engine.generate(prompt, sampling, read)]

    async def all_of_it() -> None:
        read = await engine.prefill("hello there")
        assert await go_on("hello there", read) == await go_on("hello there", None)
        for prompt, given in (("hello", read), ("hello there", read[:1])):
            with pytest.raises(ValueError, match="of another model or text"):
                await go_on(prompt, given)

    asyncio.run(all_of_it())


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        ({"name": "a"}, {"name": "b"}, "one `model_id`"),
        ({"engine": "vLLM"}, {}, "one `llm_engine`"),
        ({"engine": "vLLM"}, {"engine": "vLLM"}, "kv_transfer_config"),
    ],
)
def test_readers_and_writers_that_do_not_fit_are_refused(
    prefill: dict[str, str], decode: dict[str, str], words: str
) -> None:
    def made(name: str = "a", engine: str = "transformers") -> dict[str, Any]:
        return {"model_loading_config": {"model_id": name}, "llm_engine": engine}

    with pytest.raises(ValueError, match=words):
        build_pd_openai_app({"prefill_config": made(**prefill), "decode_config": made(**decode)})


def test_a_model_of_speech_writes_down_recordings(tmp_path: Path) -> None:
    async def all_of_it() -> None:
        server = await served(LLMServer, config(small_models.make_speech(tmp_path)))
        sound = recording(0.5, 44_100, channels=2)
        [said] = [one async for one in server.transcriptions(TranscriptionRequest(file=sound))]
        assert said.usage == {"type": "duration", "seconds": 0}
        asked = TranscriptionRequest(file=sound, stream=True)
        [piece] = [one async for one in server.transcriptions(asked)]
        assert piece.choices[0]["delta"]["content"] == said.text
        asked = TranscriptionRequest(file=b"no sound")
        [wrong] = [one async for one in server.transcriptions(asked)]
        assert "not a WAV file" in wrong.error.message
        [wrong] = [one async for one in server.completions(CompletionRequest(prompt="x"))]
        assert "writes down speech" in wrong.error.message

    asyncio.run(all_of_it())


def test_a_form_has_fields_and_files() -> None:
    part = "--edge\r\nContent-Disposition: form-data; name=%s\r\n\r\n"
    body = (part % '"model"').encode() + b"tiny\r\n"
    body += (part % '"file"; filename="a.wav"').encode() + b"\r\n\x00--\r\n--edge--\r\n"
    fields = ingress._fields("multipart/form-data; boundary=edge", body)
    assert fields == {"model": "tiny", "file": b"\r\n\x00--"}
    assert ingress._fields("application/json", body) == {}


@pytest.mark.parametrize(
    ("width", "channels", "rate"), [(1, 1, 8000), (2, 2, 16000), (3, 1, 44100), (4, 2, 48000)]
)
def test_a_recording_keeps_its_tone(width: int, channels: int, rate: int) -> None:
    read = speech_engine.read(recording(0.25, rate, width, channels), 16_000)
    assert len(read) == 4000
    assert max(abs(read[500:3500])) == pytest.approx(0.5, abs=0.03)
    crossings = sum(1 for a, b in zip(read, read[1:], strict=False) if a < 0 <= b)
    assert crossings == pytest.approx(110, abs=1)


def test_a_model_is_fetched_from_a_storage_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec: Any = pytest.importorskip("fsspec", reason="the extra `fsspec` brings it")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bucket = fsspec.filesystem("memory")
    bucket.pipe({"/models/a/config.json": b"{}", "/models/a/deep/part": b"1", "/extra/words": b"w"})
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda uri: (bucket, uri[len("s3:/") :]))
    wanted = CloudMirrorConfig(
        bucket_uri="s3://models/a",
        extra_files=[{"bucket_uri": "s3://extra/words", "destination_path": str(tmp_path / "w")}],
    )
    assert wanted.storage_type == "s3"
    source = Path(config(wanted).model.source)
    assert {one.name for one in source.iterdir()} == {"config.json", "deep"}
    assert (source / "deep" / "part").read_bytes() == b"1"
    assert (tmp_path / "w").read_bytes() == b"w"
    bucket.rm("/models", recursive=True)
    assert config(wanted).model.source == str(source)
    assert [one.name for one in source.parent.iterdir()] == [source.name], "nothing half is left"
    with pytest.raises(FileNotFoundError, match="nothing at s3://models/b"):
        mirror.copy("s3://models/b", tmp_path / "b")
    with pytest.raises(ValueError, match=r"begins with one of s3://.*unlike 'ftp://a'"):
        CloudMirrorConfig(bucket_uri="ftp://a")
    assert config(CloudMirrorConfig(), "by-name").model.source == "by-name"


def test_a_request_goes_where_it_costs_least() -> None:
    key = DeploymentID("app", "d")
    router = KVAwareRouter(key)
    router.initialize_state()
    places = [ReplicaPlace(name, None, "node", "host") for name in "ab"]
    a, b = replicas = [RunningReplica(place, key, 8) for place in places]
    router.update_replicas(replicas)

    def request(text: str, tokens: int) -> PendingRequest:
        body = CompletionRequest(prompt=text, max_tokens=tokens)
        return PendingRequest([body], {}, RequestMetadata(text))

    def first(text: str) -> list[RunningReplica]:
        ranks = asyncio.run(router.choose_replicas(replicas, request(text, 1)))
        assert ranks[-1] is replicas
        return ranks[0]

    story = "Once upon a time there was a router of requests. " * 2
    assert first(story) == replicas
    long = request(story, 10)
    router.on_request_routed(long, a.replica_id, None)
    assert first("Something else") == [b], "a is at work"
    assert first(story) == [b], "to wait for a costs more than to read it again"
    router.on_request_completed(a.replica_id, long.metadata.internal_request_id)
    assert first(story + "It chose.") == [a], "it has read that"
    assert first("Something else") == replicas
    router.update_replicas([b])
    assert asyncio.run(router.choose_replicas([b], None)) == [[b], [b]]
