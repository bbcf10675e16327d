"""Why a script crashed and what to do: told from the message, the failed call and what it was given.

An explanation is a pattern of the message and a function that says why and what to do; the first that fits wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensight.diagnosis.crash_patterns import Explanation, Patterns
from tensight.diagnosis.crashes_fitting import FITTING
from tensight.diagnosis.crashes_mindspore import MINDSPORE
from tensight.frameworks.crash import Crash
from tensight.frameworks.in_place import words
from tensight.records import Source

_PATTERNS = Patterns()
_when = _PATTERNS.when


@_when(r"must have same reduction dim, but got \[(\d+), (\d+)\] X \[(\d+), (\d+)\]")  # while it is compiled
@_when(r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
def _matmul(crash: Crash, match: re.Match[str]) -> Explanation:
    rows, columns, wanted, out = (int(text) for text in match.groups())
    layer = (
        f"{crash.module or 'the layer'} ({crash.module_type})" if crash.module_type == "Linear" else "the second matrix"
    )
    given = crash.named("input")
    from_shape = f"; its input is {list(given.shape)}" if given is not None and given.shape is not None else ""
    fixes = [f"make the layer fit what it is given: nn.Linear({columns}, {out})"]
    if crash.operator in ("matmul", "mm"):  # written out: there is no layer to change
        fixes = ["the second matrix fits when it is turned round: transpose it with .t()"] if out == columns else []
    if given is not None and given.shape is not None and len(given.shape) > 2 and _product(given.shape[1:]) == wanted:
        fixes.insert(0, "flatten before the layer: x.flatten(1)")
    return Explanation(
        f"shapes do not fit: {layer} takes {wanted} features and was given {columns}",
        f"a product of matrices needs as many columns on the left as rows on the right: {rows}x{columns} meets"
        f" {wanted}x{out}, so {columns} should be {wanted}{from_shape}",
        (*fixes, f"{'or ' if fixes else ''}change what comes before so that it ends in {wanted} features"),
    )


@_when(r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)")
def _broadcast(crash: Crash, match: re.Match[str]) -> Explanation:
    left, right, dimension = match.groups()
    return Explanation(
        f"shapes do not fit: {left} against {right} in dimension {dimension}",
        f"{crash.operator or 'the operation'} works element by element: in each dimension the sizes must be equal or 1,"
        f" and in dimension {dimension} they are {left} and {right}",
        (
            "compare the two shapes above; the usual causes are a missing transpose, squeeze or unsqueeze, or"
            " another batch size",
        ),
    )


@_when(r"expected input\[([\d, ]+)\] to have (\d+) channels, but got (\d+) channels")
def _channels(crash: Crash, match: re.Match[str]) -> Explanation:
    shape, wanted, got = match.groups()
    sizes = shape.split(", ")
    fixes = [f"make the layer take {got} channels, or give it {wanted}"]
    # pictures are square more often than not: then sizes that agree with the last one say it is no channel
    if sizes[-1] == wanted and wanted not in sizes[1:-1]:
        fixes.insert(0, "the channels stand last: x.permute(0, 3, 1, 2) puts them in the second place")
    return Explanation(
        f"{crash.module or 'the convolution'} takes {wanted} channels and was given {got}",
        f"a convolution wants (batch, channels, height, width); dimension 1 of [{shape}] is {got}, and its"
        f" weight is made"
        f" for {wanted}",
        tuple(fixes),
    )


@_when(r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)")
def _batch_sizes(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"the loss was given {match[1]} predictions and {match[2]} targets",
        f"each row of the prediction needs one target: dimension 0 is {match[1]} against {match[2]}",
        ("check reshape and flatten before the loss: the batch must stay dimension 0",),
    )


@_when(r"shape '(\[[^']*\])' is invalid for input of size (\d+)")
def _view(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"{match[2]} values cannot be seen as {match[1]}",
        f"{crash.operator or 'view'} keeps the number of values; {match[1]} does not hold {match[2]}",
        ("let one size be worked out with -1, or use x.flatten(1); check the size of what comes before",),
    )


@_when(r"view size is not compatible")
def _not_contiguous(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "view of a tensor whose values do not lie in order",
        "after transpose or permute the values stay where they were, and view cannot show them in the new order",
        ("use .reshape(…), or .contiguous().view(…)",),
    )


@_when(
    r"(?:expected scalar type (\w+) but found (\w+)|must have the same dtype, but got (\w+) and (\w+)"
    r"|Input type \((?:torch\.)?([\w.]+)\) and (?:weight|bias) type \((?:torch\.)?([\w.]+)\) should be the same"
    r"|expected m1 and m2 to have the same dtype, but got: (\w+) != (\w+))"
)
def _dtype(crash: Crash, match: re.Match[str]) -> Explanation:
    found = [text for text in match.groups() if text]
    wanted, got = found[0], found[1]
    kinds = sorted({item.dtype for item in crash.inputs if item.dtype})
    odd = [item for item in crash.inputs if item.dtype in ("float64", "float16", "bfloat16", "int64", "int32")]
    if "loss" in crash.operator or "nll" in crash.operator or "cross_entropy" in crash.operator:
        return Explanation(
            f"{crash.operator} was given the wrong number format: {wanted} and {got}",
            f"{crash.operator} wants {wanted} where it got {got}; class labels are int64, values to regress are floats",
            ("convert the target: target.long() for classes, target.float() for values",),
        )
    name = odd[0].name if odd else "the input"
    return Explanation(
        f"number formats do not fit: {wanted} and {got}",
        f"{crash.operator or 'the operator'} needs one number format for all it is given"
        + (f", and was given {' and '.join(kinds)}" if len(kinds) > 1 else f", and met {wanted} and {got}"),
        (
            f"convert {name}: x.float() (NumPy arrays are float64 unless told otherwise), or the module:"
            f" model.double()",
            "under mixed precision put the call under torch.autocast",
        ),
    )


@_when(r"expected target dtype to be (.+?), but got (\w+)|Expected floating point type for target with class probabil")
def _target_dtype(crash: Crash, match: re.Match[str]) -> Explanation:
    name = crash.operator or "the loss"
    target = crash.named("target")
    given = f"its target is {target.words}" if target is not None else f"its target is {match[2] or 'whole numbers'}"
    if match[1] is None:
        return Explanation(
            f"{name} was given whole numbers in the shape of its prediction",
            f"a target as large as the prediction holds a probability for each class, which is a float; {given}",
            ("give one class per sample, target.argmax(1), or probabilities, target.float()",),
        )
    return Explanation(
        f"{name} wants class numbers ({match[1]}) as target and was given {match[2]}",
        f"a target with one number per sample holds the number of its class, which is int64; {given}",
        ("convert the target: target.long()", "for values to regress use mse_loss; for yes or no, a binary loss"),
    )


@_when(r"argument '(\w+)' \(position \d+\) must be \w*Tensor\w*, not NoneType")
def _nothing(crash: Crash, match: re.Match[str]) -> Explanation:
    what = crash.module or crash.operator or "the call"
    made = f"; {crash.nothing}" if crash.nothing else ""
    return Explanation(
        f"{what} was given None instead of a tensor",
        f"{crash.operator or 'the call'} needs a tensor as {match[1]}{made}; None comes out of a function or a forward"
        " that ends without return, in one of its branches perhaps",
        ("look at what made the value: every way through it must end in return",),
    )


@_when(
    r"[Ee]xpected all tensors to be on the same device|is on (\w+:?\d*), but expected on|Tensor on device"
    r" (\S+) is not on the expected device (\S+?)!"
)
def _device(crash: Crash, match: re.Match[str]) -> Explanation:
    places = {item.name: item.device for item in crash.inputs if item.device}
    said = ", ".join(f"{name} on {device}" for name, device in places.items())
    return Explanation(
        "tensors are on different devices",
        f"{crash.operator or 'the operator'} needs all it is given on one device" + (f": {said}" if said else ""),
        (
            "move model and data to one device: model.to(device), x = x.to(device);"
            " make new tensors with device=x.device",
        ),
    )


@_when(r"Trying to backward through the graph a second time")
def _twice(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "backward was called twice over the same graph",
        "the first backward frees what it needed; the second finds it gone. Either backward is called twice on"
        " one loss,"
        " or something computed in an earlier step (a hidden state, a running loss) is still part of this step's graph",
        (
            "cut what is carried from step to step: hidden = hidden.detach()",
            "of two networks that train in turn, cut where the first loss needs no gradients: critic(made.detach())",
            "or compute the loss again before the second backward; retain_graph=True only if both are wanted",
        ),
    )


@_when(
    r"modified by an inplace operation: \[torch\.\w+ \[([\d, ]*)\]\], which is output (\d+) of"
    r" (\w+?)(?:Backward\d*)?, is at version (\d+); expected version (\d+)"
)
def _in_place(crash: Crash, match: re.Match[str]) -> Explanation:
    shape, _, writer, now, then = match.groups()
    times = int(now) - int(then)
    count = f"{times} time{'' if times == 1 else 's'}"
    kept = f"{crash.kept_by or 'an operator'} keeps [{shape}] for its backward"
    after = f"; {_line(crash.seen_at)} found it changed {count} since" if crash.seen_at is not None else ""
    if crash.weight:
        return Explanation(
            f"weights were updated between a forward and its backward: {crash.weight}",
            f"{kept}, which is {crash.weight} as it was in the forward{after or f'; it was changed {count} since'}",
            (
                "call the backward of every loss before the first optimizer.step(), or compute the loss again after it",
                "of two networks that train in turn, cut where one loss needs no gradients: critic(made.detach())",
            ),
        )
    if crash.seen_at is not None and crash.source is not None:
        return Explanation(
            f"a value that the backward needs was changed in place: {crash.source.code}",
            f"{kept}{after}; of the lines that change tensors in place, this one fits",
            ("write it out of place: x = x + …, torch.where(…), inplace=False; or change a copy: x = x.clone()",),
        )
    wrote = words(writer)
    lines = [_line(line) for line in crash.changes]
    return Explanation(
        f"a value that the backward needs was changed in place: one that {wrote} has made or written",
        f"{kept}, which {wrote} has made or written; it was changed in place {count} since (version {now} instead of"
        f" {then})",
        (
            f"find the in-place change of the result of {wrote} (x += …, x[…] = …, relu_, inplace=True)"
            f"{': perhaps ' + ' or '.join(lines) if lines else ''}; write it out of place: x = x + …",
            "weights may not be updated between forward and backward either: call optimizer.step() after the"
            " last backward",
        ),
    )


def _line(source: Source | None) -> str:
    return f"{source.code} ({Path(source.file).name}:{source.line})" if source is not None else ""


@_when(r"modified by an inplace operation")
def _in_place_somewhere(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a value that the backward needs was changed in place",
        "autograd kept a value of the forward pass, and it was changed before the backward",
        ("write in-place changes (x += …, x[…] = …, inplace=True) out of place: x = x + …",),
    )


@_when(r"leaf [Vv]ariable that requires grad is being used in an in-place operation")
def _leaf(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a parameter was changed in place while autograd records",
        "a parameter is where gradients end; changing it in place would change what they mean",
        ("change parameters under torch.no_grad(): with torch.no_grad(): w -= lr * w.grad",),
    )


@_when(r"does not require grad and does not have a grad_fn")
def _no_graph(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "the loss is not connected to any trainable parameter",
        "backward starts at a tensor that nothing trainable leads to: everything before was detached (.detach(),"
        " .item(),"
        " .numpy(), torch.tensor(…)), computed under no_grad, went through argmax, or all parameters are frozen",
        ("compute the loss from the model's output itself, with gradients on; check requires_grad of the parameters",),
    )


@_when(r"grad can be implicitly created only for scalar outputs")
def _not_scalar(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "backward was called on more than one number",
        "a gradient is of one number; this loss still has one value per sample",
        ("reduce it first: loss.mean().backward(), or reduction='mean' in the loss",),
    )


@_when(r"index out of range in self")
def _embedding(crash: Crash, match: re.Match[str]) -> Explanation:
    weight, index = crash.named("weight", "self.weight"), crash.named("input", "indices")
    size = weight.shape[0] if weight is not None and weight.shape else None
    return Explanation(
        "an index is outside the table of the embedding",
        (
            f"{crash.module or 'the embedding'} has {size} rows, so indices go from 0 to {size - 1}"
            if size
            else "indices must lie between 0 and the number of rows minus one"
        )
        + (f"; it was given {index.words}" if index is not None else ""),
        ("make num_embeddings the largest index plus one, or map unknown tokens to a known index",),
    )


@_when(r"Target (-?\d+) is out of bounds")
def _target(crash: Crash, match: re.Match[str]) -> Explanation:
    prediction = crash.named("input", "logits", "self")
    classes = prediction.shape[1] if prediction is not None and prediction.shape and len(prediction.shape) > 1 else None
    return Explanation(
        f"a target is class {match[1]}, which the prediction does not have",
        (
            f"the prediction has {classes} classes, so targets go from 0 to {classes - 1}"
            if classes
            else "targets go from 0 to the number of classes minus one"
        )
        + f", and one is {match[1]}",
        ("count classes from 0, or widen the last layer to the number of classes",),
    )


@_when(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)|(?:list|tuple|string) index out of range")
def _index(crash: Crash, match: re.Match[str]) -> Explanation:
    if match[1] is None:
        return Explanation(
            f"{crash.message} in {crash.call or 'the line'}",
            "the sequence is shorter than the index",
            ("print its length and the index just before this line",),
        )
    return Explanation(
        f"index {match[1]} is outside a dimension of size {match[3]}",
        f"dimension {match[2]} holds {match[3]} entries, so indices go from 0 to {int(match[3]) - 1}",
        ("check how the index is made; an off-by-one at the end of the data is the usual cause",),
    )


@_when(r"(?:you tried to allocate (\d+) bytes|out of memory|Unable to allocate ([\d.]+ \w+))")
def _memory(crash: Crash, match: re.Match[str]) -> Explanation:
    size = f"{int(match[1]) / 2**30:.1f} GiB" if match[1] else match[2] or "more than was left"
    return Explanation(
        f"out of memory: {crash.operator or 'one operation'} wanted {size}",
        f"one tensor of {size} was asked for and not to be had; a shape that is larger than meant (a broadcast"
        f" of two large"
        " dimensions, a wrong reshape) is as usual a cause as a batch that is too large",
        ("look at the shapes above; then try a smaller batch, torch.no_grad() in evaluation, or checkpointing",),
    )


@_when(r"(?i)timed? ?out waiting \d+ ?ms|connection (?:closed|reset) by (?:remote )?peer|watchdog caught collective")
def _collective(crash: Crash, match: re.Match[str]) -> Explanation:
    closed = "closed" in match[0].lower() or "reset" in match[0].lower()
    return Explanation(
        "a collective failed: another rank is gone" if closed else "a collective timed out: another rank did not come",
        "a collective ends only when every rank calls it, and "
        + ("one of them has ended or was killed" if closed else "one of them was late, elsewhere, or had ended"),
        (
            "look at the other ranks first: one that has failed, or has made fewer steps, is the cause",
            "give every rank the same number of batches, and call the same collectives on all",
        ),
    )


@_when(r"Expected to have finished reduction in the prior iteration.*?(?:parameters without a gradient: ([^\n]+)|$)")
def _unused_parameters(crash: Crash, match: re.Match[str]) -> Explanation:
    names = match[1] or "some parameters"
    return Explanation(
        f"DistributedDataParallel waits for gradients that never come: {names}",
        f"it averages gradients over ranks as they come, and a step is over when all have come; {names} took no part in"
        " the loss of the step before",
        (
            "use these parameters in the loss, or freeze them (requires_grad=False) before wrapping",
            "DistributedDataParallel(model, find_unused_parameters=True), which looks for them in every step",
        ),
    )


@_when(r"DataLoader worker \(pid\(?s?\)? ([\d, ]+)\) (?:exited unexpectedly|is killed)")
def _worker_gone(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a worker process of the data loader died",
        f"process {match[1]} ended without an exception: it was killed (often for lack of memory or of /dev/shm)"
        f" or crashed",
        ("run once with num_workers=0 to see the error itself; then fewer workers or more shared memory",),
    )


@_when(r"Expected more than 1 value per channel when training")
def _one_value(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        f"{crash.module or 'batch norm'} cannot normalise a batch of one",
        "batch normalisation takes mean and variance over the batch; of one value there is no variance",
        ("use drop_last=True in the loader, a larger batch, or LayerNorm / GroupNorm; call model.eval() to predict",),
    )


@_when(r"Can't call numpy\(\) on Tensor that requires grad")
def _numpy(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a tensor that is part of the graph cannot become NumPy",
        "gradients could not flow through NumPy, so it is refused",
        ("detach it first: x.detach().numpy()",),
    )


@_when(r"to satisfy the constraint \w+.*but found invalid values.*(?:nan|inf)")
def _constraint(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a distribution was given NaN or inf",
        "the parameters of the distribution come from the network, and some are not finite: the values went bad before"
        " this line, in this step or in the update before it",
        ("see the finding about the first bad value; lower the learning rate or clip gradients if values grew",),
    )


@_when(r"(?:forward|__init__)\(\) (?:takes|missing|got)")
def _signature(crash: Crash, match: re.Match[str]) -> Explanation:
    return Explanation(
        "a module was called with other arguments than its forward takes",
        crash.message.splitlines()[0],
        ("compare the call with the signature of forward; a Sequential hands on one value only",),
    )


_PLAIN = {
    "SyntaxError": "Python cannot read this line, so nothing of the script has run",
    "IndentationError": "Python cannot read this line, so nothing of the script has run",
    "TabError": "Python cannot read this line, so nothing of the script has run",
    "KeyError": "there is no such key; look at the keys that are there",
    "AttributeError": "the object has no such attribute; check its type and spelling",
    "NameError": "the name is not defined here; check its spelling and where it is set",
    "ZeroDivisionError": "a number is divided by 0; an empty data set or loader makes a length of 0",
    "FileNotFoundError": "the file is not there; relative paths start at the working directory",
    "ModuleNotFoundError": "the module is not installed in this Python, or not on its path",
    "NotImplementedError": "a method that a subclass must write is missing: check its name and indentation",
    "TypeError": "the value has another type than the call takes",
    "ValueError": "the value is of the right type and cannot be used here",
}


_PACKAGES = {  # module → package, where they differ
    "torch": "'tensight[torch]'",
    "mindspore": "'tensight[mindspore]'",
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}

_LATE = (
    "The stack cannot be trusted: operators run ahead of Python, and the error came out at this line, made before it"
)
_BLOCKING = "for the right line put mindspore.runtime.launch_blocking() (synchronous mode) at the top, and run it again"


def explain(crash: Crash) -> dict[str, Any]:
    """The block beside the traceback: title, where, why, inputs and fix, as plain values."""
    found: Explanation | None = None
    for pattern, function in (*FITTING, *_PATTERNS, *MINDSPORE):
        match = pattern.search(crash.message)
        if match:
            found = function(crash, match)
            break
    first = crash.message.strip().splitlines()[0] if crash.message.strip() else ""
    title = f"{crash.type}: {first}".rstrip(": ")
    if found is None:
        whose = "in the script's own code" if crash.in_user_code else "in a library that the script's line calls"
        found = Explanation(title, f"{_PLAIN.get(crash.type, 'the call failed')} ({whose})", _missing(crash))
    source = crash.source
    where = {
        "module": crash.module,
        "module_type": crash.module_type,
        "op": crash.operator or None,
        "phase": crash.phase or None,
        "call": crash.call or None,
        "own_code": crash.in_user_code,
        "file": source.file if source is not None else None,
        "line": source.line if source is not None else None,
        "code": source.code if source is not None else None,
    }
    if crash.late:
        found = Explanation(found.title, f"{found.why}. {_LATE}", (*found.fix, _BLOCKING))
    why = f"{found.why}; it happened in {crash.worker}" if crash.worker else found.why
    return {
        "title": found.title,
        "error": title,
        "where": where,
        "why": why,
        "inputs": [f"{item.name}: {item.words}" for item in crash.inputs],
        "fix": list(found.fix),
    }


def _missing(crash: Crash) -> tuple[str, ...]:
    """What to install, where a module is missing."""
    match = re.match(r"No module named '([\w.]+)'", crash.message)
    if crash.type != "ModuleNotFoundError" or match is None:
        return ()
    name = match[1].partition(".")[0]
    return (
        f"install it in the same Python: python -m pip install {_PACKAGES.get(name, name)}",
        "a module of your own is found beside the script, or by -m from the folder of its package",
    )


def _product(numbers: Sequence[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total
