"""Runs scripts with a rewinder and the smallest clock there is: a step ends with an optimizer step.

    python harness.py

Reads one job per line: {"folder", "script", "options", "environment"}. Each runs in a process of its own, forked here
so that the framework is imported once. What it printed goes to FOLDER/printed.txt, replays and what the process has
left behind to FOLDER/replays.json. It stands in for the recorder, so that rewind is tested by itself. With the option
`bare` the script runs without a rewinder; with the option `run`, a list of further options, as `tensight run` runs it.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec
import numpy as np  # noqa: F401  imported for the scripts
import torch
import torch.utils.checkpoint
from torch.optim import optimizer as optimizers

from tensight.frameworks import rewinds
from tensight.frameworks.torch.replay_rewinds import TorchRewinds
from tensight.records import Depth, Replay
from tensight.replay.rewinder import Rewinder


def serve() -> None:
    """Run the jobs that are asked for, one after the other."""
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)], lr=0.1).step()  # imports what every optimizer step needs
    import tensight.cli.run
    import tensight.frameworks.torch.adapter

    assert tensight.cli.run
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def work(job: dict[str, Any]) -> None:
    """In a process of its own."""
    own = os.getpid()
    folder = Path(job["folder"])
    printed = os.open(folder / "printed.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.chdir(folder)
    os.environ.update(job["environment"])
    code = 0
    try:
        if job["options"].get("bare"):
            execute(job["script"])
        elif "run" in job["options"]:
            run(job["options"], job["script"])
        else:
            main(folder, job["options"], job["script"])
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if os.getpid() == own:
            os._exit(code)
    raise SystemExit(code)  # a copy: its own last words follow


def execute(script: str) -> None:
    sys.argv = [script]
    source = Path(script).read_text()
    exec(compile(source, script, "exec"), {"__name__": "__main__", "__file__": script})


def run(options: dict[str, Any], script: str) -> None:
    """As `tensight run` would. With the option `asleep`, all steps from that one on are slept through.

    With the option `never`, copies are refused for this reason: there is no accelerator here that would forbid them.
    """
    from tensight.capture.budget import Budget
    from tensight.cli import main as command

    if "asleep" in options:
        Budget.next_depth = lambda budget, step: (
            Depth.ASLEEP if step >= options["asleep"] and budget.may_sleep else Depth.ALL
        )
        Budget.sleep_length = lambda budget, step: 10_000
    if "never" in options:
        TorchRewinds.never = lambda rewinds: options["never"]
        if "group" in options["never"]:
            TorchRewinds.unrepeatable = TorchRewinds.never
    sys.argv = ["tensight", "run", "--no-page", "--run-dir", "run", "--report", "report.json", *options["run"], script]
    command()


def main(folder: Path, options: dict[str, Any], script: str) -> None:
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
    try:
        execute(script)
    finally:
        if not copy:
            rewind.ending()
    if copy:
        return
    descriptors, children = left_behind(before)
    result = {
        "replays": msgspec.to_builtins(seen),
        "problems": problems,
        "steps": step,
        "descriptors": descriptors,
        "children": children,
        "resident": resident,
    }
    (folder / "replays.json").write_text(json.dumps(result))


def left_behind(before: int, seconds: float = 30.0) -> tuple[int, int]:
    """Descriptors and children that are more than there were, and stay.

    The queues of a loader's workers are closed by threads of their own, some time after the loop over it; what the
    rewinder has forgotten stays for ever.
    """
    until = time.monotonic() + seconds
    while True:
        multiprocessing.active_children()  # takes the exit status of the loader's own
        descriptors = len(os.listdir("/proc/self/fd")) - before
        children = len(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())
        if (descriptors, children) == (0, 0) or time.monotonic() >= until:
            return descriptors, children
        time.sleep(0.01)


if __name__ == "__main__":
    serve()
