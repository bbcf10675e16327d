"""The operators of a piece of work in PyNative mode: cell, dtypes, and whether one made a bad value of good ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from mindspore import Tensor, nn
from mindspore.utils import MsDispatchMode

from tensight.frameworks.mindspore.values import copied
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source

_FLOATS = ("Float16", "BFloat16", "Float32", "Float64")


class _Listing(MsDispatchMode):
    def __init__(self, network: nn.Cell | None) -> None:
        self.rows: list[tuple[str, str, str, str, str, bool, str]] = []
        self.stack: list[str] = []
        self.paths = {} if network is None else {id(cell): path for path, cell in network.cells_and_names()}
        self._busy = False

    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._busy:
            self._busy = True
            try:
                self._note(func.name, args, result)
            finally:
                self._busy = False
        return result

    def _note(self, name: str, args: Any, result: Any) -> None:
        outputs = [tensor for tensor in _tensors(result) if str(tensor.dtype) in _FLOATS]
        if not outputs:
            return
        inputs = [tensor for tensor in _tensors(args) if str(tensor.dtype) in _FLOATS]
        made_bad = not all(map(_finite, outputs)) and all(map(_finite, inputs))
        source = user_source(3)
        self.rows.append(
            (
                name,
                self.stack[-1] if self.stack else "",
                "forward" if self.stack else "backward",
                str(outputs[0].dtype).lower(),
                str(inputs[0].dtype).lower() if inputs else "",
                made_bad,
                f"{source.file}:{source.line}" if source is not None else "",
            )
        )

    def around_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(cell: nn.Cell, *args: Any, **kwargs: Any) -> Any:
            self.stack.append(self.paths.get(id(cell), type(cell).__name__))
            try:
                return original(cell, *args, **kwargs)
            finally:
                self.stack.pop()

        return __call__


def observe(run: Callable[[], Any], network: nn.Cell | None = None) -> list[tuple[str, str, str, str, str, bool, str]]:
    """Name, cell, phase, dtype out, dtype in, whether it made a bad value of finite ones, file:line; in order.

    Of the backward pass MindSpore shows a part of the operators.
    """
    listing = _Listing(network)
    patches = Patches()
    patches.wrap(nn.Cell, "__call__", listing.around_call)
    try:
        with listing:
            run()
    finally:
        patches.restore()
    return listing.rows


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def _finite(tensor: Tensor) -> bool:
    return bool(np.isfinite(copied(tensor)).all())
