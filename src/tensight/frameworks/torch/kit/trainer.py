"""Single steps of a PyTorch network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class TorchTrainer:
    """See `tensight.kit.backend.Trainer`."""

    def __init__(self, network: nn.Module, loss_fn: Any, optimizer: Any) -> None:
        self.network = network
        self.loss_fn = loss_fn
        self.optimizer = optimizer

    def step(self, batch: Any, scale: float | None, drop_overflow: bool) -> tuple[float, bool]:
        self.optimizer.zero_grad()
        loss, _, _ = self._forward(batch)
        (loss if scale is None or scale == 1 else loss * scale).backward()
        overflow = False
        if scale is not None:
            overflow = self._unscale(scale)
        if not (overflow and drop_overflow):
            self.optimizer.step()
        return float(loss.detach()), overflow

    @torch.no_grad()
    def evaluate(self, batch: Any) -> tuple[float | None, Any, Any]:
        loss, outputs, label = self._forward(batch, need_loss=False)
        return None if loss is None else float(loss), outputs, label

    @torch.no_grad()
    def predict(self, *inputs: Any) -> Any:
        return self.network(*inputs)

    def training(self) -> None:
        self.network.train()

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        modes = [(module, module.training) for module in self.network.modules()]
        self.network.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode

    def _forward(self, batch: Any, need_loss: bool = True) -> tuple[Any, Any, Any]:
        """Loss, outputs and label. Without a loss function the network's first answer is the loss."""
        if isinstance(batch, dict):
            outputs = self.network(**batch)
            loss = outputs["loss"] if isinstance(outputs, dict) else getattr(outputs, "loss", outputs)
            return loss, outputs, batch.get("labels")
        items = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
        if self.loss_fn is None:
            outputs = self.network(*items)
            first = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
            return (first if need_loss or first.numel() == 1 else None), outputs, None
        outputs = self.network(*items[:-1])
        return self.loss_fn(outputs, items[-1]), outputs, items[-1]

    def _unscale(self, scale: float) -> bool:
        """Gradients as they are without the scale; True when one of them is not finite."""
        overflow = False
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    overflow = overflow or not bool(torch.isfinite(parameter.grad).all())
                    if scale != 1:
                        parameter.grad.div_(scale)
        return overflow
