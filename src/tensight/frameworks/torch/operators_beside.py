"""Operators beside compiled code: it runs as compiled while they are shown, and shows its own by probes.

An ordinary mode makes torch.compile give up and run the step as Python, whose last digits are others.
"""

from __future__ import annotations

from tensight.frameworks.torch.operators import Operators
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.watching import Watching


class BesideCompiled(Operators):
    """Shows operators that run as Python, and leaves compiling alone."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


class RunningScope(Scope):
    """Which module is running, as the adapter knows it: hooks on all modules would be compiled along with them."""

    def __init__(self, watching: Watching) -> None:
        super().__init__()
        self._scopes = watching.scopes

    @property
    def module(self) -> str:
        return self._scopes[-1].entry.path if self._scopes else ""
