"""Hooks that become more with every step."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, where
from tensight.records import Finding


class HooksPileUp(Rule):
    """A hook that is registered anew in every step, beside those of all steps before."""

    fault = "hooks_pile_up"
    category = "resource"
    finds = "A line that registers one more hook on the same module or parameter in every step and removes none."
    evidence = ("hooks that one line has registered on one object and that are still there, over the steps",)
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for _, event in case.noted.of("hooks_kept"):
            module = event.values.get("module")
            path = module if isinstance(module, str) else None
            owner, alive, since = (event.values.get(name) for name in ("owner", "alive", "since"))
            on = f"{path} ({owner})" if path else f"a {owner}"
            yield self.finding(
                f"hooks on {on} pile up: one more is registered each step",
                confidence=0.92,
                since_step=since if isinstance(since, int) else 0,
                where=where(event.source, module=path, network=event.part or None),
                why=f"the line{at(event.source)} registers a hook on {on} in every step, and none is removed:"
                f" {alive} hooks are there by now and all of them are called each time. Steps become slower and slower,"
                " what hooks keep or change is kept or changed once more by each, and memory grows",
                facts=[("hooks that are there", alive), ("first step that added one", since)],
                fix=(
                    "register the hook once, before the loop; or keep what register gives back and call"
                    " handle.remove() at the end of the step",
                ),
                confirm=("print(len(module._forward_hooks)) each step: it grows",),
            )
