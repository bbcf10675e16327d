"""Small trainings as people write them, each with something that a debugger could disturb.

Each is a function of a `Setting` that trains a few steps and returns everything that must not change: losses, weights,
buffers, optimizer states and the states of the random generators.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

Result = dict[str, object]
STEPS = 4


@dataclass(frozen=True)
class Setting:
    """How a training is run."""

    bfloat16: bool = False
    threads: int = 1
    workers: int = 0


NETWORKS: dict[str, Callable[[Setting], Result]] = {}


def network(function: Callable[[Setting], Result]) -> Callable[[Setting], Result]:
    NETWORKS[function.__name__] = function
    return function


def cast(setting: Setting) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if setting.bfloat16 else contextlib.nullcontext()


def batches(setting: Setting, *tensors: torch.Tensor, size: int = 8) -> Iterator[list[torch.Tensor]]:
    loader = DataLoader(TensorDataset(*tensors), batch_size=size, shuffle=True, num_workers=setting.workers)
    for _ in range(3):
        yield from loader


def result(losses: list[torch.Tensor], models: list[nn.Module], optimizers: list[torch.optim.Optimizer]) -> Result:
    """Everything that must be the same, as bytes."""
    found: Result = {"losses": [loss.detach().float().numpy().tobytes() for loss in losses]}
    for index, model in enumerate(models):
        for name, value in model.state_dict().items():
            found[f"model {index} {name}"] = (
                value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
                if value.dim()
                else repr(value.item())
            )
    for index, optimizer in enumerate(optimizers):
        for number, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    found[f"optimizer {index} {number} {key}"] = value.double().numpy().tobytes()
    found["torch generator"] = torch.get_rng_state().numpy().tobytes()
    found["numpy generator"] = repr(np.random.get_state())
    found["python generator"] = repr(random.getstate())
    return found


def points(count: int = 64, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(count, width)
    return x, (x[:, 0] > 0).long()


@network
def mlp(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.head = nn.Linear(8 * 2 * 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.dropout(torch.tanh(self.second(x)), 0.1, self.training)
        return self.head(x.flatten(1))


@network
def lenet_with_functional_activations(setting: Setting) -> Result:
    x, y = torch.randn(32, 1, 10, 10), torch.randint(0, 3, (32,))
    model = LeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        optimizer.zero_grad()
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm, self.act = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x))
        y += x
        return self.act(y)


@network
def resnet_with_in_place_operators(setting: Setting) -> Result:
    x, y = torch.randn(24, 3, 8, 8), torch.randint(0, 4, (24,))
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), Block(6), Block(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            loss = F.cross_entropy(model(a), b, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.project, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(self.norm(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.out(scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v)
        return x + self.shrink(F.gelu(self.grow(x)))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.blocks = nn.ModuleList([Attention(12) for _ in range(2)])
        self.head = nn.Linear(12, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@network
def gpt_with_tied_weights_and_clipping(setting: Setting) -> Result:
    tokens = torch.randint(0, 20, (32, 9))
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _, (rows,) in zip(range(STEPS), batches(setting, tokens)):
        with cast(setting):
            loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss)
    return result(losses, [model], [optimizer])


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(10, 6), nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 10)

    def forward(
        self, tokens: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        y, state = self.lstm(self.embed(tokens), state)
        return self.head(y), state


@network
def lstm_with_detached_state(setting: Setting) -> Result:
    tokens = torch.randint(0, 10, (4, 5 * STEPS + 1))
    model = Tagger()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    losses, state = [], None
    for step in range(STEPS):
        piece = tokens[:, 5 * step : 5 * step + 6]
        with cast(setting):
            y, state = model(piece[:, :-1], state)
            loss = F.cross_entropy(y.float().flatten(0, 1), piece[:, 1:].flatten())
        state = tuple(part.detach() for part in state)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


@network
def gan_with_two_optimizers(setting: Setting) -> Result:
    real = torch.randn(32, 4)
    maker = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 4), nn.Tanh())
    judge = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    first, second = torch.optim.Adam(judge.parameters(), 1e-3), torch.optim.Adam(maker.parameters(), 1e-3)
    losses = []
    for _, (rows,) in zip(range(STEPS), batches(setting, real)):
        ones, zeros = torch.ones(len(rows), 1), torch.zeros(len(rows), 1)
        with cast(setting):
            fake = maker(torch.randn(len(rows), 3))
            loss = F.binary_cross_entropy_with_logits(judge(rows), ones) + F.binary_cross_entropy_with_logits(
                judge(fake.detach()), zeros
            )
        first.zero_grad()
        loss.backward()
        first.step()
        with cast(setting):
            cheat = F.binary_cross_entropy_with_logits(judge(fake), ones)
        second.zero_grad()
        cheat.backward()
        second.step()
        losses += [loss, cheat]
    return result(losses, [maker, judge], [first, second])


@dataclass
class Encoded:
    mean: torch.Tensor
    spread: torch.Tensor
    extra: dict[str, torch.Tensor]


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.spread = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> Encoded:
        h = F.silu(self.body(x))
        return Encoded(self.mean(h), self.spread(h).clamp(-4, 4), {"hidden": h, "none": None})  # type: ignore[dict-item]


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), nn.Sequential(nn.Linear(3, 8), nn.ELU(), nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Encoded]:
        code = self.encoder(x)
        z = torch.distributions.Normal(code.mean.float(), (0.5 * code.spread.float()).exp()).rsample()
        return self.decoder(z), code


@network
def vae_with_dataclass_outputs(setting: Setting) -> Result:
    x, _ = points()
    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _, (rows,) in zip(range(STEPS), batches(setting, x)):
        with cast(setting):
            again, code = model(rows)
            loss = F.mse_loss(again.float(), rows) - 0.05 * (1 + code.spread - code.mean**2 - code.spread.exp()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.bottom = nn.Conv1d(1, 4, 3, padding=1), nn.Conv1d(4, 4, 3, padding=1)
        self.up, self.norm, self.out = nn.ConvTranspose1d(4, 4, 2, stride=2), nn.GroupNorm(2, 8), nn.Conv1d(8, 1, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        a = F.relu(self.down(x))
        b = F.relu(self.bottom(F.avg_pool1d(a, 2)))
        return {"signal": self.out(self.norm(torch.cat([a, self.up(b)], dim=1))), "low": b}


@network
def unet_with_dict_outputs(setting: Setting) -> Result:
    x = torch.randn(32, 1, 8)
    model = UNet()
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    losses = []
    for _, (rows,) in zip(range(STEPS), batches(setting, x)):
        with cast(setting):
            loss = F.l1_loss(model(rows + 0.1 * torch.randn_like(rows))["signal"].float(), rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


@network
def accumulation_with_schedule(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.Linear(8, 2))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    losses = []
    for index, (a, b) in zip(range(2 * STEPS), batches(setting, x, y)):
        with cast(setting):
            loss = F.cross_entropy(model(a), b) / 2
        loss.backward()
        if index % 2:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        losses.append(loss)
    return result(losses, [model], [optimizer])


@network
def gradient_scaler(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)
    losses = []
    for index, (a, b) in zip(range(STEPS + 2), batches(setting, x, y)):
        optimizer.zero_grad()
        with cast(setting):
            loss = F.cross_entropy(model(a), b) * (1e30 if index == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss)
    return result(losses, [model], [optimizer]) | {"scale": scaler.get_scale()}


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Tanh()), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(checkpoint(self.first, x, use_reentrant=False))


@network
def activation_checkpointing(setting: Setting) -> Result:
    x, y = points()
    model = Recomputed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


@network
def sparse_embeddings(setting: Setting) -> Result:
    table = nn.EmbeddingBag(50, 6, mode="sum", sparse=True)
    head = nn.Linear(6, 2)
    first, second = torch.optim.SparseAdam(table.parameters(), lr=1e-2), torch.optim.SGD(head.parameters(), lr=0.1)
    words, y = torch.randint(0, 50, (64, 4)), torch.randint(0, 2, (64,))
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, words, y)):
        with cast(setting):
            loss = F.cross_entropy(head(table(a)), b)
        first.zero_grad()
        second.zero_grad()
        loss.backward()
        first.step()
        second.step()
        losses.append(loss)
    return result(losses, [table, head], [second])


@network
def hooks_of_the_user(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    seen: list[float] = []
    model[0].register_forward_hook(lambda module, args, out: out * 1.5)
    model[1].register_forward_pre_hook(lambda module, args: (args[0] + 0.1,))
    model[2].register_full_backward_hook(lambda module, into, out: seen.append(float(out[0].abs().sum())))
    model[2].weight.register_hook(lambda grad: grad * 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: seen.append(1.0))
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            h = model(a)
        h.register_hook(lambda grad: seen.append(float(grad.abs().max())))
        loss = F.cross_entropy(h, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer]) | {"seen": repr(seen)}


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        a = torch.sigmoid(self.shared(x))
        b = self.shared(a)
        c = b[:, :4].clone()
        c.mul_(2)
        b[:, 4:].mul_(0.5)
        return self.head(b), [a, c]


@network
def module_called_twice_and_views_changed(setting: Setting) -> Result:
    x, y = points()
    model = Twice()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            out, more = model(a)
            loss = F.cross_entropy(out, b) + 0.01 * sum(part.float().pow(2).mean() for part in more)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


@network
def evaluation_inside_training(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        model.train()
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            losses += [loss, F.cross_entropy(model(x), y)]
    return result(losses, [model], [optimizer])


@network
def inference_only(setting: Setting) -> Result:
    model = LeNet().eval()
    answers = []
    with torch.inference_mode():
        for _ in range(STEPS):
            with cast(setting):
                answers.append(model(torch.randn(2, 1, 10, 10)).float().sum())
    return result(answers, [model], [])


@network
def frozen_backbone(setting: Setting) -> Result:
    x, y = points()
    body = nn.Sequential(nn.Linear(8, 16), nn.GELU())
    body.requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(16, 2))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


@network
def teacher_of_averaged_weights(setting: Setting) -> Result:
    x, _ = points()
    student = nn.Sequential(nn.Linear(8, 8), nn.Mish(), nn.Linear(8, 3))
    teacher = nn.Sequential(nn.Linear(8, 8), nn.Mish(), nn.Linear(8, 3))
    teacher.load_state_dict(student.state_dict())
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    losses = []
    for _, (a,) in zip(range(STEPS), batches(setting, x)):
        with torch.no_grad(), cast(setting):
            goal = teacher(a + 0.1 * torch.randn_like(a))
        with cast(setting):
            loss = F.mse_loss(student(a).float(), goal.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), student.parameters()):
                old.mul_(0.9).add_(new, alpha=0.1)
        losses.append(loss)
    return result(losses, [student, teacher], [optimizer])


@network
def updates_without_an_optimizer(setting: Setting) -> Result:
    x, y = points()
    model = nn.Linear(8, 2)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        losses.append(loss)
    return result(losses, [model], [])


@network
def lbfgs_with_closure(setting: Setting) -> Result:
    x, y = points()
    model = nn.Linear(8, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3)
    losses = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        with cast(setting):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        losses.append(optimizer.step(closure))
    return result(losses, [model], [optimizer])


@network
def gradient_penalty_and_two_losses(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(
        [{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2].parameters()}], lr=1e-2
    )
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        a.requires_grad_(True)
        out = model(a)
        main = F.cross_entropy(out, b)
        (slope,) = torch.autograd.grad(out.sum(), a, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        main.backward(retain_graph=True)
        (0.1 * penalty).backward()
        optimizer.step()
        losses += [main, penalty]
    return result(losses, [model], [optimizer])


@network
def generators_of_python_and_numpy(setting: Setting) -> Result:
    x, y = points()
    model = nn.Sequential(nn.Linear(8, 8), nn.RReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _, (a, b) in zip(range(STEPS), batches(setting, x, y)):
        a = a * random.uniform(0.9, 1.1) + torch.from_numpy(np.random.randn(*a.shape).astype(np.float32)) * 0.1
        with cast(setting):
            loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return result(losses, [model], [optimizer])


def run(name: str, setting: Setting) -> Result:
    """A training from its seed on, with the process left as it was found."""
    threads = torch.get_num_threads()
    torch.set_num_threads(setting.threads)
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    try:
        return NETWORKS[name](setting)
    finally:
        torch.set_num_threads(threads)
