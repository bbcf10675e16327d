"""Let everything go wrong around a training, again and again: it must end with the same bits as without Tensight.

    python benchmarks/faults.py --each 100
    python benchmarks/faults.py --only disk_full --each 1000

Each trial forks a process that trains a small network under a session and meets one fault at a random moment, drawn
from a seed. A trial fails when a loss or a weight has another bit than in the training alone, when the training ends
otherwise than alone, or when the run that is left cannot be read.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import mmap
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from tensight.control import launch
from tensight.control.address import find_beside
from tensight.runs import open_run
from tensight.session.companions import companions
from tensight.session.program import Program
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.store import appender, is_run

STEPS = 12
MOST_FLUSH = 1.0  # seconds of the processor between a signal and the end
PATIENCE = 600.0  # seconds for one trial, on however busy a machine
Fault = Callable[[random.Random, int], None]  # told before each step; when it strikes is its own choice


class Trained(threading.Thread):
    """A small training, in this thread (`run()`) or in its own (`start()`)."""

    def __init__(
        self, before: Callable[[int], None] = lambda step: None, workers: int = 0, method: str | None = None
    ) -> None:
        super().__init__()
        self.before, self.workers, self.method = before, workers, method
        self.losses: list[str] = []
        self.weights = ""
        self.said = io.StringIO()  # at the terminal

    def run(self) -> None:
        generator = torch.Generator().manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        with torch.no_grad():
            for one in model.parameters():
                one.copy_(torch.randn(one.shape, generator=generator) * 0.3)
        x = torch.randn(STEPS * 16, 6, generator=generator)
        data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        loader = torch.utils.data.DataLoader(
            data, 16, num_workers=self.workers, multiprocessing_context=self.method if self.workers else None
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step, (inputs, targets) in enumerate(loader):
            self.before(step)
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.losses.append(loss.item().hex())
        content = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
        self.weights = hashlib.blake2b(content, digest_size=8).hexdigest()


def session_in(folder: Path, said: io.StringIO | None = None, **settings: Any) -> Session:
    made = Session(Settings(run_dir=folder, budget=100, **settings), Terminal(said or io.StringIO()), companions)
    made.start()
    return made


def watched(
    folder: Path, before: Callable[[int], None], after: Callable[[], None] = lambda: None, **more: Any
) -> Trained:
    """The training under a session; `after` puts right what the fault has broken, before anything is read."""
    settings = {name: more.pop(name) for name in ("page", "rewind") if name in more}
    trained = Trained(before, **more)
    session = session_in(folder, trained.said, **settings)
    trained.run()
    session.finish("finished", script_exit=0)
    after()
    return trained


class at_once:
    """Strikes once, before a random step."""

    def __init__(self, chance: random.Random, act: Callable[[], None]) -> None:
        self.when, self._act = chance.randrange(STEPS), act

    def __call__(self, step: int) -> None:
        if step == self.when:
            self._act()


def readable(folder: Path, *, all_steps: bool = True) -> str:
    run = open_run(folder)
    run.rank(0).verify()
    run.report()
    numbers = list(run.steps.numbers)
    if numbers != sorted(numbers):
        return f"its steps have no order: {numbers}"
    if all_steps and numbers != list(range(STEPS)):
        return f"steps are missing: {numbers}"
    return ""


def server_dies(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    def kill() -> None:
        address = find_beside(folder)
        assert address is not None
        os.kill(launch.process_of(address).pid, signal.SIGKILL)

    trained = watched(folder, at_once(chance, kill), page=True)
    return trained, readable(folder)


def disk_full(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    size = chance.choice((0, 100, chance.randrange(20_000)))

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    strike = at_once(chance, fill)
    trained = watched(folder, strike, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))
    if not is_run(folder):  # before the first step there may have been no room for anything
        return trained, "" if strike.when == 0 else f"no run is left of {strike.when} steps"
    problem = readable(folder, all_steps=False)
    missing = sorted(set(range(STEPS)) - set(open_run(folder).steps.numbers))
    if not problem and missing and not open_run(folder).lost and "could not be recorded" not in trained.said.getvalue():
        problem = f"steps {missing} are missing and nobody says so: {trained.said.getvalue()!r}"
    return trained, problem


def slow_disk(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    write = os.write
    seconds = chance.random() * 0.05

    def slowly(handle: int, data: Any) -> int:
        time.sleep(seconds)
        return write(handle, data)

    def slow() -> None:
        appender.os = _Os(slowly)  # type: ignore[attr-defined]

    trained = watched(folder, at_once(chance, slow))
    return trained, readable(folder)


class _Os:
    """The module `os` with another `write`."""

    def __init__(self, write: Callable[[int, Any], int]) -> None:
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def clock_jumps(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    real = time.time
    shift = chance.choice((-1e9, -3600.0, -1.0, 3600.0, 1e9))

    def jump() -> None:
        time.time = lambda: real() + shift

    trained = watched(folder, at_once(chance, jump))
    return trained, readable(folder)


def forked_workers(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    return _with_workers(folder, chance.choice((0, 1, 2, 8)), "fork")


def spawned_workers(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    return _with_workers(folder, chance.choice((1, 2)), "spawn")


def _with_workers(folder: Path, workers: int, method: str) -> tuple[Trained, str]:
    trained = watched(folder, lambda step: None, workers=workers, method=method)
    return trained, readable(folder) or ("" if len(open_run(folder).readers) == 1 else "a worker has recorded")


def threads(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    """Another thread trains too, and a third one keeps the interpreter busy."""
    other = Trained()
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])

    def begin() -> None:
        busy.start()
        other.start()

    def end() -> None:
        stop.set()
        other.join()
        busy.join()

    when = chance.randrange(STEPS)
    session = session_in(folder)
    trained = Trained(lambda step: begin() if step == when else None)
    trained.run()
    end()
    session.finish("finished", script_exit=0)
    if other.losses != trained.losses:
        return trained, "the training in the other thread has other losses"
    return trained, readable(folder, all_steps=False)


def memory_short(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    room = chance.choice((4, 16, 64)) << 20

    def shorten() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + room, hard))

    trained = watched(folder, at_once(chance, shorten), lambda: resource.setrlimit(resource.RLIMIT_AS, (hard, hard)))
    return trained, readable(folder, all_steps=False)


def probe_errors(chance: random.Random, folder: Path) -> tuple[Trained, str]:
    """From a random step on, one thing that probes, conditions, rules or the writer call raises."""
    session = session_in(folder)
    targets: list[tuple[Any, str]] = [
        *(
            (session.recorder, name)
            for name in ("observe", "event", "part", "tensor", "needs", "loss", "scalar", "new_id")
        ),
        *((session.recorder.writer, name) for name in ("step", "part", "tensor", "findings", "coverage", "end")),
        *((session.recorder.engine, name) for name in ("step", "network", "tensor", "end")),
        (session.recorder.checker, "check"),
        (session.recorder.budget, "next_depth"),
    ]
    target, name = chance.choice([one for one in targets if hasattr(*one)])

    def broken(*_: Any, **__: Any) -> Any:
        raise chance.choice((RuntimeError, KeyError, MemoryError, RecursionError))("injected")

    trained = Trained(at_once(chance, lambda: setattr(target, name, broken)))
    trained.run()
    session.finish("finished", script_exit=0)
    return trained, readable(folder, all_steps=False)


IN_PROCESS: dict[str, Callable[[random.Random, Path], tuple[Trained, str]]] = {
    "server_dies": server_dies,
    "disk_full": disk_full,
    "slow_disk": slow_disk,
    "clock_jumps": clock_jumps,
    "forked_workers": forked_workers,
    "spawned_workers": spawned_workers,
    "threads": threads,
    "memory_short": memory_short,
    "probe_errors": probe_errors,
}
SCRIPT = """
import sys, pathlib
sys.path.insert(0, {here!r})
import faults
def told(step):
    faults.SHARED[:8] = (step + 1).to_bytes(8, "little")
