"""Each common operator is made to go bad for real; the look must find it, and the reason must fit."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tensight.diagnosis.reasons import explain, operator_name
from tests.operators.look import look_at, loss_step

ZERO = torch.tensor([0.0, 1.0, 4.0])
ONE_INF = float("-inf")


def masked_softmax(w):
    scores = w.repeat(2, 1).masked_fill(torch.tensor([[True] * 3, [False] * 3]), ONE_INF)
    return scores.softmax(1).sum()


def masked_attention(w):
    q = w.reshape(1, 1, 3, 1)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(3, 3, dtype=torch.bool)).sum()


def where_drops_log(w):
    return torch.where(w > 0, torch.log(w), torch.zeros_like(w)).sum()


def where_drops_division(w):
    return torch.where(w > 0, 1 / w, torch.zeros_like(w)).sum()


def no_targets(w):
    return F.cross_entropy(w.reshape(1, 3), torch.tensor([-100]))


def inf_times_zero(w):
    mask = torch.full((3,), ONE_INF)
    return (mask * (w * 0)).sum()


CASES = [
    ("log", lambda w: torch.log(w).sum(), ZERO, "log", "forward", "log_of_zero"),
    ("log2", lambda w: torch.log2(w).sum(), ZERO, "log2", "forward", "log_of_zero"),
    ("log of negative", lambda w: torch.log(w - 1).sum(), ZERO, "log", "forward", "log_of_zero"),
    ("log1p", lambda w: torch.log1p(w - 1).sum(), ZERO, "log1p", "forward", "log_of_zero"),
    ("sqrt of negative", lambda w: torch.sqrt(w - 2).sum(), ZERO, "sqrt", "forward", "sqrt_of_negative"),
    ("sqrt", lambda w: torch.sqrt(w).sum(), ZERO, "sqrt", "backward", "sqrt_zero_gradient"),
    ("sqrt in place", lambda w: (w * 1).sqrt_().sum(), ZERO, "sqrt", "backward", "sqrt_zero_gradient"),
    ("rsqrt", lambda w: torch.rsqrt(w).sum(), ZERO, "rsqrt", "forward", "division_by_zero"),
    ("division", lambda w: (1.0 / w).sum(), ZERO, "reciprocal", "forward", "division_by_zero"),
    ("division by tensor", lambda w: (w.sum() / w).sum(), ZERO, "div", "forward", "division_by_zero"),
    ("division by number", lambda w: (w / 0.0).sum(), ZERO, "div", "forward", "division_by_zero"),
    ("reciprocal", lambda w: torch.reciprocal(w).sum(), ZERO, "reciprocal", "forward", "division_by_zero"),
    ("pow -1", lambda w: (w**-2).sum(), ZERO, "pow", "forward", "division_by_zero"),
    ("pow 0.5", lambda w: (w**0.25).sum(), ZERO, "pow", "backward", "sqrt_zero_gradient"),
    ("pow of negative", lambda w: ((w - 2) ** 1.5).sum(), ZERO, "pow", "forward", "power_of_negative"),
    ("exp", lambda w: torch.exp(w * 100).sum(), ZERO, "exp", "forward", "exp_overflow"),
    ("expm1", lambda w: torch.expm1(w * 100).sum(), ZERO, "expm1", "forward", "exp_overflow"),
    ("exp in a sum", lambda w: torch.log(torch.exp(w * 0 + 88.5).sum()), ZERO, "exp", "forward", "exp_overflow"),
    ("softmax", masked_softmax, ZERO, "softmax", "forward", "softmax_all_masked"),
    ("acos", lambda w: torch.acos(w).sum(), ZERO, "acos", "forward", "acos_out_of_range"),
    ("asin", lambda w: torch.asin(w * 0 + 1).sum(), ZERO, "asin", "backward", "asin_out_of_range"),
    ("atanh", lambda w: torch.atanh(w).sum(), ZERO, "atanh", "forward", "atanh_out_of_range"),
    ("mean of nothing", lambda w: w[w > 9].mean(), ZERO, "mean", "forward", "division_by_zero"),
    ("dropped log", where_drops_log, ZERO, "log", "backward", "log_of_zero"),
    ("no targets", no_targets, ZERO, "nll_loss", "forward", "division_by_zero"),
    ("inf times zero", inf_times_zero, ZERO, "mul", "forward", "inf_times_zero"),
    ("half mul", lambda w: (w.half() * 60000).float().sum(), ZERO, "mul", "forward", "fp16_overflow"),
    ("half cast", lambda w: (w * 60000).half().float().sum(), ZERO, "to_copy", "forward", "fp16_overflow"),
    ("float32 mul", lambda w: (w * 1e30 * 1e30).sum(), ZERO, "mul", "forward", "exploding_activation"),
    ("mm", lambda w: (w[:, None] * 1e30 @ (w[None] * 1e30)).sum(), ZERO, "mm", "forward", "exploding_activation"),
    ("cumprod", lambda w: torch.cumprod(w * 1e30 + 1e30, 0).sum(), ZERO, "cumprod", "forward", "exp_overflow"),
]


@pytest.mark.parametrize(
    ("loss", "weights", "operator", "phase", "fault"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_an_operator_that_goes_bad_is_found_and_its_reason_given(loss, weights, operator, phase, fault):
    seen = look_at(loss_step(loss, weights))
    assert seen is not None
    assert (operator_name(seen.replay), seen.replay.phase) == (operator, phase)
    assert seen.replay.source is not None
    assert seen.replay.source.file.endswith("test_reasons_of_real_operators.py")
    reason = explain(seen.replay)
    assert reason is not None
    assert reason.fault == fault
    assert reason.why
    assert reason.fix


def test_std_of_one_value_is_explained():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        seen = look_at(loss_step(lambda w: torch.std(w[:1]), ZERO))
    reason = explain(seen.replay)
    assert (operator_name(seen.replay), reason.fault) == ("std", "division_by_zero")
    assert "minus one" in reason.why


def test_healthy_infinities_are_no_trouble():
    def step(w):
        scores = w.repeat(2, 1).masked_fill(torch.tensor([[True, False, False]] * 2), ONE_INF)
        dropped = torch.where(w > 0, w, torch.log(w.detach()))
        dropped = torch.where(torch.isfinite(dropped), dropped, 0.0)
        return scores.softmax(1).sum() + dropped.sum()

    assert look_at(loss_step(step, ZERO), final=False) is None


def test_values_that_are_overwritten_are_no_trouble():
    def step(w):
        spoilt = torch.log(w.detach())
        spoilt.zero_()
        return (w + spoilt).sum()

    assert look_at(loss_step(step, ZERO)) is None


def test_uninitialised_memory_is_not_blamed():
    def step(w):
        raw = torch.empty(3).fill_(math.nan)
        buffer = torch.empty_like(raw)
        buffer.copy_(w.detach())
        return (w * buffer).sum()

    assert look_at(loss_step(step, ZERO), final=False) is None


def test_the_reason_mends_the_line_of_the_user():
    seen = look_at(loss_step(lambda w: torch.sqrt(w).sum(), ZERO))
    assert "torch.sqrt(w + 1e-12)" in explain(seen.replay).fix[0]


def test_real_inputs_are_kept_for_a_reproduction():
    seen = look_at(loss_step(lambda w: torch.log(w).sum(), ZERO))
    assert seen.values["input.0"].tolist() == [0.0, 1.0, 4.0]
