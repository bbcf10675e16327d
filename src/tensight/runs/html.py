"""A run as one HTML file that needs nothing else: findings first, the loss, hits, coverage.

Names and code lines come from the user's program: everything is escaped, and the file may load nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from tensight.records import Coverage, Finding
from tensight.runs import history
from tensight.runs.blocks import place
from tensight.runs.blocks import plain as shown
from tensight.runs.curve import curve
from tensight.runs.hits import Hits
from tensight.runs.run import Run
from tensight.runs.verdict import nothing_wrong
from tensight.runs.words import number, table
from tensight.runs.writing import write_whole

MOST_HITS = 500
LONGEST = 4000  # characters of one text

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --paper: #fff; --card: #f6f8fa; --edge: #d1d9e0;
  --bad: #c0272d; --good: #1a7f37; --line: #0969da; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #9aa4af; --paper: #0f1216; --card: #181d23;
  --edge: #333b44; --bad: #ff7b72; --good: #56d364; --line: #58a6ff; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 0; }
article { background: var(--card); border: 1px solid var(--edge); border-left: 4px solid var(--bad); border-radius: 6px;
  padding: .8rem 1rem; margin: .8rem 0; }
dl { display: grid; grid-template-columns: 6rem 1fr; gap: .2rem .8rem; margin: .5rem 0 0; } dd { margin: 0; }
dt, small, .dim { color: var(--dim); } code { font: .92em ui-monospace, monospace; }
.good { color: var(--good); } .bad { color: var(--bad); fill: var(--bad); }
div.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; } td, th { text-align: left;
  padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; overflow-wrap: normal; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: var(--dim); }
svg text.bad { fill: var(--bad); font-size: 16px; } .axis { fill: none; stroke: var(--edge); }
polyline.line { fill: none; stroke: var(--line); stroke-width: 1.5; stroke-linejoin: round; }
circle.line { fill: var(--line); }
line.mark { stroke: var(--bad); stroke-dasharray: 3 3; }
"""


def page(run: Run, findings: Sequence[Finding] | None = None) -> str:
    """The whole page; without `findings` those of the run that are not muted."""
    told = [finding for finding in run.findings if not finding.muted] if findings is None else list(findings)
    info = run.info
    facts = [
        f"{info.framework} {info.framework_version}".strip() or "no framework was used",
        f"{run.ended} after {run.step_count} step{'' if run.step_count == 1 else 's'}",
        f"{len(run.readers)} ranks" if len(run.readers) > 1 else "",
        f"tensight {info.tensight}",
    ]
    nothing = nothing_wrong(run.ended, steps=run.step_count, known=len(run.findings) - len(told))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(run.name)}: {len(told)} findings</title><style>{STYLE}</style></head><body>",
        f"<h1>{_text(run.name)}</h1>",
        f'<p class="dim"><code>{_text(" ".join(info.command))}</code><br>{_text(", ".join(filter(None, facts)))}</p>',
        _crash(run),
        "<h2>Findings</h2>",
        *(_finding(finding) for finding in told),
        "" if told else f'<p class="good">{nothing.capitalize()}.</p>',
        _losses(run, told),
        _hits(run.hits),
        _coverage(run.coverage),
        _remarks(run),
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def write(run: Run, path: str | Path, findings: Sequence[Finding] | None = None) -> None:
    """Write the page to a file, which appears whole or not at all."""
    write_whole(path, page(run, findings), "the page")


def _text(value: object) -> str:
    return escape(shown(str(value), LONGEST))


