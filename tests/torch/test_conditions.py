"""Every condition of the debugger on PyTorch: provoked, paused on, asked again, stepped over, ended by hand."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.nn import functional

import tensight
from tensight.capture.companion import Companion
from tensight.control import Step, Terminate
from tensight.control.messages import Status
from tensight.session.controlling import Controlling, RecorderDesk
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.watchpoints import spec
from tests.control.test_controlling import FakeLink

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


class Lenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(4 * 36, 10)

    def forward(self, x: Any) -> Any:
        return self.fc(self.relu(self.conv(x)).flatten(1))

    @staticmethod
    def batch() -> Any:
        return torch.randn(8, 1, 8, 8)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 12, batch_first=True)
        self.tanh = nn.Tanh()
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Any) -> Any:
        return self.fc(self.tanh(self.lstm(x)[0][:, -1]))

    @staticmethod
    def batch() -> Any:
        return torch.randn(8, 5, 6)


class Former(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
        self.gelu = nn.GELU()
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Any) -> Any:
        return self.fc(self.gelu(self.layer(x).mean(1)))

    @staticmethod
    def batch() -> Any:
        return torch.randn(8, 5, 12)


def spoil(model: Any) -> None:
    """Weights at the end of what float32 holds: whatever the sign of what comes in, a result overflows."""
    with torch.no_grad():
        model.fc.weight[0].fill_(3e38)
        model.fc.weight[1].fill_(-3e38)
        model.fc.bias[:2] = 3.4e38


def train(kind: type[Any], rate: float, change: Callable[[Any], None]) -> list[float]:
    torch.manual_seed(0)
    model = kind()
    change(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(6):
        x, y = kind.batch(), torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", [Lenet, Recurrent, Former])
@pytest.mark.parametrize("conditions", [CALM, WILD], ids=["calm", "wild"])
def test_each_condition_is_provoked_paused_on_asked_again_stepped_over_and_ended(
    kind: type[Any], conditions: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    link = FakeLink(pages=1)
    asked: list[str] = []

    def ask_again() -> None:
        run_so_far = tensight.open(folder)
        asked.extend(code for code, text in conditions.items() if run_so_far.check(text))

    def companions(session: Session) -> list[Companion]:
        recorder = session.recorder
        return [Controlling(cast("Any", link), RecorderDesk(recorder), recorder.stop)]

    points = tuple(spec.parse(text, 0) for text in conditions.values())
    settings = Settings(run_dir=folder, page=False, recommended=False, watchpoints=points, budget=100.0)
    session = Session(settings, Terminal(io.StringIO()), companions)
    link.script.extend([ask_again, Step(), ask_again, Terminate()])
    session.start()
    try:
        with pytest.raises(SystemExit):  # it is ended
            train(kind, 0.05, lambda model: None) if conditions is CALM else train(kind, 1e38, spoil)
    finally:
        session.finish("stopped", script_exit=0)
    assert session.recorder.lost == {}
    hit = {one.condition for one in tensight.open(folder).hits if one.error is None}
    assert hit == set(conditions)
    assert set(asked) == set(conditions)
    paused = sorted(
        {one.machine.step for one in link.sent if isinstance(one, Status) and one.machine.state == "paused"}
    )
    assert len(paused) == 2
    assert paused[1] == paused[0] + 1
    assert session.recorder.step == paused[1] + 1
