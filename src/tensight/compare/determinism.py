"""Whether two runs of the same script did the same, and if not, what is random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tensight.compare import words
from tensight.compare.alignment import Aligned, Alignment, modules_of
from tensight.compare.moments import Moment, of_step
from tensight.compare.sides import Side
from tensight.records import Module, Observation, Source, StepRecord, TensorInfo
from tensight.store import Reader

_OPERATORS = ("operator", "operator_gradient")
_DRAWING = {  # operators that draw random numbers → what they are used for
    "dropout": "dropout",
    "bernoulli": "dropout",
    "rand": "random_operator",
    "normal": "random_operator",
    "uniform": "random_operator",
    "multinomial": "random_operator",
    "exponential": "random_operator",
}


class RandomSource(msgspec.Struct, frozen=True):
    """Something random: what kind, where, and what to set."""

    # 'init' | 'shuffle' | 'worker_seed' | 'data' | 'dropout' | 'random_operator' | 'setting' | 'length' | 'operator'
    kind: str
    where: str
    fix: str


class Determinism(msgspec.Struct, frozen=True):
    """What `tensight twice` says."""

    deterministic: bool
    first_step: int | None
    first_tensor: str | None
    sources: list[RandomSource]
    steps: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def judge(a: Reader, b: Reader) -> Determinism:
    """Compare two recordings of the same script bit by bit, as far as statistics show it."""
    steps = [step for step in a.steps.numbers if step in set(b.steps.numbers)]
    if not steps:
        same = not len(a.steps) and not len(b.steps)
        return Determinism(same, None, None, [], 0, "no step was recorded, so there is nothing to compare")
    alignment = _same_names(a, b)
    sides = Side([a]), Side([b])
    for step in steps:
        moments = list(of_step(*sides, step, alignment))
        first = next((moment for moment in moments if _differs(moment)), None)
        if first is not None:
            return Determinism(False, step, _name(first), _sources(a, b, step, moments, first), len(steps))
        one, other = a.steps.head(step), b.steps.head(step)
        if repr(one.loss) != repr(other.loss):
            return Determinism(False, step, "loss", [_operator(a, b, step, None)], len(steps))
    if len(a.steps) != len(b.steps):
        counts = f"the first run made {len(a.steps)} steps and the second {len(b.steps)}"
        fix = "look for a loop that ends by time or by a random number"
        return Determinism(False, steps[-1] + 1, "number of steps", [RandomSource("length", counts, fix)], len(steps))
    return Determinism(True, None, None, [], len(steps))


def _same_names(a: Reader, b: Reader) -> Alignment:
    ours = {info.node for info in a.tensors.values()}
    theirs = {info.node for info in b.tensors.values()}
    return Alignment([Aligned(node, node, "path") for node in sorted(ours & theirs)], [], [])


def _differs(moment: Moment) -> bool:
    return repr(moment.stats_a) != repr(moment.stats_b) or moment.shape_a != moment.shape_b


def _name(moment: Moment) -> str:
    if moment.stage in ("start", "update"):
        return moment.a.name
    if moment.a.kind == "gradient":
        return f"{moment.a.name}.grad"
    return f"{moment.a.name}.{moment.a.slot}".strip(".")


def _sources(a: Reader, b: Reader, step: int, moments: list[Moment], first: Moment) -> list[RandomSource]:
    found: list[RandomSource] = []
    starts = [moment for moment in moments if moment.stage == "start" and _differs(moment)]
    if starts:
        names = ", ".join(moment.a.name for moment in starts[:3]) + (", …" if len(starts) > 3 else "")
        found.append(RandomSource("init", names, f"set the seed before the model is made: {_seed(a)}"))
    inputs = [moment for moment in moments if moment.stage == "input" and _differs(moment)]
    if inputs:
        found.append(_data(a, inputs[0], moments))
    if not found:
        if first.stage == "forward":
            found.append(_forward(a, b, step, first))
        else:
            found.append(_setting(a, b, step, first) or _operator(a, b, step, first))
    return found


def _setting(a: Reader, b: Reader, step: int, first: Moment) -> RandomSource | None:
    """A learning rate or another setting of the optimizer that is not the same, where the update differs."""
    if first.stage != "update":
        return None
    fix = "take settings from the command line or a file, not from a random number, the clock or the process"
    ours, theirs = a.steps.head(step).scalars, b.steps.head(step).scalars
    for name in ours:
        if name.startswith("lr") and repr(ours[name]) != repr(theirs.get(name)):
            return RandomSource(
                "setting", f"{name} is {ours[name]:g} in one run and {theirs.get(name)} in the other", fix
            )
    for one, other in zip(a.parts, b.parts):
        if one.kind == other.kind == "optimizer":
            for name, value in one.settings.items():
                if repr(value) != repr(other.settings.get(name)):
                    where = f"{name} of {one.name} is {value} in one run and {other.settings.get(name)} in the other"
                    return RandomSource("setting", where, fix)
    return None


def _seed(a: Reader) -> str:
    own = "mindspore.set_seed(1)" if a.info.framework == "mindspore" else "torch.manual_seed(1)"
    return f"tensight.seed_all(1), or {own}"


def _data(a: Reader, first: Moment, moments: list[Moment]) -> RandomSource:
    loader = next((part for part in a.parts if part.kind == "loader"), None)
    where = f"input of step {first.step}"
    if loader is None:
        return RandomSource("data", where, f"the data is made at random: set the seed before it is made: {_seed(a)}")
    place = f"{loader.name}" + (f" ({loader.source.file}:{loader.source.line})" if loader.source else "")
    workers = loader.settings.get("workers") or 0
    shuffled = bool(loader.settings.get("shuffle"))
    if shuffled and not _drawn_anew(a, moments):
        fix = f"set the seed before the loader is read: {_seed(a)}; or give the loader a seeded generator"
        return RandomSource("shuffle", place, fix)
    if workers:
        fix = (
            "seed NumPy and Python's random in each worker: pass worker_init_fn, and a seeded generator, to the loader"
        )
        return RandomSource("worker_seed", place, fix)
    if shuffled:
        fix = f"set the seed before the loader is read: {_seed(a)}; or give the loader a seeded generator"
        return RandomSource("shuffle", place, fix)
    return RandomSource("data", place, f"the dataset or its transforms draw random numbers: {_seed(a)}")


def _drawn_anew(a: Reader, moments: list[Moment]) -> bool:
    """Whether a whole epoch in one batch has other values: then order alone is not what differs."""
    batches = next((part.settings.get("batches") for part in a.parts if part.kind == "loader"), None)
    return batches == 1 and any(m.stage == "input" and m.stats_a.max != m.stats_b.max for m in moments)


def _forward(a: Reader, b: Reader, step: int, first: Moment) -> RandomSource:
    module = modules_of(Side([a])).get(first.module)
    kind = words.kind_of(module.type if module else first.a.type)
    where = f"{first.module or 'the model itself'} ({kind})" + _place(first.a.source)
    if "dropout" in kind.lower() or first.a.type == "dropout" or (module is not None and _drops(module)):
        return RandomSource("dropout", where, f"set the seed: {_seed(a)}; or p=0, or evaluation mode, to compare")
    return _operator(a, b, step, first)


def _drops(module: Module) -> bool:
    return any(
        isinstance(module.settings.get(name), float) and float(str(module.settings[name])) > 0
        for name in ("p", "dropout", "dropout_p", "drop_prob", "attention_dropout")
    )


def _operator(a: Reader, b: Reader, step: int, first: Moment | None) -> RandomSource:
    """Name the first operator that differs, where operators were recorded."""
    fix = (
        "mindspore.set_deterministic(True)"
        if a.info.framework == "mindspore"
        else "torch.use_deterministic_algorithms(True), and on a GPU CUBLAS_WORKSPACE_CONFIG=:4096:8"
    )
    for info in _differing_operators(a, b, step):
        kind = next((kind for word, kind in _DRAWING.items() if word in info.op), "operator")
        where = f"{info.op} in {info.node or 'the model itself'}" + _place(info.source)
        if kind == "operator":
            return RandomSource("operator", where, f"an operator without a fixed order of its sums: {fix}")
        return RandomSource(kind, where, f"set the seed: {_seed(a)}")
    place = "the loss" if first is None else f"{_name(first)}, {first.stage} pass"
    return RandomSource(
        "operator",
        place,
        f"a random number drawn inside the model, {_seed(a)}; or an operator without a fixed order of its sums, {fix}",
    )


def has_operators(a: Reader, step: int) -> bool:
    """Whether a step was recorded operator by operator."""
    return any(info.kind == "operator" for info, _ in _observed(a, a.steps.at(step)))


def _differing_operators(a: Reader, b: Reader, step: int) -> Iterator[TensorInfo]:
    theirs = {
        (info.op, info.node, info.slot, info.call, info.kind): seen
        for info, seen in _observed(b, b.steps.at(step))
        if info.kind in _OPERATORS
    }
    for info, seen in _observed(a, a.steps.at(step)):
        if info.kind not in _OPERATORS or "empty" in info.op or seen.phase == "evaluation":  # new memory holds anything
            continue
        other = theirs.get((info.op, info.node, info.slot, info.call, info.kind))
        if other is not None and repr(other.stats) != repr(seen.stats):
            yield info


def _observed(reader: Reader, record: StepRecord) -> Iterator[tuple[TensorInfo, Observation]]:
    for seen in record.observations:
        info = reader.tensors.get(seen.tensor)
        if info is not None:
            yield info, seen


def _place(source: Source | None) -> str:
    return f" ({source.file}:{source.line})" if source else ""
