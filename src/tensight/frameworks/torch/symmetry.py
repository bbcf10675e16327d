"""Units that stay copies of each other: rows of a parameter, or modules side by side, after many updates."""

from __future__ import annotations

import torch
from torch import nn

from tensight.frameworks.torch.networks import Held, Model, Networks
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching, to_numpy
from tensight.frameworks.torch.wrappers import walk
from tensight.records.event import Value

UPDATES = frozenset(
    {12, 40, 100, 300}
)  # before which one looks: copies that are treated differently have parted long ago
_FEW = 64  # rows among which two neighbours must be the same
_MOST_VALUES = 1 << 20
_MOST_TOLD = 4


class Symmetry:
    """Looks at weights and gradients before a few updates."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self.watching = watching
        self.networks = networks
        self._updates = 0
        self._told: set[tuple[str, str]] = set()
        self._look_at = watching.probe("symmetry", self._look)

    def before_update(self) -> None:
        """An optimizer is about to step."""
        self._updates += 1
        if self._updates in UPDATES and self.watching.active:
            self._look_at()

    def _look(self) -> None:
        with torch.no_grad():
            for model in list(self.networks.models.values()):
                root = model.ref()
                if root is not None and not model.is_elsewhere and len(self._told) < _MOST_TOLD:
                    self._rows(model)
                    self._modules(model, root)

    def _rows(self, model: Model) -> None:
        for held in model.parameters:
            tensor = held.ref()
            if tensor is None or not _trained(tensor) or tensor.dim() < 2 or tensor.shape[0] < 2:
                continue
            gradient = tensor.grad
            if gradient is None or type(gradient) not in PLAIN or gradient.layout is not torch.strided:
                continue
            copies = _copies(tensor.detach(), gradient)
            if copies:
                self._tell(model.name, held.node, held.name, "rows", copies)
            elif isinstance(_holder(held), nn.Embedding):  # a row is a word: what learns together are the columns
                copies = _copies(tensor.detach().T, gradient.T)
                if copies:
                    self._tell(model.name, held.node, held.name, "columns", copies)

    def _modules(self, model: Model, root: nn.Module) -> None:
        """Modules of one list that hold the same values and get the same gradients."""
        for path, module in walk(root):
            if not isinstance(module, nn.ModuleList) or len(module) < 2:
                continue
            sides = [list(one.parameters()) for one in module]
            first = sides[0]
            if not first or any(len(side) != len(first) for side in sides):
                continue
            if any(one is other for side in sides[1:] for one, other in zip(side, first)):
                continue  # one module several times: that is meant
            if all(_same(one, other) for side in sides[1:] for one, other in zip(side, first)):
                self._tell(model.name, path, f"{path}.0", "modules", len(sides))

    def _tell(self, network: str, node: str, name: str, what: str, count: int) -> None:
        if (network, name) not in self._told:
            self._told.add((network, name))
            values: dict[str, Value] = {
                "module": node,
                "name": name,
                "what": what,
                "count": count,
                "updates": self._updates - 1,
            }
            self.watching.sink.event("alike", network, values, None)


def _holder(held: Held) -> nn.Module | None:
    return None if held.holder is None else held.holder()


def _trained(tensor: torch.Tensor) -> bool:
    return type(tensor) in PLAIN and tensor.requires_grad and 0 < tensor.numel() <= _MOST_VALUES


def _copies(tensor: torch.Tensor, gradient: torch.Tensor) -> int:
    """How many rows are the same and get the same gradient, which is not zero; 0 when they are less than half.

    Not all of them need be: rounding alone may set one apart, and an optimizer that divides by its size enlarges that.
    """
    rows = tensor.flatten(1)
    few = to_numpy(rows[:_FEW], copy=False)
    if rows.shape[1] < 2 or not bool((few[1:] == few[:-1]).all(axis=1).any()):
        return 0
    _, group, counts = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    most = int(counts.argmax())
    slopes = gradient.detach().flatten(1)[group == most]
    count = slopes.shape[0]
    if count < 2 or 2 * count < rows.shape[0] or not bool((slopes == slopes[0]).all()) or not bool(slopes[0].any()):
        return 0
    return count


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not _trained(one) or not _trained(other) or one.shape != other.shape or one.grad is None or other.grad is None:
        return False
    if not torch.equal(one, other):
        return False
    limit = 1e-4 * float(other.grad.abs().max())
    return float((one.grad - other.grad).abs().max()) <= limit
