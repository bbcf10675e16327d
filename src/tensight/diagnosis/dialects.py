"""Rules are written in PyTorch's words; here a finding is said in those of the framework that trains."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from tensight.records import Finding, Part


def _init(one: str, other: str) -> str:
    return f"weight_init='{one}' or '{other}'"


_MINDSPORE: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        (r"torch\.nn\.utils\.clip_grad_norm_\(model\.parameters\(\), ", "ops.clip_by_global_norm(grads, "),
        (r"(?:torch\.nn\.utils\.)?clip_grad_norm_", "ops.clip_by_global_norm"),
        (r"with torch\.no_grad\(\): p -= lr \* p\.grad", "p.set_data(p - lr * gradient)"),
        (r"detach\(\), \.data, torch\.no_grad\(\) or", "ops.stop_gradient() or"),
        (r"detach\(\) \(or \.data, no_grad\)", "ops.stop_gradient() (or the conversion)"),
        (r"\bdetach\(\)", "ops.stop_gradient()"),
        (r"torch\.no_grad\(\)", "ops.stop_gradient()"),
        (r", or add the new parameters with optimizer\.add_param_group", ""),
        (r"([\w.]+)\.requires_grad_\((True|False)\)", r"p.requires_grad = \2 for each p of \1.get_parameters()"),
        (r"print\(([\w.]+)\.grad\): it is None after backward", r"print the gradient of \1: it is 0 everywhere"),
        (r"print\(([\w.]+)\.grad\.abs\(\)\.max\(\)\): it is 0\.0", r"print the gradient of \1: it is 0 everywhere"),
        (
            r"print\(loss\.grad_fn\): it does not lead to the network; parameters have \.grad None",
            "print the gradients",
        ),
        (r"right before loss\.backward\(\)", "inside the function whose gradient is taken"),
        (r"loss\.backward\(\)", "the gradient"),
        (r"optimizer\.step\(\)", "optimizer(grads)"),
        (r"what backward\(\)(.*?) is called on", r"what the gradient is taken of\1"),
        (r"model\.train\(\)", "net.set_train(True)"),
        (r"override train\(\)", "override set_train()"),
        (r"model\.eval\(\)", "net.set_train(False)"),
        (r"([\w.]+)\.eval\(\)", r"\1.set_train(False)"),
        (r"\beval mode\b", "evaluation mode"),
        (r"model\.training\b", "net.training"),
        (r"model\.parameters\(\)", "net.trainable_params()"),
        (r"(\w+)\.parameters\(\)", r"\1.trainable_params()"),
        (r"DataLoader\(…, shuffle=True\)", "GeneratorDataset(…, shuffle=True)"),
        (r"DataLoader\(…, num_workers=4, persistent_workers=True\)", "GeneratorDataset(…, num_parallel_workers=4)"),
        (r"a DataLoader with num_workers", "a data set with num_parallel_workers"),
        (r"\bDataLoader\b", "data set"),
        (r"\ba (?:torch\.amp\.)?GradScaler\b", "an amp.DynamicLossScaler"),
        (r"torch\.amp\.GradScaler|\bGradScaler\b", "amp.DynamicLossScaler"),
        (r"scaler\.unscale_\(optimizer\)", "grads = scaler.unscale(grads)"),
        (r"torch\.autocast", "amp.auto_mixed_precision"),
        (r"torch\.(long|int64)\b", "ms.int64"),
        (r"torch\.(float16|float32|bfloat16)\b", r"ms.\1"),
        (r"\.float\(\)", ".astype(ms.float32)"),
        (r"\bnn\.init\.orthogonal_", "mindspore.common.initializer.Orthogonal"),
        (r"drop nn\.init\.constant_/ones_ for weights", "leave out weight_init='ones' or a number"),
        (r"\(nn\.init\)", "(its initializer)"),
        (
            r"\bnn\.init\.kaiming_normal_ / xavier_(\w)(\w+)_",
            lambda m: _init("HeNormal", f"Xavier{m[1].upper()}{m[2]}"),
        ),
        (r"\bnn\.init\.xavier_normal_ / kaiming_normal_", lambda m: _init("XavierNormal", "HeNormal")),
        (r"\bnn\.init\.kaiming_normal_", "weight_init='HeNormal'"),
        (r"\bdim=(?=-?\d)", "axis="),
        (r"\(…, lr=", "(…, learning_rate="),
        (r"\.unsqueeze\(", ".expand_dims("),
        (r"\bmodule\.to\(dtype\)", "cell.to_float(dtype)"),
        (r"\brequires_grad_\(True\)", "requires_grad = True"),
        (r"\bcall it in forward\b", "call it in construct"),
        (r"dist\.broadcast\(p\.data, 0\) for each", "ops.Broadcast(0)((p,)) for each"),
        (
            r"dist\.all_reduce\(p\.grad\); p\.grad /= dist\.get_world_size\(\)",
            "nn.DistributedGradReducer(parameters)(grads)",
        ),
        (r"torch\.optim\.", "nn."),
        (r"torch\.tensor\(…, requires_grad=True\)", "Tensor(…)"),
        (r"torch\.tensor\(", "Tensor("),
        (r"\bnn\.Linear\b", "nn.Dense"),
        (r"\bnn\.ModuleList\b", "nn.CellList"),
        (r"\bF\.(?=[a-z])", "ops."),
        (r"torch\.", "ops."),
    )
)


def framework_of(parts: dict[tuple[str, str], Part]) -> str:
    """Which framework trains, told by what its optimizers are like: MindSpore never hands out an absent gradient."""
    zeros = any(part.settings.get("absent_gradients") == "zeros" for part in parts.values())
    return "mindspore" if zeros else "torch"


def translated(text: str) -> str:
    """
    >>> translated("clip gradients: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) before optimizer.step()")
    'clip gradients: ops.clip_by_global_norm(grads, 1.0) before optimizer(grads)'
    >>> translated("call model.train() at the start")
    'call net.set_train(True) at the start'
    >>> translated("freeze it: encoder.requires_grad_(False)")
    'freeze it: p.requires_grad = False for each p of encoder.get_parameters()'
    >>> translated("the default, or nn.init.xavier_normal_ / kaiming_normal_")
    "the default, or weight_init='XavierNormal' or 'HeNormal'"
    >>> translated("log_softmax(x, dim=1), or target.unsqueeze(1)")
    'log_softmax(x, axis=1), or target.expand_dims(1)'
    >>> translated("lower the learning rate: SGD(…, lr=0.1)")
    'lower the learning rate: SGD(…, learning_rate=0.1)'
    """
    for theirs, ours in _MINDSPORE:
        text = theirs.sub(ours, text)
    return text


def in_mindspore(finding: Finding) -> Finding:
    """A finding in MindSpore's words. Where it is stays as it is: that is the user's own code."""
    return msgspec.structs.replace(
        finding,
        title=translated(finding.title),
        why=translated(finding.why),
        fix=tuple(map(translated, finding.fix)),
        confirm=tuple(map(translated, finding.confirm)),
        since=translated(finding.since),
    )
