"""A cause we stand behind."""

from __future__ import annotations

import msgspec

from tensight.records.words import html_rows


class Where(msgspec.Struct, frozen=True):
    """The place of a cause. `module` is '' for the root and None when no module is meant."""

    module: str | None = None
    op: str | None = None
    parameter: str | None = None
    file: str | None = None
    line: int | None = None
    code: str | None = None
    network: str | None = None


class Evidence(msgspec.Struct, frozen=True):
    """One measured fact."""

    what: str
    value: float | int | str | bool | None = None
    step: int | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cause: what, where, since when, why, and what to do. `then` lists what it spoilt afterwards."""

    fault: str
    category: str
    title: str
    confidence: float
    since_step: int
    where: Where
    why: str
    evidence: tuple[Evidence, ...] = ()
    fix: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    since: str = ""  # in words: 'backward pass; forward values were all finite'
    confirm: tuple[str, ...] = ()
    rank: int = 0
    replay: str = ""  # 'exact' | 'close' | 'not reproduced' | 'not possible' | ''
    muted: bool = False

    @property
    def key(self) -> str:
        """What mute and baseline files know a finding by: it does not change from run to run.

        >>> Finding("dead_relu", "gradient-flow", "", 1.0, 3, Where(module="fc"), "").key
        'dead_relu@fc'
        """
        place = self.where.parameter or self.where.module or ""
        return f"{self.fault}@{place}"

    def _repr_html_(self) -> str:
        place = self.where
        named = [part for part in (place.network, place.module, place.op, place.parameter) if part]
        if place.file:
            named.append(f"{place.file}:{place.line}  {place.code or ''}".strip())
        rows = [("what", self.title), ("since step", self.since_step), ("where", ", ".join(named)), ("why", self.why)]
        rows += [("fix", text) for text in self.fix]
        return html_rows(rows)
