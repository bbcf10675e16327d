"""msprobe: every torch call of every step is dumped, then its overflow check looks for the first bad one."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

TITLE = "msprobe, L1 statistics of every step and its overflow check"
NEEDS = "mindstudio-probe"

START = """
import atexit
import os
import sys

if os.path.basename(sys.argv[0]) == "train.py":
    from msprobe.pytorch import PrecisionDebugger
    from torch.optim.optimizer import register_optimizer_step_post_hook

    debugger = PrecisionDebugger(task="statistics", dump_path="dump", level="L1")

    def next_step(*_):
        debugger.stop()
        debugger.step()
        debugger.start()

    register_optimizer_step_post_hook(next_step)
    atexit.register(debugger.stop)
    debugger.start()
"""


def command(python: str, script: str) -> list[str]:
    return [python, script]


def told(folder: Path, errors: str) -> dict[str, Any] | None:
    from msprobe.overflow_check.analyzer import OverFlowCheck

    steps = sorted((folder / "dump").glob("step*"), key=lambda step: int(step.name.removeprefix("step")))
    if not steps:
        raise RuntimeError("it wrote no dump")
    for step in steps:
        if not list(step.glob("*/dump.json")):
            continue
        with contextlib.redirect_stdout(io.StringIO()):  # it tells of every search
            OverFlowCheck(str(step), str(folder / "overflow")).analyze()
        for result in (folder / "overflow").glob("*.json"):
            node = next(iter(json.loads(result.read_text()).values()))[0]
            lines = [re.search(r"train\.py, line (\d+)", frame) for frame in node["stack_info"]]
            guilty = [int(line[1]) for line in lines if line]
            operator = node["op_name"].split(".")[1]
            return {"words": f"overflow in {node['op_name']}", "op": operator, "line": guilty[0] if guilty else None}
    return None
