"""The tree of modules cut by network and rank, and searched by kind and type, on real trainings."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.page.conftest import Open
from tests.server.serving import Served

expect.set_options(timeout=60_000)


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("group", name="Filters of modules").get_by_label(label, exact=True).select_option(option)


def test_one_network_of_a_gan_is_chosen(real: Served, open_page: Open) -> None:
    page = open_page("/run/gan", real)
    tree = page.get_by_role("tree", name="Modules")
    expect(tree.get_by_role("treeitem", level=1)).to_have_text([re.compile("^generator"), re.compile("^judge")])
    choose(page, "Network of modules", "judge")
    expect(tree.get_by_role("treeitem", level=1)).to_have_text([re.compile("^judge")])
    expect(tree.get_by_role("treeitem", level=2)).to_have_count(3)
    tree.get_by_role("treeitem", name="1 LeakyReLU").click()
    expect(page.locator(".inspector .about-node")).to_contain_text("LeakyReLU in judge")
    assert page.get_by_label("Rank of modules").count() == 0  # there is only one


def test_kind_and_type_search_within_the_network(real: Served, open_page: Open) -> None:
    page = open_page("/run/gan", real)
    choose(page, "Type of module", "Linear")
    found = page.get_by_role("list", name="Modules found").get_by_role("button")
    expect(found).to_have_count(4)
    expect(found.first).to_contain_text("generator")
    choose(page, "Network of modules", "judge")
    expect(found).to_have_count(2)
    choose(page, "Kind of tensor", "activation")
    expect(page.get_by_text("No module fits.")).to_be_visible()
    choose(page, "Type of module", "LeakyReLU")
    expect(found).to_have_count(1)
    found.click()
    expect(page.locator(".inspector .about-node")).to_contain_text("LeakyReLU in judge")


def test_a_module_that_only_one_rank_has_is_found_and_leads_to_that_rank(ranked: Served, open_page: Open) -> None:
    page = open_page("/run/ranks", ranked)
    tree = page.get_by_role("tree", name="Modules")
    expect(tree.get_by_role("treeitem", name="3 Tanh")).to_have_count(1)
    choose(page, "Rank of modules", "0")
    expect(tree.get_by_role("treeitem", name="3 Tanh")).to_have_count(0)
    choose(page, "Rank of modules", "")
    tree.get_by_role("treeitem", name="3 Tanh").click()
    expect(page.locator(".inspector .about-node")).to_contain_text("Tanh in generator")
    expect(page.get_by_role("group", name="Rank", exact=True).locator("[aria-current=true]")).to_have_text("1")
    assert "rank=1" in page.url
    choose(page, "Rank of modules", "0")
    tree.get_by_role("treeitem", name="2 Linear").first.click()
    expect(page.get_by_role("group", name="Rank", exact=True).locator("[aria-current=true]")).to_have_text("0")
