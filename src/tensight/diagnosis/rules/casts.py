"""Number formats that are changed too often, or cannot hold what is put into them."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, median, number, where
from tensight.records import Finding

TRIPS = 3  # in one step
STEPS = 4  # in which it is seen
_SHORT = {"positions": "positions", "times": "times or ids"}
_WHAT = {"positions": "positions", "times": "large whole numbers close together (times in seconds, ids)"}


class CastPingPong(Rule):
    """Values that leave their number format and come back, layer after layer."""

    fault = "cast_ping_pong"
    category = "resource"
    finds = "Activations converted to another number format and back several times in every forward pass."
    evidence = ("conversions between floating formats inside forward passes", "the lines that convert")
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        seen = case.noted.of("casts")
        trips = [float(value) for _, event in seen if isinstance(value := event.values.get("trips"), (int, float))]
        if len(trips) < STEPS or median(trips) < TRIPS or len(trips) < 0.5 * min(case.deep_steps, 20):
            return
        step, event = seen[0]
        home, away = event.values.get("home"), event.values.get("away")
        yield self.finding(
            f"activations are converted between {home} and {away} again and again",
            confidence=0.88,
            since_step=step,
            where=where(event.source, op="to", network=event.part),
            why=f"in every forward pass values go from {home} to {away} and back {number(median(trips))} times"
            f" ({event.values.get('casts')} conversions of dtype per step): each cast copies the whole tensor and"
            + (" rounds it, " if str(away).endswith("16") else " ")
            + "so time and memory are spent on conversions instead of computing",
            facts=[
                ("round trips per step", median(trips)),
                ("conversions per step", event.values.get("casts")),
                ("lines that convert", event.values.get("lines")),
                ("steps seen", len(trips)),
            ],
            fix=(
                f"choose one format for the whole pass{at(event.source)}: convert the module once (module.to(dtype)),"
                f" or let"
                " torch.autocast decide",
            ),
        )


class NumbersLost(Rule):
    """Whole numbers in a format that cannot tell them apart."""

    fault = "whole_numbers_lose_precision"
    category = "precision"
    finds = "Ids, labels, positions or times kept in float16, bfloat16 or float32 beyond the whole numbers these hold."
    evidence = ("whole numbers that are rounded by a conversion", "values of a small format that are used as indices")
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        seen = case.noted.of("cast_loss")
        if not seen:
            return
        step, event = seen[0]
        values = event.values
        dtype, limit = values.get("dtype"), values.get("exact_to")
        kind = str(values.get("what"))
        what = _WHAT.get(kind, "ids (integers used as indices)")
        largest = values.get("largest")
        yield self.finding(
            f"{dtype} cannot hold these {_SHORT.get(kind, 'integer ids')}",
            confidence=0.9,
            since_step=step,
            where=where(event.source, op="to"),
            why=f"{what} up to {number(largest if isinstance(largest, (int, float)) else None)} are kept in {dtype},"
            f" which"
            f" holds whole numbers exactly only up to {limit}: above, neighbours are rounded to the same value, and"
            f" {values.get('lost')} of {values.get('of')} "
            + ("are beyond" if kind == "numbers" else "distinct values are lost")
            + " (precision is lost)",
            facts=[("largest", largest), ("exact up to", limit), ("values that lose", values.get("lost"))],
            fix=(
                f"subtract the first time while they are integers or float64, and convert the difference"
                f"{at(event.source)}"
                if kind == "times"
                else f"keep them as integers (torch.long), or in float32{at(event.source)}",
            ),
            confirm=("count the distinct values before and after: x.unique().numel()",)
            if kind == "times"
            else ("compare ids with ids.to(dtype).long(): they differ",),
        )
