"""In which order backward, zero_grad, clip, unscale and optimizer steps come, per optimizer and per line."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensight.records import Event, Source

LATEST = 64  # how many updates' counts are kept


@dataclass(slots=True)
class OptimizerCalls:
    """What is done with one optimizer."""

    name: str
    steps: int = 0
    skipped: int = 0
    zeroed: int = 0
    zero_source: Source | None = None
    step_source: Source | None = None
    backward_source: Source | None = None  # of the backward pass right before its steps
    used_since_zero: int = 0  # own steps since its gradients were cleared
    fresh: bool = False  # a backward came since its last step
    dirty: bool = False  # and found gradients that were not cleared
    looked: bool = False  # whether it was looked at what that backward found
    reached: bool = False  # a backward that was looked at has added to its gradients since its last step
    judged: int = 0  # steps of which that is known: a step that is hardly watched tells nothing
    reused: int = 0  # steps that used gradients which an earlier step had used already
    first_reuse: int = -1
    clipped_scaled: int = 0  # clipped before unscale, while a scaler was at work
    scale: float = 1.0  # what the gradients are multiplied by, by the latest backward pass
    used_scaled: int = 0  # updates by gradients that nobody had unscaled
    used_scale: float = 1.0
    first_used_scaled: int = -1
    first_clipped_scaled: int = -1
    unscaled: bool = False  # since the last step
    cleared: bool = False  # gradients of its last backward pass were cleared
    emptied: int = 0  # steps on gradients that had been cleared after their backward pass
    first_emptied: int = -1
    late_clips: int = 0  # clipped after a step had used the gradients
    first_late_clip: int = -1
    clips: list[tuple[float, float]] = field(default_factory=list)  # (norm, limit), the latest
    waiting: Source | None = None  # of a backward pass since its gradients were cleared
    left: Source | None = None  # the same, when another optimizer has stepped with that pass and this one has not
    mixed: Source | None = None  # the same, when a backward pass of another line has added to what was left
    leaked: int = 0  # steps on gradients of its own loss and of one that another optimizer had stepped with
    unmixed: int = 0  # steps on gradients that were looked at and held nothing from before
    leaked_from: Source | None = None
    first_leak: int = -1
    again: int = 0  # steps on a backward pass that another optimizer, of the same parameters, had stepped with
    again_with: str = ""
    first_again: int = -1


@dataclass(slots=True)
class ByHand:
    """Steps of a loop that changes weights without an optimizer, by the first backward pass of each."""

    looked: int = 0
    dirty: int = 0  # of which so many found gradients as the step before had used them
    first_dirty: int = -1
    source: Source | None = None

    def follow(self, step: int, event: Event) -> None:
        cleared = event.values.get("cleared")
        if cleared is None:
            return
        self.looked += 1
        if not cleared and not event.values.get("kept"):
            self.dirty += 1
            self.source = event.source or self.source
            if self.first_dirty < 0:
                self.first_dirty = step


@dataclass(slots=True)
class BackwardLine:
    """What becomes of the backward passes of one line of code."""

    source: Source | None
    passes: int = 0
    discarded: int = 0  # cleared before any optimizer step
    used: int = 0
    first_discarded: int = -1
    zero_source: Source | None = None  # the line that cleared them
    pending: int = 0
    per_update: list[int] = field(default_factory=list)  # passes that went into one update, the latest


class CallOrder:
    """Follows the events of each step; cheap enough for every step."""

    def __init__(self) -> None:
        self.optimizers: dict[str, OptimizerCalls] = {}
        self.lines: dict[tuple[str, int], BackwardLine] = {}
        self.networks_of: dict[str, set[str]] = {}  # optimizer → networks it holds parameters of
        self.parameters_of: dict[str, frozenset[str]] = {}  # optimizer → 'network:parameter' that it holds
        self._stepped_since: list[str] = []  # optimizers that stepped since the last backward pass
        self.by_hand = ByHand()
        self.backwards = 0
        self.updates = 0
        self.clip_source: Source | None = None
        self.scaling = False  # a scaler with a scale other than 1 is at work
        self.schedulers: dict[str, Source | None] = {}
        self.scheduler_steps = 0
        self.scheduler_counts: dict[str, int] = {}  # how often each was stepped, by its own account
        self._pending: list[BackwardLine] = []
        self._backward_source: Source | None = None

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        if not self.optimizers:
            passes = (one for one in events if one.kind == "backward" and one.values.get("function") != "grad")
            first = next(passes, None)
            if first is not None:
                self.by_hand.follow(step, first)
        for event in events:
            kind = event.kind
            if kind == "backward":
                self._backward(event)
            elif kind == "optimizer_step":
                self._stepped(step, event)
            elif kind == "zero_grad":
                self._zeroed(step, event)
            elif kind == "clip":
                self._clipped(step, event)
            elif kind == "unscale":
                for calls in self._meant(event.part):
                    calls.unscaled = True
            elif kind == "scale":
                scale = event.values.get("scale")
                self.scaling = isinstance(scale, (int, float)) and scale != 1
            elif kind == "scheduler_step":
                self.schedulers.setdefault(event.part, event.source)
                self.scheduler_steps += 1
                count = event.values.get("count")
                if isinstance(count, int):
                    self.scheduler_counts[event.part] = count

    def optimizer(self, name: str) -> OptimizerCalls:
        calls = self.optimizers.get(name)
        if calls is None:
            calls = self.optimizers[name] = OptimizerCalls(name)
        return calls

    def _meant(self, part: str) -> list[OptimizerCalls]:
        """The optimizer of that name; all of them when the part is a model or unknown."""
        own = self.optimizers.get(part)
        return [own] if own is not None else list(self.optimizers.values())

    def _trains(self, optimizer: str, network: str) -> bool:
        held = self.networks_of.get(optimizer)
        return not held or not network or network in held

    def _backward(self, event: Event) -> None:
        if event.values.get("function") == "grad":
            return  # autograd.grad answers gradients and leaves .grad alone
        self.backwards += 1
        source = self._backward_source = event.source
        key = (source.file, source.line) if source else ("", 0)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = BackwardLine(source)
        line.passes += 1
        line.pending += 1
        self._pending.append(line)
        cleared = event.values.get("cleared")
        for calls in self.optimizers.values():
            if (not calls.fresh or cleared) and self._trains(calls.name, event.part):
                calls.dirty, calls.looked = cleared is False, cleared is not None
                calls.reached = calls.looked
            calls.fresh = True
            calls.cleared = False
            if self._trains(calls.name, event.part):
                scale = event.values.get("scale")
                calls.scale = float(scale) if isinstance(scale, (int, float)) else 1.0
            own = self._trains(calls.name, event.part) and event.part in self.networks_of.get(calls.name, ())
            if own and cleared is not None and calls.left is not None and not calls.used_since_zero:
                calls.unmixed += bool(cleared)
                if not cleared and source is not None and calls.left != source:
                    calls.mixed = calls.left
            calls.waiting = source
        self._reaches(event)
        self._stepped_since.clear()

    def _reaches(self, event: Event) -> None:
        """A pass through one network adds to the gradients of others too: a generator's goes through its critic."""
        for value, dirty in (("added_to", True), ("begun_in", False)):
            networks = str(event.values.get(value, "")).split()
            for calls in self.optimizers.values():
                known = calls.reached and dirty  # what was cleared in between, by whatever means, begins anew
                if not known and not self.networks_of.get(calls.name, set()).isdisjoint(networks):
                    calls.dirty, calls.looked, calls.reached = dirty, True, True

    def _stepped(self, step: int, event: Event) -> None:
        calls = self.optimizer(event.part)
        calls.step_source = event.source or calls.step_source
        calls.backward_source = self._backward_source or calls.backward_source
        self._settle(used=True)
        unscaled, calls.unscaled = calls.unscaled, False
        if event.values.get("skipped"):
            calls.skipped += 1
            return
        if calls.scale != 1 and calls.fresh and not unscaled:
            calls.used_scaled += 1
            calls.used_scale = calls.scale
            if calls.first_used_scaled < 0:
                calls.first_used_scaled = step
        calls.steps += 1
        self.updates += 1
        if calls.cleared and not calls.fresh:
            calls.emptied += 1
            if calls.first_emptied < 0:
                calls.first_emptied = step
        else:
            self._shares(step, calls)
        if calls.mixed is not None and not calls.used_since_zero:
            calls.leaked += 1
            calls.leaked_from = calls.mixed
            if calls.first_leak < 0:
                calls.first_leak = step
        calls.mixed = calls.left = calls.waiting = None
        for other in self.optimizers.values():
            if other is not calls and other.waiting is not None and not other.used_since_zero:
                other.left = other.waiting
        if calls.fresh and calls.looked:
            calls.judged += 1
        if calls.used_since_zero and calls.fresh and calls.dirty:
            calls.reused += 1
            if calls.first_reuse < 0:
                calls.first_reuse = step
        calls.used_since_zero += 1
        calls.fresh = calls.reached = False

    def _shares(self, step: int, calls: OptimizerCalls) -> None:
        """Whether another optimizer has stepped with the same gradients of the same parameters."""
        own = self.parameters_of.get(calls.name, frozenset())
        for other in self._stepped_since:
            if other != calls.name and own & self.parameters_of.get(other, frozenset()):
                calls.again += 1
                calls.again_with = other
                if calls.first_again < 0:
                    calls.first_again = step
                break
        if calls.name not in self._stepped_since:
            self._stepped_since.append(calls.name)

    def _zeroed(self, step: int, event: Event) -> None:
        for calls in self._meant(event.part):
            calls.zeroed += 1
            own = event.part == calls.name or self._trains(calls.name, event.part)
            if calls.fresh and own and not event.values.get("noticed"):
                calls.cleared = True
            calls.zero_source = event.source or calls.zero_source
            calls.used_since_zero = 0
            calls.fresh = calls.reached = False
            calls.mixed = calls.left = calls.waiting = None
        # In the closure of a step (LBFGS) gradients are cleared after the step has read them.
        self._settle(used=bool(event.values.get("inside")), step=step, source=event.source)

    def _settle(self, *, used: bool, step: int = -1, source: Source | None = None) -> None:
        """The backward passes that are waiting were used by an update, or cleared."""
        for line in self._pending:
            if not line.pending:
                continue
            if used:
                line.used += line.pending
                line.per_update.append(line.pending)
                if len(line.per_update) > LATEST:
                    del line.per_update[0]
            else:
                line.discarded += line.pending
                line.zero_source = source or line.zero_source
                if line.first_discarded < 0:
                    line.first_discarded = step
            line.pending = 0
        self._pending.clear()

    def _clipped(self, step: int, event: Event) -> None:
        self.clip_source = event.source or self.clip_source
        norm, limit = event.values.get("norm"), event.values.get("max_norm")
        for calls in self._meant(event.part):
            if isinstance(norm, (int, float)) and isinstance(limit, (int, float)):
                calls.clips.append((float(norm), float(limit)))
                del calls.clips[:-LATEST]
            if event.part == calls.name and calls.steps and not calls.fresh and calls.used_since_zero:
                calls.late_clips += 1
                if calls.first_late_clip < 0:
                    calls.first_late_clip = step
        if not self.scaling:
            return
        meant = self._meant(event.part)
        if len(meant) > 1 and any(calls.unscaled for calls in meant):
            return  # one of them was unscaled: its gradients are the ones clipped
        for calls in meant:
            if not calls.unscaled:
                calls.clipped_scaled += 1
                if calls.first_clipped_scaled < 0:
                    calls.first_clipped_scaled = step
