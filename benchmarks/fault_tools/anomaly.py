"""Autograd's anomaly mode: it raises where a gradient becomes NaN, and shows the forward call it belongs to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

TITLE = "`torch.autograd.set_detect_anomaly`"
NEEDS = "torch"

START = """
import torch
torch.autograd.set_detect_anomaly(True)
"""


def command(python: str, script: str) -> list[str]:
    return [python, script]


def told(folder: Path, errors: str) -> dict[str, Any] | None:
    said = re.search(r"RuntimeError: Function '(\w+)' returned nan values.*", errors)
    if said is None:
        return None
    forward = errors.partition("Traceback of forward call")[2].partition("Traceback (most recent call last)")[0]
    lines = re.findall(r'File "[^"]*train\.py", line (\d+)', forward)
    operator = re.sub(r"Backward\d*$", "", said[1]).lower()
    return {"words": said[0], "op": operator, "line": int(lines[-1]) if lines else None}
