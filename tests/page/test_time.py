"""The page's view of time: split, advice, timeline, modules, operators, ranks, another profile beside."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tensight.profiling import Reading, advise, files
from tensight.records import RunEnd, RunInfo, Source, StepRecord
from tensight.records.timing import (
    LineTime,
    LoaderTime,
    MemoryUse,
    ModuleTime,
    OperatorTime,
    Owner,
    Profile,
    Span,
    StepTime,
    Tried,
)
from tensight.store import Writer
from tests.page.conftest import Open
from tests.server.serving import Served, serving

expect.set_options(timeout=60_000)
EVIL = "<img src=x onerror=alert(1)>\u202e"


def profile(rank: int = 0, data: float = 0.06) -> Profile:
    parts = {"data": data, "forward": 0.02, "backward": 0.015, "update": 0.005}
    steps = tuple(
        StepTime(n, "warm" if n < 3 else "clock", data + 0.04, **parts, process_cpu=0.15, delay=0.02) for n in range(20)
    )
    operators = (
        OperatorTime("aten::mm", "64x64, 64x64", "float32", 30, 0.02, 0.02, 900_000),
        OperatorTime("aten::relu", "64x64", "float32", 10, 0.004, 0.005),
        OperatorTime(f"evil::{EVIL}", "1", "float32", 1, 0.001, 0.001),
    )
    spans = tuple(
        span
        for start in (0.0, 0.1)
        for span in (
            Span("ProfilerStep#5", start, 0.09, 0, "step"),
            Span("forward", start, 0.04, 1, "part"),
            Span("aten::mm", start + 0.01, 0.01, 2),
        )
    )
    return Profile(
        framework="torch",
        version="2.13",
        rank=rank,
        ranks=2,
        steps=steps,
        operators=operators,
        lines=(LineTime(Source("train.py", 12, f"x = load({EVIL!r})"), 0.5, "data", 100),),
        modules=(
            ModuleTime("", "Net", 0, 0.03, 0.001, 0.02, 0.001),
            ModuleTime("encoder", "Encoder", 3, 0.02, 0.02, 0.015, 0.015),
            ModuleTime("head", "Linear", 1, 0.009, 0.009, 0.004, 0.004),
        ),
        loaders=(
            LoaderTime(
                "DataLoader",
                Source("train.py", 9, "loader = DataLoader(data)"),
                "Files",
                batch_size=32,
                batches=17,
                workers=2,
                worker_cpu=17 * (data + 0.04),
                waits=(data,) * 17,
                seconds=17 * data,
            ),
        ),
        memory=MemoryUse((0.0, 0.05, 0.1), (0, 5_000_000, 100), 5_000_000, (Owner("aten::mm", 4_000_000, 3),)),
        spans=spans,
        facts={
            "traced_steps": 2,
            "operator_seconds": 0.025,
            "cores": 4,
            "flops": 1_800_000,
            "threads": 1 + rank,
            "peak_flops": 3.6e7,
        },
        tried=(Tried("workers=4", 0.1, 0.05),),
    )


def write(folder: Path, profiles: list[Profile], *, told: bool = True) -> None:
    for one in profiles:
        info = RunInfo(folder.name, ("train.py",), 1.7e9, "torch", rank=one.rank, ranks=len(profiles))
        writer = Writer(folder, info)
        for time in one.steps:
            writer.step(StepRecord(time.step, 1.7e9 + time.step, time.seconds))
        writer.findings([advice.finding() for advice in advise(Reading(one)) if told])
        writer.end(RunEnd("finished", 1.7e9 + 30, 0, len(one.steps)))
        writer.close()
        files.write(folder, one)
    files.trace_file(folder).write_bytes(gzip.compress(json.dumps({"traceEvents": []}).encode()))


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("timed")
    write(folder / "slow-1", [profile(0), profile(1, 0.11)])
    write(folder / "fast-2", [profile(0, 0.001)])
    write(folder / "calm-3", [profile(0, 0.001)], told=False)
    with serving(folder) as made:
        yield made


@pytest.fixture
def page(open_page: Open, timed: Served) -> Page:
    return open_page("/run/slow-1?tab=time", timed)


def test_the_split_and_the_first_advice_are_what_one_sees_first(page: Page):
    expect(page.get_by_role("heading", name="A step takes 100 ms")).to_be_visible()
    split = page.get_by_role("region", name="A step")
    expect(split.get_by_role("img")).to_have_attribute(
        "aria-label", "data 60 %, forward 20 %, backward 15 %, update 5 %, rest 0 %"
    )
    advice = page.get_by_role("region", name="Advice").get_by_role("article").first
    expect(advice).to_contain_text("the training waits for data")
    expect(advice).to_contain_text("train.py:9")
    expect(advice).to_contain_text("may save 60 %")
    expect(page.get_by_role("region", name="Tried")).to_contain_text("50 %")


def test_the_use_of_processors_workers_and_matrix_units_is_there(page: Page):
    processor = page.get_by_role("region", name="Processor")
    expect(processor.get_by_role("heading")).to_have_text("Processors busy 1.5 of 4 in a step")
    expect(processor.get_by_role("img", name="processors busy in 17 steps").locator("rect")).to_have_count(17)
    expect(processor).to_contain_text("had no processor 20 % of a step")
    expect(page.get_by_role("region", name="Waits for data")).to_contain_text("2 workers that compute 50 % of the time")
    expect(page.get_by_role("region", name="A step")).to_contain_text("25 % of a large matrix product")


def test_the_timeline_zooms(page: Page):
    timeline = page.get_by_role("region", name="Timeline")
    before = timeline.locator(".timeline-range").inner_text()
    timeline.get_by_role("button", name="Zoom in").click()
    expect(timeline.locator(".timeline-range")).not_to_have_text(before)
    timeline.get_by_role("button", name="Whole").click()
    expect(timeline.locator(".timeline-range")).to_have_text(before)


def test_modules_can_be_entered(page: Page):
    modules = page.get_by_role("region", name="Modules")
    modules.get_by_role("button", name="encoder").click()
    expect(modules.get_by_role("button", name="head")).to_have_count(0)
    modules.get_by_role("button", name="Whole network").click()
    expect(modules.get_by_role("button", name="head")).to_be_visible()


def test_operators_are_filtered_and_names_are_only_names(page: Page):
    operators = page.get_by_role("region", name="Operators")
    expect(operators.locator("tbody tr")).to_have_count(3)
    expect(operators).to_contain_text("<img src=x onerror=alert(1)>\\u202e")
    operators.get_by_label("Filter operators").fill("relu")
    expect(operators.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("region", name="Lines")).to_contain_text("train.py:12")
    expect(page.get_by_role("region", name="Memory", exact=True)).to_contain_text("aten::mm")


def test_ranks_are_side_by_side_and_the_slow_one_is_told(page: Page):
    ranks = page.get_by_role("region", name="Ranks")
    ranks.get_by_role("button", name="rank 1").click()
    expect(page.get_by_role("heading", name="A step takes 150 ms")).to_be_visible()
    expect(page.get_by_role("region", name="Advice")).to_contain_text("all ranks wait for rank 1")
    assert "rank=1" in page.url


def test_another_profile_beside_it_has_an_address(page: Page):
    page.get_by_label("Other profile").select_option("fast-2")
    compared = page.get_by_role("region", name="Compared")
    expect(compared.locator("tr", has_text="data").first).to_contain_text("60 ms")
    assert "against=fast-2" in page.url


def test_the_trace_can_be_downloaded(page: Page):
    with page.expect_download() as download:
        page.get_by_role("link", name="Chrome trace").click()
    assert download.value.suggested_filename == "slow-1-rank-0.json.gz"


def test_a_run_without_a_profile_says_how_to_take_one(open_page: Open):
    page = open_page("/run/lenet-1?tab=time")
    expect(page.get_by_text("This run was not profiled")).to_be_visible()
    expect(page.get_by_text("tensight profile train.py")).to_be_visible()


def test_a_profile_without_advice_is_not_called_healthy_and_leads_to_its_times(open_page: Open, timed: Served):
    page = open_page("/run/calm-3", timed)
    expect(page.get_by_text("Nothing here was watched for faults")).to_be_visible()
    page.get_by_role("link", name="its times are here").click()
    expect(page.get_by_role("region", name="A step")).to_be_visible()
