"""Layers that walk along the wrong axis."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import called, number, plural, where
from tensight.records import Event, Finding

WALKERS = frozenset({"LSTM", "GRU", "RNN", "MultiheadAttention"})
STEPS = 5
UPDATES = 50
TWICE = 2  # steps in which one line does it


class BatchAndTimeSwapped(Rule):
    """A recurrent or attention layer that takes the samples of a batch for the steps of a sequence."""

    fault = "batch_and_time_swapped"
    category = "graph-wiring"
    finds = "A recurrent or attention layer made for (time, batch, features) that is given (batch, time, features)."
    evidence = ("batch_first of the layer", "shapes of its output and of the targets", "course of the loss")
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low", "vanishing_gradient"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        site, trend, chance = case.losses.main(), case.loss.trend(), case.chance_loss()
        if site is None or site.batch < 2 or case.order.updates < UPDATES or trend is None:
            return
        if chance is not None and trend.end < 0.8 * chance:
            return  # it learns: whoever wrote it may have meant it
        for network in case.trained():
            for module in case.networks[network].modules:
                if module.type not in WALKERS or module.settings.get("batch_first") is not False:
                    continue
                shapes = self._shapes(case, network, module.path)
                if len(shapes) < STEPS or not all(_swapped(shape, site) for shape in shapes):
                    continue
                yield self._say(case, network, module.path, module.type, shapes[0], site)
                return

    @staticmethod
    def _shapes(case: Case, network: str, path: str) -> list[tuple[int, ...]]:
        """Of its output, in each observed step that trained."""
        return [
            tuple(one.shape or info.shape)
            for kept in case.deep()
            if kept.record.losses
            for one, info in kept.forward()
            if info.network == network and info.node == path and info.slot in ("output", "output.0") and not info.call
        ]

    def _say(self, case: Case, network: str, path: str, kind: str, shape: tuple[int, ...], site: LossSite) -> Finding:
        trend = case.loss.trend()
        return self.finding(
            f"{called(path)} takes the batch for the sequence",
            confidence=0.86,
            since_step=0,
            where=where(case.source_of(network, path), module=path, op=kind.lower(), network=network),
            why=f"{called(path)} is a {kind} with batch_first=False, for (time, batch, features), and gets"
            f" {' x '.join(map(str, shape))}: the first axis, {shape[0]} long, is the batch, for the loss compares"
            f" {plural(site.batch, 'sample')} with as many targets. So it walks along the batch, mixes what belongs to"
            f" other samples into each, and the {shape[1]} steps of a sequence never meet; the loss is"
            f" {number(trend.end) if trend is not None else '?'}, no better than guessing",
            facts=[
                ("length of the axis it walks along", shape[0]),
                ("samples that the loss compares", site.batch),
                ("length of the other axis", shape[1]),
            ],
            fix=(f"make it with batch_first=True: nn.{kind}(…, batch_first=True), or give it x.transpose(0, 1)",),
            confirm=("change one sample of a batch: the outputs of the others change, too",),
        )


def _swapped(shape: tuple[int, ...], site: LossSite) -> bool:
    """Whether the first axis is that of the samples, and the second is not one that the targets have."""
    targets = site.shape_of("target_shape") or ()
    if len(shape) != 3 or not targets:
        return False
    return shape[0] == site.batch != shape[1] > 1 and shape[1] not in targets[1:2]


class SamplesMixedByView(Rule):
    """A view or reshape in place of a transpose, which puts values of several samples into one."""

    fault = "view_mixes_samples"
    category = "graph-wiring"
    finds = "view or reshape in place of transpose or permute: each sample is given values of other samples."
    evidence = ("shapes before and after view and reshape", "which axis is the batch", "course of the loss")
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low", "vanishing_gradient", "input_too_small"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        told = case.noted.of("moved_axes")
        trend, chance, site = case.loss.trend(), case.chance_loss(), case.losses.main()
        if not told or trend is None or case.updates < UPDATES:
            return
        if trend.end < 0.8 * chance if chance is not None else trend.fall > 0.1:
            return  # it learns in spite of it
        for step, event in told:
            sizes = {int(size) for size in str(event.values.get("sizes") or "").split("x") if size}
            fed = case.fed_lengths(event.part, step) | ({site.batch} if site is not None else set())
            moved = sorted((sizes & fed) - {0, 1})
            again = [at for at, other in told if other.source == event.source]
            if moved and len(set(again)) >= TWICE:
                yield self._say(case, step, event, moved[-1])
                return

    def _say(self, case: Case, step: int, event: Event, batch: int) -> Finding:
        values, trend, chance = event.values, case.loss.trend(), case.chance_loss()
        before, after = (str(values.get(name)).replace("x", ", ") for name in ("from", "to"))
        module = str(values.get("module") or "")
        return self.finding(
            f"view or reshape mixes the samples of a batch in {called(module)}",
            confidence=0.9,
            since_step=step,
            where=where(event.source, module=module, op="reshape", network=event.part),
            why=f"a tensor of shape ({before}) is given the shape ({after}) by view or reshape. These move no values,"
            f" they only count them anew: the axis of {batch}, that of the batch, now runs across other axes, so each"
            " row holds pieces of several samples and the network sees rows that belong to no label (a transpose or"
            f" permute is meant). The loss is {number(trend.end) if trend is not None else '?'}"
            + (f", guessing costs {number(chance)}" if chance is not None else ""),
            facts=[("shape before", f"({before})"), ("shape after", f"({after})"), ("samples in a batch", batch)],
            fix=("move axes instead: x.transpose(0, 1), or x.permute(…), and only then view or reshape",),
            confirm=("change one sample of a batch: the outputs of the others change, too",),
        )
