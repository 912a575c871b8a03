"""A worker's place in a process group, attempt after attempt in the same process."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.heliostat_only("it looks into the worker's part of a process group")


def test_a_group_whose_end_was_interrupted_holds_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that stays was told to end as its group was being made or destroyed: the next one is made."""
    import torch.distributed as dist
    from heliostat.train.group.ranks import Ranks
    from heliostat.train.torch import process_group

    # `join` sets variables, which are those of this process again behind the test.
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(process_group.ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    try:
        for _ in range(2):
            address, port = process_group.open_store("env", 1, 60.0)
            process_group.join("gloo", "env", 60.0, 1, 0, address, port, Ranks(0, 0, 1, 0), False)
            assert dist.get_world_size() == 1
            group = dist.group.WORLD
            dist.destroy_process_group()
            # As torch leaves it that has come as far as this.
            names: Any = dist.distributed_c10d._world.pg_names
            names[group] = "0"
    finally:
        process_group.leave()
