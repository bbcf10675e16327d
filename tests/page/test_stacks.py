"""Stacks on a real training: from a source line to its operators and back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tensight.records import Module, Network, RunEnd, RunInfo, StepRecord
from tensight.records.graph import Frame
from tensight.records.graph_builder import GraphBuilder
from tensight.store import Writer
from tests.page.conftest import Open
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A run of two graphs: a step of 120 lines, and compiled code of two."""
    folder = tmp_path_factory.mktemp("long")
    writer = Writer(folder / "long", RunInfo("long", ("train.py",), 1.0, "torch", "2"))
    writer.network(Network("net", "Net", (Module("", "Net"), Module("body", "Body"))))
    for name, lines in (("step 2", 120), ("compiled forward", 2)):
        builder = GraphBuilder(name, 2)
        scope = builder.scope("net", "body", "Body")
        last: tuple[int, ...] = ()
        for line in range(1, lines + 1):
            stack = builder.stack([Frame("train.py", line, "forward", f"x = work_{line}(x)")])
            last = (
                builder.add(f"{name.split()[0]}.op{line}", scope, inputs=last, outputs=("float32[8]",), stack=stack),
            )
        writer.graph(builder.build())
    for step in range(3):
        writer.step(StepRecord(step, 1.0, 0.1, loss=1.0))
    writer.end(RunEnd("finished", 2.0, 0, 3))
    writer.close()
    with serving(folder) as made:
        yield made


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


def test_many_lines_come_in_pages(long: Served, open_page: Open) -> None:
    page = open_page("/run/long?tab=stacks", long)
    rows = page.locator(".line-rows tr.hit")
    pager = page.get_by_role("navigation", name="Pages of lines")
    expect(rows).to_have_count(50)
    expect(pager).to_contain_text("1–50 of 120")
    expect(pager.get_by_role("button", name="Earlier")).to_be_disabled()
    pager.get_by_role("button", name="Later").click()
    expect(pager).to_contain_text("51–100 of 120")
    expect(rows.first).to_contain_text("train.py:51")
    pager.get_by_role("button", name="Later").click()
    expect(pager).to_contain_text("101–120 of 120")
    expect(pager.get_by_role("button", name="Later")).to_be_disabled()
    expect(rows).to_have_count(20)
    rows.last.click()
    expect(page.get_by_role("list", name="Operators of this line")).to_contain_text("step.op120")
    pager.get_by_role("button", name="Earlier").click()
    expect(rows.first).to_contain_text("train.py:51")
    page.get_by_label("Search source lines").fill("work_7")
    expect(rows).to_have_count(11)
    expect(rows.first).to_contain_text("train.py:7")


def test_one_of_several_graphs_is_chosen_and_stacks_follow(long: Served, open_page: Open) -> None:
    page = open_page("/run/long?tab=graph", long)
    choice = page.get_by_label("Which graph")
    expect(choice.locator("option")).to_have_text(["step 2", "compiled forward"])
    choice.select_option("0 compiled forward")
    expect(page).to_have_url(re.compile(r"graph=compiled"))
    page.get_by_label("Search the graph").fill("op")
    expect(page.get_by_label("Found in the graph").get_by_role("button")).to_have_text(
        [re.compile("compiled.op1"), re.compile("compiled.op2")]
    )
    page.get_by_role("tab", name="Stacks").click()
    rows = page.locator(".line-rows tr.hit")
    expect(rows).to_have_count(2)
    page.get_by_role("region", name="Source lines").get_by_label("Which graph").select_option("0 step 2")
    expect(page.get_by_role("navigation", name="Pages of lines")).to_contain_text("1–50 of 120")
    page.get_by_role("tab", name="Graph").click()
    # the words still stand in the field: they are asked for again, in the graph that is shown now
    expect(page.get_by_label("Found in the graph").get_by_role("button").first).to_contain_text("step.op1")
    expect(page.get_by_label("Found in the graph")).not_to_contain_text("compiled")
    page.get_by_label("Search the graph").fill("step.op99")
    page.get_by_label("Search the graph").press("Enter")  # before the answer is here
    expect(page.locator(".operator-panel")).to_contain_text("step.op99")
