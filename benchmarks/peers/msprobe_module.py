"""msprobe, level L0: statistics of every module's inputs and outputs, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TITLE = "msprobe dump, L0 statistics"
NEEDS = "mindstudio-probe"
COVERS = "largest, smallest, mean and norm of module inputs, outputs, their gradients and weight gradients; not judged"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    from msprobe.pytorch import PrecisionDebugger

    debugger = PrecisionDebugger(task="statistics", dump_path="dump", level="L0")

    @contextmanager
    def around(step: int) -> Iterator[None]:
        debugger.start(model=model)
        yield
        debugger.stop()
        debugger.step()

    return model, around
