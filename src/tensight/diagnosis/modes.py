"""In which mode each network is when it is trained, and what stays random in evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensight.records import Event, Source

BURST = 2  # forward passes without gradients in one step


@dataclass(slots=True)
class NetworkMode:
    """Steps that trained a network, by the mode its forward pass ran in."""

    trained: int = 0  # steps whose forward ran in training mode
    in_eval: int = 0  # steps whose forward ran in evaluation mode only
    first_in_eval: int = -1  # of the present run of such steps
    eval_now: bool = False
    eval_source: Source | None = None  # the line that switched, as it was when the run of steps began
    latest_eval_source: Source | None = None
    train_source: Source | None = None  # the latest line that switched all of it to training
    switched: bool = False  # somebody has called eval() on it
    bursts: int = 0  # steps with several forward passes without gradients in training mode
    burst_calls: int = 0
    first_burst: int = -1
    burst_source: Source | None = None
    judged: int = 0  # steps with a pass without gradients in training mode whose result went into a loss
    first_judged: int = -1
    judged_step: int = -1
    judged_source: Source | None = None
    steps: int = 0  # that trained it
    passes: int = 0  # with gradients, in training mode, on inputs that are given
    searches: int = 0  # with gradients for the inputs themselves
    same_rows: int = 0  # passes that were looked at, whose samples were all the same
    other_rows: int = 0  # and not
    first_same_rows: int = -1


@dataclass(slots=True)
class Guide:
    """A network that needs no gradients and is asked, step after step, while others are trained."""

    parameter: str  # the weight that was marked
    dtype: str
    first_step: int
    source: Source | None
    written: int  # how often the weight had been written in place
    marks: int = 1
    shares: list[float] = field(default_factory=list)  # of its values that one mark after the other found unchanged
    size: float = 0.0  # mean magnitude at the latest mark
    last_step: int = -1
    writes: int = 0  # in place, since the first mark
    in_training: int = 0  # passes in training mode
    in_eval: int = 0


@dataclass(slots=True)
class ActiveDropout:
    """Dropout that is random although the module around it is in evaluation mode."""

    first_step: int
    module: str
    source: Source | None
    count: int = 0
    p: float = 0.0
    function: str = "dropout"


@dataclass(slots=True)
class Modes:
    """Follows forward, mode and dropout events."""

    networks: dict[str, NetworkMode] = field(default_factory=dict)
    dropouts: dict[tuple[str, str], ActiveDropout] = field(default_factory=dict)
    guides: dict[str, Guide] = field(default_factory=dict)

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        backward = updated = False
        forwards: dict[str, bool] | None = None
        blind: dict[str, list[Event]] | None = None  # forward passes without gradients, in training mode
        latest: Event | None = None  # of these, when no other pass came since
        for event in events:
            kind = event.kind
            if kind == "forward":
                values = event.values
                if not values.get("grad", True):
                    self._guide(step, event)
                    if values.get("training"):
                        if blind is None:
                            blind = {}
                        blind.setdefault(event.part, []).append(event)
                        latest = event
                    else:
                        latest = None
                else:
                    latest = None
                    mode = self._of(event.part)
                    mode.passes += bool(values.get("training"))
                    mode.searches += bool(values.get("input_requires_grad"))
                    if "same_rows" in values:
                        self._rows(step, mode, same=bool(values["same_rows"]))
                    if forwards is None:
                        forwards = {}
                    forwards[event.part] = forwards.get(event.part, False) or bool(values.get("training"))
            elif kind == "scored":
                if latest is not None:
                    self._judged(step, latest)
                    latest = None
            elif kind == "backward":
                backward = True
            elif kind == "optimizer_step":
                updated = True
            elif kind == "mode":
                if not event.values.get("node"):
                    mode = self._of(event.part)
                    if event.values.get("training") is False:
                        mode.latest_eval_source, mode.switched = event.source, True
                    else:
                        mode.train_source = event.source
            elif kind == "dropout":
                self._dropout(step, event)
        if blind is not None:
            self._blind(step, blind)
        if backward and updated and forwards:
            for name, training in forwards.items():
                self._count(step, self._of(name), training)

    def _guide(self, step: int, event: Event) -> None:
        values, unchanged = event.values, event.values.get("unchanged")
        guide = self.guides.get(event.part)
        if isinstance(unchanged, float):
            written = values.get("written")
            writes = written if isinstance(written, int) else -1
            if guide is None or guide.parameter != values.get("frozen"):
                guide = Guide(str(values.get("frozen")), str(values.get("dtype")), step, event.source, writes)
                self.guides[event.part] = guide
            else:
                guide.marks += 1
                guide.shares.append(unchanged)
                size = values.get("size")
                guide.size = size if isinstance(size, float) else 0.0
                guide.writes = writes - guide.written if guide.written >= 0 else 0
                guide.last_step = step
        if guide is not None:
            if values.get("training"):
                guide.in_training += 1
            else:
                guide.in_eval += 1

    def _blind(self, step: int, blind: dict[str, list[Event]]) -> None:
        """Several passes in a row without gradients are an evaluation; one may be a rollout, a sample, a target."""
        if len(blind) > 1:
            return
        for network, passes in blind.items():
            if len(passes) >= BURST:
                mode = self._of(network)
                mode.bursts += 1
                mode.burst_calls += len(passes)
                mode.burst_source = passes[0].source or mode.burst_source
                if mode.first_burst < 0:
                    mode.first_burst = step

    @staticmethod
    def _rows(step: int, mode: NetworkMode, *, same: bool) -> None:
        if same and mode.first_same_rows < 0:
            mode.first_same_rows = step
        mode.same_rows += same
        mode.other_rows += not same

    def _judged(self, step: int, passed: Event) -> None:
        mode = self._of(passed.part)
        if mode.judged_step != step:
            mode.judged_step = step
            mode.judged += 1
        mode.judged_source = passed.source or mode.judged_source
        if mode.first_judged < 0:
            mode.first_judged = step

    def _of(self, network: str) -> NetworkMode:
        mode = self.networks.get(network)
        if mode is None:
            mode = self.networks[network] = NetworkMode()
        return mode

    def _count(self, step: int, mode: NetworkMode, training: bool) -> None:
        mode.steps += 1
        if training:
            mode.trained += 1
            mode.eval_now = False
            return
        mode.in_eval += 1
        if not mode.eval_now:
            mode.eval_now = True
            mode.first_in_eval = step
            mode.eval_source = mode.latest_eval_source

    def _dropout(self, step: int, event: Event) -> None:
        values = event.values
        if values.get("module_training") is not False or not values.get("training", True):
            return
        module = str(values.get("module") or "")
        p = values.get("p")
        place = f"{event.source.file}:{event.source.line}" if event.source else module
        seen = self.dropouts.get((event.part, place))
        if seen is None:
            seen = self.dropouts[event.part, place] = ActiveDropout(step, module, event.source)
            seen.p = float(p) if isinstance(p, (int, float)) else 0.0
            seen.function = str(values.get("function") or "dropout")
        seen.count += 1
