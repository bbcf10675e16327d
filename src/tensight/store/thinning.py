"""What is left of an older segment.

Of every step its head stays: loss, scalars, hits. Whole steps stay around the onset of hits, around findings and
replays, at both ends of the segment, and every k-th. Of the others the events go, and of the observations only
those stay that are extreme for their tensor inside the segment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import msgspec

from tensight.files import replacing
from tensight.records import StepRecord
from tensight.store import codec
from tensight.store.codec import ABS_MEAN, MAX, MIN, NAN, NEG_INF, POS_INF, TENSOR, Row
from tensight.store.frame import PREAMBLE, Frame, FrameKind, Gap, pack, scan
from tensight.store.segment import IndexEntry, encode_footer

AROUND = 5  # steps kept whole before and after a hit or finding
EVERY = 50  # and every so many


class Extremes:
    """For each tensor the steps of its extremes.

    These are the largest maximum, the smallest minimum, the largest and the smallest mean of absolute values, the
    first NaN or infinity and the most of them.
    """

    def __init__(self) -> None:
        # per tensor: [value, step] of each extreme, in the order of the docstring
        self._best: dict[int, list[tuple[float, int] | None]] = {}

    def look(self, step: int, rows: Iterable[Row]) -> None:
        """Take one step into account."""
        best_of = self._best
        for row in rows:
            best = best_of.get(row[TENSOR])
            if best is None:
                best = best_of[row[TENSOR]] = [None] * 6
            high = row[MAX]
            if high is not None:
                low, size = row[MIN], row[ABS_MEAN]
                if best[0] is None or high > best[0][0]:
                    best[0] = (high, step)
                if low is not None and (best[1] is None or low < best[1][0]):
                    best[1] = (low, step)
                if size is not None:
                    if best[2] is None or size > best[2][0]:
                        best[2] = (size, step)
                    if best[3] is None or size < best[3][0]:
                        best[3] = (size, step)
            if len(row) > NEG_INF:
                bad = row[NAN] + row[POS_INF] + row[NEG_INF]
                if bad:
                    if best[4] is None:
                        best[4] = (bad, step)
                    if best[5] is None or bad > best[5][0]:
                        best[5] = (bad, step)

    def steps(self) -> dict[int, set[int]]:
        """For each tensor the steps whose observation of it stays."""
        return {tensor: {found[1] for found in best if found} for tensor, best in self._best.items()}


def whole_steps(
    heads: Sequence[StepRecord], important: Iterable[int], around: int = AROUND, every: int = EVERY
) -> set[int]:
    """Numbers of the steps that stay whole."""
    numbers = [head.step for head in heads]
    keep = {number for number in numbers if number % every == 0}
    keep.update(numbers[:around])
    keep.update(numbers[-around:])
    centres = set(important)
    before: set[tuple[int, int]] = set()
    for head in heads:
        # a watchpoint that hits in every step would keep every step: where it begins to hit is what matters
        now = {(hit.watchpoint, hit.tensor) for hit in head.hits if hit.error is None}
        if now - before:
            centres.add(head.step)
        before = now
    for centre in centres:
        keep.update(range(centre - around, centre + around + 1))
    return keep


def thin(path: Path, important: set[int]) -> Generator[None, None, None]:
    """Rewrite a closed segment in place. It is a generator, so that the work is spread over many steps.

    The file is replaced as a whole when all is done; a reader sees the old or the new one.
    """
    data = path.read_bytes()
    frames: list[Frame] = []
    heads: list[StepRecord] = []
    extremes = Extremes()
    for found in scan(data[PREAMBLE.size :], PREAMBLE.size):
        if isinstance(found, Gap):
            return  # damaged: leave every byte as it is
        if found.kind == FrameKind.STEP:
            head, rows = codec.decode_rows(found.payload)
            heads.append(head)
            extremes.look(head.step, rows)
            yield
        frames.append(found)
    whole = whole_steps(heads, important)
    keep = extremes.steps()
    with replacing(path) as new, new.open("wb") as file:
        file.write(data[: PREAMBLE.size])
        index: list[IndexEntry] = []
        for frame in frames:
            if frame.kind in (FrameKind.INDEX, FrameKind.FOOTER):
                continue
            offset = file.tell()
            raw = data[frame.offset : frame.offset + frame.size]
            if frame.kind != FrameKind.STEP:
                file.write(raw)
                continue
            head, rows = codec.decode_rows(frame.payload)
            thinned = head.step not in whole
            if thinned:
                left = [row for row in rows if head.step in keep[row[TENSOR]]]
                payload = codec.encode_thinned(msgspec.structs.replace(head, events=()), left)
                raw = pack(frame.kind, payload, frame.sequence)
            size = file.write(raw)
            index.append(IndexEntry(head.step, frame.sequence, offset, size, len(head.hits), thinned))
            yield
        at = file.tell()
        sequence = frames[-1].sequence
        file.write(pack(FrameKind.INDEX, codec.encode(index), sequence))
        file.write(pack(FrameKind.FOOTER, encode_footer(at), sequence))
