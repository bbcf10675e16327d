"""msprobe's TrainerMon: activations, gradients and weights in every step, as CSV."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

TITLE = "msprobe `TrainerMon`"
NEEDS = "mindstudio-probe"
COVERS = "smallest, largest, mean, norm, NaN and zero count of module inputs and outputs, gradients and weights"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    from msprobe.pytorch import TrainerMon

    wanted = {
        "targets": {},
        "all_xy": True,
        "xy_distribution": True,
        "wg_distribution": True,
        "param_distribution": True,
        "format": "csv",
        "ops": ["min", "max", "mean", "norm", "nans", "zeros"],
    }
    Path("monitor.json").write_text(json.dumps(wanted))
    monitor = TrainerMon("monitor.json", params_have_main_grad=False)
    monitor.set_monitor(model, optimizer=optimizer, grad_acc_steps=1)
    return model, lambda step: nullcontext(monitor)
