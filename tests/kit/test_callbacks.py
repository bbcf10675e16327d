"""Callbacks that come with the kit."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore.train import EarlyStopping as MindSpores

from tensight.errors import CallbackError, UsageError
from tensight.kit import (
    Callback,
    Driver,
    DynamicLossScaleManager,
    EarlyStopping,
    FixedLossScaleManager,
    History,
    LambdaCallback,
    LearningRateScheduler,
    Loop,
    LossMonitor,
    LossScaleMonitor,
    Model,
    OnRequestExit,
    ReduceLROnPlateau,
    SaveBest,
    StopAtTime,
    SummaryCollector,
    TimeMonitor,
    compare_summaries,
    load_checkpoint,
    read_summary,
    schedules,
)
from tensight.kit.backend import backend_of
from tensight.kit.callbacks.callback import Params, RunContext
from tensight.kit.summaries import table
from tests.kit.nets import BATCHES, FRAMEWORKS, training

ROOT = Path(__file__).parents[2]

both = pytest.mark.parametrize("framework", FRAMEWORKS)


def model_of(framework: str, **options: Any) -> tuple[Model, Any]:
    made = training(framework)
    return Model(made.network, made.loss_fn, made.optimizer, **options), made


def losses(values: list[float], *callbacks: Callback, **known: Any) -> Loop[float]:
    """An epoch whose losses are given."""
    loop = Loop(values, list(callbacks), **known)
    with loop:
        for _ in loop.epochs():
            for value in loop.steps():
                loop.loss = value
    return loop


def test_the_first_error_names_its_callback_and_is_not_swallowed() -> None:
    seen: list[str] = []
    callbacks = [
        LambdaCallback(on_train_step_end=lambda context: seen.append("before")),
        LambdaCallback(on_train_step_end=lambda context: 1 / 0),
        LambdaCallback(on_train_step_end=lambda context: seen.append("after")),
    ]
    with pytest.raises(
        CallbackError, match=r"LambdaCallback failed in step_end \(epoch 1, step 1\): ZeroDivision"
    ) as error:
        losses([1.0], *callbacks)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert seen == ["before"]


def test_what_is_no_callback_is_refused() -> None:
    with pytest.raises(UsageError, match="'words' is no callback"):
        Driver(["words"])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_training_with_a_block(
    bad: float, capsys: pytest.CaptureFixture[str]
) -> None:
    made = training("torch")
    made.network.second.weight.grad = made.tensor(np.full((3, 6), np.nan, "f"))
    loop = losses([1.0, bad, 3.0], LossMonitor(), epochs=2, network=made.network)
    said = capsys.readouterr()
    assert said.out == "epoch: 1 step: 1, loss is 1.0\n"
    assert f"✖ epoch 1 step 2  loss is {bad}: the training ends here" in said.err
    assert "second.weight (gradient: 18 NaN, 0 Inf)" in said.err
    assert loop.params.cur_step_num == 2


FAULTY = """
import torch
from tensight.kit import LossMonitor, Model
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
data = [(torch.ones(4, 2) * (0 if step == 2 else 1), torch.ones(4, 1)) for step in range(5)]
Model(net, lambda out, label: (out / (label - label)).mean(), torch.optim.SGD(net.parameters(), 0.1)).train(
    1, data, callbacks=LossMonitor()
)
"""


def test_under_a_session_the_block_is_the_finding(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "train.py").write_text(FAULTY)
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--run-dir", "out", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    block = done.stderr.partition("the training ends here")[2]
    assert "✖ step 0" in block
    assert "where" in block


def test_the_loss_is_printed_every_n_steps_or_never(capsys: pytest.CaptureFixture[str]) -> None:
    losses([1.0] * 5, LossMonitor(2))
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "epoch: 1 step: 2",
        "epoch: 1 step: 4",
    ]
    losses([1.0] * 5, LossMonitor(0))
    assert capsys.readouterr().out == ""


def test_time_is_printed_after_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    losses([1.0, 2.0], TimeMonitor(data_time=True))
    (line,) = capsys.readouterr().out.splitlines()
    words = line.replace(",", "").split()
    assert line.startswith("Train epoch time: ")
    assert line.count(" ms") == 3
    assert float(words[3]) >= float(words[8]) >= 0


def test_a_training_ends_at_its_time() -> None:
    assert losses([1.0] * 50, StopAtTime(0)).params.cur_step_num == 1
    assert losses([1.0] * 50, StopAtTime(1e6)).params.cur_step_num == 50


@both
def test_without_progress_a_training_ends_with_the_best_weights(framework: str) -> None:
    model, made = model_of(framework, metrics={"loss"})
    backend = backend_of(made.network)
    kept: list[dict[str, Any]] = []
    stopping = EarlyStopping("eval_loss", patience=2, restore_best_weights=True, min_delta=1e6)
    noting = LambdaCallback(on_train_epoch_end=lambda context: kept.append(backend.state(made.network)))
    history = History()
    model.fit(10, made.data, made.data, callbacks=[noting, history, stopping])
    assert stopping.stopped_epoch == 3  # the first, and two more that are no better
    assert len(history.history["eval_loss"]) == len(history.epoch["epoch"]) == 3
    for name, value in backend.state(made.network).items():
        np.testing.assert_array_equal(value, kept[0][name])


def stops(make: Any, values: list[float], **options: Any) -> int:
    """The epoch after which one of MindSpore's or of the kit's is enough; 0 when none is."""
    callback = make("eval_loss", **options)
    callback.baseline = options.get("baseline")  # MindSpore 2.10 takes min_delta for it, by a slip of the pen
    params = Params(eval_results={}, metrics={}, network=None, train_network=None)
    context = RunContext(params)
    callback.on_train_begin(context)
    for epoch, value in enumerate(values, 1):
        params.cur_epoch_num = epoch
        params.eval_results = params.metrics = {"eval_loss": value}
        callback.on_train_epoch_end(context)
        if context.get_stop_requested():
            return epoch
    return 0


@given(
    values=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]), min_size=1, max_size=12),
    patience=st.integers(1, 4),
    min_delta=st.sampled_from([0.0, 0.5, 0.7]),
    baseline=st.sampled_from([None, 1.2, 2.5]),
    mode=st.sampled_from(["min", "max"]),
)
@settings(max_examples=200, deadline=None)
def test_a_training_without_progress_ends_after_the_same_epoch_as_mindspores(
    values: list[float], patience: int, min_delta: float, baseline: float | None, mode: str
) -> None:
    options: dict[str, Any] = {"patience": patience, "min_delta": min_delta, "baseline": baseline, "mode": mode}
    assert stops(EarlyStopping, values, **options) == stops(MindSpores, values, **options)


def test_an_epoch_that_is_better_ends_no_training_even_without_patience() -> None:
    assert stops(EarlyStopping, [3.0, 2.0, 1.0, 1.0]) == 4


def test_a_value_that_is_not_there_is_named() -> None:
    with pytest.raises(CallbackError, match="no 'eval_auc' to watch; there are loss"):
        losses([1.0], EarlyStopping("eval_auc"))


@both
def test_the_rate_falls_on_a_plateau(framework: str) -> None:
    model, made = model_of(framework)
    plateau = ReduceLROnPlateau("loss", factor=0.5, patience=2, min_delta=1e6, min_lr=0.03)
    rates: list[float] = []
    noting = LambdaCallback(
        on_train_epoch_end=lambda context: rates.append(backend_of(made.optimizer).rate(made.optimizer) or 0.0)
    )
    model.train(7, made.data, callbacks=[plateau, noting])
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 0.05, 0.03, 0.03, 0.03], rtol=1e-6)


@both
def test_the_rate_follows_a_schedule(framework: str) -> None:
    model, made = model_of(framework)
    rates: list[float] = []
    noting = LambdaCallback(
        on_train_step_begin=lambda context: rates.append(backend_of(made.optimizer).rate(made.optimizer) or 0.0)
    )
    model.train(1, made.data, callbacks=[LearningRateScheduler(schedules.warm_up(0.4, 4)), noting])
    model.train(1, made.data, callbacks=[LearningRateScheduler(lambda rate, step: rate / 2), noting])
    np.testing.assert_allclose(rates, [0.0, 0.1, 0.2, 0.3, 0.15, 0.075], rtol=1e-6)


def test_a_schedule_that_answers_no_rate_is_named() -> None:
    made = training("torch")
    with pytest.raises(CallbackError, match=r"LearningRateScheduler.*-1 is no learning rate"):
        losses([1.0], LearningRateScheduler(lambda rate, step: -1), optimizer=made.optimizer)


@both
def test_the_best_network_is_saved(framework: str, tmp_path: Path) -> None:
    model, made = model_of(framework, metrics={"accuracy"})
    saving = SaveBest(model, made.data, directory=tmp_path)
    model.train(8, made.data, callbacks=saving)
    assert saving.path is not None
    fresh = training(framework)
    load_checkpoint(saving.path, fresh.network)
    again = Model(fresh.network, fresh.loss_fn, metrics={"accuracy"}).eval(made.data)
    assert again["accuracy"] == saving.value


def test_a_signal_saves_and_ends_after_the_step(tmp_path: Path) -> None:
    made = training("torch")
    before = signal.getsignal(signal.SIGUSR1)
    leaving = OnRequestExit(directory=tmp_path, file_name="Net", sig=signal.SIGUSR1)
    asking = LambdaCallback(on_train_step_begin=lambda context: os.kill(os.getpid(), signal.SIGUSR1))
    loop = losses([1.0] * 5, leaving, asking, network=made.network)
    assert loop.params.cur_step_num == 1
    assert [path.name for path in tmp_path.iterdir()] == ["Net_train.safetensors"]
    assert signal.getsignal(signal.SIGUSR1) == before


def test_an_error_in_the_training_gives_everything_back(tmp_path: Path) -> None:
    import threading

    from tensight.kit import CheckpointConfig, ModelCheckpoint

    made = training("torch")
    before = signal.getsignal(signal.SIGUSR1)
    callbacks = [
        OnRequestExit(sig=signal.SIGUSR1),
        SummaryCollector(tmp_path / "summary"),
        ModelCheckpoint(directory=tmp_path, config=CheckpointConfig(async_save=True)),
        LambdaCallback(on_train_step_end=lambda context: 1 / 0),
    ]
    with pytest.raises(CallbackError):
        Model(made.network, made.loss_fn, made.optimizer).train(1, made.data, callbacks=callbacks)
    assert signal.getsignal(signal.SIGUSR1) == before
    assert [path.name for path in tmp_path.glob("CKP*")] == ["CKP-1_1.safetensors"]
    assert "tensight-checkpoint" not in [thread.name for thread in threading.enumerate()]


@both
def test_scaled_losses_train_as_without_a_scale(framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain, made = model_of(framework)
    history = History()
    plain.train(2, made.data, callbacks=history)
    wanted = history.history["net_output"]
    model, made = model_of(framework, loss_scale_manager=FixedLossScaleManager(1024))
    model.train(2, made.data, callbacks=[history, LossScaleMonitor()])
    np.testing.assert_allclose(history.history["net_output"], wanted, rtol=1e-5)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * BATCHES
    assert lines[0].startswith("step: 0, loss: 1.")
    assert lines[0].endswith(", overflow:False, scale:1024.0")


@both
def test_an_overflow_is_left_out_and_halves_a_dynamic_scale(framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = training(framework)
    x, y = made.data[0]
    data = [made.data[0], (x * float("inf"), y), made.data[1]]
    scale = DynamicLossScaleManager(4, 2, 1000)
    before = backend_of(made.network).state(made.network)
    Model(made.network, made.loss_fn, made.optimizer, loss_scale_manager=scale).train(
        1, [data[1]] * 12, callbacks=LossScaleMonitor()
    )
    for name, value in backend_of(made.network).state(made.network).items():
        np.testing.assert_array_equal(value, before[name])
    said = capsys.readouterr()
    shown = [line.rpartition("overflow:")[2] for line in said.out.splitlines()]
    assert shown[:4] == ["True, scale:4.0", "True, scale:2.0", "True, scale:1.0", "True, scale:1.0"]
    assert "the dynamic scale fell to 1 and gradients still overflow" in said.err
    assert "gradients overflow with a scale of 1 as well: an operator overflows" in said.err


@both
def test_a_scaler_of_the_framework_is_shown_as_it_is(framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = training(framework)
    if framework == "torch":
        import torch

        scaler: Any = torch.amp.GradScaler("cpu", init_scale=8.0)
        halve = lambda: scaler.update(4.0)  # noqa: E731
    else:
        from mindspore import Tensor, amp

        scaler = amp.DynamicLossScaler(8, 2, 1000)
        halve = lambda: scaler.adjust(Tensor(False))  # noqa: E731
    if framework == "torch":
        scaler.scale(made.tensor(np.float32(1.0)))
    loop = Loop([1.0, 2.0], LossScaleMonitor(scaler), network=made.network)
    with loop:
        for _ in loop.epochs():
            for number, value in enumerate(loop.steps()):
                loop.loss = value
                if number == 1:
                    halve()
    assert capsys.readouterr().out.splitlines() == [
        "step: 0, loss: 1.0, overflow:False, scale:8.0",
        "step: 1, loss: 2.0, overflow:True, scale:4.0",
    ]


@both
def test_a_summary_holds_what_happened(framework: str, tmp_path: Path) -> None:
    for rate, name in ((0.1, "slow"), (0.5, "fast")):
        made = training(framework, rate)
        collect = SummaryCollector(
            tmp_path / name,
            collect_freq=2,
            collect_specified_data={"histogram_regular": "weight:first", "collect_landscape": {"size": 3}},
            custom_lineage_data={"who": "me"},
            tensorboard=framework == "torch",
        )
        model = Model(made.network, made.loss_fn, made.optimizer, {"loss"})
        model.fit(2, made.data, made.data, callbacks=collect)
    found = read_summary(tmp_path / "slow")
    assert [step for step, _ in found["scalars"]["loss"]] == [1, 3, 5]
    assert set(found["histograms"]) == {"first.weight", "first.bias"}
    assert sum(found["histograms"]["first.weight"][0][1]["counts"]) == 24
    assert ["second", "Linear" if framework == "torch" else "Dense"] in found["graph"]
    assert found["data"]["batch_size"] == 8
    assert found["hyper"]["optimizer"] == "SGD"
    assert np.shape(found["landscape"]["losses"]) == (3, 3)
    rows = compare_summaries([tmp_path / "slow", tmp_path / "fast"])
    assert [row["learning_rate"] for row in rows] == pytest.approx([0.1, 0.5])
    assert [row["who"] for row in rows] == ["me", "me"]
    lines = table(rows).splitlines()
    assert lines[0].split()[:2] == ["run", "learning_rate"]
    assert len(lines) == 3


def test_tensorboard_reads_what_was_exported(tmp_path: Path) -> None:
    import warnings

    model, made = model_of("torch")
    model.train(1, made.data, callbacks=SummaryCollector(tmp_path, 1, tensorboard=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(tmp_path))
        events.Reload()
    wanted = [value for _, value in read_summary(tmp_path)["scalars"]["loss"]]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(wanted)
    assert events.Histograms("first.weight")[0].histogram_value.num == 24


@both
def test_a_landscape_leaves_the_weights_bit_by_bit(framework: str) -> None:
    from tensight.kit import landscape

    made = training(framework)
    backend = backend_of(made.network)
    before = backend.state(made.network)
    found = landscape(made.network, made.loss_fn, made.data[0], size=3)
    here, _, _ = backend.trainer(made.network, made.loss_fn, None).evaluate(made.data[0])
    assert found.losses[1][1] == here
    for name, value in backend.state(made.network).items():
        assert value.tobytes() == before[name].tobytes()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LossMonitor(-1), "per_print_times is -1"),
        (lambda: StopAtTime(-1), "over before the start"),
        (lambda: SummaryCollector("x", 0), "collect_freq is 0"),
        (lambda: SummaryCollector("x", 1, {"graph": True}), "no 'graph' to collect"),
        (lambda: LambdaCallback(on_step=print), "no moment 'on_step'"),
        (lambda: ReduceLROnPlateau(factor=2), "between 0 and 1"),
        (lambda: EarlyStopping(mode="up"), "none of auto, min, max"),
        (lambda: model_of("torch")[0].train(0, []), "0 epochs cannot be trained"),
        (lambda: model_of("torch")[0].eval([]), "there are no metrics"),
        (lambda: Model(training("torch").network).train(1, []), "there is no optimizer"),
        (lambda: Model("a network"), "belongs to none of"),
        (lambda: read_summary("/nowhere"), r"there is no summary\.jsonl"),
    ],
)
def test_wrong_use_gets_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


SCALED = """
import FRAMEWORK
from tensight.kit import DynamicLossScaleManager, Model
from tests.kit.nets import training
made = training("FRAMEWORK")
x, y = made.data[0]
data = [made.data[0], (x * float("inf"), y), made.data[1]]
Model(made.network, made.loss_fn, made.optimizer, loss_scale_manager=DynamicLossScaleManager(1024)).train(1, data)
"""


@both
def test_a_session_sees_losses_as_they_are_and_updates_that_are_left_out(framework: str, tmp_path: Path) -> None:
    import subprocess
    import sys

    import tensight

    (tmp_path / "train.py").write_text(SCALED.replace("FRAMEWORK", framework))
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--run-dir", "out", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    steps = list(tensight.open(tmp_path / "out").steps)
    assert len(steps) == 3
    assert steps[0].loss == pytest.approx(1.1, abs=0.3)
    scales = [
        (event.values["scale"], event.values["overflow"])
        for step in steps
        for event in step.events
        if event.kind == "scale"
    ]
    # a scaler is updated behind the optimizer's step, with which a step ends: the last update is of no step
    assert scales == [(1024.0, False), (512.0, True)]
