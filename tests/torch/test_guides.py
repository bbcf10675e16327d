"""What is told of networks that are asked without being trained, and of attention that drops weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from .conftest import Watch


def _train(student: nn.Module, teacher: nn.Module, steps: int, *, decay: float | None = None) -> None:
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    dtype = next(teacher.parameters()).dtype
    x = torch.randn(8, 4)
    for _ in range(steps):
        with torch.no_grad():
            goal = teacher(x.to(dtype)).float()
        loss = F.mse_loss(student(x), goal + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if decay is not None:
            with torch.no_grad():
                for mean, own in zip(teacher.parameters(), student.parameters()):
                    mean.mul_(decay).add_(own.to(mean.dtype), alpha=1 - decay)


def _marks(sink) -> list[dict]:
    return [values for _, kind, _, values, _ in sink.events if kind == "forward" and "unchanged" in values]


def test_a_frozen_network_is_marked_now_and_then_and_stays_the_same(watch: Watch) -> None:
    student, teacher = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)
    sink = watch()
    _train(student, teacher, 30)
    marks = _marks(sink)
    assert 3 <= len(marks) < 30
    assert {mark["frozen"] for mark in marks} == {"weight"}
    assert {mark["unchanged"] for mark in marks} == {1.0}
    assert len({mark["written"] for mark in marks}) == 1


@pytest.mark.parametrize(("dtype", "moved"), [(torch.float32, True), (torch.bfloat16, False)])
def test_a_running_mean_is_told_by_its_writes_and_whether_it_moves(watch: Watch, dtype, moved: bool) -> None:
    torch.manual_seed(0)
    student = nn.Linear(4, 3)
    teacher = copy.deepcopy(student).to(dtype).requires_grad_(False)
    sink = watch()
    _train(student, teacher, 60, decay=0.9995)
    first, *_, last = _marks(sink)
    assert last["unchanged"] < 0.1 if moved else last["unchanged"] > 0.7
    assert last["written"] - first["written"] >= 16
    assert last["dtype"] == str(dtype).removeprefix("torch.")


def test_a_network_that_is_trained_is_not_marked_when_it_is_evaluated(watch: Watch) -> None:
    student = nn.Linear(4, 3)
    sink = watch()
    _train(student, student, 12)
    assert _marks(sink) == []


class Attending(nn.Module):
    def __init__(self, careful: bool) -> None:
        super().__init__()
        self.careful = careful
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        p = 0.0 if self.careful and not self.training else 0.25
        return self.out(F.scaled_dot_product_attention(x, x, x, dropout_p=p))


@pytest.mark.parametrize("careful", [True, False])
def test_attention_that_drops_weights_in_evaluation_is_told(watch: Watch, careful: bool) -> None:
    model = Attending(careful)
    sink = watch()
    model(torch.randn(2, 5, 4)).sum().backward()
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 5, 4))
    told = [(values, source) for _, kind, _, values, source in sink.events if kind == "dropout"]
    assert len(told) == (0 if careful else 1)
    for values, source in told:
        assert (values["function"], values["p"]) == ("scaled_dot_product_attention", 0.25)
        assert "dropout_p=p" in source.code


class Distilling(nn.Module):
    """A student with its frozen teacher inside, and a head on frozen features beside."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).requires_grad_(False)
        self.student = nn.Linear(4, 3)
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            said = self.teacher(x)
        return self.student(x), said


def _parts(watch: Watch, loss, prepare=lambda model: None) -> list[dict]:
    model = Distilling()
    sink = watch()
    prepare(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        x, label = torch.randn(16, 4), torch.randint(0, 3, (16,))
        value = loss(model, x, label)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return sink.kinds("fixed_part")


def _distilled(model, x, label):
    out, said = model(x)
    return F.kl_div((out / 2).log_softmax(1), (said / 2).softmax(1), reduction="batchmean")


def _by_hand(model, x, label):
    out, said = model(x)
    return (out - said).square().mean()


def _hard(model, x, label):
    out, said = model(x)
    return F.cross_entropy(out, said.argmax(1))


@pytest.mark.parametrize("loss", [_distilled, _by_hand, _hard])
def test_a_frozen_part_whose_answer_is_the_target_is_told_with_its_mode(watch: Watch, loss) -> None:
    told = _parts(watch, loss)
    assert len(told) == 6
    assert {(one["module"], one["training"], one["kinds"]) for one in told} == {("teacher", True, "Dropout")}
    assert len({one["size"] for one in told}) == 1


def test_a_frozen_part_in_evaluation_mode_is_told_as_such(watch: Watch) -> None:
    told = _parts(watch, _distilled, lambda model: model.teacher.eval())
    assert {one["training"] for one in told} == {False}


def test_a_teacher_that_is_a_network_of_its_own_is_no_part(watch: Watch) -> None:
    def apart(model, x, label):
        with torch.no_grad():
            said = model.teacher(x)
        return F.mse_loss(model.student(x), said)

    assert _parts(watch, apart) == []


def test_features_of_a_frozen_part_are_no_target(watch: Watch) -> None:
    """Dropout on frozen features is there on purpose."""
    assert _parts(watch, lambda model, x, label: F.cross_entropy(model.head(model(x)[1]), label)) == []


def test_a_target_from_a_part_that_is_trained_is_no_teacher(watch: Watch) -> None:
    assert _parts(watch, _distilled, lambda model: model.teacher.requires_grad_(True)) == []
