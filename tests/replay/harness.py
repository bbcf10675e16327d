"""Runs a script with a rewinder and the smallest clock there is: a step ends with an optimizer step.

    python harness.py FOLDER OPTIONS.json SCRIPT

Replays are written to FOLDER/replays.json, with what the process has left behind. It stands in for the recorder, so
that rewind is tested by itself.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from pathlib import Path

import msgspec
import torch
from torch.optim import optimizer as optimizers

from tensight.frameworks import rewinds
from tensight.records import Replay
from tensight.replay.rewinder import Rewinder


def main() -> None:
    folder, options, script = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    seen: list[Replay] = []
    problems: list[str] = []
    losses: list[float] = []
    resident: list[int] = []
    step = 0
    began = False
    copy = False

    def become_copy() -> None:
        nonlocal copy
        copy = True

    rewind = Rewinder(
        rewinds.load("torch"),
        folder,
        publish=seen.append,
        become_copy=become_copy,
        report=lambda where, error: problems.append(f"{where}: {error!r}"),
        share=options.get("share", 1e9),  # a copy at every step
        most=options.get("most", 8),
        patience=options.get("patience", 120.0),
    )
    backward = torch.autograd.backward

    def noted(tensors, *args, **kwargs):
        losses.extend(t.item() for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors))
        return backward(tensors, *args, **kwargs)

    torch.autograd.backward = noted

    def begins(module, inputs) -> None:
        nonlocal began
        if not began:
            began = True
            rewind.began(step)

    def ends(optimizer, args, kwargs) -> None:
        nonlocal step, began
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        finite = all(bool(torch.isfinite(p.detach()).all()) for p in parameters) and all(
            p.grad is None or bool(torch.isfinite(p.grad).all()) for p in parameters
        )
        finite = finite and all(math.isfinite(value) for value in losses)
        now = step
        values = tuple(losses)
        losses.clear()
        rewind.ended(now, values, trouble=not finite, clean=finite)
        step += 1
        began = False
        if options.get("wait") and not finite and not copy:
            rewind.wait(120.0)
            resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    torch.nn.modules.module.register_module_forward_pre_hook(begins)
    optimizers.register_optimizer_step_post_hook(ends)
    before = len(os.listdir("/proc/self/fd"))
    sys.argv = [script]
    code = compile(Path(script).read_text(), script, "exec")
    try:
        exec(code, {"__name__": "__main__", "__file__": script})
    finally:
        if not copy:
            rewind.ending()
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    result = {
        "replays": msgspec.to_builtins(seen),
        "problems": problems,
        "steps": step,
        "descriptors": len(os.listdir("/proc/self/fd")) - before,
        "children": len(children),
        "resident": resident,
    }
    (folder / "replays.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
