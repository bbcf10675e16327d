"""wandb.watch, offline: histograms of weights and gradients in every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TITLE = '`wandb.watch(log="all", log_freq=1)`, offline'
NEEDS = "wandb"
COVERS = "histograms of weights and their gradients; no activations, nothing judged"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    import wandb

    run = wandb.init(mode="offline", project="peers", dir=".", settings=wandb.Settings(silent=True))
    run.watch(model, log="all", log_freq=1)

    @contextmanager
    def around(step: int) -> Iterator[None]:
        yield
        run.log({"step": step})

    return model, around
