"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write; it takes that name when all went well, and is gone when not.

    Whoever reads meanwhile finds the old file or the new one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "notes.txt") as new:
    ...         _ = new.write_text("done")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    new = path.with_name(f"{path.name}.new")
    try:
        yield new
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
