"""`tensight.print`: strings and tensors, mixed; eager, compiled and inside MindSpore's graphs.

The module stays small: it is looked at by the graph compilers of both frameworks.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

from tensight.kit.printing_form import form, printed
from tensight.session.importing import Importing

# Set by PyTorch's part of the kit: whether the call is being compiled, and what then stands in its place.
_compiling: Callable[[], bool] | None = None
_compiled: Callable[..., None] | None = None
_counts: dict[tuple[str, int], int] = {}


def print(*values: Any, every: int = 1) -> None:
    """Print strings and tensors, each on a line of its own, as `Tensor(shape=…, dtype=…, value=…)`.

    With `every=n` only in every n-th step (without a session: every n-th call of the line). A running session keeps
    what is printed for the page. Large tensors are cut in the middle and get their statistics.

    >>> import numpy as np
    >>> print("x and y", np.ones([2, 1], dtype=np.int32), 5)
    x and y
    Tensor(shape=[2, 1], dtype=Int32, value=
    [[1]
     [1]])
    5
    """
    if _compiling is not None and _compiling():
        _compiled(values, every)  # type: ignore[misc]
        return
    show(values, every, "eager", 2)


def show(values: tuple[Any, ...], every: int, where: str, skip: int, site: tuple[str, int] | None = None) -> None:
    """Print now, if it is due. An error becomes a line of its own: a print never ends a training."""
    try:
        from tensight.session import prints

        frame = sys._getframe(skip)
        place = site or (frame.f_code.co_filename, frame.f_lineno)
        step = prints.step()
        if every > 1:
            if step is None:
                step = _counts.get(place, 0)
                _counts[place] = step + 1
            if step % every:
                return
        parts = [printed(value) for value in values]
        builtins.print("\n".join(part.text for part in parts), flush=True)
        prints.keep(form(parts, step or 0, place, where))
    except Exception as error:
        builtins.print(f"tensight.print: {type(error).__name__}: {error}", file=sys.stderr)


def _install(framework: str) -> None:
    """Teach a framework's graph compiler what to do with `print`. Without it, it still works outside of graphs."""
    global _compiling, _compiled
    try:
        if framework == "torch":
            from tensight.frameworks.torch.kit import printing as torch_part

            _compiling, _compiled = torch_part.compiling, torch_part.compiled
            torch_part.show = show
        else:
            from tensight.frameworks.mindspore.kit import printing as mindspore_part

            mindspore_part.install(print, show)
    except Exception as error:
        builtins.print(f"tensight.print: not inside graphs of {framework}: {error}", file=sys.stderr)


_watching = Importing(["torch", "mindspore"], _install)
_watching.__enter__()
if not _watching.names:
    _watching.stop()
