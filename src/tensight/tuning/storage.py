"""Where a search is kept: a journal in its folder, or a database for searches on many nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tensight.errors import UsageError

JOURNAL = "journal.log"
_PASSWORD = re.compile(r"(://[^/:@\s]*:)[^/\s]*@")


def without_password(url: str) -> str:
    """A database's address as it may be shown.

    >>> without_password("postgresql://me:secret@node1/studies"), without_password("runs/search/journal.log")
    ('postgresql://me:***@node1/studies', 'runs/search/journal.log')
    """
    return _PASSWORD.sub(r"\1***@", url)


def open_storage(optuna: Any, url: str, folder: Path) -> Any:
    """Optuna's storage; what is wrong with it is said in one sentence."""
    if not url:
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL)))
    shown = without_password(url)
    if "://" not in url:
        raise UsageError(f"storage {shown!r}: is no address of a database; write e.g. sqlite:///search.db")
    try:
        return optuna.storages.get_storage(url)
    except ImportError:
        raise UsageError(
            f"storage {shown}: the driver of this database is not installed; pip install what SQLAlchemy needs for it"
        ) from None
    except Exception as error:  # every database has errors of its own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = without_password(lines[0]) if lines else type(error).__name__
        raise UsageError(f"storage {shown}: cannot be opened: {why[:300]}") from None
