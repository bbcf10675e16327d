"""What MindSpore's own messages mean, and what to do."""

from __future__ import annotations

import re

from tensight.diagnosis.crash_patterns import Explanation, Patterns
from tensight.frameworks.crash import Crash

MINDSPORE = Patterns()
when = MINDSPORE.when

# what the graph compiler does not take → what to write instead
_INSTEAD = {
    "Try": "try and except cannot be compiled: check beforehand with if, or keep the call outside construct",
    "With": "with cannot be compiled: enter the context outside construct, around the call of the cell",
    "Global": "global cannot be compiled: hand the value in as an argument, or make it an attribute in __init__",
    "Nonlocal": "nonlocal cannot be compiled: return the value instead",
    "Delete": "del cannot be compiled: leave it out",
    "Yield": "yield cannot be compiled: build a list or tuple and return it",
    "AsyncFunctionDef": "async functions cannot be compiled",
    "ClassDef": "classes cannot be made inside construct: make them outside",
    "Import": "import cannot be compiled: import at the top of the file",
    "ImportFrom": "import cannot be compiled: import at the top of the file",
    "Lambda": "write the lambda as a function of its own, with def",
}


def _line(crash: Crash) -> str:
    source = crash.source
    return f" ({source.file}:{source.line})" if source is not None else ""


@when(r"Unsupported (statement|expression) '(\w+)'")
def _syntax(crash: Crash, match: re.Match[str]) -> Explanation:
    construct = match[2]
    return Explanation(
        f"{construct.lower()} cannot be compiled{_line(crash)}",
        f"graph mode and jit compile the Python of construct, and '{construct.lower()}' is not part of what they take;"
        " in PyNative mode the same line runs",
        (
            _INSTEAD.get(construct, f"write it without {construct.lower()}"),
            "or run in PyNative mode: mindspore.set_context(mode=mindspore.PYNATIVE_MODE)",
        ),
    )


@when(r"Parse Lambda Function Fail")
def _lambda(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"a lambda inside another expression cannot be compiled{_line(crash)}",
        "graph mode and jit read the source of a function, and take a lambda only where it stands on a line of its own;"
        " in PyNative mode the same line runs",
        (
            _INSTEAD["Lambda"] + ": def forward(x, y): return loss_fn(net(x), y), then value_and_grad(forward, …)",
            "or run in PyNative mode: mindspore.set_context(mode=mindspore.PYNATIVE_MODE)",
        ),
    )


@when(r"unexpected keyword argument 'every'")
def _print_every(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"MindSpore's compiler takes tensight.print for its own print, which knows no every{_line(crash)}",
        "in a graph whatever is called .print is MindSpore's own operator; under a name of its own it is Tensight's",
        ("import it by name: from tensight import print as show, then show(…, every=…) inside construct",),
    )


@when(r"(?:Unsupported op \[|operator\[)(NPU\w*FloatStatus\w*|FloatStatus)\]|NPU\w*FloatStatus\w* .*not support")
def _float_status(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "this loss-scale cell checks for overflow by an operator that a CPU does not have",
        f"TrainOneStepWithLossScaleCell asks the device for overflow ({match[1] or 'FloatStatus'}), which only Ascend"
        " and GPU answer",
        (
            "on CPU scale by hand: scaler = mindspore.amp.DynamicLossScaler(1024, 2, 1000); scaler.scale(loss) in what"
            " the gradient is taken of, scaler.unscale(grads), and update only if mindspore.amp.all_finite(grads)",
            "Tensight watches gradients and scale for overflow by itself: TrainOneStepCell is enough to find one",
        ),
    )


@when(r"loss_scale_manager=FixedLossScaleManager\(drop_overflow_update=False\)`?\s*are supported on device")
def _scale_manager(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "this loss-scale manager needs an overflow check that a CPU does not have",
        "dynamic scaling and drop_overflow_update=True ask the device for overflow, which only Ascend and GPU answer",
        (
            "on CPU: FixedLossScaleManager(loss_scale, drop_overflow_update=False), and the same loss_scale in the"
            " optimizer; or a functional loop with mindspore.amp.DynamicLossScaler",
        ),
    )


@when(r"Unsupported op \[(\w+)\] on (\w+)")
def _no_kernel(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"{match[1]} does not exist on {match[2]}",
        f"MindSpore has no {match[2]} kernel for the operator {match[1]}",
        (f"use another operator for it, or another device; the list of what {match[2]} has is in MindSpore's manual",),
    )


@when(
    r"Select (\w+) operator\[(\w+)\] fail! Unsupported data type!.*?but get input\[(?:\[const vector\])?[{]?([^}\]]*)"
)
def _data_type(crash: Crash, match: re.Match[str]) -> Explanation:
    device, operator, given = match[1], match[2], " ".join(match[3].replace(",", " ").split()).lower()
    fixes = ["convert with x.astype(mindspore.float32), or mindspore.int32 where indices are wanted"]
    if "bfloat16" in given:
        fixes.insert(0, f"{device} has no bfloat16 {operator}: use float32 or float16 here")
    return Explanation(
        f"{operator} cannot take these number formats: {given}",
        f"the {device} kernel of {operator} was given {given}, which is none of the combinations it has",
        tuple(fixes),
    )


@when(
    r"For '(\w+)', input\.shape and other\.shape need to broadcast.*?"
    r"input\.shape = \[([^\]]*)\] and other\.shape = \[([^\]]*)\]"
)
def _broadcast(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"shapes do not fit: [{match[2]}] against [{match[3]}]",
        f"{match[1]} works element by element: in each dimension the sizes must be equal or 1",
        ("the usual causes are a missing transpose, squeeze or expand_dims, or another batch size",),
    )


@when(r"For '?MatMul\w*'? the input dimensions must be equal, but got 'x1_col': (\d+) and 'x2_row': (\d+)")
def _matmul(crash: Crash, match: re.Match[str]) -> Explanation:
    given, wanted = match.groups()
    layer = f"{crash.module} ({crash.module_type})" if crash.module else "the second matrix"
    return Explanation(
        f"shapes do not fit: {layer} takes {wanted} features and was given {given}",
        f"a product of matrices needs as many columns on the left as rows on the right: {given} should be {wanted}",
        (
            f"make the width of the layer fit what it is given: nn.Dense({given}, …)",
            f"or change what comes before so that it ends in {wanted} features; flatten it: x.reshape(x.shape[0], -1)",
        ),
    )


@when(r"loss is NAN or INF, training process cannot continue")
def _loss_monitor(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "LossMonitor ended the training, since the loss is not finite",
        "the callback LossMonitor raises an error when the loss is NaN or Inf; the cause lies before, in this step or"
        " an earlier one",
        ("see the finding about the first bad value: it names the operator and the line",),
    )


@when(r"mindspore\.communication|\bmsrun\b|MS_ROLE|MS_SCHED_HOST|MS_WORKER_NUM|RANK_TABLE_FILE")
def _distributed(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a distributed training was not started or set up as one",
        "the script asks for several ranks, and the process knows nothing of the others: either it was started as a"
        " plain script, or init() was not called before the parallel context was used",
        (
            "start it by msrun: msrun --worker_num=2 --local_worker_num=2 train.py",
            "call mindspore.communication.init() before set_auto_parallel_context, and leave device_num to it",
            "for one device leave parallel_mode at ParallelMode.STAND_ALONE",
        ),
    )
