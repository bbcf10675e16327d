"""Located steps: every operator with the user's line and module; casts, copies, float64 and synchronising calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tensight.frameworks.source import source_of
from tensight.frameworks.timing import now
from tensight.frameworks.torch.operators import Call, Operators
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.wrappers import walk
from tensight.records.timing import Calls, Fact, ModuleTime

SYNCHRONISING = {
    "aten._local_scalar_dense": ".item()",
    "aten.is_nonzero": "bool(tensor)",
    "aten.nonzero": "nonzero()",
    "aten.masked_select": "boolean mask",
    "aten.equal": "torch.equal()",
    "aten._unique2": "unique()",
}
MOST = 60
_Site = tuple[str, int, str] | None
_Key = tuple[str, _Site, str, str, str]


@dataclass
class Found:
    """What came out of the located steps."""

    modules: tuple[ModuleTime, ...] = ()
    syncs: tuple[Calls, ...] = ()
    casts: tuple[Calls, ...] = ()
    copies: tuple[Calls, ...] = ()
    doubles: tuple[Calls, ...] = ()
    facts: dict[str, Fact] = field(default_factory=dict)
    note: str = ""


class Located:
    """An observer of operators that keeps times by place."""

    lines = True

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self.note = ""
        self._failed = failed
        self._scope: Scope | None = None
        self._mode: Operators | None = None
        self._sums: dict[str, dict[_Key, list[float]]] = {k: {} for k in ("syncs", "casts", "copies", "doubles")}
        self._modules: dict[tuple[str, str], list[float]] = {}
        self._types: dict[str, str] = {}
        self._operators = self._backward = self._update = 0
        self._seconds = 0.0
        self._steps = 0
        self._floats = self._double_calls = 0

    def start(self) -> None:
        self._scope = Scope()
        self._scope.attach()
        self._mode = Operators(self, self._scope, self._failed)
        self._mode.__enter__()

    def stop(self) -> None:
        if self._mode is not None and self._scope is not None:
            self._mode.__exit__(None, None, None)
            self._scope.detach()
            for root in self._scope.roots.values():
                with contextlib.suppress(Exception):
                    self._types.update({path: type(module).__name__ for path, module in walk(root)})
            self._mode = self._scope = None

    def cut(self) -> int:
        """Operators of backward passes in the step that has ended."""
        count, self._backward = self._backward, 0
        self._steps += 1
        if self._mode is not None:
            self._mode.forget()
        return count

    # an observer of operators

    def before(self, call: Call) -> Any:
        call.kept = None
        return now()

    def after(self, call: Call, kept: float) -> None:
        seconds = now() - kept
        if call.ours:
            return
        self._operators += 1
        self._seconds += seconds
        backward = call.phase == "backward"
        self._backward += backward
        self._update += call.phase == "update"
        row = self._modules.setdefault((call.module, "backward" if backward else "forward"), [0, 0.0])
        row[0] += 1
        row[1] += seconds
        name = call.name
        if name in SYNCHRONISING:
            self._note("syncs", call, SYNCHRONISING[name], "", seconds)
        elif name == "aten._to_copy":
            source = call.args[0]
            target = call.kwargs.get("dtype")
            if target is not None and target is not source.dtype and source.dim():
                self._note("casts", call, "cast", f"{_short(source.dtype)} → {_short(target)}", seconds)
            elif source.device.type != "cpu" and str(call.kwargs.get("device", "")) == "cpu":
                self._note("syncs", call, ".cpu()", "", seconds)
            else:
                self._note("copies", call, name, "", seconds)
        elif name in ("aten.clone", "aten.contiguous", "aten.copy_"):
            first = call.args[0]
            if isinstance(first, torch.Tensor) and first.dim() > 1 and not first.is_contiguous():
                self._note("copies", call, name, "another layout", seconds)
        self._look_at_width(call, seconds)

    def _look_at_width(self, call: Call, seconds: float) -> None:
        for one in call.args:
            if isinstance(one, torch.Tensor) and one.is_floating_point():
                if one.dtype is torch.float64 and one.dim():
                    self._double_calls += 1
                    self._note("doubles", call, call.name, "float64", seconds)
                elif one.dim():
                    self._floats += 1
                return

    def _note(self, kind: str, call: Call, what: str, detail: str, seconds: float) -> None:
        origin = call.forward or call
        key = (what, origin.site, call.module, call.phase, detail)
        row = self._sums[kind].setdefault(key, [0, 0.0])
        row[0] += 1
        row[1] += seconds

    # the result

    def result(self) -> Found:
        if not self._steps:
            return Found(note=self.note or "no step was located: the script was over before")
        facts: dict[str, Fact] = {
            "located_steps": self._steps,
            "located_operators": self._operators,
            "located_seconds": self._seconds,
            "update_operators": self._update,
            "double_calls": self._double_calls,
            "float_calls": self._floats,
        }
        kinds = {kind: _rows(rows) for kind, rows in self._sums.items()}
        return Found(
            self._module_rows(), kinds["syncs"], kinds["casts"], kinds["copies"], kinds["doubles"], facts, self.note
        )

    def _module_rows(self) -> tuple[ModuleTime, ...]:
        own: dict[str, list[float]] = {}
        for (path, phase), (calls, seconds) in self._modules.items():
            row = own.setdefault(path, [0, 0.0, 0.0])
            row[0] += calls
            row[1 if phase == "forward" else 2] += seconds
        for path in list(own):
            while path:
                path = path.rpartition(".")[0]
                own.setdefault(path, [0, 0.0, 0.0])
        rows = []
        for path, (calls, forward, backward) in own.items():
            inside = [row for other, row in own.items() if not path or other == path or other.startswith(f"{path}.")]
            rows.append(
                ModuleTime(
                    path,
                    self._types.get(path, ""),
                    int(calls),
                    forward=sum(row[1] for row in inside),
                    own_forward=forward,
                    backward=sum(row[2] for row in inside),
                    own_backward=backward,
                )
            )
        return tuple(sorted(rows, key=lambda row: row.path))


def _rows(found: dict[_Key, list[float]]) -> tuple[Calls, ...]:
    rows = [
        Calls(what, int(calls), seconds, source_of(*site) if site is not None else None, module, phase, detail)
        for (what, site, module, phase, detail), (calls, seconds) in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.calls, -row.seconds))[:MOST])


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
