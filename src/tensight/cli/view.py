"""`tensight view`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("target", type=click.Path(path_type=Path), default=Path("runs"), metavar="[RUN or folder]")
@click.option("--host", default="127.0.0.1", help="Where the page listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default: a free port from 8765 on.")
@click.option(
    "--tls-cert", type=click.Path(exists=True), default=None, help="Certificate for another host than loopback."
)
@click.option("--tls-key", type=click.Path(exists=True), default=None, help="Key of the certificate.")
def view(target: Path, host: str, port: int | None, tls_cert: str | None, tls_key: str | None) -> None:
    """Serve the page for recorded runs.

    \b
    Example:  tensight view runs/train-1
              tensight view
    """
    from tensight import server

    server.view(target, host, port, open_browser=False, tls_cert=tls_cert, tls_key=tls_key)
