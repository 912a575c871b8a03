"""What the integrations refuse; examples/ shows each of them at work (see test_examples)."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.contract("F9.36")
@pytest.mark.filterwarnings("ignore")
def test_a_lightning_trainer_of_another_strategy() -> None:
    pl = pytest.importorskip("lightning.pytorch")
    from ray.train.lightning import RayDDPStrategy, prepare_trainer

    options = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_checkpointing": False}
    with pytest.raises(RuntimeError):
        prepare_trainer(pl.Trainer(**options))
    environment = pl.plugins.environments.LightningEnvironment()
    trainer = pl.Trainer(strategy=RayDDPStrategy(), plugins=[environment], **options)
    with pytest.raises(RuntimeError):
        prepare_trainer(trainer)
