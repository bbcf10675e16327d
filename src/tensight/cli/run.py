"""`tensight run`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensight.capture.budget import CREDIT
from tensight.capture.deep import DeepSteps
from tensight.cli.listening import listening
from tensight.cli.misplaced import tell_misplaced
from tensight.control.address import find
from tensight.dump.asking import ENVIRONMENT, asked
from tensight.errors import TensightError, UsageError
from tensight.records import Watchpoint
from tensight.session.launch import Ending, launch
from tensight.session.program import Program
from tensight.session.session import is_off
from tensight.session.settings import Settings, rank, ranks, size

if TYPE_CHECKING:
    from tensight.dump.settings import DumpSettings

REACTIONS = click.Choice(["pause", "stop", "continue"])


@click.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@click.option(
    "--on-finding", type=REACTIONS, default=None, help="What a finding does. Default: pause while a page is connected."
)
@click.option(
    "--on-hit", type=REACTIONS, default=None, help="What a hit of your own watchpoints does. Default as above."
)
@click.option(
    "--on-leave",
    type=REACTIONS,
    default="continue",
    help="What a paused training does when no page has been open for 10 minutes. Default: continue.",
)
@click.option(
    "--watch",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="E.g. 'TL(max_gt=100) on gradient:encoder.*'. May be repeated.",
)
@click.option("--watch-file", type=click.Path(path_type=Path), help="A TOML file of watchpoints.")
@click.option("--no-recommended", is_flag=True, help="Leave out the recommended watchpoints.")
@click.option(
    "--level", type=click.Choice(["watch", "module", "op"]), default="watch", help="How deep every step is captured."
)
@click.option("--steps", "deep", metavar="A-B,C", help="Steps to capture at full depth with tensors kept.")
@click.option("--dump", type=click.Path(path_type=Path), metavar="CONFIG.json", help="Dump tensors as MindSpore does.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="A folder or an address. Default: runs/<script>-<n>.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the report at the end, also after a crash.")
@click.option("--page/--no-page", default=True, help="Serve the page while the script runs. Default: on.")
@listening("page")
@click.option("--rewind/--no-rewind", default=True, help="Look again at a bad step. Default: on.")
@click.option(
    "--budget",
    type=click.FloatRange(0, 100),
    default=5.0,
    metavar="PERCENT",
    help="What watching may cost. Default: 5.",
)
@click.option("--memory-limit", metavar="SIZE", help="What Tensight may hold in memory for rewind, e.g. 2G.")
@click.option("--server", metavar="HOST:PORT", default="", help="Connect to a running `tensight serve`.")
@click.option("--fail-on", type=click.Choice(["finding", "hit"]), help="Exit with 3 when there was one.")
@click.option("--baseline", type=click.Path(path_type=Path), help="A file of known findings to leave out.")
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="Stop the script cleanly after N steps.")
@click.option("--guard", is_flag=True, help="Stop before an update that would spoil the weights.")
@click.option("--notify", metavar="CMD", default="", help="A command to run on a finding, a stall or a crash.")
@click.option("--resume", metavar="RUN[@STEP]", default="", help="The run this one goes on with: one history.")
@click.option("--free-seconds", type=click.FloatRange(0), default=CREDIT, hidden=True)
@click.option("--stop-for", multiple=True, hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def run(
    module: bool,
    on_finding: str | None,
    on_hit: str | None,
    on_leave: str,
    specs: tuple[str, ...],
    watch_file: Path | None,
    no_recommended: bool,
    level: str,
    deep: str | None,
    dump: Path | None,
    run_dir: Path | None,
    report: Path | None,
    page: bool,
    host: str,
    port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    rewind: bool,
    budget: float,
    memory_limit: str | None,
    server: str,
    fail_on: str | None,
    baseline: Path | None,
    max_steps: int | None,
    guard: bool,
    notify: str,
    resume: str,
    free_seconds: float,
    stop_for: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    """Run a training or inference script under the debugger.

    \b
    Example:  tensight run train.py --lr 0.1
              tensight run --no-page --report report.json -m package.train
    """
    if not words:
        raise UsageError("name a script, e.g. `tensight run train.py`, or a module with -m")
    program = Program(words[0], words[1:], module)
    program.check()
    tell_misplaced(program)
    elsewhere = _address(run_dir)
    if elsewhere is not None:
        run_dir = Settings(name=program.name).folder()
    if report is not None:
        _check_report(report)
    if server:
        find(server)  # what is no address is wrong use, not a server that is away
    settings = Settings(
        command=(program.target, *program.arguments),
        run_dir=run_dir,
        name=program.name,
        budget=budget,
        free_seconds=free_seconds,
        level=level,  # type: ignore[arg-type]
        steps=DeepSteps.parse(deep) if deep else DeepSteps(),
        watchpoints=_watchpoints(specs, watch_file),
        recommended=not no_recommended,
        on_finding=on_finding or "auto",  # type: ignore[arg-type]
        on_hit=on_hit or "auto",  # type: ignore[arg-type]
        on_leave=on_leave,  # type: ignore[arg-type]
        stop_for=frozenset(stop_for),
        rewind=rewind,
        guard=guard,
        max_steps=max_steps,
        memory_limit=size(memory_limit) if memory_limit else None,
        notify=_command(notify),
        resume=resume,
        page=page,
        host=host,
        port=port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        server=server,
        muted=_muted(baseline),
        dump=_dump(dump),
    )
    with _living_at(elsewhere, run_dir):
        ending = launch(program, settings, report=report)
    _leave(_exit_code(ending, fail_on))


def _address(run_dir: Path | None) -> str | None:
    """Where else a run is to live, when what was given is no folder."""
    if run_dir is None or ":" not in str(run_dir):
        return None
    from tensight.store.remote import address

    return address(run_dir)


def _check_report(report: Path) -> None:
    """At the end it would be too late to say so."""
    if report.is_dir():
        raise UsageError(f"--report {report}: is a folder; name a file")
    if not report.resolve().parent.is_dir():
        raise UsageError(f"--report {report}: the folder {report.resolve().parent} does not exist; make it first")


@contextmanager
def _living_at(address: str | None, folder: Path | None) -> Iterator[None]:
    """Have a run copied as it is written, to where it shall live."""
    if address is None or folder is None or is_off():
        yield
        return
    from tensight.store.mirror import Mirroring

    own = (f"rank-{rank()}",) if ranks() > 1 else ()
    try:
        with Mirroring(folder, address, own) as mirror:
            yield
    except TensightError:
        with suppress(OSError):
            folder.rmdir()  # what was refused at the start has written nothing
        raise
    said = f"copied to {address}" if not mirror.trouble else f"{mirror.trouble}; the run is in {folder}"
    click.echo(f"tensight: {said}", err=True)


def _command(text: str) -> str:
    """A command that can be taken apart: when it is needed it would be too late to say so."""
    try:
        if text and not shlex.split(text):
            raise ValueError("it is empty")
    except ValueError as error:
        raise UsageError(f"--notify {text!r}: is no command: {error}") from None
    return text


def _watchpoints(specs: tuple[str, ...], file: Path | None) -> tuple[Watchpoint, ...]:
    if not specs and file is None:
        return ()
    from tensight.watchpoints import spec

    points = [spec.parse(text, 0) for text in specs]
    if file is not None:
        points += spec.load(file)
    return tuple(points)


def _dump(file: Path | None) -> DumpSettings | None:
    """What to dump, by the option or the environment; the folder is made ready."""
    if file is None and not asked():
        return None
    from tensight.dump import settings as dump_settings

    found = dump_settings.load(file) if file is not None else dump_settings.from_environment()
    if found is not None and not is_off():
        # before MindSpore's own variable is changed: processes that the script starts dump too
        named = file or os.environ[next(name for name in ENVIRONMENT if os.environ.get(name))]
        os.environ[ENVIRONMENT[0]] = str(Path(named).resolve())
        from tensight.session import dumping

        dumping.prepare(found)
    return found


def _muted(baseline: Path | None) -> frozenset[str]:
    if baseline is None:
        return frozenset()
    from tensight.runs.muting import load_baseline

    return frozenset(load_baseline(baseline))


def _exit_code(ending: Ending, fail_on: str | None) -> int:
    if fail_on == "finding" and ending.findings:
        return 3
    if fail_on == "hit" and ending.hits:
        return 3
    return ending.exit_code


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:  # a signal's number, as some scripts pass it on
        os._exit(code & 0xFF)
    sys.exit(code)
