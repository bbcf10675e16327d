"""Replicas in which single bits change: a weight, a buffer or an averaged copy, on one rank, behind one update.

Arguments: how many steps, and for each change 'step:kind:rank:seed'. A change is taken back behind the step, so that
replicas are the same again.
"""

import copy
import random
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 24)
        self.norm = nn.BatchNorm1d(24)
        self.head = nn.Linear(24, 3)
        self.register_buffer("table", torch.linspace(0, 1, 24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.norm(self.first(x))) * self.table)


def change(tensor: torch.Tensor, seed: int) -> None:
    """Flip one bit; twice is as before."""
    chosen = random.Random(seed)
    raw = tensor.detach().view(torch.uint8).reshape(-1)
    raw[chosen.randrange(raw.numel())] ^= 1 << chosen.randrange(8)


def main(steps: int, pause: float, *changes: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = Net()
    model = nn.parallel.DistributedDataParallel(net)
    average = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    due: dict[int, list[tuple[torch.Tensor, int]]] = {}
    for step, kind, rank, seed in (one.split(":") for one in changes):
        if int(rank) == dist.get_rank():
            held = {"weight": list(net.parameters()), "buffer": [net.table], "copy": list(average.parameters())}[kind]
            due.setdefault(int(step), []).append((held[int(seed) % len(held)], int(seed)))
    now = [0]

    def flip(*_: object) -> None:
        for tensor, seed in due.get(now[0], ()):
            change(tensor, seed)

    optimizer.register_step_post_hook(flip)  # behind the update, as an error of memory would come
    torch.manual_seed(1 + dist.get_rank())
    for step in range(steps):
        now[0] = step
        x = torch.randn(16, 8)
        loss = nn.functional.cross_entropy(model(x), (x[:, :3]).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        flip()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), net.parameters()):
                mine.lerp_(theirs, 0.1)
        if pause:
            time.sleep(pause)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
