"""Losses: functions of `torch.nn.functional` (which loss modules call), the user's own, and plain expressions."""

from __future__ import annotations

import functools
import weakref
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_site, user_source
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.activations import Activations
from tensight.frameworks.torch.alike_rows import alike_rows
from tensight.frameworks.torch.bootstrap import bootstraps
from tensight.frameworks.torch.class_weights import ClassWeights
from tensight.frameworks.torch.graph import expression, grown_product, operator
from tensight.frameworks.torch.label_probe import LabelProbe
from tensight.frameworks.torch.lines import made_before
from tensight.frameworks.torch.loss_axes import normalised_twice, overlap_of_raw, picked_across, rows_across
from tensight.frameworks.torch.loss_counted import Counted
from tensight.frameworks.torch.loss_facts import (
    BINARY_LOSSES,
    CLASS_LOSSES,
    facts,
    learnt,
    padded_with,
    shape_text,
    tokens_against,
)
from tensight.frameworks.torch.picture_probe import PictureProbe
from tensight.frameworks.torch.shards import PLAIN, arrived
from tensight.frameworks.torch.watching import Watched, Watching
from tensight.records import Kind, Part, Source
from tensight.records.event import Value

_is_compiling = torch.compiler.is_compiling
FUNCTIONS = (
    *("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss"),
    *("smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "hinge_embedding_loss"),
    *("soft_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "multi_margin_loss", "ctc_loss"),
    *("cosine_embedding_loss", "margin_ranking_loss"),
)
SIGNED = frozenset({"cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss"})
PAIRED = frozenset({"cosine_embedding_loss", "margin_ranking_loss"})  # two predictions, then the target
COMPARING = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
FIRST = 10  # steps whose losses are always looked at
EVERY = 10  # steps between two looks later on
_MOST_DIFFERENCES = 16
_MOST_TOKENS = 65_536


class Difference(NamedTuple):
    """`a - b` as it was computed: found again in the graph by its number."""

    sequence: int
    prediction_shape: str
    target_shape: str
    result_shape: str
    source: Source | None
    both: bool  # sides need a gradient: predictions compared with each other
    bootstraps: bool = False  # and one is made from what the network says of another input


class Losses:
    """Watches loss functions, and differences that a loss written as an expression may be made of."""

    def __init__(self, watching: Watching, activations: Activations, patches: Patches) -> None:
        self.watching = watching
        self.activations = activations
        self.compared: Any = None  # told of the target of each loss that is looked at
        self._inputs: list[weakref.ref] = []  # what the network was fed last
        self._target: weakref.ref | None = None  # of the last loss that was looked at
        self._tokens: list[torch.Tensor] = []  # and the whole numbers among it, in the first steps
        self._called = False  # a loss function was called since the last backward pass
        self._label: float | None = None  # the only one so far, of all classifications
        self._alike = 0  # samples that had it
        self._varied = False  # there are others
        self._told: dict[object, int] = {}  # place → step of its last facts
        self._parts: set[str] = set()
        self._table: dict[object, Watched] = {}
        self._differences: list[Difference] = []
        self._weights = ClassWeights()
        self._counted = Counted(watching)
        self._probe = LabelProbe(watching)
        self._pictures = PictureProbe(watching)
        for name in FUNCTIONS:
            patches.wrap(F, name, functools.partial(self._around, function=name))
        for owner, name in ((torch.Tensor, "__sub__"), (torch.Tensor, "sub"), (torch, "sub")):
            patches.wrap(owner, name, self._around_difference)

    def _around(self, original: Any, function: str) -> Any:
        watching = self.watching
        returned = watching.probe("loss function", self._returned)

        def loss(*args, **kwargs):
            result = original(*args, **kwargs)
            if not _is_compiling() and watching.active and not (watching.outermost and not watching.observing):
                returned(function, args, kwargs, result)
            return result

        return loss

    def _returned(self, function: str, args: tuple, kwargs: dict, result: Any) -> None:
        watching = self.watching
        if not isinstance(result, torch.Tensor):
            return
        if not result.requires_grad:
            if not torch.is_grad_enabled():  # somebody measures how good the network is
                watching.sink.event("scored", function, {}, None)
            return
        self._called = True
        if not self._varied and (function in CLASS_LOSSES or function in BINARY_LOSSES):
            self._count_alike(args[1] if len(args) > 1 else kwargs.get("target"), yes_or_no=function in BINARY_LOSSES)
        new = function not in self._parts  # a loss that begins later, with another phase of training, is news
        if watching.sink.step >= FIRST and not watching.deep and not new:
            return
        source = user_source()
        place = (function, None if source is None else (source.file, source.line))
        if not self._is_time(place) and not new:
            return
        if watching.foreign():
            return
        prediction = args[0] if args else kwargs.get("input")
        place_of_target = 2 if function in PAIRED else 1
        target = args[place_of_target] if len(args) > place_of_target else kwargs.get("target")
        prediction = arrived(prediction)
        if type(prediction) not in PLAIN:
            return
        self._part(function, kwargs, source)
        values: dict[str, Value] = {
            "function": function,
            "reduction": _reduction(kwargs, args),
            "result_shape": shape_text(result),
        }
        target = target if type(target) in PLAIN else None
        if self.compared is not None:
            self.compared(target)
        ignored = kwargs.get("ignore_index")
        if isinstance(ignored, int):
            values["ignore_index"] = ignored
        values |= facts(function, prediction, target, self.activations.lately)
        values |= alike_rows(prediction)
        if target is not None:
            values["target_equals_input"] = self._is_input(target)
            values |= tokens_against(target, self._tokens)
            values |= learnt(target)
            if function in COMPARING and target.requires_grad and bootstraps(prediction, target):
                values["target_bootstraps"] = True
            if function in CLASS_LOSSES and kwargs.get("weight") is None:
                values |= padded_with(target, self._tokens)
            if function in SIGNED and target.numel():
                values["target_zeros"] = float((target == 0).double().mean())
        values |= self._weights.facts(place, function, args, kwargs)
        if function in ("cross_entropy", "nll_loss"):
            values |= rows_across(prediction, target)
        if type(result) in PLAIN and result.numel() == 1 and result.device.type == "cpu":
            values["value"] = float(result.detach().item())
        values["grad"] = True
        if self._alike and not self._varied:
            values["alike"] = self._alike
            values["prediction_layer"] = operator(prediction.grad_fn) if prediction.grad_fn is not None else ""
        watching.sink.event("loss", function, values, source)
        if values["reduction"] == "none" and function in CLASS_LOSSES:
            self._counted.look(function, result, target, source)
        if function not in PAIRED:  # what is true of a pair is not to be seen in one half of it
            fed = [tensor for ref in self._inputs if (tensor := ref()) is not None]
            self._target = None if target is None else weakref.ref(target)
            self._probe.look(fed, target)
            self._pictures.look(fed, target)
        if watching.deep:
            self._look(function, prediction, target)

    def _count_alike(self, target: Any, *, yes_or_no: bool = False) -> None:
        """Looks at every label until two differ, which the first batch nearly always ends."""
        label = type(target) is torch.Tensor and target.numel() and (yes_or_no or not target.is_floating_point())
        if not label or target.dtype is torch.bool or target.device.type != "cpu":
            self._varied = True
            return
        seen = statistics.one(target.detach())
        low, high = seen.min, seen.max
        self._varied = low != high or self._label not in (None, low)
        self._label = low
        self._alike += len(target) if yes_or_no and target.dim() else target.numel()

    def _look(self, function: str, prediction: torch.Tensor, target: torch.Tensor | None) -> None:
        watching = self.watching
        looked_at: list[tuple[Kind, torch.Tensor | None]] = [("prediction", prediction), ("target", target)]
        for kind, tensor in looked_at:
            if tensor is not None:
                watched = watching.watched(
                    self._table,
                    (function, kind),
                    tensor,
                    kind,
                    "",
                    f"{function}.{kind}",
                    watching.network,
                    type=function,
                )
                watching.look(watched, tensor, "forward")

    def _is_time(self, place: object) -> bool:
        """Always in the first steps; later only when the step is watched whole, and not every time."""
        step = self.watching.sink.step
        if step < FIRST:
            return self._seen_in(place, step) < 4
        last = self._told.get(place, -EVERY)
        if not self.watching.deep or (last != step and step - last < EVERY):
            return False
        return self._seen_in(place, step) < 4

    def _seen_in(self, place: object, step: int) -> int:
        """How often a place has told in this step before: micro-steps repeat themselves."""
        if self._told.get(place) != step:
            self._told[place] = step
            self._told[place, "count"] = 0
        self._told[place, "count"] += 1
        return self._told[place, "count"] - 1

    def _is_input(self, target: torch.Tensor) -> bool:
        for ref in self._inputs:
            fed = ref()
            if fed is target:
                return True
            if fed is None or type(fed) not in PLAIN or fed.shape != target.shape or fed.dtype != target.dtype:
                continue
            if fed.data_ptr() == target.data_ptr() or torch.equal(fed, target):
                return True
        return False

    def _part(self, function: str, kwargs: dict, source: Source | None) -> None:
        if function not in self._parts:
            self._parts.add(function)
            settings: dict[str, Value] = {
                name: value for name, value in kwargs.items() if isinstance(value, (bool, int, float, str))
            }
            self.watching.sink.part(Part("loss", function, function, settings, source))

    def pair(self) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        """What the network was fed last, and the target of the last loss that was looked at."""
        fed = [tensor for ref in self._inputs if (tensor := ref()) is not None]
        return fed, None if self._target is None else self._target()

    def fed(self, tensors: list[torch.Tensor]) -> None:
        """The network was called with these."""
        self._inputs = [weakref.ref(tensor) for tensor in tensors[:4]]
        if self.watching.sink.step < FIRST:
            self._tokens = [
                tensor.detach().clone()
                for tensor in tensors[:4]
                if type(tensor) in PLAIN and not tensor.is_floating_point() and 2 <= tensor.dim() <= 3
                if tensor.numel() <= _MOST_TOKENS and not tensor.is_complex()
            ]

    def tokens(self) -> list[torch.Tensor]:
        """The whole numbers that the network was fed last; of the first steps only."""
        return self._tokens if self.watching.sink.step < FIRST else []

    # expressions

    def _around_difference(self, original: Any) -> Any:
        watching = self.watching
        note = watching.probe("difference", self._note)

        def sub(*args, **kwargs):
            result = original(*args, **kwargs)
            if watching.gradients and not watching.outermost and len(args) > 1:
                left, right = args[:2]
                if type(right) in PLAIN and type(left) in PLAIN:
                    note(left, right, result)
            return result

        return sub

    def _note(self, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> None:
        if result.grad_fn is None or not left.dim() or not right.dim() or self.watching.foreign():
            return
        made, other = (left, right) if left.requires_grad else (right, left)
        both = other.requires_grad
        if self.compared is not None:
            self.compared(other)
        look = both and self.watching.deep and left.shape == right.shape
        self._differences.append(
            Difference(
                result.grad_fn._sequence_nr(),
                shape_text(made),
                shape_text(other),
                shape_text(result),
                user_source(),
                both,
                look and (bootstraps(left, right) or bootstraps(right, left)),
            )
        )
        if len(self._differences) > _MOST_DIFFERENCES:
            del self._differences[0]

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins: a loss that no loss function made is an expression."""
        called, self._called = self._called, False
        differences, self._differences = self._differences, []
        if called or root.grad_fn is None or (self.watching.sink.step >= FIRST and not self.watching.deep):
            return
        source = user_source()
        if not self._is_time(("expression", None if source is None else (source.file, source.line))):
            return
        operators, numbers = expression(root)
        values: dict[str, Value] = {
            "function": "expression",
            "operators": ", ".join(operators),
            "result_shape": shape_text(root),
            **overlap_of_raw(root),
            **normalised_twice(root),
        }
        across = picked_across(root)
        values |= across
        reduction = next((name for name in operators if name in ("mean", "sum")), None)
        if reduction is not None:
            values["reduction"] = reduction
        if type(root) in PLAIN and root.numel() == 1 and root.device.type == "cpu":
            values["value"] = float(root.detach().item()) / scale
        mine = [one for one in differences if one.sequence in numbers]
        if mine:  # one that broadcasts is the news; otherwise the last one compares prediction and target
            grown = [one for one in mine if one.result_shape not in (one.prediction_shape, one.target_shape)]
            one = (grown or mine)[-1]
            values |= {"prediction_shape": one.prediction_shape, "target_shape": one.target_shape}
            values |= {"difference_shape": one.result_shape, "target_given": not one.both}
            if any(each.bootstraps for each in mine):
                values["target_bootstraps"] = True
            source = one.source or source
        else:
            site = user_site()
            source = (made_before(site, "backward") if site is not None else None) or source
            product = grown_product(root)
            if product is not None:
                names = ("prediction_shape", "target_shape", "difference_shape")
                values.update((name, "x".join(map(str, size))) for name, size in zip(names, product))
                values["product"] = values["target_given"] = True
        if across:
            made = (one for one in reversed(self.activations.lately) if one.function == across["normalised_by"])
            source = next((one.source for one in made if one.source is not None), source)
        self._part("expression", {}, source)
        self.watching.sink.event("loss", "expression", values, source)


def _reduction(kwargs: dict, args: tuple) -> str:
    reduction = kwargs.get("reduction", "mean")
    return reduction if isinstance(reduction, str) else "mean"
