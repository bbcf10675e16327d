"""Tensors of a bad step, kept by the copy that runs it again, for the page and for checks afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tensight.capture.recorder import Recorder
from tensight.frameworks.adapter import Array
from tensight.records import TensorInfo
from tensight.store import kept, layout

MOST = 256 << 20
"""Bytes of a step that are kept; what does not fit is left out."""


class KeptTensors:
    """Implements `tensight.replay.in_copy.Keeper` with what a recorder sees."""

    def __init__(self, recorder: Recorder, folder: Path) -> None:
        self._recorder = recorder
        self._folder = folder
        self._values: dict[str, Array] = {}
        self._step = -1
        self._bytes = 0

    def numbers(self) -> dict[str, int]:
        return {name_of(info): id for id, info in self._recorder.tensors.items()}

    def begin(self) -> None:
        self._recorder.keep = self._keep  # type: ignore[method-assign]
        self._recorder.keep_steps()

    def _keep(self, tensor: int, value: Array) -> None:
        if self._step != self._recorder.step:
            self._step = self._recorder.step
            self._values, self._bytes = {}, 0
        info = self._recorder.tensors.get(tensor)
        if info is not None and self._bytes + value.nbytes <= MOST:
            self._values[name_of(info)] = value
            self._bytes += value.nbytes

    def store(self, step: int, numbers: Mapping[str, int]) -> tuple[tuple[int, ...], int]:
        values = self._values if self._step == self._recorder.step else {}
        arrays = {numbers[name]: value for name, value in values.items() if name in numbers}
        if not arrays:
            return (), 0
        named = {name_of(info): info.dtype for info in self._recorder.tensors.values()}
        dtypes = {number: named[name] for name, number in numbers.items() if number in arrays}
        part = layout.part(self._folder, self._recorder.rank)
        return tuple(sorted(arrays)), kept.write(layout.tensor_file(part, step), step, arrays, dtypes)

    def stored(self, step: int, tensors: Sequence[int], size: int) -> None:
        self._recorder.writer.tensors_written(step, tensors, size)


def name_of(info: TensorInfo) -> str:
    """What a tensor is, in words that are the same in every copy of the training."""
    return f"{info.kind}|{info.network}|{info.node}|{info.slot}|{info.call}|{info.phase}"
