"""`tensight serve`."""

from __future__ import annotations

import click


@click.command()
@click.option("--host", default="127.0.0.1", help="Where the server listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default: a free port from 8765 on.")
@click.option(
    "--tls-cert", type=click.Path(exists=True), default=None, help="Certificate for another host than loopback."
)
@click.option("--tls-key", type=click.Path(exists=True), default=None, help="Key of the certificate.")
def serve(host: str, port: int | None, tls_cert: str | None, tls_key: str | None) -> None:
    """A server that waits for trainings.

    \b
    Example:  tensight serve --port 8765
              tensight run --server 127.0.0.1:8765 train.py
    """
    from tensight import server

    server.serve(host, port, tls_cert=tls_cert, tls_key=tls_key)
