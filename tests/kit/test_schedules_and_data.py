"""Schedules are checked and drawn, batches are looked at, before a training."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensight.errors import UsageError
from tensight.kit import check_batch, check_dataset, range_test, schedules
from tensight.kit.backend import backend_of
from tensight.kit.data_check import text
from tensight.kit.pictures import png
from tests.kit.nets import FRAMEWORKS, training

calm = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), max_examples=50
)
ALL = {
    "constant": schedules.constant(0.1),
    "warm_up": schedules.warm_up(0.1, 10, schedules.cosine(0.1, 90)),
    "cosine": schedules.cosine(0.1, 100),
    "polynomial": schedules.polynomial(0.1, 100, power=2),
    "exponential": schedules.exponential(0.1, 0.9, 10),
    "pieces": schedules.pieces([30, 60, 100], [0.1, 0.05, 0.01]),
    "inverse_root": schedules.inverse_root(0.1, 10),
    "one_cycle": schedules.one_cycle(0.1, 100),
}


@pytest.mark.parametrize("name", ALL)
def test_a_common_schedule_has_nothing_odd_and_can_be_drawn(name: str) -> None:
    assert schedules.check(ALL[name], 100) == []
    drawn = schedules.draw(ALL[name], 100).splitlines()
    assert len(drawn) == 11
    assert drawn[-1].endswith("0 … 99")


def test_schedules_equal_those_of_torch() -> None:
    def rates(make: Any, steps: int = 20) -> list[float]:
        optimizer = torch.optim.SGD([torch.zeros(1)], 0.1)
        scheduler = make(optimizer)
        found = []
        for _ in range(steps):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return found

    lr = torch.optim.lr_scheduler
    for ours, theirs in (
        (schedules.cosine(0.1, 19), lambda o: lr.CosineAnnealingLR(o, 19)),
        (schedules.polynomial(0.1, 10, power=2), lambda o: lr.PolynomialLR(o, 10, 2)),
        (schedules.exponential(0.1, 0.9), lambda o: lr.ExponentialLR(o, 0.9)),
        (schedules.exponential(0.1, 0.5, 4, stairs=True), lambda o: lr.StepLR(o, 4, 0.5)),
    ):
        np.testing.assert_allclose(schedules.rates_of(ours, 20), rates(theirs), rtol=1e-6, atol=1e-12)


class WarmUpLR:
    """The custom schedule of the tutorial, for any framework."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        self.warmup_steps = warmup_steps
        self.learning_rate = learning_rate

    def __call__(self, global_step: int) -> float:
        return self.learning_rate * min(global_step, self.warmup_steps) / self.warmup_steps


def test_the_custom_warm_up_of_the_tutorial() -> None:
    import mindspore
    from mindspore.nn import WarmUpLR as Theirs

    theirs = Theirs(0.1, 5)

    def theirs_at(step: int) -> Any:
        return theirs(mindspore.Tensor(step, mindspore.int32))

    assert schedules.check(WarmUpLR(0.1, 5), 10) == schedules.check(theirs_at, 10) == []
    np.testing.assert_allclose(
        schedules.rates_of(theirs_at, 10), schedules.rates_of(schedules.warm_up(0.1, 5), 10), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (lambda step: -0.1, "negative"),
        (lambda step: float("nan"), "nan at step 0"),
        (lambda step: "0.1", "of type str"),
        (lambda step: 0.0, "nothing is trained"),
        (lambda step: 50.0, "very high"),
        (lambda step: 0.1 if step < 20 else 0.0, "0 from step 20 on"),
        (lambda step: 0.001 if step < 50 else 0.1, "jumps up from 0.001 to 0.1 at step 50"),
        ([0.1] * 60, "60 rates for 100 steps"),
    ],
)
def test_an_odd_schedule_is_said(schedule: Any, words: str) -> None:
    assert any(words in line for line in schedules.check(schedule, 100))


