"""Reasons from the numbers alone, for operators whose faults are hard to bring about or belong to another framework."""

from __future__ import annotations

import pytest

from tensight.diagnosis.reasons import FAMILIES, explain
from tensight.diagnosis.reasons_line import mended
from tensight.records import Replay, Source


def replay(operator: str, phase: str = "forward", code: str = "", **facts: float | int | str | None) -> Replay:
    named = {key.replace("__", "."): value for key, value in facts.items()}
    source = Source("train.py", 3, code) if code else None
    return Replay(4, "exact", operator=f"aten.{operator}", phase=phase, source=source, facts=named)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (replay("atan2", "backward", in__0__zero=1, in__0__count=4), "atan2_zero_gradient"),
        (replay("std", "backward", in__0__count=4), "sqrt_zero_gradient"),
        (replay("linalg_vector_norm", "backward", in__0__zero=4, in__0__count=4), "sqrt_zero_gradient"),
        (replay("_log_softmax", masked_rows=2), "softmax_all_masked"),
        (replay("_scaled_dot_product_flash_attention_for_cpu", masked_rows=1), "softmax_all_masked"),
        (replay("_foreach_addcdiv_", "update", in__2__zero=3, in__2__count=9), "division_by_zero"),
        (replay("convolution", dtype="float16", bad=2, bad_nan=0, in__0__max=900.0), "fp16_overflow"),
        (replay("bmm", dtype="float32", bad=2, bad_nan=0, in__0__max=1e30), "exploding_activation"),
        (replay("mm", "backward", dtype="float32", bad=2, bad_nan=0, in__0__max=1e30), "exploding_gradient"),
        (replay("addmm", kind="given", given=1, bad=1, bad_nan=1, bad_of=280, first_bad="17,5"), "nan_in_input"),
        (replay("embedding", kind="given", name="table.weight", bad=1, bad_nan=1, bad_of=8), "nonfinite_weight"),
        (replay("tan", "backward", bad=2, incoming_zero_at_bad=2), "where_bad_branch"),
    ],
)
def test_the_numbers_lead_to_the_reason(given, fault):
    found = explain(given)
    assert found is not None
    assert found.fault == fault


def test_a_weight_that_is_minus_infinity_is_called_so():
    found = explain(replay("copy", kind="given", assigned=1, name="fc.bias", bad=2, bad_neg_inf=2, bad_of=8))
    assert found is not None
    assert found.title == "fc.bias is assigned -inf"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (replay("sinh", dtype="float32", in__0__max=2.0, in__0__min=-99.0, bad=1, bad_neg_inf=1), "the result is -inf"),
        (replay("exp", dtype="float32", in__0__max=99.0, bad=1, bad_neg_inf=0), "the result is inf"),
        (replay("bmm", dtype="float16", bad=3, bad_nan=1, bad_neg_inf=2, in__0__min=-900.0), "become -inf"),
    ],
)
def test_an_overflow_says_to_which_side(given, said):
    found = explain(given)
    assert found is not None
    assert f"{said} (overflow)" in found.why


def test_numbers_that_bear_nothing_out_give_no_reason():
    assert explain(replay("relu", bad=1, bad_nan=1)) is None


def test_every_operator_with_a_reason_can_be_asked_without_facts():
    for name in FAMILIES:
        explain(replay(name))
        explain(replay(name, "backward"))


@pytest.mark.parametrize(
    ("line", "names", "change", "made"),
    [
        ("return torch.sqrt(x.sum(1))", "sqrt", "x + 1e-12", "return torch.sqrt(x.sum(1) + 1e-12)"),
        ("d = (a - b).sqrt()", "sqrt", "x + 1e-12", "d = ((a - b) + 1e-12).sqrt()"),
        ("loss = a / (b - c)", "/", "x + 1e-8", "loss = a / ((b - c) + 1e-8)"),
        ("p = torch.log(1 - q)", "log", "x.clamp_min(1e-8)", "p = torch.log((1 - q).clamp_min(1e-8))"),
        ("if torch.exp(z).sum() > 1:", "exp", "x.clamp(max=80)", "if torch.exp(z.clamp(max=80)).sum() > 1:"),
        ("torch.log(", "log", "x.clamp_min(1e-8)", ""),
        ("y = relu(x)", "log", "x.clamp_min(1e-8)", ""),
    ],
)
def test_a_line_is_mended_in_place(line, names, change, made):
    assert mended(line, names.split(), change) == made
