"""The values of a tensor: slices, heat map, histogram, difference, images, downloads."""

from __future__ import annotations

import io
import re
from typing import Any

import msgspec
import numpy as np
import safetensors.numpy
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tensight.errors import NameNotFound, UsageError
from tensight.records import Observation, TensorInfo
from tensight.runs import picture, slicing
from tensight.server import twins
from tensight.server.routes.asking import house, number, recording
from tensight.server.tensor_answers import TensorPage, TensorValues
from tensight.server.wire import Json
from tensight.stats import statistics
from tensight.store import Reader

ROWS, COLUMNS = 60, 24
MOST_HEAT = 1024
LOOK_BACK = 2_000
Array = np.ndarray[Any, Any]


def page(request: Request) -> Response:
    """What is known of a tensor at a step."""
    run = recording(request)
    with run.lock:
        reader, info = twins.asked(request, run)
        numbers = reader.steps.numbers
        step = number(request, "step", numbers[-1] if numbers else 0)
        assert step is not None
        seen = _seen(reader, info, step, 2)
        now = seen[0] if seen else (step, None)
        before = seen[1] if len(seen) > 1 else (-1, None)
        kept = tuple(sorted(one for one, ids in reader.kept.items() if info.id in ids))
        hits = reader.steps.head(now[0]).hits if now[1] is not None else ()
        return Json(
            TensorPage(
                info=info,
                name=info.name,
                rank=reader.rank,
                step=step,
                seen=now[1],
                seen_step=now[0],
                before=before[1],
                before_step=before[0],
                kept=kept,
                hits=tuple(hit for hit in hits if hit.tensor == info.id),
                ranks=tuple(sorted(run.readers)),
                images=picture.image_count(info.shape) if info.kind in ("input", "module_input") else 0,
            )
        )


def values(request: Request) -> Response:
    """A slice: a page of its values, its statistics, histogram and quantiles; or the same of a difference."""
    array, dtype, text = _sliced(request)
    other = _other(request)
    found = None
    if other is not None:
        found, array = picture.difference(array, other[0], *_tolerance(request))
    drawn = picture.matrix(array)
    row = min(max(0, number(request, "row") or 0), max(0, drawn.shape[0] - 1))
    column = min(max(0, number(request, "column") or 0), max(0, drawn.shape[1] - 1))
    cells = drawn[row : row + ROWS, column : column + COLUMNS]
    return Json(
        TensorValues(
            slice=text,
            shape=array.shape,
            dtype=dtype,
            stats=statistics(np.ascontiguousarray(picture.reals(array))),
            histogram=picture.histogram(array),
            quantiles=picture.quantiles(array),
            rows=drawn.shape[0],
            columns=drawn.shape[1],
            row=row,
            column=column,
            cells=tuple(tuple(line) for line in cells.tolist()),
            difference=found,
            other=other[1] if other is not None else "",
        )
    )


def heat(request: Request) -> Response:
    """A heat map: four bytes with the length of a JSON object, the object, then one or three planes of float32."""
    array, _, _ = _sliced(request)
    other = _other(request)
    if other is not None:
        array = picture.difference(array, other[0], *_tolerance(request))[1]
    made = picture.heat(array, min(MOST_HEAT, max(16, number(request, "most") or 512)))
    planes = [made.mean] if made.mean is made.least else [made.mean, made.least, made.greatest]
    meta = {"rows": made.rows, "columns": made.columns, "height": made.mean.shape[0], "width": made.mean.shape[1]}
    head = msgspec.json.encode(meta)
    head += b" " * (-len(head) % 4)  # the planes are read as floats, which must begin at a multiple of four
    body = b"".join([len(head).to_bytes(4, "little"), head, *(plane.astype("<f4").tobytes() for plane in planes)])
    return Response(body, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


def image(request: Request) -> Response:
    """One of the images in a tensor, as PNG."""
    run = recording(request)
    with run.lock:
        reader, info = twins.asked(request, run)
        array, _ = _array(reader, info, number(request, "step"))
    return Response(
        picture.image(array, number(request, "image") or 0),
        media_type="image/png",
        headers={"Cache-Control": "no-store"},
    )


def download(request: Request) -> Response:
    """A slice as a file: .npy, or safetensors with the tensor's own dtype in its metadata."""
    array, dtype, _ = _sliced(request)
    run = recording(request)
    with run.lock:
        _, info = twins.asked(request, run)
    step = number(request, "step")
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{info.name}.{info.slot}.{info.kind}")[:100].strip("._") or "tensor"
    if request.query_params.get("format", "npy") == "safetensors":
        plain = np.ascontiguousarray(array) if array.dtype.kind != "c" else np.stack([array.real, array.imag], -1)
        data = safetensors.numpy.save({"tensor": plain}, metadata={"dtype": dtype, "step": str(step), "name": name})
        ending = "safetensors"
    else:
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        data, ending = file.getvalue(), "npy"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.step-{step}.{ending}"',
        "Cache-Control": "no-store",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)


