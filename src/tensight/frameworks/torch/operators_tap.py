"""Operators as a dump wants them: with what they were given, before an operator in place has written over it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import NamedTuple

import torch

from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.tap import Given, Made, Ran, Tap
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.operators import Call
from tensight.frameworks.torch.watching import to_numpy
from tensight.records import Source, Stats

_MOST_FRAMES = 200


class Inputs(NamedTuple):
    """What an operator reads, and when it began, in microseconds."""

    tensors: list[torch.Tensor]
    began: int


def given(call: Call) -> Inputs:
    """What an operator is about to read; copies of what it is about to write over."""
    began = time.time_ns() // 1000
    found = [tensor for tensor in call.inputs() if not tensor.is_meta]
    written = {id(tensor) for tensor in call.written()}
    if written:
        with torch.no_grad():
            found = [tensor.detach().clone() if id(tensor) in written else tensor for tensor in found]
    return Inputs(found, began)


def tell(tap: Tap, call: Call, number: int, inputs: Inputs, made: Sequence[Made], error: str) -> None:
    tap.ran(
        Ran(
            module=call.module,
            op=call.name,
            phase=call.phase,
            number=number,
            given=[
                Given(
                    statistics.dtype_name(tensor.dtype),
                    tuple(tensor.shape),
                    partial(to_numpy, tensor),
                    partial(_statistics, tensor),
                )
                for tensor in inputs.tensors
            ],
            made=made,
            source=(call.forward or call).source,
            stack=partial(_stack, call),
            error=error,
            began=inputs.began,
        )
    )


def _statistics(tensor: torch.Tensor) -> Stats:
    return statistics.one(tensor.detach())


def _stack(call: Call) -> list[Source]:
    """The user's lines it was called from, innermost first; a backward operator begins with its forward line."""
    lines = [call.forward.source] if call.forward is not None and call.forward.source is not None else []
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if is_user_file(frame.f_code.co_filename):
            lines.append(source_of(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return lines
