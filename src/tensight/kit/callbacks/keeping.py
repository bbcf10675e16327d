"""Callbacks that keep what happened, or call the user's functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensight.errors import UsageError
from tensight.kit.callbacks.callback import MOMENTS, Callback, RunContext
from tensight.kit.callbacks.values import Best, loss_of
from tensight.kit.checkpoints import save_checkpoint


class History(Callback):
    """Keeps the loss at the end of every epoch, and the metrics of evaluations: `history`, `epoch`.

    >>> from tensight.kit.callbacks.driver import Driver
    >>> kept = History(); driver = Driver(kept)
    >>> driver.begin(); driver.epoch_begin(); driver.step_begin(); driver.step_end(0.5); driver.epoch_end()
    >>> kept.history, kept.epoch
    ({'net_output': [0.5]}, {'epoch': [1]})
    """

    def __init__(self) -> None:
        self.history: dict[str, list[Any]] = {}
        self.epoch: dict[str, list[int]] = {"epoch": []}

    def on_train_begin(self, run_context: RunContext) -> None:
        self.history, self.epoch = {}, {"epoch": []}

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        params = run_context.original_args()
        self.epoch["epoch"].append(params.cur_epoch_num)
        self.history.setdefault("net_output", []).append(loss_of(params))
        for name, value in (params.get("metrics") or {}).items():
            self.history.setdefault(f"eval_{name}", []).append(value)


class LambdaCallback(Callback):
    """Calls functions at moments: `LambdaCallback(on_train_step_end=lambda context: …)`.

    >>> from tensight.kit.callbacks.driver import Driver
    >>> Driver(LambdaCallback(on_train_begin=lambda context: print("off we go"))).begin()
    off we go
    """

    def __init__(self, **functions: Callable[[RunContext], None]) -> None:
        for name, function in functions.items():
            mode, _, moment = name.removeprefix("on_").partition("_")
            if not (name.startswith("on_") and mode in ("train", "eval") and moment in MOMENTS):
                raise UsageError(f"LambdaCallback: there is no moment {name!r}; e.g. on_train_step_end, on_eval_begin")
            setattr(self, name, function)


class SaveBest(Callback):
    """Evaluates after every epoch and saves the network when a metric is the best so far.

    `every='step'` evaluates after every step, which takes as long as an evaluation each time.

    >>> import tempfile, torch
    >>> from tensight.kit import Model
    >>> network = torch.nn.Linear(2, 2)
    >>> model = Model(network, torch.nn.CrossEntropyLoss(), torch.optim.SGD(network.parameters(), 0.1), {"accuracy"})
    >>> data = [(torch.zeros(4, 2), torch.tensor([0, 0, 0, 0]))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     best = SaveBest(model, data, directory=folder)
    ...     model.train(1, data, callbacks=[best])
    ...     best.path.is_file(), best.path.stem == str(best.value)
    best accuracy so far: ..., saved in ...
    (True, True)
    """

    def __init__(
        self,
        model: Any,
        eval_dataset: Any,
        metric: str = "accuracy",
        mode: str = "auto",
        directory: str | Path = ".",
        every: str = "epoch",
        start: float | None = None,
    ) -> None:
        if every not in ("epoch", "step"):
            raise UsageError(f"SaveBest: every {every!r} is none of epoch, step")
        self._model = model
        self._dataset = eval_dataset
        self._metric = metric
        self._best = Best(metric, mode)
        if start is not None:
            self._best.value = start
        self._directory = Path(directory)
        self._every = every
        self.path: Path | None = None

    @property
    def value(self) -> float:
        """The best so far."""
        return self._best.value

    def on_train_step_end(self, run_context: RunContext) -> None:
        if self._every == "step":
            self._look(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        if self._every == "epoch":
            self._look(run_context)

    def _look(self, run_context: RunContext) -> None:
        result = self._model.eval(self._dataset)
        if self._metric not in result:
            raise UsageError(
                f"SaveBest: the model has no metric {self._metric!r}; it has {', '.join(result) or 'none'}"
            )
        if self._best.better(float(result[self._metric])):
            network = run_context.original_args().train_network
            path = self._directory / f"{self._best.value}.safetensors"
            self.path = save_checkpoint(network, path)
            print(f"best {self._metric} so far: {self._best.value}, saved in {self.path}", flush=True)
