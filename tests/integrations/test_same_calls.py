"""The same callbacks see the same calls with the same arguments, whoever runs the training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensight.kit import Callback, Loop, Model
from tensight.kit.backend import number
from tests.kit.nets import BATCH, training

EPOCHS = 2
MOMENTS = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")
Calls = list[tuple[Any, ...]]


class Recording(Callback):
    """Writes down every call with what it was told. Stops after `stop_at` steps."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls: Calls = []
        self._stop_at = stop_at

    def note(self, moment: str, run_context: Any) -> None:
        params = run_context.original_args()
        params.seen = params.get("seen", 0) + 1  # the user's own entries stay
        trained = moment == "step_end" and params.mode == "train"
        loss = number(params.net_outputs) if trained else None
        batch = params.train_dataset_element if trained else None
        self.calls.append(
            (
                moment,
                params.cur_epoch_num,
                params.cur_step_num,
                params.epoch_num,
                params.batch_num,
                params.mode,
                params.seen,
                None if loss is None else round(loss, 5),
                None if batch is None else len(_first(batch)),
                type(params.optimizer).__name__,
                "first" in str(params.network),
            )
        )
        if moment == "step_end" and params.cur_step_num == self._stop_at:
            run_context.request_stop()


def _first(batch: Any) -> Any:
    return next(iter(batch.values())) if hasattr(batch, "values") else batch[0]


for _moment in MOMENTS:
    setattr(Recording, _moment, lambda self, run_context, moment=_moment: self.note(moment, run_context))


def by_model(callback: Callback, folder: Path) -> None:
    made = training("torch")
    Model(made.network, made.loss_fn, made.optimizer).train(EPOCHS, made.data, callbacks=[callback])


def by_plain_loop(callback: Callback, folder: Path) -> None:
    made = training("torch")
    loop = Loop(made.data, [callback], epochs=EPOCHS, network=made.network, optimizer=made.optimizer)
    with loop:
        for _ in loop.epochs():
            for x, y in loop.steps():
                made.optimizer.zero_grad()
                loss = made.loss_fn(made.network(x), y)
                loss.backward()
                made.optimizer.step()
                loop.loss = loss


def lightning_task(callback: Callback, folder: Path) -> tuple[Any, Any, Any]:
    import lightning

    from tensight.integrations.lightning import KitCallback

    made = training("torch")

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = made.network

        def training_step(self, batch: Any, index: int) -> Any:
            return made.loss_fn(self.inner(batch[0]), batch[1])

        validation_step = training_step

        def configure_optimizers(self) -> Any:
            return made.optimizer

    rows = torch.utils.data.TensorDataset(torch.cat([x for x, _ in made.data]), torch.cat([y for _, y in made.data]))
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[KitCallback([callback])],
    )
    return trainer, Task(), torch.utils.data.DataLoader(rows, BATCH)


