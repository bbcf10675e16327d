"""One tensor of a run at one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tensight.errors import NameNotFound
from tensight.records import Observation, Stats, TensorInfo
from tensight.runs.words import number, paragraph, table
from tensight.store import Reader

_PARAMETER = ("weight", "frozen", "buffer")


class RunTensor:
    """A tensor of a step: `stats` is what was seen of it, `numpy()` its values when they were kept."""

    def __init__(self, reader: Reader, info: TensorInfo, step: int) -> None:
        self._reader = reader
        self.info = info
        self.step = step
        self.rank = reader.rank

    @property
    def kept(self) -> bool:
        """Whether its values were kept."""
        return self.info.id in self._reader.kept.get(self.step, ())

    @property
    def observations(self) -> Sequence[Observation]:
        """All that was seen of it in the step: one for each micro-step."""
        if not self._reader.steps.has(self.step):
            return ()
        return self._reader.steps.some(self.step, frozenset((self.info.id,))).observations

    @property
    def stats(self) -> Stats | None:
        """Its statistics, the last of the step; None when it was not looked at."""
        seen = self.observations
        return seen[-1].stats if seen else None

    def numpy(self) -> np.ndarray[Any, Any]:
        """Its values. Dtypes that NumPy lacks (bfloat16, 8-bit floats) come as float32, which holds them exactly."""
        found = self._reader.tensor(self.step, self.info.id)
        if found is None:
            raise NameNotFound(
                f"the values of {self.info.name or 'the root'} {self.info.slot} at step {self.step} were not kept: "
                f"run again with --steps {self.step} to keep them"
            )
        array: np.ndarray[Any, Any] = found.array
        return array

    def __repr__(self) -> str:
        values = "values kept" if self.kept else "statistics only"
        return f"<RunTensor {self.info.node} {self.info.slot} at step {self.step}: {values}>"

    def _repr_html_(self) -> str:
        title = paragraph(
            f"{self.info.name} {self.info.slot}, step {self.step}", f"{self.info.dtype} {self.info.shape}"
        )
        stats = self.stats
        if stats is None:
            return title + paragraph("not looked at in this step")
        rows = [(name, number(value)) for name, value in numbers(stats).items()]
        return title + table(("statistic", "value"), rows)


def numbers(stats: Stats) -> dict[str, float | int | None]:
    """The plain numbers among the statistics, by name."""
    fields = msgspec.structs.asdict(stats)
    del fields["within"], fields["change"]
    if stats.change is not None:
        fields["change_abs_mean"] = stats.change.abs_mean
        fields["change_abs_max"] = stats.change.abs_max
    return fields


def find(
    tensors: Mapping[int, TensorInfo], node: str, slot: str, *, kind: str | None, network: str | None, call: int | None
) -> list[TensorInfo]:
    """Tensors meant by a node and slot, the best match first.

    'output' means 'output.0' too, and 'weight.grad' the gradient of 'weight'; of a parameter's own path, 'weight' and
    'gradient' are meant as kinds. A node may name a call: 'block#0', 'block#1'.
    """
    if node.endswith("#0") and not any(node == info.node for info in tensors.values()):
        node, call = node.removesuffix("#0"), 0
    wanted_kind = kind
    if kind is None and slot.endswith(".grad"):
        slot, wanted_kind = slot.removesuffix(".grad"), "gradient"
    found: list[tuple[tuple[bool, bool, int], TensorInfo]] = []
    for info in tensors.values():
        if node not in (info.node, info.name) or (network is not None and info.network != network):
            continue
        if wanted_kind is not None and info.kind != wanted_kind:
            continue
        if call is not None and info.call != call:
            continue
        exact = info.slot == slot or (node == info.name and slot == info.kind)
        if not exact and not info.slot.startswith(slot + "."):
            continue
        forward = info.kind in _PARAMETER or "gradient" not in info.kind
        operator = info.kind in ("operator", "operator_gradient")
        found.append(((not forward or operator, not exact, info.id), info))
    return [info for _, info in sorted(found, key=lambda pair: pair[0])]
