"""Ten small networks, five faults for each, and the same networks with other orders of summation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Fault(NamedTuple):
    """What is wrong, in which module, and how it is done to a model."""

    what: str
    module: str
    inject: Callable[[Any], object]


class Residual(nn.Module):
    def __init__(self, inside: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride=stride, padding=1)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Conv2d(inside, out, 1, stride=stride)
        self.share = 1.0

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.share * self.down(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.softmax = nn.Softmax(dim=-1)
        self.out = nn.Linear(width, width)
        self.heads = heads
        self.stretch = 1.0

    def forward(self, x: Any) -> Any:
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (self.stretch / math.sqrt(q.shape[-1]))
        return self.out((self.softmax(scores) @ v).transpose(1, 2).reshape(n, t, c))


class Layer(nn.Module):
    def __init__(self, width: int, act: type[nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width)
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = act()
        self.drop = nn.Dropout(0.0)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln1(x))
        return x + self.fc2(self.drop(self.act(self.fc1(self.ln2(x)))))


class Former(nn.Module):
    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(40, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, 12)

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x))


class Reader(nn.Module):
    def __init__(self, cell: type[Any]) -> None:
        super().__init__()
        self.emb = nn.Embedding(40, 24)
        self.rnn = cell(24, 32, num_layers=2, batch_first=True)
        self.ln = nn.LayerNorm(32)
        self.act = nn.SiLU()
        self.fc = nn.Linear(32, 12)

    def forward(self, x: Any) -> Any:
        return self.fc(self.act(self.ln(self.rnn(self.emb(x))[0])))


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv1d(4, 16, 5, padding=2)
        self.gn = nn.GroupNorm(4, 16)
        self.act = nn.ELU()
        self.c2 = nn.Conv1d(16, 16, 3, padding=2, dilation=2)
        self.fc = nn.Linear(16, 6)

    def forward(self, x: Any) -> Any:
        return self.fc(self.c2(self.act(self.gn(self.c1(x)))).mean(-1))


class Coder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 12, 4, stride=2, padding=1)
        self.norm = nn.InstanceNorm2d(12, affine=True)
        self.act = nn.LeakyReLU(0.01)
        self.mid = nn.Conv2d(12, 12, 3, padding=1, groups=3)
        self.up = nn.ConvTranspose2d(12, 3, 4, stride=2, padding=1)
        self.end = nn.Tanh()

    def forward(self, x: Any) -> Any:
        return self.end(self.up(self.mid(self.act(self.norm(self.down(x))))))


def _images(size: int = 16) -> Any:
    return torch.randn(6, 3, size, size)


def _tokens() -> Any:
    return torch.randint(0, 40, (6, 10))


def _mlp() -> tuple[Any, Any]:
    parts: list[nn.Module] = [nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.0)]
    return nn.Sequential(*parts, nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 5)), torch.randn(16, 20)


def _lenet() -> tuple[Any, Any]:
    parts: list[nn.Module] = [nn.Conv2d(3, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2)]
    parts += [nn.Conv2d(6, 16, 3), nn.Hardswish(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 24), nn.Linear(24, 5)]
    return nn.Sequential(*parts), _images()


def _resnet() -> tuple[Any, Any]:
    parts: list[nn.Module] = [Residual(3, 8), Residual(8, 8, 2), Residual(8, 12)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5)), _images()


def _vgg() -> tuple[Any, Any]:
    parts: list[nn.Module] = []
    for inside, out in ((3, 8), (8, 12), (12, 16)):
        parts += [nn.Conv2d(inside, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU6(), nn.MaxPool2d(2)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Dropout(0.0), nn.Linear(64, 5)), _images()


NETWORKS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mlp": _mlp,
    "lenet": _lenet,
    "resnet": _resnet,
    "vgg": _vgg,
    "lstm": lambda: (Reader(nn.LSTM), _tokens()),
    "gru": lambda: (Reader(nn.GRU), _tokens()),
    "transformer": lambda: (Former(2, 32), _tokens()),
    "deep": lambda: (Former(6, 24), _tokens()),
    "line": lambda: (Line(), torch.randn(6, 4, 30)),
    "coder": lambda: (Coder(), _images()),
}


def setting(path: str, **values: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        for name, value in values.items():
            setattr(model.get_submodule(path), name, value)

    return change


def weight(name: str, make: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        with torch.no_grad():
            model.get_parameter(name).copy_(make(model.get_parameter(name).clone()))

    return change


def another(path: str, make: Callable[[], nn.Module]) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        parent, _, last = path.rpartition(".")
        setattr(model.get_submodule(parent), last, make().to(next(model.parameters()).dtype))

    return change


def _swapped(w: Any) -> Any:
    return w[[1, 0, *range(2, len(w))]]


def _rolled(w: Any) -> Any:
    return w.roll(32, 0)


def _turned(w: Any) -> Any:
    return w.t().contiguous()


def _gates(w: Any) -> Any:
    parts = w.chunk(4)
    return torch.cat([parts[0], parts[2], parts[1], parts[3]])


def _batch_mode(path: str) -> Callable[[Any], object]:
    return lambda model: model.get_submodule(path).eval()


FAULTS: dict[str, list[Fault]] = {
    "mlp": [
        Fault("transposed weight", "2", weight("2.weight", _turned)),
        Fault("dropout left on", "4", setting("4", p=0.1)),
        Fault("another activation", "3", another("3", nn.Hardtanh)),
        Fault("softplus beta", "6", setting("6", beta=1.2)),
        Fault("bias lost", "7", setting("7", bias=None)),
    ],
    "lenet": [
        Fault("padding mode", "0", setting("0", padding_mode="circular")),
        Fault("another pooling", "2", another("2", lambda: nn.MaxPool2d(2))),
        Fault("another activation", "4", another("4", nn.SiLU)),
        Fault("rows swapped", "7", weight("7.weight", _swapped)),
        Fault("weight 1 % larger", "8", weight("8.weight", lambda w: w * 1.01)),
    ],
    "resnet": [
        Fault("batch norm eps", "0.bn1", setting("0.bn1", eps=1e-3)),
        Fault("batch norm in evaluation", "1.bn2", _batch_mode("1.bn2")),
        Fault("shortcut scaled", "1", setting("1", share=0.95)),
        Fault("channels in another order", "2.conv1", weight("2.conv1.weight", lambda w: w.flip(1))),
        Fault("one bias zero", "5", weight("5.bias", lambda b: b * torch.tensor([0, 1, 1, 1, 1], dtype=b.dtype))),
    ],
    "vgg": [
        Fault("batch norm eps", "1", setting("1", eps=1e-3)),
        Fault("kernel upside down", "4", weight("4.weight", lambda w: w.flip(2))),
        Fault("another activation", "6", another("6", nn.Hardswish)),
        Fault("ceiling of the pooling", "11", another("11", lambda: nn.AvgPool2d(2))),
        Fault("dropout left on", "13", setting("13", p=0.2)),
    ],
    "lstm": [
        Fault("gates in another order", "rnn", weight("rnn.weight_hh_l0", _gates)),
        Fault("one bias for two", "rnn", weight("rnn.bias_hh_l1", torch.zeros_like)),
        Fault("layer norm eps", "ln", setting("ln", eps=1e-3)),
        Fault("another activation", "act", another("act", nn.GELU)),
        Fault("embedding shifted", "emb", weight("emb.weight", lambda w: w.roll(1, 0))),
    ],
    "gru": [
        Fault("layers swapped", "rnn", weight("rnn.weight_hh_l1", _rolled)),
        Fault("layer norm scale lost", "ln", weight("ln.weight", lambda w: w * 1.02)),
        Fault("another activation", "act", another("act", nn.Mish)),
        Fault("bias lost", "fc", setting("fc", bias=None)),
        Fault("rows swapped", "fc", weight("fc.weight", _swapped)),
    ],
    "transformer": [
        Fault("layer norm eps", "layers.1.ln1", setting("layers.1.ln1", eps=1e-3)),
        Fault("GELU by tanh", "layers.0.act", setting("layers.0.act", approximate="tanh")),
        Fault("softmax axis", "layers.0.attn.softmax", setting("layers.0.attn.softmax", dim=-2)),
        Fault("scores 2 % larger", "layers.1.attn", setting("layers.1.attn", stretch=1.02)),
        Fault("queries and keys swapped", "layers.1.attn.qkv", weight("layers.1.attn.qkv.weight", _rolled)),
    ],
    "deep": [
        Fault("layer norm eps", "layers.4.ln2", setting("layers.4.ln2", eps=1e-3)),
        Fault("dropout left on", "layers.3.drop", setting("layers.3.drop", p=0.05)),
        Fault("scale of the scores lost", "layers.5.attn", setting("layers.5.attn", stretch=1.3)),
        Fault("GELU by tanh", "layers.5.act", setting("layers.5.act", approximate="tanh")),
        Fault("transposed weight", "layers.2.attn.out", weight("layers.2.attn.out.weight", _turned)),
    ],
    "line": [
        Fault("padding mode", "c1", setting("c1", padding_mode="replicate")),
        Fault("number of groups", "gn", setting("gn", num_groups=2)),
        Fault("ELU alpha", "act", setting("act", alpha=0.9)),
        Fault("kernel turned round", "c2", weight("c2.weight", lambda w: w.flip(2))),
        Fault("dilation and padding", "c2", setting("c2", dilation=(1,), padding=(1,))),
    ],
    "coder": [
        Fault("norm eps", "norm", setting("norm", eps=1e-3)),
        Fault("slope", "act", setting("act", negative_slope=0.2)),
        Fault("groups in another order", "mid", weight("mid.weight", lambda w: w.roll(4, 0))),
        Fault("kernel turned round", "up", weight("up.weight", lambda w: w.flip(3))),
        Fault("another activation", "end", another("end", nn.Hardtanh)),
    ],
}  # fmt: skip


def faults_of(name: str) -> list[Fault]:
    return FAULTS[name]


def reordered(model: Any) -> None:
    """The same mathematics with other orders of summation."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.forward = _backwards(module)
        elif isinstance(module, nn.LayerNorm):
            module.forward = _by_hand(module)
        elif type(module) is nn.Conv2d and module.groups == 1:
            module.forward = _channels(module)
        elif isinstance(module, nn.Softmax):
            module.forward = _softmax(module)


def _backwards(module: Any) -> Any:
    order = torch.arange(module.in_features - 1, -1, -1)
    return lambda x: functional.linear(x[..., order], module.weight[:, order], module.bias)


def _channels(module: Any) -> Any:
    order = torch.arange(module.in_channels - 1, -1, -1)
    return lambda x: module._conv_forward(x[:, order], module.weight[:, order], module.bias)


def _by_hand(module: Any) -> Any:
    def forward(x: Any) -> Any:
        wide = x.float()
        centred = wide - wide.mean(-1, keepdim=True)
        scaled = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + module.eps)
        return (scaled * module.weight.float() + module.bias.float()).to(x.dtype)

    return forward


def _softmax(module: Any) -> Any:
    def forward(x: Any) -> Any:
        raised = torch.exp(x.float() - x.float().amax(module.dim, keepdim=True))
        return (raised / raised.flip(module.dim).sum(module.dim, keepdim=True)).to(x.dtype)

    return forward
