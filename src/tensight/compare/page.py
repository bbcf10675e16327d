"""A comparison as one HTML file that needs nothing else: both sides in step, the first divergence in the middle.

Names come from the users' programs: everything is escaped, and the file may load nothing and run nothing but its own
few lines, which are named by their hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from tensight.compare.curves import curves
from tensight.compare.losses import BAND, within
from tensight.compare.result import Comparison, Divergence
from tensight.compare.telling import WORDS, short
from tensight.runs.blocks import plain
from tensight.runs.html import STYLE
from tensight.runs.words import number
from tensight.runs.writing import write_whole

MOST_ROWS = 2000

_OWN_STYLE = """
body { max-width: 84rem; } svg { max-width: 56rem; }
.pair { position: relative; max-height: 70vh; overflow: auto; border: 1px solid var(--edge); border-radius: 6px; }
.pair table { width: 100%; border-collapse: collapse; } .pair td, .pair th { padding: .15rem .6rem; }
.pair th { position: sticky; top: 0; background: var(--card); } .pair tr { cursor: pointer; }
.pair tr.different td { color: var(--bad); } .pair tr.follows td, .pair tr.suspicious td { color: var(--dim); }
.pair tr[aria-selected=true] td { background: color-mix(in srgb, var(--line) 20%, var(--paper)); }
.pair tr.first td { border-top: 2px solid var(--bad); border-bottom: 2px solid var(--bad); font-weight: 600; }
.pair td.b { border-left: 3px solid var(--edge); } td.n { text-align: right; font-variant-numeric: tabular-nums; }
polyline.other { fill: none; stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 5 3; }
polygon.band { fill: var(--good); opacity: .18; }
"""

_SCRIPT = """
const rows = [...document.querySelectorAll('.pair tbody tr')];
const box = document.querySelector('.pair');
const pick = (row) => { rows.forEach((one) => one.setAttribute('aria-selected', one === row));
  box.scrollTop = row.offsetTop - box.clientHeight / 2 + row.offsetHeight / 2; };
