"""A finding, a hit and a crash as blocks of text for the terminal.

Names and code lines come from the user's program and may hold anything: control characters are shown, not obeyed.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping

from tensight.records import Finding, Hit

LABEL = 8


def plain(text: str, most: int = 400) -> str:
    """Text that cannot steer a terminal.

    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def width() -> int:
    return max(60, min(120, shutil.get_terminal_size((100, 24)).columns))


def folded(text: str, columns: int | None = None, indent: str = "  ") -> list[str]:
    """A line that is cut between words where a terminal ends; a file or a pipe has no edge, unless one is named."""
    if columns is None and not (sys.stdout.isatty() and sys.stderr.isatty()):
        return [text]
    columns = columns or width()
    return textwrap.wrap(text, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]


def _row(label: str, text: str, columns: int) -> list[str]:
    room = columns - LABEL - 2
    lines = textwrap.wrap(plain(text, 1200), room, break_long_words=False, break_on_hyphens=False) or [""]
    first = f"  {label:<{LABEL}}{lines[0]}"
    return [first, *(" " * (LABEL + 2) + line for line in lines[1:])]


def place(finding: Finding) -> str:
    """Module, operator, parameter and line of a finding in one row."""
    where = finding.where
    pieces = []
    if where.parameter:
        pieces.append(where.parameter)
    elif where.module is not None:
        pieces.append(where.module or "the model")
    if where.op:
        pieces.append(where.op)
    if where.file and where.line:
        pieces.append(f"({where.file}:{where.line})")
    if where.code:
        pieces.append(" " + where.code.strip())
    return "  ".join(pieces) or "the whole training"


def finding_block(finding: Finding, *, page: str = "", columns: int | None = None) -> str:
    """The block that appears when something goes wrong."""
    head = _title(finding)
    edge = columns or width()
    if finding.replay:
        note = "rewound, looked again" if finding.replay in ("exact", "close") else f"looked again: {finding.replay}"
        head += " " * max(2, edge - len(head) - len(note)) + note
    lines = folded(head, columns)
    columns = edge
    lines += [*_row("where", place(finding), columns), *_row("why", finding.why, columns)]
    if finding.since:
        lines += _row("since", f"step {finding.since_step}, {finding.since}", columns)
    if finding.then:
        lines += _row("then", " → ".join(finding.then), columns)
    for index, fix in enumerate(finding.fix):
        lines += (
            _row("fix", fix, columns)
            if index == 0
            else _row("or", fix.removeprefix("or, ").removeprefix("or "), columns)
        )
    for index, way in enumerate(finding.confirm):
        lines += _row("confirm" if index == 0 else "", way, columns)
    if page:
        lines += _row("page", page, columns)
    return "\n".join(lines)


def _title(finding: Finding) -> str:
    one = f", rank {finding.rank}" if finding.rank and finding.category != "distributed" else ""
    return f"✖ step {finding.since_step}{one}  {plain(finding.title)}"


def hit_line(hit: Hit) -> str:
    """One line for a hit of a watchpoint the user has set.

    >>> hit_line(Hit(3, 1, "", "TL", "output", "enc.0", "output.0", 7, actual={"max_gt": 2}, call=1))
    '● step 3  TL on output enc.0#1: max_gt 2'
    >>> hit_line(Hit(3, 1, "", "TL", "activation", "", "sigmoid.0", 7, actual={"max_gt": 2}))
    '● step 3  TL on activation sigmoid.0 of the model: max_gt 2'
    >>> hit_line(Hit(3, 1, "", "TL", "gradient", "", "weight", 7, actual={"max_gt": 2}))
    '● step 3  TL on gradient weight: max_gt 2'
    """
    actual = ", ".join(f"{name} {value:.6g}" for name, value in hit.actual.items())
    asked = ", ".join(f"{name} {value:.6g}" for name, value in hit.threshold.items())
    own = hit.kind in ("weight", "gradient", "frozen", "buffer")
    name = f"{hit.node}.{hit.slot}".lstrip(".") if own else hit.place or "the model"
    if not own and not hit.op and hit.slot.partition(".")[0] not in ("output", "input", "loss", ""):
        name = f"{hit.slot} of {name}"  # a function that the module calls
    line = f"● step {hit.step}  {hit.condition} on {hit.kind} {plain(name)}: {actual}"
    return line + (f" (set: {asked})" if asked else "") + (f"; {hit.note}" if hit.note else "")


def crash_block(crash: Mapping[str, object], *, columns: int | None = None) -> str:
    """The block beside a traceback."""
    lines = folded(f"✖ {plain(str(crash.get('title', 'the script failed')))}", columns)
    columns = columns or width()
    where = crash.get("where")
    if isinstance(where, Mapping):
        row = "  ".join(str(where[key]) for key in ("module", "op", "phase") if where.get(key) not in (None, ""))
        if where.get("file"):
            row += f"  ({where['file']}:{where.get('line')})   {where.get('code') or ''}"
        if row.strip():
            lines += _row("where", row.strip(), columns)
    if crash.get("why"):
        lines += _row("why", str(crash["why"]), columns)
    for key, label in (("inputs", "inputs"), ("fix", "fix")):
        rows = crash.get(key)
        if isinstance(rows, (list, tuple)):
            for index, row in enumerate(rows):
                lines += _row(label if index == 0 else "", str(row), columns)
    return "\n".join(lines)
