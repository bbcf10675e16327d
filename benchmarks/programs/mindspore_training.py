"""A MindSpore training to be timed: `mindspore_training.py NAME STEPS WARMUP`; NAME ends in '-graph' for graph mode.

With TRAINING_BLOCK=n in the environment it waits for a line on its standard input before every n steps and prints the
wall and CPU seconds of those n. Knows nothing of Tensight; the same file is run bare and watched.
"""

from __future__ import annotations

import json
import os
import sys
import time

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

ms.set_seed(0)


class LeNet(nn.Cell):
    """61 thousand parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.pool, self.act, self.flatten = nn.MaxPool2d(2, 2), nn.ReLU(), nn.Flatten()
        self.fc1, self.fc2, self.fc3 = nn.Dense(400, 120), nn.Dense(120, 84), nn.Dense(84, 10)

    def construct(self, x: Tensor) -> Tensor:
        x = self.pool(self.act(self.conv1(x)))
        x = self.flatten(self.pool(self.act(self.conv2(x))))
        return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))


class Block(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.qkv, self.out = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.up, self.act, self.down = nn.Dense(width, 4 * width), nn.GELU(), nn.Dense(4 * width, width)

    def construct(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv[:, :, 0].swapaxes(1, 2), qkv[:, :, 1].swapaxes(1, 2), qkv[:, :, 2].swapaxes(1, 2)
        score = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / 8.0, -1)
        x = x + self.out(ops.matmul(score, v).swapaxes(1, 2).reshape(b, t, c))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Transformer(nn.Cell):
    """2.6 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 256)
        self.blocks = nn.SequentialCell(*[Block(256, 4) for _ in range(3)])
        self.head = nn.Dense(256, 10)

    def construct(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(tokens)).mean(1))


def main() -> None:
    name, steps, warmup = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    network, _, mode = name.partition("-")
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    random = np.random.RandomState(0)
    if network == "lenet":
        net: nn.Cell = LeNet()
        x = random.randn(256, 1, 32, 32).astype("f")
    else:
        net = Transformer()
        x = random.randint(0, 1000, (256, 64)).astype(np.int32)
    y = random.randint(0, 10, 256).astype(np.int32)
    net.set_train()
    update = nn.Adam(net.trainable_params(), 1e-3)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), update)
    cell.set_train()
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
        rows = np.arange(step * 32, (step + 1) * 32) % len(x)
        cell(Tensor(x[rows]), Tensor(y[rows])).asnumpy()
        times.append(time.perf_counter() - start)
    if block:
        print(json.dumps([time.perf_counter() - began[0], time.process_time() - began[1]]), flush=True)
    else:
        print(json.dumps(times[warmup:]))


if __name__ == "__main__":
    main()
