"""Small real trainings, recorded once, for the tests of the graph, the tensor view and the stacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LONG = 600

GPT = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(Block(16) for _ in range(12))
        self.head = nn.Linear(16, 20)

    def forward(self, x):
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


net = Gpt()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    batch = torch.randint(0, 20, (2, 9))
    loss = F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    if step == 6:
        with torch.no_grad():
            net.layers[3].attention.qkv.weight[-1, 0] = float("nan")
        loss = F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

RESNET = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Basic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *(Basic(4) for _ in range(3)), nn.Flatten(), nn.Linear(1024, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x, y in DataLoader(TensorDataset(torch.rand(24, 3, 16, 16), torch.arange(24) % 5), batch_size=4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""

GAN = """
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
judge = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
first = torch.optim.Adam(generator.parameters(), 1e-3)
second = torch.optim.Adam(judge.parameters(), 1e-3)
criterion = nn.BCEWithLogitsLoss()
for _ in range(5):
    fake = generator(torch.randn(8, 4))
    loss = criterion(judge(torch.randn(8, 6)), torch.ones(8, 1)) + criterion(judge(fake.detach()), torch.zeros(8, 1))
    second.zero_grad()
    loss.backward()
    second.step()
    first.zero_grad()
    criterion(judge(fake), torch.ones(8, 1)).backward()
    first.step()
"""

# A GAN in two processes; the second sees other data and has a layer more.
RANKS = GAN.replace(
    "torch.manual_seed(0)", "import os\nrank = int(os.environ['RANK'])\ntorch.manual_seed(rank)"
).replace("first =", "if rank == 1:\n    generator.append(nn.Tanh())\nfirst =", 1)

HANDING = """
import torch
import tensight
from tensight import kit

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(4, 3)
    optimizer.zero_grad()
    net(x).square().mean().backward()
    if step == 0:
        tensight.on_gradient("gradient:*", lambda gradient: None)
        seen = tensight.on_forward("*", lambda inputs, output: None)
        tensight.print("x is", x)
        kit.check_batch((torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 0])), classes=["cat", "dog"], most=3)
    if step == 1:
        tensight.print("<b>bold</b>", 3)
        kit.check_batch((["a <i>quick</i> fox", "the lazy dog"], torch.tensor([0, 1])))
    if step == 2:
        seen.remove()
        tensight.print("last", net.weight)
        tensight.print("spoilt", torch.tensor([1.0, float("nan")]))
        kit.check_batch((torch.tensor([[30.0, 1.75], [41.0, 1.6]]), torch.tensor([0, 1, 1])), columns=["age", "height"])
    optimizer.step()
"""

SCRIPTS = {"gpt": GPT, "resnet": RESNET, "gan": GAN, "ranks": RANKS, "handing": HANDING}
STEPS = {"gpt": "4-6", "resnet": "3-4", "gan": "3-4", "ranks": "3-4", "handing": "2"}


def record(folder: Path, name: str, rank: int = 0, ranks: int = 1) -> Path:
    """A run directory of one of the trainings, made by the command line; of several ranks one at a time."""
    script = folder / f"{name}.py"
    script.write_text(SCRIPTS[name])
    run = folder / "runs" / name
    environment = {**os.environ, "TENSIGHT_STATE": str(folder / "state"), "OMP_NUM_THREADS": "1"}
    if ranks > 1:
        environment |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
    words = ["run", "--no-page", "--no-rewind", "--steps", STEPS[name], "--run-dir", str(run), script.name]
    done = subprocess.run(
        [sys.executable, "-m", "tensight", *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return run
