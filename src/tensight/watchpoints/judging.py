"""One step under judgement: what the gates let through is judged in full, and becomes hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tensight.records import ErrorCode, Hit, Observation, TensorInfo
from tensight.watchpoints.condition import NO_HISTORY, Verdict
from tensight.watchpoints.healthy import excuse
from tensight.watchpoints.limits import asked
from tensight.watchpoints.plan import Entry, Form, Plan, Watch
from tensight.watchpoints.surroundings import Surroundings

_QUIET_ERRORS = ("no_prev", "no_value")
"""What a watchpoint of the recommended set keeps to itself: nobody asked for that judgement."""

_WHY: dict[ErrorCode, str] = {
    "nan": "it holds NaN",
    "inf": "it holds Inf",
    "no_prev": "no earlier value was kept",
    "out_of_memory": "there was no memory to look at it",
    "no_value": "it was not kept in this step",
    "dtype": "its dtype cannot be judged",
    "shape": "its shape is another than before",
    "failed": "looking at it failed",
}


def _difference(before: Form, now: Form) -> tuple[ErrorCode, str]:
    if before[1] != now[1]:
        return "dtype", f"dtype was {before[1]} and is {now[1]}"
    return "shape", f"shape was {before[0]} and is {now[0]}"


class Owner(Protocol):
    """What a pass needs of its checker."""

    bad_stored: set[int]

    def failed(self, watch: Watch, error: BaseException) -> None: ...


class Pass:
    """One call of `check`: judges what gates let through, and collects hits."""

    def __init__(
        self,
        checker: Owner,
        step: int,
        observations: Sequence[Observation],
        tensors: Mapping[int, TensorInfo],
        rank: int,
        updates: int,
        scaler_skipped: bool,
    ) -> None:
        self.checker = checker
        self.step = step
        self.rank = rank
        self.around = Surroundings(
            step,
            observations,
            tensors,
            updates=updates,
            scaler_skipped=scaler_skipped,
        )
        self.hits: list[Hit] = []
        self.errors: dict[Entry, Hit] = {}
        self.moved: dict[Plan, Form] = {}

    def judge(self, entry: Entry | None, observation: Observation, plan: Plan) -> None:
        """Judge one watchpoint on one tensor in full."""
        if entry is None:
            if observation.stats.nan or observation.stats.pos_inf:
                self.checker.bad_stored.add(plan.info.id)
            return
        watch, step = entry.watch, self.step
        watchpoint = watch.watchpoint
        if entry.hit == step or (watchpoint.at_most and watch.hits >= watchpoint.at_most):
            return
        if not watch.always and not asked(watchpoint, step):
            return
        condition, info, stats = watch.condition, plan.info, observation.stats
        try:
            history = NO_HISTORY
            if condition.history or condition.wants_partner:
                history = plan.history(
                    condition.history, self.around.partner(info) if condition.wants_partner else None
                )
            verdict = condition.judge(stats, history, info)
        except Exception as error:
            self.checker.failed(watch, error)
            verdict = Verdict(error="failed", note=f"{type(error).__name__}: {error}"[:300])
        if verdict.error is not None:
            self._error(entry, observation, plan, verdict)
            return
        if not verdict.held:
            return
        if condition.wants_origin and (self.checker.bad_stored or not self.around.is_origin(observation, info)):
            return
        if watchpoint.recommended and excuse(watchpoint.condition, info, stats, self.around):
            return
        if watchpoint.in_a_row > 1 and entry.row(step) < watchpoint.in_a_row:
            return
        entry.hit = step
        watch.hits += 1
        actual = {name: value for name, (value, _) in verdict.held.items()}
        threshold = {name: limit for name, (_, limit) in verdict.held.items() if limit is not None}
        self.hits.append(self._hit(watch, observation, info, actual, threshold, None, verdict.note))

    def slowly(self, observation: Observation, plan: Plan) -> None:
        """What only some tensors need: conditions of the start, of several steps in a row, and of history."""
        step, around = self.step, self.around
        stats = observation.stats
        if plan.start and not around.updates:
            for entry in plan.start:
                self._guarded(entry, observation, plan)
        for entry in plan.rows:
            watch = entry.watch
            if around.scaler_skipped and watch.needs.change and watch.watchpoint.recommended:
                continue
            if entry.judged != step and (watch.always or asked(watch.watchpoint, step)):
                entry.before, entry.judged = entry.judged, step
            self._guarded(entry, observation, plan)
        if plan.remembers:
            plan.steps.append(step)
            plan.stats.append(stats)

    def carefully(self, observation: Observation, plan: Plan) -> None:
        """One by one, after a gate has failed."""
        for _, entry in plan.tests:
            if entry is not None:
                self._guarded(entry, observation, plan)

    def _guarded(self, entry: Entry, observation: Observation, plan: Plan) -> None:
        try:
            if not entry.gate(observation.stats):
                return
        except Exception as error:
            self.checker.failed(entry.watch, error)
        self.judge(entry, observation, plan)

    def unjudged(self, observation: Observation, plan: Plan) -> None:
        """A tensor that was there and could not be looked at: said for every watchpoint on it."""
        code: ErrorCode = next((known for known in _WHY if known == observation.error), "failed")
        for entry in plan.entries:
            if entry.watch.always or asked(entry.watch.watchpoint, self.step):
                self._error(entry, observation, plan, Verdict(error=code, note=_WHY[code]))

    def _error(self, entry: Entry, observation: Observation, plan: Plan, verdict: Verdict) -> None:
        watch, info = entry.watch, plan.info
        code, note = verdict.error, verdict.note
        if code == "no_prev":
            now = (info.shape if observation.shape is None else observation.shape, info.dtype)
            if now != plan.was:
                code, note = _difference(plan.was, now)
            # Every update condition on this tensor says so, hence only the end of the step moves it on.
            self.moved[plan] = now
        if code is None or (watch.watchpoint.recommended and code in _QUIET_ERRORS):
            return
        # A shape or dtype may change more than once, and its note says what to what.
        said = note if code in ("shape", "dtype") else code
        if entry.told == said:
            return
        entry.told = said
        self.errors[entry] = self._hit(watch, observation, info, {}, dict(watch.watchpoint.parameters), code, note)

    def finished(self) -> list[Hit]:
        """All hits and errors in order of execution."""
        for plan, form in self.moved.items():
            plan.was = form
        hits = self.hits
        if self.errors:
            compared = {seen.tensor for seen in self.around.observations if seen.stats.change is not None}
            # A weight is also seen before the step, where it cannot have changed: what was said then is no news.
            hits = hits + [hit for hit in self.errors.values() if hit.error != "no_prev" or hit.tensor not in compared]
        return sorted(hits, key=lambda hit: (hit.order, hit.watchpoint)) if len(hits) > 1 else hits

    def _hit(
        self,
        watch: Watch,
        observation: Observation,
        info: TensorInfo,
        actual: dict[str, float],
        threshold: dict[str, float],
        error: ErrorCode | None,
        note: str,
    ) -> Hit:
        return Hit(
            step=self.step,
            watchpoint=watch.watchpoint.id,
            name=watch.name,
            condition=watch.watchpoint.condition,
            kind=info.kind,
            node=info.node,
            slot=info.slot,
            tensor=info.id,
            order=observation.order,
            rank=self.rank,
            network=info.network,
            actual=actual,
            threshold=threshold,
            error=error,
            note=note,
            op=info.op,
            source=info.source,
            recommended=watch.watchpoint.recommended,
            call=info.call,
        )
