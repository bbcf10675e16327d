"""A profile with the numbers that rules, tables and pages ask for."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cached_property

from tensight.records import Source
from tensight.records.timing import PARTS, Calls, Fact, LineTime, LoaderTime, LoopLine, Part5, Profile, StepTime


class Reading:
    """Numbers of one rank's profile; seconds are of one step unless said otherwise.

    >>> steps = tuple(StepTime(n, "clock", 0.1, data=0.06, forward=0.04) for n in range(4))
    >>> reading = Reading(Profile(steps=steps))
    >>> round(reading.share("data"), 2), round(reading.split["forward"], 2)
    (0.6, 0.04)
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @cached_property
    def clocked(self) -> list[StepTime]:
        """The steps whose time counts: clocked ones, or what there is after the first."""
        found = [time for time in self.profile.steps if time.window == "clock"]
        return found or list(self.profile.steps[1:]) or list(self.profile.steps)

    @cached_property
    def seconds(self) -> float:
        """The mean step."""
        return statistics.fmean(time.seconds for time in self.clocked) if self.clocked else 0.0

    @cached_property
    def median(self) -> float:
        return statistics.median(time.seconds for time in self.clocked) if self.clocked else 0.0

    @cached_property
    def split(self) -> dict[str, float]:
        """Mean seconds of each part of a step."""
        count = max(1, len(self.clocked))
        return {part: sum(getattr(time, part) for time in self.clocked) / count for part in PARTS}

    @cached_property
    def own(self) -> float:
        """What measuring added to a clocked step; in none of the parts."""
        own = statistics.fmean(time.own for time in self.clocked) if self.clocked else 0.0
        samples = self.number("sampling_seconds") / max(1, len(self.clocked))
        return own + samples

    @cached_property
    def traced(self) -> list[StepTime]:
        return [time for time in self.profile.steps if time.window == "trace"]

    @property
    def trace_cost(self) -> float | None:
        """How much longer a traced step took than a clocked one."""
        if not self.traced or not self.median:
            return None
        return statistics.median(time.seconds for time in self.traced) / self.median

    @cached_property
    def undisturbed(self) -> list[dict[str, float]]:
        """Parts of each clocked step without what the thread waited for a processor that something else had."""
        return [
            {part: max(0.0, getattr(time, part) - getattr(time, f"{part}_delay")) for part in PARTS}
            for time in self.clocked
        ]

    @cached_property
    def own_seconds(self) -> float:
        """The mean step, were the machine its own."""
        return statistics.fmean(sum(one.values()) for one in self.undisturbed) if self.clocked else 0.0

    def share(self, part: Part5) -> float:
        """Of the time of all clocked steps."""
        return self.split[part] / self.seconds if self.seconds else 0.0

    def own_share(self, part: Part5) -> float:
        """Of the time of all clocked steps, were the machine their own."""
        found = sum(one[part] for one in self.undisturbed)
        return found / len(self.clocked) / self.own_seconds if self.own_seconds else 0.0

    def typical(self, part: Part5) -> float:
        """Of the time of the median step, were the machine its own: a few slow steps do not count."""
        if not self.clocked:
            return 0.0
        whole = statistics.median(sum(one.values()) for one in self.undisturbed)
        return statistics.median(one[part] for one in self.undisturbed) / whole if whole else 0.0

    @cached_property
    def available(self) -> float:
        """How much of a processor the training's thread gets while it computes: less than 1 on a busy machine."""
        spent = sum(time.cpu - time.data_cpu for time in self.clocked)
        went_by = sum(time.seconds - time.data for time in self.clocked)
        return min(1.0, max(0.05, spent / went_by)) if spent > 0 and went_by > 0 else 1.0

    @cached_property
    def delayed(self) -> float:
        """How much of a step the training's thread waits for a processor that something else has."""
        whole = sum(time.seconds + time.own for time in self.clocked)
        return min(1.0, sum(time.delay for time in self.clocked) / whole) if whole > 0 else 0.0

    @cached_property
    def processors(self) -> float:
        """How many processors the process keeps busy in a step, on average; loader workers are other processes."""
        whole = sum(time.seconds + time.own for time in self.clocked)
        return sum(time.process_cpu for time in self.clocked) / whole if whole > 0 else 0.0

    def worker_use(self, loader: LoaderTime) -> float | None:
        """How much of the time the loader's workers compute; None without workers, or where that is not told."""
        whole = sum(time.seconds + time.own for time in self.clocked) * loader.workers
        return min(1.0, loader.worker_cpu / whole) if whole > 0 and loader.worker_cpu > 0 else None

    @property
    def utilisation(self) -> float | None:
        """Floating-point operations a second against those of one large matrix product; None where not measured."""
        peak = self.number("peak_flops")
        return self.flops / self.seconds / peak if peak > 0 and self.flops > 0 and self.seconds > 0 else None

    def busy(self, loader: LoaderTime) -> float:
        """How much of the wait for batches the thread computes, were the machine its own."""
        waited = sum(time.data - time.data_delay for time in self.clocked)
        if waited > 0 and any(time.delay for time in self.clocked):
            return min(1.0, sum(time.data_cpu for time in self.clocked) / waited)
        return min(1.0, loader.cpu / loader.seconds / self.available) if loader.seconds else 0.0

    def percentile(self, values: Sequence[float], percent: float) -> float:
        """
        >>> Reading(Profile()).percentile([1.0, 2.0, 3.0, 4.0], 50)
        2.0
        """
        ordered = sorted(values)
        return ordered[min(len(ordered) - 1, int((len(ordered) - 1) * percent / 100))] if ordered else 0.0

    def fact(self, name: str) -> Fact:
        return self.profile.facts.get(name)

    def number(self, name: str) -> float:
        value = self.profile.facts.get(name)
        return float(value) if isinstance(value, (int, float)) else 0.0

    @property
    def located_steps(self) -> int:
        return int(self.number("located_steps")) or 1

    def per_step(self, calls: Sequence[Calls]) -> float:
        return sum(one.calls for one in calls) / self.located_steps

    def operator_share(self, calls: Sequence[Calls]) -> float:
        """Of the time of all operators in located steps."""
        whole = self.number("located_seconds")
        return sum(one.seconds for one in calls) / whole if whole else 0.0

    def hottest(self, part: Part5 | None = None) -> LineTime | None:
        """The line that was met most often, in one part or at all."""
        found = [line for line in self.profile.lines if part is None or line.part == part]
        return max(found, key=lambda line: line.samples, default=None)

    @cached_property
    def loop(self) -> tuple[LoopLine, ...]:
        """Lines of the loop outside of all parts, the most frequent first; old profiles tell lines alone."""
        if self.profile.loop:
            return self.profile.loop
        found = [line for line in self.profile.lines if line.part == "rest"]
        rows = (LoopLine(line.source, line.samples, line.source, line.samples) for line in found)
        return tuple(sorted(rows, key=lambda row: -row.samples))

    def line_share(self, source: Source | None) -> float:
        """Of all samples, those on a line."""
        if source is None:
            return 0.0
        return sum(
            line.share
            for line in self.profile.lines
            if (line.source.file, line.source.line) == (source.file, source.line)
        )

    @cached_property
    def loader(self) -> LoaderTime | None:
        """The loader that was waited for longest."""
        return max(self.profile.loaders, key=lambda loader: (loader.seconds, loader.batches), default=None)

    @cached_property
    def batch(self) -> int:
        """Samples of a typical forward pass; 0 where that is not known."""
        sizes = [time.batch for time in self.profile.steps if time.batch]
        return int(statistics.median_low(sizes)) if sizes else 0

    @property
    def accelerator(self) -> bool:
        return self.profile.device not in ("", "cpu")

    @property
    def flops(self) -> float:
        """Floating-point operations of matrix products and convolutions in a step, as far as the profiler knows."""
        return self.number("flops") / max(1.0, self.number("traced_steps"))
