"""Pictures and their targets that do not lie upon each other."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding

MANY = 0.2  # of the samples that could be judged


class TargetsTurned(Rule):
    """Augmentation that mirrors the picture and forgets its mask."""

    fault = "targets_not_augmented_with_inputs"
    category = "data"
    finds = "Pictures that are mirrored while their targets (masks, clean pictures) are not: the two no longer match."
    evidence = ("correlation of inputs with their targets, as they are and mirrored, in the first samples",)
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        probe = case.scalars.get("probe/turned_targets")
        site = case.losses.main()
        if probe is None or probe.last < MANY or site is None:
            return
        loader = next((part for (kind, _), part in case.parts.items() if kind == "loader"), None)
        yield self.finding(
            "targets do not match their pictures: one is mirrored, the other not",
            confidence=0.88,
            since_step=0,
            where=where(site.source or (loader.source if loader is not None else None), op=site.function),
            why=f"of the samples whose target resembles the input, {number(100 * probe.last)} % fit only when the"
            " target is mirrored: input and target (mask, label) are misaligned. A random flip is applied to the"
            " picture and not to its target, so the network is taught contradictions",
            facts=[("share of targets that fit only when mirrored", probe.last), ("loss now", case.loss.last)],
            fix=("draw the flip once per sample and apply it to both: the picture and its target",),
            confirm=("show a few samples with their targets side by side",),
        )
