"""Asks the rules, keeps what they conclude, and puts causes before consequences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import msgspec

from tensight.diagnosis.case import Case
from tensight.diagnosis.dialects import framework_of, in_mindspore
from tensight.diagnosis.fold import fold
from tensight.diagnosis.rule import Rule
from tensight.records import Finding, Network, Part, Replay, StepRecord, TensorInfo

EARLY = frozenset({2, 4, 7})  # counts of steps after which every rule is asked, whatever its rhythm
SLOWER = ((100, 5), (1_000, 25), (10_000, 100))  # from so many steps on, rules are asked so many times less often

OnError = Callable[[str, BaseException], None]


def _ignore(where: str, error: BaseException) -> None:
    """The default for an engine whose caller wants no errors."""


class Engine:
    """The same live and on a recorded run: it knows records only.

    A rule that raises is reported through `on_error` and left out from then on; what it had concluded stays.
    """

    def __init__(self, rules: Sequence[Rule] | None = None, on_error: OnError = _ignore, *, rank: int = 0) -> None:
        if rules is None:
            from tensight.diagnosis.rules import all_rules

            rules = all_rules(on_error)
        self.case = Case()
        self._rules = list(rules)
        self._on_error = on_error
        self.rank = rank
        self._concluded: dict[Rule, list[Finding]] = {}
        self._since: dict[str, int] = {}  # the earliest step a finding was ever said to be true of
        self._told: set[str] = set()
        self._folded: list[Finding] | None = []
        self._rhythm: list[tuple[Rule, int]] = []
        self._next_slower = 0

    def network(self, network: Network) -> None:
        self.case.network(network)

    def part(self, part: Part) -> None:
        self.case.part(part)

    def tensor(self, info: TensorInfo) -> None:
        self.case.tensor(info)

    def step(self, record: StepRecord) -> list[Finding]:
        """One more step; answers the findings that are new with it."""
        case = self.case
        trouble = case.add(record)
        count = case.steps
        if count >= self._next_slower:
            self._slow_down(count)
        early = count in EARLY
        changed = False
        for rule, every in self._rhythm:
            if (every and (early or count % every == 0)) or (trouble and rule.urgent):
                changed |= self._ask(rule, final=False)
        return self._new() if changed else []

    def _slow_down(self, count: int) -> None:
        """Most faults show early; what comes later can wait a little longer to be noticed."""
        factor = max((times for begin, times in SLOWER if begin <= count), default=1)
        self._next_slower = min((begin for begin, _ in SLOWER if begin > count), default=sys.maxsize)
        self._rhythm = [(rule, rule.every * factor) for rule in self._rules]

    def replay(self, replay: Replay) -> list[Finding]:
        """A bad step was run again; answers the findings that are new with what it showed."""
        self.case.replay(replay)
        changed = False
        for rule in list(self._rules):
            if rule.urgent:
                changed |= self._ask(rule, final=False)
        return self._new() if changed else []

    def rest(self, record: StepRecord) -> None:
        """What came after the last step (an evaluation, say): it is evidence, but no step of its own."""
        self.case.rest(record)

    def end(self, *, crashed: bool) -> list[Finding]:
        """The run is over: every rule is asked a last time."""
        self.case.crashed = crashed
        # Twice: a rule that gives way to others must see what they say in the end.
        for _ in range(2):
            for rule in list(self._rules):
                self._ask(rule, final=True)
        return self._new()

    @property
    def findings(self) -> list[Finding]:
        """What stands now: most certain root cause first, consequences folded into it."""
        if self._folded is None:
            said = [(rule, finding) for rule, findings in self._concluded.items() for finding in findings]
            self._folded = fold(said)
        return self._folded

    def _ask(self, rule: Rule, *, final: bool) -> bool:
        try:
            findings = [self._settled(finding) for finding in rule.conclude(self.case, final=final)]
            if findings and framework_of(self.case.parts) == "mindspore":
                findings = [in_mindspore(finding) for finding in findings]
        except Exception as error:
            self._rules = [other for other in self._rules if other is not rule]
            self._slow_down(self.case.steps)
            self._on_error(f"rule {rule.fault}", error)
            return False
        known = self._concluded.get(rule, [])
        if findings == known or (rule.lasting and known and not findings):
            return False
        self._concluded[rule] = findings
        self._folded = None
        self.case.findings_of = {
            finding.fault: finding.since_step for said in self._concluded.values() for finding in said
        }
        return True

    def _settled(self, finding: Finding) -> Finding:
        """With the rank, and the earliest step that was ever said."""
        since = min(finding.since_step, self._since.get(finding.key, finding.since_step))
        self._since[finding.key] = since
        if since == finding.since_step and finding.rank == self.rank:
            return finding
        return msgspec.structs.replace(finding, since_step=since, rank=self.rank)

    def _new(self) -> list[Finding]:
        new = [finding for finding in self.findings if finding.key not in self._told]
        self._told.update(finding.key for finding in new)
        return new
