"""A training to be timed: `training.py NAME STEPS WARMUP [PEER]`. Prints the seconds of each step after the warm-up.

With TRAINING_BLOCK=n in the environment it waits for a line on its standard input before every n steps and prints the
wall and CPU seconds of those n: several such processes can then take turns (`benchmarks/overhead.py`). With
TRAINING_COMPILE=inductor the model is compiled, and what the compiler has counted is printed at the end.

Knows nothing of Tensight; the same file is run bare and watched. PEER is the file of another tool (`benchmarks/peers/`)
whose `attach` puts it to work, since other tools want lines in the script.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act, self.drop = nn.GELU(), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    """13.8 million parameters, tied embedding."""

    def __init__(self, words: int = 8192, width: int = 384, layers: int = 6) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(128, width)
        self.blocks = nn.ModuleList([Block(width, 6) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Basic(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.act = nn.ReLU(inplace=True)
        self.short = nn.Sequential()
        if stride != 1 or into != out:
            self.short = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(self.act(self.norm1(self.conv1(x)))))
        y += self.short(x)
        return self.act(y)


def resnet18(small_images: bool = False) -> nn.Module:
    """11.2 million parameters, 32x32 images; with the stem for ImageNet, which leaves little of them, or for CIFAR."""
    stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False) if small_images else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
    layers: list[nn.Module] = [stem, nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    if not small_images:
        layers.append(nn.MaxPool2d(3, 2, 1))
    for into, out, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Basic(into, out, stride), Basic(out, out, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def lenet() -> nn.Module:
    """1.2 million parameters."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def mlp() -> nn.Module:
    """Five layers, steps of about a millisecond."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def attach(peer: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """What the loop calls instead of the model, and what it enters around each step."""
    spec = importlib.util.spec_from_file_location("attached_peer", peer)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attach(model, optimizer)


def no_peer(step: int) -> AbstractContextManager[None]:
    return nullcontext()


def main() -> None:
    name, steps, warmup = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if name == "gpt":
        model: nn.Module = Gpt()
        x, y = torch.randint(0, 8192, (64, 129)), None
        size = 8
    else:
        make = {"resnet18": resnet18, "resnet18-cifar": lambda: resnet18(True), "lenet": lenet, "mlp": mlp}[name]
        model = make()
        shape = {"lenet": (1, 28, 28), "mlp": (64,)}.get(name, (3, 32, 32))
        x, y = torch.randn(256, *shape), torch.randint(0, 10, (256,))
        size = 64
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    backend = os.environ.get("TRAINING_COMPILE", "")
    if backend:
        model = torch.compile(model, backend=backend)
    called, around = attach(sys.argv[4], model, optimizer) if len(sys.argv) > 4 else (model, no_peer)
    block = int(os.environ.get("TRAINING_BLOCK", "0"))
    times = []
    began = (0.0, 0.0)
    for step in range(steps + warmup):
        if block and step % block == 0:
            if step:
                print(json.dumps([time.perf_counter() - began[0], time.process_time() - began[1]]), flush=True)
            sys.stdin.readline()
            began = (time.perf_counter(), time.process_time())
        start = time.perf_counter()
        rows = torch.arange(step * size, (step + 1) * size) % len(x)
        with around(step):
            if y is None:
                tokens = x[rows]
                loss = F.cross_entropy(called(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            else:
                loss = F.cross_entropy(called(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        times.append(time.perf_counter() - start)
    if block:
        print(json.dumps([time.perf_counter() - began[0], time.process_time() - began[1]]), flush=True)
    else:
        print(json.dumps(times[warmup:]))
    if backend:
        counters = torch._dynamo.utils.counters
        graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
        print(json.dumps({"graphs": graphs, "breaks": breaks, "first_step": times[0]}))


if __name__ == "__main__":
    main()
