"""The reference of commands, made from the commands themselves.

python -m tensight.cli.document            write docs/reference/commands.md
python -m tensight.cli.document --check    fail when it is not what would be written
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tensight.cli import COMMANDS, Commands
from tensight.generated import keep

COMMAND = "python -m tensight.cli.document"
PAGE = Path("docs/reference/commands.md")
_HEAD = """# Commands

Made from the commands themselves; `tensight COMMAND --help` says the same.
"""


def page() -> str:
    """The whole page."""
    group = Commands(name="tensight")
    context = click.Context(group, info_name="tensight")
    parts = [_HEAD]
    for name in COMMANDS:
        command = group.get_command(context, name)
        if command is not None:
            parts += _of(command, f"tensight {name}", click.Context(command, context, name), 2)
    return "\n".join(parts).rstrip() + "\n"


def _of(command: click.Command, title: str, context: click.Context, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} `{title}`\n"
    text, _, example = (command.help or "").partition("\b")
    yield " ".join(text.split()) + "\n"
    if example.strip():
        lines = [line.replace("Example:", "").strip() for line in example.strip().splitlines() if line.strip()]
        yield "```text\n" + "\n".join(lines) + "\n```\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"`{title} {usage}`\n"
    records = [one.get_help_record(context) for one in command.get_params(context) if one.name != "help"]
    rows = [record for record in records if record is not None and record[1]]
    if rows:
        yield "| option | meaning |\n| --- | --- |"
        for names, meaning in rows:
            yield f"| `{_cell(names)}` | {_cell(meaning).replace('<', '&lt;')} |"
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _of(inner, f"{title} {name}", click.Context(inner, context, name), depth + 1)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return keep(page(), PAGE, COMMAND, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
