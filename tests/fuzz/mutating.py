"""Inputs that are nearly right: a good one with a few things changed, the same for the same seed and number."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

LONGEST = 200_000
NUMBERS = (0, 1, 2, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**63 - 1)
WORDS = tuple(
    word.encode()
    for word in [
        "NaN",
        "Infinity",
        "-1",
        "0",
        "1e999",
        "-0.0",
        "9999999999999999999999",
        "1000000000000",
        "null",
        "true",
        "[]",
        "{}",
        '""',
        "..",
        "/",
        "\\",
        "\n",
        "\x00",
        "'",
        '"',
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "=",
        "<",
        ">",
        "#",
        "%",
        "é",
        "\u202e",
        "\ufeff",
        "0x10",
        "1_000",
        "١",
        "on",
        "and",
        "or",
        "not",
        "../../etc/passwd",
        "<script>",
        "__class__",
        "!!python/name",
    ]
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def changed(corpus: Sequence[bytes], seed: int, number: int, words: Sequence[bytes] = ()) -> bytes:
    """Case `number` of a seed: one of the corpus, with one to five changes.

    >>> changed([b"abc"], 1, 5) == changed([b"abc"], 1, 5)
    True
    """
    chance = random.Random(f"{seed}/{number}")
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        _change(data, chance, corpus, words)
        if len(data) > LONGEST:
            del data[LONGEST:]
    return bytes(data)


def _change(data: bytearray, chance: random.Random, corpus: Sequence[bytes], words: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    size = chance.choice((1, 1, 2, 4, 8, 16, chance.randrange(1, 64)))
    way = chance.randrange(13)
    if way == 0 and data:
        data[at % len(data)] ^= 1 << chance.randrange(8)
    elif way == 1:
        data[at : at + size] = chance.randbytes(size)
    elif way == 2:
        del data[at:]
    elif way == 3:
        del data[at : at + size]
    elif way == 4:
        data[at:at] = chance.randbytes(size)
    elif way == 5:
        data[at:at] = bytes(data[at : at + size]) * chance.choice((1, 2, 10, 300))
    elif way == 6:
        other = chance.choice(corpus)
        start = chance.randrange(len(other) + 1)
        data[at : at + size] = other[start : start + chance.choice((size, 200))]
    elif way == 7:
        width = chance.choice((1, 2, 4, 8))
        value = chance.choice(NUMBERS) * chance.choice((1, -1)) % (1 << 8 * width)
        data[at : at + width] = value.to_bytes(width, chance.choice(("little", "big")))
    elif way in (8, 9):
        data[at : at + chance.choice((0, 0, size))] = chance.choice((*WORDS, *words, *words))
    elif way in (10, 11):
        found = list(_NUMBER.finditer(data))
        if found:
            one = chance.choice(found)
            data[one.start() : one.end()] = chance.choice((*WORDS, str(chance.choice(NUMBERS)).encode()))
    else:
        data[at:at] = chance.choice((b"[", b"(", b'{"a":', b"- ", b"\x91", b"\x81\x01", b"((", b"not ", b"-")) * (
            chance.choice((3, 60, 3000))
        )
