"""Two recorded runs against each other: preflight, losses, and the first tensor that leaves the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tensight.compare import losses, noise, preflight
from tensight.compare.alignment import Alignment, align, dialect
from tensight.compare.causes import Suspect, likely
from tensight.compare.moments import Moment, has_tensors, of_step
from tensight.compare.noise import MARGIN, Distance, Floor
from tensight.compare.operators import first_operator
from tensight.compare.preflight import Difference, start_differs
from tensight.compare.result import Comparison, Divergence, LossVerdict
from tensight.compare.sides import Side
from tensight.compare.values import Measured, Stored, measured_by
from tensight.records import Stats, TensorInfo
from tensight.workers import Here, Workers

Array = np.ndarray[Any, Any]
NOTHING_RECORDED = "neither run has recorded a tensor that could be compared"
_MOST_ROWS = 2000
_TELLING = 0.3  # times the floor: enough where a module's settings are known to differ
_MOVED = 0.3  # of a full update: more is not the doing of eps
_MOST_VALUES = 1 << 24  # of a tensor that is looked at as a whole, to find a cause


def compare_runs(
    a: Side, b: Side, mapping: Mapping[str, str] | None = None, workers: Workers | None = None
) -> Comparison:
    """Compare two runs; `mapping` names modules of `a` by those of `b` where names do not tell."""
    alignment = align(a, b, mapping)
    numbers = set(b.numbers)
    steps = [step for step in a.numbers if step in numbers]
    if not steps:
        return _nothing("the runs have no step in common")
    walk = _Walk(a, b, alignment, workers or Here())
    operators = not any(has_tensors(side, steps[0]) for side in (a, b))
    first_moments = list(of_step(a, b, steps[0], alignment, operators=operators))
    if not first_moments:
        return _nothing(_why_no_moments(a, b, steps[0], operators=operators))
    walk.preflight = preflight.check(a, b, alignment, first_moments)
    for step in steps:
        walk.step(
            step, first_moments if step == steps[0] else list(of_step(a, b, step, alignment, operators=operators))
        )
        if walk.faults:
            break
    curve = losses.curve(a, b, steps)
    verdict_of_losses = losses.judged(curve, walk.rounding)
    if walk.faults:
        verdict = "different"
    elif verdict_of_losses.verdict == "none" and walk.exact and losses.equal(curve):
        verdict = "identical"
    else:
        verdict = "different" if verdict_of_losses.verdict == "forward" else "rounding"
    reason = ""
    if len(a.numbers) != len(b.numbers):
        # a step that watching slept through is not recorded, so a run may have made more of them
        held = f"{len(a.numbers)} steps of A are recorded and {len(b.numbers)} of B"
        reason = f"{held}: the {len(steps)} that both have were compared"
    return Comparison(
        verdict,
        walk.preflight,
        verdict_of_losses,
        walk.faults[0] if walk.faults else None,
        walk.faults,
        walk.rows,
        reason,
        len(steps),
        losses=curve,
        aligned=[one for one in alignment.pairs.values() if one.how == "order"],
    )


def _why_no_moments(a: Side, b: Side, step: int, *, operators: bool) -> str:
    """Names that do not fit are the user's to map; what was not recorded, nobody can."""
    empty = [name for name, side in (("A", a), ("B", b)) if not has_tensors(side, step, operators=operators)]
    if len(empty) == 2:
        return NOTHING_RECORDED
    if empty:
        return f"{empty[0]} has recorded no tensor that could be compared"
    return "no module, parameter or loss of one run could be found in the other: give a mapping file"


def _nothing(reason: str) -> Comparison:
    return Comparison("not_comparable", [], LossVerdict(None, "none"), None, [], [], reason)


class Kept(NamedTuple):
    """Values of a tensor that both runs have kept."""

    a: Stored
    b: Stored
    measured: Measured

    @property
    def arrays(self) -> tuple[Array, Array] | None:
        """Both as a whole, unless they are too large for that."""
        return (self.a.array(), self.b.array()) if self.a.size <= _MOST_VALUES else None


