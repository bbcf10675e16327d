"""`tensight serve`."""

from __future__ import annotations

from pathlib import Path

import click

from tensight.cli.listening import listening


@click.command()
@listening("server")
@click.option(
    "--install-hook",
    is_flag=True,
    help="Let scripts started by plain `python` in this environment connect by TENSIGHT_SERVER, or by MindSpore's "
    "ENABLE_MS_DEBUGGER, where the hook that came with the package is missing; then end.",
)
@click.option(
    "--runs",
    type=click.Path(file_okay=False),
    default="runs",
    show_default=True,
    help="Where records are kept that trainings send whose disks are not seen from here.",
)
@click.option("--remove-hook", is_flag=True, help="Take that away again; then end.")
def serve(
    host: str,
    port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    install_hook: bool,
    remove_hook: bool,
    runs: str,
) -> None:
    """A server that waits for trainings.

    \b
    Example:  tensight serve --port 8765
              tensight run --server 127.0.0.1:8765 train.py
    """
    from tensight.session import plain

    if install_hook:
        click.echo(f"installed: {plain.install()}")
        click.echo("a script connects by: TENSIGHT_SERVER=127.0.0.1:8765 python train.py")
        return
    if remove_hook:
        gone = plain.uninstall()
        click.echo("\n".join(f"removed: {place}" for place in gone) or "no hook is installed here")
        if gone and plain.is_of_package():
            click.echo("it came with the package: installing that again, or --install-hook, brings it back")
        return
    from tensight import server

    if not plain.installed():
        click.echo("tensight: for plain `python` with TENSIGHT_SERVER: tensight serve --install-hook", err=True)
    server.serve(host, port, tls_cert=tls_cert, tls_key=tls_key, keep=Path(runs))
