"""`tensight serve`."""

from __future__ import annotations

import click


@click.command()
@click.option("--host", default="127.0.0.1", help="Where the server listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default: a free port from 8765 on.")
def serve(host: str, port: int | None) -> None:
    """A server that waits for trainings.

    \b
    Example:  tensight serve --port 8765
              tensight run --server 127.0.0.1:8765 train.py
    """
    from tensight import server

    server.serve(host, port)
