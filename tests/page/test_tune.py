"""The page's view of a search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import expect

from tensight.records.search import Search, TrialRow
from tests.page.conftest import Open
from tests.page.recorded import write_run
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)


def search() -> Search:
    trials = (
        TrialRow(0, "complete", {"lr": 0.1, "act": "relu"}, 0.5, ((0, 0.9), (1, 0.5)), 3.0, "trial-0"),
        TrialRow(1, "pruned", {"lr": 10.0, "act": "gelu"}, None, (), 1.0, "", "exploding_gradient: <b>bold</b>"),
        TrialRow(2, "complete", {"lr": 0.01, "act": "gelu"}, 0.25, (), 3.0, ""),
        TrialRow(3, "failed", {"lr": 0.001, "act": "relu"}, None, (), 1.0, "", "exit code 1"),
    )
    return Search(
        "search",
        "python train.py --lr {lr}",
        "loss",
        "minimize",
        ("lr", "act"),
        4,
        trials,
        {"lr": 0.8, "act": 0.2},
        2,
        "python train.py --lr 0.01",
        "tpe",
        "median",
        "journal.log",
        8.0,
        "finished",
    )


def write(folder: Path) -> None:
    """A search with the run of one of its trials."""
    place = folder / "search-tune-1"
    place.mkdir()
    (place / "search.json").write_bytes(msgspec.json.encode(search()))
    write_run(place / "trial-0", steps=5, bad_from=None, watch=())


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("searched")
    write(folder)
    broken = folder / "broken-tune-2"
    broken.mkdir()
    (broken / "search.json").write_text("{")
    with serving(folder) as made:
        yield made


def test_a_search_is_found_from_the_list_of_runs(open_page: Open, searched: Served):
    page = open_page("/", searched)
    searches = page.get_by_role("navigation", name="Searches")
    expect(searches).to_contain_text("search of 4 trials, best loss 0.25")
    searches.get_by_role("link", name="search-tune-1").click()
    expect(page.get_by_role("heading", name="Best loss 0.25 in trial 2")).to_be_visible()
    expect(page.get_by_text("python train.py --lr 0.01")).to_be_visible()


def test_history_importance_and_parameters_are_drawn(open_page: Open, searched: Served):
    page = open_page("/tune/search-tune-1", searched)
    expect(page.get_by_role("img", name="loss of 2 trials").locator("circle")).to_have_count(2)
    expect(page.get_by_role("region", name="Importance")).to_contain_text("80 %")
    expect(page.get_by_role("img", name="loss against lr").locator("circle.best")).to_have_count(1)
    expect(page.get_by_role("region", name="Parameter act")).to_contain_text("relu")
    ends = page.get_by_role("region", name="Parameter lr").locator("svg text")
    expect(ends.filter(has_text="0.01")).to_have_count(1)
    expect(ends.filter(has_text="0.1")).to_have_count(1)
    page.set_viewport_size({"width": 2600, "height": 900})  # text in a plot grows with it
    shown = page.get_by_role("img", name="loss against lr").bounding_box()
    assert shown is not None
    assert shown["width"] <= 800


def test_a_trial_is_a_run_and_says_why_it_was_pruned(open_page: Open, searched: Served):
    page = open_page("/tune/search-tune-1", searched)
    trials = page.get_by_role("region", name="Trials")
    expect(trials).to_contain_text("exploding_gradient: <b>bold</b>")
    trials.get_by_role("link", name="trial 0").click()
    expect(page.get_by_role("tab", name="Findings")).to_be_visible()
    assert "/run/trial-0" in page.url


@pytest.mark.parametrize("name", ["none", "broken-tune-2"])
def test_what_is_no_search_is_said(open_page: Open, searched: Served, name: str):
    page = open_page(f"/tune/{name}", searched)
    expect(page.get_by_text("This search cannot be shown")).to_be_visible()
