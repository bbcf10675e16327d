"""The few words that records use for kinds of tensors, phases of a step and levels of watching."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Kind = Literal[
    "input",  # what the step was fed
    "target",  # what the loss compares with
    "prediction",  # what the loss was given
    "output",  # what a module returned
    "activation",  # the same, of an activation module or function
    "output_gradient",  # gradient of a module's output
    "module_input",  # level module: what a module was given
    "input_gradient",  # level module: gradient of what a module was given
    "gradient",  # gradient of a parameter, unscaled, as the optimizer sees it
    "weight",  # a trainable parameter
    "frozen",  # a parameter that is not trained
    "buffer",
    "loss",
    "operator",  # level op: output of a forward or update operator
    "operator_gradient",  # level op: output of a backward operator
]

Phase = Literal["forward", "backward", "update", "evaluation"]
Level = Literal["watch", "module", "op"]


def html_rows(rows: Iterable[tuple[str, object]]) -> str:
    """Named values as a small HTML table, for notebooks. All is escaped: names come from models.

    >>> html_rows([("where", "<fc>"), ("fix", "")])
    '<table><tr><th>where</th><td>&lt;fc&gt;</td></tr></table>'
    """
    from html import escape  # the table of entities behind it is not for a training to carry

    cells = [f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows if value != ""]
    return f"<table>{''.join(cells)}</table>"
