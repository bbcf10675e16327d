"""Scripts that are started by plain `python` and connect by the environment.

The package puts the one line of `site/tensight.pth` at the top of site-packages. It looks at two variables and does
nothing more unless one of them is set. `tensight serve --remove-hook` takes it away, `--install-hook` brings it back.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import tensight
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
LAUNCHERS = {
    "tensight",
    "torchrun",
    "msrun",
    "accelerate",
    "deepspeed",
    "mpirun",
    "pip",
    "ipython",
    "jupyter",
    "pytest",
}
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
    >>> _is_script(["python", "-B", "-W", "error", "-c", "pass"]), _is_script(["python", "-X", "dev", "train.py"])
    (False, True)
    >>> _is_script(["python", "-B", "/usr/bin/tensight", "run", "train.py"])
    False
    """
    if startup._is_tensight(command):
        return False
    words = iter(command[1:])
    for word in words:
        if re.fullmatch(r"-[A-Za-z]*c", word):
            return False
        if re.fullmatch(r"-[A-Za-z]*m", word):
            module = next(words, "")
            return not module.startswith("torch.distributed.") and module.partition(".")[0] not in LAUNCHERS
        if not word.startswith("-"):
            return Path(word).name not in LAUNCHERS
        if word in ("-X", "-W"):
            next(words, "")
    return False


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


def _places() -> list[Path]:
    """Where the hook may lie: Python keeps what is compiled apart on some systems; or beside the package itself."""
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(tensight.__file__).parents[1])]
    return [Path(folder) / HOOK for folder in dict.fromkeys(folders)]


def installed() -> bool:
    """Whether scripts under plain `python` connect by the environment."""
    return any(place.is_file() for place in _places())


def is_of_package() -> bool:
    """Whether the hook came with the package, so that installing that again brings it back."""
    try:
        files = metadata.distribution("tensight").files or []
    except metadata.PackageNotFoundError:
        return False
    return any(str(file) == HOOK for file in files)


def install() -> Path:
    """Put the hook into this Python environment, and say where."""
    place = next((place for place in _places() if place.is_file()), _places()[0])
    try:
        shutil.copyfile(startup.FOLDER / HOOK, place)
    except OSError as error:
        raise UsageError(f"{place} cannot be written: {error.strerror}; use an environment of your own.") from None
    return place


def uninstall() -> list[Path]:
    """Take the hook away again; where it was."""
    there = [place for place in _places() if place.is_file()]
    for place in there:
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"{place} cannot be removed: {error.strerror}.") from None
    return there
