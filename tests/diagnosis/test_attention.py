"""Masks that are missing, inverted or added; targets that are not the next tokens."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Module, Source
from tests.diagnosis.builders import Run

LINE = Source("train.py", 18, "a = F.scaled_dot_product_attention(q, k, v)")


def language(run: Run, shift: int | None = 1, **more: Any) -> None:
    assert run.loss_values is not None
    run.loss_values |= {"classes": 30, "prediction_shape": "64x30", "target_shape": "64", "target_entropy": 3.2}
    run.loss_values |= {} if shift is None else {"target_shift": shift}
    run.loss_values |= more


def attend(run: Run, steps: int = 20, end: float = 0.3, **values: Any) -> list[str]:
    told = {"function": "scaled_dot_product_attention", "rows": 16, "columns": 16, "module": "attn", **values}
    for at in range(steps):
        event = Event("attention", part="net", values=told, source=LINE)
        run.train(3.4 + (end - 3.4) * at / steps, events=[*([event] if at < 6 else []), *run.events()])
    return run.faults()


def test_a_language_model_without_a_causal_mask_is_named() -> None:
    run = Run()
    language(run)
    assert attend(run, future=True) == ["attention_mask_wrong"]
    (finding,) = run.engine.findings
    assert (finding.where.module, finding.where.op, finding.where.line) == ("attn", "scaled_dot_product_attention", 18)
    assert "future" in finding.why


@pytest.mark.parametrize(
    ("shift", "values"),
    [
        (1, {"future": False}),
        (None, {"future": True}),  # a classifier or an encoder
        (1, {"future": None}),  # two sequences
        (None, {"future": True, "only_padding": False}),
        (None, {"future": True, "mask": "float32"}),
    ],
    ids=["causal", "not a language model", "across two sequences", "padding is shut", "additive mask"],
)
def test_attention_as_it_should_be_has_no_finding(shift: int | None, values: dict[str, Any]) -> None:
    run = Run()
    language(run, shift)
    assert attend(run, **values) == []


@pytest.mark.parametrize(
    ("keys", "faults"), [("1", ["attention_mask_wrong"]), ("0", []), ("0,1", ["attention_mask_wrong"])]
)
def test_of_two_sequences_the_one_that_is_not_continued_may_be_seen_whole(keys: str, faults: list[str]) -> None:
    run = Run()
    language(run, target_of=1)
    assert attend(run, future=True, keys_of=keys) == faults


def test_one_attention_without_a_mask_beside_a_causal_one_has_no_finding() -> None:
    """The encoder of a translator sees its whole input."""
    run = Run()
    language(run)
    for at in range(20):
        told = [
            Event("attention", part="net", values={"function": "softmax", "rows": 16, "columns": 16, "future": future})
            for future in (True, False)
        ]
        run.train(3.4 - at / 20, events=[*told, *run.events()])
    assert run.faults() == []


def test_a_mask_that_leaves_only_padding_is_named() -> None:
    run = Run()
    assert attend(run, future=True, only_padding=True, token=0) == ["attention_mask_wrong"]
    assert "inverted" in run.engine.findings[0].why


def test_a_mask_of_zeros_and_ones_that_is_added_is_named() -> None:
    run = Run()
    assert attend(run, future=True, binary=True, mask="float32") == ["attention_mask_wrong"]
    assert "added" in run.engine.findings[0].why


def test_targets_that_are_the_inputs_are_named_when_the_loss_shows_copying() -> None:
    run = Run()
    language(run, 0)
    assert run.learn(40, 3.4, 0.01).faults() == ["targets_not_shifted"]


def test_an_autoencoder_gives_back_its_input_and_has_no_finding() -> None:
    run = Run(modules=[Module("decoder", "GRU")])
    language(run, 0)
    assert run.learn(40, 3.4, 0.01).faults() == []


def test_padding_that_is_counted_as_targets_is_named() -> None:
    run = Run(modules=[Module("emb", "Embedding", settings={"padding_idx": 0})])
    language(run, 1, target_most=0, target_most_share=0.8)
    assert run.learn(20).faults() == ["padding_not_ignored"]


def padded(share: float = 0.7, token: int = 9, **more: Any) -> list[str]:
    """A tagger whose targets are filled up with 4 where its input is."""
    run = Run(modules=[Module("emb", "Embedding", settings={"padding_idx": 9})])
    assert run.loss_values is not None
    run.loss_values |= {"padded_with": token, "padded_target": 4, "padded_share": share, "ignore_index": -100, **more}
    return run.learn(20).faults()


def test_padding_that_is_counted_by_a_tagger_is_named() -> None:
    assert padded() == ["padding_not_ignored"]


@pytest.mark.parametrize(
    "told", [{"ignore_index": 4}, {"share": 0.4}, {"token": 3}, {"reduction": "none"}], ids=lambda one: next(iter(one))
)
def test_padding_of_a_tagger_that_is_ignored_or_little_or_none_has_no_finding(told: dict[str, Any]) -> None:
    assert padded(**told) == []


def test_padding_that_the_loss_ignores_has_no_finding() -> None:
    run = Run(modules=[Module("emb", "Embedding", settings={"padding_idx": 0})])
    language(run, 1, target_most=0, target_most_share=0.8, ignore_index=0)
    assert run.learn(20).faults() == []
