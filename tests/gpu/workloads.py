"""Two models and one loop, the same in a TorchTrainer, under torchrun and alone.

python workloads.py vit cuda                          alone
python -m torch.distributed.run … workloads.py vit cuda   under torchrun
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """How much there is to do."""

    width: int
    depth: int
    batch: int
    length: int  # pixels of a side, or tokens
    steps: int
    warm_up: int


SIZES = {
    ("vit", "cuda"): Size(width=768, depth=12, batch=128, length=224, steps=60, warm_up=10),
    ("vit", "cpu"): Size(width=64, depth=2, batch=2, length=32, steps=3, warm_up=1),
    ("gpt", "cuda"): Size(width=768, depth=12, batch=16, length=1024, steps=60, warm_up=10),
    ("gpt", "cpu"): Size(width=64, depth=2, batch=2, length=32, steps=3, warm_up=1),
}
SHARDED = "_fsdp2"  # at the end of a kind: the model is sharded, over the one rank that there is
HEADS = 12
PARTS = 3
PATCH = 16
VOCABULARY = 32_000
CLASSES = 1000


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


class Vit(nn.Module):
    """A vision transformer without a class token: the mean of the patches is classified."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        heads = HEADS if size.width % HEADS == 0 else 4
        patches = (size.length // PATCH) ** 2
        self.patch = nn.Conv2d(3, size.width, PATCH, PATCH)
        self.position = nn.Parameter(torch.zeros(1, patches, size.width))
        self.blocks = nn.Sequential(*(Block(size.width, heads, False) for _ in range(size.depth)))
        self.head = nn.Linear(size.width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.patch(images).flatten(2).transpose(1, 2)
        logits: torch.Tensor = self.head(self.blocks(patches + self.position).mean(1))
        return logits


class Gpt(nn.Module):
    """A decoder of text."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        heads = HEADS if size.width % HEADS == 0 else 4
        self.token = nn.Embedding(VOCABULARY, size.width)
        self.position = nn.Embedding(size.length, size.width)
        self.blocks = nn.Sequential(*(Block(size.width, heads, True) for _ in range(size.depth)))
        self.head = nn.Linear(size.width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        logits: torch.Tensor = self.head(self.blocks(self.token(tokens) + self.position(places)))
        return logits


def make(kind: str, size: Size, device: torch.device) -> tuple[nn.Module, Any, Any]:
    """A model on the CPU, and one batch on the device that it learns again and again."""
    torch.manual_seed(0)
    if kind == "vit":
        images = torch.randn(size.batch, 3, size.length, size.length)
        return Vit(size), images.to(device), torch.randint(CLASSES, (size.batch,)).to(device)
    text = torch.randint(VOCABULARY, (size.batch, size.length + 1)).to(device)
    return Gpt(size), text[:, :-1], text[:, 1:]


def shard(model: nn.Module, device: torch.device) -> nn.Module:
    """The model on the device, sharded block by block; as it is where there is no process group."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = model.to(device)
    if dist.is_initialized():
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        for part in (*(one for one in model.modules() if isinstance(one, Block)), model):
            fully_shard(part, mesh=mesh)
    return model


def train(
    kind: str, device: torch.device, prepare: Callable[[nn.Module], nn.Module]
) -> dict[str, Any]:
    """Steps a second in bf16, and the loss of the first and the last step."""
    name = kind.removesuffix(SHARDED)
    size = SIZES[name, device.type]
    model, inputs, targets = make(name, size, device)
    model = shard(model, device) if kind.endswith(SHARDED) else prepare(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    first = step()
    for _ in range(size.warm_up - 1):
        step()
    wait()
    fastest = 0.0
    # Of several parts the fastest: what else the machine does is no part of the comparison.
    for _ in range(PARTS):
        began = time.perf_counter()
        for _ in range(size.steps // PARTS):
            last = step()
        wait()
        fastest = max(fastest, size.steps // PARTS / (time.perf_counter() - began))
    return {
        "steps_per_s": fastest,
        "first_loss": float(first),
        "last_loss": float(last),
        "device": str(next(model.parameters()).device),
    }


def main(kind: str, where: str) -> None:
    device = torch.device(where, 0) if where == "cuda" else torch.device(where)
    if "RANK" in os.environ:
        import torch.distributed as dist

        dist.init_process_group("nccl" if where == "cuda" else "gloo")
    print(json.dumps(train(kind, device, lambda model: model.to(device))), flush=True)
    if "RANK" in os.environ:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
