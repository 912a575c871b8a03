"""Batch inference by a small model that is made here, and by stand-ins for vLLM and SGLang."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from tests import clients
from tests.helpers import small_models
from tests.helpers.harness import IS_HELIOSTAT

pytest.importorskip("transformers", reason="the extra `llm` brings it")
if not IS_HELIOSTAT:
    pytest.skip("Ray's needs vLLM or SGLang", allow_module_level=True)

from ray.data.llm import (
    SGLangEngineProcessorConfig,
    TokenizerStageConfig,
    TransformersEngineProcessorConfig,
    build_processor,
    vLLMEngineProcessorConfig,
)

# Workers of four stages need PyTorch and transformers, which take seconds to load: they are forked with them.
CLUSTER = clients.cluster(_system_config={"preload_python_modules": small_models.LARGE})
pytestmark = [pytest.mark.contract("F10.31")]


@pytest.fixture
def rd(rd: Any) -> Any:
    """``ray.data``, once workers are forked with what the models need."""
    small_models.wait_until_loaded()
    return rd


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return small_models.make(tmp_path_factory.mktemp("model"), small_models.TEMPLATE)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    return small_models.make(tmp_path_factory.mktemp("bare"))


def chat(row: dict[str, Any]) -> dict[str, Any]:
    """Messages of several lengths, with parameters of which not all rows have all."""
    params: dict[str, Any] = {"max_tokens": 3 + row["id"] % 2, "temperature": 0}
    if row["id"] == 1:
        params["stop"] = ["\x00"]
    return {
        "messages": [{"role": "user", "content": "x" * (row["id"] + 1)}],
        "sampling_params": params,
    }


# --- transformers ----------------------------------------------------------------------------------


def test_rows_go_through_a_small_model(rd: Any, model: str) -> None:
    config = TransformersEngineProcessorConfig(model_source=model, batch_size=4)
    processor = build_processor(config, chat)
    assert processor.list_stage_names() == [
        "ChatTemplateStage",
        "TokenizeStage",
        "EngineStage",
        "DetokenizeStage",
    ]
    rows = sorted(processor(rd.range(6)).take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(6))
    assert [row["prompt"] for row in rows] == ["<user>" + "x" * (i + 1) for i in range(6)]
    assert [row["num_input_tokens"] for row in rows] == [7 + i for i in range(6)]
    assert all(0 < row["num_generated_tokens"] <= 3 + row["id"] % 2 for row in rows)
    assert all(len(row["generated_tokens"]) == row["num_generated_tokens"] for row in rows)

    # What goes on together goes on as each alone would.
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    alone = transformers.AutoModelForCausalLM.from_pretrained(model).eval()
    for row in rows:
        ids = torch.tensor([tokenizer.encode(row["prompt"])])
        made = alone.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=3 + row["id"] % 2,
            do_sample=False,
            pad_token_id=tokenizer.eos_token_id,
        )
        wanted = tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True)
        assert row["generated_text"] == wanted


def test_what_comes_before_and_after(rd: Any, bare: str) -> None:
    config = TransformersEngineProcessorConfig(
        model_source=bare,
        chat_template_stage=False,
        tokenize_stage=TokenizerStageConfig(batch_size=2),
        detokenize_stage={"enabled": False},
    )
    processor = build_processor(
        config,
        lambda row: {"prompt": "hello", "sampling_params": {"max_tokens": 2, "temperature": 0}},
        lambda row: {"n": row["num_generated_tokens"], "id": row["id"]},
        postprocess_map_kwargs={"num_cpus": 0.5},
    )
    assert processor.list_stage_names() == ["TokenizeStage", "EngineStage"]
    rows = processor(rd.range(5)).take_all()
    assert sorted(row["id"] for row in rows) == list(range(5))
    assert {frozenset(row) for row in rows} == {frozenset({"n", "id"})}
    with pytest.raises(ValueError, match="Stage Nothing not found"):
        processor.get_stage_by_name("Nothing")


def test_vectors(rd: Any, bare: str) -> None:
    config = TransformersEngineProcessorConfig(
        model_source=bare, task_type="embed", chat_template_stage=False
    )
    rows = build_processor(config)(rd.from_items([{"prompt": "a"}, {"prompt": "bc"}])).take_all()
    for row in rows:
        assert np.linalg.norm(row["embeddings"]) == pytest.approx(1, abs=1e-5)
        assert row["num_input_tokens"] == len(row["prompt"])


def test_rows_that_fail(rd: Any, bare: str) -> None:
    rows = [
        {"id": i, "prompt": "x" * (500 if i == 2 else 3), "sampling_params": {"max_tokens": 2}}
        for i in range(4)
    ]
    given = {"model_source": bare, "chat_template_stage": False, "concurrency": 1}
    config = TransformersEngineProcessorConfig(**given)
    with pytest.raises(ray.exceptions.RayTaskError, match="fills the model's context"):
        build_processor(config)(rd.from_items(rows)).take_all()
    config = TransformersEngineProcessorConfig(**given, should_continue_on_error=True)

    def after(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "n": row["num_generated_tokens"] + 1}

    found = build_processor(config, postprocess=after)(rd.from_items(rows)).take_all()
    found.sort(key=lambda row: row["id"])
    assert [bool(row["__inference_error__"]) for row in found] == [False, False, True, False]
    assert found[2]["__inference_error__"].startswith("ValueError: The prompt fills")
    assert found[2]["prompt"] == "x" * 500


def test_what_a_stage_needs(model: str, bare: str) -> None:
    def alone(row: dict[str, Any], source: str, name: str) -> Any:
        """A row on its way through a stage, in this process."""
        processor = build_processor(TransformersEngineProcessorConfig(model_source=source))
        step = processor.get_stage_by_name(name)
        packed = {"__data": [processor._before(row)["__data"]]}
        return asyncio.run(step.fn(**step.fn_constructor_kwargs)(packed))

    with pytest.raises(ValueError, match=r"ChatTemplateStage needs the columns \['messages'\]"):
        alone({"id": 1}, model, "ChatTemplateStage")
    with pytest.raises(ValueError, match=r"EngineStage needs the columns \['sampling_params'\]"):
        alone({"prompt": "x"}, model, "EngineStage")
    with pytest.raises(ValueError, match="has no template of chats"):
        alone({"messages": []}, bare, "ChatTemplateStage")


# --- engines that batch by themselves --------------------------------------------------------------


def test_rows_go_through_vllm(rd: Any, model: str) -> None:
    config = vLLMEngineProcessorConfig(
        model_source=model,
        engine_kwargs={"max_model_len": 11},
        should_continue_on_error=True,
        placement_group_config={"bundles": [{"CPU": 1}]},
        max_pending_requests=2,
        batch_size=8,
    )
    rows = sorted(build_processor(config, chat)(rd.range(6)).take_all(), key=lambda r: r["id"])
    assert [bool(row["__inference_error__"]) for row in rows] == [False] * 5 + [True]
    assert "12 tokens is too long" in rows[5]["__inference_error__"]
    assert rows[0]["generated_text"] == "x>r"
    assert rows[0]["num_generated_tokens"] == 3
    config = vLLMEngineProcessorConfig(
        model_source=model,
        task_type="score",
        chat_template_stage=False,
        placement_group_config={"bundle_per_worker": {"CPU": 1}},
    )
    (row,) = build_processor(config)(rd.from_items([{"prompt": "abc"}])).take_all()
    assert list(row["embeddings"]) == [3.0, 5.0]


def test_rows_go_through_sglang(rd: Any, model: str) -> None:
    config = SGLangEngineProcessorConfig(
        model_source=model,
        tokenize_stage=False,
        detokenize_stage=False,
        placement_group_config={"bundles": [{"CPU": 1}]},
    )
    processor = build_processor(
        config, lambda row: {**chat(row), "sampling_params": {"max_new_tokens": 2}}
    )
    (row,) = processor(rd.range(1)).take_all()
    assert (row["generated_text"], row["generated_tokens"]) == ("x>", [ord("x"), ord(">")])


def test_configurations_of_files(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text("model_source: small\nbatch_size: 4\nchat_template_stage: {enabled: false}\n")
    config = TransformersEngineProcessorConfig.from_file(str(file))
    assert (config.model_source, config.batch_size) == ("small", 4)
    assert TokenizerStageConfig.parse_yaml("batch_size: 2").batch_size == 2
    with file.open() as opened:
        assert TransformersEngineProcessorConfig.parse_yaml(opened) == config
    with pytest.raises(ValueError, match="bach_size"):
        TokenizerStageConfig.parse_yaml("bach_size: 2")
    with pytest.raises(FileNotFoundError):
        TokenizerStageConfig.from_file(tmp_path / "gone.yaml")
