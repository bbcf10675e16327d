"""Which module is running, by its path, in forward; and which phase a step is in."""

from __future__ import annotations

import sys
from types import FrameType

import torch
from torch import nn
from torch.optim import optimizer

from tensight.frameworks.torch.wrappers import walk
from tensight.records import Phase

_MOST_FRAMES = 60
_MOST_ANSWERS = 64  # of one step


class Scope:
    """Follows module calls and the roots of backward passes while it is attached."""

    def __init__(self) -> None:
        self.roots: dict[int, nn.Module] = {}  # outermost modules that were called
        self.losses: list[torch.Tensor] = []  # what backward was called on
        self.answers: list[torch.Tensor] = []  # what the outermost modules have returned
        self._stack: list[str] = []
        self._paths: dict[int, dict[int, str]] = {}
        self._root: list[int] = []
        self._handles: list = []
        self._backward = None

    @property
    def module(self) -> str:
        """Path of the innermost module that runs now; '' outside all modules and in the root."""
        return self._stack[-1] if self._stack else ""

    @property
    def phase(self) -> Phase:
        if torch._C._current_autograd_node() is not None:
            return "backward"
        if torch.is_grad_enabled():
            return "forward"
        return "update" if _in_optimizer() else "evaluation"

    def attach(self) -> None:
        self._handles = [
            nn.modules.module.register_module_forward_pre_hook(self._enter),
            nn.modules.module.register_module_forward_hook(self._leave, always_call=True),
        ]
        self._backward = original = torch.autograd.backward

        def backward(tensors, *args, **kwargs):
            self.losses.extend([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))
            return original(tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        if self._backward is not None:
            torch.autograd.backward = self._backward
        self._handles, self._backward = [], None

    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameters of all modules that were called, by name."""
        return self._held("_parameters")

    def buffers(self) -> dict[str, torch.Tensor]:
        return self._held("_buffers")

    def _held(self, where: str) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for root in list(self.roots.values()):
            for path, module in walk(root):
                for name, tensor in getattr(module, where).items():
                    full = f"{path}.{name}" if path else name
                    if tensor is not None and found.setdefault(full, tensor) is not tensor:
                        found[f"{full} of {type(root).__name__}"] = tensor  # two models with the same names inside
        return found

    def _enter(self, module: nn.Module, inputs: object) -> None:
        if not self._stack:
            known = self._paths.get(id(module))
            if known is None:
                known = {id(part): path for path, part in walk(module)}
                self._paths[id(module)] = known
                self.roots[id(module)] = module
            self._root = [id(module)]
        path = self._paths[self._root[0]].get(id(module))
        self._stack.append(self.module if path is None else path)

    def _leave(self, module: nn.Module, inputs: object, output: object) -> None:
        del self._stack[-1:]  # which never fails, whatever another thread does
        if not self._stack:
            self.answers += [found for found in _tensors(output) if found.is_floating_point()]
            del self.answers[:-_MOST_ANSWERS]


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [found for part in parts for found in _tensors(part)]


def _in_optimizer() -> bool:
    """Whether an optimizer is stepping. Its hooks would tell, but they cannot be put on from inside such a hook."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_filename == optimizer.__file__:
            return True
        frame = frame.f_back
    return False
