"""Which operators run in low precision, which of them should not, and who overflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensight.kit.backend import backend_of
from tensight.kit.loss_scale import FixedLossScaleManager

LOW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")

# Part of an operator's name → why it is better left in float32. The first that fits is said.
RISKY: dict[str, str] = {
    "cross_entropy": "a loss loses small differences: keep it in float32",
    "nll_loss": "a loss loses small differences: keep it in float32",
    "mse_loss": "squares overflow float16 from 256 on: keep the loss in float32",
    "square": "squares overflow float16 from 256 on",
    "softmax": "exp overflows float16 from 11.1 on; the sum is better taken in float32",
    "exp": "overflows float16 from 11.1 on",
    "log": "loses what is close to 1",
    "pow": "overflows early",
    "rsqrt": "infinite near 0, where float16 is coarse",
    "norm": "a sum of squares overflows float16 from 256 on",
    "var": "a sum of squares overflows float16 from 256 on",
    "cumsum": "a long sum loses its small terms",
    "sum": "a long sum overflows or loses its small terms",
    "mean": "its sum overflows float16 from 65504 on",
    "prod": "overflows early",
}
# Operators that Ascend computes in float16 alone, by MindSpore's names: whoever uses them needs a loss scale.
FLOAT16_ON_ASCEND: dict[str, tuple[str, ...]] = {
    "pooling": ("AdaptiveMaxPool2D", "AvgPool3D", "AvgPool", "MaxPool", "MaxPoolWithArgmax", "Pooling"),
    "recurrent": ("LSTM", "DynamicRNN", "GRUV2"),
    "convolution": ("Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "DepthwiseConv2dNative"),
    "matrix product (float32 is slow)": ("MatMul", "BatchMatMul"),
    "sorting": ("Sort", "TopK"),
    "other": (
        "BoundingBoxEncode",
        "ExtractImagePatches",
        "ExtractVolumePatches",
        "FusedDbnDw",
        "IOU",
        "NewIm2Col",
        "NMSWithMask",
    ),
}
_NOT_RISKY = ("backward", "logical", "norm_backward", "log_softmax_backward")


class Operator(NamedTuple):
    """An operator that ran."""

    name: str
    module: str
    phase: str
    dtype: str
    input_dtype: str
    made_bad: bool  # its inputs were finite, its output is not
    place: str


@dataclass(frozen=True)
class LowPrecision:
    """An operator in low precision: how often it ran, and why that is risky ('' when it is not)."""

    name: str
    module: str
    dtype: str
    count: int
    risk: str


@dataclass(frozen=True)
class ScaleOne:
    """What a step does with a loss scale of 1, and with the scale that is used."""

    scale: float
    overflow_scaled: bool
    overflow_unscaled: bool
    first: Operator | None  # the first operator that made a bad value of finite ones
    verdict: str


def operators(run: Callable[[], Any], network: Any) -> list[Operator]:
    """The operators with floating-point results of a piece of work, in order."""
    return [Operator(*row) for row in backend_of(network).observe(run, network)]


def low_precision(network: Any, run: Callable[[], Any]) -> list[LowPrecision]:
    """The operators of a piece of work (a forward pass, a whole step) in low precision, the risky ones first."""
    counts: dict[tuple[str, str, str], int] = {}
    for one in operators(run, network):
        if one.dtype in LOW or one.input_dtype in LOW:
            key = (one.name, one.module, one.dtype if one.dtype in LOW else one.input_dtype)
            counts[key] = counts.get(key, 0) + 1
    rows = [LowPrecision(name, module, dtype, count, risk_of(name)) for (name, module, dtype), count in counts.items()]
    return sorted(rows, key=lambda row: (not row.risk, row.module, row.name))


def risk_of(name: str) -> str:
    """Why an operator is risky in low precision, '' when it is not.

    >>> risk_of("aten.exp"), risk_of("ReduceMean") != "", risk_of("aten.mm")
    ('overflows float16 from 11.1 on', True, '')
    """
    plain = name.lower()
    if any(word in plain for word in _NOT_RISKY) or "backward" in plain or plain.endswith("grad"):
        return ""
    return next((why for word, why in RISKY.items() if word in plain), "")


def float16_on_ascend(network: Any, run: Callable[[], Any]) -> list[str]:
    """Operators of a piece of work that Ascend computes in float16 alone, so that they need a loss scale.

    They are known by MindSpore's names, so that a network of another framework has none.

    >>> import torch
    >>> network = torch.nn.Linear(2, 1)
    >>> float16_on_ascend(network, lambda: network(torch.ones(1, 2)))
    []
    """
    known = {name for names in FLOAT16_ON_ASCEND.values() for name in names}
    return sorted({one.name for one in operators(run, network)} & known)


def scale_one_test(network: Any, loss_fn: Any, optimizer: Any, batch: Any, scale: float = 65536.0) -> ScaleOne:
    """Run one step twice, scaled and with a scale of 1, without changing the network, and say who overflows.

    If gradients overflow with a scale of 1 too, not the scale is to blame but an operator, which is named.
    """
    backend = backend_of(network)
    trainer = backend.trainer(network, loss_fn, optimizer)
    restore = backend.remember(network, optimizer)

    def step(factor: float) -> tuple[bool, list[Operator]]:
        overflows: list[bool] = []
        try:
            rows = operators(lambda: overflows.append(trainer.step(batch, FixedLossScaleManager(factor))[1]), network)
        finally:
            restore()
        return overflows[0], rows

    scaled, rows_scaled = step(scale)
    plain, rows_plain = step(1.0)
    first = first_bad(rows_plain) or first_bad(rows_scaled)
    return ScaleOne(scale, scaled, plain, first, _verdict(scale, scaled, plain, first))


def first_bad(rows: Sequence[Operator]) -> Operator | None:
    """The first operator that made a bad value of finite ones."""
    return next((row for row in rows if row.made_bad), None)


def _verdict(scale: float, scaled: bool, plain: bool, first: Operator | None) -> str:
    where = f": {first.name} in {first.module or 'the network'} {first.place}".rstrip() if first is not None else ""
    if plain:
        return f"gradients overflow with a scale of 1 as well: an operator overflows{where}"
    if scaled:
        return f"only the scale of {scale:g} overflows{where}: lower it, or let it be dynamic"
    return f"nothing overflows, neither with a scale of {scale:g} nor of 1"
