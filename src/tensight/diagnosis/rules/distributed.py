"""Ranks that no longer agree."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.records import Evidence, Finding, Where

NEEDED = 2  # steps in a row; one alone may be a warm-up


class DdpWrapperBypassed(Rule):
    """A wrapped model that is called past its wrapper, so gradients are never averaged."""

    fault = "ddp_wrapper_bypassed"
    category = "distributed"
    finds = "The wrapped module is called instead of DistributedDataParallel, so that gradients are never averaged."
    evidence = ("whether the wrapper's own forward ran before each update", "whether gradients were averaged by hand")
    explains = frozenset({"replicas_diverge"})

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        since, event, count = case.alone.since, case.alone.event, case.alone.count
        if since is None or event is None or count < NEEDED:
            return
        parameter = str(event.values.get("parameter", ""))
        line = event.source
        yield Finding(
            fault=self.fault,
            category=self.category,
            title=f"{event.part} is bypassed: ranks train alone and diverge",
            confidence=0.95,
            since_step=since,
            where=Where(
                module="module",
                op="forward",
                parameter=parameter or None,
                file=line.file if line else None,
                line=line.line if line else None,
                code=line.code if line else None,
            ),
            why=(
                f"gradients of {event.values.get('parameters')} parameters were used by the optimizer although the"
                f" forward of {event.part} was not called before: it averages (all-reduces) gradients between ranks"
                " only in a backward pass that follows its own forward. Each process now trains its own replica, and"
                " the replicas differ from the first update on"
            ),
            evidence=(
                Evidence("updates without the wrapper's forward", count),
                Evidence("first parameter with a gradient of this rank alone", parameter),
            ),
            fix=("call the wrapper itself, not its .module: ddp(x) instead of ddp.module(x)",),
            confirm=("compare one weight between ranks after a step: they differ",),
        )
