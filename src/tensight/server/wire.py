"""JSON that loses nothing: NaN and infinities as "nan", "inf", "-inf", integers beyond 2**53 as strings."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
from starlette.responses import Response

EXACT = 2**53


def safe(value: Any) -> Any:
    """`value`, made of builtins, with everything that JSON or JavaScript cannot hold turned into strings.

    >>> safe({"a": float("nan"), "b": [float("-inf"), -0.0], "c": 2**60})
    {'a': 'nan', 'b': ['-inf', -0.0], 'c': '1152921504606846976'}
    """
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else ("nan" if value != value else "inf" if value > 0 else "-inf")
    if kind is int:
        return value if -EXACT <= value <= EXACT else str(value)
    if kind is dict:
        return {key: safe(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [safe(item) for item in value]
    return value


def dumps(value: Any) -> bytes:
    """Any record, or builtins holding records, as JSON."""
    # The page reads names that a user's program made up: a lone surrogate must not break the answer.
    text = json.dumps(safe(msgspec.to_builtins(value)), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode()


class Json(Response):
    """An answer with data: never cached, never sniffed."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200) -> None:
        super().__init__(content, status_code, {"Cache-Control": "no-store"})

    def render(self, content: Any) -> bytes:
        return dumps(content)
