"""Writes docs/reference/conditions.md from the classes: `python -m tensight.watchpoints.document`.

With `--check` nothing is written; the command fails when the page is stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensight.generated import keep
from tensight.watchpoints.catalogue import CONDITIONS
from tensight.watchpoints.condition import RANGES, Condition
from tensight.watchpoints.parser import LOOKBACKS, PLAIN, WINDOWS
from tensight.watchpoints.recommended import watchpoints
from tensight.watchpoints.selectors import KINDS
from tensight.watchpoints.spec import what
from tensight.watchpoints.statistics import STATISTICS

COMMAND = "python -m tensight.watchpoints.document"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "conditions.md"

_HEAD = """# Conditions

<!-- Written by `{command}` from the classes: change those, not this page. -->

A watchpoint is a condition on some tensors. Give it on the command line, in a file, on the page or in Python:

```
tensight run --watch 'TL(max_gt=100) on gradient:encoder.* after=10 action=pause' train.py
tensight run --watch 'max > 3 * median(max, 100) on activation:*' train.py
tensight run --watch-file watch.toml train.py
```

```python
import tensight

tensight.TensorTooLarge(max_gt=100).watchpoint(1, on="gradient:encoder.*")
```

Several parameters in one watchpoint: it hits when any of them holds, and the record says which. NaN and Inf are
counted and left out of every other judgement, and the record says so. An empty tensor has no value and never hits.
What cannot be judged is listed with an error code: `nan`, `inf`, `no_prev`, `no_value`, `out_of_memory`, `dtype`,
`shape` or `failed`.

## Limits

| limit | means |
| --- | --- |
| `after=N` | only from step N on |
| `every=k` | only every k steps |
| `at_most=m` | at most m hits |
| `in_a_row=j` | only when it holds j steps in a row |
| `action=…` | what a hit does: `pause`, `log`, `dump` or `pdb` |
| `name="…"` | what the watchpoint is called |

In a file:

```toml
watch = ["TO on gradient:*"]

[[watchpoint]]
condition = "TL"
parameters = {{ max_gt = 100 }}
on = "gradient:encoder.*"
action = "pause"

[[watchpoint]]
expression = "max > 3 * median(max, 100)"
on = "activation:*"
```

## Selectors

`kind:glob`, joined by commas. `*` stands for any characters, dots too; a scope selects all below it. Without a kind,
a glob means every kind the condition is for. `kind[type|type]:glob` takes only modules, functions or operators of
these types, and `network/glob` only those of one network.

| kind | means |
| --- | --- |
{kinds}

## All conditions

| code | condition | finds |
| --- | --- | --- |
{table}
"""

_KINDS = {
    "weight": "every trainable parameter, norm scales and embeddings too",
    "parameter": "weights, frozen parameters and buffers",
    "gradient": "gradients of parameters",
    "gradient:activation": "gradients of the outputs and inputs of modules",
    "activation": "outputs of activation modules and functions",
    "output": "outputs of all modules, activations too",
    "input": "what the step was fed",
    "operator": "outputs of operators, forward and backward",
}


def page() -> str:
    """The whole page."""
    kinds = "\n".join(f"| `{kind}` | {_KINDS.get(kind, kind.replace('_', ' '))} |" for kind in KINDS)
    table = "\n".join(
        f"| [{condition.code}](#{_anchor(condition)}) | {condition.title} | {condition.finds} |"
        for condition in CONDITIONS.values()
    )
    parts = [_HEAD.format(command=COMMAND, kinds=kinds, table=table)]
    parts += [_section(condition) for condition in CONDITIONS.values()]
    parts += [_expressions(), _recommended()]
    return "\n".join(parts)


def _anchor(condition: type[Condition]) -> str:
    return f"condition-{condition.code.lower()}"


def _section(condition: type[Condition]) -> str:
    lines = [f"({_anchor(condition)})=", f"## {condition.title} ({condition.code})", "", condition.finds, ""]
    lines += [condition.matters, "", f"Name `{condition.name}`, class `{condition.__name__}`, on `{condition.on}`.", ""]
    if condition.settings:
        lines += ["| parameter | holds when | allowed | default |", "| --- | --- | --- | --- |"]
        for setting in condition.settings:
            default = "" if setting.default is None else f"{setting.default:g}"
            lines.append(f"| `{setting.name}` | {setting.help} | {RANGES[setting.range]} | {default} |")
        lines.append("")
    if condition.one_of:
        lines += [f"At least one of {', '.join(f'`{name}`' for name in condition.one_of)} must be given.", ""]
    lines += ["Likely causes:", "", *(f"- {cause}" for cause in condition.causes), ""]
    lines += ["What to try:", "", *(f"- {advice}" for advice in condition.try_), ""]
    return "\n".join(lines)


def _expressions() -> str:
    lines = [
        "(condition-expr)=",
        "## Expressions (EXPR)",
        "",
        "A comparison of numbers and statistics with `+ - * /`, `< <= > >= == !=`, `and`, `or`, `not` and brackets.",
        "It is read by Tensight's own parser and never run as Python. Where a value is missing (no history yet, a",
        "division by zero, nothing finite) the comparison does not hold.",
        "",
        "| statistic | means |",
        "| --- | --- |",
        *(f"| `{name}` | {statistic.help} |" for name, statistic in STATISTICS.items()),
        "",
        "| function | |",
        "| --- | --- |",
    ]
    helps = [text for _, text in WINDOWS.values()] + list(LOOKBACKS.values()) + [text for _, text in PLAIN.values()]
    for text in helps:
        call, _, meaning = text.partition(": ")
        lines.append(f"| `{call}` | {meaning} |")
    return "\n".join([*lines, ""])


def _recommended() -> str:
    lines = [
        "## The recommended set",
        "",
        "On in every run unless `--no-recommended` is given. It knows what healthy trainings look like, feeds",
        "findings, and interrupts nobody.",
        "",
        "| name | watchpoint | steps in a row |",
        "| --- | --- | --- |",
    ]
    for watchpoint in watchpoints():
        shown = what(watchpoint).replace("|", "\\|")
        lines.append(f"| {watchpoint.name} | `{shown}` | {watchpoint.in_a_row} |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return keep(page(), PAGE, COMMAND, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
