"""SageMaker Debugger's hook: reductions of every tensor in every step, written to files."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

TITLE = "smdebug hook, reductions"
NEEDS = "smdebug"
COVERS = "smallest, largest, mean, std and norm of leaf outputs, weights and gradients; nothing judged"


def attach(model: Any, optimizer: Any) -> tuple[Any, Any]:
    # Its message classes are older than any protobuf the other tools run with; this way they load all the same.
    os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    import smdebug.pytorch as smd

    hook = smd.Hook(
        out_dir="smdebug",
        save_config=smd.SaveConfig(save_interval=1),
        reduction_config=smd.ReductionConfig(reductions=["min", "max", "mean", "std"], norms=["l2"]),
        include_regex=[r".*output.*", r".*weight.*", r".*bias.*", r"gradient/.*"],
    )
    hook.register_module(model)
    return model, lambda step: nullcontext(hook)
