"""Frozen layers whose statistics go on changing."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, plural, some, where
from tensight.records import Finding, Module, Stats

STEPS = 20  # training steps of the frozen module
RATIO = 2.0  # of the running variances, in one direction or the other
SPREAD = 0.3  # of the variances of units, over their mean: a layer starts with 1 for all
SHIFT = 1.0  # of the running means, in standard deviations


def _size(stats: Stats) -> float:
    """Root mean square."""
    return float((stats.l2 or 0.0) / math.sqrt(max(1, stats.count)))


def _learnt(variance: Stats, *, trained: bool) -> bool:
    """Whether running variances are more than what a layer starts with, and a first batch makes of it."""
    low, high = variance.min, variance.max
    if low is None or high is None or low == high:
        return False
    return trained or (high - low) / max(variance.mean or 0.0, 1e-12) > SPREAD


class FrozenStatisticsMove(Rule):
    """Batch norm of a frozen part that is left in training mode: its parameters stay, its statistics do not."""

    fault = "frozen_batchnorm_still_updates"
    category = "mode"
    finds = "A frozen part whose batch norm is in training mode, so that its running statistics drift to other data."
    evidence = ("running statistics of batch norm whose parameters are frozen", "mode of the model")
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name in case.trained():
            mode = case.modes.networks.get(name)
            if mode is None or mode.trained < STEPS:
                continue
            moved = []
            for module in case.networks[name].modules:
                seen = self._drift(case, name, module) if "BatchNorm" in module.type else None
                if seen is not None:
                    moved.append((module, *seen))
            if moved:
                yield self._say(case, name, moved)

    @staticmethod
    def _drift(case: Case, network: str, module: Module) -> tuple[int, float, float] | None:
        """(step since when it is frozen, ratio of variances, shift of means) of a frozen batch norm that drifts."""
        own = [entry for entry in case.ledger.of(network) if entry.parameter.module == module.path]
        if not own or any(entry.parameter.trainable for entry in own):
            return None
        steps = case.deep()
        trained = [kept.step for kept in steps if any(kept.gradient(entry) is not None for entry in own)]
        ids = {
            info.name.rpartition(".")[2]: info.id
            for info in case.tensors.values()
            if info.kind == "buffer" and info.network == network and info.node == module.path
        }
        if "running_mean" not in ids or "running_var" not in ids:
            return None
        seen = [
            (kept.step, mean, variance)
            for kept in steps
            if (mean := kept.last(ids["running_mean"])) is not None
            and (variance := kept.last(ids["running_var"])) is not None
        ]
        # frozen from the beginning (of this network): what it had learnt elsewhere is what it came with
        since = trained[-1] + 1 if trained else seen[0][0] if seen else 0
        before = [one for one in seen if one[0] < since or (not trained and one[0] == since)]
        before = [one for one in before if _learnt(one[2], trained=bool(trained))]
        if not before or seen[-1][0] - since < STEPS:
            return None  # nothing learnt that could be lost, or too early to say
        (_, mean, variance), (_, mean_now, variance_now) = before[-1], seen[-1]
        ratio = (variance_now.mean or 0.0) / max(variance.mean or 0.0, 1e-12)
        shift = abs(_size(mean_now) - _size(mean)) / max(variance.mean or 0.0, 1e-12) ** 0.5
        return (since, ratio, shift) if not 1 / RATIO < ratio < RATIO or shift > SHIFT else None

    def _say(self, case: Case, network: str, moved: list[tuple[Module, int, float, float]]) -> Finding:
        module, since, ratio, shift = moved[0]
        mode = case.modes.networks[network]
        return self.finding(
            "batch norm of a frozen part goes on changing",
            confidence=0.9,
            since_step=since,
            where=where(
                mode.train_source or module.source or case.source_of(network, module.path),
                module=module.path,
                op="batch_norm",
                network=network,
            ),
            why=f"the parameters of {some([one[0].path for one in moved])} are frozen (requires_grad=False), but"
            f" {plural(len(moved), 'batch norm module')} among them run in training mode: each forward pass moves their"
            f" running statistics to the new data (running variance of {module.path} {number(ratio)} times what it was,"
            f" running mean moved by {number(shift)} standard deviations), so the frozen part no longer computes what"
            " it had learnt. model.train() switches frozen modules too",
            facts=[
                ("frozen batch norm modules that drift", len(moved)),
                ("running variance, times", ratio),
                ("shift of the running mean, in standard deviations", shift),
            ],
            fix=("after model.train() put the frozen part back: model.backbone.eval(), or override train() to do so",),
            confirm=("print running_mean of the frozen part in two steps: it changes",),
        )
