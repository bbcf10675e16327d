"""A model, or a recorded reference, as a side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from tensight.compare.sides import Side
from tensight.records import Module, Network, Parameter, Part, RunInfo, TensorInfo


class Shown(Side):
    """A side that was never recorded as a run: it has modules, parameters and what they returned, and no steps."""

    def __init__(
        self,
        framework: str,
        version: str,
        type: str,
        modules: Sequence[Module],
        weights: Mapping[str, tuple[tuple[int, ...], str]],
        outputs: Sequence[tuple[str, int, tuple[int, ...], str]],
    ) -> None:
        self.readers = []
        self.shift = 0
        self._info = RunInfo(id="", command=(), started=0.0, framework=framework, framework_version=version)
        parameters = tuple(
            Parameter(name, shape, dtype, module=name.rpartition(".")[0]) for name, (shape, dtype) in weights.items()
        )
        self._networks = {"model": Network("model", type, tuple(modules), parameters)}
        types = {module.path: module.type for module in modules}
        self._tensors = {
            number: TensorInfo(
                number,
                "output",
                path,
                "output.0",
                "model",
                call,
                shape,
                dtype,
                type=types.get(path, ""),
            )
            for number, (path, call, shape, dtype) in enumerate(outputs)
        }

    @property
    def info(self) -> RunInfo:
        return self._info

    @property
    def networks(self) -> Mapping[str, Network]:
        return self._networks

    @property
    def parts(self) -> Sequence[Part]:
        return []

    @property
    def tensors(self) -> Mapping[int, TensorInfo]:
        return self._tensors

    @property
    def numbers(self) -> list[int]:
        return []

    @cached_property
    def outputs(self) -> Mapping[tuple[str, int], TensorInfo]:
        """What each call of each module returned first."""
        return {(info.node, info.call): info for info in self._tensors.values()}
