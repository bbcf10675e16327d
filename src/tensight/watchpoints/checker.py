"""Judges the observations of each step: records in, hits out.

A healthy step is nearly free: which watchpoints concern a tensor is worked out once per tensor, and of those only a
quick gate is asked. What a gate lets through is judged in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tensight.errors import NameNotFound, SpecError
from tensight.records import Hit, Needs, Observation, TensorInfo, Watchpoint
from tensight.watchpoints.judging import Pass
from tensight.watchpoints.plan import Plan, Watch

OnError = Callable[[str, BaseException], None]


def _ignore(where: str, error: BaseException) -> None:
    pass


class Checker:
    """The watchpoints of a run, with what they remember from step to step.

    >>> from tensight.records import Stats
    >>> from tensight.watchpoints import spec
    >>> checker = Checker([spec.parse("TO on gradient:*", 1)])
    >>> info = TensorInfo(id=7, kind="gradient", node="head", slot="weight")
    >>> hits = checker.check(3, [Observation(7, 0, Stats(count=9, nan=2))], {7: info}, updates=3)
    >>> [(hit.node, hit.condition, hit.actual) for hit in hits]
    [('head', 'TO', {'nan': 2})]
    """

    def __init__(self, watchpoints: Iterable[Watchpoint] = (), on_error: OnError = _ignore) -> None:
        self.version = 0
        self._on_error = on_error
        self._watches: dict[int, Watch] = {}
        self._plans: dict[int, Plan] = {}
        self._old: dict[int, Plan] = {}
        self._needs: dict[int, tuple[TensorInfo, Needs]] = {}
        self._origins = False
        self.bad_stored: set[int] = set()  # weights and buffers that held NaN or Inf when last seen
        self._unknown = False
        for watchpoint in watchpoints:
            self.add(watchpoint)

    @property
    def watchpoints(self) -> tuple[Watchpoint, ...]:
        """The watchpoints as they are now."""
        return tuple(watch.watchpoint for watch in self._watches.values())

    def add(self, watchpoint: Watchpoint) -> None:
        """Set a watchpoint; a SpecError says why it cannot be."""
        if watchpoint.id in self._watches:
            raise SpecError(f"there is a watchpoint {watchpoint.id} already: remove or replace it.")
        self._watches[watchpoint.id] = Watch(watchpoint)
        self._changed()

    def remove(self, id: int) -> None:
        """Take a watchpoint away."""
        if self._watches.pop(id, None) is None:
            raise NameNotFound(f"there is no watchpoint {id}.")
        self._changed()

    def replace(self, watchpoint: Watchpoint) -> None:
        """Change a watchpoint: it starts anew, with no hits counted."""
        if watchpoint.id not in self._watches:
            raise NameNotFound(f"there is no watchpoint {watchpoint.id}.")
        self._watches[watchpoint.id] = Watch(watchpoint)
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._old = {**self._old, **self._plans}
        self._plans = {}
        self._needs = {}
        self._origins = any(watch.condition.wants_origin for watch in self._watches.values())

    def needs(self, info: TensorInfo) -> Needs:
        """What the pass over a tensor must compute for the watchpoints on it."""
        known = self._needs.get(info.id)
        if known is not None and known[0] is info:
            return known[1]
        ranges: dict[tuple[float, float], None] = {}
        tolerances: tuple[float, float] | None = None
        change = False
        # One pair of tolerances per pass: a user's watchpoint comes before the recommended set.
        for watch in sorted(self._selecting(info), key=lambda watch: watch.watchpoint.recommended):
            ranges.update(dict.fromkeys(watch.needs.ranges))
            change |= watch.needs.change
            if tolerances is None and "rtol" in watch.condition.given:
                tolerances = watch.needs.rtol, watch.needs.atol
        rtol, atol = tolerances or (Needs().rtol, Needs().atol)
        needs = Needs(tuple(ranges), change, rtol, atol)
        self._needs[info.id] = info, needs
        return needs

    def _selecting(self, info: TensorInfo) -> list[Watch]:
        return [watch for watch in self._watches.values() if watch.selects(info)]

    def check(
        self,
        step: int,
        observations: Sequence[Observation],
        tensors: Mapping[int, TensorInfo],
        *,
        rank: int = 0,
        updates: int,
        scaler_skipped: bool = False,
    ) -> list[Hit]:
        """The hits of one step, in order of execution.

        `updates` is how many optimizer steps there were before this step; `scaler_skipped` says that a loss scaler
        left this step's update out.
        """
        if not self._watches:
            return []
        pass_ = Pass(self, step, observations, tensors, rank, updates, scaler_skipped)
        plans, judge = self._plans, pass_.judge
        for observation in observations:
            tensor = observation.tensor
            plan = plans.get(tensor)
            if plan is None or plan.info is not tensors.get(tensor):
                plan = self._plan(tensor, tensors)
                if plan is None:
                    continue
            if observation.error is not None:
                pass_.unjudged(observation, plan)
                continue
            stats = observation.stats
            try:
                for gate, entry in plan.tests:
                    if gate(stats):
                        judge(entry, observation, plan)
            except Exception:
                pass_.carefully(observation, plan)
            if plan.slow:
                pass_.slowly(observation, plan)
        if self.bad_stored:
            self._forget_good(observations)
        return pass_.finished()

    def _plan(self, tensor: int, tensors: Mapping[int, TensorInfo]) -> Plan | None:
        info = tensors.get(tensor)
        if info is None:
            if not self._unknown:
                self._unknown = True
                self.report("watchpoints", NameNotFound(f"tensor {tensor} was observed and never described."))
            return None
        old = self._plans.pop(tensor, None) or self._old.pop(tensor, None)
        watches: list[Watch] = []
        for watch in self._watches.values():
            try:
                if watch.selects(info):
                    watch.condition.gate(info)
                    watches.append(watch)
            except Exception as error:
                self.failed(watch, error)
        plan = self._plans[tensor] = Plan(info, watches, old, self._origins)
        return plan

    def _forget_good(self, observations: Sequence[Observation]) -> None:
        """Weights and buffers that are finite again, e.g. after a checkpoint was loaded."""
        for observation in observations:
            if observation.tensor in self.bad_stored and not (observation.stats.nan or observation.stats.pos_inf):
                self.bad_stored.discard(observation.tensor)

    def failed(self, watch: Watch, error: BaseException) -> None:
        """Report an error of a condition, once per watchpoint."""
        if not watch.failed:
            watch.failed = True
            self.report(f"watchpoint {watch.watchpoint.id} ({watch.watchpoint.condition})", error)

    def report(self, where: str, error: BaseException) -> None:
        """Tell `on_error`; an error in it is not ours to raise."""
        try:
            self._on_error(where, error)
        except Exception:
            return
