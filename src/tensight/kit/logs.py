"""Logs of Tensight and the kit: Python's `logging`, set up by the environment variables of MindSpore.

| variable | meaning, default |
| --- | --- |
| `GLOG_v` | level 0 DEBUG, 1 INFO, 2 WARNING, 3 ERROR, 4 CRITICAL; default 2 |
| `GLOG_logtostderr` | 1: to the screen (default), 0: to files |
| `GLOG_log_dir` | folder of the files: `<dir>/rank_<n>/logs/tensight.log` |
| `GLOG_stderrthreshold` | from this level on also to the screen when files are written; default 2 |
| `MS_SUBMODULE_LOG_v` | levels of parts: `{KIT:1,STORE:0}` (see `PARTS`) |
| `logger_maxBytes`, `logger_backupCount` | size at which a file is rotated (50 MB), and how many are kept (30) |

`TENSIGHT_LOG_v`, `TENSIGHT_LOG_DIR` and `TENSIGHT_SUBMODULE_LOG_v` do the same for Tensight alone and win.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tensight.errors import UsageError
from tensight.session.settings import rank

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
PARTS = ("KIT", "INTEGRATIONS", "SESSION", "CAPTURE", "STORE", "FRAMEWORKS", "SERVER", "DIAGNOSIS", "USER")
DEFAULT_SIZE = 52_428_800
DEFAULT_COUNT = 30
_ROOT = "tensight"
_configured: list[logging.Handler] = []


def get_logger(name: str = "user") -> logging.Logger:
    """A logger below 'tensight'; the first call reads the environment. What is wrong there ends no training.

    >>> get_logger("kit.checkpoint").name
    'tensight.kit.checkpoint'
    """
    if not _configured:
        try:
            configure()
        except (UsageError, OSError) as error:
            print(f"tensight: logs go to the screen: {error}", file=sys.stderr)
            configure(level=2, to_stderr=True, submodules="")
    return logging.getLogger(f"{_ROOT}.{name}")


def configure(
    *,
    level: int | None = None,
    to_stderr: bool | None = None,
    directory: str | Path | None = None,
    submodules: str | None = None,
    max_bytes: int | None = None,
    backup_count: int | None = None,
) -> logging.Logger:
    """Set up the logs anew: what is not given is taken from the environment."""
    reset()
    root = logging.getLogger(_ROOT)
    root.propagate = False
    everything = level if level is not None else _level("TENSIGHT_LOG_v", "GLOG_v", 2)
    root.setLevel(_python(everything, "level"))
    folder = directory or os.environ.get("TENSIGHT_LOG_DIR") or _text("GLOG_log_dir")
    screen = to_stderr if to_stderr is not None else _screen(directory)
    if screen:
        _add(root, logging.StreamHandler(sys.stderr))
    else:
        if not folder:
            raise UsageError("logs: GLOG_logtostderr=0 needs GLOG_log_dir, the folder for the files")
        _add(root, _file(Path(folder), max_bytes, backup_count))
        loud = logging.StreamHandler(sys.stderr)
        loud.setLevel(_python(_level("GLOG_stderrthreshold", "", 2), "GLOG_stderrthreshold"))
        _add(root, loud)
    text = submodules if submodules is not None else _submodule_text()
    for part, wanted in parse_submodules(text).items():
        if part in PARTS:  # others are MindSpore's own and set there
            logging.getLogger(f"{_ROOT}.{part.lower()}").setLevel(_python(wanted, part))
    return root


def reset() -> None:
    """Take everything off again."""
    root = logging.getLogger(_ROOT)
    for handler in _configured:
        root.removeHandler(handler)
        handler.close()
    _configured.clear()
    for part in PARTS:
        logging.getLogger(f"{_ROOT}.{part.lower()}").setLevel(logging.NOTSET)


def parse_submodules(text: str) -> dict[str, int]:
    """Levels of parts.

    >>> parse_submodules("{KIT:1,STORE:0}")
    {'KIT': 1, 'STORE': 0}
    """
    if not text.strip():
        return {}
    inside = re.fullmatch(r"\s*\{(.*)\}\s*", text, re.DOTALL)
    if not inside:
        raise UsageError(f"MS_SUBMODULE_LOG_v: {text[:80]!r} is not of the form {{NAME:LEVEL,NAME:LEVEL}}")
    found: dict[str, int] = {}
    for item in filter(None, (piece.strip() for piece in inside[1].split(","))):
        name, colon, level = item.partition(":")
        if not colon or not re.fullmatch(r"\w+", name.strip()) or level.strip() not in ("0", "1", "2", "3", "4"):
            raise UsageError(f"MS_SUBMODULE_LOG_v: {item[:80]!r} is not NAME:LEVEL with a level from 0 to 4")
        found[name.strip().upper()] = int(level)
    return found


def _submodule_text() -> str:
    return _text("TENSIGHT_SUBMODULE_LOG_v") or _text("MS_SUBMODULE_LOG_v")


def _text(name: str) -> str:
    return os.environ.get(name, "")


def _screen(directory: str | Path | None) -> bool:
    if directory is not None or os.environ.get("TENSIGHT_LOG_DIR"):
        return False
    return _text("GLOG_logtostderr") != "0"


def _file(folder: Path, max_bytes: int | None, backup_count: int | None) -> RotatingFileHandler:
    place = folder / f"rank_{rank()}" / "logs"
    place.mkdir(parents=True, exist_ok=True)
    size = max_bytes if max_bytes is not None else _number("logger_maxBytes", DEFAULT_SIZE)
    count = backup_count if backup_count is not None else _number("logger_backupCount", DEFAULT_COUNT)
    return RotatingFileHandler(place / "tensight.log", maxBytes=size, backupCount=count, encoding="utf-8", delay=True)


def _add(root: logging.Logger, handler: logging.Handler) -> None:
    form = f"[%(levelname)s] TENSIGHT(%(process)d,{rank()}):%(asctime)s [%(filename)s:%(lineno)d] %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    root.addHandler(handler)
    _configured.append(handler)


def _level(name: str, other: str, default: int) -> int:
    for key in (name, other):
        if key and os.environ.get(key):
            return _number(key, default)
    return default


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.strip().isdigit():
        raise UsageError(f"{name}: {text[:40]!r} is no number")
    return int(text)


def _python(level: int, name: str) -> int:
    if level not in range(len(LEVELS)):
        raise UsageError(f"{name}: there is no log level {level}; levels are 0 DEBUG to 4 CRITICAL")
    return LEVELS[level]
