"""The recorder: what adapters report to. It makes steps of what happens and has them judged, stored, explained."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tensight.capture.budget import Budget
from tensight.capture.clock import Clock
from tensight.capture.companion import Companion
from tensight.capture.coverage import CoverageKeeper
from tensight.capture.deep import DeepSteps
from tensight.capture.troubles import Troubles
from tensight.capture.voice import Voice
from tensight.diagnosis.engine import Engine
from tensight.frameworks.adapter import Adapter, Array
from tensight.frameworks.tap import Tap
from tensight.records import (
    Coverage,
    Depth,
    Event,
    Finding,
    Graph,
    Hit,
    Level,
    Needs,
    Network,
    Observation,
    Part,
    Phase,
    Replay,
    RunEnd,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
)
from tensight.records.event import Value
from tensight.records.run import Ended
from tensight.store import Writer
from tensight.watchpoints.checker import Checker

T = TypeVar("T")

MOST_OBSERVATIONS = 50_000  # of one step: an evaluation over a whole data set must not fill memory
MOST_EVENTS = 2_000
COVERED_AT = 3  # the step after which coverage is said
DEEPER: tuple[Level, ...] = ("watch", "module", "op")
_NOT_READ = Stats(0)
STRUCTURE_AT = 2  # the step whose operators are recorded: everything lazy has been made by then


class StopTraining(SystemExit):
    """Ends the user's script cleanly from inside: `--max-steps`, terminate, `--guard`, `--on-finding stop`."""


