"""The same small network, data and training on both frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BATCH, FEATURES, CLASSES, BATCHES = 8, 4, 3, 3
FRAMEWORKS = ("torch", "mindspore")


def rows(seed: int = 7, batches: int = BATCHES) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches that can be learnt: the class is where the largest feature is."""
    random = np.random.RandomState(seed)
    found = []
    for _ in range(batches):
        x = random.randn(BATCH, FEATURES).astype("f")
        found.append((x, x[:, :CLASSES].argmax(1).astype(np.int64)))
    return found


def weights() -> dict[str, np.ndarray]:
    random = np.random.RandomState(3)
    return {
        "first.weight": random.randn(6, FEATURES).astype("f") * 0.3,
        "first.bias": np.zeros(6, "f"),
        "second.weight": random.randn(CLASSES, 6).astype("f") * 0.3,
        "second.bias": np.zeros(CLASSES, "f"),
    }


@dataclass
class Training:
    """A network with its loss, optimizer and data."""

    framework: str
    network: Any
    loss_fn: Any
    optimizer: Any
    data: Any

    def tensor(self, value: Any) -> Any:
        return _tensor(self.framework, np.asarray(value))


def training(framework: str, rate: float = 0.1, batches: int = BATCHES) -> Training:
    """One of either framework, with the same weights."""
    return (_torch if framework == "torch" else _mindspore)(rate, batches)


def _tensor(framework: str, value: np.ndarray) -> Any:
    if framework == "torch":
        import torch

        return torch.as_tensor(value)
    import mindspore

    return mindspore.Tensor(value if value.dtype != np.int64 else value.astype(np.int32))


def _torch(rate: float, batches: int) -> Training:
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(FEATURES, 6)
            self.act = nn.Tanh()
            self.second = nn.Linear(6, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.second(self.act(self.first(x)))

    net = Net()
    net.load_state_dict({name: torch.as_tensor(value) for name, value in weights().items()})
    data = [(torch.as_tensor(x), torch.as_tensor(y)) for x, y in rows(batches=batches)]
    return Training("torch", net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), rate), data)


def _mindspore(rate: float, batches: int) -> Training:
    import mindspore
    from mindspore import Tensor, nn

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Dense(FEATURES, 6)
            self.act = nn.Tanh()
            self.second = nn.Dense(6, CLASSES)

        def construct(self, x: Any) -> Any:
            return self.second(self.act(self.first(x)))

    net = Net()
    for name, parameter in net.parameters_and_names():
        parameter.set_data(Tensor(weights()[name]))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    data = [(Tensor(x), Tensor(y.astype(np.int32))) for x, y in rows(batches=batches)]
    assert mindspore.get_context("mode") == mindspore.PYNATIVE_MODE
    return Training("mindspore", net, loss, nn.SGD(net.trainable_params(), rate), data)
