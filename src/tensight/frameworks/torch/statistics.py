"""One pass over a tensor, where it lives: the native kernel on CPU, torch reductions elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import torch

from tensight.frameworks.memory import OUT_OF_MEMORY, is_lack_of_memory
from tensight.frameworks.torch import reductions
from tensight.frameworks.torch.shards import PLAIN, local
from tensight.records import Needs, Stats, Within
from tensight.stats import native as kernel

ORDINARY = Needs()


class CannotJudge(Exception):
    """A tensor whose values cannot be read; `code` is an ErrorCode."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Job(NamedTuple):
    """One tensor of a list call. `scale` is what the values are to be divided by (loss scaling)."""

    tensor: torch.Tensor
    needs: Needs = ORDINARY
    before: torch.Tensor | None = None
    scale: float = 1.0


native: ModuleType | None = kernel if kernel.available() else None
if native is not None:
    # the threads that torch's own operators run on; nothing is said where it has others
    native.share_threads(str(Path(torch.__file__).parent / "lib" / "libgomp.so.1"))
_NAMES: dict[torch.dtype, str] = {}
_CODES: dict[torch.dtype, int] = {
    dtype: kernel.DTYPES[name] for name in kernel.DTYPES if isinstance(dtype := getattr(torch, name, None), torch.dtype)
}


_REAL_CODES = {dtype: code for dtype, code in _CODES.items() if dtype.is_floating_point}
_PLAIN_CODES = {dtype: code for dtype, code in _CODES.items() if not dtype.is_complex}
_STRIDED = torch.strided


def dtype_name(dtype: torch.dtype) -> str:
    """
    >>> dtype_name(torch.bfloat16)
    'bfloat16'
    """
    name = _NAMES.get(dtype)
    if name is None:
        name = _NAMES[dtype] = str(dtype).removeprefix("torch.")
    return name


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The dense, real tensor to look at in place of this one; raises CannotJudge where there is none."""
    plain = type(tensor) in PLAIN and tensor.is_cpu and tensor.layout is _STRIDED
    if plain and tensor.dtype in _PLAIN_CODES and not tensor.is_neg():
        return tensor if tensor.data_ptr() else _without_memory(tensor)
    if type(tensor) not in PLAIN:
        tensor = _unwrapped(tensor)
    if tensor.layout is not torch.strided:
        tensor = _values(tensor)
    if tensor.device.type == "meta":
        raise CannotJudge("no_value")
    if tensor.is_quantized:
        raise CannotJudge("dtype")
    if tensor.is_complex():
        return torch.view_as_real(tensor.detach().resolve_conj())
    if tensor.is_neg():
        return tensor.detach().resolve_neg()
    return tensor


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros that forward-mode differentiation does not write down; or a tensor whose memory was given back."""
    if tensor.numel() and not tensor._is_zerotensor():
        raise CannotJudge("no_value")
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    part = local(tensor)  # of a DTensor what this rank holds
    if part is not tensor:
        return part
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise CannotJudge("no_value")
    if hasattr(type(tensor), "__torch_dispatch__") and type(tensor).__torch_dispatch__ is not (
        torch.Tensor.__torch_dispatch__
    ):
        raise CannotJudge("no_value")  # FakeTensor and its like hold no values of their own
    return tensor


