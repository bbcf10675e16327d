"""Weights and inputs that are not those that were meant: a checkpoint that does not fit, data processed in two ways."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, median, number, plural, where
from tensight.records import Finding

MOST = 0.5  # of all keys
FACTOR = 8.0  # between the spreads of two inputs
SEEN = 2  # evaluations


class CheckpointDoesNotFit(Rule):
    """A checkpoint of which nearly nothing was loaded."""

    fault = "checkpoint_does_not_fit"
    category = "initialisation"
    finds = (
        "load_state_dict(strict=False) that found hardly any name of the model in the checkpoint: nothing is loaded."
    )
    evidence = ("missing and unexpected keys of load_state_dict",)
    explains = frozenset({"lr_too_low", "lr_too_high"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for step, event in case.noted.of("loaded"):
            numbers = [event.values.get(name) for name in ("missing", "unexpected", "given")]
            missing, unexpected, given = (value if isinstance(value, int) else 0 for value in numbers)
            if missing < 2 or unexpected < 2 or unexpected < MOST * given or missing < MOST * given:
                continue
            wanted, found = event.values.get("first_missing"), event.values.get("first_unexpected")
            yield self.finding(
                "the checkpoint does not fit the model: its weights were not loaded",
                confidence=0.92,
                since_step=step,
                where=where(event.source, op="load_state_dict"),
                why=f"load_state_dict into {event.part} left {plural(missing, 'weight')} of the model as they were, and"
                f" {unexpected} of {given} names in the checkpoint belong to nothing: it expects {wanted!r} and was"
                f" given"
                f" {found!r}. strict=False passes over that, so training starts from random weights",
                facts=[("missing", missing), ("unexpected", unexpected), ("names in the checkpoint", given)],
                fix=(
                    "rename the keys (a prefix such as 'module.' is usual), and load with strict=True"
                    f"{at(event.source)}",
                ),
                confirm=("print the result of load_state_dict",),
            )
            return


class EvaluationInputsDiffer(Rule):
    """Evaluation data that is of another scale than the training data."""

    fault = "evaluation_inputs_differ"
    category = "data"
    finds = "Inputs of evaluation on another scale than those of training: only one of them is normalised."
    evidence = ("spread and mean of the inputs of the same network in training and in evaluation",)
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        # Of the same module: training may call a part (its loss is a method that scales) and evaluation the whole.
        trained: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
        judged: dict[tuple[str, str, str], list[tuple[int, float, float]]] = {}
        for kept in case.deep():
            for one, info in kept.of_kind("input"):
                stats = one.stats
                if not info.dtype.startswith(("float", "bfloat")) or stats.bad or stats.std is None or stats.count < 16:
                    continue
                key = (info.network, info.node, info.slot)
                if one.phase == "evaluation":
                    judged.setdefault(key, []).append((kept.step, stats.std, stats.mean or 0.0))
                else:
                    trained.setdefault(key, []).append((stats.std, stats.mean or 0.0))
        for key, seen in judged.items():
            usual = trained.get(key, [])
            if len({step for step, _, _ in seen}) < SEEN or len(usual) < 5 or key[0] not in case.trained():
                continue
            here, there = median([std for std, _ in usual]), median([std for _, std, _ in seen])
            steady = max(std for std, _ in usual) < 3 * max(here, 1e-12)
            if not steady or min(here, there) <= 0 or max(here, there) < FACTOR * min(here, there):
                continue
            yield self.finding(
                "evaluation data is processed in another way than training data",
                confidence=0.86,
                since_step=seen[0][0],
                where=where(None, module=case.first_module(key[0]), network=key[0]),
                why=f"the input of {key[0]} has a spread (std) of {number(here)} in training and of {number(there)} in"
                f" evaluation, {number(max(here, there) / min(here, there))} times apart: only one of the two is"
                f" normalised, so"
                " the evaluation says nothing about the training",
                facts=[("std of inputs in training", here), ("in evaluation", there)],
                fix=("use the same normalisation, with the numbers of the training data, in both",),
            )
            return
