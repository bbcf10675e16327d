"""Training that waits for its data."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import median, number, where
from tensight.records import Finding

SHARE = 0.8  # of a step's time
SECONDS = 0.01  # less is not worth a word
STEPS = 20

# What draws or cuts out a batch of what is in memory.
_QUICK = frozenset(
    (
        *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal", "arange", "linspace"),
        *("ones", "zeros", "split", "chunk", "unbind", "stack", "cat", "roll", "view", "reshape", "flatten", "expand"),
        *("squeeze", "unsqueeze", "transpose", "permute", "to", "float", "long", "size"),
        *("range", "enumerate", "zip", "len"),
    )
)


def _takes_no_time(code: str) -> bool:
    """Whether a line that makes a batch only draws numbers or picks from tensors.

    >>> _takes_no_time("x, y = data[i], torch.randint(0, 4, (32,))"), _takes_no_time("x, y = next_batch(files)")
    (True, False)
    >>> _takes_no_time("for idx in torch.randperm(n).split(32):"), _takes_no_time("for x, y in stream:")
    (True, False)
    """
    made = re.sub(r"^\s*for\b.*?\bin\b|^[^=]*?=(?!=)", "", code, count=1)
    called = re.findall(r"([A-Za-z_]\w*)\s*\(", made)
    picked = "[" in made
    return set(called) <= _QUICK and (bool(called) or picked)


class DataLoadingStarvation(Rule):
    """Most of the time of a step passes before the network is called."""

    fault = "data_loading_starvation"
    category = "resource"
    finds = "Steps that spend most of their time waiting for the next batch before the network is called."
    evidence = ("time from the end of a step to the next call of the network, against the whole step",)
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        waits, shares = case.waits, case.wait_shares
        if waits.count < STEPS:
            return
        seconds = median([value for _, value in waits.points[2:]])
        share = median([value for _, value in shares.points[2:]])
        if seconds < SECONDS or share < SHARE:
            return
        loaders = [part for (kind, _), part in case.parts.items() if kind == "loader"]
        fed = {name: seen.count for name, seen in case.batches.loaders.items()}
        part = max(loaders, key=lambda one: fed.get(one.name, 0), default=None)
        workers = part.settings.get("workers") if part is not None else None
        together = any(kind in ("wrapper", "agreement") for kind, _ in case.parts) or case.noted.of(
            "collectives_differ"
        )
        if part is None and together:
            return  # ranks wait for each other there
        if workers or (part is None and seconds < 2 * SECONDS):
            return  # processes that share a busy machine wait for each other: that is not the loader's doing
        if part is not None:
            how = "the loader works with num_workers=0, in the training's own process"
            fix = (
                "load in the background: DataLoader(…, num_workers=4, persistent_workers=True), and do slow work once,"
                " not for every sample"
            )
        else:
            how = "no loader was seen: the loop prepares its batches itself, or does something else between two steps"
            fix = "prepare batches in the background (a DataLoader with num_workers), or once before the training"
        told = case.noted.of("fed_by")
        made = told[0][1].source if told else None
        if part is None and (made is None or _takes_no_time(made.code)):
            return  # the loop waits, logs or plays between two steps: that is no input that comes late
        yield self.finding(
            "training waits for its data",
            confidence=0.86,
            since_step=0,
            where=where(part.source if part is not None else made, op="DataLoader" if part is not None else None),
            why=f"{number(share * 100)} % of each step ({number(seconds * 1000)} ms of it) passes before the network"
            f" is called:"
            f" the training waits for its input data and the processor starves; {how}, and loading is slower than"
            " computing",
            facts=[
                ("milliseconds before the network is called, median", seconds * 1000),
                ("share of the step", share),
                ("workers of the loader", workers),
                ("steps measured", waits.count),
            ],
            fix=(fix,),
            confirm=(
                "run over the loader alone and time it: it takes nearly as long as training"
                if part is not None
                else "time what the loop does from the update to the next call of the network",
            ),
        )
