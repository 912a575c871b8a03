"""``prepare_trainer``."""

from __future__ import annotations

from typing import Any


def prepare_trainer(trainer: Any) -> Any:
    """Let a ``transformers.Trainer`` read datasets of the run.

    ``train_dataset`` and ``eval_dataset`` may be what ``iter_torch_batches`` of a dataset shard
    returns: such an iterable gives batches, and each worker has its own part already.

    Args:
        trainer: The ``Trainer``; it is changed.

    Returns:
        The same trainer.

    Examples:
        >>> import ray.data
        >>> from ray import train
        >>> from ray.train.huggingface.transformers import prepare_trainer
        >>> from ray.train.torch import TorchTrainer
        >>> def work():
        ...     import transformers
        ...     rows = train.get_dataset_shard("train").iter_torch_batches(batch_size=8)
        ...     args = transformers.TrainingArguments(output_dir="out", max_steps=100)
        ...     model = transformers.AutoModelForSequenceClassification.from_pretrained("my/model")
        ...     trainer = transformers.Trainer(model=model, args=args, train_dataset=rows)
        ...     prepare_trainer(trainer).train()
        >>> trainer = TorchTrainer(work, datasets={"train": ray.data.range(100)})
    """
    for name in ("train_dataset", "eval_dataset"):
        dataset = getattr(trainer, name, None)
        if dataset is not None and _gives_batches(dataset):
            _take_batches(trainer, name)
    return trainer


def _gives_batches(dataset: Any) -> bool:
    """Whether it is an iterable of batches from the data library, not a dataset of rows."""
    module = type(dataset).__module__
    return module.startswith(("heliostat.data", "ray.data")) and not hasattr(dataset, "__getitem__")


def _take_batches(trainer: Any, name: str) -> None:
    from torch.utils.data import DataLoader, IterableDataset

    class Batches(IterableDataset):  # type: ignore[misc,type-arg,unused-ignore] # torch may have types
        """Hands the batches on as they are."""

        def __init__(self, batches: Any) -> None:
            self._batches = batches

        def __iter__(self) -> Any:
            return iter(self._batches)

    def loader(dataset: Any) -> Any:
        return DataLoader(Batches(dataset), batch_size=None)

    if name == "train_dataset":
        trainer.get_train_dataloader = lambda: loader(trainer.train_dataset)
    else:
        trainer.get_eval_dataloader = lambda dataset=None: loader(
            dataset if dataset is not None else trainer.eval_dataset
        )
