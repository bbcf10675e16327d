"""Writes docs/reference/advice.md from the rules: `python -m tensight.profiling.document`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tensight.generated import keep
from tensight.profiling.advice import RULES

COMMAND = "python -m tensight.profiling.document"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "advice.md"
HEAD = """# Advice of `tensight profile`

<!-- Generated from the rules by `python -m tensight.profiling.document`. -->

Each rule is a file in `src/tensight/profiling/advice/`. Advice stands in the report as a finding of category
`resource`, the greatest gain first. Rules that need a device that is not there stay silent.
"""


def text() -> str:
    """The whole page."""
    pieces = [HEAD]
    for rule in RULES:
        where = "" if len(rule.frameworks) > 1 else f" ({rule.frameworks[0]})"
        pieces.append(
            f"## {rule.fault}{where}\n\n{rule.symptom}\n\n"
            f"- **measure** {rule.measure}\n- **speaks from** {rule.threshold}\n- **advice** {rule.advice}\n"
        )
    return "\n".join(pieces)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return keep(text(), PAGE, COMMAND, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
