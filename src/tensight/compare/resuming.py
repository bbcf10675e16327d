"""A training that was resumed against one that ran through: what came back from the checkpoint, and what did not."""

from __future__ import annotations

from collections.abc import Iterator

from tensight.compare.alignment import Alignment
from tensight.compare.moments import PARAMETERS, Moment, key_of, of_step
from tensight.compare.noise import MARGIN, between, rounding
from tensight.compare.preflight import EXACT, start_differs
from tensight.compare.result import Restored
from tensight.compare.sides import Side
from tensight.records import Observation, Stats, TensorInfo

_MOST_SEARCHED = 200  # steps in which a batch is looked for
_SCALARS = {"scheduler": "lr", "scaler": "scale"}


def restored(a: Side, b: Side, step: int, alignment: Alignment) -> list[Restored]:
    """What a resumed training `b`, whose first step is `step` of `a`, has got back."""
    moments = list(of_step(a, b, step, alignment))
    found = [*_weights(a, b, step, alignment), _data(a, b, step, moments)]
    equal = all(one.restored is not False for one in found)
    found.append(_random(moments, equal=equal))
    found += _scalars(a, b, step)
    found.append(_optimizer(moments, found))
    return [one for one in found if one.what not in _absent(a, b)]


def _absent(a: Side, b: Side) -> set[str]:
    """Things that neither training has."""
    kinds = {part.kind for side in (a, b) for part in side.parts}
    return {what for what in ("scheduler", "scaler") if what not in kinds} - {
        what for what, name in _SCALARS.items() if _moves(a, name)
    }


def _moves(a: Side, name: str) -> bool:
    values = {a.head(step).scalars.get(name) for step in a.numbers[:_MOST_SEARCHED]}
    return len(values - {None}) > 1


def _weights(a: Side, b: Side, step: int, alignment: Alignment) -> Iterator[Restored]:
    """Weights as `a` left them at the end of the step before, and as `b` begins with them."""
    if step - 1 not in a.numbers:
        yield Restored("weights", None, f"step {step - 1} of A is not recorded")
        return
    ours = {key: (info, stats) for key, info, stats in _parameters(a, step - 1, "update", None)}
    begun = {key: (info, stats) for key, info, stats in _parameters(b, step, "", alignment)}
    common = [key for key in ours if key in begun]
    if not common:
        yield Restored("weights", None, "the first weights of B were not recorded")
        return
    other = {key: _differs(ours[key], begun[key]) for key in common}
    networks = list(dict.fromkeys(ours[key][0].network for key in common))
    for network in networks:
        for what, kinds in (("weights", ("weight", "frozen")), ("buffers", ("buffer",))):
            own = [key for key in common if ours[key][0].network == network and ours[key][0].kind in kinds]
            if not own:
                if what == "buffers" and _has_buffers(a, network):
                    yield Restored("buffers", None, f"those of A were not looked at in step {step - 1}")
                continue
            name = what if network == networks[0] else f"{what} of {network}"  # an averaged copy (EMA), a teacher
            wrong = [ours[key][0].name for key in own if other[key]]
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            yield Restored(name, not wrong, f"{', '.join(wrong[:3])}{more} differ" if wrong else "")


def _has_buffers(side: Side, network: str) -> bool:
    known = side.networks.get(network)
    return known is not None and any(parameter.buffer for parameter in known.parameters)


def _parameters(
    side: Side, step: int, phase: str, alignment: Alignment | None
) -> Iterator[tuple[tuple[str, str, str], TensorInfo, Stats]]:
    for info, seen in side.observations(step):
        if info.kind in PARAMETERS and (seen.phase == "update") == (phase == "update"):
            path = info.node if alignment is None else alignment.from_b.get(info.node)
            key = _key(info, seen, path)
            if key is not None:
                yield key, info, seen.stats


def _key(info: TensorInfo, seen: Observation, path: str | None) -> tuple[str, str, str] | None:
    full = key_of(info, seen, path) if path is not None else None
    return None if full is None else (info.network, full[1], full[2])


def _differs(ours: tuple[TensorInfo, Stats], begun: tuple[TensorInfo, Stats]) -> bool:
    coarse = ours[0].dtype != begun[0].dtype
    floor = max(rounding(ours[0].dtype), rounding(begun[0].dtype)) if coarse else EXACT
    return between(ours[1], begun[1], floor).ratio > (4 if coarse else 1)


def _data(a: Side, b: Side, step: int, moments: list[Moment]) -> Restored:
    inputs = [moment for moment in moments if moment.stage == "input"]
    if not inputs:
        return Restored("data position", None, "no input was recorded")
    if not any(start_differs(moment) for moment in inputs):
        return Restored("data position", True)
    began = [stats for info, stats in _inputs(b, step)]
    for other in a.numbers[:_MOST_SEARCHED]:
        theirs = [stats for info, stats in _inputs(a, other)]
        if other != step and theirs and theirs == began:
            return Restored("data position", False, f"B begins with the batch of step {other} of A")
    return Restored("data position", False, f"B begins with another batch than step {step} of A")


def _inputs(side: Side, step: int) -> Iterator[tuple[TensorInfo, Stats]]:
    for info, seen in side.observations(step):
        if info.kind == "input":
            yield info, seen.stats


def _random(moments: list[Moment], *, equal: bool) -> Restored:
    if not equal:
        return Restored("random state", None, "weights or data differ already")
    for moment in moments:
        if moment.stage == "forward" and moment.a.kind in ("output", "activation"):
            away = between(moment.stats_a, moment.stats_b, rounding(moment.a.dtype))
            if away.ratio > MARGIN:
                kind = moment.a.type or "module"
                return Restored("random state", False, f"{moment.module or 'the model'} ({kind}) gives other values")
    return Restored("random state", True)


def _scalars(a: Side, b: Side, step: int) -> Iterator[Restored]:
    for what, name in _SCALARS.items():
        ours, theirs = a.head(step).scalars.get(name), b.head(step).scalars.get(name)
        if ours is None or theirs is None:
            yield Restored(what, None, f"no {name} was recorded in step {step}")
        elif abs(ours - theirs) > 1e-6 * max(abs(ours), abs(theirs)):
            yield Restored(what, False, f"{name} is {ours:g} in A and {theirs:g} in B")
        else:
            yield Restored(what, True)


def _optimizer(moments: list[Moment], found: list[Restored]) -> Restored:
    """Equal gradients and an equal rate make equal updates, if the optimizer remembers the same."""
    before = [one.what for one in found if one.restored is False]
    if before:
        return Restored("optimizer state", None, f"restore {', '.join(before)} first, then compare again")
    updated = [m for m in moments if m.stage == "update" and m.a.kind == "weight"]
    if not updated:
        return Restored("optimizer state", None, "no weight was recorded after the update")
    wrong = [m.a.name for m in updated if between(m.stats_a, m.stats_b, rounding(m.a.dtype)).ratio > 1]
    if wrong:
        return Restored("optimizer state", False, f"gradients agree and {', '.join(wrong[:3])} are updated otherwise")
    return Restored("optimizer state", True)
