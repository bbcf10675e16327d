"""Two runs side by side, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import tensight
from tensight.compare import page as one_file
from tests.compare.written import chain
from tests.page.conftest import Open, Watched
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("pair")
    chain(folder / "right")
    chain(folder / "ported", wrong_from=25)
    with serving(folder) as made:
        yield made


def centred(row: Locator, inside: str = ".side-rows") -> bool:
    """Whether a row stands in the middle of its list."""
    middle = "element => { const box = element.getBoundingClientRect(); return box.top + box.height / 2; }"
    height = row.evaluate("element => element.offsetHeight")
    return bool(abs(row.evaluate(middle) - row.page.locator(inside).first.evaluate(middle)) < 2 * height)


def test_the_list_of_runs_leads_to_a_comparison_with_the_first_divergence_in_the_middle(
    open_page: Open, pair: Served
) -> None:
    page = open_page("/", pair)
    page.get_by_role("link", name="Compare two runs").click()
    page.get_by_label("Run A").select_option("right")
    page.get_by_label("Run B").select_option("ported")
    expect(page.locator(".fault").first).to_contain_text("layer25")
    expect(page.locator(".fault").first).to_contain_text("1.005 times")
    expect(page.locator("header .pill")).to_have_text("different")
    for side in ("A: right", "B: ported"):
        row = page.get_by_role("listbox", name=side).get_by_role("option", selected=True)
        expect(row).to_contain_text("layer25")
        assert centred(row)
    assert "a=right&b=ported" in page.url


def test_what_is_picked_on_one_side_is_picked_on_the_other(open_page: Open, pair: Served) -> None:
    page = open_page("/compare?a=right&b=ported", pair)
    left = page.get_by_role("listbox", name="A: right")
    right = page.get_by_role("listbox", name="B: ported")
    expect(left.get_by_role("option", selected=True)).to_contain_text("layer25")
    right.get_by_role("option", name="layer31").click()
    expect(left.get_by_role("option", selected=True)).to_contain_text("layer31")
    assert centred(left.get_by_role("option", selected=True))
    left.press("ArrowDown")
    expect(right.get_by_role("option", selected=True)).to_contain_text("layer32")
    expect(page.locator(".chosen")).to_contain_text("cosine")
    page.get_by_role("button", name="First divergence").click()
    expect(right.get_by_role("option", selected=True)).to_contain_text("layer25")


def test_one_file_shows_the_same_and_runs_nothing_else(watched: Watched, tmp_path: Path) -> None:
    a = chain(tmp_path / "a", prefix=EVIL)
    b = chain(tmp_path / "b", prefix=EVIL, wrong_from=25)
    one_file.write(tensight.compare(a, b), tmp_path / "pair.html", "a", EVIL)
    page = watched.page()
    page.on("dialog", lambda dialog: watched.errors.append(dialog.message))
    page.goto((tmp_path / "pair.html").as_uri())
    first = page.locator("tr.first")
    expect(first).to_have_count(1)
    expect(first).to_contain_text(f"{EVIL}25")
    expect(first).to_have_attribute("aria-selected", "true")
    assert centred(first, ".pair")
    page.locator(".pair tbody tr").nth(3).click()
    expect(page.locator(".pair tbody tr").nth(3)).to_have_attribute("aria-selected", "true")
    expect(first).to_have_attribute("aria-selected", "false")
    assert page.locator("polyline").count() == 2
    watched.hosts.discard("")


def test_runs_that_are_not_there_are_said_so(open_page: Open, pair: Served) -> None:
    page = open_page("/compare?a=right&b=nothing", pair)
    expect(page.get_by_text("There is no run 'nothing' here.")).to_be_visible()