def _seen(reader: Reader, info: TensorInfo, step: int, most: int) -> list[tuple[int, Observation]]:
    """The last looks at a tensor up to a step, the newest first."""
    found: list[tuple[int, Observation]] = []
    wanted = frozenset((info.id,))
    for place in [one for one in reader.steps.numbers if one <= step][: -LOOK_BACK - 1 : -1]:
        seen = reader.steps.some(place, wanted).observations
        if seen:
            found.append((place, seen[-1]))
            if len(found) == most:
                break
    return found


def _array(reader: Reader, info: TensorInfo, step: int | None) -> tuple[Array, str]:
    kept = None if step is None else reader.tensor(step, info.id)
    if kept is None:
        raise NameNotFound(
            f"The values of this tensor at step {step} were not kept: run again with --steps {step} to keep them."
        )
    return kept.array, kept.dtype


def _sliced(request: Request) -> tuple[Array, str, str]:
    run = recording(request)
    with run.lock:
        reader, info = twins.asked(request, run)
        array, dtype = _array(reader, info, number(request, "step"))
    index = _index(request, array)
    return np.asarray(array[index]), dtype, slicing.shown(index, array.ndim)


def _index(request: Request, array: Array) -> tuple[slicing.Index, ...]:
    return slicing.parse(request.query_params.get("slice", "")[:500], array.shape)


def _other(request: Request) -> tuple[Array, str] | None:
    """What it is compared with: the same tensor at another step, on another rank or in another run."""
    step, rank = number(request, "other_step"), number(request, "other_rank")
    name = request.query_params.get("other_run", "")
    if step is None and rank is None and not name:
        return None
    run = recording(request)
    with run.lock:
        reader, info = twins.asked(request, run)
    there = house(request).library.find(name) if name else run
    there.refresh()
    with there.lock:
        other = there.reader(rank if rank is not None else None if name else reader.rank)
        twin = twins.twin(other, info, "The other one has no such tensor.")
        at = step if step is not None else number(request, "step")
        array, _ = _array(other, twin, at)
    said = [f"step {at}", f"rank {other.rank}" if other.rank != reader.rank else "", f"run {there.id}" if name else ""]
    return np.asarray(array[_index(request, array)]), ", ".join(one for one in said if one)


def _tolerance(request: Request) -> tuple[float, float]:
    found = []
    for name, default in (("rtol", 1e-5), ("atol", 1e-8)):
        text = request.query_params.get(name, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = -1.0
        if not 0.0 <= value < float("inf"):
            raise UsageError(f"{name} must be a number that is not negative, not {text[:40]!r}.")
        found.append(value)
    return found[0], found[1]


ROUTES = [
    Route("/api/runs/{run}/tensor", page),
    Route("/api/runs/{run}/tensor/values", values),
    Route("/api/runs/{run}/tensor/heat", heat),
    Route("/api/runs/{run}/tensor/image", image),
    Route("/api/runs/{run}/tensor/download", download),
]
