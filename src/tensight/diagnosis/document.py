"""Writes docs/reference/findings.md from the rules: `python -m tensight.diagnosis.document`.

With `--check` nothing is written; the command fails when the page is stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules import RULES
from tensight.generated import keep

COMMAND = "python -m tensight.diagnosis.document"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "findings.md"

CATEGORIES = {
    "numeric-nonfinite": "An operator makes NaN or Inf out of finite values.",
    "gradient-flow": "Gradients or activations vanish, explode or die on their way.",
    "initialisation": "Weights start where they cannot learn.",
    "lr-schedule": "The step size or its schedule is wrong.",
    "optimizer-update": "Gradients and updates are not what the user meant.",
    "loss-definition": "The loss does not measure what the user meant.",
    "data": "What the network is fed is wrong.",
    "graph-wiring": "Part of the network is not connected, registered or trained.",
    "mode": "Train and evaluation behaviour are mixed up.",
    "precision": "The number format loses what matters.",
    "distributed": "Ranks no longer agree.",
    "resource": "Time or memory is wasted or grows.",
}

_HEAD = f"""# Findings

<!-- Written by `{COMMAND}` from the rules: change those, not this page. -->

A finding is a cause that Tensight stands behind: what, where, since which step, why, and what to change. Findings come
from rules; a rule looks at the records of a run, so it works the same while training and on a recorded run. The most
certain root cause comes first. What it spoilt afterwards is listed under it (`then`), not beside it. A healthy run has
none.

Each rule below says what it finds and what it looks at. *Consequences* are findings that it takes up when they come
later. Rules marked *by behaviour* give way to any definite cause that came before. To write a rule of your own, see
[](../howto/own-rule.md).
"""


def _section(rule: type[Rule]) -> list[str]:
    lines = [f"### {rule.fault}", "", rule.finds, "", "Looks at:", "", *(f"- {what}" for what in rule.evidence), ""]
    if rule.symptom:
        lines += ["By behaviour: gives way to any definite cause that came before.", ""]
    if rule.explains:
        lines += [f"Consequences: {', '.join(f'`{fault}`' for fault in sorted(rule.explains))}.", ""]
    for fault, means in sorted(rule.also.items()):
        lines += [f"### {fault}", "", means, "", f"Said by the rule of [](#{rule.fault}), which looks at the same.", ""]
    return lines


def page() -> str:
    """The whole page.

    >>> page().startswith("# Findings")
    True
    """
    lines = [_HEAD]
    for category, means in CATEGORIES.items():
        rules = [rule for rule in RULES if rule.category == category]
        if not rules:
            continue
        lines += [f"## {category}", "", means, ""]
        for rule in sorted(rules, key=lambda rule: rule.fault):
            lines += _section(rule)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return keep(page(), PAGE, COMMAND, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
