"""What MindSpore's names tell: scopes are modules, types are operators, prefixes are phases."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tensight.records import Kind, Phase, Source, TensorInfo

_WRAPPERS = re.compile(r"(network|_backbone|_network|backbone|_net_with_loss|net|_backbone_net)-.+")
_FLAT = re.compile(r"(Gradients_)?(Default|Update|Evaluation)_(?:([^/]+)_)?([^/_]+-op\d{1,12}(?:~\d+)?)")
_SCOPE = re.compile(r"(?<=[^_])(-[A-Za-z0-9]+)_(?=.)")  # the end of a scope that says its module's type
_OPERATOR = re.compile(r"(.+?)-op(\d{1,12})(~\d+)?")
_ACTIVATIONS = {
    "elu": "elu", "fastgelu": "fast_gelu", "gelu": "gelu", "geluext": "gelu", "hsigmoid": "hardsigmoid",
    "hswish": "hardswish", "leakyrelu": "leaky_relu", "logsigmoid": "log_sigmoid", "logsoftmax": "log_softmax",
    "prelu": "prelu", "relu": "relu", "relu6": "relu6", "reluv2": "relu", "sigmoid": "sigmoid", "silu": "silu",
    "softmax": "softmax", "softplus": "softplus", "tanh": "tanh", "mish": "mish",
}  # fmt: skip
_STATES = ("moments.", "moment1.", "moment2.", "accum.", "stat.", "accumulation.", "mean_square.", "adam_m.", "adam_v.")
_NO_WEIGHTS = frozenset(("learning_rate", "momentum", "global_step", "beta1_power", "beta2_power", "weight_decay"))


class Place(NamedTuple):
    """A full name taken apart."""

    module: str
    type: str  # of the module, as far as the name says it
    op: str
    number: int
    phase: Phase


@lru_cache(maxsize=100_000)
def place(name: str, op_type: str) -> Place:
    """
    >>> place("Default/network-WithLossCell/_backbone-LeNet/conv1-Conv2d/Conv2D-op0", "Conv2D")
    Place(module='conv1', type='Conv2d', op='Conv2D', number=0, phase='forward')
    >>> place("Default_fc1_MatMul-op0", "MatMul").module
    'fc1'
    >>> place("Default_network-WithLossCell__backbone-Net_down_layer-SequentialCell_0-Block_ReLU-op7", "ReLU").module
    'down_layer.0'
    >>> place("Gradients/Default/network-WithLossCell/_backbone-LeNet/fc-Dense/Grad_MatMul/MatMul-op3", "MatMul").phase
    'backward'
    """
    flat = _FLAT.fullmatch(name)
    if flat is not None:  # the order of execution is missing: where scopes end is known by their types alone
        scopes = _SCOPE.sub(r"\1/", flat[3] or "")
        name = "/".join(filter(None, ("Gradients" if flat[1] else "", flat[2], scopes, flat[4])))
    parts = [part for part in name.split("/") if part]
    phase: Phase = "forward"
    if parts and parts[0] == "Gradients":
        phase = "backward"
        parts = parts[1:]
    if parts and parts[0] in ("Default", "Update", "Evaluation"):
        phase = {"Update": "update", "Evaluation": "evaluation"}.get(parts[0], phase)  # type: ignore[assignment]
        parts = parts[1:]
    last = parts.pop() if parts else op_type
    numbered = _OPERATOR.fullmatch(last)
    number = int(numbered[2]) if numbered else 0
    modules: list[str] = []
    type = ""
    for index, part in enumerate(parts):
        if phase == "backward" and part.startswith("Grad_"):
            continue
        head, dash, tail = part.partition("-")
        if _WRAPPERS.fullmatch(part) and index < 3:
            continue
        if head == "optimizer":
            phase = "update"
        modules.append(head)
        type = tail if dash else ""
    return Place(".".join(modules), type, op_type or (numbered[1] if numbered else last), number, phase)


def activation_of(type: str) -> str:
    """The function that an activation's type means; '' for any other operator.

    >>> activation_of("ReLU"), activation_of("Conv2D")
    ('relu', '')
    """
    return _ACTIVATIONS.get(type.lower(), "")


def describe(
    name: str,
    op_type: str,
    io: str,
    slot: int,
    shape: tuple[int, ...],
    dtype: str,
    network: str,
    source: Source | None = None,
) -> TensorInfo:
    """A tensor record out of what a file's name says."""
    if op_type == "Parameter":
        path, _, own = name.rpartition(".")
        state = path.startswith(_STATES) or own.startswith("moving_") or name in _NO_WEIGHTS
        kind: Kind = "input" if re.fullmatch(r"inputs?\d*|data(-\d+)?", name) else "buffer" if state else "weight"
        return TensorInfo(-1, kind, path, own or name, network, shape=shape, dtype=dtype, phase="update")
    if op_type == "Gradient":
        path, _, own = name.removeprefix("Gradients/").rpartition(".")
        return TensorInfo(-1, "gradient", path, own, network, shape=shape, dtype=dtype, phase="backward")
    at = place(name, op_type)
    activation = activation_of(op_type) if at.phase == "forward" and io == "output" else ""
    kind = "operator_gradient" if at.phase == "backward" else "operator"
    if io == "input":
        kind = "module_input"
    elif activation:
        kind = "activation"
    return TensorInfo(
        id=-1,
        kind=kind,
        node=at.module,
        slot=f"{io}.{slot}",
        network=network,
        call=at.number,
        shape=shape,
        dtype=dtype,
        type=activation or at.type,
        op=at.op,
        phase=at.phase,
        source=source,
    )
