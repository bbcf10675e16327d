"""Writes docs/reference/frameworks.md: what each adapter can and cannot do.

    python -m tensight.frameworks.table            writes the page
    python -m tensight.frameworks.table --check    fails when it is stale

No framework is imported for it: what an adapter cannot do stands in a module of its own, `<name>/cannot.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tensight.frameworks import registry
from tensight.frameworks.capabilities import CAPABILITIES
from tensight.generated import keep

COMMAND = "python -m tensight.frameworks.table"
PAGE = Path("docs/reference/frameworks.md")
_TITLES = {"torch": "PyTorch", "mindspore": "MindSpore"}
_HEAD = """\
# What works on which framework

Made by `python -m tensight.frameworks.table` from the adapters themselves; the adapter suite
(`tensight.testing.adapter_suite`) tests every *yes* on the real framework.
"""


def published(framework: str) -> Mapping[str, str]:
    """What the adapter of a framework cannot do: capability → why.

    >>> "forward" in published("torch")
    False
    """
    module = importlib.import_module(f"tensight.frameworks.{framework}.cannot")
    cannot: Mapping[str, str] = module.CANNOT
    return cannot


def render() -> str:
    """The page, as it must be."""
    names = list(registry.ADAPTERS)
    titles = [_TITLES.get(name, name) for name in names]
    cannot = {name: published(name) for name in names}
    lines = [_HEAD, f"| capability | {' | '.join(titles)} |", f"| --- |{' --- |' * len(names)}"]
    for capability, meaning in CAPABILITIES.items():
        marks = ["no" if capability in cannot[name] else "yes" for name in names]
        lines.append(f"| **{capability.replace('_', ' ')}**: {meaning} | {' | '.join(marks)} |")
    lines.append("\n## Why not\n")
    for name, title in zip(names, titles):
        lines.append(f"### {title}\n")
        lines += [f"- **{capability.replace('_', ' ')}**: {why}." for capability, why in cannot[name].items()]
        lines.append("" if cannot[name] else "Nothing on the list is missing.\n")
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return keep(render(), PAGE, COMMAND, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
