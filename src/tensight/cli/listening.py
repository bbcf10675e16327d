"""Options of the commands that serve a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def listening(what: str) -> Callable[[Command], Command]:
    """Where a page or server listens, and by which certificate: `--host`, `--port`, `--tls-cert`, `--tls-key`."""
    file = click.Path(exists=True, dir_okay=False)
    options = (
        click.option("--host", default="127.0.0.1", help=f"Where the {what} listens."),
        click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default: a free port from 8765 on."),
        click.option("--tls-cert", type=file, default=None, help="Certificate for another host than loopback."),
        click.option("--tls-key", type=file, default=None, help="Key of the certificate."),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):  # the last that is added is the first that is shown
            command = option(command)
        return command

    return add
