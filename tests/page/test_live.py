"""The page drives a training that runs: in a process of its own, with the server it has started."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tensight.store import Reader
from tests.page.conftest import Open, Watched
from tests.server.serving import TOKEN, serving

expect.set_options(timeout=60_000)
LONG = 60.0
ROOT = Path(__file__).parents[2]


class Training:
    """A training in a process of its own, and what it says."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = {**os.environ, "TENSIGHT_TOKEN": TOKEN, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "tests.page.training", str(folder), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment, text=True)
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(json.loads(line))

    def until(self, word: str) -> dict[str, Any]:
        """The next thing it says that has this word."""
        while True:
            said = self.said.get(timeout=LONG)
            if word in said:
                return said


@contextlib.contextmanager
def training(folder: Path, *options: str) -> Iterator[Training]:
    made = Training(folder, *options)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(LONG)
        made._reader.join(LONG)
        assert made.process.stdout is not None
        made.process.stdout.close()


def state(page: Page, word: str) -> None:
    expect(page.locator("header.top .pill").first).to_contain_text(word)


def step(page: Page) -> int:
    return int(page.get_by_test_id("state-step").inner_text().removeprefix("step "))


def true(page: Page, expression: str) -> None:
    """Wait for something in the page; its policy forbids what Playwright does for that."""
    deadline = time.monotonic() + LONG
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def fill(page: Page, **settings: str) -> None:
    form = page.get_by_role("dialog")
    for name, text in settings.items():
        if name == "condition":
            form.get_by_label("Condition").select_option(text)
        else:
            form.locator(f"[name={name}]").fill(text)
    form.get_by_role("button", name="Watch").click()
    expect(form).to_have_count(0)


def test_a_page_drives_a_training_from_its_first_step_to_its_end(tmp_path: Path, watched: Watched) -> None:
    with training(tmp_path / "lenet-7", "--no-recommended") as running:
        page = watched.page()
        page.goto(running.until("url")["url"])
        page.wait_for_url("**/run/lenet-7")  # the only run there is
        state(page, "running")
        expect(page.locator(".client")).to_contain_text(socket.gethostname())  # where it trains, in which process
        expect(page.locator(".client")).to_contain_text(str(running.process.pid))
        page.get_by_role("button", name="Use them").click()  # the recommended set
        expect(page.get_by_text("Recommended (")).to_be_visible()

        page.locator("body").click(position={"x": 720, "y": 600})
        page.keyboard.press("Space")
        state(page, "paused")
        at = step(page)
        page.get_by_label("How many steps").fill("5")
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.get_by_test_id("state-step")).to_have_text(f"step {at + 5}")
        state(page, "paused")

        page.get_by_role("button", name="Next node").click()
        expect(page.locator(".reason")).to_contain_text("at conv, forward")
        page.get_by_role("treeitem", name="head").first.click()
        page.get_by_role("button", name="Run to node").click()
        expect(page.locator(".reason")).to_contain_text("at head, forward")
        expect(page.get_by_role("link", name="Current node")).to_be_visible()

        page.get_by_label("New watchpoint").click()
        fill(page, condition="TL", max_gt="-1000", on="output:head.fc")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(".reason")).to_contain_text("hit on head.fc")  # and it pauses, since the page looks on
        state(page, "paused")
        page.get_by_role("tab", name="Hits").click()
        expect(page.locator("tr.hit").last).to_contain_text("max > −1000")

        page.get_by_label("Edit Tensor too large").click()
        page.get_by_role("dialog").locator("[name=max_gt]").fill("1000000")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.locator(".point", has_text="max > 1 000 000")).to_be_visible()
        page.get_by_label("Recheck this step").click()
        expect(page.get_by_text("judged again with the watchpoints of now: 0 hits")).to_be_visible()

        page.reload()  # closed and opened again while paused
        state(page, "paused")
        page.get_by_role("button", name="Continue").click()
        state(page, "running")
        page.get_by_role("button", name="Terminate").click()
        page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
        end = running.until("ended")
        assert (end["ended"], end["reason"]) == ("stopped", "terminated from the page")
        state(page, "stopped")
        expect(page.get_by_role("toolbar", name="Training control")).to_have_count(0)
        assert running.process.wait(LONG) == 0


HOLD_ANSWERS = """
window.held = [];
window.taken = 0;
const ask = window.fetch;
window.fetch = async (path, options) => {
  const answer = await ask(path, options);
  if (options?.method !== "POST" || !String(path).endsWith("/control")) return answer;
  const body = await answer.json();
  await new Promise((go) => window.held.push(go));
  return { ok: answer.ok, status: answer.status, json: async () => (setTimeout(() => window.taken++, 50), body) };
};
"""


