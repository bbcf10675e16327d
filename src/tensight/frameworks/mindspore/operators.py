"""Operators of the forward pass, as MindSpore's own dispatch shows them: their module, their line, what went in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import mindspore
from mindspore import Tensor

from tensight.frameworks.source import source_of, user_site
from tensight.records import Source

# Names of operators that users know under another one; the rest follow from their spelling.
_KNOWN = {
    "RealDiv": "div", "Div": "div", "Divs": "div", "DivMod": "div", "DivNoNan": "div_no_nan", "BatchMatMul": "bmm",
    "BatchMatMulExt": "bmm", "MatMul": "matmul", "MatMulExt": "matmul", "Dense": "linear", "AddExt": "add",
    "AddScalar": "add", "SubExt": "sub", "SubScalar": "sub", "Muls": "mul", "PowTensorScalar": "pow",
    "PowScalarTensor": "pow", "ReduceSum": "sum", "SumExt": "sum", "ReduceMean": "mean", "MeanExt": "mean",
    "ReduceStd": "std", "Std": "std", "Var": "var", "LpNormV2": "norm", "Norm": "norm", "LinalgVectorNorm": "norm",
    "L2Normalize": "norm", "Cdist": "cdist", "ACos": "acos", "Acos": "acos", "AcosExt": "acos", "Asin": "asin",
    "AsinExt": "asin", "Atan2Ext": "atan2", "Atan2": "atan2", "BiasAdd": "add", "NLLLoss": "nll_loss",
    "LogSumExp": "logsumexp", "CumProd": "cumprod", "ReduceProd": "prod", "ProdExt": "prod",
}  # fmt: skip

# These carry values from one tensor to another and compute nothing.
MOVES = frozenset(
    {
        *("reshape", "view", "transpose", "transpose_ext_view", "expand_dims", "expand_dims_view", "squeeze", "cast"),
        *(
            "split",
            "split_tensor",
            "split_with_size",
            "concat",
            "stack",
            "gather",
            "gather_d",
            "slice",
            "strided_slice",
        ),
        *("flatten", "broadcast_to", "tile", "identity", "clone", "contiguous", "copy", "select_ext_view", "slice_ext"),
        *("permute", "narrow", "chunk", "chunk_view", "unstack", "unstack_ext_view", "stop_gradient", "depend", "load"),
        *("narrow_view", "transpose_view", "slice_ext_view", "index", "embedding", "roll", "reverse_v2", "tensor_move"),
    }
)


def public_name(primitive: str) -> str:
    """The operator as a user would call it.

    >>> public_name("Sqrt"), public_name("RealDiv"), public_name("LogSoftmaxExt")
    ('sqrt', 'div', 'log_softmax')
    """
    known = _KNOWN.get(primitive)
    if known is not None:
        return known
    base = primitive.removesuffix("Ext").removeprefix("Inplace")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", base).lower()


@dataclass(slots=True, eq=False)
class Call:
    """One operator that ran in the forward pass."""

    order: int
    primitive: str  # 'Sqrt'
    module: str
    network: str
    site: tuple[str, int, str] | None
    inputs: list[Tensor]
    scalars: dict[str, Any]
    outputs: list[Tensor] = field(default_factory=list)

    @property
    def name(self) -> str:
        return public_name(self.primitive)

    @property
    def source(self) -> Source | None:
        return source_of(*self.site) if self.site is not None else None


class Observer(Protocol):
    """Who looks at operators.

    `given` comes before an operator runs: what it is given has a place in the graph of gradients by then, which its
    results have only after the dispatch.
    """

    def given(self, tensors: list[Tensor]) -> None: ...
    def seen(self, call: Call) -> None: ...


Where = Callable[[], tuple[str, str]]


def dispatching(
    observer: Observer,
    where: Where,
    probe: Callable[..., Any],
    *,
    light: Callable[[str, Any, Any], None] | None = None,
    deep: Callable[[], bool] = lambda: True,
) -> Any:
    """A dispatch mode that shows each operator to an observer; None when this MindSpore has no dispatch.

    `where` tells network and module that run now. `light` is told name, arguments and result of every operator;
    the observer, which needs its line and inputs, only while `deep` says so. Errors are reported by `probe` and change
    nothing.
    """
    base: Any = getattr(mindspore, "MsDispatchMode", None)
    if base is None:
        return None
    count = 0

    class Operators(base):
        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            nonlocal count
            looks = deep()
            if looks:
                probe("operator", _give, observer, args)
            result = func(*args)
            if light is not None:
                light(func.name, args, result)
            if looks:
                count += 1
                probe("operator", _show, observer, where, func.name, args, result, count)
            return result

    return Operators()


def _give(observer: Observer, args: Any) -> None:
    observer.given([value for value in arguments(args) if isinstance(value, Tensor)])


def _show(observer: Observer, where: Where, name: str, args: Any, result: Any, order: int) -> None:
    network, module = where()
    given = list(arguments(args))
    observer.seen(
        Call(
            order=order,
            primitive=name,
            module=module,
            network=network,
            site=user_site(2),
            inputs=[value for value in given if isinstance(value, Tensor)],
            scalars={
                f"arg.{index}": value
                for index, value in enumerate(given)
                if isinstance(value, (bool, int, float, str)) and not (isinstance(value, str) and len(value) > 40)
            },
            outputs=[value for value in flat(result) if isinstance(value, Tensor)],
        )
    )


def arguments(args: Any) -> Iterator[Any]:
    """What an operator was given. Some come as they are, some as (primitive, name, what was given)."""
    if len(args) == 3 and isinstance(args[1], str) and isinstance(args[2], (tuple, list)):
        args = args[2]
    yield from flat(args)


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    else:
        yield value
