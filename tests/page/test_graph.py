"""The graph on real PyTorch trainings (a GPT-like network, a ResNet, a GAN), and with names and sizes that are hard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Locator, Page, expect

from tensight.records import Module, Network, RunEnd, RunInfo, StepRecord
from tensight.records.graph import Frame
from tensight.records.graph_builder import GraphBuilder
from tensight.store import Writer
from tests.page.conftest import Open
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)
EVIL = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
NAMES = [EVIL, "bell\x07 escape\x1b[31m and\u202edrawkcab", 'quote" onmouseover="window.hacked=1', "very" * 2500]


def box(page: Page, name: str) -> Locator:
    """The part of a box that is pressed, by its kind and name, whether it has hits or not."""
    return page.locator(".sheet").get_by_role("button", name=re.compile(f"^{re.escape(name)}(, \\d+ hits)?$"))


def press(page: Page, name: str) -> None:
    """Boxes may lie outside the part of the sheet that is in sight."""
    box(page, name).first.dispatch_event("click")


def test_scopes_are_folded_and_open_on_demand(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=graph", real)
    expect(box(page, "module layers")).to_be_visible()
    expect(box(page, "module layers.3")).to_have_count(0)
    page.get_by_role("button", name="Open layers", exact=True).click()
    expect(page.locator(".sheet .box.range")).to_contain_text("layers.0–11 ×12")
    page.get_by_role("button", name="Open layers.0–11").or_(
        page.locator(".sheet .box.range .opener")
    ).first.dispatch_event("click")
    expect(box(page, "module layers.3")).to_have_count(1)
    page.get_by_role("button", name="Open layers.3", exact=True).dispatch_event("click")
    expect(box(page, "module layers.3.attention")).to_have_count(1)
    page.get_by_role("button", name="Close layers.3", exact=True).dispatch_event("click")
    expect(box(page, "module layers.3.attention")).to_have_count(0)
    page.get_by_role("button", name="Fold").click()
    expect(box(page, "module layers")).to_have_count(0)


def test_from_a_hit_to_its_neighbourhood_and_on_through_the_network(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=hits", real)
    page.get_by_label("Part of the name").fill("layers.3.attention.qkv")
    page.get_by_label("Condition").select_option("TO")
    page.locator("tr.hit").first.click()
    page.get_by_role("button", name="Show in the graph").click()
    centre = page.locator(".sheet .box.on")
    expect(centre).to_contain_text("layers.3.attention.qkv")
    expect(centre).to_contain_text("TO")
    expect(page.get_by_role("button", name="neighbourhood")).to_have_attribute("aria-pressed", "true")
    press(page, "module layers.3.attention")
    expect(page.locator(".inspector h2")).to_have_text("layers.3.attention")
    expect(page.locator('[role=treeitem][aria-selected="true"]')).to_contain_text("attention")
    expect(page).to_have_url(re.compile(r"node/layers\.3\.attention\?tab=graph"))
    page.get_by_role("navigation", name="Place of the selection").get_by_role("button", name="layers").click()
    expect(page.locator(".inspector h2")).to_have_text("layers")


def test_a_module_selected_in_the_tree_is_found_in_the_whole_graph(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt/node/layers.7.mlp?tab=graph", real)
    expect(page.locator(".sheet .box.on")).to_contain_text("layers.7.mlp")
    page.get_by_role("button", name="whole graph", exact=True).click()
    expect(page.locator(".sheet .box.on")).to_contain_text("mlp")
    expect(box(page, "module layers.7.attention")).to_have_count(1)
    expect(page.locator(".sheet .box.on").first).to_be_in_viewport()


def test_a_backward_operator_leads_to_its_forward_operator_and_back(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=graph&view=backward", real)
    page.get_by_label("Search the graph").fill("layers.2.mlp gelu_backward")
    page.get_by_label("Found in the graph").get_by_role("button").first.click()
    panel = page.locator(".operator-panel")
    expect(panel).to_contain_text("operator, backward in layers.2.mlp.1")
    panel.get_by_role("button", name="aten.gelu layers.2.mlp.1").click()
    expect(panel).to_contain_text("operator, forward in layers.2.mlp.1")
    expect(page.get_by_role("button", name="forward", exact=True)).to_have_attribute("aria-pressed", "true")
    panel.get_by_role("button", name="aten.gelu_backward").click()
    expect(page.get_by_role("button", name="backward", exact=True)).to_have_attribute("aria-pressed", "true")


def test_an_operator_shows_what_it_reads_and_the_address_keeps_it(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=graph", real)
    page.get_by_label("Search the graph").fill("layers.5.attention.qkv addmm")
    page.get_by_label("Found in the graph").get_by_role("button").first.click()
    panel = page.locator(".operator-panel")
    expect(panel).to_contain_text("aten.addmm")
    expect(panel.get_by_role("button", name="bias")).to_be_visible()
    expect(panel).to_contain_text("gpt.py:17")
    page.reload()
    expect(panel).to_contain_text("aten.addmm")
    panel.get_by_role("button", name="bias").click()
    expect(panel).to_contain_text("parameter")


def test_parameters_operators_and_repeated_blocks_are_told_apart(real: Served, open_page: Open) -> None:
    page = open_page("/run/resnet?tab=graph", real)
    expect(page.locator(".sheet .box.range")).to_contain_text("×3")
    page.get_by_role("button", name="Open 0", exact=True).dispatch_event("click")
    expect(page.locator(".sheet .box.parameter").first).to_contain_text("weight")
    expect(page.locator(".sheet .box.operator").filter(has_text="aten.convolution")).to_have_count(1)
    expect(page.locator(".sheet .box.input").first).to_contain_text("float32[4, 3, 16, 16]")
    colours = page.evaluate(
        """() => [".box.parameter", ".box.operator", ".box.module", ".box.input"].map(
             (one) => getComputedStyle(document.querySelector(`.sheet ${one} .face`)).fill)"""
    )
    assert len(set(colours)) == 4
    legend = page.get_by_label("Legend")
    for word in ("module", "several, folded", "operator", "parameter", "input"):
        expect(legend).to_contain_text(word)


def test_several_networks_can_be_chosen(real: Served, open_page: Open) -> None:
    page = open_page("/run/gan?tab=graph", real)
    expect(box(page, "network generator")).to_be_visible()
    expect(box(page, "network judge")).to_be_visible()
    page.get_by_label("Network", exact=True).select_option("judge")
    expect(page.locator(".sheet .box.on")).to_contain_text("judge")
    expect(page.locator(".inspector")).to_contain_text("in judge")
    page.get_by_role("button", name="update", exact=True).click()
    page.get_by_role("button", name="whole graph", exact=True).click()
    expect(page.locator(".sheet .box.state").first).to_contain_text("state")


def test_hits_and_statistics_lie_over_the_boxes(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt/step/6?tab=graph", real)
    head = page.locator(".sheet .box.module").filter(has_text="head")
    expect(head.locator(".badge")).to_have_count(1)
    page.get_by_label("Statistic shown on the boxes").select_option("abs_mean")
    expect(head.locator(".shade.bad")).to_have_count(1)
    expect(head).to_contain_text("NaN")
    page.get_by_label("Step shown").fill("5")
    page.keyboard.press("Enter")
    expect(head.locator(".shade.bad")).to_have_count(0)
    expect(head.locator(".badge")).to_have_count(0)


def test_the_drawing_is_saved_as_a_picture(real: Served, open_page: Open, tmp_path: Path) -> None:
    page = open_page("/run/gpt?tab=graph", real)
    expect(box(page, "module layers")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    saved.value.save_as(tmp_path / "graph.svg")
    tree = ElementTree.parse(tmp_path / "graph.svg")
    text = "".join(tree.getroot().itertext())
    assert "layers" in text
    assert "class=" not in (tmp_path / "graph.svg").read_text()
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    saved.value.save_as(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "graph.png").stat().st_size > 2000


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hard")
    _hostile(folder / "hostile")
    _flat(folder / "flat")
    _bare(folder / "bare")
    with serving(folder) as made:
        yield made


def _writer(folder: Path) -> Writer:
    return Writer(folder, RunInfo(folder.name, ("train.py",), 1.0, "torch", "2"))


def _close(writer: Writer) -> None:
    for step in range(3):
        writer.step(StepRecord(step, 1.0, 0.1, loss=1.0))
    writer.end(RunEnd("finished", 2.0, 0, 3))
    writer.close()


def _hostile(folder: Path) -> None:
    writer = _writer(folder)
    writer.network(Network(EVIL, EVIL, tuple(Module(name.replace(".", "_"), EVIL) for name in NAMES)))
    builder = GraphBuilder(EVIL, 2)
    builder.file(EVIL, f"{EVIL}\n\x1b[31m\n" + "x" * 100_000)
    before: tuple[int, ...] = ()
    for name in NAMES:
        scope = builder.scope(EVIL, name.replace(".", "_"), EVIL)
        stack = builder.stack([Frame(EVIL, 1, EVIL, EVIL)])
        before = (builder.add(name, scope, inputs=before, outputs=(EVIL,), stack=stack),)
    writer.graph(builder.build(EVIL))
    _close(writer)


def _flat(folder: Path) -> None:
    """Twenty thousand operators in one module, one after the other."""
    writer = _writer(folder)
    writer.network(Network("net", "Flat", (Module("", "Flat"),)))
    builder = GraphBuilder("step 2", 2)
    scope = builder.scope("net", "", "Flat")
    last = builder.add("weight", scope, kind="parameter")
    for number in range(20_000):
        last = builder.add(f"aten.op{number}", scope, inputs=(last,), outputs=("float32[8]",))
    writer.graph(builder.build())
    _close(writer)


def _bare(folder: Path) -> None:
    _close(_writer(folder))


def is_unharmed(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, script:not([src])").count() == 0


def test_hostile_names_are_shown_as_text_in_graph_and_stacks(hard: Served, open_page: Open) -> None:
    page = open_page("/run/hostile?tab=graph", hard)
    expect(page.locator(".sheet .box").first).to_be_visible()
    expect(page.locator(".graph-note")).to_contain_text("<script>")
    is_unharmed(page)
    for index in range(len(NAMES)):
        page.get_by_label("Search the graph").fill(["script>window", "drawkcab", "onmouseover", "veryvery"][index])
        page.get_by_label("Found in the graph").get_by_role("button").last.click()
        expect(page.locator(".operator-panel header")).to_be_visible()
        text = page.locator(".graph").inner_text()
        assert not any(letter in text for letter in "\x07\x1b\u202e")
        assert len(text) < 20_000
        is_unharmed(page)
    page.get_by_role("tab", name="Stacks").click()
    page.locator(".line-rows tr.hit").first.click()
    expect(page.locator(".source")).to_contain_text("<script>")
    assert len(page.locator(".source").inner_text()) < 3000
    is_unharmed(page)


def test_twenty_thousand_operators_in_one_module_come_in_ranges(hard: Served, open_page: Open) -> None:
    page = open_page("/run/flat?tab=graph", hard)
    expect(page.locator(".sheet .box.range").first).to_be_visible()
    assert page.locator(".sheet .box").count() < 100
    page.get_by_label("Search the graph").fill("op17777")
    page.get_by_label("Found in the graph").get_by_role("button").first.click()
    expect(page.locator(".sheet .box.on")).to_contain_text("aten.op17777")
    assert page.locator(".sheet .box").count() < 200


def test_a_run_without_a_graph_says_so(hard: Served, open_page: Open) -> None:
    page = open_page("/run/bare?tab=graph", hard)
    expect(page.locator(".empty-title")).to_have_text("No graph yet")
    page.get_by_role("tab", name="Stacks").click()
    expect(page.locator(".empty-title")).to_have_text("No stacks yet")
