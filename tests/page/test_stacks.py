"""Stacks on a real training: from a source line to its operators and back."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.server.serving import Served

expect.set_options(timeout=60_000)


def test_every_line_that_made_operators_is_listed_and_found(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=stacks", real)
    rows = page.locator(".line-rows tr.hit")
    expect(rows.filter(has_text="gpt.py:17")).to_contain_text("self.qkv(x).view")
    expect(rows.filter(has_text="gpt.py:17").locator("td").last).to_have_text(re.compile(r"^\d+$"))
    page.get_by_label("Search source lines").fill("optimizer.step")
    expect(rows).to_have_count(1)
    page.get_by_label("Search source lines").fill("nothing like this")
    expect(page.get_by_text("No line fits.")).to_be_visible()


def test_a_line_leads_to_its_operators_and_an_operator_back_to_its_line(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=stacks", real)
    page.locator(".line-rows tr.hit").filter(has_text="gpt.py:18").click()
    source = page.get_by_label("Source around the line")
    expect(source.locator("[aria-current=true]")).to_contain_text(
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    )
    expect(source).to_contain_text("class Attention(nn.Module):")
    expect(page).to_have_url(re.compile(r"line=\d+"))
    operators = page.get_by_role("list", name="Operators of this line")
    expect(operators.get_by_role("listitem")).to_have_count(12)
    operators.get_by_role("button", name=re.compile(r"layers\.4\.attention")).click()
    panel = page.locator(".operator-panel")
    expect(panel).to_contain_text("operator, forward in layers.4.attention")
    expect(page.locator(".inspector h2")).to_have_text("layers.4.attention")
    panel.get_by_role("button", name="gpt.py:18 forward").click()
    expect(page.get_by_role("tab", name="Stacks")).to_have_attribute("aria-selected", "true")
    expect(source.locator("[aria-current=true]")).to_contain_text("scaled_dot_product_attention")


def test_the_stack_of_a_node_folds_the_lines_of_libraries(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=graph", real)
    page.get_by_label("Search the graph").fill("layers.2.attention.qkv addmm")
    page.get_by_label("Found in the graph").get_by_role("button").first.click()
    page.locator(".operator-panel").get_by_role("button", name="Stack", exact=True).click()
    stack = page.get_by_label("Stack, innermost line first")
    expect(stack).to_contain_text("gpt.py:17")
    expect(stack).to_contain_text("gpt.py:30")
    expect(stack).not_to_contain_text("torch/nn/modules/linear.py")
    stack.get_by_role("button", name=re.compile("of libraries")).first.click()
    expect(stack).to_contain_text("torch/nn/modules/linear.py")
    page.get_by_role("button", name="Show it in the graph").click()
    expect(page.locator(".sheet .box.on")).to_contain_text("aten.addmm")
