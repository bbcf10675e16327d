"""Hits by watchpoint and network, and rows that are about to be replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tensight.records import Hit, Module, Network, RunEnd, RunInfo, StepRecord, TensorInfo, Watchpoint
from tensight.store import Writer
from tests.page.conftest import Open
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two networks and two watchpoints; each of them hit on each."""
    folder = tmp_path_factory.mktemp("pair")
    writer = Writer(folder / "pair", RunInfo("pair", ("train.py",), 1.0, "torch", "2"))
    names = {1: "large values", 2: "any NaN"}
    for id, name in names.items():
        writer.watchpoint(Watchpoint(id, "TL" if id == 1 else "TO", {"max_gt": 1.0} if id == 1 else {}, name=name))
    hits = []
    for number, network in enumerate(("generator", "judge")):
        writer.network(Network(network, "Net", (Module("", "Net"), Module("fc", "Linear"))))
        writer.tensor(TensorInfo(number, "output", "fc", "output.0", network, shape=(2,), dtype="float32"))
        for id, name in names.items():
            code = "TL" if id == 1 else "TO"
            hits.append(Hit(1, id, name, code, "output", "fc", "output.0", number, number, network=network))
    writer.step(StepRecord(0, 1.0, 0.1, loss=1.0))
    writer.step(StepRecord(1, 2.0, 0.1, loss=1.0, hits=tuple(hits)))
    writer.end(RunEnd("finished", 3.0, 0, 2))
    writer.close()
    with serving(folder) as made:
        yield made


@pytest.fixture
def page(pair: Served, open_page: Open) -> Page:
    page = open_page("/run/pair?tab=hits", pair)
    expect(page.locator("tr.hit")).to_have_count(4)
    return page


def test_hits_of_one_watchpoint_and_of_one_network_are_chosen(page: Page) -> None:
    rows = page.locator("tr.hit")
    page.get_by_label("Watchpoint", exact=True).select_option(label="TO any NaN (2)")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("any NaN")
    page.get_by_label("Network of hits").select_option("judge")
    expect(rows).to_have_count(1)
    rows.click()
    expect(page.locator(".inspector .about-node")).to_contain_text("in judge")
    page.get_by_label("Watchpoint", exact=True).select_option("")
    expect(rows).to_have_count(2)


def test_rows_that_answer_old_filters_cannot_be_pressed(page: Page) -> None:
    held: list[Route] = []
    page.route(re.compile(r"/hits\?.*condition=TO"), lambda route: held.append(route))
    page.get_by_label("Condition").select_option("TO")
    table = page.locator(".hits .scroll")
    expect(table).to_have_attribute("aria-busy", "true")
    expect(page.locator("tr.hit")).to_have_count(4)
    assert table.evaluate("(one) => one.inert")
    for route in held:
        route.continue_()
    expect(page.locator("tr.hit")).to_have_count(2)
    expect(table).to_have_attribute("aria-busy", "false")
    page.locator("tr.hit").first.click()
    expect(page.locator("tr.hit.on")).to_contain_text("any NaN")
