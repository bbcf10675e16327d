"""The last word on a run, which must not say more than is known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tensight.diagnosis.words import plural
from tensight.records.run import Ended
from tensight.runs import beats

if TYPE_CHECKING:
    from tensight.runs.run import Run


def nothing_wrong(ended: Ended, *, steps: int = 1, known: int = 0) -> str:
    """What is said when there is no finding, or none beside those that are known.

    >>> nothing_wrong("finished"), nothing_wrong("killed")
    ('nothing was found wrong', 'nothing was found wrong so far')
    >>> nothing_wrong("failed")
    'nothing else was found wrong'
    >>> nothing_wrong("finished", known=1)
    'nothing new was found wrong; 1 known finding is left out'
    >>> nothing_wrong("finished", steps=0)
    'no call of a model was seen, so nothing was judged'
    """
    if known:
        return f"nothing new was found wrong; {known} known finding{' is' if known == 1 else 's are'} left out"
    if ended == "failed":
        return "nothing else was found wrong"
    if not steps and ended == "finished":
        return "no call of a model was seen, so nothing was judged"
    return "nothing was found wrong" + (" so far" if ended in ("killed", "running", "stopped") else "")


def own_hits(run: Run) -> int:
    """How often a watchpoint that the user has set was hit."""
    return sum(1 for hit in run.hits if not hit.recommended and hit.error is None)


def hits_in_words(hits: int) -> str:
    """What is said after the findings of hits that the user has asked for.

    >>> hits_in_words(0), hits_in_words(1), hits_in_words(705)
    ('', '; 1 hit of your watchpoints', '; 705 hits of your watchpoints')
    """
    return f"; {plural(hits, 'hit')} of your watchpoints" if hits else ""


def gone_ranks(run: Run) -> list[str]:
    """Each rank of several that has ended without a word, and where it was last seen."""
    if len(run.readers) < 2:
        return []
    said: list[str] = []
    for rank, reader in run.readers.items():
        if reader.end is None and not reader.alive:
            beat = beats.read(run.path, rank)
            steps = len(reader.steps)
            made, verb = plural(steps, "step"), "is" if steps == 1 else "are"
            where = f", last seen in {beat.operation} ({beat.place})" if beat is not None and beat.operation else ""
            since = f" at {time.strftime('%H:%M:%S', time.localtime(beat.time))} or after" if beat is not None else ""
            said.append(f"rank {rank} was killed{since}, {made} of it {verb} recorded{where}")
    return said
