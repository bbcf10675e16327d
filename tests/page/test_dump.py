"""A dump that others made, opened by `tensight view DUMP`: hits, tensors, ranks, steps, recheck."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Watched

expect.set_options(timeout=60_000)
LONG = 60
GOLDEN = Path(__file__).parents[1] / "dump" / "golden"
FIRST = "MatMul.Default_network-WithLossCell__backbone-Net_first-Dense*output.0*"


@contextmanager
def viewed(dump: Path, cache: Path) -> Iterator[str]:
    """The address that `tensight view` prints for a dump."""
    environment = {**os.environ, "TENSIGHT_CACHE": str(cache), "TENSIGHT_STATE": str(cache / "state")}
    command = [sys.executable, "-m", "tensight", "view", str(dump), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("page "), line
        yield line.split()[1]
    finally:
        process.terminate()
        process.wait(LONG)
        process.stdout.close()


@pytest.fixture(scope="module")
def mindspore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """MindSpore's own dump, as if of two ranks; in step 1 the second saw twice the values after its first operator."""
    folder = tmp_path_factory.mktemp("dump")
    dump = folder / "net-dump"
    shutil.copytree(GOLDEN / "mindspore-2.10", dump)
    shutil.copytree(dump / "rank_0", dump / "rank_1")
    (changed,) = (dump / "rank_1/Net/0/0").glob(FIRST)
    np.save(changed, 2 * np.load(changed))
    with viewed(dump, folder / "cache") as address:
        yield address, dump


@pytest.fixture
def page(mindspore: tuple[str, Path], watched: Watched) -> Page:
    page = watched.page()
    page.goto(mindspore[0])
    page.wait_for_url("**/run/net-dump**")  # the only run there is
    return page


def go_to_step(page: Page, step: int) -> None:
    page.get_by_label("Step shown").fill(str(step))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/step/{step}"))


def test_a_dump_is_explained_and_its_hits_are_listed(page: Page) -> None:
    expect(page.locator(".finding").first).to_contain_text("since")
    page.get_by_role("tab", name="Hits").click()
    page.get_by_label("Condition").select_option("OO")
    row = page.locator("tr.hit").first
    expect(row).to_contain_text("first")
    expect(row.locator("td").first).to_have_text("1")
    row.click()
    expect(page.locator(".inspector h2")).to_have_text("first")


def test_a_dump_is_checked_again_with_another_watchpoint(page: Page) -> None:
    page.get_by_role("tab", name="Hits").click()
    go_to_step(page, 0)
    page.get_by_label("New watchpoint").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Condition").select_option("TL")
    form.locator("[name=max_gt]").fill("-1000000")
    form.locator("[name=on]").fill("operator:first")
    form.get_by_role("button", name="Watch").click()
    page.get_by_role("button", name="Recheck step 0").click()
    rows = page.locator("tr.hit").filter(has_text="TL(max_gt=-1000000)")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("first MatMul output.0")
    expect(rows.first.locator("td").first).to_have_text("0")


def test_every_step_and_rank_of_a_dump_can_be_gone_to_and_its_values_are_those_of_the_files(
    page: Page, mindspore: tuple[str, Path]
) -> None:
    page.get_by_role("treeitem", name="first").first.click()
    go_to_step(page, 0)
    page.get_by_label("View operator MatMul first output.0", exact=True).click()
    expect(page.locator(".heat canvas")).to_have_attribute("data-painted", "48")
    (path,) = (mindspore[1] / "rank_0/Net/0/0").glob(FIRST)
    values = np.load(path)
    page.get_by_role("button", name="table", exact=True).click()
    cells = page.get_by_role("table", name="Values").locator("tbody td")
    expect(cells).to_have_count(values.size)
    shown = np.array([float(cell.get_attribute("title") or "") for cell in cells.all()], np.float32)
    assert np.array_equal(shown, values.reshape(-1))
    page.get_by_label("Compare with").select_option("rank:1")
    said = page.get_by_test_id("difference")
    expect(said).to_contain_text("differ from step 0, rank 1")
    largest = re.search(r"largest difference ([\d.e−-]+)", said.inner_text())
    assert largest is not None
    assert float(largest[1].replace("−", "-")) == pytest.approx(float(np.abs(values).max()), rel=1e-4)
    page.get_by_label("Compare with").select_option("step:1")
    expect(said).to_contain_text("differ from step 1")
    page.get_by_role("group", name="Rank", exact=True).get_by_role("link", name="1").click()
    expect(page).to_have_url(re.compile("rank=1"))
    page.get_by_label("Compare with").select_option("")
    expect(page.get_by_role("table", name="Values").locator("tbody td").first).to_have_attribute(
        "title", re.compile(re.escape(f"{2 * float(values[0, 0]):.6g}"[:6]))
    )


def test_the_graph_of_a_dump_is_drawn(page: Page) -> None:
    page.get_by_role("tab", name="Graph").click()
    expect(page.locator(".sheet .box").first).to_be_visible()
    page.get_by_label("Search the graph").fill("head MatMul")
    page.get_by_label("Found in the graph").get_by_role("button").first.click()
    expect(page.locator(".operator-panel")).to_contain_text("MatMul")


def test_a_dump_of_pytorch_opens_with_its_hits_and_values(watched: Watched, tmp_path: Path) -> None:
    with viewed(GOLDEN / "msprobe-26.2-tensor", tmp_path / "cache") as address:
        page = watched.page()
        page.goto(address)
        page.wait_for_url("**/run/msprobe-26.2-tensor**")
        page.get_by_role("tab", name="Hits").click()
        page.get_by_label("Condition").select_option("TO")
        page.locator("tr.hit").filter(has_text="head").first.click()
        expect(page.locator(".inspector h2")).to_have_text("head")
        page.get_by_label("View output head output.0", exact=True).click()
        expect(page.locator(".heat canvas")).to_have_attribute("data-painted", re.compile(r"\d+"))
        expect(page.get_by_role("region", name="Statistics").locator("tbody tr").first).to_contain_text("1")
