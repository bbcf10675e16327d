"""msprobe, level L1: statistics of the inputs and outputs of every call of a torch function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TITLE = "msprobe dump, L1 statistics"
NEEDS = "mindstudio-probe"
COVERS = "largest, smallest, mean and norm of torch functions' inputs, outputs and gradients, with stacks; not judged"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    from msprobe.pytorch import PrecisionDebugger

    debugger = PrecisionDebugger(task="statistics", dump_path="dump", level="L1")

    @contextmanager
    def around(step: int) -> Iterator[None]:
        debugger.start()
        yield
        debugger.stop()
        debugger.step()

    return model, around
