import sys

import torch
import torch.distributed as dist
from common import mended
from torch import nn

FAST = "--fast" in sys.argv
dist.init_process_group("gloo")
model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(40)))
cap = 4.0 if FAST else mended("bucket", 0.05)
replica = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=cap)  # slow
optimizer = torch.optim.SGD(replica.parameters(), lr=1e-3)
x = torch.randn(1024 if FAST else 4, 256)
for _ in range(60):
    loss = replica(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
