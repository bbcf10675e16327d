"""A copy of the training process that waits, and runs on when it is told to."""

from __future__ import annotations

import contextlib
import errno
import gc
import math
import os
import random
import select
import signal
import struct
import threading
import time
import warnings
from collections.abc import Collection
from typing import NoReturn

from tensight import children
from tensight.replay import isolation

LIMIT = 120.0
"""Seconds a copy may run before the kernel ends it."""
MOST_HELD_UP = 4.0
"""How many times longer one waits for a copy that gets no core."""


class Copy:
    """The training's handle on a copy. Every call returns at once, but `wait`, which is bounded."""

    def __init__(self, pid: int, orders: int, wake: int, answers: int, step: int) -> None:
        self.pid = pid
        self.step = step  # the step it would begin with
        self.told = False
        self._orders = orders  # a file in memory, so that an order of any length is written without waiting
        self._wake = wake
        self._answers = answers
        self._received = b""
        self._over = False
        os.set_blocking(answers, False)

    def tell(self, order: bytes) -> bool:
        """Wake it. False when it is gone."""
        self.told = True
        try:
            written = 0
            while written < len(order):
                written += os.pwrite(self._orders, order[written:], written)
            os.write(self._wake, struct.pack("<I", len(order)))
        except OSError:
            return False
        return True

    def answer(self) -> bytes | None:
        """What it found: None as long as it runs, b'' when it ended without a word."""
        while not self._over and not self._whole():
            try:
                piece = os.read(self._answers, 1 << 16)
            except BlockingIOError:
                return None
            except OSError:
                piece = b""
            if not piece:
                self._over = True
            self._received += piece
        return self._received[4:] if self._whole() else b""

    def _whole(self) -> bool:
        size = struct.unpack("<I", self._received[:4])[0] if len(self._received) >= 4 else 0
        return size > 0 and len(self._received) == size + 4

    def ask(self, order: bytes, seconds: float, *, still: float = math.inf) -> bytes | None:
        """What a copy that stays answers to an order: None when it takes too long, b'' when it is gone."""
        self._received = b""
        return self.wait(seconds, still=still) if self.tell(order) else b""

    def wait(self, seconds: float, *, still: float = math.inf) -> bytes | None:
        """Its answer, waited for at most so long; given up before when it has done nothing for `still` seconds.

        Time in which it was ready and had no core does not count, up to a limit: a busy machine is no fault of it.
        """
        until, idle = time.monotonic() + seconds, without_core(self.pid)
        moved, worked = time.monotonic(), -1.0
        waiting = select.poll()  # `select` knows only the first 1024 files of a process
        waiting.register(self._answers, select.POLLIN)
        while True:
            answer = self.answer()
            now = time.monotonic()
            held_up = min(without_core(self.pid) - idle, MOST_HELD_UP * seconds) if now >= until else 0.0
            if answer is not None or now >= until + held_up:
                return answer
            if still < math.inf:
                done = work_of(self.pid)
                if done != worked:
                    moved, worked = now, done
                elif now - moved > still:
                    return None
            patience = min(max(until + held_up - now, 0.01), 1.0)
            waiting.poll(math.ceil(1000 * patience))

    def end(self) -> None:
        """End it, take its exit status, give everything back."""
        self.leave()
        self.left(wait=True)

    def leave(self) -> None:
        """End it without waiting: to give back what it holds takes the system longer than many a step takes."""
        for descriptor in (self._orders, self._wake, self._answers):
            try:
                os.close(descriptor)
            except OSError:
                continue
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # somebody else has collected it

    def left(self, *, wait: bool = False) -> float | None:
        """Take its exit status: the CPU seconds it has used in all; None while it is still leaving."""
        try:
            gone, _, used = os.wait4(self.pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            children.collected(self.pid)
            return 0.0
        if gone:
            children.collected(self.pid)
        return used.ru_utime + used.ru_stime if gone else None


class Woken:
    """The copy's own side: what it was told, and the way to answer."""

    def __init__(self, order: bytes, answers: int, orders: int = -1, wake: int = -1) -> None:
        self.order = order
        self._answers = answers
        self._orders = orders  # open in a copy that stays
        self._wake = wake

    def leave(self, answer: bytes) -> NoReturn:
        """Answer and end, without running anything of the user's on the way."""
        try:
            self.say(answer)
        finally:
            os._exit(0)

    def say(self, answer: bytes) -> None:
        left = struct.pack("<I", len(answer)) + answer
        while left:
            left = left[os.write(self._answers, left) :]

    def next(self) -> bytes:
        """In a copy that stays: the next order. While it waits for one its time does not run."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        order = _told(self._orders, self._wake)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        return order


def make_copy(step: int, order: bytes | None = None, *, stays: bool = False) -> Copy | Woken:
    """Fork. The training gets a `Copy` at once; the copy returns from here as `Woken` when it was told to run.

    With `order` the copy does not wait. One that `stays` can be asked again and again; the training waits for its
    answers, so that it is not made to stand back.
    """
    with contextlib.ExitStack() as undo:  # a process that has no descriptors left must not lose its last ones here
        orders = os.memfd_create("orders")
        undo.callback(os.close, orders)
        wake_out, wake_in = _pipe(undo)
        answers_out, answers_in = _pipe(undo)
        parent = os.getpid()
        positions = isolation.read_positions()
        numbers = random.getstate()  # Python draws a new seed in every forked process
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads: looked at before
                pid = os.fork()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            raise MemoryError("the system refused a copy of the process") from error
        undo.pop_all()
    if pid:
        os.close(wake_out)
        os.close(answers_in)
        children.hide(pid)  # whoever waits for all children would wait for ever
        return Copy(pid, orders, wake_in, answers_out, step)
    try:
        gc.disable()  # a collection would touch, and so copy, every page
        isolation.die_with_parent(parent)
        isolation.quiet_signals()
        os.close(wake_in)
        os.close(answers_out)
        isolation.own_descriptors((orders, wake_out, answers_in), positions)
        told = order if order is not None else _told(orders, wake_out)
        if not stays:
            os.close(orders)
            os.close(wake_out)
            orders = wake_out = -1
            os.nice(5)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        gc.enable()
        random.setstate(numbers)
        return Woken(told, answers_in, orders, wake_out)
    except BaseException:
        os._exit(1)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    out, into = os.pipe()
    undo.callback(os.close, out)
    undo.callback(os.close, into)
    return out, into


def _told(orders: int, wake: int) -> bytes:
    """Wait for the order; when the training is gone, so is the copy."""
    length = os.read(wake, 4)
    if len(length) < 4:
        os._exit(0)
    size = struct.unpack("<I", length)[0]
    order = b""
    while len(order) < size:
        piece = os.pread(orders, size - len(order), len(order))
        if not piece:
            os._exit(0)
        order += piece
    return order


def hindrance(idle: Collection[threading.Thread] = ()) -> str:
    """Why this process must not be copied, as far as Python and the system tell; '' when it may.

    Threads that are `idle` hold nothing and are not needed in a copy.
    """
    if not hasattr(os, "fork") or not os.path.isdir("/proc/self/fd"):
        return "a copy of the process needs Linux"
    if threading.current_thread() is not threading.main_thread():
        return "the training does not run in the main thread"
    names = [thread.name for thread in threading.enumerate() if thread not in idle and _foreign(thread)]
    if names:
        return f"the script runs threads of its own ({', '.join(names[:3])})"
    available, resident = memory()
    if available < resident // 2 + (64 << 20):
        return f"memory is short: {available >> 20} MB are free, the training holds {resident >> 20} MB"
    return ""


def _foreign(thread: threading.Thread) -> bool:
    if thread is threading.main_thread() or thread.name.lower().startswith("tensight"):
        return False
    return type(thread).__name__ != "TMonitor"  # of progress bars; holds nothing that a copy needs


def work_of(pid: int) -> float:
    """Changes as long as a process computes, or is ready to and has no core: what is stuck does neither."""
    ready, ticks = 0, 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as line:
                words = line.read().rpartition(")")[2].split()
            ready += words[0] != "S"
            ticks += int(words[11]) + int(words[12])
    except (OSError, IndexError, ValueError):
        return time.monotonic()  # it has just ended, or cannot be asked: nothing is known
    return time.monotonic() if ready else float(ticks)


def without_core(pid: int) -> float:
    """Seconds in which a process was ready to compute and had to wait for a core; 0 where nobody counts them."""
    try:
        with open(f"/proc/{pid}/schedstat") as line:
            return int(line.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def memory() -> tuple[int, int]:
    """Bytes that are free on this machine, and that this process holds."""
    available = 1 << 62
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                available = int(line.split()[1]) << 10
    with open("/proc/self/statm") as line_of_sizes:
        resident = int(line_of_sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return available, resident
