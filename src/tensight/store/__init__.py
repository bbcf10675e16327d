"""The run directory: one append-only part per rank, readable while it is written.

`Writer` lives in the training process and never raises after it was made. `Reader` follows a part from outside.
The format is documented in docs/reference/run-directory.md.
"""

from tensight.store.frame import FORMAT_VERSION
from tensight.store.layout import is_run, ranks
from tensight.store.reader import News, Reader
from tensight.store.steps import Steps
from tensight.store.writer import Writer

__all__ = ["FORMAT_VERSION", "News", "Reader", "Steps", "Writer", "is_run", "ranks"]
