"""Watchpoints and their hits."""

from __future__ import annotations

from typing import Literal

import msgspec

from tensight.records.source import Source
from tensight.records.words import Kind, html_rows

ErrorCode = Literal["nan", "inf", "no_prev", "out_of_memory", "no_value", "dtype", "shape", "failed"]
Action = Literal["", "pause", "log", "dump", "pdb"]


class Watchpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition with its parameters, on the tensors a selector names.

    `after`, `every`, `at_most`, `in_a_row` limit it: only from step N on, every k steps, at most m hits, only when
    it holds j steps in a row. `expression` is set for conditions written as an expression over statistics.
    """

    id: int
    condition: str  # code: 'TO', 'WCL', …, or 'EXPR'
    parameters: dict[str, float] = {}
    on: str = "*"  # selector, 'kind:glob' joined by ','
    name: str = ""
    recommended: bool = False
    enabled: bool = True
    after: int = 0
    every: int = 1
    at_most: int = 0
    in_a_row: int = 1
    action: Action = ""
    expression: str = ""


class Hit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A watchpoint's condition that held, or could not be judged (`error`, then it is no hit but is listed).

    `actual` and `threshold` go by the names of the parameters that held. `note` says in words what qualifies the
    verdict: 'judged on the finite 96 of 100 values'.
    """

    step: int
    watchpoint: int
    name: str  # the watchpoint's name
    condition: str
    kind: Kind
    node: str
    slot: str
    tensor: int
    order: int = 0
    rank: int = 0
    network: str = ""
    actual: dict[str, float] = {}
    threshold: dict[str, float] = {}
    error: ErrorCode | None = None
    note: str = ""
    op: str = ""
    source: Source | None = None
    recommended: bool = False
    call: int = 0  # of a module that is called several times in a step

    @property
    def place(self) -> str:
        """The node, and which of its calls when it is not the first: 'encoder.0#1'."""
        return f"{self.node}#{self.call}" if self.call and self.node else self.node

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("step", self.step),
            ("condition", self.condition),
            ("tensor", f"{self.kind} {self.place} {self.slot}"),
        ]
        rows += [(name, f"{value:.6g} (set {self.threshold.get(name)})") for name, value in self.actual.items()]
        return html_rows([*rows, ("error", self.error or ""), ("note", self.note)])
