"""The page drives a real MindSpore training: connect, hit, step, next node, continue, terminate."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.page.conftest import Watched
from tests.page.test_torch import LONG, command

expect.set_options(timeout=60_000)
SCRIPT = """
import time
import numpy as np
import mindspore as ms
from mindspore import nn
ms.set_context(mode=ms.PYNATIVE_MODE)
ms.set_seed(0)
net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = nn.SGD(net.trainable_params(), 0.05)
grad = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)
noise = np.random.RandomState(0)
for step in range(1_000_000):
    x = noise.randn(16, 8).astype(np.float32)
    loss, grads = grad(ms.Tensor(x), ms.Tensor((x.sum(1) > 0).astype(np.int32)))
    optimizer(grads)
    print("loss", float(loss))
    time.sleep(0.02)
"""


def test_a_mindspore_training_is_driven_by_its_page(tmp_path: Path, watched: Watched) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    with command(tmp_path, "run", "train.py") as running:
        page = watched.page()
        page.goto(running.url())
        state = page.locator("header.top .pill").first
        expect(state).to_contain_text("running")
        page.get_by_label("New watchpoint").click()
        form = page.get_by_role("dialog")
        form.get_by_label("Condition").select_option("TL")
        form.locator("[name=max_gt]").fill("-1000")
        form.locator("[name=on]").fill("output:2")
        form.get_by_role("button", name="Watch").click()
        expect(page.locator(".reason")).to_contain_text("hit on 2")  # and it pauses, since the page looks on
        expect(state).to_contain_text("paused")
        page.get_by_role("tab", name="Hits").click()
        expect(page.locator("tr.hit").last).to_contain_text("max > −1000")
        page.get_by_label("Remove Tensor too large").click()
        expect(page.locator(".point", has_text="Tensor too large")).to_have_count(0)

        at = int(page.get_by_test_id("state-step").inner_text().removeprefix("step "))
        page.get_by_label("How many steps").fill("3")
        page.get_by_role("button", name="Step", exact=True).click()
        expect(page.get_by_test_id("state-step")).to_have_text(f"step {at + 3}")
        expect(state).to_contain_text("paused")
        page.get_by_role("button", name="Next node").click()
        expect(page.locator(".reason")).to_contain_text("at 0, forward")
        page.get_by_role("treeitem", name="2 Dense").click()
        expect(page.locator(".inspector")).to_contain_text("weight.grad")
        page.get_by_role("button", name="Run to node").click()
        expect(page.locator(".reason")).to_contain_text("at 2, forward")
        page.get_by_role("tab", name="Output").click()
        expect(page.locator(".print", has_text="loss ").first).to_be_visible()
        page.get_by_role("button", name="Continue").click()
        expect(state).to_contain_text("running")
        page.get_by_role("button", name="Terminate").click()
        page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
        assert running.process.wait(LONG) == 0
        expect(state).to_contain_text("stopped")
