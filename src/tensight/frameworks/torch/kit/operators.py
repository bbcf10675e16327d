"""The operators of a piece of work: their module, phase, dtypes, and whether they made a bad value of good ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.torch.operators import Call, Operators
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.statistics import dtype_name


class _Listing:
    """An observer that keeps one row for each operator."""

    lines = True

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str, str, bool, str]] = []

    def before(self, call: Call) -> None:
        """Nothing has to be kept: whether inputs are finite is asked afterwards, and in-place writes are rare here."""

    def after(self, call: Call, kept: Any) -> None:
        outputs = [tensor for tensor in call.outputs() if tensor.is_floating_point()]
        if call.ours or not outputs:
            return
        inputs = [tensor for tensor in call.inputs() if tensor.is_floating_point()]
        made_bad = not all(map(_finite, outputs)) and all(map(_finite, inputs))
        source = call.source
        place = f"{source.file}:{source.line}" if source is not None else ""
        self.rows.append(
            (
                call.name,
                call.module,
                call.phase,
                dtype_name(outputs[0].dtype),
                dtype_name(inputs[0].dtype) if inputs else "",
                made_bad,
                place,
            )
        )


def observe(run: Callable[[], Any], network: Any = None) -> list[tuple[str, str, str, str, str, bool, str]]:
    """Name, module, phase, dtype out, dtype in, whether it made a bad value of finite ones, file:line; in order."""
    listing, scope = _Listing(), Scope()
    troubles: list[BaseException] = []
    scope.attach()
    try:
        with Operators(listing, scope, lambda where, error: troubles.append(error)):
            run()
    finally:
        scope.detach()
    if troubles:
        raise troubles[0]
    return listing.rows


def _finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor.detach()).all())
