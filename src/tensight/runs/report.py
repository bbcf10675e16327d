"""The report of a run: what machines read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tensight.records import Finding, Hit, Source
from tensight.runs.words import plain
from tensight.runs.writing import write_whole

if TYPE_CHECKING:
    from tensight.runs.run import Run

SCHEMA = 1
_OF_CALLS = ("output", "activation", "module_input", "output_gradient", "input_gradient")


def build(run: Run, *, muted: Collection[str] = ()) -> dict[str, Any]:
    """The report as plain data that JSON can carry: NaN and infinities are strings.

    Muted findings, and those whose key is in `muted`, are left out.
    """
    info, end = run.info, run.end
    shown = [finding for finding in run.findings if not finding.muted and finding.key not in muted]
    report = {
        "tensight": info.tensight,
        "schema": SCHEMA,
        "run": {
            "dir": str(run.path),
            "framework": info.framework,
            "framework_version": info.framework_version,
            "command": info.command,
            "ranks": rank_count(run),
            "steps": run.step_count,
            "ended": run.ended,
            "script_exit": end.script_exit if end else None,
            "watch_cost": end.watch_cost if end else None,
            "started": info.started,
            "level": info.level,
            "budget": info.budget,
            "budget_note": end.budget_note if end else "",
        },
        "hits": hit_rows(run.hits, run),
        "findings": [_finding(finding) for finding in shown],
        "coverage": _whole(run.coverage),
        "replays": [_whole(replay) for replay in run.replays],
        "lost": run.lost,
        "crash": run.crash,
        "history": [{"run": leg.run.name, "first": leg.first, "steps": leg.steps} for leg in run.history],
        "audit": [_whole(entry) for entry in run.audit],
    }
    result: dict[str, Any] = plain(report)
    return result


def rank_count(run: Run) -> int:
    """How many ranks there were. A script that starts them is none, though it leaves a recording when it fails."""
    trained = [reader for reader in run.readers.values() if len(reader.steps)]
    return max(len(trained or run.readers), *(reader.info.ranks for reader in trained or run.readers.values()))


def write(run: Run, path: str | Path, *, muted: Collection[str] = ()) -> None:
    """Write the report to a file, which appears whole or not at all."""
    text = json.dumps(build(run, muted=muted), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, text + "\n", "the report")


def hit_rows(hits: Iterable[Hit], run: Run) -> list[dict[str, Any]]:
    """Hits as the report holds them. Calls of a module that is called several times are 'path#0', 'path#1'."""
    tensors = (info for reader in run.readers.values() for info in reader.tensors.values())
    several = {(info.network, info.node) for info in tensors if info.call and info.node and info.kind in _OF_CALLS}
    return [_hit(hit, several) for hit in hits]


def _hit(hit: Hit, several: Collection[tuple[str, str]]) -> dict[str, Any]:
    called = hit.kind in _OF_CALLS and (hit.network, hit.node) in several
    return {
        "step": hit.step,
        "rank": hit.rank,
        "watchpoint": hit.name,
        "condition": hit.condition,
        "kind": hit.kind,
        "node": f"{hit.node}#{hit.call}" if called else hit.node,
        "slot": hit.slot,
        "actual": hit.actual,
        "threshold": hit.threshold,
        "error": hit.error,
        "op": hit.op or None,
        "source": _source(hit.source),
        "network": hit.network,
        "note": hit.note,
        "recommended": hit.recommended,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "fault": finding.fault,
        "category": finding.category,
        "title": finding.title,
        "confidence": finding.confidence,
        "since_step": finding.since_step,
        "rank": finding.rank,
        "where": _whole(finding.where),
        "why": finding.why,
        "evidence": [_whole(evidence) for evidence in finding.evidence],
        "fix": finding.fix,
        "then": finding.then,
        "since": finding.since,
        "confirm": finding.confirm,
        "replay": finding.replay,
        "key": finding.key,
    }


def _source(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else {"file": source.file, "line": source.line, "code": source.code}


def _whole(record: msgspec.Struct | None) -> dict[str, Any] | None:
    """A record with every field, also those that have their defaults."""
    if record is None:
        return None
    fields = msgspec.structs.asdict(record)
    return {name: _inside(value) for name, value in fields.items()}


def _inside(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _whole(value)
    if isinstance(value, (list, tuple)):
        return [_inside(item) for item in value]
    return value