@calm
@given(st.floats(1e-6, 10), st.integers(1, 50))
def test_no_schedule_leaves_its_range(rate: float, steps: int) -> None:
    made = (schedules.warm_up(rate, steps), schedules.cosine(rate, steps), schedules.one_cycle(rate, steps))
    for schedule in made:
        assert all(0 <= value <= rate * (1 + 1e-9) for value in schedules.rates_of(schedule, steps + 5))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_range_test_suggests_a_rate_and_changes_nothing(framework: str) -> None:
    made = training(framework)
    backend = backend_of(made.network)
    before = backend.state(made.network)
    found = range_test(made.network, made.loss_fn, made.optimizer, made.data, 1e-4, 10.0, 30)
    assert found.suggestion is not None
    assert 1e-5 < found.suggestion <= 1
    assert "suggested learning rate" in str(found)
    for name, value in backend.state(made.network).items():
        assert value.tobytes() == before[name].tobytes()
    assert backend.rate(made.optimizer) == pytest.approx(0.1)


def test_images_are_shown_with_their_class(capsys: pytest.CaptureFixture[str]) -> None:
    images = torch.zeros(2, 1, 8, 8)
    images[:, :, 2:6, 2:6] = 1
    found = check_batch((images, torch.tensor([1, 0])), classes=["cat", "dog"])
    out = capsys.readouterr().out
    assert "[0] label 1 dog" in out
    assert "  @@@@  " in out
    assert found.samples[0].kind == "image"
    assert found.samples[0].png.startswith(b"\x89PNG")


def test_a_picture_is_a_whole_png() -> None:
    data = png(np.linspace(0, 1, 3 * 100 * 90).reshape(3, 100, 90))
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    assert (width, height) == (45, 50)
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    assert len(zlib.decompress(data[start + 4 : start + 4 + size])) == height * (1 + 3 * width)


def test_text_and_tables_are_shown() -> None:
    words = check_batch((np.array([[1, 0], [1, 9]]), np.array([0, 1])), vocabulary=["end", "hello"], show=False)
    assert [sample.text for sample in words.samples] == ["hello end", "hello <9>"]
    strings = check_batch((["a good film", "\x1b[31mred"], np.array([1, 0])), show=False)
    assert [sample.text for sample in strings.samples] == ["a good film", "\\x1b[31mred"]
    rows = check_batch({"x": np.array([[1.0, 2.0]]), "label": np.array([3.5])}, columns=["age", "size"], show=False)
    assert text(rows).splitlines()[1:] == ["[0] label 3.5", "age=1  size=2"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_odd_batches_are_said(framework: str) -> None:
    made = training(framework)

    def troubles(data: Any, labels: Any, **options: Any) -> str:
        return " | ".join(check_batch((made.tensor(data), made.tensor(labels)), show=False, **options).troubles)

    good = np.random.default_rng(1).normal(size=(6, 2)).astype("f")
    labels = np.array([0, 1, 0, 1, 1, 0])
    assert troubles(good, labels) == ""
    bad = good.copy()
    bad[0, 0] = np.nan
    assert "1 values of the data are NaN" in troubles(bad, labels)
    assert "6 samples and 5 labels" in troubles(good, labels[:5])
    assert "all 6 labels of the batch are 1" in troubles(good, np.ones(6, int))
    assert "labels go from 0 to 1, but there are 1 classes" in troubles(good, labels, classes=["one"])
    assert "all samples of the batch are the same" in troubles(np.ones((6, 1, 8, 8), "f"), labels)


def test_sorted_and_repeated_data_is_said() -> None:
    random = np.random.default_rng(1)
    shuffled = [(random.normal(size=(4, 2)), random.integers(0, 5, 4)) for _ in range(5)]
    assert check_dataset(shuffled) == []
    ascending = [(random.normal(size=(4, 2)), np.array([k, k, k, k + 1])) for k in range(5)]
    assert check_dataset(ascending) == ["the labels come in ascending order: the data is sorted and not shuffled"]
    assert check_dataset([shuffled[0], shuffled[1], shuffled[0]]) == ["batch 2 holds the same data as batch 0"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: schedules.warm_up(0.1, 0), "steps of the warm-up is 0"),
        (lambda: schedules.pieces([2, 1], [0.1, 0.2]), "milestones in order"),
        (lambda: schedules.check(3, 5), "int is no schedule"),
        (lambda: schedules.draw(lambda step: float("inf"), 5), "no numbers"),
        (lambda: range_test(None, None, None, [], low=1, high=0.1), "make no range"),
    ],
)
def test_wrong_use_gets_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()