class Recorder:
    """Implements `tensight.frameworks.adapter.Sink`."""

    def __init__(
        self,
        writer: Writer,
        checker: Checker,
        engine: Engine,
        budget: Budget,
        voice: Voice,
        *,
        rank: int = 0,
        level: Level = "watch",
        deep: DeepSteps | None = None,
        max_steps: int | None = None,
        companions: Sequence[Companion] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.level: Level = level
        self.depth = Depth.ALL
        self.step = 0
        self.keep_tensors = False
        self.structure = False
        self.looking = self.looking_since = 0.0
        self.tap: Tap | None = None  # in steps that it wants
        self.rank = rank
        self.writer = writer
        self.checker = checker
        self.engine = engine
        self.budget = budget
        self.companions = list(companions)
        self.adapters: list[Adapter] = []
        self.tensors: dict[int, TensorInfo] = {}
        self.found = CoverageKeeper()
        self.updates = 0  # optimizer steps so far
        self.coverage: Coverage | None = None
        self.lost: dict[str, int] = {}
        self.stopping = ""
        self._voice = voice
        self._base_level: Level = level
        self._tap: Tap | None = None
        self._deep = deep or DeepSteps()
        self._max_steps = max_steps
        self._steps = Clock()
        self._now = clock
        self._next_id = 0
        self._seen: set[int] = set()
        self._gradients: set[int] = set()  # tensors that are gradients of parameters
        self._watching = False  # companions that want each node
        self._ended = False
        self._told_version = -1
        self._order = 0
        self._heard = 0.0  # the last loss while asleep
        self._sleep = 0  # steps that are left to sleep
        self._slept_from = 0
        self._rested = False  # a sleep has just ended
        self.sleeps = True  # False in a copy that runs a step again
        self.keeps = False  # True in such a copy: every step whole, with its tensors
        self.holds = False  # True while a stop has to wait for a step that is run again
        self.closed_early = False  # the step of the update that comes now has been closed before it
        self._troubles = Troubles()
        self._training = True
        self._clear(self._now())
        self._begin_step()

    # what the sink of an adapter must offer

    @property
    def needs_version(self) -> int:
        return self.checker.version

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def network(self, network: Network) -> None:
        self.found.networks[network.name] = network
        self.writer.network(network)
        self.engine.network(network)

    def part(self, part: Part) -> None:
        if part.kind == "optimizer" and ("optimizer", part.name) not in self.found.parts:
            self._steps.optimizer(part.name)
        self.found.parts[part.kind, part.name] = part
        self.writer.part(part)
        self.engine.part(part)

    def tensor(self, info: TensorInfo) -> None:
        self.tensors[info.id] = info
        if info.kind == "gradient":
            self._gradients.add(info.id)
        self.writer.tensor(info)
        self.engine.tensor(info)

    def needs(self, info: TensorInfo) -> Needs:
        return self.checker.needs(info)

    def observe(
        self, tensor: int, stats: Stats, phase: Phase = "forward", shape: tuple[int, ...] | None = None
    ) -> None:
        order = self._order
        self._order = order + 1
        if len(self._observations) < MOST_OBSERVATIONS:
            self._observations.append(Observation(tensor, order, stats, phase, self._steps.backwards, shape))
        if self._watching:
            self._node(tensor, phase)

    def unobserved(self, tensor: int, error: str, phase: Phase = "forward") -> None:
        order = self._order
        self._order = order + 1
        if len(self._observations) < MOST_OBSERVATIONS:
            self._observations.append(Observation(tensor, order, Stats(0), phase, self._steps.backwards, None, error))

    def keep(self, tensor: int, value: Array) -> None:
        tap = self.tap
        if tap is not None and self._tapped(tensor):
            self._guard("dump", lambda: tap.take(self.tensors[tensor], self._observations[-1].stats, value))
        if tap is None or self.keeps or self.step in self._deep:
            self._kept[tensor] = value

    def hand_over(self, tensor: int, value: Callable[[], Array]) -> None:
        tap = self.tap
        info = self.tensors[tensor]
        if tap is not None and self._guard("dump", lambda: tap.wants(info, _NOT_READ)):
            array = value()
            self._guard("dump", lambda: tap.take(info, _NOT_READ, array))

    def wants(self, tensor: int) -> bool:
        return self.tap is None or self.keeps or self.step in self._deep or self._tapped(tensor)

    def _tapped(self, tensor: int) -> bool:
        """Whether a dump wants the values of the tensor that was observed last."""
        tap, last = self.tap, self._observations[-1]
        if tap is None or last.tensor != tensor:
            return False
        return bool(self._guard("dump", lambda: tap.wants(self.tensors[tensor], last.stats)))

    def tap_with(self, tap: Tap) -> None:
        """From now on somebody takes tensors away, in the steps and of the kinds it wants."""
        self._tap = tap
        self._begin_step()

    def event(
        self, kind: str, part: str = "", values: Mapping[str, Value] | None = None, source: Source | None = None
    ) -> None:
        if self.depth < Depth.LIGHT:
            return
        if len(self._events) < MOST_EVENTS:
            self._events.append(Event(kind, self._order, part, dict(values or {}), source))
        self._order += 1
        if kind == "batch":
            self._began()

    def scalar(self, name: str, value: float) -> None:
        self._scalars[name] = value

    def loss(self, value: float) -> None:
        if self.depth < Depth.LIGHT:
            self._heard = value
            return
        self._losses.append(value)

    def forward(self, network: str, training: bool) -> None:
        if self.depth < Depth.LIGHT:
            return
        if self._steps.undecided:
            self._calls.append((self._gathered, self._training))
        self._end_steps(self._steps.forward())
        self._began()
        self._training = training

    def forwarded(self, network: str) -> None:
        self._steps.forwarded()

    def backward(self) -> None:
        self._steps.backward()

    def updated(self, optimizer: str) -> None:
        if self.closed_early:
            self.closed_early = False
            return
        if self.depth < Depth.LIGHT:
            self._slept(len(self._steps.updated(optimizer)))
            return
        self._marks.append(self._gathered)
        self._end_steps(self._steps.updated(optimizer))

    def weights_changed(self) -> None:
        self._end_steps(self._steps.weights_changed())

    def graph(self, graph: Graph) -> None:
        self.writer.graph(graph)

    def before_update(self, optimizer: str) -> None:
        """An optimizer is about to step; gradients of this step were observed."""
        self._each(lambda companion: companion.before_update(optimizer, self._observations, self.tensors))

    def gap(self, what: str, reason: str, remedy: str = "") -> None:
        self.found.gap(what, reason, remedy)

    def failed(self, where: str, error: BaseException) -> None:
        again = where in self.lost
        self.lost[where] = self.lost.get(where, 0) + 1
        if not again or self.lost[where] in (10, 100, 1000):
            try:
                self._voice.failed(where, error, again=again)
            except Exception:  # a closed terminal is no reason to lose a training
                self.lost["terminal"] = self.lost.get("terminal", 0) + 1

    # what happens between steps

    def replayed(self, replay: Replay) -> list[Finding]:
        """A bad step was run again: what it showed is stored and may change what we conclude."""
        self.writer.replay(replay)
        new = self._guard("diagnosis", lambda: self.engine.replay(replay)) or []
        self._guard("diagnosis", lambda: self._conclude(new, last=True))
        return new

    def keep_steps(self) -> None:
        """In a copy that runs a step again: from now on every step is looked at whole, and its tensors are kept."""
        self.keeps = True
        self._begin_step()

    @property
    def operators_ahead(self) -> bool:
        """Whether operators of any step are asked for, as far as is known: compiled code must be made for that."""
        tap = self._tap
        return self._base_level == "op" or bool(self._deep.ranges) or (tap is not None and tap.level == "op")

    def is_deep(self, step: int) -> bool:
        """Whether a step is captured at full depth."""
        return step in self._deep

    def deepen(self, step: int) -> None:
        """Capture one more step at full depth, with its tensors kept."""
        self._deep = self._deep.and_step(step)

    def stop(self, reason: str) -> None:
        """End the user's script at the next boundary."""
        self.stopping = reason

    def finish(self, ended: Ended, *, script_exit: int | None, crashed: bool) -> RunEnd:
        """The training is over. Called once; later calls change nothing."""
        if not self._ended:
            self._wake()
            if self._steps.undecided:
                self._only_called(crashed=crashed)
            elif self._steps.pending() and self._marks:
                self._end_steps(self._steps.over(), stop=False)
            elif self._steps.pending():
                self._end_steps([0], stop=False)
            if self._observations or self._events:
                # what came after the last step, an evaluation say: evidence, but no step of its own
                self._guard("diagnosis", lambda: self.engine.rest(self._rest()))
            self._each(lambda companion: companion.ending())
            self._say_coverage()
            self._guard("diagnosis", lambda: self._conclude(self.engine.end(crashed=crashed), last=True))
        self._ended = True
        end = RunEnd(
            ended=ended,
            time=time.time(),
            script_exit=script_exit,
            steps=self.step,
            watch_cost=self.budget.ratio,
            watch_seconds=round(self.budget.spent, 3),
            lost=tuple(f"{where}: {count} times" for where, count in self.lost.items()) + tuple(self.writer.lost),
            budget_note=self.budget.describe(),
        )
        self._guard("writer", lambda: self.writer.end(end))
        self._each(lambda companion: companion.ended(end))
        return end

    # inside

    def _only_called(self, *, crashed: bool) -> None:
        """The end of a program that has an optimizer and has trained nothing: each call was a step.

        One that failed in its only call is a training that did not come to its first backward.
        """
        if crashed and not self._calls:
            return
        done = (0, 0, 0)
        for gathered, training in [*self._calls, (self._gathered, self._training)]:
            self._training = training
            self._end_step(*(upto - before for upto, before in zip(gathered, done, strict=True)), more=True)
            done = gathered

    @property
    def _gathered(self) -> tuple[int, int, int]:
        """How many observations, events and losses of this step there are so far."""
        return len(self._observations), len(self._events), len(self._losses)

    def _clear(self, now: float) -> None:
        self._started = now
        self.looking = 0.0
        if self.looking_since:
            self.looking_since = time.perf_counter()
        self._order = 0
        self._observations: list[Observation] = []
        self._events: list[Event] = []
        self._losses: list[float] = []
        self._scalars: dict[str, float] = {}
        self._kept: dict[int, Array] = {}
        self._marks: list[tuple[int, int, int]] = []  # where updates were, in what was seen of this step
        self._calls: list[tuple[tuple[int, int, int], bool]] = []  # the same of calls that may turn out to be steps
        self._training = True
        self._has_begun = False

    def _looked(self) -> float:
        """Seconds of this step that went into probes, the one that runs now included; 0 where nobody counts them."""
        return self.looking + (time.perf_counter() - self.looking_since if self.looking_since else 0.0)

    def _began(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._scalars["before_forward"] = self._now() - self._started
            self._each(lambda companion: companion.step_began(self.step))

    def _node(self, tensor: int, phase: Phase) -> None:
        info = self.tensors[tensor]
        if info.kind in ("output", "activation", "output_gradient"):
            self._each(lambda companion: companion.node(info.name, phase))

    def _slept(self, steps: int) -> None:
        """Steps went by asleep. A loss that is not finite, or the end of the sleep, wakes."""
        if not steps:
            return
        self.step += steps
        self._sleep -= steps
        heard = self._heard
        if heard - heard != 0:
            self.step -= 1
            self._wake()
            self._losses.append(heard)
            self._end_step(0, 0, 1)
        elif self._sleep <= 0:
            self._wake()
            self._rested = True  # the next step is heard by all who go along: a pause may be asked for
            self._begin_step()
        if self.stopping and not self.holds:
            raise StopTraining(0)

    def _wake(self) -> None:
        if self.depth < Depth.LIGHT:
            now = self._now()
            self.budget.slept(self.step - self._slept_from, now - self._started)
            self._started = now
            self.depth = Depth.LIGHT
            self._heard = 0.0

    def _end_steps(self, ends: list[int], *, stop: bool = True) -> None:
        cut = 0
        for end in ends:
            more = end != ends[-1]  # has ended already, and was looked at as deep as it was: there is nothing to choose
            if end == 0:
                self._end_step(*self._gathered)
                self._marks.clear()
            else:
                self._end_step(*self._marks[end - 1 - cut], more=more)
                del self._marks[: end - cut]
                cut = end
        if ends and self.stopping and stop and not self.holds:
            raise StopTraining(0)

    def _end_step(self, observations: int, events: int, losses: int, *, more: bool = False) -> None:
        now = self._now()
        seconds = now - self._started
        seen, self._observations = self._observations[:observations], self._observations[observations:]
        happened, self._events = self._events[:events], self._events[events:]
        values, self._losses = self._losses[:losses], self._losses[losses:]
        self._marks = [(o - observations, e - events, n - losses) for o, e, n in self._marks]
        skipped = any(event.values.get("skipped") or event.values.get("overflow") for event in happened)
        hits = self._guard("watchpoints", lambda: self._check(seen, skipped)) or []
        if self._troubles.are_new(seen, values):
            self.budget.trouble(self.step)
        norm = self._gradient_norm(seen)
        if norm is not None:
            self._scalars.setdefault("gradient_norm", norm)
        record = StepRecord(
            step=self.step,
            time=time.time(),
            seconds=seconds,
            loss=sum(values) / len(values) if values else None,
            losses=tuple(values),
            micro=max(1, len(values)),
            depth=int(self.depth),
            training=self._training,
            scalars=self._scalars,
            events=tuple(happened),
            observations=tuple(seen),
            hits=tuple(hits),
        )
        self._guard("writer", lambda: self._write(record))
        new = self._guard("diagnosis", lambda: self.engine.step(record)) or []
        self._guard("diagnosis", lambda: self._conclude(new))
        if self.step == 0:
            self._voice_call(lambda: self._voice.first_step(record, self.tensors, list(self.found.networks.values())))
        elif self.step == COVERED_AT:
            self._say_coverage()
        for hit in hits:
            if not hit.recommended and hit.error is None:
                self._voice_call(lambda hit=hit: self._voice.hit(hit))  # type: ignore[misc]
        self._voice_call(lambda: self._voice.step(record, self.budget.ratio))
        after = self._now()
        self.budget.finished(self.step, self.depth, after - self._started, _guess(seen) + after - now, self._looked())
        self._each(lambda companion: companion.step_ended(record, new))
        self.step += 1
        if self._max_steps is not None and self.step >= self._max_steps:
            self.stop(f"{self._max_steps} steps are done")
        rest = (self._observations, self._events, self._losses, self._marks)
        self._clear(self._now())
        self._observations, self._events, self._losses, self._marks = rest
        if not more:
            self._begin_step()

    def _rest(self) -> StepRecord:
        return StepRecord(
            step=self.step,
            time=time.time(),
            seconds=self._now() - self._started,
            depth=int(self.depth),
            training=self._training,
            scalars=self._scalars,
            events=tuple(self._events),
            observations=tuple(self._observations),
        )

    def _write(self, record: StepRecord) -> None:
        self.writer.step(record)
        if self._kept:
            self.writer.tensors(self.step, self._kept)

    def _begin_step(self) -> None:
        before = (self.depth, self.level, self.keep_tensors, self.structure, self.tap)
        asked = self.step in self._deep
        tap = self._tap
        self.tap = tap if tap and self._guard("dump", lambda: tap.wants_step(self.step)) else None
        if asked or self.keeps or (self.tap and not self.tap.outputs_only) or self._base_level != "watch":
            self.depth = Depth.ALL
        else:
            self.budget.may_sleep = self._may_sleep()
            self.depth = self.budget.next_depth(self.step)
            if self._rested:
                self._rested = False
                self.depth = max(self.depth, Depth.LIGHT)
            if self.depth < Depth.LIGHT:
                self._slept_from = self.step
                self._sleep = self.budget.sleep_length(self.step)
                if self._max_steps is not None:
                    self._sleep = min(self._sleep, self._max_steps - self.step - 1)
                self._sleep = min(self._sleep, self._deep.distance(self.step))
                if self._sleep < 1:
                    self.depth = Depth.LIGHT
        self.level = "op" if asked else self._base_level
        self.keep_tensors = asked or self.keeps
        if self.tap:
            self.level = max(self.level, self.tap.level, key=DEEPER.index)
            self.keep_tensors = self.keep_tensors or self.tap.keeps
        self.structure = self.step == STRUCTURE_AT and self.sleeps and not self.keeps and self.depth >= Depth.LIGHT
        self._watching = any(companion.wants_nodes for companion in self.companions)
        if self._watching:
            self.depth = Depth.ALL
        elif any(companion.wants_gradients for companion in self.companions):
            self.depth = max(self.depth, Depth.GRADIENTS)
        version = self.checker.version
        now = (self.depth, self.level, self.keep_tensors, self.structure, self.tap)
        if before != now or version != self._told_version:
            self._told_version = version
            for adapter in self.adapters:
                self._guard(f"adapter {adapter.name}", adapter.depth_changed)

    def _may_sleep(self) -> bool:
        """Whether steps can be counted by optimizers alone, and nobody needs to hear of each."""
        kinds = {kind for kind, _ in self.found.parts}
        return (
            self.sleeps
            and "optimizer" in kinds
            and "scaler" not in kinds
            and not any(companion.wants_gradients or companion.wants_steps for companion in self.companions)
        )

    def _check(self, seen: Sequence[Observation], skipped: bool) -> list[Hit]:
        self._seen.update(one.tensor for one in seen)
        before = self.updates
        self.updates += 1
        return self.checker.check(self.step, seen, self.tensors, rank=self.rank, updates=before, scaler_skipped=skipped)

    def _gradient_norm(self, seen: Sequence[Observation]) -> float | None:
        """Of all gradients as the optimizer sees them; None when they were not looked at."""
        norms = {one.tensor: one.stats.l2 for one in seen if one.tensor in self._gradients and one.stats.l2 is not None}
        return math.hypot(*norms.values()) if norms else None

    def _conclude(self, new: Iterable[Finding], *, last: bool = False) -> None:
        new = list(new)
        if new or last:
            self.writer.findings(self.engine.findings)
        for finding in new:
            self._voice_call(lambda finding=finding: self._voice.finding(finding))  # type: ignore[misc]

    def _say_coverage(self) -> None:
        coverage = self.found.coverage(self.tensors, self._seen)
        if coverage != self.coverage:
            first = self.coverage is None
            self.coverage = coverage
            self.writer.coverage(coverage)
            if first:
                self._voice_call(lambda: self._voice.covered(coverage))
            self._each(lambda companion: companion.covered(coverage))

    def _voice_call(self, call: Callable[[], None]) -> None:
        self._guard("terminal", call)

    def _each(self, call: Callable[[Companion], None]) -> None:
        for companion in self.companions:
            self._guard(type(companion).__name__, lambda companion=companion: call(companion))  # type: ignore[misc]

    def _guard(self, where: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except Exception as error:
            self.failed(where, error)
            return None


def _guess(seen: Sequence[Observation]) -> float:
    """Seconds that looking may have taken: a call for each tensor, and the pass over its values."""
    return 8e-6 * len(seen) + sum(one.stats.count for one in seen) * 4 / 5e9
