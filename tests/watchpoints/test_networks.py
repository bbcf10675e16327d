"""The recommended set on real trainings: silent on healthy ones, outspoken on broken ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from tensight.records import Hit, Observation, Stats, TensorInfo
from tensight.stats.reference import statistics
from tensight.watchpoints import recommended
from tensight.watchpoints.checker import Checker

ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.Softmax)


class Watched:
    """A small capture for these tests: outputs, gradients and weights of every module, in order of execution."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.checker = Checker(recommended.watchpoints())
        self.tensors: dict[int, TensorInfo] = {}
        self.ids: dict[tuple[str, ...], int] = {}
        self.seen: list[Observation] = []
        self.hits: list[Hit] = []
        self.steps = 0
        for path, module in model.named_modules():
            module.register_forward_hook(self._hook(path, module))

    def _see(self, kind: str, node: str, slot: str, value: torch.Tensor, type_: str = "", before=None) -> None:
        id = self.ids.setdefault((kind, node, slot), len(self.ids))
        dtype = str(value.dtype).removeprefix("torch.")
        if id not in self.tensors:
            self.tensors[id] = TensorInfo(
                id=id, kind=kind, node=node, slot=slot, shape=tuple(value.shape), dtype=dtype, type=type_
            )
        needs = self.checker.needs(self.tensors[id])
        stats: Stats = statistics(value.detach().numpy(), needs, None if before is None else before.numpy())
        self.seen.append(Observation(id, len(self.seen), stats))

    def _hook(self, path: str, module: nn.Module) -> Callable[..., None]:
        kind = "activation" if isinstance(module, ACTIVATIONS) else "output"
        type_ = type(module).__name__

        def hook(module, inputs, output):
            for place, value in enumerate(output if isinstance(output, tuple) else (output,)):
                if isinstance(value, torch.Tensor):
                    slot = f"output.{place}"
                    self._see(kind, path, slot, value, type_)
                    if value.requires_grad:
                        value.register_hook(lambda g, slot=slot: self._see("output_gradient", path, slot, g, type_))

        return hook

    @contextmanager
    def step(self, loss: torch.Tensor) -> Iterator[None]:
        """Around the optimizer's step, after backward."""
        self._see("loss", "", "loss", loss)
        parts = [(*name.rpartition(".")[::2], parameter) for name, parameter in self.model.named_parameters()]
        before = [parameter.detach().clone() for *_, parameter in parts]
        yield
        for node, slot, parameter in parts:
            if parameter.grad is not None:
                self._see("gradient", node, slot, parameter.grad)
        for (node, slot, parameter), old in zip(parts, before):
            if parameter.requires_grad:
                self._see("weight", node, slot, parameter, before=old)
            else:
                self._see("frozen", node, slot, parameter)
        for name, buffer in self.model.named_buffers():
            self._see("buffer", *name.rpartition(".")[::2], buffer)
        self.hits += self.checker.check(self.steps, self.seen, self.tensors, updates=self.steps)
        self.steps += 1
        self.seen = []


def train(model: nn.Module, steps: int = 12, optimizer=None, lr: float = 1e-3, size=(16, 8)) -> list[Hit]:
    watched = Watched(model)
    optimizer = optimizer or torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for _ in range(steps):
        x = torch.randn(*size)
        loss = (model(x) - x.flatten(1).mean(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        with watched.step(loss):
            optimizer.step()
    return watched.hits


class Attention(nn.Module):
    """A transformer's layer with a causal mask of -Inf, and a key bias that has no effect."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.scores = nn.Softmax(dim=-1)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 1)
        self.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))
        nn.init.zeros_(self.qkv[1].bias)

    def forward(self, x):
        q, k, v = (layer(x) for layer in self.qkv)
        x = self.norm(x + self.scores(q @ k.transpose(1, 2) / 8**0.5 + self.mask) @ v)
        return self.head(x.mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class WithUnusedHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5))
        self.head, self.unused = nn.Linear(32, 1), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.body(x))


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    return model


def zero_head() -> nn.Module:
    """A last layer that starts at zero, as many do on purpose: said once, at the start."""
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    nn.init.zeros_(model[-1].weight)
    return model


HEALTHY = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)), (16, 8)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, bias=True),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 1),
        ),
        (8, 3, 8, 8),
    ),
    "attention": (Attention, (16, 4, 8)),
    "recurrent": (Recurrent, (16, 5, 8)),
    "unused head": (WithUnusedHead, (16, 8)),
    "frozen part": (frozen, (16, 8)),
    "gates": (
        lambda: nn.Sequential(nn.Linear(8, 32), nn.Sigmoid(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1)),
        (16, 8),
    ),
}


@pytest.fixture(autouse=True)
def _seeded():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("rate", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_a_healthy_training_gives_no_hit(name, rate):
    make, size = HEALTHY[name]
    hits = train(make(), lr=rate, size=size)
    assert hits == [], [(hit.step, hit.condition, hit.kind, hit.node, hit.slot, hit.actual) for hit in hits[:5]]


def test_a_layer_that_starts_at_zero_is_said_once():
    hits = train(zero_head())
    assert {(hit.step, hit.condition, hit.kind) for hit in hits} <= {(0, "WI", "weight")}
    assert hits


def test_dead_units_are_said():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    nn.init.constant_(model[0].bias, -1000.0)
    hits = train(model)
    assert ("AR", "1") in {(hit.condition, hit.node) for hit in hits}
    assert ("TZ", "0", "gradient") in {(hit.condition, hit.node, hit.kind) for hit in hits}


def test_saturated_units_are_said():
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    nn.init.constant_(model[0].bias, 1000.0)
    assert ("AR", "1") in {(hit.condition, hit.node) for hit in train(model)}


def test_a_deep_network_of_sigmoids_whose_gradient_vanishes_is_said():
    layers = [layer for _ in range(16) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
    hits = train(nn.Sequential(*layers, nn.Linear(8, 1)))
    vanished = {hit.node for hit in hits if hit.condition == "GV"}
    assert "0" in vanished
    assert "32" not in vanished


def test_a_learning_rate_that_is_far_too_high_is_said():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    hits = train(model, optimizer=torch.optim.SGD(model.parameters(), lr=50.0))
    assert {"WCL"} <= {hit.condition for hit in hits}


def test_weights_that_the_optimizer_does_not_hold_are_said():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    hits = train(model, optimizer=torch.optim.SGD(model[2].parameters(), lr=0.01))
    assert {(hit.condition, hit.node) for hit in hits} == {("WNC", "0")}
    assert min(hit.step for hit in hits) == 4


def test_the_first_bad_module_is_named():
    class Root(nn.Module):
        def forward(self, x):
            return torch.sqrt(x - 1e6)

    model = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 32), Root(), nn.Linear(32, 1))
    hits = train(model, steps=2)
    assert [hit.node for hit in hits if hit.condition == "OO" and hit.step == 0] == ["2"]
    assert [hit.node for hit in hits if hit.condition == "OO" and hit.step == 1] == []
    assert next(hit.node for hit in hits if hit.condition == "TO") == "2"