def _rows(pairs: Iterable[tuple[str, str]]) -> str:
    """Terms with HTML that is already escaped."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{said}</dd>" for term, said in pairs if said) + "</dl>"


def _finding(finding: Finding) -> str:
    note = {"exact": "rewound, looked again", "close": "rewound, looked again"}.get(finding.replay, "")
    if finding.replay and not note:
        note = f"looked again: {finding.replay}"
    evidence = "; ".join(
        f"{_text(one.what)}: {_text(number(one.value) if isinstance(one.value, float) else one.value)}"
        for one in finding.evidence
    )
    return (
        f"<article><h3>step {finding.since_step}: {_text(finding.title)}</h3><small>{_text(finding.fault)}, "
        f"{_text(finding.category)}, confidence {number(finding.confidence)}{', ' + _text(note) if note else ''}"
        f"{f', rank {finding.rank}' if finding.rank else ''}</small>"
        + _rows(
            [
                ("where", f"<code>{_text(place(finding))}</code>"),
                ("why", _text(finding.why)),
                ("since", _text(finding.since)),
                ("then", _text(" → ".join(finding.then))),
                ("fix", "<br>".join(map(_text, finding.fix))),
                ("confirm", "<br>".join(map(_text, finding.confirm))),
                ("measured", evidence),
            ]
        )
        + "</article>"
    )


def _crash(run: Run) -> str:
    crash = run.crash
    if not crash:
        return ""
    where = crash.get("where")
    place_of = ""
    if isinstance(where, dict) and where.get("file"):
        place_of = f"<code>{_text(where['file'])}:{_text(where.get('line'))} {_text(where.get('code') or '')}</code>"
    fix = crash.get("fix")
    fixes = "<br>".join(map(_text, fix)) if isinstance(fix, (list, tuple)) else ""
    title = _text(crash.get("title", "the script failed"))
    rows = [("where", place_of), ("why", _text(crash.get("why") or "")), ("fix", fixes)]
    return f"<article><h3>{title}</h3>{_rows(rows)}</article>"


def _losses(run: Run, findings: Sequence[Finding]) -> str:
    points = history.losses(run)
    legs = history.legs(run)
    marks = {leg.first: f"resumed as {shown(leg.run.name)}" for leg in legs[1:]}
    marks |= {legs[-1].first + finding.since_step: shown(finding.title) for finding in findings}
    drawn = curve(points, marks) if points else ""
    if not points:
        return "<h2>Loss</h2><p>No loss was seen.</p>"
    if not drawn:
        return f"<h2>Loss</h2><p class=bad>No loss was finite: {number(points[0][1])} from step {points[0][0]} on.</p>"
    return f"<h2>Loss</h2>{drawn}"


def _hits(hits: Hits) -> str:
    held = hits.held
    if not held:
        return "<h2>Hits of watchpoints</h2><p>None.</p>"
    rows = []
    for hit in held[:MOST_HITS]:
        values = ", ".join(f"{name} {number(value)}" for name, value in hit.actual.items())
        limits = ", ".join(f"{name} {number(value)}" for name, value in hit.threshold.items())
        own = hit.kind in ("weight", "gradient", "frozen", "buffer")
        name = f"{hit.node}.{hit.slot}".lstrip(".") if own else hit.node or "the model"
        cells = (hit.step, hit.rank, hit.condition, hit.kind, name, values, limits, hit.note)
        rows.append([shown(str(cell), 200) for cell in cells])
    left = len(held) - len(rows)
    more = f"<p>{left} more are recorded in the run.</p>" if left else ""
    head = ("step", "rank", "condition", "kind", "tensor", "value", "set", "note")
    return f'<h2>Hits of watchpoints</h2><div class="wide">{table(head, rows)}</div>{more}'


def _coverage(coverage: Coverage | None) -> str:
    if coverage is None:
        return ""
    found = ("models", "optimizers", "losses", "loaders", "scalers", "schedulers")
    rows = [(name, _text(", ".join(getattr(coverage, name)))) for name in found]
    rows.append(("watched", f"{coverage.watched} of {coverage.tensors} tensors"))
    for gap in coverage.gaps:
        rows.append(("not", f"{_text(gap.what)}: {_text(gap.reason)}{f' ({_text(gap.remedy)})' if gap.remedy else ''}"))
    return f"<h2>Coverage</h2>{_rows(rows)}"


def _remarks(run: Run) -> str:
    lines = [run.end.budget_note if run.end else "", *(f"not recorded: {line}" for line in run.lost)]
    return "".join(f"<p class=dim>{_text(line)}</p>" for line in lines if line)
