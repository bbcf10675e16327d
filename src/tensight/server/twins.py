"""A tensor and its twin: ranks and runs number their tensors each in its own way, names are what they share."""

from __future__ import annotations

import re

from starlette.requests import Request

from tensight.errors import NameNotFound, UsageError
from tensight.records import TensorInfo
from tensight.server.recording import Recording
from tensight.server.routes.asking import number
from tensight.store import Reader


def asked(request: Request, run: Recording) -> tuple[Reader, TensorInfo]:
    """The tensor of the query on the rank of the query; '12@0' is the one that rank 0 counts as its 12th."""
    text = request.query_params.get("tensor", "")
    match = re.fullmatch(r"(\d{1,15})(?:@(\d{1,9}))?", text, re.ASCII)
    if match is None:
        raise UsageError(f"tensor must be a number, or a number and its rank as in '12@0', not {text[:40]!r}.")
    reader = run.reader(number(request, "rank"))
    home = reader if match[2] is None else run.reader(int(match[2]))
    info = home.tensors.get(int(match[1]))
    if info is None:
        raise NameNotFound("There is no such tensor in this run.")
    if home is not reader:
        info = twin(reader, info, f"Rank {reader.rank} has no such tensor.")
    return reader, info


def twin(reader: Reader, info: TensorInfo, missing: str) -> TensorInfo:
    """The same tensor as another rank or run knows it; the name of the network may differ."""
    same = [
        one
        for one in reader.tensors.values()
        if (one.kind, one.node, one.slot, one.call, one.op) == (info.kind, info.node, info.slot, info.call, info.op)
    ]
    if not same:
        raise NameNotFound(missing)
    return next((one for one in same if one.network == info.network), same[0])