def by_lightning(callback: Callback, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer, task, loader = lightning_task(callback, folder)
        trainer.fit(task, loader)


def by_transformers(callback: Callback, folder: Path, accumulate: int = 1) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        from tensight.integrations.transformers import add_callbacks

        made = training("torch")

        class Wrapped(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = made.network

            def forward(self, x: Any, labels: Any) -> Any:
                return {"loss": made.loss_fn(self.inner(x), labels)}

        class Rows(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return BATCH * len(made.data)

            def __getitem__(self, index: int) -> Any:
                x, y = made.data[index // BATCH]
                return {"x": x[index % BATCH], "labels": y[index % BATCH]}

        class InOrder(transformers.Trainer):
            def _get_train_sampler(self, *_: Any) -> Any:
                return torch.utils.data.SequentialSampler(Rows())

        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
            max_grad_norm=0.0,
            gradient_accumulation_steps=accumulate,
            use_cpu=True,
        )
        constant = torch.optim.lr_scheduler.LambdaLR(made.optimizer, lambda step: 1.0)
        trainer = InOrder(Wrapped(), arguments, train_dataset=Rows(), optimizers=(made.optimizer, constant))
        add_callbacks(trainer, [callback])
        trainer.train()


def by_accelerate(callback: Callback, folder: Path, accumulate: int = 1) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from accelerate import Accelerator

        from tensight.integrations.accelerate import AcceleratedLoop

        made = training("torch")
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        rows = torch.utils.data.TensorDataset(
            torch.cat([x for x, _ in made.data]), torch.cat([y for _, y in made.data])
        )
        model, optimizer, loader = accelerator.prepare(
            made.network, made.optimizer, torch.utils.data.DataLoader(rows, BATCH)
        )
        loop = AcceleratedLoop(accelerator, loader, [callback], epochs=EPOCHS, network=model, optimizer=optimizer)
        with loop:
            for _ in loop.epochs():
                for x, y in loop.steps():
                    with accelerator.accumulate(model):
                        loss = made.loss_fn(model(x), y)
                        accelerator.backward(loss)
                        optimizer.step()
                        optimizer.zero_grad()
                    loop.loss = loss


def mindspore_rows() -> tuple[Any, Any]:
    import mindspore.dataset

    made = training("mindspore")
    x = np.concatenate([one.asnumpy() for one, _ in made.data])
    y = np.concatenate([one.asnumpy() for _, one in made.data])
    rows = mindspore.dataset.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False, num_parallel_workers=1)
    return made, rows.batch(BATCH)


def by_mindspores_model(callback: Callback, folder: Path) -> None:
    import mindspore

    from tensight.integrations.mindspore import KitCallback

    made, rows = mindspore_rows()
    model = mindspore.Model(made.network, made.loss_fn, made.optimizer)
    model.train(EPOCHS, rows, callbacks=[KitCallback([callback])], dataset_sink_mode=False)


def by_our_model_on_mindspore(callback: Callback, folder: Path) -> None:
    made = training("mindspore")
    Model(made.network, made.loss_fn, made.optimizer).train(EPOCHS, made.data, callbacks=[callback])


OTHERS: list[Callable[[Callback, Path], None]] = [
    by_plain_loop,
    by_lightning,
    by_transformers,
    by_accelerate,
    by_mindspores_model,
    by_our_model_on_mindspore,
]


def calls_of(run: Callable[[Callback, Path], None], folder: Path, stop_at: int | None = None) -> Calls:
    recording = Recording(stop_at)
    run(recording, folder)
    return recording.calls


def expected(stop_at: int | None = None) -> list[tuple[str, int, int]]:
    """Moment, epoch and step, as the protocol says."""
    found = [("begin", 0, 0)]
    step = 0
    for epoch in range(1, EPOCHS + 1):
        found.append(("epoch_begin", epoch, step))
        for _ in range(3):
            step += 1
            found += [("step_begin", epoch, step), ("step_end", epoch, step)]
            if step == stop_at:
                return [*found, ("epoch_end", epoch, step), ("end", epoch, step)]
        found.append(("epoch_end", epoch, step))
    return [*found, ("end", EPOCHS, step)]


@pytest.mark.parametrize("stop_at", [None, 2])
def test_model_train_calls_as_the_protocol_says(stop_at: int | None, tmp_path: Path) -> None:
    assert [call[:3] for call in calls_of(by_model, tmp_path, stop_at)] == expected(stop_at)


@pytest.mark.parametrize("stop_at", [None, 2])
@pytest.mark.parametrize("run", OTHERS, ids=lambda run: run.__name__)
def test_the_calls_and_arguments_are_the_same(
    run: Callable[[Callback, Path], None], stop_at: int | None, tmp_path: Path
) -> None:
    assert similar(calls_of(run, tmp_path, stop_at), calls_of(by_model, tmp_path, stop_at))


@pytest.mark.parametrize("run", [by_transformers, by_accelerate], ids=lambda run: run.__name__)
def test_a_step_is_an_update_however_many_batches_it_takes(run: Callable[..., None], tmp_path: Path) -> None:
    recording = Recording()
    run(recording, tmp_path, accumulate=3)
    ends = [call for call in recording.calls if call[0] == "step_end"]
    assert [(call[1], call[2], call[4]) for call in ends] == [(1, 1, 1), (2, 2, 1)]
    made = training("torch")
    x, y = (torch.cat(part) for part in zip(*made.data))
    whole = made.loss_fn(made.network(x), y).item()  # batches are of one size: their mean is that of all
    assert ends[0][7] == pytest.approx(whole, abs=2e-5)


def eval_by_model(callback: Callback, folder: Path) -> None:
    made = training("torch")
    Model(made.network, made.loss_fn, metrics={"loss"}).eval(made.data, callbacks=callback)


def eval_by_our_model_on_mindspore(callback: Callback, folder: Path) -> None:
    made = training("mindspore")
    Model(made.network, made.loss_fn, metrics={"loss"}).eval(made.data, callbacks=callback)


def eval_by_mindspores_model(callback: Callback, folder: Path) -> None:
    import mindspore

    from tensight.integrations.mindspore import KitCallback

    made, rows = mindspore_rows()
    model = mindspore.Model(made.network, made.loss_fn, metrics={"loss"})
    model.eval(rows, callbacks=[KitCallback([callback])], dataset_sink_mode=False)


def eval_by_lightning(callback: Callback, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer, task, loader = lightning_task(callback, folder)
        trainer.validate(task, loader, verbose=False)


@pytest.mark.parametrize(
    "run",
    [eval_by_model, eval_by_our_model_on_mindspore, eval_by_mindspores_model, eval_by_lightning],
    ids=lambda run: run.__name__,
)
def test_an_evaluation_calls_the_same(run: Callable[[Callback, Path], None], tmp_path: Path) -> None:
    calls = calls_of(run, tmp_path)
    steps = [(moment, 1, step) for step in (1, 2, 3) for moment in ("step_begin", "step_end")]
    assert [call[:3] for call in calls] == [
        ("begin", 0, 0),
        ("epoch_begin", 1, 0),
        *steps,
        ("epoch_end", 1, 3),
        ("end", 1, 3),
    ]
    assert {(call[4], call[5]) for call in calls} == {(3, "eval")}


def similar(first: Calls, second: Calls) -> bool:
    """Equal, losses up to rounding: two frameworks do not add up in the same order."""
    assert [call[:7] + call[8:] for call in first] == [call[:7] + call[8:] for call in second]
    for one, other in zip(first, second):
        assert one[7] == pytest.approx(other[7], abs=2e-5)
    return True
