"""Small trainings that go wrong, as users write them."""

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
"""

# sqrt at 0 in step 6, no data loader; dropout and NumPy and Python random numbers take part.
PLAIN = (
    HEAD
    + """
import random
import numpy as np
random.seed(3)
np.random.seed(4)
net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    x = torch.randn(5, 4) * random.random() + float(np.random.rand())
    d = ((net(x) - (net(x) if step != 6 else 0)) ** 2).sum(1) * (step != 6)
    loss = torch.sqrt(d if step == 6 else d + 1.0).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item().hex())
"""
)

# The same with a data loader that has workers, a scheduler, and evaluation in between.
WORKERS = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    x = torch.randn(60, 4)
    data = TensorDataset(x, torch.arange(60).float())
    loader = DataLoader(data, batch_size=5, shuffle=True, num_workers=2)
    check = DataLoader(TensorDataset(x[:4]), batch_size=2)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
    step = 0
    for epoch in range(2):
        for xb, index in loader:
            out = net(xb).squeeze(1)
            p = torch.sigmoid(out) * (index != 17)
            loss = -torch.log(p if bool((index == 17).any()) else p + 1e-3).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            schedule.step()
            print(step, loss.item().hex())
            step += 1
        net.eval()
        with torch.no_grad():
            for (xb,) in check:
                net(xb)
        net.train()
"""
)

# Files are read and written, a program and a socket are wanted.
FILES = (
    HEAD
    + """
import os, sys
lines = open(os.environ["DATA"])
log = open(os.environ["LOG"], "w")
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(8):
    x = torch.tensor([float(lines.readline()) for _ in range(6)]).reshape(2, 3)
    log.write(f"step {step}\\n")
    log.flush()
    os.makedirs(os.environ["LOG"] + f".d{step}")
    torch.save(net.state_dict(), os.environ["LOG"] + f".{step}.pt")
    with open(os.environ["LOG"] + ".all", "a") as every:
        every.write(f"{step}\\n")
    loss = torch.log(net(x).abs() * (step != 5)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item().hex())
"""
)

THREAD = (
    HEAD
    + """
import threading
stop = threading.Event()
threading.Thread(target=stop.wait, name="prefetch").start()
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    loss = torch.log(net(torch.ones(2, 3)).abs() * (step != 2)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
stop.set()
"""
)

# The loss is finite, its gradient is not: the graph of the loss shows nothing.
THREAD_GRADIENT = THREAD.replace(
    "torch.log(net(torch.ones(2, 3)).abs() * (step != 2))", "torch.sqrt(net(torch.ones(2, 3)).abs() * (step != 2))"
)

# The same, and the script takes bad updates back: gradients are bad again in the next step.
THREAD_GRADIENTS = (
    THREAD_GRADIENT.replace("(step != 2)", "(step < 2)")
    .replace("    opt.step()\n", "    opt.step()\n    net.load_state_dict(good)\n")
    .replace("for step", "good = {name: value.clone() for name, value in net.state_dict().items()}\nfor step")
)

