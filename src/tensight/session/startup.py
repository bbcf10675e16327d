"""Reaches the processes that a script starts itself: spawned workers, launchers' ranks.

`tensight run` puts a folder with a `sitecustomize` in front of PYTHONPATH and its settings into the environment. In a
process where the variable is not set, nothing happens.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tensight.dump import asking
from tensight.session.companions import child_companions
from tensight.session.session import Session, is_off
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal

if TYPE_CHECKING:
    from tensight.dump.settings import DumpSettings

RUN = "TENSIGHT_RUN"  # the run directory that children write their parts to
OPTIONS = "TENSIGHT_RUN_OPTIONS"
FOLDER = Path(__file__).parent / "site"


def offer(folder: Path, settings: Settings) -> None:
    """Let processes that are started from here on take part in the run."""
    os.environ[RUN] = str(folder.resolve())
    options = {"budget": settings.budget, "level": settings.level, "on_leave": settings.on_leave}
    os.environ[OPTIONS] = json.dumps(options)
    path = os.environ.get("PYTHONPATH", "")
    if str(FOLDER) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = str(FOLDER) + (os.pathsep + path if path else "")


def begin() -> None:
    """In a started process: watch it when it trains. Called by `sitecustomize`."""
    folder = os.environ.get(RUN, "")
    if not folder or is_off() or not Path(folder).is_dir() or _is_tensight(sys.orig_argv):
        return
    options = json.loads(os.environ.get(OPTIONS, "{}"))
    settings = Settings(
        command=tuple(sys.argv),
        budget=float(options.get("budget", 5.0)),
        level=options.get("level", "watch"),
        on_leave=options.get("on_leave", "continue"),
        dump=_dump(),
    )
    session = Session(settings, Terminal(quiet=True, findings=False), child_companions, folder=Path(folder))
    session.start()
    atexit.register(_end, session)


def _dump() -> DumpSettings | None:
    if not asking.asked():
        return None
    from tensight.dump import settings

    return settings.from_environment()


def _is_tensight(command: list[str]) -> bool:
    """Whether a process is Tensight itself: a page's server, or a run inside a run, which has its own folder.

    >>> _is_tensight(["python", "-m", "tensight", "run", "train.py"]), _is_tensight(["python", "train.py"])
    (True, False)
    """
    words = command[1:]
    if "-m" in words:
        return words[words.index("-m") + 1 :][:1] == ["tensight"] or any(w.startswith("tensight.") for w in words[:3])
    return any(Path(word).name == "tensight" for word in words[:1])


def _end(session: Session) -> None:
    if os.getpid() == session.pid and session.has_trained:
        session.finish("finished", script_exit=None)
