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
