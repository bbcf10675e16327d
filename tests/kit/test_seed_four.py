"""The samples of the tutorial on custom debugging information, on both frameworks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensight.kit import (
    F1,
    Accuracy,
    Callback,
    Loss,
    LossMonitor,
    Metric,
    Model,
    ModelCheckpoint,
    Precision,
    Recall,
    SummaryCollector,
    TimeMonitor,
    load_checkpoint,
    save_checkpoint,
)
from tests.kit.nets import BATCHES, FRAMEWORKS, training

both = pytest.mark.parametrize("framework", FRAMEWORKS)


def model_of(framework: str, metrics: Any = None, **options: Any) -> tuple[Model, Any]:
    made = training(framework)
    return Model(made.network, made.loss_fn, made.optimizer, metrics, **options), made


@both
def test_callbacks_are_a_list_in_order(framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, made = model_of(framework)
    ckpt_cb = ModelCheckpoint(directory=tmp_path / "ckpt")
    loss_cb = LossMonitor()
    summary_cb = SummaryCollector(summary_dir=tmp_path / "summary_dir")
    model.train(1, made.data, callbacks=[ckpt_cb, loss_cb, summary_cb])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"epoch: 1 step: {step}" for step in (1, 2, 3)]
    assert all(" loss is " in line for line in lines)
    assert [path.name for path in sorted((tmp_path / "ckpt").iterdir())] == [
        f"CKP-1_{step}.safetensors" for step in (1, 2, 3)
    ]
    assert (tmp_path / "summary_dir" / "summary.jsonl").is_file()


class StopAtTime(Callback):
    def __init__(self, run_time: float) -> None:
        super().__init__()
        self.run_time = run_time * 60

    def begin(self, run_context: Any) -> None:
        cb_params = run_context.original_args()
        cb_params.init_time = time.time()

    def step_end(self, run_context: Any) -> None:
        cb_params = run_context.original_args()
        epoch_num = cb_params.cur_epoch_num
        step_num = cb_params.cur_step_num
        loss = cb_params.net_outputs
        if (time.time() - cb_params.init_time) > self.run_time:
            print("epoch: ", epoch_num, " step: ", step_num, " loss: ", loss)
            run_context.request_stop()


@both
def test_callbacks_are_called_one_after_the_other_at_every_moment(framework: str) -> None:
    model, made = model_of(framework)
    told: list[tuple[str, str]] = []

    class Tell(Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self, run_context: Any) -> None:
            told.append(("begin", self.name))

        def epoch_end(self, run_context: Any) -> None:
            told.append(("epoch_end", self.name))

        def step_end(self, run_context: Any) -> None:
            told.append(("step_end", self.name))

        def end(self, run_context: Any) -> None:
            told.append(("end", self.name))

    names = ["second", "first", "third"]  # as listed, not by name
    model.train(1, made.data, callbacks=[Tell(name) for name in names])
    moments = ["begin", *["step_end"] * len(made.data), "epoch_end", "end"]
    assert told == [(moment, name) for moment in moments for name in names]


@both
def test_a_training_stops_at_a_time(framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, made = model_of(framework)
    model.train(100, made.data, callbacks=StopAtTime(run_time=-1))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("epoch:  1  step:  1  loss:  1.")


class SaveCallback(Callback):
    def __init__(self, model: Model, eval_dataset: Any, folder: Path) -> None:
        super().__init__()
        self.model = model
        self.eval_dataset = eval_dataset
        self.folder = folder
        self.acc = 0.0

    def step_end(self, run_context: Any) -> None:
        cb_params = run_context.original_args()
        result = self.model.eval(self.eval_dataset)
        if result["accuracy"] > self.acc:
            self.acc = result["accuracy"]
            file_name = str(self.acc) + ".ckpt"
            save_checkpoint(save_obj=cb_params.train_network, ckpt_file_name=self.folder / file_name)
            print("Save the maximum accuracy checkpoint,the accuracy is", self.acc)


@both
def test_the_checkpoint_with_the_highest_accuracy_is_saved(
    framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, made = model_of(framework, metrics={"accuracy"})
    saving = SaveCallback(model, made.data, tmp_path)
    model.train(5, train_dataset=made.data, callbacks=saving)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"Save the maximum accuracy checkpoint,the accuracy is {saving.acc}"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{line.split()[-1]}.ckpt" for line in lines)
    saved = load_checkpoint(tmp_path / f"{saving.acc}.ckpt")
    assert {name: value.shape for name, value in saved.items()} == {
        "first.weight": (6, 4),
        "first.bias": (6,),
        "second.weight": (3, 6),
        "second.bias": (3,),
    }


@both
def test_several_metrics_give_a_dictionary_and_callbacks_run_in_an_evaluation(
    framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {
        "accuracy": Accuracy(),
        "loss": Loss(),
        "precision": Precision(),
        "recall": Recall(),
        "f1_score": F1(),
    }
    model, made = model_of(framework, metrics, callbacks=TimeMonitor())
    output = model.eval(made.data)
    assert set(output) == set(metrics)
    assert 0 <= output["accuracy"] <= 1
    assert output["loss"] == pytest.approx(1.1, abs=0.3)
    assert len(output["precision"]) == len(output["recall"]) == len(output["f1_score"]) == 3
    assert capsys.readouterr().out.startswith("Eval epoch time: ")


@both
def test_the_accuracy_of_the_example_is_two_thirds(framework: str) -> None:
    made = training(framework)
    x = made.tensor(np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]))
    y = made.tensor(np.array([1, 0, 1]))
    metric = Accuracy()
    metric.clear()
    metric.update(x, y)
    accuracy = metric.eval()
    assert f"Accuracy is {accuracy:.4f}" == "Accuracy is 0.6667"


@both
def test_a_metric_of_ones_own_is_cleared_updated_by_batch_and_asked(framework: str) -> None:
    class Samples(Metric):
        def clear(self) -> None:
            self.seen = 0

        def update(self, *inputs: Any) -> None:
            self.seen += len(inputs[0])

        def eval(self) -> int:
            return self.seen

    model, made = model_of(framework, {"samples": Samples()})
    every = sum(len(x) for x, _ in made.data)
    assert model.eval(made.data) == model.eval(made.data) == {"samples": every}


@both
def test_a_callback_is_told_network_loss_optimizer_and_data(framework: str) -> None:
    model, made = model_of(framework)
    told: list[Any] = []

    class Look(Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            told.append(run_context.original_args())

    model.train(1, made.data, callbacks=Look())
    params = told[0]
    assert params.network is made.network
    assert params.loss_fn is made.loss_fn
    assert params.optimizer is made.optimizer
    assert params.train_dataset is made.data
    assert params.batch_num == len(made.data)


@both
def test_evaluating_in_a_step_changes_nothing_in_the_training(framework: str) -> None:
    plain, made = model_of(framework)
    losses: list[float] = []

    class Keep(Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            losses.append(run_context.original_args().net_outputs)

    plain.train(2, made.data, callbacks=Keep())
    alone, losses[:] = list(losses), []
    model, made = model_of(framework, metrics={"accuracy"})

    class Evaluate(Keep):
        def on_train_step_begin(self, run_context: Any) -> None:
            model.eval(made.data)

    model.train(2, made.data, callbacks=Evaluate())
    assert losses == alone
    assert len(losses) == 2 * BATCHES
