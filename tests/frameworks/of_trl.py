"""TRL: its ``SFTTrainer``, which trains a language model, so that it has a network and rows of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.frameworks.of_hugging_face import trained
from tests.frameworks.work import BATCH, LEARNING_RATE, MOMENTUM, ROWS, STEPS, Course

WORDS, LENGTH = 16, 6
# What every tokenizer has, and no row.
UNKNOWN, END, PAD = 0, 1, 2


def _rows() -> Any:
    """Sentences of the same length: a mean over ranks is then one over words."""
    import torch

    return torch.randint(3, WORDS, (ROWS, LENGTH), generator=torch.Generator().manual_seed(7))


def _model() -> Any:
    """The same weights in each process."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=8,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            bos_token_id=END,
            eos_token_id=END,
            pad_token_id=PAD,
        )
    )


def _whole_loss(model: Any) -> float:
    import torch

    with torch.no_grad():
        return float(model(input_ids=_rows(), labels=_rows()).loss)


def trl_alone() -> float:
    """What one process gets, without TRL."""
    import torch

    model, rows = _model(), _rows()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    for step in range(STEPS):
        batch = rows[step * BATCH : (step + 1) * BATCH]
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
    return _whole_loss(model)


def trl_sft_ddp(config: dict[str, Any]) -> float:
    """``SFTTrainer``, which saves and resumes by itself."""
    import torch
    import transformers
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from trl import SFTConfig, SFTTrainer

    course = Course(config)

    class InOrder(SFTTrainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    words = models.WordLevel({str(word): word for word in range(WORDS)}, unk_token=str(UNKNOWN))
    trainer = InOrder(
        model=_model(),
        args=SFTConfig(
            output_dir=str(Path(config["folder"], f"scratch{course.rank}")),
            num_train_epochs=1,
            per_device_train_batch_size=BATCH // course.size,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            max_length=LENGTH,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"input_ids": _rows().tolist()}),
        processing_class=transformers.PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(words),
            unk_token=str(UNKNOWN),
            eos_token=str(END),
            pad_token=str(PAD),
        ),
        optimizer_cls_and_kwargs=(torch.optim.SGD, {"lr": LEARNING_RATE, "momentum": MOMENTUM}),
    )
    state = trained(trainer, course)
    if course.rank != 0:
        return 0.0
    model = _model()
    model.load_state_dict(state)
    return _whole_loss(model)
