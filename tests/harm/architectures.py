"""Small networks of many kinds, each with something that a debugger could disturb."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from tests.harm.setting import STEPS, Result, Setting, batches, cast, network, points, result


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
