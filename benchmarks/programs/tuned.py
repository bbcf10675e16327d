"""The training of benchmarks/tuning.py: rate and scale of weights decide whether it learns, dies or explodes."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn

from tensight.tuning import report

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--scale", type=float, required=True)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--spent", type=Path, required=True, help="where to write how long was trained")
parser.add_argument(
    "--report", action="store_true", help="say every 10 steps how it goes, so that it can be pruned by value"
)
options = parser.parse_args()
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
with torch.no_grad():
    for parameter in model.parameters():
        parameter.mul_(options.scale)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
x = torch.randn(512, 16)
y = torch.sin(x[:, :4].sum(1, keepdim=True))
began = time.process_time()
note = options.spent / f"{os.getpid()}.json"
done = 0
try:
    for _ in range(options.steps):
        batch = torch.randint(0, 512, (256,))
        loss = nn.functional.mse_loss(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        done += 1
        if options.report and done % 10 == 0:
            report(loss.item(), step=done)
finally:  # a trial that is pruned is told too
    note.write_text(json.dumps({"steps": done, "seconds": time.process_time() - began}))
with torch.no_grad():
    print("error:", nn.functional.mse_loss(model(x), y).item())
