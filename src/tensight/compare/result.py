"""What a comparison says."""

from __future__ import annotations

from typing import Any

import msgspec

from tensight.compare.alignment import Aligned
from tensight.compare.preflight import Difference


class Divergence(msgspec.Struct, frozen=True):
    """A place where two runs part: `error` against `floor`, which rounding alone explains."""

    module: str
    module_b: str
    op: str | None
    step: int
    phase: str  # 'start' | 'input' | 'forward' | 'backward' | 'update'
    error: float
    floor: float
    likely_cause: str
    file: str | None = None
    line: int | None = None
    tensor: str = ""  # 'output.0', 'weight', 'gradient of weight', 'loss'
    aligned_by: str = "path"
    rank: int | None = None  # where several ranks were compared one by one


class LossVerdict(msgspec.Struct, frozen=True):
    """The first step whose losses differ, and what that says: 'forward', 'backward_or_update' or 'none'."""

    first_step_differs: int | None
    verdict: str
    a: float | None = None
    b: float | None = None


class LossPair(msgspec.Struct, frozen=True):
    """The losses of one step; `relative` is their distance over the larger one."""

    step: int
    a: float
    b: float
    relative: float


class Restored(msgspec.Struct, frozen=True):
    """One thing a resumed training must get back: `restored` is None where it cannot be told."""

    what: str  # 'weights' | 'buffers' | 'data position' | 'random state' | 'scheduler' | 'scaler' | 'optimizer state'
    restored: bool | None
    why: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """Two runs or checkpoints against each other: `first_divergence` is where to look."""

    verdict: str
    preflight: list[Difference]
    loss: LossVerdict
    first_divergence: Divergence | None
    faults: list[Divergence]
    rows: list[dict[str, Any]]
    reason: str = ""
    steps: int = 0
    losses: list[LossPair] = []
    resumed: list[Restored] = []  # of a resumed training: what was, and what was not
    aligned: list[Aligned] = []  # pairs of modules that only their order and shapes speak for

    def to_dict(self) -> dict[str, Any]:
        """As `tensight compare --json` prints it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def __str__(self) -> str:
        from tensight.compare.telling import told

        return told(self)

    def _repr_html_(self) -> str:
        import html

        first = self.first_divergence
        text = f"<p><b>{self.verdict}</b> {html.escape(self.reason)}</p>"
        if first is not None:
            place = html.escape(first.module or "the model")
            text += f"<p>first at step {first.step}, {first.phase}: <code>{place}</code>: "
            text += f"{html.escape(first.likely_cause)}</p>"
        return text