faults.STEPS = 400
faults.Trained(told).run()
"""
SHARED = mmap.mmap(-1, 8)
SIGNALS = {"killed": signal.SIGKILL, "ctrl_c": signal.SIGINT, "terminated": signal.SIGTERM}


def signalled(number: signal.Signals, chance: random.Random, folder: Path) -> str:
    """A whole `tensight run` in a forked child gets a signal at a random moment."""
    SHARED[:8] = bytes(8)
    script = folder / "train.py"
    script.write_text(SCRIPT.format(here=str(Path(__file__).parent)))
    run = folder / "run"
    child = os.fork()
    if child == 0:
        _be_quiet()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from tensight.session.launch import launch as launched

        sys.modules["faults"] = sys.modules["__main__"]
        os._exit(launched(Program(str(script)), Settings(run_dir=run, budget=100), terminal=Terminal()).exit_code)
    target = chance.randrange(1, 60)
    deadline = time.monotonic() + PATIENCE
    while int.from_bytes(SHARED[:8], "little") < target and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(chance.random() * 0.01)
    before = _processor_time(child)
    os.kill(child, number)
    _, status, used = os.wait4(child, 0)
    took = used.ru_utime + used.ru_stime - before
    if took > MOST_FLUSH:
        return f"it took {took:.1f} s of the processor to end"
    reached = int.from_bytes(SHARED[:8], "little")
    if reached < target:
        return f"it stood still at step {reached}"
    if number is signal.SIGINT:
        if os.waitstatus_to_exitcode(status) != 130:
            return f"after Ctrl-C it ended with {os.waitstatus_to_exitcode(status)}"
    elif os.waitstatus_to_exitcode(status) != -number:
        return f"it ended with {os.waitstatus_to_exitcode(status)}"
    if not is_run(run):  # the end may have come before anything was recorded
        return "" if reached == 1 else f"no run is left of {reached - 1} steps"
    opened = open_run(run)
    opened.rank(0).verify()
    opened.report()
    ended = "stopped" if number is signal.SIGINT else "killed"
    if opened.ended != ended:
        return f"the run counts as {opened.ended}"
    numbers = list(opened.steps.numbers)
    # `reached` is told before a step; the one before it was ended by then
    return (
        "" if numbers[: reached - 1] == list(range(reached - 1)) else f"of {reached - 1} steps there are {len(numbers)}"
    )


def _processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


@dataclass
class Result:
    """Trials of one fault. `failed` must stay empty."""

    fault: str
    trials: int = 0
    failed: list[str] = field(default_factory=list)


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` answers in a forked process; a process that dies answers with how."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                answer = work()
        except BaseException:
            answer = {"problem": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        came = select.select([pipe], [], [], PATIENCE)[0]
        if not came:
            os.kill(child, signal.SIGKILL)
        text = pipe.read() if came else ""
    _, status = os.waitpid(child, 0)
    found: dict[str, Any] = (
        json.loads(text) if text else {"problem": f"it ended by {os.waitstatus_to_exitcode(status)}"}
    )
    return found


def try_fault(name: str, trials: int, seed: int, expected: dict[str, Any], base: Path) -> Result:
    result = Result(name)
    for number in range(trials):
        chance = random.Random(f"{seed}/{name}/{number}")
        folder = base / f"{name}-{number}"
        folder.mkdir()

        def work(chance: random.Random = chance, folder: Path = folder) -> dict[str, Any]:
            trained, problem = IN_PROCESS[name](chance, folder / "run")
            return {"losses": trained.losses, "weights": trained.weights, "problem": problem}

        if name in SIGNALS:
            problem = signalled(SIGNALS[name], chance, folder)
        else:
            answer = in_child(work)
            problem = answer.pop("problem")
            if not problem and answer != expected:
                problem = f"the training is another: {answer} instead of {expected}"
        result.trials += 1
        if problem:
            result.failed.append(f"trial {number}: {problem}")
        shutil.rmtree(folder, ignore_errors=True)
    return result


def main() -> int:
    """Try the faults; exit code 1 when one has harmed a training or a run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=10, help="trials of each fault")
    parser.add_argument("--only", action="append", choices=sorted((*IN_PROCESS, *SIGNALS)), help="this fault alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(1)
    base = Path(tempfile.mkdtemp(prefix="tensight-faults-"))

    def alone() -> dict[str, Any]:
        trained = Trained()
        trained.run()
        return {"losses": trained.losses, "weights": trained.weights}

    results = []
    try:
        expected = in_child(alone)
        for name in options.only or [*IN_PROCESS, *SIGNALS]:
            results.append(try_fault(name, options.each, options.seed, expected, base))
            if not options.json:
                one = results[-1]
                print(f"{one.fault:<16} {one.trials:>5} trials  {len(one.failed):>3} failed", flush=True)
                for problem in one.failed[:3]:
                    print(f"  {problem}")
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.json:
        print(json.dumps([asdict(one) for one in results]))
    return int(any(one.failed for one in results))


if __name__ == "__main__":
    sys.exit(main())
