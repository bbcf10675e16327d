"""Reasons are written in PyTorch's words; here they are said in those of the framework that trains."""

from __future__ import annotations

from tensight.records import Replay

_IN_MINDSPORE = (
    (".clamp_min(", ".clamp("),
    ("clip_grad_norm_", "ops.clip_by_global_norm"),
    ("under autocast use a GradScaler", "with mixed precision use amp.DynamicLossScaler"),
    ("leave out .half(), or put .float() before it", "leave out to_float(float16), or put .astype(float32) before it"),
    ("torch.", "ops."),
)


def namespace(replay: Replay) -> str:
    """Where the operator's framework keeps it: 'aten' of PyTorch, 'ops' of MindSpore.

    >>> namespace(Replay(1, "exact", operator="ops.sqrt"))
    'ops'
    """
    return "ops" if replay.operator.startswith("ops.") else "aten"


def spoken(replay: Replay, text: str) -> str:
    """A sentence in the words of the replay's framework.

    >>> spoken(Replay(1, "exact", operator="ops.sqrt"), "write torch.sqrt(x.clamp_min(1e-12))")
    'write ops.sqrt(x.clamp(1e-12))'
    """
    if namespace(replay) == "ops":
        for theirs, ours in _IN_MINDSPORE:
            text = text.replace(theirs, ours)
    return text
