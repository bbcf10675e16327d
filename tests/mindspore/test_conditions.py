"""Every condition of the debugger on MindSpore: provoked, paused on, asked again, stepped over, ended by hand.

LeNet, a ResNet, an LSTM and a transformer, in PyNative and graph mode, by functional loop and by `Model.train`.
"""

from __future__ import annotations

import io
import itertools
import math
import os
from pathlib import Path
from typing import Any, cast

import pytest
from mindspore import Tensor, nn

import tensight
from tensight.capture.companion import Companion
from tensight.control import Step, Terminate
from tensight.control.messages import Status
from tensight.frameworks.mindspore import inside
from tensight.replay import copying, shadowing
from tensight.session.controlling import Controlling, RecorderDesk
from tensight.session.rewind import Rewind
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.testing.pairwise import pairwise
from tensight.watchpoints import spec
from tests.control.test_controlling import FakeLink
from tests.mindspore.networks import NETWORKS, Lstm, Way, run

pytestmark = pytest.mark.timeout(1200)  # a copy may take minutes where many processes share a core
AXES = {"network": list(NETWORKS), "mode": ["pynative", "graph"], "loop": ["functional", "model"]}
WHOLE = [dict(zip(AXES, values)) for values in itertools.product(*AXES.values())]
FULL = bool(os.environ.get("TENSIGHT_FULL"))
CASES = WHOLE if FULL else pairwise(AXES)
# each network once, and each mode with each loop
ONCE = [
    {"network": "lenet", "mode": "pynative", "loop": "functional"},
    {"network": "resnet", "mode": "graph", "loop": "functional"},
    {"network": "lstm", "mode": "graph", "loop": "model"},
    {"network": "transformer", "mode": "pynative", "loop": "model"},
]

# thresholds that a calm training is beyond
CALM = {
    "TZ": "TZ(zero_percentage_ge=0)",
    "TR": "TR(max_min_gt=0.0001)",
    "TL": "TL(max_gt=-1000)",
    "TS": "TS(min_lt=1000)",
    "WI": "WI(max_gt=-1000)",
    "WL": "WL(max_gt=-1000)",
    "WS": "WS(min_lt=1000)",
    "WNC": "WNC(rtol=1000)",
    "WCL": "WCL(abs_mean_update_ratio_gt=0)",
    "WCS": "WCS(abs_mean_update_ratio_lt=1000)",
    "AR": "AR(max_min_gt=0.0001)",
    "GV": "GV(abs_mean_lt=1000)",
    "GL": "GL(max_gt=-1000)",
}
# what only values that are not finite are
WILD = {"TO": "TO", "OO": "OO", "WO": "WO", "GE": "GE"}


def calm(net: nn.Cell) -> None:
    """Nothing is changed."""


def spoil(net: nn.Cell) -> None:
    """Weights at the end of what float32 holds. Gates of an LSTM saturate before a gradient overflows by itself."""
    if isinstance(net, Lstm):
        weight, bias = net.head.weight.asnumpy().copy(), net.head.bias.asnumpy().copy()
        weight[0, 0], weight[1, 0] = 3e38, -3e38  # whatever the sign of the state, one of the two overflows
        bias[:2] = 3.4e38
        net.head.weight.set_data(Tensor(weight))
        net.head.bias.set_data(Tensor(bias))


class Link(FakeLink):
    """The other end of the control channel is the test."""

    @property
    def paused_at(self) -> list[int]:
        """Steps after which the training stood still."""
        steps = [one.machine.step for one in self.sent if isinstance(one, Status) and one.machine.state == "paused"]
        return sorted(set(steps))


def debugged(way: Way, folder: Path, conditions: dict[str, str], *, rate: float) -> tuple[Session, Link, list[bytes]]:
    """A training that pauses at its first hit, is asked again, stepped once and ended."""
    link = Link(pages=1)
    asked: list[str] = []

    def ask_again() -> None:
        run_so_far = tensight.open(folder)
        for code, text in conditions.items():
            if run_so_far.check(text):
                asked.append(code)

    def companions(session: Session) -> list[Companion]:
        recorder = session.recorder
        control = Controlling(cast("Any", link), RecorderDesk(recorder), recorder.stop, lambda text: None)
        return [Rewind(recorder, folder), control]  # it is rewind that looks inside compiled code

    points = tuple(spec.parse(text, 0) for text in conditions.values())
    settings = Settings(run_dir=folder, page=False, recommended=False, watchpoints=points, budget=100.0)
    session = Session(settings, Terminal(io.StringIO()), companions)
    link.script.extend([ask_again, Step(), ask_again, Terminate()])
    session.start()
    losses: list[bytes] = []
    try:
        losses = run(way, 6, rate=rate, change=spoil if rate > 1 else calm)
    except SystemExit:
        pass
    finally:
        session.finish("stopped", script_exit=0)
    session.asked = asked  # type: ignore[attr-defined]
    return session, link, losses


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, compiled steps are looked into."""
    monkeypatch.setattr(inside, "ENOUGH", math.inf)
    monkeypatch.setattr(shadowing, "PATIENCE", 500.0)
    monkeypatch.setattr(copying, "LIMIT", 500.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.values()))
def test_each_condition_is_provoked_paused_on_asked_again_stepped_over_and_ended(
    case: dict[str, str], tmp_path: Path
) -> None:
    way = Way(**case)
    for name, conditions, rate in (("calm", CALM, 0.05), ("wild", WILD, 1e38)):
        session, link, losses = debugged(way, tmp_path / name, conditions, rate=rate)
        assert session.recorder.lost == {}
        run_of = tensight.open(tmp_path / name)
        hit = {one.condition for one in run_of.hits if one.error is None}
        assert hit == set(conditions), f"{set(conditions) - hit} did not hit; {session.recorder.coverage}"
        assert set(session.asked) == set(conditions)  # type: ignore[attr-defined]
        assert len(link.paused_at) == 2
        assert link.paused_at[1] == link.paused_at[0] + 1
        assert losses == [], "it was not ended"
        assert session.recorder.step == link.paused_at[1] + 1


@pytest.mark.parametrize("case", WHOLE if FULL else ONCE, ids=lambda case: "-".join(case.values()))
def test_losses_are_the_same_to_the_last_bit(case: dict[str, str], tmp_path: Path) -> None:
    way = Way(**case)
    if way.mode == "graph":
        run(way)  # the first results of a compiled graph may differ from later ones in their last bits
    plain = run(way)
    folder = tmp_path / "run"
    settings = Settings(run_dir=folder, page=False, budget=100.0)
    # with copies of the process that look inside compiled code
    session = Session(settings, Terminal(io.StringIO()), lambda made: [Rewind(made.recorder, folder)])
    session.start()
    try:
        watched = run(way)
    finally:
        session.finish("finished", script_exit=0)
    assert session.recorder.lost == {}
    assert session.recorder.step == len(plain)
    assert any(info.kind == "output" for info in session.recorder.tensors.values()), "nobody looked inside"
    assert watched == plain
