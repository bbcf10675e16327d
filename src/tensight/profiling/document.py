"""Writes docs/reference/advice.md from the rules: `python -m tensight.profiling.document`."""

from __future__ import annotations

import sys
from pathlib import Path

from tensight.profiling.advice import RULES

TARGET = Path(__file__).resolve().parents[3] / "docs" / "reference" / "advice.md"
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


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        if not TARGET.exists() or TARGET.read_text() != text():
            print(f"{TARGET.name} is stale: run `python -m tensight.profiling.document`", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
