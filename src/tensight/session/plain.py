"""Scripts that are started by plain `python` and connect by the environment, for those who have asked for it.

`tensight serve --install-hook` puts the one line of `site/tensight.pth` into this Python. It looks at two variables and
does nothing more unless one of them is set.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from tensight.control.address import from_environment
from tensight.errors import UsageError
from tensight.frameworks import registry
from tensight.session import startup
from tensight.session.companions import companions
from tensight.session.crashing import crash_of
from tensight.session.importing import Importing
from tensight.session.session import Session, is_off
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal

HOOK = "tensight.pth"
LAUNCHERS = {"torchrun", "msrun", "accelerate", "deepspeed", "mpirun", "pip", "ipython", "jupyter", "pytest"}
PARTIAL = 256 << 20  # bytes that may be held when MS_DEBUGGER_PARTIAL_MEM asks for little

_begun = False


def begin() -> None:
    """At the start of Python: connect when, and only when, this process imports a framework.

    Python reads the files of a virtual environment's site-packages twice, so this is called twice there.
    """
    global _begun
    if _begun:
        return
    _begun = True
    if from_environment() is None or is_off() or os.environ.get(startup.RUN) or not _is_script(sys.orig_argv):
        return
    found: list[Session] = []

    def imported(name: str) -> None:
        if not found:
            found.append(_session())

    Importing(list(registry.ADAPTERS), imported).__enter__()


def _is_script(command: list[str]) -> bool:
    """Whether this is a program of the user's own, not Tensight, a launcher or a tool.

    >>> _is_script(["python", "train.py"]), _is_script(["python", "-m", "tensight", "serve"])
    (True, False)
    >>> _is_script(["python", "/usr/bin/torchrun", "train.py"]), _is_script(["python", "-m", "torch.distributed.run"])
    (False, False)
    """
    words = command[1:]
    if startup._is_tensight(command):
        return False
    if "-m" in words[:4]:
        module = (words[words.index("-m") + 1 :] or [""])[0]
        return not module.startswith("torch.distributed.") and module.partition(".")[0] not in LAUNCHERS
    script = next((word for word in words if not word.startswith("-")), "")
    return bool(script) and Path(script).name not in LAUNCHERS and "-c" not in words[:1]


def _session() -> Session:
    partial = os.environ.get("MS_DEBUGGER_PARTIAL_MEM", "").lower() in ("1", "true")
    settings = Settings(
        command=tuple(sys.argv),
        name=Path(sys.argv[0]).stem or "run",
        memory_limit=PARTIAL if partial else None,
    )
    session = Session(settings, Terminal(), companions)
    session.start()
    startup.offer(session.folder, settings)
    crash: list[BaseException] = []
    show = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: object) -> None:
        crash.append(error)
        show(kind, error, trace)  # type: ignore[arg-type]

    sys.excepthook = excepthook
    atexit.register(_end, session, crash)
    return session


def _end(session: Session, crash: list[BaseException]) -> None:
    if os.getpid() != session.pid:
        return
    if crash and isinstance(crash[0], KeyboardInterrupt):
        session.finish("stopped", script_exit=130)
    elif crash:
        session.finish("failed", script_exit=1, crash=crash_of(crash[0]))
    else:
        session.finish("stopped" if session.recorder.stopping else "finished", script_exit=None)


def _place() -> Path:
    return Path(sysconfig.get_path("purelib")) / HOOK


def installed() -> bool:
    """Whether scripts under plain `python` connect by the environment."""
    return _place().is_file()


def install() -> Path:
    """Put the hook into this Python environment, and say where."""
    place = _place()
    try:
        shutil.copyfile(startup.FOLDER / HOOK, place)
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror}; use an environment of your own.") from None
    return place


def uninstall() -> Path:
    """Take the hook away again."""
    place = _place()
    try:
        place.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{place} cannot be removed: {error.strerror}.") from None
    return place
