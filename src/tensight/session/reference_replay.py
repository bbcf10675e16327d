"""A recorded batch, fed to another model: as a whole, and module by module on the reference's own inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensight.compare import preflight
from tensight.compare.alignment import align
from tensight.compare.causes import Suspect, likely
from tensight.compare.moments import Moment
from tensight.compare.noise import BACKWARD, MARGIN, SINGLE, SMALL_GRADIENT, Distance, rounding
from tensight.compare.preflight import Difference
from tensight.compare.reference import Call, Recorded
from tensight.compare.result import Comparison, Divergence, LossVerdict
from tensight.compare.shown import Shown
from tensight.compare.values import Held, Measured, measure
from tensight.frameworks.hands import Array, Hands, flat
from tensight.records import TensorInfo
from tensight.session.reference_weights import paired
from tensight.stats import statistics

COARSE_MARGIN = 4.0  # of floors of 16-bit floats, which are measured: two sides round as far as one and a twin
Outputs = dict[tuple[str, int], list[Any]]
Found = tuple[list[tuple[Array, Array]], Distance, Measured]  # pairs of outputs, and how far the furthest are apart


class Replaying:
    """One model against a reference."""

    def __init__(
        self,
        recorded: Recorded,
        hands: Hands,
        model: Any,
        mapping: Mapping[str, str],
        loss: Callable[[Any], Any] | None,
    ) -> None:
        self.recorded = recorded
        self.hands = hands
        self.model = model
        self.mapping = mapping
        self.loss = loss
        self.calls = {(call.path, call.call): call for call in recorded.notes.calls}
        self.faults: list[Divergence] = []
        self.rows: list[dict[str, Any]] = []
        self.preflight: list[Difference] = []
        self.exact = True

    def comparison(self) -> Comparison:
        """The whole comparison."""
        heard, failure = self._forward()
        if failure:
            return Comparison("not_comparable", [], LossVerdict(None, "none"), None, [], [], failure)
        self.a, self.b = self._sides(heard)
        self.alignment = align(self.a, self.b, self.mapping)
        self.modules_b = dict(self.hands.modules(self.model))
        self.preflight = preflight.check(self.a, self.b, self.alignment, [])
        training = self.hands.training(self.model)
        if training != self.recorded.notes.training:
            self.preflight.append(Difference("training mode", self.recorded.notes.training, training))
        self._weights()
        self._modules(heard)
        if self.loss is not None:
            self._gradients()
        verdict = "different" if self.faults else "identical" if self.exact else "rounding"
        paired_by_order = [one for one in self.alignment.pairs.values() if one.how == "order"]
        return Comparison(
            verdict,
            self.preflight,
            self._loss_verdict(),
            self.faults[0] if self.faults else None,
            self.faults,
            self.rows,
            "",
            1,
            aligned=paired_by_order,
        )

    def _forward(self) -> tuple[Outputs, str]:
        """What every module of the model returns for the recorded batch; or why the model could not be called."""
        hands = self.hands
        heard: Outputs = {}
        counts: dict[str, int] = {}

        def note(path: str, module: Any, arguments: Any, keywords: Any, result: Any) -> None:
            number = counts.get(path, 0)
            counts[path] = number + 1
            heard[path, number] = flat(hands, result)

        arguments, keywords = self._arguments(self.recorded.root)
        try:
            if hands.compiled(self.model):  # a look inside would change what is compiled
                heard["", 0] = flat(hands, hands.call(self.model, arguments, keywords))
            else:
                with hands.hearing(self.model, note):
                    hands.call(self.model, arguments, keywords)
        except Exception as error:
            return {}, f"B cannot be called with the recorded inputs: {type(error).__name__}: {_first_line(error)}"
        return heard, ""

    def _arguments(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def made(array: Array, dtype: str) -> Any:
            return self.hands.tensor(array, dtype, self.model)

        return tuple(self.recorded.tree(call.arguments, made)), dict(self.recorded.tree(call.keywords, made))

    def _sides(self, heard: Outputs) -> tuple[Shown, Shown]:
        notes, hands = self.recorded.notes, self.hands
        ours = {
            name: (array.shape, notes.dtypes.get(f"weights/{name}", array.dtype.name))
            for name, array in self.recorded.named("weights").items()
        }
        outputs_a = [
            (call.path, call.call, self.recorded.tensor(call.outputs[0]).shape, self.recorded.dtype(call.outputs[0]))
            for call in notes.calls
            if call.outputs
        ]
        theirs = {name: (tuple(value.shape), hands.dtype(value)) for name, value in hands.weights(self.model).items()}
        outputs_b = [
            (path, call, tuple(found[0].shape), hands.dtype(found[0])) for (path, call), found in heard.items() if found
        ]
        modules = [hands.record(path, module) for path, module in hands.modules(self.model)]
        return (
            Shown(notes.framework, notes.version, notes.model, notes.modules, ours, outputs_a),
            Shown(hands.name, hands.version(), type(self.model).__name__, modules, theirs, outputs_b),
        )

    def _weights(self) -> None:
        """A transfer is exact: every weight must be the same, bit by bit."""
        ours = self.recorded.named("weights")
        theirs = self.hands.weights(self.model)
        for name, other in paired(self.recorded, self.hands, self.model, self.mapping).items():
            x, y = ours[name], self.hands.numpy(theirs[other])
            if x.size != y.size or name.endswith("num_batches_tracked"):
                continue
            if np.array_equal(x.reshape(-1), y.reshape(-1), equal_nan=x.dtype.kind == "f"):
                continue
            dtypes = self.recorded.notes.dtypes.get(f"weights/{name}", ""), self.hands.dtype(theirs[other])
            found = measure(Held(x.reshape(-1)), Held(y.reshape(-1)))
            floor = max(map(rounding, dtypes)) if dtypes[0] != dtypes[1] else 0.0
            if floor and found.distance(floor).ratio <= 1:
                continue
            node, _, slot = name.rpartition(".")
            info = TensorInfo(0, "weight", node, slot, shape=x.shape, dtype=dtypes[0])
            info_b = TensorInfo(0, "weight", other.rpartition(".")[0], other.rpartition(".")[2], dtype=dtypes[1])
            self.preflight.append(Difference(f"value of {name} at the start (l2)", found.size_a, found.size_b))
            self._fault(info, info_b, "start", found.distance(floor or SINGLE), (x, y.reshape(x.shape)))

    def _modules(self, heard: Outputs) -> None:
        """Modules in order of execution, innermost first: in the model, and alone on the reference's inputs."""
        compiled = self.hands.compiled(self.model)
        apart = compiled and self._root_differs(heard)
        parents = {path.rpartition(".")[0] for path in (module.path for module in self.recorded.notes.modules) if path}
        wrong: set[str] = set()
        for call in self.recorded.notes.calls:
            pair = self.alignment.pairs.get(call.path)
            module = self.modules_b.get(pair.b) if pair else None
            if pair is None or module is None or not call.outputs:
                continue
            stream = self._against(call, heard.get((pair.b, call.call)), call.floor)
            diverged = stream is not None and self._differs(call, stream[1])
            known = call.path in wrong or any(_inside(path, call.path) for path in wrong)
            alone = None
            if compiled:
                if apart and call.path and not known:
                    alone = self._alone(call, self.hands.as_compiled(self.model, module))
            elif call.path not in parents or (diverged and not known):  # one around others only adds its own code
                alone = self._alone(call, module)
            fault = alone or (stream if diverged and not self._wrong_before() else None)
            different = fault is not None and not known and self._differs(call, fault[1])
            if different and fault is not None:
                wrong.add(call.path)
                self._fault_of(call, pair.b, fault)
            self._row(call, pair.b, alone or stream, "different" if different else "follows" if diverged else "")

    def _root_differs(self, heard: Outputs) -> bool:
        root = self.recorded.root
        found = self._against(root, heard.get(("", 0)), root.floor)
        return found is not None and self._differs(root, found[1])

    def _wrong_before(self) -> bool:
        """Whether a module before left the noise: then what the next ones return in the model may only follow."""
        return any(fault.phase == "forward" for fault in self.faults)

    def _alone(self, call: Call, module: Any) -> Found | None:
        """A module called alone on the reference's inputs."""
        if not call.whole:
            return None
        arguments, keywords = self._arguments(call)
        try:
            result = self.hands.call(module, arguments, keywords)
        except Exception:  # other arguments than in the reference: the model as a whole must tell
            return None
        return self._against(call, flat(self.hands, result), call.local)

    def _against(self, call: Call, found: Sequence[Any] | None, floor: float) -> Found | None:
        """Recorded outputs against others: the pairs, and the furthest of them."""
        if not found:
            return None
        pairs, worst, by = [], None, None
        for key, tensor in zip(call.outputs, found):
            x, y = self.recorded.tensor(key), self.hands.numpy(tensor)
            if x.dtype.kind not in "fc" and y.dtype.kind not in "fc":
                floor = SINGLE
            least = max(floor, rounding(self.recorded.dtype(key)), rounding(self.hands.dtype(tensor)))
            pairs.append((x, y))
            if x.size != y.size:
                return pairs, Distance(math.inf, least, "count"), Measured()
            now = measure(Held(x.reshape(-1)), Held(y.reshape(-1)))
            distance = now.distance(least)
            if worst is None or distance.ratio > worst.ratio:
                worst, by = distance, now
        return None if worst is None or by is None else (pairs, worst, by)

    def _differs(self, call: Call, distance: Distance) -> bool:
        if distance.error == 0:
            return False
        coarse = rounding(self.recorded.dtype(call.outputs[0])) > SINGLE
        margin = COARSE_MARGIN if coarse else MARGIN
        if self._set_apart(call.path) and self.recorded.notes.framework == self.hands.name:
            margin = 0.0  # one framework computes the same from the same, so other settings are to blame
        return distance.ratio > margin

    def _set_apart(self, path: str) -> bool:
        found = preflight.setting_differences(self.a, self.b, path, self.alignment)
        return bool(path) and any(name != "momentum" for name, _, _ in found)

    def _fault_of(self, call: Call, path_b: str, found: Found) -> None:
        info = self.a.outputs[call.path, call.call]
        x, y = found[0][0]
        info_b = TensorInfo(0, "output", path_b, "output.0", shape=y.shape, dtype=info.dtype)
        self._fault(info, info_b, "forward", found[1], (x, y))

    def _fault(self, a: TensorInfo, b: TensorInfo, stage: str, distance: Distance, values: tuple[Array, Array]) -> None:
        stats = statistics(np.ascontiguousarray(values[0])), statistics(np.ascontiguousarray(values[1]))
        moment = Moment(a, b, *stats, 0, stage, values[0].shape, values[1].shape)
        suspect = Suspect(moment, self.a, self.b, self.alignment, self.preflight, values)
        pair = self.alignment.pairs.get(a.node)
        self.faults.append(
            Divergence(
                module=a.node,
                module_b=b.node,
                op=None,
                step=0,
                phase=stage,
                error=distance.error,
                floor=distance.floor,
                likely_cause=likely(suspect),
                tensor=f"gradient of {a.slot}" if a.kind == "gradient" else a.slot,
                aligned_by=pair.how if pair else "path",
            )
        )

    def _gradients(self) -> None:
        """Gradients of the loss, where nothing in the forward pass explains another."""
        ours = self.recorded.named("gradients")
        if not ours or self.loss is None or any(fault.phase == "forward" for fault in self.faults):
            return
        arguments, keywords = self._arguments(self.recorded.root)
        loss = self.loss
        value, theirs = self.hands.gradients(self.model, lambda: loss(self.model(*arguments, **keywords)))
        self.value = value
        names = paired(self.recorded, self.hands, self.model, self.mapping)
        largest = max((float(np.sqrt(np.sum(np.square(g, dtype=np.float64)))) for g in ours.values()), default=0.0)
        floor = self.recorded.root.floor * BACKWARD
        for name, gradient in reversed(ours.items()):  # from the loss backwards
            other = theirs.get(names.get(name, ""))
            if other is None or _size(other) != gradient.size:
                continue
            y = self.hands.numpy(other).reshape(gradient.shape)
            found = measure(Held(gradient.reshape(-1)), Held(y.reshape(-1)))
            distance = found.distance(floor, SMALL_GRADIENT * largest)
            if distance.ratio > MARGIN:
                node, _, slot = name.rpartition(".")
                info = TensorInfo(0, "gradient", node, slot, shape=gradient.shape, dtype=gradient.dtype.name)
                info_b = TensorInfo(0, "gradient", names[name].rpartition(".")[0], slot)
                self._fault(info, info_b, "backward", distance, (gradient, y))
                return

    value: float | None = None

    def _loss_verdict(self) -> LossVerdict:
        ours = self.recorded.notes.loss
        if ours is None or self.value is None:
            return LossVerdict(None, "none")
        apart = abs(ours - self.value) / max(abs(ours), abs(self.value), 1e-30)
        if apart > MARGIN * MARGIN * max(self.recorded.root.floor, SINGLE):
            return LossVerdict(0, "forward", ours, self.value)
        return LossVerdict(None, "none", ours, self.value)

    def _row(
        self,
        call: Call,
        path_b: str,
        found: Found | None,
        verdict: str,
    ) -> None:
        if found is None:
            return
        pairs, distance, by = found
        if distance.error:
            self.exact = False
        row = {
            "step": 0,
            "phase": "forward",
            "module": call.path,
            "module_b": path_b,
            "kind": "output",
            "tensor": "output.0",
            "error": distance.error,
            "floor": distance.floor,
            "verdict": verdict or ("rounding" if distance.error else "identical"),
            "by": distance.by,
            "shape": list(pairs[0][0].shape),
            "shape_b": list(pairs[0][1].shape),
        }
        self.rows.append({**row, **by.columns})


def _inside(path: str, outer: str) -> bool:
    return path != outer and (not outer or path.startswith(f"{outer}."))


def _size(tensor: Any) -> int:
    total = 1
    for length in tensor.shape:
        total *= int(length)
    return total


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
