"""Text in a file that the user has named: whole or not at all, and one sentence when it cannot be written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tensight.errors import RunError


def write_whole(path: str | Path, text: str, what: str) -> None:
    """Write text to a file; `what` names it in the sentence that is said when it cannot be written."""
    target = Path(path)
    if target.is_dir():
        raise RunError(f"{what} {target} cannot be written: it is a folder; name a file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".new")
        try:
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise RunError(f"{what} {target} cannot be written: {error.strerror or error}") from error
