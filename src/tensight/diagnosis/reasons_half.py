"""Small constants that are there to keep a value away from 0, and are 0 themselves in float16."""

from __future__ import annotations

import re

from tensight.records import Replay

SMALLEST = 2.0**-25  # what is not above half the smallest float16 rounds to 0
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?[eE]-\d+|0?\.0{6,}\d+)(?![\w.])")


def lost_constant(replay: Replay) -> str:
    """The constant in the line of an operator that its number format rounds to 0; '' where there is none.

    >>> from tensight.records import Source
    >>> line = Source("train.py", 3, "logp = torch.log(p + 1e-8)")
    >>> half = Replay(3, "exact", operator="aten.log", source=line, facts={"in.0.dtype": "float16"})
    >>> lost_constant(half), lost_constant(Replay(3, "exact", operator="aten.log", source=line))
    ('1e-8', '')
    """
    formats = {replay.facts.get(f"in.{index}.dtype") for index in range(3)}
    if replay.source is None or not replay.source.code or "float16" not in formats:
        return ""
    for written in _NUMBER.findall(replay.source.code.split("#")[0]):
        if 0 < float(written) <= SMALLEST:
            return str(written)
    return ""
