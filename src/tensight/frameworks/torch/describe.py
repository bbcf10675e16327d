"""Records of modules and parameters."""

from __future__ import annotations

import torch
from torch import nn

from tensight.frameworks.torch.shards import type_name
from tensight.records import Module, Source
from tensight.records.event import Value

_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
_ACTIVATIONS = frozenset(
    kind for kind in vars(nn.modules.activation).values() if isinstance(kind, type) and issubclass(kind, nn.Module)
) - {nn.Module, nn.MultiheadAttention}
_ACTIVATION_NAMES = frozenset(
    {"relu", "relu2", "squaredrelu", "swish", "silu", "gelu", "newgelu", "quickgelu", "mish", "geglu", "swiglu", "sine"}
)
_SCALES = frozenset({"weight", "gamma", "scale", "g", "a_2", "w"})
_MOST_SETTINGS = 12


def is_activation(module: nn.Module) -> bool:
    """Whether a module is an activation: one of torch's, or one of the user's that is called like one."""
    if type(module) in _ACTIVATIONS:
        return True
    name = type(module).__name__.lower().removesuffix("activation")
    return name in _ACTIVATION_NAMES or isinstance(module, tuple(_ACTIVATIONS))


def is_norm(module: nn.Module) -> bool:
    return isinstance(module, _NORMS) or "norm" in type(module).__name__.lower()


def role(module: nn.Module, slot: str, parameter: torch.Tensor) -> str:
    """What a parameter is for, by its module and name.

    >>> role(nn.LayerNorm(4), "weight", torch.ones(4))
    'norm_scale'
    """
    if is_norm(module) and len(parameter.shape) <= 1:
        return "norm_scale" if slot in _SCALES else "norm_shift"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return "embedding"
    return "bias" if "bias" in slot else "weight"


def settings(module: nn.Module) -> dict[str, Value]:
    """The plain values a module was made with: p of a dropout, dim of a softmax, sizes of a convolution."""
    found: dict[str, Value] = {}
    for name, value in vars(module).items():
        if name.startswith("_") or name == "training" or len(found) == _MOST_SETTINGS:
            continue
        if isinstance(value, (bool, int, float, str)) or (value is None and name in ("dim", "padding_idx")):
            found[name] = value
        elif isinstance(value, tuple) and value and all(isinstance(one, int) for one in value):
            found[name] = "x".join(str(one) for one in value)
    return found


def module_record(path: str, module: nn.Module, source: Source | None) -> Module:
    return Module(path, type_name(module), is_activation(module), source, settings(module))