def _values(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        if tensor.layout is torch.sparse_coo:
            return tensor.detach().coalesce().values()
        if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
            return tensor.detach().values()
    raise CannotJudge("dtype")


def one(tensor: torch.Tensor, needs: Needs = ORDINARY, before: torch.Tensor | None = None, scale: float = 1.0) -> Stats:
    """Statistics of one tensor. Raises CannotJudge when its values cannot be read."""
    if before is None and scale == 1.0 and native is not None and type(tensor) in PLAIN and tensor.is_cpu:
        code = _REAL_CODES.get(tensor.dtype)
        if code is not None and tensor.layout is _STRIDED and tensor.is_contiguous() and not tensor.is_neg():
            address = tensor.data_ptr()
            if address:  # nearly always we come to here
                try:
                    if needs.ranges:
                        return native.contiguous(address, code, tensor.numel(), needs)
                    return native.plain(address, code, tensor.numel())
                except MemoryError:
                    raise CannotJudge(OUT_OF_MEMORY) from None
    answer = many((Job(tensor, needs, before, scale),))[0]
    if isinstance(answer, CannotJudge):
        raise CannotJudge(
            answer.code
        )  # one that a local holds would hold this frame, and the tensor, until a collection
    return answer


def many(jobs: Sequence[Job]) -> list[Stats | CannotJudge]:
    """Statistics of many tensors, those in CPU memory by one call into the kernel."""
    answers: list[Any] = [None] * len(jobs)
    items: list[Any] = []
    asked: list[Needs | None] = []
    places: list[int] = []
    alive = []  # what was made here must live until the kernel has read it
    for place, (tensor, needs, before, scale) in enumerate(jobs):
        try:
            values = readable(tensor)
            earlier = None
            if before is not None and before.shape == tensor.shape and before.dtype == tensor.dtype:
                earlier = readable(before)
        except (CannotJudge, RuntimeError, MemoryError) as error:
            answers[place] = _why(error)
            continue
        if not values.numel():
            answers[place] = Stats(0)
            continue
        if scale != 1.0:
            needs = scaled_needs(needs, scale)
        code = _CODES.get(values.dtype)
        if native is None or code is None or not values.is_cpu:
            try:
                answers[place] = reductions.reduce(values, needs, earlier)
            except (RuntimeError, MemoryError) as error:
                answers[place] = _why(error)
            continue
        items.append(_item(values, code, earlier))
        asked.append(needs if needs.ranges or earlier is not None else None)
        places.append(place)
        alive.append((values, earlier))
    if items:
        for place, stats in zip(places, _by_kernel(items, asked)):
            answers[place] = stats
    for place, job in enumerate(jobs):
        if job.scale != 1.0 and isinstance(answers[place], Stats):
            answers[place] = unscaled(answers[place], job.needs, job.scale)
    return answers


def _why(error: Exception) -> CannotJudge:
    """Why a tensor cannot be judged, without the frames in which it was found out, which hold tensors; an error that
    does not tell is raised on."""
    if isinstance(error, CannotJudge):
        return CannotJudge(error.code)
    if is_lack_of_memory(error):
        return CannotJudge(OUT_OF_MEMORY)
    raise error


def _by_kernel(items: list[Any], asked: list[Needs | None]) -> list[Stats | CannotJudge]:
    """By one call; where memory is short one by one, so that only those are lost which it does not do for."""
    assert native is not None
    try:
        return list(native.many(items, asked))
    except MemoryError as error:
        if len(items) == 1:
            return [_why(error)]
        return [answer for item, needs in zip(items, asked) for answer in _by_kernel([item], [needs])]


def _item(values: torch.Tensor, code: int, before: torch.Tensor | None) -> tuple:
    if before is None:
        layout: Any = values.numel() if values.is_contiguous() else (tuple(values.shape), values.stride())
        return values.data_ptr(), code, layout, None
    if values.is_contiguous() and before.is_contiguous():
        layout = values.numel()
    else:
        layout = (tuple(values.shape), values.stride(), before.stride())
    return values.data_ptr(), code, layout, before.data_ptr()


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its values fill one piece of memory, in the order of one of the usual layouts."""
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def copy_values(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copy tensors into others that are laid out alike."""
    pieces = []
    rest: list[tuple[torch.Tensor, torch.Tensor]] = []
    for target, source in zip(targets, sources):
        if native is not None and source.is_cpu and type(source) in PLAIN and _is_dense(source):
            pieces.append((target.data_ptr(), source.data_ptr(), source.nbytes))
        else:
            rest.append((target, source))
    if native is not None and pieces:
        native.copy(pieces)
    if rest:
        with torch.no_grad():
            torch._foreach_copy_([target for target, _ in rest], [source.detach() for _, source in rest])


def scaled_needs(needs: Needs, scale: float) -> Needs:
    """What to ask of values that are still multiplied by `scale`."""
    if not needs.ranges:
        return needs
    return msgspec.structs.replace(needs, ranges=tuple((start * scale, end * scale) for start, end in needs.ranges))


def unscaled(stats: Stats, needs: Needs, scale: float) -> Stats:
    """Statistics as they are after division by `scale`.

    >>> unscaled(Stats(count=1, positive=1, min=8.0, max=8.0, mean=8.0, abs_mean=8.0), Needs(), 4.0).mean
    2.0
    """

    def divided(value: float | None) -> float | None:
        return None if value is None else value / scale

    return msgspec.structs.replace(
        stats,
        min=divided(stats.min),
        max=divided(stats.max),
        mean=divided(stats.mean),
        abs_mean=divided(stats.abs_mean),
        std=divided(stats.std),
        l2=divided(stats.l2),
        within=tuple(Within(start, end, found.count) for (start, end), found in zip(needs.ranges, stats.within)),
    )


def scalar(value: float, needs: Needs = ORDINARY) -> Stats:
    """Statistics of a single number."""
    within = tuple(Within(start, end, int(start <= value <= end)) for start, end in needs.ranges)
    if value != value:
        return Stats(1, nan=1, within=within)
    if value in (float("inf"), float("-inf")):
        return Stats(1, pos_inf=int(value > 0), neg_inf=int(value < 0), within=within)
    return Stats(
        1,
        zero=int(value == 0),
        negative=int(value < 0),
        positive=int(value > 0),
        min=value,
        max=value,
        mean=value,
        abs_mean=abs(value),
        std=0.0,
        l2=abs(value),
        within=within,
    )
