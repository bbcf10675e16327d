import tempfile

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(4, 2)
        self.spare = nn.Linear(4, 2)

    def forward(self, x):
        return self.used(x)


dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/meet", rank=0, world_size=1)
try:
    model = nn.parallel.DistributedDataParallel(Net())
    for _ in range(2):
        loss = model(torch.randn(3, 4)).sum()
        loss.backward()
finally:
    dist.destroy_process_group()
