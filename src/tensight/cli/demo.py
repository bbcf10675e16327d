"""`tensight demo`."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import click

from tensight.cli.printing import print_table
from tensight.errors import MissingExtra, UsageError
from tensight.session.settings import Settings

FOLDER = Path(__file__).parent / "demos"
FIRST = "nan"
UNATTENDED = 60.0  # seconds that the page is served where there is no terminal


def demos() -> dict[str, str]:
    """Name → what goes wrong in it, from the script's own first line."""
    found = {}
    for script in sorted(FOLDER.glob("*.py")):
        text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        found[script.stem] = text.splitlines()[0] if text else ""
    return found


def _copied(name: str, target: Path) -> Path:
    """A copy for the user to look at, to mend and to run again."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(FOLDER / f"{name}.py", target)
    except OSError as error:
        raise UsageError(f"the demo cannot be written to {target}: {error.strerror or error}") from None
    return target


@click.command(short_help="Run a small faulty training and see what is found.")
@click.argument("name", default=FIRST)
@click.option("--list", "listing", is_flag=True, help="List the demos.")
@click.option("--page/--no-page", default=True, help="Serve the page afterwards. Default: on.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default: a free port from 8765 on.")
def demo(name: str, listing: bool, page: bool, port: int | None) -> None:
    """A guided faulty training: runs it under the debugger, shows what was found, serves the page.

    \b
    Example:  tensight demo
              tensight demo --list
    """
    known = demos()
    if listing:
        print_table(("demo", "what goes wrong"), list(known.items()))
        return
    if name not in known:
        raise UsageError(f"there is no demo {name!r}; there are {', '.join(known)}")
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("PyTorch", "torch", "a demo")
    folder = Settings(name=f"demo-{name}").folder()
    script = _copied(name, folder.with_name(f"{folder.name}.py"))
    click.echo(f"$ tensight run {script}        # {known[name]}\n", err=True)
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", str(folder), str(script)]
    code = subprocess.run(command).returncode
    if code:
        sys.exit(code)
    if page:
        from tensight import server

        # nobody is there to press Ctrl-C when this is no terminal
        seconds = None if sys.stdout.isatty() else UNATTENDED
        if seconds is not None:
            click.echo(f"the page is served for {seconds:.0f} seconds", err=True)
        server.view(folder, "127.0.0.1", port, open_browser=False, seconds=seconds)
