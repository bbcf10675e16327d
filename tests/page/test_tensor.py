"""The tensor view on a real training: from a hit to values, slices, other steps, differences and files."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from playwright.sync_api import Page, expect

from tensight.runs import open_run
from tests.page.conftest import Open
from tests.server.serving import Served

expect.set_options(timeout=60_000)
Array = np.ndarray[Any, Any]


@pytest.fixture
def shown(real: Served, open_page: Open) -> Page:
    """The output of a module in the middle of the network, in the step before it goes wrong."""
    page = open_page("/run/gpt/step/5/node/layers.3.mlp?tab=hits", real)
    page.get_by_label("View output layers.3.mlp output.0", exact=True).click()
    expect(page.locator(".heat canvas")).to_have_attribute("data-painted", re.compile(r"\d+"))
    return page


def values(real: Served, step: int, slot: str = "output.0") -> Array:
    """The tensor as the run directory has it."""
    library: Any = real.app.state.house.library
    run = open_run(Path(library.find("gpt").folder))
    return run.tensor("layers.3.mlp", slot, step=step, kind="output", call=0).numpy()


def test_from_a_hit_to_its_tensor_with_advice_beside_it(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt?tab=hits", real)
    page.get_by_label("Part of the name").fill("layers.3.attention.qkv")
    page.get_by_label("Condition").select_option("TO")
    page.locator("tr.hit").first.click()
    page.get_by_role("button", name="View the tensor").click()
    expect(page.locator(".tensor-title")).to_contain_text("layers.3.attention.qkv")
    strip = page.get_by_role("region", name="Statistics")
    for word in ("−Inf", "negative", "zero", "positive", "Inf", "NaN"):
        expect(strip.locator("thead")).to_contain_text(word)
    expect(strip.locator("tbody tr").first).to_contain_text("6")
    advice = page.get_by_role("region", name="Advice")
    expect(advice.locator(".code-tag").first).to_have_text("TO")
    expect(advice.locator("ol li").first).not_to_be_empty()


def test_the_value_under_the_pointer_is_read(shown: Page, real: Served) -> None:
    array = values(real, 5)
    canvas = shown.locator(".heat canvas")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        shown.keyboard.press(key)
    expect(shown.get_by_test_id("heat-value")).to_contain_text("row 2, column 3")
    number = re.search(r": (.+)$", shown.get_by_test_id("heat-value").inner_text())
    assert number is not None
    assert float(number[1].replace("−", "-")) == pytest.approx(float(array[0, 2, 3]), rel=1e-6)
    place = canvas.bounding_box()
    assert place is not None
    shown.mouse.move(place["x"] + place["width"] - 2, place["y"] + 2)
    expect(shown.get_by_test_id("heat-value")).to_contain_text(f"row 0, column {array.shape[-1] - 1}")


def test_any_slice_is_shown_as_a_table(shown: Page, real: Served) -> None:
    array = values(real, 5)
    shown.get_by_label("Slice").fill("[1, 3:5, ::4]")
    shown.keyboard.press("Enter")
    shown.get_by_role("button", name="table", exact=True).click()
    cells = shown.get_by_role("table", name="Values").locator("tbody td")
    expected = array[1, 3:5, ::4]
    expect(cells).to_have_count(expected.size)
    found = [float(cell.get_attribute("title") or "") for cell in cells.all()]
    assert np.array_equal(np.array(found, np.float32), expected.reshape(-1))
    expect(shown).to_have_url(re.compile(r"slice="))
    shown.get_by_label("Slice").fill("[9, :]")
    shown.keyboard.press("Enter")
    expect(shown.locator(".tensor-view .form-error")).to_contain_text("dimension 0 has 2 elements, there is no 9")
    shown.get_by_label("Slice").fill("[__import__('os')]")
    shown.keyboard.press("Enter")
    expect(shown.locator(".tensor-view .form-error")).to_contain_text("is no slice")


def test_the_step_before_and_the_difference_within_a_tolerance(shown: Page, real: Served) -> None:
    apart = np.abs(values(real, 5)[0].astype(np.float64) - values(real, 4)[0].astype(np.float64))
    shown.get_by_label("Compare with").select_option("step:4")
    said = shown.get_by_test_id("difference")
    expect(said).to_contain_text("differ from step 4")
    biggest = re.search(r"largest difference ([\d.e−-]+)", said.inner_text())
    assert biggest is not None
    assert float(biggest[1].replace("−", "-")) == pytest.approx(apart.max(), rel=1e-4)
    shown.get_by_label("atol").fill(str(float(apart.max()) * 2))
    shown.keyboard.press("Enter")
    expect(said).to_contain_text("within the tolerance")
    shown.get_by_label("Compare with").select_option("")
    shown.get_by_label("Step of the values").select_option("4")
    expect(shown.locator(".scrubber input[type=number]")).to_have_value("4")
    expect(shown).to_have_url(re.compile("/step/4/"))


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_what_is_downloaded_reads_back_equal(shown: Page, real: Served, ending: str) -> None:
    shown.get_by_label("Slice").fill("[:, 2]")
    shown.keyboard.press("Enter")
    expect(shown).to_have_url(re.compile(r"slice="))
    with shown.expect_download() as saved:
        shown.get_by_role("link", name=f".{ending}", exact=True).click()
    data = Path(saved.value.path()).read_bytes()
    assert saved.value.suggested_filename.endswith(f"step-5.{ending}")
    back = np.load(io.BytesIO(data)) if ending == "npy" else safetensors.numpy.load(data)["tensor"]
    assert back.dtype == np.float32
    assert np.array_equal(back, values(real, 5)[:, 2])


def test_histogram_quantiles_and_history(shown: Page, real: Served) -> None:
    array = values(real, 5)[0]
    table = shown.get_by_role("table", name="Quantiles")
    median = table.locator("tr").filter(has_text="median").locator("td").inner_text()
    assert float(median.replace("−", "-")) == pytest.approx(float(np.quantile(array.astype(np.float64), 0.5)), rel=1e-4)
    bars = shown.get_by_role("img", name=re.compile("^Histogram from")).locator("rect title").all_text_contents()
    assert sum(int(bar.split(" ")[0]) for bar in bars) == array.size
    history = shown.get_by_role("region", name="History")
    expect(history.locator("path.line")).to_have_attribute("d", re.compile("^M"))
    history.get_by_label("Statistic of the history").select_option("nan")
    expect(history).to_contain_text("nan over the steps")


def test_relations_show_the_codes_of_conditions_several_hops_away(real: Served, open_page: Open) -> None:
    page = open_page("/run/gpt/step/6/node/layers.5.mlp.0?tab=hits", real)
    page.get_by_label("View output layers.5.mlp.0 output.0", exact=True).click()
    sheet = page.get_by_role("region", name="Relations").locator(".sheet")
    expect(sheet.locator(".box.on")).to_contain_text("layers.5.mlp.0")
    expect(sheet.locator(".box").filter(has_text="layers.5.mlp.1").locator(".badge-text").first).to_have_text("TO")
    before = sheet.locator(".box").count()
    page.get_by_label("Hops of the relations").fill("4")
    expect(sheet.locator(".box").filter(has_text="layers.6.norm")).to_have_count(1)
    assert sheet.locator(".box").count() > before


def test_a_batch_of_images_is_seen(real: Served, open_page: Open) -> None:
    page = open_page("/run/resnet/step/3/node/~?tab=tensor", real)
    page.get_by_label(re.compile(r"^View input")).first.click()
    page.get_by_role("button", name="images").click()
    picture = page.get_by_alt_text("Image 0 of the batch")
    expect(picture).to_be_visible()
    expect(page.get_by_role("list", name="Images").get_by_role("img")).to_have_count(4)
    assert picture.evaluate("(one) => one.decode().then(() => [one.naturalWidth, one.naturalHeight])") == [16, 16]


def test_a_tensor_that_was_not_kept_says_how_to_keep_it(real: Served, open_page: Open) -> None:
    page = open_page("/run/lenet-1/step/153/node/head.fc?tab=hits")
    page.get_by_label("View output head.fc output.0", exact=True).click()
    expect(page.locator(".tensor-view")).to_contain_text("Only statistics of this tensor were kept")
    expect(page.locator(".tensor-view .command")).to_contain_text("tensight run --steps 153")
    expect(page.get_by_role("region", name="Statistics").locator("tbody tr")).to_have_count(2)


def test_a_tensor_is_compared_with_the_one_of_another_run(shown: Page, real: Served) -> None:
    shown.get_by_label("Compare with").select_option("run:resnet")
    expect(shown.locator(".tensor-view .form-error")).to_have_text("The other one has no such tensor.")


def at_rank(ranked: Served, rank: int, step: int = 4) -> Array:
    library: Any = ranked.app.state.house.library
    run = open_run(Path(library.find("ranks").folder))
    return run.tensor("0", "output.0", step=step, kind="output", network="generator", rank=rank, call=0).numpy()


def difference(page: Page) -> float:
    """The largest difference the page tells."""
    said = page.get_by_test_id("difference")
    expect(said).to_contain_text("differ from")
    biggest = re.search(r"largest difference ([\d.e−-]+)", said.inner_text())
    assert biggest is not None
    return float(biggest[1].replace("−", "-"))


def test_a_tensor_is_compared_with_the_one_of_another_rank(ranked: Served, open_page: Open) -> None:
    page = open_page("/run/ranks/step/4/node/0?tab=hits&network=generator", ranked)
    page.get_by_label("View output 0 output.0", exact=True).first.click()
    page.get_by_label("Compare with").select_option("rank:1")
    expect(page.get_by_test_id("difference")).to_contain_text("differ from step 4, rank 1")
    apart = np.abs(at_rank(ranked, 0).astype(np.float64) - at_rank(ranked, 1).astype(np.float64))
    assert difference(page) == pytest.approx(apart.max(), rel=1e-4)
    expect(page).to_have_url(re.compile("against=rank%3A1"))


def test_another_rank_shows_the_same_tensor_though_it_counts_them_differently(ranked: Served, open_page: Open) -> None:
    page = open_page("/run/ranks/step/4/node/2?tab=hits&network=judge", ranked)
    page.get_by_label("View gradient 2.weight weight", exact=True).click()
    title = page.locator(".tensor-title")
    expect(title).to_contain_text("2.weight")
    expect(title).to_contain_text("judge")
    page.get_by_role("group", name="Rank", exact=True).get_by_role("link", name="1").click()
    expect(page).to_have_url(re.compile("rank=1"))
    expect(page.get_by_label("Compare with").locator("option[value='rank:0']")).to_have_count(1)
    expect(title).to_contain_text("2.weight")
    expect(title).to_contain_text("judge")


def test_a_tensor_is_compared_with_the_same_one_of_another_run(ranked: Served, open_page: Open) -> None:
    page = open_page("/run/gan/step/4/node/0?tab=hits&network=generator", ranked)
    page.get_by_label("View output 0 output.0", exact=True).first.click()
    page.get_by_label("Compare with").select_option("run:ranks")
    said = page.get_by_test_id("difference")
    # the first rank of 'ranks' is the same training as 'gan'
    expect(said).to_contain_text("The same as at step 4, run ranks, within the tolerance.")
    page.reload()
    expect(said).to_contain_text("The same as at step 4, run ranks, within the tolerance.")
