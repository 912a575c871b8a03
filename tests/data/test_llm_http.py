"""Batch inference by a local server of HTTP and by a deployment; configurations that make no sense."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import ray

from tests.helpers.harness import IS_HELIOSTAT

pytest.importorskip("aiohttp", reason="the extra `llm` brings it")
pytest.importorskip("pydantic", reason="the extra `llm` brings it")
if not IS_HELIOSTAT:
    pytest.skip("Ray's needs vLLM or SGLang", allow_module_level=True)

from ray.data.llm import (
    HttpRequestProcessorConfig,
    HttpRequestStageConfig,
    ServeDeploymentProcessorConfig,
    SGLangEngineProcessorConfig,
    TransformersEngineProcessorConfig,
    build_processor,
    vLLMEngineProcessorConfig,
)

CLUSTER = {"num_cpus": 4}
pytestmark = pytest.mark.contract("F10.31")


def test_gpus_of_a_model() -> None:
    def of(kind: Any, **options: Any) -> Any:
        return kind(model_source="m", **options).gpus

    assert of(vLLMEngineProcessorConfig) == 1
    sizes = {"tensor_parallel_size": 2, "pipeline_parallel_size": 3}
    assert of(vLLMEngineProcessorConfig, engine_kwargs=sizes) == 6
    each = {"bundle_per_worker": {"GPU": 0.5}}
    assert of(vLLMEngineProcessorConfig, engine_kwargs=sizes, placement_group_config=each) == 3
    assert of(SGLangEngineProcessorConfig, engine_kwargs={"tp_size": 4}) == 4
    assert of(TransformersEngineProcessorConfig) == 0
    assert of(TransformersEngineProcessorConfig, accelerator_type="L4") == 1


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (vLLMEngineProcessorConfig, {"task_type": "sing"}, "Invalid task type: sing"),
        (SGLangEngineProcessorConfig, {"task_type": "embed"}, "'generate' only"),
        (TransformersEngineProcessorConfig, {"task_type": "score"}, "'generate' and 'embed'"),
        (vLLMEngineProcessorConfig, {"concurrency": 0}, "concurrency is 0"),
        (vLLMEngineProcessorConfig, {"concurrency": (3, 2)}, r"concurrency is \(3, 2\)"),
        (vLLMEngineProcessorConfig, {"dynamic_lora_loading_path": "x"}, "merged"),
        (vLLMEngineProcessorConfig, {"batchsize": 1}, "batchsize"),
        (vLLMEngineProcessorConfig, {"batch_size": 0}, "batch_size"),
    ],
)
def test_configurations_that_make_no_sense(kind: Any, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(model_source="m", **options)


def test_processors_that_make_no_sense() -> None:
    config = vLLMEngineProcessorConfig(model_source="m", prepare_multimodal_stage=True)
    with pytest.raises(ValueError, match="pictures and sounds"):
        build_processor(config)
    config = HttpRequestProcessorConfig(url="http://h", http_request_stage=False)
    with pytest.raises(ValueError, match="cannot be disabled"):
        build_processor(config)
    with pytest.raises(TypeError, match="has to be one of"):
        build_processor({"url": "http://h"})
    config = HttpRequestProcessorConfig(url="http://h", http_request_stage=HttpRequestStageConfig())
    with pytest.raises(ValueError, match="builder_kwargs cannot contain"):
        build_processor(config, builder_kwargs={"preprocess": len})
    seen: list[str] = []
    processor = build_processor(
        config, builder_kwargs={"override_stage_config_fn": lambda name, step: seen.append(name)}
    )
    assert seen == processor.list_stage_names() == ["HttpRequestStage"]


# --- services over HTTP ----------------------------------------------------------------------------


class Service:
    """What a server answers with, and what it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.statuses: list[int] = []  # of the first requests; then all is well
        self.text: str | None = None  # answered in the place of JSON
        self.seen: list[tuple[float, dict[str, str], bytes]] = []
        self.lock = threading.Lock()
        self.under_way = self.most = 0
        self.takes_s = 0.0

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        with self.lock:
            self.seen.append((time.monotonic(), headers, body))
            status = self.statuses.pop(0) if self.statuses else 200
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self.takes_s)
        with self.lock:
            self.under_way -= 1
        if self.text is not None:
            return status, self.text.encode()
        if status != 200:
            return status, b'{"error": "no"}'
        form = "json" not in headers.get("Content-Type", "")
        said = None if form else json.loads(body)
        return 200, json.dumps({"said": said, "form": form}).encode()


@pytest.fixture
def web_service() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = service.answer(dict(self.headers), body)
            if status == 0:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield service
    server.shutdown()
    server.server_close()
    thread.join()


def asking(service: Service, **options: Any) -> Any:
    config = HttpRequestProcessorConfig(url=service.url, base_retry_wait_time_in_s=0.01, **options)

    def before(row: dict[str, Any]) -> dict[str, Any]:
        return {"payload": {"n": row["id"], **({"odd": True} if row["id"] % 2 else {})}}

    return build_processor(
        config, before, lambda row: {"id": row["id"], "said": row["http_response"]}
    )


