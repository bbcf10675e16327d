"""msprobe: every torch call of some steps is dumped, then its overflow check looks for the first bad one."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

TITLE = "msprobe, L1 statistics of the steps around the first bad one and its overflow check"
NEEDS = "mindstudio-probe"

# To dump every torch call of every step takes minutes for each of these programs. So it is used as by somebody who
# knows when the trouble begins: the program runs once to see in which step a gradient or a weight is first no number,
# then again with a dump of that step and the one before, or of the first, the middle and the last where there is none.
START = """
import atexit
import json
import os
import sys


def look():
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    seen = {"steps": 0, "bad": None}

    def finite(optimizer, gradients):
        tensors = [one.grad if gradients else one for group in optimizer.param_groups for one in group["params"]]
        return all(bool(torch.isfinite(one).all()) for one in tensors if one is not None and not one.is_sparse)

    def before(optimizer, *_):
        if seen["bad"] is None and not finite(optimizer, True):
            seen["bad"] = seen["steps"]

    def after(optimizer, *_):
        if seen["bad"] is None and not finite(optimizer, False):
            seen["bad"] = seen["steps"]
        seen["steps"] += 1

    def end():
        with open("steps.json", "w") as file:
            json.dump(seen, file)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    atexit.register(end)


def dump():
    from msprobe.pytorch import PrecisionDebugger
    from torch.optim.optimizer import register_optimizer_step_post_hook

    with open("steps.json") as file:
        seen = json.load(file)
    bad, last = seen["bad"], max(0, seen["steps"] - 1)
    steps = {0, last // 2, last} if bad is None else {max(0, bad - 1), bad}
    debugger = PrecisionDebugger(task="statistics", dump_path="dump", level="L1", step=sorted(steps))

    def next_step(*_):
        debugger.stop()
        debugger.step()
        debugger.start()

    register_optimizer_step_post_hook(next_step)
    atexit.register(debugger.stop)
    debugger.start()


if os.path.basename(sys.argv[0]) == "train.py":
    (dump if os.path.exists("steps.json") else look)()
"""


def command(python: str, script: str) -> list[str]:
    return ["sh", "-c", '"$0" "$1"; "$0" "$1"', python, script]


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