rows.forEach((row, at) => {
  row.addEventListener('click', () => pick(row));
  row.addEventListener('keydown', (event) => {
    const next = event.key === 'ArrowDown' ? rows[at + 1] : event.key === 'ArrowUp' ? rows[at - 1] : null;
    if (next) { event.preventDefault(); next.focus({ preventScroll: true }); pick(next); } });
});
const first = document.querySelector('tr.first');
if (first) pick(first);
"""


def page(found: Comparison, a: str = "A", b: str = "B") -> str:
    """The whole page; `a` and `b` are what the sides are called."""
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(a)} against {_text(b)}: {_text(found.verdict)}</title>",
        f"<style>{STYLE}{_OWN_STYLE}</style></head><body>",
        f"<h1>{_text(a)} against {_text(b)}</h1>",
        f'<p class="{"bad" if found.verdict == "different" else "good"}"><b>{_text(WORDS[found.verdict])}</b> '
        f"{_text(found.reason)}</p>",
        *(_fault(fault, first=number == 0) for number, fault in enumerate(found.faults)),
        _resumed(found),
        _preflight(found),
        _losses(found),
        _rows(found),
        f"<script>{_SCRIPT}</script></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def write(found: Comparison, path: str | Path, a: str = "A", b: str = "B") -> None:
    """Write the page to a file, which appears whole or not at all."""
    write_whole(path, page(found, a, b), "the page")


def _text(value: object) -> str:
    return escape(plain(str(value), 2000))


def _fault(fault: Divergence, *, first: bool) -> str:
    other = f" ({fault.module_b} in B)" if fault.module_b != fault.module else ""
    rank = f", rank {fault.rank}" if fault.rank is not None else ""
    terms = [
        ("where", f"<code>{_text(fault.module or 'the model itself')}{_text(other)} {_text(fault.tensor)}</code>"),
        ("operator", _text(fault.op or "")),
        ("line", f"<code>{_text(fault.file)}:{fault.line}</code>" if fault.file else ""),
        ("error", f"{number(fault.error)}, where rounding explains {number(fault.floor)}"),
        ("cause", _text(fault.likely_cause)),
    ]
    said = "".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in terms if text)
    title = "First divergence" if first else "Also"
    return f"<article><h3>{title}: step {fault.step}, {_text(fault.phase)}{rank}</h3><dl>{said}</dl></article>"


def _resumed(found: Comparison) -> str:
    if not found.resumed:
        return ""
    words = {True: "restored", False: "<b class=bad>not restored</b>", None: "cannot be told"}
    rows = "".join(f"<tr><td>{_text(one.what)}<td>{words[one.restored]}<td>{_text(one.why)}" for one in found.resumed)
    return f"<h2>What the resumed training got back</h2><table>{rows}</table>"


def _preflight(found: Comparison) -> str:
    if not found.preflight:
        return "<h2>Before any step</h2><p>Nothing differs.</p>"
    rows = "".join(
        f"<tr><td>{_text(one.what)}<td>{_text(short(one.a))}<td>{_text(short(one.b))}" for one in found.preflight
    )
    return f'<h2>Before any step</h2><div class="wide"><table><tr><th>what differs<th>A<th>B{rows}</table></div>'


def _losses(found: Comparison) -> str:
    drawn = curves(found.losses)
    if not drawn:
        return ""
    share = within(found.losses)
    return (
        f"<h2>Losses</h2><p>{share:.0%} of {len(found.losses)} steps lie within {BAND * 1000:g}‰ of A's "
        f"(the band). A is the full line, B the broken one.</p>{drawn}"
    )


def _rows(found: Comparison) -> str:
    if not found.rows:
        return ""
    first = found.first_divergence
    lines = []
    marked = False
    for row in _around(found.rows, first):
        own = first is not None and not marked and _is(row, first)
        marked = marked or own
        lines.append(_row(row, own))
    left = len(found.rows) - len(lines)
    more = f"<p>{left} more rows are in --json.</p>" if left else ""
    head = "<th>step<th>phase<th>A<th>shape<th>mean<th>l2<th>B<th>shape<th>mean<th>l2<th>error<th>floor<th>verdict"
    return (
        "<h2>Side by side</h2><p>In order of execution. A click, or the arrow keys, select a tensor on both sides.</p>"
        f'<div class="pair"><table><thead><tr>{head}</thead><tbody>{"".join(lines)}</tbody></table></div>{more}'
    )


def _around(rows: Sequence[dict[str, Any]], first: Divergence | None) -> Sequence[dict[str, Any]]:
    """As many rows as a page bears, the first divergence in their middle."""
    if len(rows) <= MOST_ROWS:
        return rows
    at = next((place for place, row in enumerate(rows) if first is not None and _is(row, first)), 0)
    begin = min(max(0, at - MOST_ROWS // 2), len(rows) - MOST_ROWS)
    return rows[begin : begin + MOST_ROWS]


def _is(row: dict[str, Any], first: Divergence) -> bool:
    return (row.get("step", 0), row["module"], row["tensor"], row["verdict"]) == (
        first.step,
        first.module,
        first.tensor,
        "different",
    )


def _row(row: dict[str, Any], first: bool) -> str:
    ours, theirs = row.get("a") or {}, row.get("b") or {}
    kind = f"{_text(row['verdict'])}{' first' if first else ''}"
    error = "∞" if math.isinf(row["error"]) else number(float(row["error"]))
    cells = [
        f"<td class=n>{_text(row.get('step', ''))}<td>{_text(row.get('phase', ''))}",
        f"<td>{_text(row['module'] or 'the model')} <small>{_text(row['tensor'])}</small>",
        _numbers(row.get("shape"), ours),
        f"<td class=b>{_text(row['module_b'] or 'the model')}",
        _numbers(row.get("shape_b"), theirs),
        f"<td class=n>{error}<td class=n>{number(float(row['floor']))}<td>{_text(row['verdict'])}",
    ]
    return f'<tr class="{kind}" tabindex="0" aria-selected="false">{"".join(cells)}</tr>'


def _numbers(shape: Any, stats: dict[str, Any]) -> str:
    sizes = "×".join(map(str, shape)) if shape else ""
    return f"<td>{_text(sizes)}<td class=n>{number(stats.get('mean'))}<td class=n>{number(stats.get('l2'))}"
