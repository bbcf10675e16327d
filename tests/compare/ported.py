"""Four networks in PyTorch and their ports to MindSpore, with the mistakes that people make when they port."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import torch
from mindspore import nn as cells
from mindspore import ops
from torch import nn
from torch.nn import functional

import tensight
from tensight.compare import checkpoints
from tensight.compare.checkpoints.convert import convert
from tensight.records import Level


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 6, 5, padding=2)
        self.pool1 = nn.MaxPool2d(2, 2)
        self.c2 = nn.Conv2d(6, 8, 3)
        self.act = nn.LeakyReLU(0.01)
        self.fc1 = nn.Linear(8 * 6 * 6, 24)
        self.fc2 = nn.Linear(24, 5)

    def forward(self, x: Any) -> Any:
        x = self.pool1(torch.relu(self.c1(x)))
        x = self.act(self.c2(x))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class LeNetPort(cells.Cell):
    def __init__(self, *, slope: float = 0.01, bias: bool = True, pool: str = "max") -> None:
        super().__init__()
        self.c1 = cells.Conv2d(3, 6, 5, pad_mode="pad", padding=2, has_bias=True)
        self.pool1 = cells.MaxPool2d(2, 2) if pool == "max" else cells.AvgPool2d(2, 2)
        self.c2 = cells.Conv2d(6, 8, 3, pad_mode="valid", has_bias=True)
        self.act = cells.LeakyReLU(alpha=slope)
        self.fc1 = cells.Dense(8 * 6 * 6, 24, has_bias=bias)
        self.fc2 = cells.Dense(24, 5)

    def construct(self, x: Any) -> Any:
        x = self.pool1(ops.relu(self.c1(x)))
        x = self.act(self.c2(x))
        return self.fc2(ops.relu(self.fc1(x.reshape((x.shape[0], -1)))))


class Block(nn.Module):
    def __init__(self, inside: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Conv2d(inside, out, 1, stride=stride, bias=False)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.down(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(6)
        self.block1 = Block(6, 8, 1)
        self.block2 = Block(8, 8, 2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.bn(self.stem(x)))
        return self.fc(self.block2(self.block1(x)).mean((2, 3)))


class BlockPort(cells.Cell):
    def __init__(self, inside: int, out: int, stride: int, pad: str, momentum: float) -> None:
        super().__init__()
        padding = 1 if pad == "pad" else 0
        self.conv1 = cells.Conv2d(inside, out, 3, stride=stride, pad_mode=pad, padding=padding)
        self.bn1 = cells.BatchNorm2d(out, momentum=momentum)
        self.conv2 = cells.Conv2d(out, out, 3, pad_mode="pad", padding=1)
        self.bn2 = cells.BatchNorm2d(out)
        self.down = cells.Conv2d(inside, out, 1, stride=stride, pad_mode="valid")

    def construct(self, x: Any) -> Any:
        y = ops.relu(self.bn1(self.conv1(x)))
        return ops.relu(self.bn2(self.conv2(y)) + self.down(x))


class ResNetPort(cells.Cell):
    def __init__(self, *, pad: str = "pad", momentum: float = 0.9, frozen: bool = False) -> None:
        super().__init__()
        self.stem = cells.Conv2d(3, 6, 3, pad_mode="pad", padding=1)
        self.bn = cells.BatchNorm2d(6, use_batch_statistics=False if frozen else None)
        self.block1 = BlockPort(6, 8, 1, "pad", momentum)
        self.block2 = BlockPort(8, 8, 2, pad, 0.9)
        self.fc = cells.Dense(8, 5)

    def construct(self, x: Any) -> Any:
        x = ops.relu(self.bn(self.stem(x)))
        return self.fc(self.block2(self.block1(x)).mean((2, 3)))


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 10, batch_first=True)
        self.fc = nn.Linear(10, 5)

    def forward(self, x: Any) -> Any:
        return self.fc(self.lstm(self.emb(x))[0][:, -1])


class ReaderPort(cells.Cell):
    def __init__(self, *, first: bool = False) -> None:
        super().__init__()
        self.emb = cells.Embedding(20, 8)
        self.lstm = cells.LSTM(8, 10, batch_first=True)
        self.fc = cells.Dense(10, 5)
        self.place = 0 if first else -1

    def construct(self, x: Any) -> Any:
        return self.fc(self.lstm(self.emb(x))[0][:, self.place])


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.softmax = nn.Softmax(dim=-1)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        return self.out(self.softmax(scores) @ self.v(x))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width)
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.0)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln1(x))
        return x + self.fc2(self.drop(self.act(self.fc1(self.ln2(x)))))


class Former(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(Layer(16) for _ in range(2))
        self.ln = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x).mean(1))


class AttentionPort(cells.Cell):
    def __init__(self, width: int, axis: int, scaled: bool) -> None:
        super().__init__()
        self.q = cells.Dense(width, width)
        self.k = cells.Dense(width, width)
        self.v = cells.Dense(width, width)
        self.softmax = cells.Softmax(axis=axis)
        self.out = cells.Dense(width, width)
        self.scaled = scaled

    def construct(self, x: Any) -> Any:
        scores = ops.matmul(self.q(x), self.k(x).swapaxes(1, 2))
        if self.scaled:
            scores = scores / math.sqrt(x.shape[-1])
        return self.out(ops.matmul(self.softmax(scores), self.v(x)))


class LayerPort(cells.Cell):
    def __init__(
        self,
        width: int,
        *,
        eps: float = 1e-5,
        approximate: bool = False,
        axis: int = -1,
        scaled: bool = True,
        drop: float = 0.0,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.ln1 = cells.LayerNorm((width,), epsilon=eps)
        self.attn = AttentionPort(width, axis, scaled)
        self.ln2 = cells.LayerNorm((width,), epsilon=1e-5)
        self.fc1 = cells.Dense(width, 2 * width)
        self.act = cells.GELU(approximate=approximate)
        self.drop = cells.Dropout(p=drop)
        self.fc2 = cells.Dense(2 * width, width)
        self.residual = residual

    def construct(self, x: Any) -> Any:
        x = x + self.attn(self.ln1(x))
        y = self.fc2(self.drop(self.act(self.fc1(self.ln2(x)))))
        return x + y if self.residual else y


class FormerPort(cells.Cell):
    def __init__(self, **last: Any) -> None:
        super().__init__()
        self.emb = cells.Embedding(20, 16)
        self.layers = cells.CellList([LayerPort(16), LayerPort(16, **last)])
        self.ln = cells.LayerNorm((16,), epsilon=1e-5)
        self.head = cells.Dense(16, 5)

    def construct(self, x: Any) -> Any:
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x).mean(1))


PAIRS: dict[str, tuple[type[nn.Module], type[cells.Cell]]] = {
    "lenet": (LeNet, LeNetPort),
    "resnet": (ResNet, ResNetPort),
    "lstm": (Reader, ReaderPort),
    "transformer": (Former, FormerPort),
}


def batch(name: str) -> tuple[Any, Any]:
    random = np.random.RandomState(1)
    if name in ("lenet", "resnet"):
        return random.randn(8, 3, 16, 16).astype(np.float32), random.randint(0, 5, 8).astype(np.int32)
    return random.randint(0, 20, (8, 7)).astype(np.int32), random.randint(0, 5, 8).astype(np.int32)


def original(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = PAIRS[name][0]()
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    return model.train()


def record(folder: Path, name: str, steps: int = 2, decay: float = 0.0) -> tuple[Path, Path]:
    """The original's run, and its checkpoint from before it."""
    model = original(name)
    torch.save(model.state_dict(), folder / f"{name}.pt")
    x, y = (torch.tensor(array).long() if array.dtype.kind == "i" else torch.tensor(array) for array in batch(name))
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=1e-3)
    if decay:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=decay)
    with tensight.watch(
        model, optimizer, run_dir=folder / name, quiet=True, budget=100, recommended=False, level="module"
    ):
        for _ in range(steps):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return folder / name, folder / f"{name}.pt"