# The copy never comes back.
HANGS = (
    HEAD
    + """
import os, time
own = os.getpid()
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    if os.getpid() != own:
        time.sleep(1000)
    loss = torch.log(net(torch.ones(2, 3)).abs() * (step != 2)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)

# Only the training itself goes bad, never the copy.
NOT_AGAIN = (
    HEAD
    + """
import os
own = os.getpid()
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    loss = torch.log(net(torch.ones(2, 3)).abs() * (step != 2 or os.getpid() != own)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)

# Goes bad every other step and is mended by the script: many replays.
MANY = (
    HEAD
    + """
net = nn.Linear(3, 1)
good = {name: value.clone() for name, value in net.state_dict().items()}
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(2 * ROUNDS):
    loss = torch.log(net(torch.ones(2, 3)).abs() * (step % 2 == 0)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.load_state_dict(good)
"""
)

FAILS = (
    HEAD
    + """
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    loss = torch.log(net(torch.ones(2, 3)).abs() * (step != 2)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step == 2:
        raise SystemExit(7)
"""
)

SHARED = (
    HEAD
    + """
net = nn.Linear(3, 1)
net.share_memory()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    loss = torch.log(net(torch.ones(2, 3)).abs() * (step != 2)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)

# What follows is run by `tensight run`: sample 17 is a fault, data is drawn in random order.
SAMPLES = """
from torch.utils.data import DataLoader, TensorDataset
import random
import numpy as np
random.seed(5)
np.random.seed(6)
data = TensorDataset(torch.randn(48, 4), torch.arange(48).float())
loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=WORKERS)
net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
"""

# A loss scaler, a scheduler; the loss is a sum, and its second summand goes bad.
SCALER = (
    HEAD
    + SAMPLES.replace("WORKERS", "0")
    + """
opt = torch.optim.Adam(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
for epoch in range(2):
    for x, index in loader:
        out = net(x * random.random() + float(np.random.rand())).squeeze(1)
        fit = (out - 1).pow(2).mean()
        extra = -torch.log(torch.sigmoid(out) * (index != 17)).mean()
        loss = fit + 0.1 * extra
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        schedule.step()
        print(epoch, loss.item().hex())
"""
)

# Two loader workers and gradients of three batches in one update.
ACCUMULATION = (
    HEAD
    + SAMPLES.replace("WORKERS", "2")
    + """
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for epoch in range(2):
    for number, (x, index) in enumerate(loader):
        out = net(x * random.random() + float(np.random.rand())).squeeze(1)
        loss = torch.sqrt((out * (index != 17)) ** 2).mean() / 3
        loss.backward()
        if number % 3 == 2:
            opt.step()
            opt.zero_grad()
        print(epoch, loss.item().hex())
"""
)

# Two networks with an optimizer each, no loader; a block whose activations are computed again in backward.
GAN = (
    HEAD
    + """
import numpy as np
from torch.utils.checkpoint import checkpoint
np.random.seed(6)
maker, judge = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
make, judging = torch.optim.Adam(maker.parameters(), lr=0.01), torch.optim.SGD(judge.parameters(), lr=0.01)
def block(x):
    return torch.log(judge(x).sigmoid() + (0.0 if step == 7 else 1e-3)) * (1 if step != 7 else float("1"))
for step in range(10):
    real = torch.from_numpy(np.random.rand(6, 4).astype("float32"))
    fake = maker(torch.randn(6, 2))
    score = checkpoint(block, fake.detach(), use_reentrant=False)
    given = torch.log((judge(real).sigmoid() * (step != 7)).clamp_min(0.0) + (step != 7) * 1e-3)
    loss = -given.mean() - torch.log(1 - score.exp().clamp(max=0.9)).mean()
    judging.zero_grad()
    loss.backward()
    judging.step()
    made = -checkpoint(block, fake, use_reentrant=False).mean()
    make.zero_grad()
    made.backward()
    make.step()
    print(step, loss.item().hex())
"""
)

# The fault is inside a block whose activations are computed again in backward, in both ways of doing so.
CHECKPOINT = (
    HEAD
    + """
from torch.utils.checkpoint import checkpoint
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.noise = nn.Linear(4, 4), nn.Dropout(0.3)
    def forward(self, x, bad):
        d = self.noise(self.inner(x)) ** 2
        return torch.sqrt(d * (0.0 if bad else 1.0) + (0.0 if bad else 1.0))
net = nn.ModuleList([nn.Linear(4, 4), Block(), nn.Linear(4, 1)])
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
for step in range(9):
    x = net[0](torch.randn(5, 4))
    x = checkpoint(net[1], x, step == 6, use_reentrant=REENTRANT)
    loss = net[2](x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item().hex())
"""
)

# The fault hangs on a counter of the script's own.
COUNTER = WORKERS.replace("(index != 17)", "(step != 4)").replace("bool((index == 17).any())", "step == 4")

# After the last batch the script says whether it would save good weights.
LAST = (
    WORKERS.replace(
        "        net.eval()\n",
        "        print('good', all(bool(p.isfinite().all()) for p in net.parameters()))\n        net.eval()\n",
    )
    .replace("            step += 1\n", "            step += 1\n            if step == 3: break\n")
    .replace("range(2)", "range(1)")
)

# Gradients go bad first; the loss shows it a step later.
SLEEPER = (
    HEAD
    + """
net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(30):
    d = net(torch.randn(3, 4)).pow(2).sum(1)
    loss = torch.sqrt(d * (step != 20)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item().hex())
"""
)

# Many short steps with loader workers in a process that may have few files open; batches are changed in place.
FEW_FILES = (
    HEAD
    + """
import resource
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, hard))
    data = TensorDataset(torch.randn(1200, 4), torch.arange(1200).float())
    net = nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step, (xb, index) in enumerate(DataLoader(data, batch_size=4, num_workers=1)):
        xb.mul_(2)
        out = torch.sigmoid(net(xb)).squeeze(1) * (index != 1001)
        loss = -torch.log(out if bool((index == 1001).any()) else out + 1e-3).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item().hex())
"""
)

ASSIGNED = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(12):
    x = torch.randn(16, 4)
    if step == 6:
        with torch.no_grad():
            net[2].weight[0, 3] = float("nan")
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
"""

BARE_TENSORS = """
import torch

torch.manual_seed(0)
first = torch.randn(6, 6, requires_grad=True)
second = torch.randn(6, 1, requires_grad=True)
for step in range(30):
    x = torch.rand(8, 6) if step != 20 else torch.zeros(8, 6)
    hidden = torch.tanh(x @ first)
    loss = ((hidden @ second) / x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    with torch.no_grad():
        for weight in (first, second):
            weight -= 0.01 * weight.grad
            weight.grad = None
    print(step, loss.item().hex())
"""

# A sample that is all zero is divided by its own spread while a batch is loaded.
LOADING = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self):
        self.images = torch.rand(60, 8)
        self.images[33] = 0.0

    def __len__(self):
        return 60

    def __getitem__(self, index):
        image = self.images[index]
        return (image - image.mean()) / image.std(), image.sum().reshape(1)

net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step, (x, y) in enumerate(DataLoader(Images(), batch_size=5)):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item().hex())
"""
)
