"""`tensight mcp` answered to a real client of the Model Context Protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tensight.errors import UsageError
from tensight.mcp.driving import Driving
from tensight.mcp.reading import Reading
from tests.page.recorded import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    write_run(made / "lenet-1")
    write_run(made / "healthy-2", steps=30, bad_from=None, watch=())
    return made


def asked(folder: Path, calls: list[tuple[str, dict[str, Any]]], *options: str) -> tuple[list[str], list[Any]]:
    """The names of the tools, and what each call answered."""

    async def talk() -> tuple[list[str], list[Any]]:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "tensight", "mcp", *options, str(folder)], cwd=str(folder)
        )
        with anyio.fail_after(200):
            async with Client(stdio_client(command)) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                answers = []
                for name, given in calls:
                    result = await client.call_tool(name, given)
                    answers.append(json.loads(result.content[0].text))
                return names, answers

    return anyio.run(talk)


def test_a_client_reads_runs_findings_numbers_and_history(folder: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("runs", {}),
        ("findings", {"run": "lenet-1"}),
        ("explain", {"run": "healthy-2"}),
        ("hits", {"run": "lenet-1", "limit": 1}),
        ("tensors", {"run": "lenet-1", "limit": 3}),
        ("first_bad", {"run": "lenet-1"}),
        ("findings", {"run": "../lenet-1"}),
        ("findings", {"run": "/etc"}),
    ]
    names, (runs, findings, healthy, hits, tensors, first_bad, outside, absolute) = asked(folder, calls)
    assert "pause" not in names
    assert {run["name"] for run in runs["runs"]} == {"lenet-1", "healthy-2"}
    assert findings["findings"][0]["title"]
    assert "Nothing wrong was found" in healthy["text"]
    assert len(hits["hits"]) == 1
    assert hits["total"] >= 1
    assert len(tensors["tensors"]) == 3
    assert "replays" in first_bad
    assert "there is no run" in outside["error"]
    assert "there is no run" in absolute["error"]


def test_statistics_and_history_of_a_tensor(folder: Path) -> None:
    reading = Reading(folder)
    node, slot = "conv.0", "weight"
    assert slot in {tensor["slot"] for tensor in reading.tensors("lenet-1", node)["tensors"]}
    statistics = reading.statistics("lenet-1", node, slot)
    assert statistics["statistics"]["count"] > 0
    points = reading.history("lenet-1", node, slot, "max", last=5)["points"]
    assert 1 <= len(points) <= 5
    with pytest.raises(UsageError, match="there is no statistic 'sum'"):
        reading.history("lenet-1", node, slot, "sum")


def test_two_runs_are_compared_by_name(folder: Path) -> None:
    assert Reading(folder).compare_runs("lenet-1", "healthy-2")["verdict"]


TRAINING = """
import pathlib, torch
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
while not pathlib.Path("enough").exists():
    loss = net(torch.randn(8, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_an_agent_drives_a_training_through_the_page(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    command = [sys.executable, "-m", "tensight", "run", "--port", "0", "--run-dir", "run", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as training:
        try:
            assert training.stderr is not None
            found = next(found for line in training.stderr if (found := re.search(r"http\S+token=\S+", line)))
            threading.Thread(target=training.stderr.read, daemon=True).start()
            driving = Driving(found[0])
            (run,) = until(lambda: [one["id"] for one in driving.trainings()["runs"] if one["state"] and one["steps"]])
            driving.pause(run)
            paused = until(lambda: state(driving, run, "paused"))
            driving.step(run, 3)
            later = until(lambda: (now := state(driving, run, "paused")) and now["step"] > paused["step"] and now)
            assert later["step"] == paused["step"] + 3
            point = driving.add_watchpoint(run, "TL(max_gt=1000) on weight:*")
            assert point["condition"] == "TL"
            with pytest.raises(UsageError, match="the page refused"):
                driving.step("no such run")
            driving.resume(run)
            (tmp_path / "enough").touch()
            assert training.wait(100) == 0
        finally:
            training.kill()


def state(driving: Driving, run: str, wanted: str) -> dict[str, Any] | None:
    control = driving.state(run)["control"]
    return control if control is not None and control["state"] == wanted else None


def until(ask: Callable[[], Any]) -> Any:
    """What `ask` answers once it answers something."""
    for _ in range(2000):
        found = ask()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def test_an_address_without_a_page_is_said_in_a_sentence() -> None:
    driving = Driving("http://127.0.0.1:9/?token=x")
    with pytest.raises(UsageError, match="does not answer"):
        driving.pause("run")
    with pytest.raises(UsageError, match="no address of a page"):
        Driving("file:///etc/passwd")
