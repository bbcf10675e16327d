"""Functions that are stood in for by way of their code, so that every name they go by finds the stand-in.

`from mindspore.ops import cross_entropy` keeps the function itself: replacing an attribute of a module would miss it,
or would put ours into the user's own names, where the graph compiler would find it. The code of a function can be
exchanged and put back, and the compiler, which reads code, works while it is put back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

Call = Callable[..., Any]
_MARK = 0x7E45_1647


class Swaps:
    """Functions whose code was exchanged, and the code they had.

    >>> def double(x, *, times=2):
    ...     return x * times
    >>> known = double
    >>> swaps = Swaps()
    >>> swaps.wrap(double, lambda original: lambda *args, **kwargs: original(*args, **kwargs) + 1)
    >>> known(3), known(3, times=3)
    (7, 10)
    >>> with swaps.lifted():
    ...     known(3)
    6
    >>> swaps.restore()
    >>> known(3)
    6
    """

    def __init__(self) -> None:
        self._made: list[tuple[FunctionType, CodeType, CodeType]] = []  # function, its own code, ours

    def wrap(self, function: Any, make: Callable[[Call], Call]) -> None:
        """Have calls of `function` go to `make(original)`. Does nothing to what is no function of Python."""
        if not isinstance(function, FunctionType) or any(function is known for known, _, _ in self._made):
            return
        own = function.__code__
        original = FunctionType(
            own, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        ours = _code(make(original), own)
        function.__code__ = ours
        self._made.append((function, own, ours))

    def restore(self) -> None:
        """Undo everything that nobody else has changed since."""
        for function, own, ours in self._made:
            if function.__code__ is ours:
                function.__code__ = own
        self._made.clear()

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """With the functions' own code for a while."""
        off = [entry for entry in self._made if entry[0].__code__ is entry[2]]
        for function, own, _ in off:
            function.__code__ = own
        try:
            yield
        finally:
            for function, _, ours in off:
                function.__code__ = ours


def _code(call: Call, own: CodeType) -> CodeType:
    """Code that hands everything to `call`, and that fits a function with the free variables of `own`."""
    free = [f"v{index}" for index in range(len(own.co_freevars))]
    lines = ["def outer():", *(f"    {name} = None" for name in free), "    def stand_in(*args, **kwargs):"]
    lines += [f"        {name}" for name in free]
    lines += [f"        call = {_MARK}", "        return call(*args, **kwargs)", "    return stand_in"]
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), own.co_filename, "exec"), made)
    code: CodeType = made["outer"]().__code__
    consts = tuple(call if constant == _MARK else constant for constant in code.co_consts)
    return code.replace(co_consts=consts, co_name=own.co_name, co_firstlineno=own.co_firstlineno)
