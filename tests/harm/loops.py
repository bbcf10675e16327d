"""Ways to train, and not to train: each with something that a debugger could disturb."""

from __future__ import annotations

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.harm.architectures import LeNet
from tests.harm.setting import STEPS, Result, Setting, batches, cast, network, points, result


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
