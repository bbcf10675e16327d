"""Slow programs and their fast twins: does the first advice name cause and line, is the twin left alone?

    python benchmarks/slow_programs.py [--record] [--try] [--held-out] [NAME]...

--held-out runs the programs that were written without a look at the rules. With --record the profiles that are judged
rightly are kept for the tests, which judge from what was recorded and not from the clock. With --try what the first
advice offers is tried, and the gain is set beside that of the mended program: the same program with the change written
into its source (`--mended CHANGE`), clocked in turns with the unchanged one. The two must agree within a fifth. On a
busy machine --processor compares processor seconds of the training's thread: right for changes that save computing, it
says nothing of those that save waiting.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tensight.profiling import Reading, advise, files
from tensight.records.timing import Profile
from tensight.session.trying import steps_to_clock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.profiling.slow import FAULTS, HELD_OUT, KEPT_BACK, PROGRAMS, RECORDED, SEVERAL, causes, lines, program

KEPT = 40  # operators, lines and waits of a recorded profile


def profile(name: str, folder: Path, *options: str, arguments: Sequence[str] = ()) -> Profile:
    """The profile of a program in a process of its own, or of the first of two ranks."""
    words = [sys.executable, "-m", "tensight", "profile", "--run-dir", str(folder), *options]
    words += [str(program(name)), *arguments]
    if name in SEVERAL:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words[1:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    found = files.profiles(folder)
    if not found:
        raise RuntimeError(f"{name}: no profile: {done.stderr[-2000:]}")
    return found[0]


def step_seconds(
    name: str, change: str = "", *, steps: int = 20, mended: bool = False, processor: bool = False
) -> float:
    """Seconds of a step as `--try` clocks it: as it is, with a change from outside, or mended; for as many samples."""
    options = ["--steps", str(steps), *(["--change", change] if change and not mended else [])]
    arguments = ["--mended", change] if mended else []
    with tempfile.TemporaryDirectory() as place:
        reading = Reading(profile(name, Path(place) / "run", "--clock-only", *options, arguments=arguments))
    kind, _, value = change.partition("=")
    seconds = statistics.fmean(one.cpu for one in reading.clocked) if processor else reading.own_seconds
    return seconds / (float(value) if kind == "batch" else 1)


def gains(name: str, change: str, turns: int, *, processor: bool) -> tuple[float, float]:
    """What a change saves when it is tried from outside, and when it stands in the program: the median of its turns."""
    steps = steps_to_clock(20, step_seconds(name))
    rows = [
        (
            step_seconds(name, steps=steps, processor=processor),
            step_seconds(name, change, steps=steps, processor=processor),
            step_seconds(name, change, steps=steps, mended=True, processor=processor),
        )
        for _ in range(turns)
    ]
    before, tried, mended = (statistics.median(times) for times in zip(*rows))
    return 1 - tried / before, 1 - mended / before


def small(taken: Profile) -> Profile:
    """What rules look at."""
    return msgspec.structs.replace(taken, spans=(), operators=taken.operators[:KEPT], lines=taken.lines[:KEPT])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--held-out", action="store_true", help="those that were written without a look at the rules")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--turns", type=int, default=5, help="of each program with --try; the median counts")
    parser.add_argument("--processor", action="store_true", help="gains in processor seconds of the training's thread")
    parser.add_argument("--try", dest="trying", action="store_true")
    asked = parser.parse_args()
    names = asked.names or list(HELD_OUT if asked.held_out else FAULTS)
    right = 0
    agree: list[bool] = []
    print(f"{'program':<22} {'first advice':<34} {'line':<12} {'fast twin':<28} {'step':>9} {'twin':>9}")
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            slow = profile(name, Path(place) / "slow")
            fast = profile(name, Path(place) / "fast", arguments=["--fast"])
        said, twin = advise(Reading(slow)), advise(Reading(fast))
        line = said[0].source.line if said and said[0].source else 0
        first = said[0].fault if said else "nothing"
        good = first in causes(name) and line in lines(name) and bool(fast.steps) and not twin
        right += good
        seconds = [1000 * Reading(one).seconds for one in (slow, fast)]
        wanted = " ".join(str(number) for number in lines(name))
        others = ", ".join(one.fault for one in twin) or "silent"
        print(
            f"{name:<22} {first:<34} {line:>4} of {wanted:<8} {others:<28} {seconds[0]:>6.1f} ms "
            f"{seconds[1]:>6.1f} ms {'' if good else '  <<<'}",
            flush=True,
        )
        if asked.trying and said:
            agree += [
                tried_beside_mended(name, change, asked.turns, processor=asked.processor) for change in said[0].tries
            ]
        if asked.record and good:
            RECORDED.mkdir(exist_ok=True)
            for kind, one in (("slow", slow), ("fast", fast)):
                text = json.dumps(msgspec.to_builtins(_portable(small(one))), separators=(",", ":"))
                (RECORDED / f"{name}-{kind}.json").write_text(text + "\n")
    print(f"{right} of {len(names)} right")
    if asked.trying:
        print(f"{sum(agree)} of {len(agree)} changes that were tried gain what the mended program gains, within 20 %")
    return 0 if right == len(names) and all(agree) else 1


def tried_beside_mended(name: str, change: str, turns: int, *, processor: bool) -> bool:
    """Try a change from outside and in the source, and say how far apart the gains are."""
    gain, mended = gains(name, change, turns, processor=processor)
    # where next to nothing is gained, a fifth of it is less than what the clock can tell
    good = abs(gain - mended) <= max(0.2 * abs(mended), 0.05)
    told = f"    tried {change}: saves {gain:.0%}; the mended program saves {mended:.0%}"
    print(told if good else f"{told}  <<<", flush=True)
    return good


def _portable(one: Profile) -> Profile:
    """Without this machine's paths."""
    text = msgspec.json.encode(one).decode()
    for folder in (PROGRAMS, KEPT_BACK):
        text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    return msgspec.json.decode(text.encode(), type=Profile)


if __name__ == "__main__":
    raise SystemExit(main())
