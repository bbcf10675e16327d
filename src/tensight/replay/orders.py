"""What a copy is told to do, what it answers, and whether it gave the same bits."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec

from tensight.records import Replay

Losses = tuple[bytes, ...]


class Order(msgspec.Struct, frozen=True):
    """Run on to step `bad`, looking from step `suspect` on; `losses` are those the training had, by step.

    `tensors` are the numbers by which the training knows its tensors: a copy that was made early does not.
    """

    bad: int
    suspect: int
    losses: dict[int, Losses] = {}
    tensors: dict[str, int] = {}


class Answer(msgspec.Struct, frozen=True):
    """`late`: the copy was made when the weights were bad already. `kept`: tensors of the bad step that were stored."""

    replay: Replay | None = None
    late: bool = False
    kept: tuple[int, ...] = ()
    kept_bytes: int = 0


def bits(losses: Sequence[float]) -> Losses:
    """Losses as bytes, so that NaN equals NaN and -0 differs from 0.

    >>> bits([float("nan")]) == bits([float("nan")])
    True
    """
    return tuple(struct.pack("<d", value) for value in losses)


def same_bits(training: Mapping[int, Losses], copy: Mapping[int, Losses]) -> bool:
    """Whether a copy went through the same losses as the training in every step that both know.

    >>> same_bits({1: bits([0.5])}, {1: bits([0.5]), 2: bits([0.1])})
    True
    >>> same_bits({1: bits([0.5])}, {1: bits([0.25])})
    False
    """
    return all(training[step] == seen for step, seen in copy.items() if step in training)


ORDER = msgspec.msgpack.Decoder(Order)
ANSWER = msgspec.msgpack.Decoder(Answer)
encode = msgspec.msgpack.Encoder().encode
