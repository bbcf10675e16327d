"""What is handed to a running session to be kept beside its run: prints, samples of data, what was done to it."""

from __future__ import annotations

import weakref
from typing import Any

from tensight.records.audit import AuditEntry
from tensight.records.print import BatchSamples, Print
from tensight.session import current
from tensight.session.session import Session
from tensight.session.settings import rank
from tensight.store import layout
from tensight.store.journal import AUDIT, PRINTS, SAMPLES, Journal

_MOST_WAITING = 1000
_NAMES: dict[type, str] = {Print: PRINTS, BatchSamples: SAMPLES, AuditEntry: AUDIT}


class Journals:
    """The journals of one session. What comes before the run directory is opened waits for it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[str, Journal] = {}
        self._waiting: list[tuple[str, Any]] = []

    def append(self, name: str, record: Any) -> None:
        if not self._session.has_trained:
            self._waiting = [*self._waiting[-_MOST_WAITING + 1 :], (name, record)]
            return
        self._flush(self._session.recorder.rank)
        self._put(name, record, self._session.recorder.rank)

    def close(self) -> None:
        self._flush(rank())
        for journal in self._open.values():
            journal.close()
        self._open.clear()

    def _flush(self, number: int) -> None:
        waiting, self._waiting = self._waiting, []
        for name, record in waiting:
            self._put(name, record, number)

    def _put(self, name: str, record: Any, number: int) -> None:
        if name not in self._open:
            self._open[name] = Journal(layout.part(self._session.folder, number) / name)
        self._open[name].append(record)


_journals: weakref.WeakKeyDictionary[Session, Journals] = weakref.WeakKeyDictionary()


def step() -> int | None:
    """The step that is running, when a session counts them."""
    session = current.current()
    return session.recorder.step if session is not None and session.has_trained else None


def keep(record: Print | BatchSamples | AuditEntry) -> None:
    """Write a record to the run of the session, if there is one. An error is reported there and goes no further."""
    session = current.current()
    if session is None:
        return
    try:
        if session not in _journals:
            _journals[session] = Journals(session)
            current.on_leave(_left)
        _journals[session].append(_NAMES[type(record)], record)
    except Exception as error:
        session.voice.failed(_NAMES[type(record)], error, again=False)


def _left(session: Session) -> None:
    journals = _journals.pop(session, None)
    if journals is not None:
        journals.close()
