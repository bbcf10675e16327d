"""Trains networks on two ranks under DDP, FSDP2, tensor and pipeline parallelism, and says what came out bit by bit.

Run as it is and by `tensight run`. The argument is the folder to write to. The last network has one gradient spoilt, on
rank 1 alone.
"""

import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

said: dict = {}
STEPS = 4


def held(tensor: torch.Tensor) -> bytes:
    local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
    return local.detach().contiguous().numpy().tobytes()


def say(name: str, net: nn.Module, losses: list) -> None:
    code = hashlib.sha256(b"".join(held(one) for one in net.state_dict().values())).hexdigest()
    # how many collectives the group has seen: a probe that communicates would count
    count = dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()
    said[name] = [[float(loss).hex() for loss in losses], code, count]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))  # one row: rank 1 holds nothing of it


def train(name: str, model: nn.Module, net: nn.Module, seed: int, spoil: bool = False) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for step in range(STEPS):
        x = torch.randn(16, 4, generator=generator)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        if spoil and step == 2 and dist.get_rank() == 1:
            net[0].weight.grad._local_tensor[1, 2] = float("nan")
        if not spoil:
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)  # its norm is a DTensor: to read it would communicate
        optimizer.step()
        losses.append(loss.detach())
    say(name, net, losses)


def data_parallel() -> None:
    net = network()
    train("ddp", nn.parallel.DistributedDataParallel(net), net, dist.get_rank())


def sharded(name: str = "fsdp", spoil: bool = False) -> None:
    net = network()
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("shard",))
    for layer in (net[0], net[2]):
        fully_shard(layer, mesh=mesh)
    train(name, fully_shard(net, mesh=mesh), net, dist.get_rank(), spoil)


def spoilt() -> None:
    sharded("spoilt", spoil=True)


def tensor_parallel() -> None:
    net = network()
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train("tp", net, net, 0)


def pipeline() -> None:
    whole = network()
    rank = dist.get_rank()
    part = nn.Sequential(whole[0], whole[1]) if rank == 0 else nn.Sequential(whole[2])
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(0)
    losses: list = []
    for _ in range(STEPS):
        x = torch.randn(16, 4, generator=generator)
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=x[:, :1], losses=losses)
        optimizer.step()
        optimizer.zero_grad()
    say("pipeline", part, [loss.detach() for loss in losses])


def main(folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for mode in (data_parallel, sharded, tensor_parallel, pipeline, spoilt):
        mode()
    with open(os.path.join(folder, f"rank-{dist.get_rank()}.json"), "w") as file:
        json.dump(said, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
