"""Names of tensors and files in a dump, as MindSpore 2.x gives them.

`{type}.{name with _ for /}.{task}.{stream}.{time}.{input|output}.{slot}.{format}.{dtype}.npy`
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from tensight.records import TensorInfo

LONGEST = 255  # bytes of a file's name
_ODD = re.compile(r"[^\w\-/~]")
_SCOPES = {"forward": "Default", "backward": "Gradients/Default", "update": "Update", "evaluation": "Evaluation"}
_OUTSIDE = ("input", "target", "prediction", "loss")
_PARAMETERS = ("weight", "frozen", "buffer")

DTYPES = {
    "float16": "Float16",
    "float32": "Float32",
    "float64": "Float64",
    "bfloat16": "BFloat16",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "bool": "Bool",
    "complex64": "Complex64",
    "complex128": "Complex128",
}


class Label(NamedTuple):
    """A tensor as a dump names it."""

    type: str
    name: str  # with scopes: 'Default/fc1/MatMul-op0'
    io: str  # 'input' | 'output'
    slot: int


class Labels:
    """Gives every tensor of a graph a label of its own."""

    def __init__(self) -> None:
        self._labels: dict[int, Label] = {}
        self._taken: set[tuple[str, str, int]] = set()
        self._slots: dict[tuple[str, str], int] = {}

    def of(self, info: TensorInfo) -> Label:
        """
        >>> Labels().of(TensorInfo(id=0, kind="operator", node="head.fc", slot="output.0", op="aten.relu", call=2))
        Label(type='relu', name='Default/head/fc/relu-op2', io='output', slot=0)
        >>> Labels().of(TensorInfo(id=0, kind="weight", node="head", slot="weight"))
        Label(type='Parameter', name='head.weight', io='output', slot=0)
        """
        known = self._labels.get(info.id)
        if known is None:
            known = self._labels[info.id] = self._free(_label(info))
        return known

    def _free(self, label: Label) -> Label:
        number = 2
        name = label.name
        slot = label.slot
        if slot < 0:  # 'output.0.mask': a place that is no number gets the next that is free
            slot = self._slots.get((name, label.io), 0)
        while (name, label.io, slot) in self._taken:
            name, number = f"{label.name}~{number}", number + 1
        self._taken.add((name, label.io, slot))
        self._slots[name, label.io] = slot + 1
        return Label(label.type, name, label.io, slot)


def operator_name(module: str, op: str, phase: str, number: int) -> tuple[str, str]:
    """Type and full name of an operator.

    >>> operator_name("encoder.0", "aten.sqrt", "backward", 1)
    ('sqrt', 'Gradients/Default/encoder/0/sqrt-op1')
    """
    type = clean(op.rpartition(".")[2]).replace("/", "_") or "operator"
    scope = "/".join((_SCOPES.get(phase, "Default"), *filter(None, module.split("."))))
    return type, clean(f"{scope}/{type}-op{number}")


def _label(info: TensorInfo) -> Label:
    if info.kind in _PARAMETERS:
        return Label("Parameter", clean(info.name, dots=True), "output", 0)
    if info.kind == "gradient":
        return Label("Gradient", "Gradients/" + clean(info.name, dots=True), "output", 0)
    place, _, rest = info.slot.partition(".")
    slot = int(rest) if rest.isdecimal() and len(rest) < 9 else -1
    if info.op:
        type, name = operator_name(info.node, info.op, info.phase, info.call)
        return Label(type, name, "output", slot)
    number = info.call
    if info.kind == "activation" and place != "output":  # a function: 'relu.1' is its second call in the module
        number, slot = max(slot, 0), 0
    phase = "backward" if "gradient" in info.kind else info.phase
    named = info.kind.capitalize() if info.kind in _OUTSIDE else info.type or info.kind
    type = clean(named).replace("/", "_")
    _, name = operator_name(info.node, type, phase, number)
    return Label(type, name, "input" if "input" in info.kind and info.kind != "input" else "output", slot)


def clean(name: str, *, dots: bool = False) -> str:
    """A name of letters, digits, _, - and /: it comes from a model and becomes part of a path.

    >>> clean("a b/../c"), clean("fc.weight", dots=True)
    ('a_b/__/c', 'fc.weight')
    """
    pieces = [_ODD.sub("_", piece) for piece in name.split(".")]
    return ".".join(pieces).replace("..", "__") if dots else "_".join(pieces)


def flat(name: str) -> str:
    """A full name as it stands in a file's name.

    >>> flat("Default/fc/MatMul-op0"), flat("fc.weight")
    ('Default_fc_MatMul-op0', 'fc_weight')
    """
    return name.replace("/", "_").replace(".", "_")


def file_name(label: Label, time: int, dtype: str, suffix: str = "npy") -> str:
    """
    >>> file_name(Label("relu", "Default/fc/relu-op0", "output", 0), 17, "float32")
    'relu.Default_fc_relu-op0.0.0.17.output.0.DefaultFormat.Float32.npy'
    """
    name = flat(label.name)
    word = DTYPES.get(dtype, clean(dtype).replace("/", "_"))
    return f"{label.type}.{name}.0.0.{time}.{label.io}.{label.slot}.DefaultFormat.{word}.{suffix}"


def short_name(name: str) -> str:
    """A file name that fits, for one that does not; the mapping file says which is which.

    >>> len(short_name("x" * 300 + ".npy"))
    36
    """
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest() + "." + name.rpartition(".")[2]
