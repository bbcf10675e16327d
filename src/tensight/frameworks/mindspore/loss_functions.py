"""Losses that are called as functions: `ops.cross_entropy`, `mint.nn.functional.mse_loss` and the like."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensight.frameworks.mindspore.losses import Losses
from tensight.frameworks.mindspore.swaps import Swaps
from tensight.frameworks.mindspore.watching import Watching

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

Call = Callable[..., Any]

_PLACES = {
    "mindspore.ops.function.nn_func": (
        *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"),
        *("binary_cross_entropy_with_logits", "kl_div", "ctc_loss", "cross_entropy_ext", "nll_loss_ext", "kl_div_ext"),
        *("gaussian_nll_loss", "hinge_embedding_loss", "multi_margin_loss", "multilabel_margin_loss"),
        *("smooth_l1_loss_ext", "binary_cross_entropy_ext"),
    ),
    "mindspore.mint.nn.functional": ("binary_cross_entropy", "binary_cross_entropy_with_logits"),
    "mindspore.ops.auto_generate.gen_ops_def": ("mse_loss_ext", "l1_loss_ext"),
}


class LossFunctions:
    """Stands in for MindSpore's loss functions; the compiler sees them as they were."""

    def __init__(self, watching: Watching, losses: Losses, cells: Cells, swaps: Swaps) -> None:
        self._watching = watching
        self._losses = losses
        self._cells = cells
        self._depth = 0  # one loss function may be written with another
        for place, names in _PLACES.items():
            module = sys.modules.get(place)
            for name in names:
                swaps.wrap(getattr(module, name, None), self._stand_in(name.removesuffix("_ext")))

    def _stand_in(self, name: str) -> Callable[[Call], Call]:
        def make(original: Call) -> Call:
            def loss(*args: Any, **kwargs: Any) -> Any:
                watching = self._watching
                if self._depth or watching.busy or watching.backward or self._cells.inside:
                    return original(*args, **kwargs)
                self._depth += 1
                try:
                    result = original(*args, **kwargs)
                finally:
                    self._depth -= 1
                watching.probe("loss function", self._losses.function_called, name, args, kwargs, result)
                return result

            return loss

        return make
