"""Keeps torch.compile from compiling functions of ours that run between its graphs.

Where a graph breaks, the functions in between run as Python, and torch.compile tries each of them as the start of a new
graph. It must find the user's functions there and not ours around them: our one `__call__` would stand for all modules
and soon reach the limit of recompilations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from tensight.frameworks.patches import Patches
from tensight.frameworks.torch.calls import Calls
from tensight.frameworks.torch.compiled import look, look_in_graph
from tensight.frameworks.torch.watching import Watching


def stay_out(patches: Patches, watching: Watching) -> None:
    """To be called before anything is compiled; again does no harm."""
    from torch._C._dynamo.eval_frame import set_code_exec_strategy
    from torch._dynamo.types import FrameAction, FrameExecStrategy

    around = FrameExecStrategy(FrameAction.SKIP, FrameAction.DEFAULT)  # what they call is the user's again
    whole = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
    for function in patches.functions():
        set_code_exec_strategy(function.__code__, around)
    probe = watching.probe("", look)
    for code in (probe.__code__, *_inner(Calls.hook), look.__code__, look_in_graph.__code__):
        set_code_exec_strategy(code, whole)


def _inner(function: Callable[..., Any]) -> list[CodeType]:
    """Functions that a function makes."""
    return [constant for constant in function.__code__.co_consts if isinstance(constant, CodeType)]
