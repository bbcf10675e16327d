"""What a training hands to the page itself: prints, samples of its data, hooks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Open
from tests.page.trainings import record
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("handed")
    record(folder, "handing")
    with serving(folder / "runs") as made:
        yield made


@pytest.fixture
def data(handed: Served, open_page: Open) -> Page:
    return open_page("/run/handing?tab=data", handed)


def test_texts_and_tensors_of_tensight_print_are_shown_with_step_and_line(handed: Served, open_page: Open) -> None:
    page = open_page("/run/handing?tab=output", handed)
    page.get_by_role("link", name="tensight.print").click()
    prints = page.get_by_role("list", name="Prints").get_by_role("listitem")
    expect(prints).to_have_count(4)
    expect(prints.first).to_contain_text("x is")
    expect(prints.first).to_contain_text("float32 4×3")
    expect(prints.first).to_contain_text(re.compile(r"handing\.py:\d+"))
    expect(prints.nth(3)).to_contain_text("1 NaN")
    page.get_by_label("Search the prints").fill("<b>bold")
    expect(prints).to_have_count(1)
    expect(prints).to_contain_text("<b>bold</b>")  # as text
    prints.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/step/1\?.*part=prints"))
    page.reload()
    expect(page.get_by_role("list", name="Prints")).to_be_visible()


def test_images_of_a_batch_are_shown_with_their_labels(data: Page) -> None:
    batch = data.get_by_role("article").filter(has_text="[4, 3, 8, 8]").first
    pictures = batch.get_by_role("img")
    expect(pictures).to_have_count(3)
    sizes = [one.evaluate("(one) => one.decode().then(() => one.naturalWidth)") for one in pictures.all()]
    assert sizes == [8, 8, 8]
    expect(batch.get_by_role("listitem").nth(1)).to_contain_text("dog")


def test_texts_and_tables_of_batches_are_shown_and_what_is_odd_is_said(data: Page) -> None:
    expect(data.locator(".sample-text").first).to_have_text("a <i>quick</i> fox")
    table = data.get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(["Sample", "age", "height", "Label"])
    expect(table.get_by_role("row").nth(1)).to_contain_text("1.75")
    expect(data.get_by_text("2 samples and 3 labels: they do not belong together")).to_be_visible()


def test_hooks_that_are_set_and_those_taken_off_are_listed(handed: Served, open_page: Open) -> None:
    page = open_page("/run/handing?tab=run", handed)
    rows = page.get_by_role("region", name="Hooks").get_by_role("row")
    expect(rows.filter(has_text="on_gradient gradient:*")).to_contain_text("2 places")
    expect(rows.filter(has_text="on_gradient gradient:*").get_by_role("cell").last).to_have_text("set")
    expect(rows.filter(has_text="on_forward").get_by_role("cell").last).to_have_text("taken off")


@pytest.mark.parametrize(
    ("tab", "said"),
    [("data", "No batch was looked at"), ("output&part=prints", "Nothing was printed with tensight.print")],
)
def test_a_run_without_any_says_how_to_have_some(open_page: Open, tab: str, said: str) -> None:
    page = open_page(f"/run/lenet-1?tab={tab}")
    expect(page.get_by_text(said)).to_be_visible()
    expect(page.locator(".command")).to_contain_text("tensight.")
