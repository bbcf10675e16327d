"""What is hard on a page: hostile names, strange numbers, ten thousand of everything, and readable colours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tensight.records import (
    Coverage,
    Evidence,
    Finding,
    Gap,
    Hit,
    Module,
    Network,
    Observation,
    Part,
    RunEnd,
    RunInfo,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
    Watchpoint,
    Where,
)
from tensight.runs import beats, output
from tensight.store import Writer
from tests.page.conftest import Open
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)

EVIL = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
NAMES = [
    EVIL,
    "../../etc/passwd",
    "bell\x07 escape\x1b[31m and\u202edrawkcab",
    'quote" onmouseover="window.hacked=1',
    "javascript:window.hacked=1",
    "very" * 2500,
]


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hard")
    _hostile(folder / "hostile")
    _strange(folder / "strange")
    _large(folder / "large")
    with serving(folder) as made:
        yield made


def _hostile(folder: Path) -> None:
    writer = Writer(folder, RunInfo(EVIL, (EVIL, "--x"), 1.0, framework=EVIL, python=EVIL, platform=EVIL))
    modules = tuple(Module(name, EVIL, settings={EVIL: EVIL}, source=Source(EVIL, 1, EVIL)) for name in NAMES)
    writer.network(Network(EVIL, EVIL, modules))
    writer.part(Part("optimizer", EVIL, EVIL, {EVIL: EVIL}, Source(EVIL, 3, EVIL)))
    hits = []
    seen = []
    for index, name in enumerate(NAMES):
        writer.tensor(TensorInfo(index, "output", name, EVIL, EVIL, dtype=EVIL, type=EVIL, device=EVIL))
        hits.append(
            Hit(
                0,
                1,
                EVIL,
                "TO",
                "output",
                name,
                EVIL,
                index,
                index,
                network=EVIL,
                actual={EVIL: 1.0},
                note=EVIL,
                op=EVIL,
            )
        )
        seen.append(Observation(index, index, Stats(3, nan=3)))
    writer.watchpoint(Watchpoint(1, "TO", name=EVIL, on=f"output:{EVIL}"))
    writer.coverage(Coverage((EVIL,), gaps=(Gap(EVIL, EVIL, EVIL),)))
    where = Where(NAMES[0], EVIL, EVIL, EVIL, 1, EVIL, EVIL)
    writer.findings(
        [Finding(EVIL, EVIL, EVIL, 0.9, 0, where, EVIL, (Evidence(EVIL, EVIL, 0),), (EVIL,), (EVIL,), EVIL, (EVIL,))]
    )
    writer.crash({"title": EVIL})
    output.append(folder, 0, [output.Line(0, 1.0, "stdout", name) for name in NAMES])
    call = beats.Frame(EVIL, 1, EVIL, EVIL)
    beats.write(folder, beats.Beat(0, 2, 1, EVIL, 1.0, 0, 1.0, operation=EVIL, place=EVIL, code=EVIL, stack=(call,)))
    beats.write(folder, beats.Beat(1, 2, 1, EVIL, 1.0, 0, 1.0, operation=NAMES[2], place=NAMES[5], code=EVIL))
    writer.step(StepRecord(0, 1.0, 0.1, loss=1.0, scalars={EVIL: 1.0}, observations=tuple(seen), hits=tuple(hits)))
    writer.end(RunEnd("failed", 2.0, 1, 1, lost=(EVIL,), budget_note=EVIL))
    writer.close()


STRANGE = {
    "int": (2**63 - 1, "9223372036854775807"),
    "negative int": (-(2**63), "-9223372036854775808"),
    "zero": (-0.0, "-0"),
    "subnormal": (5e-324, "5e-324"),
    "nan": (math.nan, "nan"),
    "inf": (math.inf, "inf"),
    "minus inf": (-math.inf, "-inf"),
    "third": (1 / 3, "0.3333333333333333"),
}


def _strange(folder: Path) -> None:
    writer = Writer(folder, RunInfo("strange", ("x",), 1.0))
    seen = []
    for index, (name, (number, _)) in enumerate(STRANGE.items()):
        writer.tensor(TensorInfo(index, "output", name, "output.0", "net", dtype="int64"))
        seen.append(Observation(index, index, Stats(2, min=number, max=number)))
    writer.step(StepRecord(0, 1.0, 0.1, loss=-math.inf, observations=tuple(seen)))
    writer.end(RunEnd("finished", 2.0, 0, 1))
    writer.close()


def _large(folder: Path) -> None:
    writer = Writer(folder, RunInfo("large", ("x",), 1.0))
    paths = [f"layers.{i // 100}.block{i % 100}" for i in range(10_000)]
    writer.network(Network("net", "Large", tuple(Module(path, "Linear") for path in paths)))
    for step in range(10):
        hits = [
            Hit(
                step,
                1,
                "too large",
                "TL",
                "output",
                paths[i],
                "output.0",
                i,
                i,
                actual={"max_gt": i},
                threshold={"max_gt": 0},
            )
            for i in range(1000)
        ]
        writer.step(StepRecord(step, 1.0, 0.1, loss=1.0, hits=tuple(hits)))
    writer.end(RunEnd("finished", 2.0, 0, 10))
    writer.close()


def is_unharmed(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, script:not([src])").count() == 0


def test_hostile_names_are_shown_as_text_in_every_view(hard: Served, open_page: Open) -> None:
    page = open_page("/", hard)
    expect(page.get_by_text(EVIL).first).to_be_visible()
    is_unharmed(page)
    page.get_by_role("link", name="hostile").click()
    expect(page.locator(".finding h2")).to_have_text(EVIL)
    is_unharmed(page)
    for tab in ("Hits", "Curves", "Output", "Run"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".tab-body").get_by_text("<img src=x").first).to_be_visible()
        is_unharmed(page)
    expect(page.locator("section[aria-label=Ranks]").get_by_text("<img src=x").first).to_be_visible()
    page.get_by_role("tab", name="Hits").click()
    page.locator("tr.hit").first.click()
    expect(page.locator(".advice")).to_contain_text("<script>")
    expect(page.locator(".inspector")).to_contain_text("<script>")
    expect(page.locator(".watchpoints")).to_contain_text("<img src=x")
    page.get_by_label("Edit").first.click()
    expect(page.get_by_role("dialog").locator("[name=name]")).to_have_value(EVIL)
    is_unharmed(page)


def test_a_node_of_any_name_has_an_address(hard: Served, open_page: Open) -> None:
    page = open_page("/run/hostile?tab=hits", hard)
    for index in range(len(NAMES)):
        page.goto(f"{hard.base}/run/hostile?tab=hits")
        page.locator("tr.hit").nth(index).click()
        expect(page.locator(".inspector .tensor")).to_have_count(1)
        page.reload()
        expect(page.locator(".inspector .tensor")).to_have_count(1)
        text = page.locator(".inspector h2").inner_text()
        assert not any(ord(letter) < 32 or letter == "\u202e" for letter in text)
        assert len(text) < 400
        is_unharmed(page)


def test_strange_numbers_arrive_with_every_digit(hard: Served, open_page: Open) -> None:
    page = open_page("/run/strange", hard)
    expect(page.locator(".scrub-now")).to_contain_text("−Inf")
    for name, (_, digits) in STRANGE.items():
        page.get_by_role("treeitem", name=name, exact=True).click()
        expect(page.get_by_role("complementary", name=f"Node {name}", exact=True)).to_be_visible()
        expect(page.locator(".inspector .stats .number").first).to_have_attribute("title", digits)


def test_ten_thousand_nodes_and_hits_stay_usable(hard: Served, open_page: Open) -> None:
    page = open_page("/run/large?tab=hits", hard)
    expect(page.get_by_text("of 10000")).to_be_visible()
    assert page.get_by_role("treeitem").count() < 150
    page.set_viewport_size({"width": 1024, "height": 768})
    label, side = (page.locator(one).first.bounding_box() for one in (".tree .check", ".side"))
    assert label is not None
    assert side is not None
    assert label["x"] + label["width"] <= side["x"] + side["width"]  # nothing of it is cut off
    page.get_by_label("Search modules").fill("layers.42.block7")
    expect(page.get_by_role("list", name="Modules found").get_by_role("listitem")).to_have_count(11)
    page.get_by_role("list", name="Modules found").get_by_role("button").first.click()
    expect(page.get_by_role("complementary", name="Node layers.42.block7")).to_contain_text("Linear")
    page.get_by_label("Search modules").fill("linear")
    expect(page.get_by_text("more: search more closely")).to_be_visible()
    page.get_by_label("Part of the name").fill("layers.9.block99")
    expect(page.locator("tr.hit")).to_have_count(10)


CONTRAST = """() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    return parts.length === 3 ? [...parts, 1] : parts;
  };
  const light = ([r, g, b]) => {
    const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    for (let here = element; here; here = here.parentElement) {
      const colour = parse(getComputedStyle(here).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility() || element.closest(":disabled, option, noscript, script")) continue;
    const svg = element.namespaceURI.endsWith("svg");
    const ink = parse(svg ? getComputedStyle(element).fill : getComputedStyle(element).color);
    const [a, b] = [light(ink), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} ${element.className} ${text.slice(0, 40)}`);
  }
  return weak;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(open_page: Open, scheme: str) -> None:
    page = open_page("/run/lenet-1/step/153/node/head.fc")
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    expect(page.locator("html")).to_have_attribute("data-theme", scheme)
    expect(page.locator(".inspector .tensor")).to_have_count(3)
    for tab in ("Findings", "Hits", "Curves", "Output", "Run"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        if tab == "Hits":
            page.locator("tr.hit").first.click()
        assert page.evaluate(CONTRAST) == [], tab
    page.get_by_label("New watchpoint").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate(CONTRAST) == []


def test_the_switch_of_colours_is_kept(open_page: Open) -> None:
    page = open_page("/run/lenet-1")
    page.get_by_label("Switch to dark colours").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_every_control_has_a_name_for_those_who_do_not_see_it(open_page: Open) -> None:
    page = open_page("/run/lenet-1/step/153/node/head.fc?tab=hits")
    expect(page.locator("tr.hit").first).to_be_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, a[href], input, select")].filter((one) => {
          const label = one.getAttribute("aria-label") || one.textContent || one.closest("label")?.textContent;
          return one.checkVisibility() && !(label ?? "").trim();
        }).map((one) => one.outerHTML)"""
    )
    assert nameless == []
