"""Workers that are processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType

from tensight.errors import TensightError
from tensight.workers.base import Job, Outcome, Workers, done


class Processes(Workers):
    """As many processes as are asked for, or as there are processors.

    They are started afresh and not forked: a fork would copy locks that threads of this process hold.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.count = jobs or processors()
        self._pool = ProcessPoolExecutor(
            self.count, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
        )

    def _start(self, job: Job) -> Future[Outcome]:
        try:
            return self._pool.submit(done, job)
        except BrokenProcessPool as error:
            raise _lost() from error

    def _wait(self, started: Future[Outcome]) -> Outcome:
        try:
            return started.result()
        except BrokenProcessPool as error:
            raise _lost() from error

    def _drop(self, started: Iterable[Future[Outcome]]) -> None:
        for one in started:
            one.cancel()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # what they are at is not wanted any more
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self.close()


def processors() -> int:
    """How many processors this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on every system
        return max(1, os.cpu_count() or 1)


def _lost() -> TensightError:
    return TensightError("a worker process was killed, most likely for want of memory: try again with fewer --jobs")


def _begin() -> None:
    """Ctrl-C is for the one who gave the work out; and without him there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True, name="tensight-parent").start()
