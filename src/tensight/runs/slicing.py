"""Slices of tensors, written as in Python: '[0, :, 3:5]'."""

from __future__ import annotations

import re

from tensight.errors import UsageError

_PART = re.compile(r"\s*(-?\d+)?\s*(?:(:)\s*(-?\d+)?\s*(?::\s*(-?\d+)?\s*)?)?")
Index = int | slice


def parse(text: str, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """The slice that a text means for a shape; dimensions that are not named come whole.

    >>> parse("[0, :, 3:5]", (2, 3, 8))
    (0, slice(None, None, None), slice(3, 5, None))
    >>> parse("", (2, 3))
    ()
    """
    inside = text.strip()
    if inside.startswith("[") and inside.endswith("]"):
        inside = inside[1:-1].strip()
    if not inside:
        return ()
    pieces = inside.split(",")
    if len(pieces) > 1 and not pieces[-1].strip():
        pieces.pop()
    if "..." in inside:
        pieces = _spelled_out(text, [piece.strip() for piece in pieces], len(shape))
    if len(pieces) > len(shape):
        raise UsageError(f"{_short(text)} names {len(pieces)} dimensions; the tensor has {len(shape)}.")
    return tuple(_piece(text, piece, length, place) for place, (piece, length) in enumerate(zip(pieces, shape)))


def shown(index: tuple[Index, ...], dimensions: int) -> str:
    """A slice as text.

    >>> shown((0, slice(3, 5)), 3)
    '[0, 3:5, :]'
    """
    parts = [str(one) if isinstance(one, int) else _words(one) for one in index]
    return f"[{', '.join(parts + [':'] * (dimensions - len(parts)))}]"


def _spelled_out(text: str, pieces: list[str], dimensions: int) -> list[str]:
    if pieces.count("...") != 1:
        raise UsageError(f"{_short(text)}: '...' may stand once.")
    place = pieces.index("...")
    return pieces[:place] + [":"] * (dimensions - len(pieces) + 1) + pieces[place + 1 :]


def _piece(text: str, piece: str, length: int, place: int) -> Index:
    match = _PART.fullmatch(piece)
    if match is None or not piece.strip() or any(len(one or "") > 18 for one in match.groups()):
        raise UsageError(f"{_short(text)}: {_short(piece.strip())} is no slice; write e.g. [0, :, 3:5].")
    start, colon, stop, step = match.groups()
    if colon is None:
        number = int(start)
        if not -length <= number < length:
            raise UsageError(f"{_short(text)}: dimension {place} has {length} elements, there is no {number}.")
        return number
    if step is not None and int(step) == 0:
        raise UsageError(f"{_short(text)}: a step of 0 leads nowhere.")
    return slice(*(None if one is None else int(one) for one in (start, stop, step)))


def _words(one: slice) -> str:
    start, stop = ("" if end is None else str(end) for end in (one.start, one.stop))
    return f"{start}:{stop}" + ("" if one.step is None else f":{one.step}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