class _Walk:
    """Goes through the moments of each step and keeps what leaves the noise."""

    def __init__(self, a: Side, b: Side, alignment: Alignment, workers: Workers) -> None:
        self.a = a
        self.b = b
        self.alignment = alignment
        self._workers = workers
        self.preflight: list[Difference] = []
        self.faults: list[Divergence] = []
        self.rows: list[dict[str, Any]] = []
        self.exact = True
        self.rounding = noise.SINGLE
        self._weights: dict[tuple[str, str], float] = {}  # errors of parameters after the last update

    def step(self, step: int, moments: list[Moment]) -> None:
        floor = Floor()
        gradients = max((_size(m) for m in moments if m.a.kind == "gradient"), default=0.0)
        flows = max((_size(m) for m in moments if m.a.kind == "output_gradient"), default=0.0)
        carried = max(self._weights.values(), default=0.0)  # what the step began with
        level = carried
        into: dict[tuple[str, int], float] = {}  # errors of what each module was given
        inside: dict[str, float] = {}  # by a module around others: what those have brought into it
        own: dict[tuple[str, str], float] = {}  # errors of gradients, against their own size
        updates: list[tuple[Moment, Distance, Kept | None]] = []
        pairs = [self._pair(moment) for moment in moments]
        values = measured_by(self._workers, [pair for pair in pairs if pair is not None])
        for moment, pair in zip(moments, pairs):
            kind = moment.a.kind
            if moment.stage not in ("start", "input") and kind != "loss":
                floor.passed(moment.a.dtype, moment.b.dtype)
            scale = (
                noise.SMALL_GRADIENT * gradients if kind == "gradient" else 1e-3 * flows if "gradient" in kind else 0.0
            )
            kept = None if pair is None else Kept(*pair, next(values))
            distance = self._distance(moment, floor, scale, kept)
            error = distance.error if math.isfinite(distance.error) else 1e30
            exact = self.exact
            if not moment.same:
                self.exact = False
            explained = level
            if kind in ("output", "activation") and (moment.module, moment.a.call) in into:
                explained = max(
                    into[moment.module, moment.a.call],
                    self._of_module(moment.module),
                    carried if step else 0.0,
                    inside.get(moment.module, 0.0),
                )
            elif moment.stage == "update":
                name = (moment.module, moment.a.slot)
                explained = max(own.get(name, 0.0), self._weights.get(name, 0.0))
                if kind == "buffer":
                    explained = max(explained, level)
            margin = self._margin(moment, floor, exact)
            diverged = distance.ratio > margin if moment.stage != "start" else start_differs(moment)
            follows = error <= MARGIN * explained and moment.stage != "start"
            if diverged and not follows:
                if moment.stage == "update" and kind != "buffer":
                    updates.append((moment, distance, kept))
                    follows = True  # as long as nobody shows it does not
                else:
                    self._fault(moment, distance, kept)
            self._row(moment, distance, "follows" if diverged and follows else "different" if diverged else "", kept)
            if diverged and kind in ("output", "activation"):
                for path in _around(moment.module):
                    inside[path] = max(error, inside.get(path, 0.0))
            if kind == "module_input":
                into[moment.module, moment.a.call] = max(error, into.get((moment.module, moment.a.call), 0.0))
            elif kind == "gradient":
                own[moment.module, moment.a.slot] = noise.between(moment.stats_a, moment.stats_b, floor.value).error
            if moment.stage in ("start", "update"):
                self._weights[moment.module, moment.a.slot] = error
            level = max(level, error) if moment.stage != "update" else level
        for moment, distance, kept in self._believed(updates, moments):
            self._fault(moment, distance, kept)
            for row in self.rows:
                if (row["step"], row["phase"], row["module"], row["tensor"]) == _place(moment):
                    row["verdict"] = "different"
        self.rounding = max(self.rounding, floor.rounding) if step == 0 else self.rounding

    def _margin(self, moment: Moment, floor: Floor, exact: bool) -> float:
        """How many times the floor is still rounding: less where settings differ, and nothing where all else agrees.

        Between equal inputs, one framework computes equal outputs: with other settings there, any difference is theirs.
        """
        if moment.stage == "update" and moment.a.kind == "weight":
            return 0.0 if self._other_optimizer() else MARGIN
        if not self._set_apart(moment):
            return MARGIN
        if exact and dialect(self.a) == dialect(self.b):
            return 0.0
        return _TELLING if floor.rounding > noise.SINGLE else MARGIN

    def _set_apart(self, moment: Moment) -> bool:
        """Whether the module was made with other settings: then less is needed to blame it."""
        if moment.stage != "forward" or not moment.module or moment.a.kind not in ("output", "activation"):
            return False
        found = preflight.setting_differences(self.a, self.b, moment.module, self.alignment)
        return any(name != "momentum" for name, _, _ in found)

    def _believed(
        self, updates: list[tuple[Moment, Distance, Kept | None]], moments: list[Moment]
    ) -> list[tuple[Moment, Distance, Kept | None]]:
        """Updates that an optimizer must answer for.

        Adaptive optimizers blow up gradients that are nothing but rounding (those of a key's bias in attention) to
        steps of full size. That befalls single vectors, while another setting of the optimizer shows everywhere.
        """
        every = sum(1 for moment in moments if moment.stage == "update" and moment.a.kind == "weight")
        if len(updates) * 2 >= every or self._other_optimizer():
            return updates[:1]  # one cause: the optimizer
        if not self._adaptive():
            return updates
        updates = [row for row in updates if len(row[0].a.shape) > 1]
        if dialect(self.a) == dialect(self.b):
            return updates
        # The frameworks add Adam's eps in other places, which moves what has next to no gradient.
        return [row for row in updates if row[1].error > _MOVED * self._full_update(row[0])]

    def _full_update(self, moment: Moment) -> float:
        """How far one step of the learning rate moves a weight at most, of its size."""
        rate = self.a.head(moment.step).scalars.get("lr", 0.0)
        size = _size(moment)
        return rate * math.sqrt(moment.stats_a.count) / size if size else 0.0

    def _other_optimizer(self) -> bool:
        return any(one.what.startswith("optimizer") for one in self.preflight)

    def _adaptive(self) -> bool:
        types = [part.type for side in (self.a, self.b) for part in side.parts if part.kind == "optimizer"]
        return any(not name.startswith(("SGD", "Momentum", "ASGD")) for name in types)

    def _of_module(self, module: str) -> float:
        return max((error for (path, _), error in self._weights.items() if path == module), default=0.0)

    def _pair(self, moment: Moment) -> tuple[Stored, Stored] | None:
        if moment.pieces or (moment.a.kind in ("weight", "buffer", "frozen") and moment.stage != "update"):
            return None  # a kept weight is that after the update
        x, y = self.a.kept(moment.step, moment.a.id), self.b.kept(moment.step, moment.b.id)
        if x is None or y is None or x.size != y.size or x.size != moment.stats_a.count:
            return None
        return x, y

    def _distance(self, moment: Moment, floor: Floor, scale: float, kept: Kept | None) -> Distance:
        if moment.stage == "start":
            return noise.between(moment.stats_a, moment.stats_b, preflight.EXACT)
        value = max(floor.value, noise.rounding(moment.a.dtype), noise.rounding(moment.b.dtype))
        if moment.a.kind == "loss":
            value = floor.value
        if moment.stage in ("backward", "update"):
            value *= noise.BACKWARD
        if kept is not None:
            return kept.measured.distance(value, scale)
        return noise.between(moment.stats_a, moment.stats_b, value, scale)

    def _fault(self, moment: Moment, distance: Distance, kept: Kept | None) -> None:
        given = moment.a.slot if moment.a.kind == "module_input" else ""
        given_to = moment.module
        if given:
            moment = self._of_parent(moment)
        if any(fault.module == moment.module and fault.phase == moment.stage for fault in self.faults):
            return
        if self.faults and self.faults[0].phase not in ("start", moment.stage):
            return  # what follows in later phases is most likely a consequence
        values = kept.arrays if kept else None
        micros = self.a.micros(moment.step), self.b.micros(moment.step)
        suspect = Suspect(moment, self.a, self.b, self.alignment, self.preflight, values, micros)
        op, source = first_operator(self.a, self.b, moment)
        source = source or moment.a.source
        pair = self.alignment.pairs.get(moment.module)
        self.faults.append(
            Divergence(
                module=moment.module,
                module_b=pair.b if pair else moment.b.node,
                op=op,
                step=moment.step,
                phase=moment.stage,
                error=distance.error,
                floor=distance.floor,
                likely_cause=likely(suspect),
                file=source.file if source else None,
                line=source.line if source else None,
                tensor=f"{given} of {given_to}" if given else _tensor(moment),
                aligned_by=pair.how if pair else "path",
            )
        )

    def _of_parent(self, moment: Moment) -> Moment:
        """What a module was given is the work of the one around it."""

        def parent(info: TensorInfo, side: Side) -> TensorInfo:
            path = info.node.rpartition(".")[0]
            module = side.modules.get(path)
            return msgspec.structs.replace(info, node=path, type=module.type if module else "", kind="output", op="")

        ours, theirs = parent(moment.a, self.a), parent(moment.b, self.b)
        return msgspec.structs.replace(moment, a=ours, b=theirs)

    def _row(self, moment: Moment, distance: Distance, verdict: str, kept: Kept | None) -> None:
        """`verdict` is 'different', 'follows' from what the module was given, or '' inside the noise."""
        if len(self.rows) >= _MOST_ROWS:
            return
        same = moment.same
        row: dict[str, Any] = {
            "step": moment.step,
            "phase": moment.stage,
            "module": moment.module,
            "module_b": moment.b.node,
            "kind": moment.a.kind,
            "tensor": _tensor(moment),
            "error": distance.error,
            "floor": distance.floor,
            "verdict": verdict
            or ("identical" if same else "suspicious" if distance.ratio > MARGIN / 2 else "rounding"),
            "by": distance.by,
            "shape": list(moment.shape_a),
            "shape_b": list(moment.shape_b),
            "a": _brief(moment.stats_a),
            "b": _brief(moment.stats_b),
        }
        if kept is not None:
            row.update(kept.measured.columns)
        self.rows.append(row)


def _brief(stats: Stats) -> dict[str, float | int | None]:
    return {"mean": stats.mean, "min": stats.min, "max": stats.max, "l2": stats.l2, "bad": stats.bad}


def _place(moment: Moment) -> tuple[int, str, str, str]:
    return moment.step, moment.stage, moment.module, _tensor(moment)


def _around(module: str) -> list[str]:
    """
    >>> _around("layers.0.attn")
    ['layers.0', 'layers', '']
    """
    found = []
    while module:
        module = module.rpartition(".")[0]
        found.append(module)
    return found


def _size(moment: Moment) -> float:
    return max(moment.stats_a.l2 or 0.0, moment.stats_b.l2 or 0.0)


def _tensor(moment: Moment) -> str:
    return f"gradient of {moment.a.slot}" if "gradient" in moment.a.kind else moment.a.slot
