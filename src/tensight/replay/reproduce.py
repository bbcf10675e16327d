"""The guilty operator with its real inputs in a short script: `tensight explain RUN --reproduce F.py`."""

from __future__ import annotations

import re
from pathlib import Path

from tensight.errors import FormatError, NameNotFound
from tensight.records import Replay


def script(replay: Replay, run: Path, *, beside: str = "") -> str:
    """A script that shows the fault by itself.

    It reads the operator's inputs from the run, or from the file `beside` that lies beside the script.
    """
    if not re.fullmatch(r"\w+(\.\w+)+", replay.operator) or not replay.tensors:
        raise NameNotFound(
            f"step {replay.step}: the replay ({replay.status}) kept no operator with its inputs; nothing can be shown"
        )
    place = ""
    if replay.source is not None:
        place = f", {replay.source.file}:{replay.source.line}  {replay.source.code}"
    kept = repr(str(inputs_of(replay, run)))
    if beside:
        kept = f"pathlib.Path(__file__).with_name({beside!r})"
    lines = [
        " ".join(f"# step {replay.step}, {replay.phase}: {replay.operator}{place}".split()),
        *(["import pathlib", ""] if beside else []),
        "import torch",
        "from safetensors.torch import load_file",
        "",
        f"values = load_file({kept})",
        'inputs = [values[name] for name in sorted(values) if name.startswith("input.")]',
    ]
    if replay.phase == "backward":
        lines.append("inputs = [value.requires_grad_() if value.is_floating_point() else value for value in inputs]")
    lines.append(f"result = {_call(replay)}")
    if replay.phase == "backward":
        lines += [
            "first = result[0] if isinstance(result, tuple) else result",
            'given = values.get("backward.0")',
            "first.backward(given if given is not None and given.shape == first.shape else torch.ones_like(first))",
        ]
    lines += _shown("gradients" if replay.phase == "backward" else "result")
    return "\n".join(lines) + "\n"


def inputs_of(replay: Replay, run: Path) -> Path:
    """The file with the operator's inputs. A run may be a stranger's: no file outside of it is meant by its records."""
    path = (run / replay.tensors).resolve()
    if not path.is_relative_to(run.resolve()):
        raise FormatError(f"{run} is refused: the inputs of step {replay.step} are said to lie outside of it")
    return path


def _shown(judged: str) -> list[str]:
    """Lines that print what went in and came out: whole where it is small, else the row of the first bad value."""
    found = "result if isinstance(result, tuple) else [result]"
    if judged == "gradients":
        found = "[value.grad for value in inputs]"
    return [
        f"found = [value for value in ({found}) if isinstance(value, torch.Tensor)]",
        "bad = next((value for value in found if not value.isfinite().all()), found[0])",
        "wrong = (bad.isnan() if bad.isnan().any() else bad.isinf()).nonzero()",
        "row = tuple(wrong[0, :-1].tolist()) if len(wrong) else ()  # where the first bad value is",
        "torch.set_printoptions(threshold=64, edgeitems=1, linewidth=120)",
        'named = [(f"input {place}", value) for place, value in enumerate(inputs)]',
        f'for name, value in [*named, *(("{judged}", value) for value in found)]:',
        '    counts = f"{int(value.isnan().sum())} NaN, {int(value.isinf().sum())} infinite of {value.numel()} values"',
        '    print(f"{name} of shape {list(value.shape)}: {counts}")',
        "    large = row and value.numel() > 64 and value.shape[:-1] == bad.shape[:-1]",
        '    print(f"  {list(row)}" if large else " ", value[row].detach() if large else value.detach())',
    ]


def _call(replay: Replay) -> str:
    """The operator's call: plain arguments as they were, tensors in the places between."""
    namespace, _, name = replay.operator.partition(".")
    facts = replay.facts
    tensors = len({key.split(".")[1] for key in facts if re.fullmatch(r"in\.\d+\.shape", key)})
    plain = {int(key[4:]): value for key, value in facts.items() if re.fullmatch(r"arg\.\d+", key)}
    total = tensors + len(plain)
    arguments = []
    following = iter(range(tensors))
    for position in range(total):
        if position in plain:
            arguments.append(_literal(plain[position]))
        else:
            index = next(following, None)
            if index is not None:
                arguments.append(f"inputs[{index}]")
    arguments += [f"inputs[{index}]" for index in following]
    named = {key[4:]: value for key, value in facts.items() if re.fullmatch(r"arg\.[a-z_]\w*", key)}
    arguments += [f"{key}={_literal(value)}" for key, value in named.items()]
    return f"torch.ops.{namespace}.{name}({', '.join(arguments)})"


def _literal(value: object) -> str:
    """
    >>> _literal(0.5), _literal("1,2"), _literal(None), _literal("mean")
    ('0.5', '[1, 2]', 'None', "'mean'")
    """
    if isinstance(value, str) and re.fullmatch(r"-?\d+(,-?\d+)*", value):
        return f"[{value.replace(',', ', ')}]"
    if isinstance(value, float) and value != value:
        return 'float("nan")'
    return repr(value)
