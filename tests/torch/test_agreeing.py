"""Answers that a cosine compares."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .conftest import Watch


def test_whether_both_sides_are_trained_and_how_far_samples_lie_apart_is_told(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(6, 4)
    x = torch.randn(16, 6)
    one, other = net(x), net(x + 0.1)
    (-F.cosine_similarity(one, other).mean()).backward()
    (-F.cosine_similarity(one.detach().requires_grad_(), torch.ones(16, 4)).mean()).backward()
    first, second = sink.kinds("agreeing")
    assert first["both"]
    assert first["spread"] > 0.1
    assert not second["both"]
    assert second["spread"] < 1e-6


def test_what_only_measures_or_compares_pairs_of_all_rows_is_not(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(6, 4)
    answers = net(torch.randn(16, 6))
    with torch.no_grad():
        F.cosine_similarity(answers, answers)
    torch.cosine_similarity(answers[:, None], answers[None], dim=2).sum().backward()
    assert sink.kinds("agreeing") == []
