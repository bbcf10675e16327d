"""Runs the user's program under a session and says how it ended: the heart of `tensight run`."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from tensight.errors import TensightError
from tensight.records import Finding
from tensight.records.run import Ended
from tensight.session import afterwards, startup
from tensight.session.companions import companions
from tensight.session.debugger import breakpoints
from tensight.session.program import Outcome, Program
from tensight.session.session import Companions, Session, ended_word, is_off
from tensight.session.settings import Settings, forget_launch, rank, ranks
from tensight.session.terminal import Terminal
from tensight.watchpoints.plan import in_vain


@dataclass(frozen=True)
class Ending:
    """How it all ended: the exit code to pass on, findings that are not muted, hits of the user's own watchpoints."""

    exit_code: int
    findings: tuple[Finding, ...] = ()
    hits: int = 0


def launch(
    program: Program,
    settings: Settings,
    *,
    report: Path | None = None,
    companions: Companions = companions,
    terminal: Terminal | None = None,
) -> Ending:
    """Run a program under the debugger in this process. The program's own exit code is kept."""
    if is_off():
        return Ending(program.run().exit_code)
    terminal = terminal or Terminal(rank=rank() if ranks() > 1 else 0)
    report = None if report is None else report.absolute()  # the script may end in another directory
    session = Session(settings, terminal, companions)
    terminal.known = settings.muted
    terminal.in_vain = lambda: in_vain(settings.watchpoints, list(session.recorder.tensors.values()))
    session.start()
    if ranks() > 1:
        terminal.first_to_say = lambda words: _first_to_say(session.folder, words)
    written = None
    if report is not None and rank() == 0:
        written = afterwards.attend(session.folder, report, settings.muted)
    startup.offer(session.folder, settings)
    with breakpoints():
        outcome = program.run()
    if os.getpid() != session.pid:
        return Ending(outcome.exit_code)  # a child that the script forked ends here; the run is its parent's
    if ranks() > 1:
        forget_launch(session.folder)
    try:
        return _finish(session, terminal, outcome, report)
    except Exception as error:  # whatever happens to us, the script's own exit code is passed on
        terminal.failed("ending", error, again=False)
        return Ending(outcome.exit_code)
    finally:
        if written is not None:
            written()


def _finish(session: Session, terminal: Terminal, outcome: Outcome, target: Path | None) -> Ending:
    # imported when the script is over: until then its memory is the script's
    from tensight.runs import open_run
    from tensight.runs import report as reports
    from tensight.runs.blocks import crash_block
    from tensight.runs.verdict import own_hits

    crashed = outcome.error is not None and not outcome.interrupted
    crash = None
    if crashed and outcome.error is not None:
        from tensight.session.crashing import crash_of  # knows what errors mean: a large part of the code

        crash = crash_of(outcome.error)
    stopped = bool(session.recorder.stopping)
    session.finish(
        ended_word(outcome.exit_code, interrupted=outcome.interrupted, stopped=stopped, crashed=crashed),
        script_exit=outcome.exit_code,
        crash=crash,
    )
    if crash is not None:
        terminal.block(crash_block(crash))
    findings: tuple[Finding, ...] = ()
    hits = steps = known = 0
    count = ranks()
    try:
        # as recorded, by every rank: reading the run again costs little and shows that it can be read
        run = open_run(session.named if session.named.absolute() == session.folder else session.folder)
        steps, count = run.step_count, reports.rank_count(run)
        findings = tuple(f for f in run.findings if f.key not in session.settings.muted and not f.muted)
        known = len(run.findings) - len(findings)
        hits = own_hits(run)
        if target is not None:
            reports.write(run, target, muted=session.settings.muted)
    except TensightError as error:
        terminal.line(str(error))
        findings = tuple(session.findings)
    except OSError as error:
        terminal.line(f"the run could not be read again: {error}")
        findings = tuple(session.findings)
    for finding in findings:
        terminal.say(finding)
    if not terminal.rank:
        early = ", then the script failed" if crashed else ", then it was interrupted" if outcome.interrupted else ""
        if session.recorder.stopping and not early:
            terminal.line(f"the training was stopped: {session.recorder.stopping}")
        _last_words(session, terminal, steps, count, len(findings), early, crashed=crashed, known=known, hits=hits)
    return Ending(outcome.exit_code, findings, hits)


def _first_to_say(folder: Path, words: str) -> bool:
    """Whether no other rank of this run has said so: the first one leaves a mark."""
    mark = folder / "said" / hashlib.sha256(words.encode()).hexdigest()[:16]
    try:
        mark.parent.mkdir(exist_ok=True)
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True  # twice is better than never
    return True


def _last_words(
    session: Session,
    terminal: Terminal,
    steps: int,
    count: int,
    findings: int,
    early: str,
    *,
    crashed: bool,
    known: int,
    hits: int,
) -> None:
    from tensight.runs.verdict import hits_in_words, nothing_wrong

    end = session.end
    ended: Ended = "failed" if crashed else end.ended if end is not None else "finished"
    cost = f", watching took {end.watch_seconds:.1f} s" if end and end.watch_cost else ""
    if end and end.watch_cost and end.watch_seconds > 1:
        cost += f" ({100 * (end.watch_cost - 1):.1f} %)"
    verdict = (
        f"{findings} finding{'' if findings == 1 else 's'}"
        if findings
        else nothing_wrong(ended, steps=steps, known=known)
    )
    made = f"{steps} step{'' if steps == 1 else 's'}" + (f" on {count} ranks" if count > 1 else "")
    terminal.line(f"{made}{early}{cost}; {verdict}{hits_in_words(hits)}")
    terminal.line(f"recorded in {session.named}; see it again: tensight view {session.named}")
