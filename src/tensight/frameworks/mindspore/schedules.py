"""Learning-rate schedules: inside an optimizer, as a cell or a list of rates, or beside it, as in PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mindspore import nn
from mindspore.nn.learning_rate_schedule import LearningRateSchedule

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.mindspore.values import number
from tensight.frameworks.mindspore.watching import Watching, free_name
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.records import Part, Source
from tensight.records.event import Value

Call = Callable[..., Any]
_MODULE = "mindspore.experimental.optim.lr_scheduler"
_SETTINGS = (
    *("learning_rate", "decay_rate", "decay_steps", "is_stair", "min_lr", "max_lr", "end_learning_rate", "power"),
    *("step_size", "gamma", "T_max", "eta_min", "T_0", "total_iters", "factor", "patience", "warmup_steps"),
)


class Schedules:
    """Finds schedules and tells each of their steps."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self._watching = watching
        self._names: IdentityMap[Any, str] = IdentityMap()
        module = sys.modules.get(_MODULE)
        for kind in list(vars(module).values()) if module is not None else ():
            if isinstance(kind, type) and "step" in vars(kind) and kind.__module__ == _MODULE:
                patches.wrap(kind, "step", self._patch_step)
        self._inside = 0

    def _patch_step(self, original: Call) -> Call:
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            self._inside += 1
            try:
                result = original(scheduler, *args, **kwargs)
            finally:
                self._inside -= 1
            if not self._inside and not self._watching.busy:
                self._watching.probe("schedule", self._beside, scheduler)
            return result

        return step

    def _beside(self, scheduler: Any) -> None:
        groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", None) or [{}]
        self._tell(scheduler, type(scheduler).__name__, number(groups[0].get("lr")), user_source())

    def stepped(self, optimizer: nn.Cell, rate: float | None) -> None:
        """An optimizer has stepped: what is inside it has given a rate."""
        if not getattr(optimizer, "dynamic_lr", False):
            return
        rates = getattr(optimizer, "learning_rate", None)
        first = rates[0] if isinstance(rates, (list, tuple, nn.CellList)) and len(rates) else rates
        own = isinstance(first, LearningRateSchedule) and type(first).__name__ != "_IteratorLearningRate"
        kind = type(first).__name__ if own else "list of rates"
        self._tell(first if own else optimizer, kind, rate, None)

    def _tell(self, schedule: Any, kind: str, rate: float | None, source: Source | None) -> None:
        name = self._names.get(schedule)
        if name is None:
            name = self._names[schedule] = free_name(kind, (name for _, name in self._names.items()))
            settings: dict[str, Value] = {}
            for setting in _SETTINGS:
                value = schedule.__dict__.get(setting) if kind != "list of rates" else None
                if isinstance(value, (bool, int, float, str)):
                    settings[setting] = value
            self._watching.sink.part(Part("scheduler", name, kind, settings, source))
        self._watching.sink.event("scheduler_step", name, {} if rate is None else {"lr": rate}, source)
