"""Statistics by torch operators: for accelerators, and for CPU where the native kernel is not there.

Every tensor is read where it lives; results come back in one transfer.
"""

from __future__ import annotations

import math

import torch

from tensight.records import Change, Needs, Stats, Within


def reduce(tensor: torch.Tensor, needs: Needs, before: torch.Tensor | None = None) -> Stats:
    """What the native kernel answers, by torch operators. `tensor` is dense, real and not empty."""
    with torch.no_grad():
        values = tensor.detach().reshape(-1)
        if values.dtype.is_floating_point:
            stats = _floats(values, needs)
        else:
            stats = _integers(values, needs)
        if before is None or not needs.change:
            return stats
        return _with_change(stats, _change(values, before.detach().reshape(-1), needs))


def _wide(values: torch.Tensor) -> torch.Tensor:
    """As float64 where the device has it, as float32 elsewhere."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def _floats(values: torch.Tensor, needs: Needs) -> Stats:
    wide = _wide(values)
    finite = torch.isfinite(wide)
    clean = torch.where(finite, wide, torch.zeros_like(wide))
    absolute = clean.abs()
    many = finite.sum().clamp(min=1)
    mean = clean.sum() / many
    top = absolute.max()
    scale = torch.where(top > 0, top, torch.ones_like(top))  # squares of huge values would overflow
    deviation = torch.where(finite, (clean - mean) / scale, torch.zeros_like(wide))
    infinity = float("inf")
    wanted = [
        torch.isnan(wide).sum(),
        (wide == infinity).sum(),
        (wide == -infinity).sum(),
        (wide == 0).sum(),
        (clean < 0).sum(),
        (clean > 0).sum(),
        torch.where(finite, wide, torch.full_like(wide, infinity)).min(),
        torch.where(finite, wide, torch.full_like(wide, -infinity)).max(),
        mean,
        absolute.sum() / many,
        (deviation.square().sum() / many).sqrt() * scale,
        (absolute / scale).square().sum().sqrt() * scale,
        *(((wide >= start) & (wide <= end) & finite).sum() for start, end in needs.ranges),
    ]
    found = torch.stack([one.to(wide.dtype) for one in wanted]).tolist()
    nan, plus, minus, zero, negative, positive = (int(count) for count in found[:6])
    count = values.numel()
    if nan + plus + minus == count:
        within = tuple(Within(start, end, 0) for start, end in needs.ranges)
        return Stats(count, nan, plus, minus, within=within)
    least, most, mean_, abs_mean, std, l2 = found[6:12]
    within = tuple(Within(start, end, int(n)) for (start, end), n in zip(needs.ranges, found[12:]))
    return Stats(count, nan, plus, minus, zero, negative, positive, least, most, mean_, abs_mean, std, l2, within)


def _integers(values: torch.Tensor, needs: Needs) -> Stats:
    if values.dtype in (torch.bool, torch.uint16, torch.uint32):
        values = values.to(torch.int64)
    wide = _wide(values)
    count = values.numel()
    low, high = values.min().item(), values.max().item()  # exact, beyond 2**53 too
    mean = wide.mean()
    found = torch.stack(
        [
            (values == 0).sum().to(wide.dtype),
            (values < 0).sum().to(wide.dtype),
            mean,
            wide.abs().mean(),
            (wide - mean).square().mean().sqrt(),
            wide.square().sum().sqrt(),
            *(((wide >= start) & (wide <= end)).sum().to(wide.dtype) for start, end in needs.ranges),
        ]
    ).tolist()
    zero, negative = int(found[0]), int(found[1])
    within = tuple(Within(start, end, int(n)) for (start, end), n in zip(needs.ranges, found[6:]))
    return Stats(
        count,
        zero=zero,
        negative=negative,
        positive=count - zero - negative,
        min=low,
        max=high,
        mean=found[2],
        abs_mean=found[3],
        std=found[4],
        l2=found[5],
        within=within,
    )


def _change(now: torch.Tensor, before: torch.Tensor, needs: Needs) -> Change:
    new, old = _wide(now), _wide(before)
    both = torch.isfinite(new) & torch.isfinite(old)
    zeros = torch.zeros_like(new)
    step = torch.where(both, (new - old).abs(), zeros)
    size = torch.where(both, old.abs(), zeros)
    many = both.sum()
    equal = (new == old) | (torch.isnan(new) & torch.isnan(old))
    moved = torch.where(both, step > needs.atol + needs.rtol * size, ~equal)
    wanted = [many, step.sum(), step.max(), size.sum(), moved.sum(), equal.sum()]
    count, total, most, old_total, moves, same = torch.stack([one.to(new.dtype) for one in wanted]).tolist()
    divisor = count or 1.0
    if not math.isfinite(most):
        most = float("inf")
    return Change(int(count), total / divisor, most, old_total / divisor, int(moves), int(same), needs.rtol, needs.atol)


def _with_change(stats: Stats, change: Change) -> Stats:
    return Stats(
        stats.count,
        stats.nan,
        stats.pos_inf,
        stats.neg_inf,
        stats.zero,
        stats.negative,
        stats.positive,
        stats.min,
        stats.max,
        stats.mean,
        stats.abs_mean,
        stats.std,
        stats.l2,
        stats.within,
        change,
    )
