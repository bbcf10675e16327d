"""A training is bitwise the same with and without the adapter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from tensight.frameworks.torch import activations, backward, calls, losses, networks, statistics, updates, watching
from tensight.frameworks.torch.adapter import TorchAdapter
from tensight.records import Depth

from .recording import RecordingSink

Result = list[torch.Tensor]


def loop(net: nn.Module, optimizer: torch.optim.Optimizer, batches, loss_of, scaler=None) -> Result:
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.detach().clone())
    state = [value for group in optimizer.state.values() for value in group.values() if isinstance(value, torch.Tensor)]
    return [*losses, *(p.detach().clone() for p in net.state_dict().values()), *state]


def classes(n: int = 4, shape: tuple[int, ...] = (3, 8, 8)):
    return [(torch.randn(6, *shape), torch.randint(0, 5, (6,))) for _ in range(n)]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.inner = nn.Conv2d(8, 8, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.norm(self.conv(x)))
        y = self.inner(x)
        y += x
        return self.head(F.dropout(F.gelu(y), 0.2, self.training).mean((2, 3)))


def convolutions() -> Result:
    net = Residual()
    return loop(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), classes(), F.cross_entropy)


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.encoder(self.embed(x), mask, is_causal=True)).transpose(1, 2)


def tied_transformer() -> Result:
    net = Language()
    batches = [(torch.randint(0, 11, (3, 6)), torch.randint(0, 11, (3, 6))) for _ in range(3)]
    result = loop(net, torch.optim.AdamW(net.parameters()), batches, F.cross_entropy)
    net.eval()
    with torch.no_grad():
        result.append(net(batches[0][0]))
    return result


def recurrent_with_autocast() -> Result:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(4, 8, batch_first=True)  # not every processor has a bfloat16 LSTM
            self.head = nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out, _ = self.rnn(x)
                return self.head(out[:, -1])

    net = Net()
    return loop(
        net, torch.optim.RMSprop(net.parameters()), classes(3, (7, 4)), lambda p, y: F.cross_entropy(p.float(), y)
    )


def scaled() -> Result:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=2)
    return loop(net, torch.optim.Adam(net.parameters()), classes(12, (4,)), F.cross_entropy, scaler)


def adversarial() -> Result:
    generator = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))
    g, d = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    result = []
    for _ in range(3):
        real, fake = torch.randn(4, 2), generator(torch.randn(4, 3))
        mixed = (real + fake.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        d.zero_grad()
        loss = critic(fake.detach()).mean() - critic(real).mean() + (slope.norm(dim=1) - 1).pow(2).mean()
        loss.backward()
        d.step()
        g.zero_grad()
        (-critic(fake).mean()).backward()
        g.step()
        result.append(loss.detach().clone())
    return [*result, *(p.detach().clone() for p in (*generator.parameters(), *critic.parameters()))]


def checkpointed_and_clipped() -> Result:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.ReLU())
            self.head = nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(checkpoint(self.inner, x, use_reentrant=False))

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    result = []
    for x, y in classes(3, (4,)):
        for part, label in zip(x.chunk(2), y.chunk(2)):
            (F.cross_entropy(net(part), label) / 2).backward()
        result.append(torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return [*result, *(p.detach().clone() for p in net.parameters())]


def second_order_and_closure() -> Result:
    net = nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1))
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)
    x, y = torch.randn(8, 2), torch.randn(8, 1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).detach() for _ in range(2)]
    return [*losses, *(p.detach().clone() for p in net.parameters())]


def shuffled_loader_and_schedule() -> Result:
    net = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=12)
    loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), batch_size=4, shuffle=True)
    result = []
    for _ in range(2):
        for x, y in loader:
            result += loop(net, optimizer, [(x, y)], lambda p, y: ((p - y) ** 2).mean())[:1]
            schedule.step()
    return [*result, *(p.detach().clone() for p in net.parameters())]


def sparse_embedding_by_hand() -> Result:
    net = nn.EmbeddingBag(20, 4, sparse=True)
    result = []
    for _ in range(3):
        loss = net(torch.randint(0, 20, (3, 5))).sigmoid().sum()
        loss.backward()
        with torch.no_grad():
            net.weight -= 0.1 * net.weight.grad
        net.weight.grad = None
        result.append(loss.detach().clone())
    return [*result, net.weight.detach().clone()]


def unregistered() -> Result:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [nn.Linear(4, 4)]
            self.head = nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.blocks[0](x)))

    net = Net()
    return loop(net, torch.optim.SGD(net.parameters(), lr=0.1), classes(3, (4,)), F.cross_entropy)


PROGRAMS = [
    convolutions,
    tied_transformer,
    recurrent_with_autocast,
    scaled,
    adversarial,
    checkpointed_and_clipped,
    second_order_and_closure,
    shuffled_loader_and_schedule,
    sparse_embedding_by_hand,
    unregistered,
]


def run(program: Callable[[], Result]) -> tuple[Result, torch.Tensor]:
    torch.manual_seed(5)
    return program(), torch.get_rng_state()


@pytest.mark.parametrize("level", ["watch", "module"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_losses_weights_states_and_random_numbers_are_bitwise_the_same(program, level: str) -> None:
    plain, plain_random = run(program)
    adapter, sink = TorchAdapter(), RecordingSink(level=level)
    adapter.attach(sink)
    try:
        watched, watched_random = run(program)
    finally:
        adapter.detach()
    assert [repr(error) for _, error in sink.failures] == []
    assert sink.seen
    assert len(plain) == len(watched)
    for before, after in zip(plain, watched):
        assert before.dtype == after.dtype
        assert torch.equal(before.isnan(), after.isnan())
        assert torch.equal(before.nan_to_num(), after.nan_to_num())
    assert torch.equal(plain_random, watched_random)


def test_depths_that_change_in_the_middle_leave_a_training_the_same() -> None:
    plain, _ = run(convolutions)
    adapter, sink = TorchAdapter(), RecordingSink()
    depths = [Depth.ALL, Depth.LIGHT, Depth.GRADIENTS, Depth.ALL]
    updated = sink.updated

    def next_step(optimizer: str) -> None:
        updated(optimizer)
        sink.depth = depths[sink.step % 4]
        adapter.depth_changed()

    sink.updated = next_step
    adapter.attach(sink)
    try:
        watched, _ = run(convolutions)
    finally:
        adapter.detach()
    assert sink.failures == []
    assert all(torch.equal(before, after) for before, after in zip(plain, watched))
    assert {one.step for one in sink.of("output")} == {0, 3}
    assert {one.step for one in sink.of("gradient")} == {0, 2, 3}


@pytest.mark.parametrize(
    "broken", ["observe", "tensor", "needs", "event", "network", "part", "scalar", "loss", "unobserved"]
)
def test_errors_behind_the_adapter_leave_a_training_the_same(broken: str) -> None:
    plain, _ = run(convolutions)
    adapter, sink = TorchAdapter(), RecordingSink()

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken on purpose")

    setattr(sink, broken, fail)
    adapter.attach(sink)
    try:
        watched, _ = run(convolutions)
    finally:
        adapter.detach()
    assert all(torch.equal(before, after) for before, after in zip(plain, watched))
    assert all(str(error) == "broken on purpose" for _, error in sink.failures)
    assert sink.calls.count("updated SGD") == 4 or broken in ("part", "event", "scalar")


PROBES = [
    (statistics, "one"),
    (statistics, "many"),
    (calls, "tensors"),
    (networks.Networks, "outermost"),
    (networks.Networks, "unknown"),
    (updates.Updates, "copy"),
    (updates.Updates, "look_at_start"),
    (backward.Backward, "_remember_weights"),
    (losses, "facts"),
    (activations.Activations, "_look"),
    (watching.Watching, "foreign"),
]


@pytest.mark.parametrize(("owner", "name"), PROBES, ids=lambda value: getattr(value, "__name__", value))
def test_an_error_inside_a_probe_leaves_a_training_the_same_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, owner, name: str
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken on purpose")

    plain, _ = run(unregistered)
    monkeypatch.setattr(owner, name, fail)
    adapter, sink = TorchAdapter(), RecordingSink()
    adapter.attach(sink)
    try:
        watched, _ = run(unregistered)
    finally:
        adapter.detach()
    assert all(torch.equal(before, after) for before, after in zip(plain, watched))
    assert {str(error) for _, error in sink.failures} == {"broken on purpose"}
    assert sink.calls.count("updated SGD") == 3


def test_compiled_code_is_the_same_and_its_modules_gradients_and_weights_are_watched() -> None:
    class Net(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.gelu(super().forward(x)) - F.relu(x.mean())

    def program() -> Result:
        torch._dynamo.reset()
        net = Net(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5))
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        return loop(compiled, torch.optim.Adam(compiled.parameters()), classes(2, (4,)), F.cross_entropy)

    torch._dynamo.trace_rules.clear_lru_cache()  # as in a process that compiles for the first time
    adapter, sink = TorchAdapter(), RecordingSink()
    adapter.attach(sink)
    try:
        watched, _ = run(program)
    finally:
        adapter.detach()
    plain, _ = run(program)
    assert sink.failures == []
    assert all(torch.equal(before, after) for before, after in zip(plain, watched))
    (network,) = sink.networks.values()
    assert network.name == "net"
    assert network.compiled
    assert [module.path for module in network.modules] == ["", "0", "1", "2"]
    assert sink.names("output") == ["0", "2", ""]
    assert sink.names("gradient") == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert sink.gaps == []
