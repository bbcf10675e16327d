"""Everything that changes a training is written down: who, when, at which step, what."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import tensight
from tensight.capture.recorder import StopTraining
from tensight.cli import main
from tensight.control.address import Address, find_beside
from tensight.mcp.driving import Driving
from tensight.records.audit import AuditEntry
from tensight.runs import audit, open_run
from tensight.session.companions import companions
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.store import layout
from tensight.store.frame import pack
from tensight.store.journal import AUDIT, KIND
from tensight.watchpoints import spec
from tests.page.recorded import write_run
from tests.trust.programs import ENDLESS, LONG, started, until


def did(folder: Path) -> list[tuple[str, str]]:
    return [(entry.who, entry.words) for entry in audit.audit(folder)]


@pytest.mark.timeout(1200)
def test_commands_of_the_page_and_of_an_agent_are_told_apart_and_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(ENDLESS)
    run = tmp_path / "run"
    with started(tmp_path) as process:
        address: Address = until(lambda: find_beside(run))
        agent = Driving(address.url)
        with httpx.Client(
            base_url=f"http://{address.netloc}", cookies={f"tensight_{address.port}": address.token}, trust_env=False
        ) as page:

            def state() -> str:
                answer = page.get("/api/runs/run", timeout=LONG).json()
                return str((answer.get("control") or {}).get("state", ""))

            until(lambda: state() == "running")
            assert page.post("/api/runs/run/control", json={"do": "pause"}, timeout=LONG).status_code == 200
            until(lambda: state() == "paused")
            point = {"id": 0, "condition": "TL", "parameters": {"max_gt": 1e9}, "on": "gradient:*"}
            made = page.post("/api/runs/run/watchpoints", json=point, timeout=LONG)
            assert made.status_code == 201
            number = made.json()["id"]
            agent.add_watchpoint("run", "TO on weight:*")
            assert page.delete(f"/api/runs/run/watchpoints/{number}", timeout=LONG).status_code == 200
            agent.step("run", 2)
            until(lambda: state() == "paused")
            lines = page.get("/api/runs/run/output", timeout=LONG).json()
            assert any(line["stream"] == "" and line["text"] == "mcp: step: 2 steps" for line in lines)
            assert page.post("/api/runs/run/control", json={"do": "terminate"}, timeout=LONG).status_code == 200
        process.wait(LONG)
    expected = [
        ("page", "pause"),
        ("page", "watchpoint added: TL(max_gt=1000000000) on gradient:*"),
        ("mcp", "watchpoint added: TO on weight:*"),
        ("page", f"watchpoint removed: number {number}"),
        ("mcp", "step: 2 steps"),
        ("page", "terminate"),
        ("tensight", "stop: terminated from the page"),
    ]
    assert did(run) == expected
    entries = audit.audit(run)
    paused, stopped = entries[0], entries[-1]
    assert 0 <= paused.step <= stopped.step - 2
    assert paused.time <= stopped.time
    main(["explain", str(run)])
    shown = capsys.readouterr().out
    assert "what was done to the training:" in shown
    assert "mcp       watchpoint added: TO on weight:*" in shown
    report = open_run(run).report()
    assert [(one["who"], one["did"]) for one in report["audit"]][:2] == [
        ("page", "pause"),
        ("page", "watchpoint added"),
    ]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """Makes a session in this process; it is over afterwards."""
    made: list[Session] = []

    def make(**settings: Any) -> Session:
        one = Session(Settings(run_dir=tmp_path / "run", budget=100, **settings), Terminal(io.StringIO()), companions)
        made.append(one)
        one.start()
        return one

    yield make
    for one in made:
        if one.end is None:
            one.finish("finished", script_exit=0)


def train(steps: int, *, target: float = 1.0, ready: Callable[[], None] = lambda: None) -> bool:
    """A small training; whether it came to its end."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ready()
    try:
        for _ in range(steps):
            loss = torch.nn.functional.mse_loss(model(torch.ones(8, 4)), torch.full((8, 1), target))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    except StopTraining:
        return False
    return True


def test_what_a_hook_changes_is_noted_once_and_what_it_only_sees_is_not(
    session: Callable[..., Session], tmp_path: Path
) -> None:
    def ready() -> None:
        tensight.on_gradient("gradient:0.*", lambda gradient: gradient * 0.5)
        tensight.on_gradient("gradient:2.*", lambda gradient: None)
        tensight.on_forward("1", lambda name, inputs, output: output + 0.0)
        tensight.on_parameter("2.weight", lambda parameter: parameter * 1.0)

    one = session(rewind=False)
    assert train(4, ready=ready)
    one.finish("finished", script_exit=0)
    assert sorted(did(tmp_path / "run")) == [
        ("python", "gradient changed by a hook: 0.bias"),
        ("python", "gradient changed by a hook: 0.weight"),
        ("python", "output changed by a hook: 1"),
        ("python", "parameter changed by a hook: 2.weight"),
    ]


@pytest.mark.parametrize(
    ("target", "settings", "words"),
    [
        (float("nan"), {"guard": True}, "guard: the gradient of"),
        (float("nan"), {"on_finding": "stop"}, "finding:"),
        (
            1.0,
            {"watchpoints": (spec.parse("TL(max_gt=-1e9) on output:*", 0),), "on_hit": "stop"},
            "hit: TL on output 0.output.0",
        ),
    ],
)
def test_what_stops_a_training_by_an_option_is_noted(
    target: float, settings: dict[str, Any], words: str, session: Callable[..., Session], tmp_path: Path
) -> None:
    one = session(rewind=False, **settings)
    assert not train(9, target=target)
    one.finish("stopped", script_exit=0)
    [(who, said)] = did(tmp_path / "run")
    assert who == "tensight"
    assert said.startswith(f"stop: {words}")


def test_a_training_that_nobody_touches_has_no_log(session: Callable[..., Session], tmp_path: Path) -> None:
    one = session(rewind=False)
    assert train(3)
    one.finish("finished", script_exit=0)
    assert open_run(tmp_path / "run").audit == []
    assert not list((tmp_path / "run").rglob(AUDIT))


def test_a_log_that_cannot_be_read_is_said_and_the_run_is_explained_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", steps=3, bad_from=None)
    (layout.part(tmp_path / "run", 0) / AUDIT).write_bytes(pack(KIND, b"\xc1", 1))
    main(["explain", str(tmp_path / "run")])
    assert "audit.log is damaged at byte 0" in capsys.readouterr().out


def test_a_line_of_the_log_cannot_steer_a_terminal() -> None:
    entry = AuditEntry(float("1e300"), 3, "page", "run to a node", "\x1b[31m\n")
    [line] = audit.lines([entry], ranks=True)
    assert "\x1b" not in line
    assert "\n" not in line
    assert line.startswith("?  step 3       rank 0   page")