def test_each_row_is_a_request(rd: Any, web_service: Service) -> None:
    processor = asking(web_service, headers={"Authorization": "Bearer x"}, batch_size=16)
    numbers = rd.range(10, override_num_blocks=1)
    rows = sorted(processor(numbers).take_all(), key=lambda row: row["id"])
    assert [row["said"]["said"]["n"] for row in rows] == list(range(10))
    # A key that a payload does not have is not sent.
    sent = [json.loads(body) for _, _, body in web_service.seen]
    assert {frozenset(one) for one in sent if one["n"] % 2 == 0} == {frozenset({"n"})}
    assert {headers["Authorization"] for _, headers, _ in web_service.seen} == {"Bearer x"}
    assert web_service.most <= 1  # of one batch they go one after the other; batches do not wait


def test_requests_are_so_many_a_second_of_all_workers(rd: Any, web_service: Service) -> None:
    web_service.takes_s = 0.5
    rows = asking(web_service, qps=20, concurrency=2)(
        rd.range(12, override_num_blocks=4)
    ).take_all()
    assert len(rows) == 12
    assert web_service.most > 2  # they do not wait for each other
    whens = sorted(when for when, _, _ in web_service.seen)
    # 20 a second and no more: two workers with a tenth of a second between requests of each.
    assert whens[-1] - whens[0] >= 0.1 * (12 / 2 - 1) * 0.5


@pytest.mark.parametrize("statuses", [[503, 429], [0, 0]])
def test_a_request_that_is_refused_for_now_is_sent_again(
    rd: Any, web_service: Service, statuses: list[int]
) -> None:
    web_service.statuses = list(statuses)
    assert len(asking(web_service, max_retries=2)(rd.range(3)).take_all()) == 3
    assert len(web_service.seen) == 5
    web_service.statuses = [*statuses, statuses[0]]
    with pytest.raises(ray.exceptions.RayTaskError, match="Reached maximum retries of 1"):
        asking(web_service, max_retries=1)(rd.range(1)).take_all()


def test_answers_that_are_no_answers(rd: Any, web_service: Service) -> None:
    web_service.statuses = [400]
    (row,) = asking(web_service)(rd.range(1)).take_all()
    assert row["said"] == {"error": "no"}
    web_service.text = "<html>"
    with pytest.raises(
        ray.exceptions.RayTaskError, match="answered 200 with text that is not JSON"
    ):
        asking(web_service)(rd.range(1)).take_all()
    web_service.url = "http://127.0.0.1:9"
    with pytest.raises(ray.exceptions.RayTaskError, match="ClientConnectorError"):
        asking(web_service)(rd.range(1)).take_all()


def test_a_session_of_the_program_has_its_own_timeout(rd: Any, web_service: Service) -> None:
    def session() -> Any:
        import aiohttp

        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2))

    web_service.takes_s = 2
    with pytest.raises(ray.exceptions.RayTaskError, match="TimeoutError"):
        asking(web_service, session_factory=session)(rd.range(1)).take_all()


def test_files_are_sent_as_a_form(rd: Any, web_service: Service) -> None:
    config = HttpRequestProcessorConfig(url=web_service.url, headers={"content-type": "x"})

    def before(row: dict[str, Any]) -> dict[str, Any]:
        file = {"content": b"RIFF", "filename": "a.wav", "content_type": "audio/wav"}
        return {"payload": {"file": file, "raw": b"\x00", "n": 3, "text": "t"}}

    (row,) = build_processor(config, before)(rd.range(1)).take_all()
    assert row["http_response"]["form"] is True
    (_, headers, body), *_ = web_service.seen
    assert headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert b'name="file"; filename="a.wav"' in body
    assert b"RIFF" in body


# --- deployments -----------------------------------------------------------------------------------


def test_rows_are_calls_of_a_deployment(rd: Any) -> None:
    pytest.importorskip("pydantic", reason="Serve needs it")
    from pydantic import BaseModel
    from ray import serve

    class Ask(BaseModel):
        n: int

    @serve.deployment
    class Model:
        async def double(self, ask: Any) -> Any:
            n = ask["n"] if isinstance(ask, dict) else ask.n
            if n == 2:
                raise ValueError("not two")
            yield {"twice": n * 2, "kind": type(ask).__name__}

    serve.run(Model.bind(), name="app", route_prefix=None)
    try:
        given = {"deployment_name": "Model", "app_name": "app", "dtype_mapping": {"Ask": Ask}}

        def run(dtype: str | None, count: int = 3, **options: Any) -> list[Any]:
            config = ServeDeploymentProcessorConfig(**given, **options)

            def before(row: dict[str, Any]) -> dict[str, Any]:
                call = {"method": "double", "request_kwargs": {"n": row["id"]}}
                return {**call, **({"dtype": dtype} if dtype else {})}

            rows = build_processor(config, before)(rd.range(count)).take_all()
            return sorted(rows, key=lambda row: row["id"])

        assert [(r["twice"], r["kind"]) for r in run("Ask", 2)] == [(0, "Ask"), (2, "Ask")]
        assert run(None, 1)[0]["kind"] == "dict"
        rows = run("Ask", should_continue_on_error=True)
        assert [bool(row["__inference_error__"]) for row in rows] == [False, False, True]
        assert "not two" in rows[2]["__inference_error__"]
        with pytest.raises(ray.exceptions.RayTaskError, match="not two"):
            run("Ask")
        with pytest.raises(ray.exceptions.RayTaskError, match="dtype_mapping; there are"):
            run("Other", 1)
    finally:
        serve.shutdown()
