"""The search itself: Optuna suggests and judges, trials are processes, one loop looks after all of them.

There are no threads: the loop asks each running trial how it does, tells Optuna, and ends those that are not worth
going on. What is known is in the folder at every moment, so that a search can be resumed and a page can show it.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tensight.errors import MissingExtra, UsageError
from tensight.records.search import Search, TrialRow, TrialState
from tensight.tuning.config import Config, Parameter
from tensight.tuning.storage import JOURNAL, open_storage, without_password
from tensight.tuning.trial import TrialProcess, fill
from tensight.tuning.values import VALUES

SEARCH = "search.json"
POLL = 0.2
Told = Callable[[Search], None]
_STATES: dict[str, TrialState] = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}


class Study:
    """A search in a folder."""

    def __init__(self, config: Config, folder: Path, *, watch: bool = True) -> None:
        self.config = config
        self.folder = folder
        self._watch = watch
        self._optuna = _import()
        folder.mkdir(parents=True, exist_ok=True)
        self.storage = without_password(config.storage) or str(folder / JOURNAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.study = self._open()
        self._running: dict[int, tuple[Any, TrialProcess]] = {}
        self._told: dict[int, int] = {}
        self._state: Any = "running"
        self._exhausted = False

    def _open(self) -> Any:
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = open_storage(optuna, self.config.storage, self.folder)
        study = optuna.create_study(
            study_name=self.config.name,
            storage=storage,
            sampler=_sampler(optuna, self.config),
            pruner=_pruner(optuna, self.config),
            direction=self.config.goal,
            load_if_exists=True,
        )
        if study.direction.name.lower() != self.config.goal:
            was = study.direction.name.lower()
            raise UsageError(
                f"the search {self.config.name!r} in {self.storage} was begun to {was}: give it another name"
            )
        if not self.config.storage:
            # a journal in a folder has one owner: what it says is running was left behind
            for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        return study

    def run(self, told: Told = lambda search: None) -> Search:
        """Make trials until there are enough. Ctrl-C ends those that run; the search can be resumed."""
        try:
            while True:
                while len(self._running) < self.config.workers and self._left() > 0 and not self._exhausted:
                    self._begin()
                if not self._running:
                    break
                time.sleep(POLL)
                if self._look():
                    told(self.write())
            self._state = "finished"
        except BaseException:
            self._state = "stopped"
            raise
        finally:
            for optuna_trial, process in list(self._running.values()):
                process.stop()
                with contextlib.suppress(self._optuna.exceptions.UpdateFinishedTrialError):
                    self._tell(optuna_trial, process, "FAIL", reason="the search was stopped")
            self._running.clear()
            search = self.write()
            told(search)
        return search

    def _left(self) -> int:
        return self.config.trials - len([one for one in self._trials() if one.state.name != "WAITING"])

    def _trials(self) -> list[Any]:
        found: list[Any] = self.study.get_trials(deepcopy=False)
        return found

    def _begin(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self.study.ask()
            try:
                values = {one.name: _suggest(trial, one) for one in self.config.parameters}
            except ValueError as error:
                self.study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                raise UsageError(
                    f"the search {self.config.name!r} in {self.storage} was begun with other parameters: {error}"
                ) from None
        process = TrialProcess(self.config, trial.number, values, self.folder, watch=self._watch)
        try:
            process.start()
        except OSError as error:
            self._tell(trial, process, "FAIL", reason=f"could not be started: {error}")
            return
        self._running[trial.number] = (trial, process)

    def _look(self) -> bool:
        """Look after every running trial; whether anything has happened."""
        news = False
        for number, (trial, process) in list(self._running.items()):
            running = process.running
            reason = ""
            if running:
                found = process.findings()
                if found:
                    reason = f"{found[0].fault}: {found[0].title}"
                elif process.overdue:
                    reason = f"took longer than {self.config.timeout:g} s"
                else:
                    reason = self._compare(trial, process)
            if running and not reason:
                continue
            news = True
            self._finish(trial, process, reason)
            del self._running[number]
        return news

    def _compare(self, trial: Any, process: TrialProcess) -> str:
        """Pass on what a trial has reported; a reason to prune it, or ''."""
        reports = process.reports()
        known = self._told.get(trial.number, 0)
        for step, value in reports[known:]:
            if not math.isfinite(value):
                return f"{self.config.target} is {value} at step {step}"
            trial.report(value, step)
            self._told[trial.number] = known = known + 1
            if trial.should_prune():
                return f"{self.config.target} {value:.6g} at step {step} is worse than other trials were there"
        return ""

    def _finish(self, trial: Any, process: TrialProcess, reason: str) -> None:
        process.stop()
        if reason:
            self._tell(trial, process, "PRUNED", reason=reason)
            return
        found = process.findings()
        if process.exit_code or (found and process.stopped):
            if found:
                self._tell(trial, process, "PRUNED", reason=f"{found[0].fault}: {found[0].title}")
            else:
                why = f"exit code {process.exit_code}: {process.tail()}"
                self._tell(trial, process, "FAIL", reason=why)
            return
        for step, value in process.reports()[self._told.get(trial.number, 0) :]:
            if math.isfinite(value):
                trial.report(value, step)
        result = process.value()
        if result is None:
            hint = f"report it by tensight.tuning.report, or print `{self.config.target}: <number>`"
            self._tell(trial, process, "FAIL", reason=f"no {self.config.target} was found; {hint}")
        elif not math.isfinite(result):
            self._tell(trial, process, "PRUNED", reason=f"{self.config.target} is {result}")
        else:
            self._tell(trial, process, "COMPLETE", value=result)

    def _tell(
        self, trial: Any, process: TrialProcess, state: str, *, value: float | None = None, reason: str = ""
    ) -> None:
        try:
            trial.set_user_attr("seconds", process.seconds)
            trial.set_user_attr("reason", reason[:500])
            trial.set_user_attr("run", process.folder.name if process.watched else "")
            trial.set_user_attr("started", process.started)
            self.study.tell(trial, value, getattr(self._optuna.trial.TrialState, state))
        except RuntimeError as error:
            if "stop" not in str(error):
                raise
            self._exhausted = True  # a grid says so when all its points are tried
        finally:
            process.close()

    # what is known

    def search(self) -> Search:
        """The search as it stands."""
        rows = tuple(self._row(one) for one in self._trials())
        best = self._best(rows)
        values = rows[best].values if best is not None else {}
        return Search(
            name=self.config.name,
            command=self.config.command,
            target=self.config.target,
            goal=self.config.goal,
            parameters=tuple(one.name for one in self.config.parameters),
            wanted=self.config.trials,
            trials=rows,
            importance=self._importance(rows),
            best=best,
            best_command=best_command(self.config, values) if best is not None else "",
            sampler=self.config.sampler,
            pruner=self.config.pruner,
            storage=self.storage,
            seconds=sum(row.seconds for row in rows),
            state=self._state,
        )

    def write(self) -> Search:
        """Write what is known for the page; the file appears whole or not at all."""
        search = self.search()
        half = self.folder / f"{SEARCH}.part"
        half.write_bytes(msgspec.json.encode(search))
        half.replace(self.folder / SEARCH)
        return search

    def _row(self, one: Any) -> TrialRow:
        running = self._running.get(one.number)
        seconds = running[1].seconds if running else float(one.user_attrs.get("seconds", 0.0))
        decimals = {parameter.name: parameter.decimal for parameter in self.config.parameters}
        values = {
            name: value if decimals.get(name) is None else round(value, decimals[name] or 0)
            for name, value in one.params.items()
        }
        return TrialRow(
            number=one.number,
            state=_STATES[one.state.name],
            values=values,
            value=one.value if one.state.name == "COMPLETE" else None,
            reports=tuple(sorted((int(k), float(v)) for k, v in one.intermediate_values.items())),
            seconds=seconds,
            run=running[1].folder.name if running else str(one.user_attrs.get("run", "")),
            reason=str(one.user_attrs.get("reason", "")),
            started=float(one.user_attrs.get("started", 0.0)),
        )

    def _best(self, rows: tuple[TrialRow, ...]) -> int | None:
        done = [row for row in rows if row.state == "complete" and row.value is not None]
        if not done:
            return None
        sign = 1 if self.config.goal == "minimize" else -1
        return min(done, key=lambda row: sign * (row.value or 0.0)).number

    def _importance(self, rows: tuple[TrialRow, ...]) -> dict[str, float]:
        if sum(row.state == "complete" for row in rows) < 4 or len(self.config.parameters) < 2:
            return {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                evaluator = self._optuna.importance.PedAnovaImportanceEvaluator()
                found = self._optuna.importance.get_param_importances(self.study, evaluator=evaluator)
            return {name: float(value) for name, value in found.items()}
        except (ValueError, RuntimeError, ImportError):
            return {}


def best_command(config: Config, values: dict[str, Any]) -> str:
    """The command line of the best trial, to be pasted; values that it does not name go into the environment.

    >>> from tensight.tuning.config import parse
    >>> best_command(parse({"command": "python t.py --lr {lr}", "parameters": {"lr": "0..1"}}), {"lr": 1})
    'python t.py --lr 1'
    """
    filled = fill(config.command, values)
    missing = {name: value for name, value in values.items() if "{" + name + "}" not in config.command}
    if not missing:
        return filled
    text = json.dumps({"params": values, "summary_dir": "summary"})
    return f"{VALUES}={shlex.quote(text)} {filled}"


def _suggest(trial: Any, one: Parameter) -> Any:
    if one.choices:
        return trial.suggest_categorical(one.name, list(one.choices))
    if one.whole:
        low, high = math.ceil(one.low), math.floor(one.high)
        if one.open_above and high == one.high and high > low:
            high -= 1
        return trial.suggest_int(one.name, low, high, log=one.log)
    if one.decimal is not None:
        step = 10.0**-one.decimal
        return round(trial.suggest_float(one.name, one.low, one.high, step=step), one.decimal)
    return trial.suggest_float(one.name, one.low, one.high, log=one.log)


def _sampler(optuna: Any, config: Config) -> Any:
    samplers = optuna.samplers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if config.sampler == "random":
            return samplers.RandomSampler(seed=config.seed)
        if config.sampler == "qmc":
            return samplers.QMCSampler(seed=config.seed)
        if config.sampler == "cmaes":
            _need("cmaes", "the sampler cmaes")
            return samplers.CmaEsSampler(seed=config.seed)
        if config.sampler == "grid":
            space = {one.name: _grid(one) for one in config.parameters}
            return samplers.GridSampler(space, seed=config.seed)
        if config.sampler == "gp" and _there("torch") and _there("scipy"):
            return samplers.GPSampler(seed=config.seed)
        return samplers.TPESampler(seed=config.seed, constant_liar=config.workers > 1)


def _grid(one: Parameter, points: int = 5) -> list[Any]:
    """
    >>> _grid(Parameter("n", 1, 3, whole=True))
    [1, 2, 3]
    """
    if one.choices:
        return list(one.choices)
    if one.whole:
        low, high = math.ceil(one.low), math.floor(one.high)
        if high - low < points:
            return list(range(low, high + 1))
        return sorted({round(low + (high - low) * index / (points - 1)) for index in range(points)})
    if one.log:
        first, last = math.log(one.low), math.log(one.high)
        inner = [math.exp(first + (last - first) * index / (points - 1)) for index in range(1, points - 1)]
        return [one.low, *inner, one.high]
    return [one.low + (one.high - one.low) * index / (points - 1) for index in range(points)]


def _pruner(optuna: Any, config: Config) -> Any:
    pruners = optuna.pruners
    return {
        "median": lambda: pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=0),
        "hyperband": pruners.HyperbandPruner,
        "halving": pruners.SuccessiveHalvingPruner,
        "none": pruners.NopPruner,
    }[config.pruner]()


def _there(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def _need(name: str, purpose: str) -> None:
    if not _there(name):
        raise UsageError(f"{purpose} needs {name}: pip install {name}")


def _import() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("Optuna", "tune", "tensight tune") from None
    return optuna
