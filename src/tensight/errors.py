"""Every error Tensight raises on purpose.

TensightError                 exit 2, HTTP 400
├── UsageError                wrong option, wrong call              exit 2, HTTP 400
│   ├── SpecError             a watchpoint, selector or expression that cannot be read
│   └── NameNotFound          a run, tensor, node, watchpoint that is not there     HTTP 404
├── RunError                  a run directory that cannot be read or written        HTTP 422
│   ├── FormatError           not a run, or of a newer format
│   └── DamagedError          bytes that fail their check
├── CheckpointError           a checkpoint that cannot be read, or is refused       HTTP 422
├── MissingExtra              an optional package is not installed
├── CallbackError             a callback of the training kit failed; its own error is the cause
└── ControlError              a command that the training cannot follow now         HTTP 409

A message is one sentence: what is wrong, where, and what to do.
"""

from __future__ import annotations

import sys

import msgspec

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises when bytes are not of the form they should have: text that is no UTF-8 is an error of its own."""


class TensightError(Exception):
    """The root of all errors of Tensight."""

    exit_code = 2
    http_code = 400


class UsageError(TensightError):
    """A wrong option or a wrong call."""


class SpecError(UsageError):
    """A watchpoint, selector or expression that cannot be read."""


class NameNotFound(UsageError):
    """A run, tensor, node or watchpoint that is not there."""

    http_code = 404


class RunError(TensightError):
    """A run directory that cannot be read or written."""

    http_code = 422


class FormatError(RunError):
    """Not a run directory, or one of a newer format."""


class DamagedError(RunError):
    """Bytes that fail their check."""


class CheckpointError(TensightError):
    """A checkpoint that cannot be read, or is refused because reading it would run code.

    >>> str(CheckpointError("a.pt: the record 'x\\ny' is packed"))
    "a.pt: the record 'x\\\\ny' is packed"
    """

    http_code = 422

    def __init__(self, message: str) -> None:
        # names in it are a stranger's: they must not start a line of their own, nor steer a terminal
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class MissingExtra(TensightError):
    """An optional package is needed and not installed, or does not go with the others.

    >>> str(MissingExtra("pyarrow", "sql", "Parquet"))
    "Parquet needs pyarrow: pip install 'tensight[sql]'"
    >>> try:
    ...     raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4")
    ... except ImportError:
    ...     str(MissingExtra("pyarrow", "sql", "Parquet"))
    'Parquet needs pyarrow, which is there but cannot be used: pyarrow requires NumPy 2.0 or newer, found 1.26.4'
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        met = sys.exc_info()[1]
        said = str(met).strip().splitlines() if isinstance(met, ImportError) else []
        if said and not isinstance(met, ModuleNotFoundError):
            super().__init__(f"{purpose} needs {package}, which is there but cannot be used: {said[0]}")
        else:
            super().__init__(f"{purpose} needs {package}: pip install 'tensight[{extra}]'")


class CallbackError(TensightError):
    """A callback of the training kit failed; its own error is the cause."""


class ControlError(TensightError):
    """A command that the training cannot follow now."""

    http_code = 409
