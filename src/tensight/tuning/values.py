"""The script's side of a search: the values it is to use, and how well it does with them.

Values come as JSON in the environment, as MindInsight's mindoptimizer hands them out, so that its scripts run as they
are; results go to a file that the environment names.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tensight.errors import UsageError

VALUES = "MINDINSIGHT_HYPER_CONFIG"
REPORTS = "TENSIGHT_TRIAL_REPORTS"
_LONGEST = 100_000


class Values(dict[str, Any]):
    """Values by name, as items or attributes.

    >>> Values(lr=0.1).lr
    0.1
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this trial has no value {name!r}; it has {', '.join(self) or 'none'}") from None


class HyperConfig:
    """The values of this trial: `HyperConfig().params.learning_rate`.

    >>> import os
    >>> os.environ[VALUES] = '{"params": {"lr": 0.01}, "summary_dir": "runs/trial-0"}'
    >>> HyperConfig().params.lr
    0.01
    >>> del os.environ[VALUES]
    """

    def __init__(self) -> None:
        text = os.environ.get(VALUES, "")
        if not text:
            raise UsageError(
                "HyperConfig: this process is no trial of a search; start it by `tensight tune CONFIG.yaml`"
            )
        if len(text) > _LONGEST:
            raise UsageError(f"HyperConfig: {VALUES} is longer than {_LONGEST} characters")
        try:
            found = json.loads(text)
            self.params = Values(found["params"])
            self.summary_dir = str(found.get("summary_dir", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"HyperConfig: {VALUES} does not hold values of a trial: {error}") from None
        self.custom_lineage_data = found.get("custom_lineage_data")


def is_trial() -> bool:
    """Whether this process is a trial of a search."""
    return bool(os.environ.get(VALUES))


def report(value: float, step: int | None = None, name: str = "") -> None:
    """Say how well the trial does, now or at its end. Outside a search this does nothing.

    >>> report(0.93, step=10)
    """
    place = os.environ.get(REPORTS, "")
    if not place:
        return
    line = json.dumps({"value": float(value), "step": step, "name": name})
    with Path(place).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
