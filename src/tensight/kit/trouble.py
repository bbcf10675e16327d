"""What is known when a loss is NaN or Inf."""

from __future__ import annotations

from tensight.errors import TensightError
from tensight.kit.backend import backend_of
from tensight.kit.callbacks.callback import Params
from tensight.runs.blocks import finding_block, plain
from tensight.session.current import current

_SHOWN = 3


def block(params: Params, loss: float, step: int) -> str:
    """Why the training ends: the finding of a running session, or else the values that are bad."""
    session = current()
    findings = [] if session is None else session.findings
    bad = [finding for finding in findings if finding.category == "numeric-nonfinite"] or findings
    head = f"✖ epoch {params.get('cur_epoch_num')} step {step}  loss is {loss}: the training ends here"
    if bad:
        return f"\n{head}\n{finding_block(bad[0])}\n"
    lines = [head, f"  where   {_where(params)}"]
    if session is None:
        lines.append("  fix     run it as `tensight run SCRIPT`: the first bad operator and its line are then named")
    return "\n" + "\n".join(lines) + "\n"


def _where(params: Params) -> str:
    try:
        found = backend_of(params.get("network")).bad_values(params.network)
    except TensightError:
        return "the network is not known here"
    if not found:
        return "all weights and gradients are finite: the loss function or its input made it"
    shown = [f"{plain(name)} ({kind}: {nan} NaN, {inf} Inf)" for name, kind, nan, inf in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(shown) + more
