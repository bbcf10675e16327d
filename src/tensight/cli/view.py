"""`tensight view`."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import click

from tensight.cli.working import working
from tensight.errors import TensightError

_EVERY = 10.0  # seconds


@click.command()
@click.argument("target", type=click.Path(path_type=Path), default=Path("runs"), metavar="[RUN or folder]")
@click.option("--host", default="127.0.0.1", help="Where the page listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default: a free port from 8765 on.")
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    help="Certificate for another host than loopback.",
)
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), default=None, help="Key of the certificate.")
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
