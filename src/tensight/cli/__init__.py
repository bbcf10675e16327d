"""The command line: one file per command, loaded when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click

import tensight
from tensight.errors import TensightError

# command → where it is. One line adds a command.
COMMANDS = {
    "run": "tensight.cli.run:run",
    "explain": "tensight.cli.explain:explain",
    "check": "tensight.cli.check:check",
    "preflight": "tensight.cli.preflight:preflight",
    "params": "tensight.cli.params:params",
    "demo": "tensight.cli.demo:demo",
    "doctor": "tensight.cli.doctor:doctor",
    "view": "tensight.cli.view:view",
    "serve": "tensight.cli.serve:serve",
    "import": "tensight.cli.import_:import_",
    "ckpt": "tensight.cli.ckpt:ckpt",
    "compare": "tensight.cli.compare:compare",
    "export": "tensight.cli.export:export",
    "query": "tensight.cli.query:query",
    "twice": "tensight.cli.twice:twice",
    "profile": "tensight.cli.profile:profile",
    "tune": "tensight.cli.tune:tune",
    "mcp": "tensight.cli.mcp:mcp",
}


# what reads files that others may have written, and runs nothing of the user's
READING = frozenset(("check", "import", "ckpt", "compare", "view", "mcp"))


class Commands(click.Group):
    """The group of all commands; only the one that runs is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tensight.__version__, prog_name="tensight")
def group() -> None:
    """The debugger for neural-network training.

    \b
    tensight run train.py --lr 0.1     run a script under the debugger
    tensight explain runs/train-1      why it went wrong, again
    """


def _nearest(said: str) -> str:
    """With the command that was probably meant, where click does not say so itself.

    >>> _nearest("No such command 'profil'."), _nearest("No such command 'banana'.")
    ("No such command 'profil'. Did you mean 'profile'?", "No such command 'banana'.")
    """
    import difflib

    wanted = said.split("'")[1] if said.count("'") == 2 else ""
    near = difflib.get_close_matches(wanted, COMMANDS, 1)
    return f"{said} Did you mean '{near[0]}'?" if near else said


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Errors on purpose are one sentence on standard error."""
    if arguments is None and READING.intersection(sys.argv[1:2]):
        from tensight.workers.limited import limit_own_memory

        limit_own_memory()
    try:
        group.main(args=arguments, prog_name="tensight", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        name = context.command_path if context is not None else "tensight"
        said = error.format_message()
        for range, number in (("integer range", "whole number"), ("float range", "number")):
            said = said.replace(f"is not a valid {range}", f"is not a {number}")
        if said.startswith("No such command"):
            said = f"{_nearest(said)} `{name} --help` lists them"
        is_help = said.startswith("Usage:")  # what newer versions of click say to a group without a command
        print(said if is_help else f"{name}: {said}", file=sys.stderr)
        sys.exit(2)
    except click.Abort:
        sys.exit(130)
    except TensightError as error:
        print(f"tensight: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except MemoryError:
        print("tensight: this takes more memory than there is for it (half of the machine's)", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
