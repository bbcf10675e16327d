"""`tensight mcp`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.errors import UsageError


@click.command(short_help="Serve recorded runs to an agent (MCP).")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"), metavar="[RUN or folder]")
@click.option("--control", metavar="ADDRESS", help="Address of a page, with its token: lets the agent drive trainings.")
def mcp(folder: Path, control: str | None) -> None:
    """Serve recorded runs to an agent, over the Model Context Protocol.

    Reading only, unless the address of a page is given.

    \b
    Example:  tensight mcp runs
              tensight mcp --control 'http://127.0.0.1:8765/?token=…'
    """
    from tensight.mcp.server import serve

    if folder.is_file():
        raise UsageError(f"{folder} is a file, not a run: name a run, or a folder of runs")
    if not folder.exists():
        click.echo(f"tensight mcp: there is no folder {folder} yet: runs are served as they come", err=True)
    serve(folder, control)