def port(name: str, checkpoint: Path, folder: Path, **how: Any) -> cells.Cell:
    """The port with the original's weights, converted by `tensight ckpt convert`."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_seed(0)
    model = PAIRS[name][1](**how)
    target = folder / f"{name}.ckpt"
    convert(checkpoints.read(checkpoint), target)
    missing, _ = mindspore.load_param_into_net(model, mindspore.load_checkpoint(str(target)))
    assert not missing
    return model.set_train()


def record_port(
    folder: Path,
    name: str,
    model: cells.Cell,
    *,
    reduction: str = "mean",
    decay: float = 0.0,
    scale: float = 1.0,
    flip: bool = False,
    steps: int = 2,
    level: Level = "module",
) -> Path:
    values, labels = batch(name)
    if values.dtype.kind == "f":
        values = (values[:, ::-1].copy() if flip else values) * np.float32(scale)
    x, y = mindspore.Tensor(values), mindspore.Tensor(labels)
    parameters = model.trainable_params()
    optimizer = cells.Adam(parameters, learning_rate=1e-3, weight_decay=decay)
    loss = cells.CrossEntropyLoss(reduction=reduction)
    step = mindspore.value_and_grad(lambda a, b: loss(model(a), b), None, parameters)
    with tensight.watch(model, optimizer, run_dir=folder, quiet=True, budget=100, recommended=False, level=level):
        for _ in range(steps):
            _, gradients = step(x, y)
            optimizer(gradients)
    return folder
