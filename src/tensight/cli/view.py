"""`tensight view`."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import click

from tensight.cli.listening import listening
from tensight.cli.working import working
from tensight.errors import TensightError

_EVERY = 10.0  # seconds


@click.command()
@click.argument("target", type=click.Path(path_type=Path), default=Path("runs"), metavar="[RUN or folder]")
@listening("page")
def view(target: Path, host: str, port: int | None, tls_cert: str | None, tls_key: str | None) -> None:
    """Serve the page for recorded runs.

    \b
    Example:  tensight view runs/train-1
              tensight view
              tensight view s3://bucket/runs/train-1
    """
    from tensight import server
    from tensight.store import remote

    source = remote.address(target)
    if source is not None:
        with working(f"fetching {source}"):
            target = remote.pull(source)
        threading.Thread(target=_follow, args=(source,), daemon=True, name="tensight-fetching").start()
    server.view(target, host, port, open_browser=False, tls_cert=tls_cert, tls_key=tls_key)


def _follow(source: str) -> None:
    """Take in what is written elsewhere while the page is open; what fails now may work the next time."""
    from tensight.store import remote

    while True:
        time.sleep(_EVERY)
        try:
            remote.pull(source)
        except TensightError:
            continue
