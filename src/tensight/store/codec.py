"""Records to bytes and back.

Records travel as msgpack maps without their defaults. Observations are many, so they travel as rows: arrays in a
fixed order, in a byte string of their own, so that a step's head is read without decoding its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from tensight.records import Change, Observation, Phase, Stats, StepRecord, Within

T = TypeVar("T")
Row = Sequence[Any]

PHASES: tuple[Phase, ...] = ("forward", "backward", "update", "evaluation")
_PHASE_NUMBER: dict[str, int] = {phase: number for number, phase in enumerate(PHASES)}

# Places in a row. A row is cut after L2 when everything behind it has its default.
TENSOR, ORDER, PHASE, COUNT, ZERO, NEGATIVE, POSITIVE, MIN, MAX, MEAN, ABS_MEAN, STD, L2 = range(13)
CHANGE, WITHIN, MICRO, NAN, POS_INF, NEG_INF, SHAPE, ERROR = range(13, 21)


def _unusual(value: object) -> object:
    """What msgspec does not know by itself: NumPy scalars become numbers, anything else its words."""
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_unusual)
_rows_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_step_decoder = msgspec.msgpack.Decoder(tuple[StepRecord, bytes, bool])


def encode(value: object) -> bytes:
    """A record as msgpack. Text that is no UTF-8 and integers beyond 64 bits are mended rather than refused."""
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(_mend(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_unusual)))


def decode(payload: bytes | memoryview, type: type[T]) -> T:
    """The record in a payload; one of UNDECODABLE when it is of another form."""
    return msgspec.msgpack.decode(payload, type=type)


def encode_step(record: StepRecord) -> bytes:
    """A step: its head, its rows as a byte string, and whether it was thinned (never, when just written)."""
    return encode((msgspec.structs.replace(record, observations=()), _encode_rows(record.observations), False))


def _array_of(count: int) -> bytes:
    """How an array of so many begins in msgpack."""
    if count < 16:
        return bytes((0x90 + count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def _encode_rows(observations: Sequence[Observation]) -> bytes:
    """The rows as one array. One after the other, as many rows at once would wake Python's garbage collector."""
    rows = bytearray(_array_of(len(observations)))
    for observation in observations:
        _encoder.encode_into(_row(observation), rows, -1)
    return bytes(rows)


def encode_thinned(head: StepRecord, rows: Sequence[Row]) -> bytes:
    """A step of which only some rows are kept."""
    return encode((head, _encoder.encode(rows), True))


def decode_step(payload: bytes | memoryview) -> StepRecord:
    """A step with its observations."""
    head, rows, _ = _step_decoder.decode(payload)
    return msgspec.structs.replace(head, observations=tuple(_observations(_rows_decoder.decode(rows))))


def decode_head(payload: bytes | memoryview) -> tuple[StepRecord, bool]:
    """A step without its observations, and whether it was thinned."""
    head, _, thinned = _step_decoder.decode(payload)
    return head, thinned


def decode_rows(payload: bytes | memoryview) -> tuple[StepRecord, list[list[Any]]]:
    """A step's head and its rows as they are."""
    head, rows, _ = _step_decoder.decode(payload)
    return head, _rows_decoder.decode(rows)


def decode_some(payload: bytes | memoryview, tensors: frozenset[int]) -> StepRecord:
    """A step with the observations of some tensors only."""
    head, rows = decode_rows(payload)
    kept = tuple(_observations(row for row in rows if row[TENSOR] in tensors))
    return msgspec.structs.replace(head, observations=kept)


def _row(o: Observation) -> tuple[Any, ...]:
    s = o.stats
    row = (
        o.tensor,
        o.order,
        _PHASE_NUMBER[o.phase],
        s.count,
        s.zero,
        s.negative,
        s.positive,
        s.min,
        s.max,
        s.mean,
        s.abs_mean,
        s.std,
        s.l2,
    )
    change = s.change
    if (
        change is None
        and not s.within
        and not o.micro
        and not s.nan
        and not s.pos_inf
        and not s.neg_inf
        and o.shape is None
        and o.error is None
    ):
        return row
    return (
        *row,
        None if change is None else msgspec.structs.astuple(change),
        [(w.start, w.end, w.count) for w in s.within] if s.within else (),
        o.micro,
        s.nan,
        s.pos_inf,
        s.neg_inf,
        o.shape,
        o.error,
    )


def _observations(rows: Iterable[Row]) -> Iterable[Observation]:
    for row in rows:
        tensor, order, phase, count, zero, negative, positive, low, high, mean, abs_mean, std, l2 = row[:CHANGE]
        if len(row) == CHANGE:
            stats = Stats(count, 0, 0, 0, zero, negative, positive, low, high, mean, abs_mean, std, l2)
            yield Observation(tensor, order, stats, PHASES[phase])
            continue
        change, ranges, micro, nan, pos_inf, neg_inf, shape, error = row[CHANGE : ERROR + 1]
        stats = Stats(
            count,
            nan,
            pos_inf,
            neg_inf,
            zero,
            negative,
            positive,
            low,
            high,
            mean,
            abs_mean,
            std,
            l2,
            tuple(Within(*one) for one in ranges),
            None if change is None else Change(*change),
        )
        yield Observation(tensor, order, stats, PHASES[phase], micro, None if shape is None else tuple(shape), error)


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else _as_float(value)
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mend(item) for item in value]
    return value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
