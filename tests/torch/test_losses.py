"""What is told of a loss: the evidence for faults in its definition."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tensight.records import Depth

from .conftest import Watch


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def losses(sink) -> list[dict]:
    return sink.kinds("loss")


def test_a_loss_module_tells_shapes_ranges_row_sums_and_labels(watch: Watch) -> None:
    sink = watch()
    net = nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=1))
    criterion = nn.CrossEntropyLoss(reduction="sum")
    loss = criterion(net(torch.ones(8, 3)), torch.tensor([0, 0, 0, 0, 1, 1, 2, 2]))
    loss.backward()
    (facts,) = losses(sink)
    assert facts["function"] == "cross_entropy"
    assert facts["reduction"] == "sum"
    assert (facts["prediction_shape"], facts["target_shape"], facts["result_shape"]) == ("8x4", "8", "")
    assert 0 < facts["prediction_min"] < facts["prediction_max"] < 1
    assert facts["prediction_row_sum_min"] == pytest.approx(1.0)
    assert facts["prediction_row_sum_max"] == pytest.approx(1.0)
    assert (facts["prediction_from"], facts["prediction_dim"], facts["prediction_module"]) == ("softmax", 1, "1")
    assert facts["classes"] == 4
    assert (facts["target_min"], facts["target_max"], facts["target_distinct"]) == (0, 2, 3)
    assert facts["target_entropy"] == pytest.approx(1.5 * math.log(2))
    assert facts["value"] == loss.item() == sink.losses[0]
    assert sink.parts["loss", "cross_entropy"].settings["reduction"] == "sum"
    source = next(event[4] for event in sink.events if event[1] == "loss")
    assert source.code.startswith("loss = criterion(")


def test_the_line_and_dimension_of_a_functional_softmax_are_told(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 4)
    log_p = F.log_softmax(net(torch.ones(8, 3)), dim=0)
    F.nll_loss(log_p, torch.zeros(8, dtype=torch.long)).backward()
    (facts,) = losses(sink)
    assert (facts["prediction_from"], facts["prediction_dim"]) == ("log_softmax", 0)
    assert facts["prediction_source"].endswith("test_losses.py:" + str(line_of("log_p = F.log_softmax")))


def test_what_made_a_prediction_is_read_from_the_graph_where_it_was_not_seen(watch: Watch) -> None:
    sink = watch(depth=Depth.LIGHT)
    net = nn.Linear(3, 1)
    p = torch.sigmoid(net(torch.ones(8, 3))).squeeze(1)
    F.binary_cross_entropy_with_logits(p, torch.ones(8)).backward()
    assert losses(sink)[0]["prediction_from"] == "sigmoid"


def test_shapes_that_broadcast_are_told_for_functions_and_for_expressions(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 1)
    target = torch.arange(8.0)
    ((net(torch.ones(8, 3)) - target) ** 2).mean().backward()
    (facts,) = losses(sink)
    assert facts["function"] == "expression"
    assert (facts["prediction_shape"], facts["target_shape"], facts["difference_shape"]) == ("8x1", "8", "8x8")
    assert facts["reduction"] == "mean"
    assert facts["operators"].startswith("mean, pow, sub")
    source = next(event[4] for event in sink.events if event[1] == "loss")
    assert source.code == "((net(torch.ones(8, 3)) - target) ** 2).mean().backward()"


def test_a_target_that_is_the_input_is_noticed(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    x = torch.randn(8, 3)
    F.mse_loss(net(x), x.clone()).backward()
    F.mse_loss(net(x), x + 1).backward()
    assert [facts["target_equals_input"] for facts in losses(sink)] == [True, False]
    assert losses(sink)[0]["target_variance"] == pytest.approx(x.var(unbiased=False).item(), rel=1e-6)


def test_losses_of_an_evaluation_are_no_losses(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    with torch.no_grad():
        F.mse_loss(net(torch.ones(8, 3)), torch.ones(8, 3))
    assert losses(sink) == []
    assert sink.losses == []


def test_after_the_first_steps_losses_are_looked_at_now_and_then(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for _ in range(35):
        F.mse_loss(net(torch.ones(8, 3)), torch.ones(8, 3)).backward()
        optimizer.step()
    assert [event[0] for event in sink.events if event[1] == "loss"] == [*range(10), 19, 29]
    assert len(sink.losses) == 35


def test_micro_steps_do_not_repeat_the_facts_without_end(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    for _ in range(16):
        F.mse_loss(net(torch.ones(8, 3)), torch.ones(8, 3)).backward()
    assert len(losses(sink)) == 4
    assert len(sink.losses) == 16


def test_prediction_and_target_are_observed(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    F.l1_loss(net(torch.ones(8, 3)), torch.full((8, 3), math.nan)).backward()
    assert sink.of("target")[0].stats.nan == 24
    assert sink.of("prediction")[0].stats.count == 24


def test_a_loss_without_a_single_value_is_no_number(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    out = net(torch.ones(8, 3))
    out.backward(torch.ones_like(out))
    assert sink.losses == []
    assert sink.calls.count("backward") == 1


def test_the_mode_that_a_backward_pass_ran_in_is_told_with_its_line(watch: Watch) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    net.eval()
    net(torch.ones(8, 3)).sum().backward()
    (event,) = [event for event in sink.events if event[1] == "backward"]
    assert event[3] == {"cleared": True, "training": False}
    assert event[4].code == "net(torch.ones(8, 3)).sum().backward()"


@pytest.mark.parametrize("inverse", [True, False])
def test_how_class_weights_follow_the_labels_is_told(watch: Watch, inverse: bool) -> None:
    sink = watch()
    net = nn.Linear(3, 3)
    target = torch.tensor([0] * 80 + [1] * 15 + [2] * 5)
    share = torch.bincount(target) / 100
    F.cross_entropy(net(torch.ones(100, 3)), target, weight=1 / share if inverse else share).backward()
    (facts,) = losses(sink)
    assert facts["weight_slope"] == pytest.approx(-1.0 if inverse else 1.0, abs=1e-3)
    assert (facts["rare_class"], facts["rare_count"], facts["common_class"]) == (2, 5, 0)


@pytest.mark.parametrize("weight", [8.0, 0.125])
def test_how_a_weight_of_positives_follows_the_labels_is_told(watch: Watch, weight: float) -> None:
    sink = watch()
    net = nn.Linear(3, 1)
    target = torch.tensor([[1.0]] * 10 + [[0.0]] * 80)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([weight]))
    criterion(net(torch.ones(90, 3)), target).backward()
    (facts,) = losses(sink)
    assert facts["weight_slope"] == pytest.approx(-1.0 if weight > 1 else 1.0)


def test_losses_of_two_places_count_their_labels_apart(watch: Watch) -> None:
    sink = watch()
    net, weights = nn.Linear(3, 2), torch.tensor([0.5, 2.0])
    often, rarely = torch.tensor([0] * 30 + [1] * 10), torch.tensor([0] * 10 + [1] * 30)
    first = F.cross_entropy(net(torch.ones(40, 3)), often, weight=weights)
    second = F.cross_entropy(net(torch.ones(40, 3)), rarely, weight=weights)
    (first + second).backward()
    assert [(facts["rare_class"], facts["rare_count"]) for facts in losses(sink)] == [(1, 10), (0, 10)]


@pytest.mark.parametrize("kept", ["padding", "words"])
def test_which_targets_count_is_read_from_the_gradient_of_each_term(watch: Watch, kept: str) -> None:
    sink = watch()
    net = nn.Linear(3, 5)
    target = torch.tensor([1, 2, 3, 4, 0, 0, 0, 0, 0, 0])
    terms = F.cross_entropy(net(torch.ones(10, 3)), target, reduction="none")
    mask = target == 0 if kept == "padding" else target != 0
    (terms * mask).sum().backward()
    (told,) = sink.kinds("terms_counted")
    if kept == "padding":
        assert (told["only"], told["counted"], told["kinds_left_out"]) == (0, 6, 4)
    else:
        assert ("only" in told, told["counted"], told["kinds_left_out"]) == (False, 4, 1)
