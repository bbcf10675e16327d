"""What the small trainings share: how they are run, their data, and what must not change in them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Result = dict[str, object]
STEPS = 4


@dataclass(frozen=True)
class Setting:
    """How a training is run."""

    bfloat16: bool = False
    threads: int = 1
    workers: int = 0


NETWORKS: dict[str, Callable[[Setting], Result]] = {}


def network(function: Callable[[Setting], Result]) -> Callable[[Setting], Result]:
    NETWORKS[function.__name__] = function
    return function


def cast(setting: Setting) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if setting.bfloat16 else contextlib.nullcontext()


def batches(setting: Setting, *tensors: torch.Tensor, size: int = 8) -> Iterator[list[torch.Tensor]]:
    loader = DataLoader(TensorDataset(*tensors), batch_size=size, shuffle=True, num_workers=setting.workers)
    for _ in range(3):
        yield from loader


def result(losses: list[torch.Tensor], models: list[nn.Module], optimizers: list[torch.optim.Optimizer]) -> Result:
    """Everything that must be the same, as bytes."""
    found: Result = {"losses": [loss.detach().float().numpy().tobytes() for loss in losses]}
    for index, model in enumerate(models):
        for name, value in model.state_dict().items():
            found[f"model {index} {name}"] = (
                value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
                if value.dim()
                else repr(value.item())
            )
    for index, optimizer in enumerate(optimizers):
        for number, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    found[f"optimizer {index} {number} {key}"] = value.double().numpy().tobytes()
    found["torch generator"] = torch.get_rng_state().numpy().tobytes()
    found["numpy generator"] = repr(np.random.get_state())
    found["python generator"] = repr(random.getstate())
    return found


def points(count: int = 64, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(count, width)
    return x, (x[:, 0] > 0).long()
