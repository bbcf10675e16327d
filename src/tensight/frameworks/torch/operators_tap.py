"""Operators as a dump wants them: with what they were given, before an operator in place has written over it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import NamedTuple

import torch

from tensight.frameworks.adapter import Array
from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.tap import Made, Ran, Tap
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.measured import Measured
from tensight.frameworks.torch.operators import Call
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import to_numpy
from tensight.records import Source, Stats

_MOST_FRAMES = 200
_FILLING = frozenset(  # what they write to they do not read: it may never have held a value
    f"aten.{name}_"
    for name in ("copy", "fill", "zero", "normal", "uniform", "random", "bernoulli", "exponential", "log_normal")
)


class Read:
    """A tensor that an operator was given. Most were made by an operator before, which was read then."""

    __slots__ = ("_measured", "_stats", "_tensor", "dtype", "shape")

    def __init__(self, tensor: torch.Tensor, measured: Measured) -> None:
        self._tensor = tensor
        self._measured = measured
        self._stats: Stats | None = None
        self.dtype = statistics.dtype_name(tensor.dtype)
        self.shape: tuple[int, ...] = tensor.shape

    def numpy(self) -> Array:
        return to_numpy(self._tensor)

    def statistics(self) -> Stats:
        if self._stats is None:
            tensor = self._tensor
            known = self._measured.find(tensor, statistics.ORDINARY)
            if known is None:
                known = statistics.one(tensor)
                self._measured.add(tensor, statistics.ORDINARY, known)
            self._stats = known
        return self._stats

    def save(self, values: bool) -> None:
        """The tensor is about to be written over: copy its values, or read what only their statistics are wanted of."""
        if values:
            with torch.no_grad():
                self._tensor = self._tensor.detach().clone()
        else:
            self.statistics()


class Inputs(NamedTuple):
    """What an operator reads, and when it began, in microseconds."""

    tensors: list[Read]
    began: int


def given(call: Call, measured: Measured, values: bool) -> Inputs:
    """What an operator is about to read; of what it is about to write over, what is wanted: its `values` or not."""
    began = time.time_ns() // 1000
    tensors = [tensor for tensor in call.inputs() if _has_values(tensor)]
    written = {id(tensor) for tensor in call.written()} if call.mutable else ()
    if written and call.name in _FILLING:
        tensors = [tensor for tensor in tensors if id(tensor) not in written]
    found = [Read(tensor, measured) for tensor in tensors]
    if written:
        for tensor, read in zip(tensors, found):
            if id(tensor) in written:
                read.save(values)
    return Inputs(found, began)


def _has_values(tensor: torch.Tensor) -> bool:
    if type(tensor) in PLAIN and tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_quantized:
        return True  # nearly always
    try:
        statistics.readable(tensor)
    except statistics.CannotJudge:
        return False
    return True


def tell(
    tap: Tap, call: Call, number: int, inputs: Inputs, made: Sequence[Made], error: str, line: Source | None
) -> None:
    """`line` is where the forward operator of a backward one was called, where that is known."""
    tap.ran(
        Ran(
            call.module,
            call.facts.name,
            call.phase,
            number,
            inputs.tensors,
            made,
            partial(_source, call, line),
            partial(_stack, line),
            error,
            inputs.began,
        )
    )


def _source(call: Call, line: Source | None) -> Source | None:
    return line or call.line()


def _stack(line: Source | None) -> list[Source]:
    """The user's lines it was called from, innermost first; a backward operator begins with its forward line."""
    lines = [line] if line is not None else []
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if is_user_file(frame.f_code.co_filename):
            lines.append(source_of(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return lines
