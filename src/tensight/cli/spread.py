"""`--on` and `--jobs`: who does the work of a command, and a bar while they do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tensight.cli.working import working
from tensight.workers import Workers, workers_on


def shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options `--on` and `--jobs`."""
    command = click.option(
        "--jobs", type=click.IntRange(1), default=None, metavar="N", help="How many processes work at once."
    )(command)
    return click.option(
        "--on", "place", default=None, metavar="PLACE", help="Where to work: local, ray or ray://host:port."
    )(command)


@contextmanager
def workers(place: str | None, jobs: int | None) -> Iterator[Workers]:
    """Those whom the options name; they go home at the end."""
    with working(f"waiting for the workers on {place}" if place else "beginning"):
        found = workers_on(place, jobs)
    with found:
        yield found


@contextmanager
def bar(title: str, found: Workers) -> Iterator[None]:
    """A bar on standard error, of the tasks that are done; none where that is no terminal."""
    if found.count == 1:
        with working(title):
            yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as shown:
        task = shown.add_task(f"{title} ({found.count} at once)", total=None)
        found.report = lambda done, total: shown.update(task, completed=done, total=total)
        try:
            yield
        finally:
            found.report = None
