"""How it runs: mode, memory, speed."""

from __future__ import annotations

from itertools import pairwise

from tensight.diagnosis.words import at, median, per_second, plural
from tensight.records import Depth
from tensight.session.preflight_checks.look import Answer, Look

MEMORY = "memory"  # bytes of this process before the step
WAIT = "wait"  # seconds between the last step's end and the moment the batch was there
GROWTH = 0.002  # of the memory, a step
MB = 2**20
WAITS = 0.5


def mode(look: Look) -> Answer:
    """The network is in training mode where it is trained."""
    modes = {name: one for name, one in look.case.modes.networks.items() if one.trained or one.in_eval}
    if not modes:
        return Answer("unknown", "no step with forward, backward and update was seen")
    for name, one in modes.items():
        if one.in_eval and _differs(look, name):
            return Answer(
                "bad",
                f"{name} was in evaluation mode in {plural(one.in_eval, 'step')} that trained it{at(one.eval_source)}",
                "call train() before the training loop, and after every evaluation",
            )
    return Answer("ok", "in training mode in every step that trains")


def _differs(look: Look, network: str) -> bool:
    """Whether the mode makes a difference, and all of the network is in it."""
    kinds = [module.type.lower() for module in look.case.networks[network].modules]
    frozen = any(not entry.parameter.trainable for entry in look.case.ledger.of(network))
    return not frozen and any("dropout" in kind or "norm" in kind.replace("layernorm", "") for kind in kinds)


def memory(look: Look) -> Answer:
    """Memory of the process does not grow from step to step."""
    seen = [(step.step, step.scalars[MEMORY]) for step in look.steps if MEMORY in step.scalars and step.losses]
    if len(seen) < 10:
        return Answer("unknown", "too few steps to tell")
    later = seen[len(seen) // 2 :]  # the first ones load libraries and make the optimizer's state
    steps = later[-1][0] - later[0][0]
    growth = (later[-1][1] - later[0][1]) / max(1, steps)
    rising = sum(b > a for (_, a), (_, b) in pairwise(later))
    peak = max(value for _, value in seen)
    said = f"{peak / MB:.0f} MB"
    if rising >= 0.8 * (len(later) - 1) and growth > max(GROWTH * peak, MB / 4):
        return Answer(
            "look",
            f"{said}, and {growth / MB:.1f} MB more with every step",
            "look for losses or outputs that are kept with their graph: use loss.item()",
        )
    return Answer("ok", f"{said}, steady")


def speed(look: Look) -> Answer:
    """Steps a second, and which part of the time passes before the batch is there."""
    timed = [step for step in look.steps if step.step > 0 and step.depth == Depth.LIGHT] or [
        step for step in look.steps if step.step > 0
    ]
    if len(timed) < 2:
        return Answer("unknown", "too few steps to tell")
    seconds = median([step.seconds for step in timed])
    said = f"{per_second(seconds)} steps/s"
    if timed[0].depth != Depth.LIGHT:
        said += " while everything is watched"
    shares = [step.scalars[WAIT] / step.seconds for step in timed if WAIT in step.scalars and step.seconds > 0]
    if not shares:
        return Answer("ok", said)
    share = median(shares)
    said += f"; {100 * share:.0f} % of it before the batch is there, {100 - 100 * share:.0f} % computing"
    loaders = [part for part in look.run.parts if part.kind == "loader"]
    if share > WAITS and loaders:
        workers = loaders[0].settings.get("workers")
        return Answer("look", said, f"load in the background: num_workers (now {workers}), or prepare samples once")
    return Answer("ok", said)
