"""A comparison in words, for the terminal and for `print`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tensight.compare.losses import BAND, within
from tensight.compare.result import Comparison, Divergence
from tensight.runs.blocks import plain

WORDS = {
    "identical": "identical: every recorded number agrees",
    "rounding": "the same up to rounding",
    "different": "different",
    "not_comparable": "not comparable",
}


def told(found: Comparison) -> str:
    """Everything but the table of rows."""
    return "\n".join((*map(plain, _preflight(found)), *lines(found)))


def _preflight(found: Comparison) -> Iterator[str]:
    for one in found.preflight:
        yield f"before    {one.what}: {short(one.a)} in A, {short(one.b)} in B"


def lines(found: Comparison) -> Iterator[str]:
    """The lines after the preflight; names of modules cannot steer a terminal."""
    for said in _lines(found):
        yield plain(said)


def _lines(found: Comparison) -> Iterator[str]:
    for one in found.resumed:
        word = {True: "restored", False: "NOT restored", None: "cannot be told"}[one.restored]
        yield f"resumed   {one.what}: {word}" + (f" ({one.why})" if one.why else "")
    yield from _losses(found)
    for number, fault in enumerate(found.faults):
        yield ("first     " if number == 0 else "also      ") + line(fault, steps=found.steps > 0)
        if fault.likely_cause:
            yield f"  cause   {fault.likely_cause}"
    guessed = [f"{one.a} = {one.b}" for one in found.aligned[:5]]
    if guessed:
        more = ", …" if len(found.aligned) > 5 else ""
        yield f"paired    by order and shape alone: {', '.join(guessed)}{more}; --map overrides it"
    yield f"verdict   {WORDS[found.verdict]}" + (f" ({found.reason})" if found.reason else "")


def _losses(found: Comparison) -> Iterator[str]:
    loss = found.loss
    if loss.first_step_differs is not None and loss.a is not None and loss.b is not None:
        numbers = f"{loss.a:.7g} against {loss.b:.7g}"
        bad = [side for side, value in (("A", loss.a), ("B", loss.b)) if not math.isfinite(value)]
        advice = "look at the " + ("forward pass" if loss.verdict == "forward" else "backward pass or the update")
        if len(bad) == 1 and loss.verdict != "forward":  # one batch may do that: an update need not be wrong
            advice = f"{bad[0]} is no longer finite there; `tensight explain` says why"
        yield f"loss      differs from step {loss.first_step_differs} on ({numbers}): {advice}"
    if found.losses and any(pair.relative for pair in found.losses):
        worst = max(found.losses, key=lambda pair: pair.relative)
        share = within(found.losses)
        yield (
            f"losses    {100 * share:.0f} % of {len(found.losses)} steps within {BAND * 1000:g}‰ of A's; "
            f"the furthest apart at step {worst.step}: {worst.relative:.3g}"
        )


def short(value: object) -> object:
    """A value of the preflight as it fits a line."""
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list):
        return ", ".join(str(short(one)) for one in value) or "none"
    return value


def line(fault: Divergence, *, steps: bool = True) -> str:
    """One fault: where, what, how far. Checkpoints have no steps."""
    place = fault.module or "the model itself"
    other = f" ({fault.module_b} in B)" if fault.module_b != fault.module else ""
    where = f"  {fault.file}:{fault.line}" if fault.file else ""
    op = f"  {fault.op}" if fault.op else ""
    rank = f", rank {fault.rank}" if fault.rank is not None else ""
    when = f"  step {fault.step}, {fault.phase}{rank}" if steps else ""
    return f"{place}{other}  {fault.tensor}{op}{when}  error {fault.error:.3g}, floor {fault.floor:.3g}{where}"