def test_an_answer_that_comes_after_the_news_does_not_turn_time_back(tmp_path: Path, watched: Watched) -> None:
    """The live connection may tell what a command has brought about before the command itself is answered."""
    with training(tmp_path / "lenet-7", "--pace", "0.5") as running:
        page = watched.page()
        page.goto(running.until("url")["url"])
        state(page, "running")
        page.get_by_role("button", name="Pause").click()
        state(page, "paused")
        at = step(page)
        page.evaluate(HOLD_ANSWERS)
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.get_by_test_id("state-step")).to_have_text(f"step {at + 1}")
        state(page, "paused")
        true(page, "window.held.length === 1")
        page.evaluate("window.held[0]()")
        true(page, "window.taken === 1")  # the answer says 'running', which was true when it was given
        state(page, "paused")
        expect(page.get_by_role("button", name="Step", exact=True)).to_be_enabled()


def test_a_finding_pauses_a_training_that_is_looked_at(tmp_path: Path, watched: Watched) -> None:
    with training(tmp_path / "lenet-7", "--bad-from", "20", "--wait-for-page") as running:
        page = watched.page()
        page.goto(running.until("url")["url"])
        state(page, "paused")
        expect(page.locator(".finding h2")).to_have_text("gradient became NaN")
        expect(page.locator(".reason")).to_contain_text("finding: gradient became NaN")
        page.keyboard.press("c")
        state(page, "running")


def test_a_paused_training_goes_on_when_its_server_is_killed(tmp_path: Path, watched: Watched) -> None:
    with training(tmp_path / "lenet-7", "--grace", "0.2") as running:
        page = watched.page()
        page.goto(running.until("url")["url"])
        state(page, "running")
        page.get_by_role("button", name="Pause").click()
        state(page, "paused")
        (server,) = children(running.process.pid)
        os.kill(server, signal.SIGKILL)
        while "goes on" not in running.until("said")["said"]:
            pass
        expect(page.get_by_text("server gone, trying again")).to_be_visible()
        steps_on(tmp_path / "lenet-7")


@pytest.mark.parametrize("how", ["continue", "stop"])
def test_a_paused_training_does_not_wait_for_ever_when_its_page_was_closed(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("TENSIGHT_LEAVE", "1")
    with training(tmp_path / "lenet-7", "--on-leave", how) as running:
        page = watched.page()
        page.goto(running.until("url")["url"])
        state(page, "running")
        page.get_by_role("button", name="Pause").click()
        state(page, "paused")
        time.sleep(2)  # while a page is open the time does not run
        state(page, "paused")
        page.close()
        if how == "stop":
            ended = running.until("ended")
            assert (ended["ended"], ended["reason"]) == ("stopped", "nobody was there for 1 s")
        else:
            while "nobody was there for 1 s: the training goes on" not in running.until("said")["said"]:
                pass
            steps_on(tmp_path / "lenet-7")


def test_a_training_runs_on_when_its_server_is_killed(tmp_path: Path, watched: Watched) -> None:
    with training(tmp_path / "lenet-7") as running:
        page = watched.page()
        page.goto(running.until("url")["url"])
        state(page, "running")
        (server,) = children(running.process.pid)
        os.kill(server, signal.SIGKILL)
        expect(page.get_by_text("server gone, trying again")).to_be_visible()
        steps_on(tmp_path / "lenet-7")


def test_two_trainings_come_to_one_server(tmp_path: Path, open_page: Open) -> None:
    with (
        serving(None, mode="serve") as own,
        training(tmp_path / "first", "--server", f"127.0.0.1:{own.port}"),
        training(tmp_path / "second", "--server", f"127.0.0.1:{own.port}") as second,
    ):
        page = open_page("/", own)
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_role("link", name="first").click()
        page.get_by_role("button", name="Pause").click()
        state(page, "paused")
        page.get_by_role("link", name="Tensight").click()
        expect(page.locator("tr", has_text="first")).to_contain_text("paused")
        expect(page.locator("tr", has_text="second")).to_contain_text("running")
        os.kill(second.process.pid, signal.SIGKILL)
        page.get_by_role("link", name="second").click()
        state(page, "killed")
        expect(page.get_by_role("alert")).to_contain_text("The training was killed from outside")
        page.context.close()


def steps_on(folder: Path) -> None:
    """Wait until a training has made some more steps."""
    reader = Reader(folder)
    before = len(reader.steps)
    deadline = time.monotonic() + LONG
    while len(reader.steps) < before + 5:
        assert time.monotonic() < deadline, "it does not go on"
        time.sleep(0.02)
        reader.refresh()


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in listed]
