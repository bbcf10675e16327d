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
        self._scaler: torch.amp.GradScaler | None = None

    def step(self, batch: Any, scale: Any = None) -> tuple[float, bool]:
        self.optimizer.zero_grad()
        loss, _, _ = self._forward(batch)
        if scale is None:
            loss.backward()
            self.optimizer.step()
            return float(loss.detach()), False
        return float(loss.detach()), (self._half if self._is_half() else self._scaled)(loss, scale)

    def _scaled(self, loss: torch.Tensor, scale: Any) -> bool:
        """Through PyTorch's own scaler, which a session watches; when to raise and lower is for `scale` to say."""
        if self._scaler is None or self._scaler.get_scale() != scale.scale:
            self._scaler = torch.amp.GradScaler(loss.device.type, init_scale=scale.scale)
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(self.optimizer)
        overflow = not self._finite()
        if overflow and not scale.drop_overflow_update:
            self.optimizer.step()
        else:
            self._scaler.step(self.optimizer)
        self._scaler.update(scale.update(overflow))
        return overflow

    def _half(self, loss: torch.Tensor, scale: Any) -> bool:
        """Weights in float16, which PyTorch's scaler refuses."""
        factor = scale.scale
        (loss * factor).backward()
        overflow = not self._finite()
        for parameter in self._parameters():
            if parameter.grad is not None:
                parameter.grad.div_(factor)
        if not (overflow and scale.drop_overflow_update):
            self.optimizer.step()
        scale.update(overflow)
        return overflow

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

    def _parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _is_half(self) -> bool:
        return any(parameter.dtype == torch.float16 for parameter in self._parameters())

    def _finite(self) -> bool:
        return all(bool(torch.isfinite(one.grad).all()) for one in self._parameters() if one.grad is not None)
