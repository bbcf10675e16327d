"""Options of Tensight that stand behind the script, where they are the script's."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.session.program import Program

# Scripts have such options of their own, and may read them in another file.
COMMON = frozenset(
    ("--budget", "--dump", "--help", "--host", "--level", "--max-steps", "--port", "--resume", "--server", "--steps")
)


def tell_misplaced(program: Program) -> None:
    """Say so where the script does not know of the option either: it would be passed over in silence."""
    own = {
        name
        for option in click.get_current_context().command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--") and name not in COMMON
    }
    given = [word.partition("=")[0] for word in program.arguments]
    found = [word for word in given if word in own]
    if not found or program.module:
        return
    text = Path(program.target).read_text(encoding="utf-8", errors="replace")
    for word in found:
        name = word.removeprefix("--")
        if name not in text and name.replace("-", "_") not in text:
            click.echo(
                f"tensight: {word} stands behind {program.target} and goes to the script; options of Tensight stand"
                " before it",
                err=True,
            )
