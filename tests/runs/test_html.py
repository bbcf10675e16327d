"""A run as one HTML file."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from tensight.records import Evidence, Finding, RunEnd, StepRecord, Where
from tensight.runs import Run, html, open_run
from tensight.runs.blocks import plain
from tensight.runs.curve import curve
from tensight.store import Writer
from tensight.testing.store_suite import run_info
from tests.runs.sample import record_run

EVIL = "<script>alert('x')</script>\"&\x1b[31m\udc80"
OPEN = {"meta"}  # elements that are never closed


class Page(HTMLParser):
    """Reads a page strictly: every element is closed where it must be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()
        assert not self._inside, f"never closed: {self._inside}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in OPEN and tag != "br":
            self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    record_run(tmp_path / "run")
    return open_run(tmp_path / "run")


def test_findings_come_first_and_muted_ones_are_left_out(run: Run) -> None:
    page = Page(html.page(run))
    shown = [finding for finding in run.findings if not finding.muted]
    assert page.text.index(plain(shown[0].title)) < page.text.index("Loss") < page.text.index("Hits of watchpoints")
    assert page.elements.count("article") == len(shown)
    assert shown[0].why in page.text


def test_loss_hits_and_coverage_are_there(run: Run) -> None:
    page = Page(html.page(run))
    assert page.elements.count("svg") == 1
    assert "step 6: nan" in page.text
    assert page.elements.count("tr") == 1 + len(run.hits.held)
    assert "7 of 7 tensors" in page.text
    assert "none was called" in page.text


def test_the_file_asks_for_nothing_from_outside(run: Run) -> None:
    text = html.page(run)
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(page.elements)
    assert not {"src", "href", "xlink:href", "action"} & {name for name, _ in page.attributes}
    assert "url(" not in text
    assert "@import" not in text


def test_names_from_a_model_cannot_become_markup(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", msgspec.structs.replace(run_info(), command=(EVIL,)))
    writer.step(StepRecord(0, 1.0, 0.1, loss=1.0, losses=(1.0,)))
    evil = Finding(
        EVIL,
        EVIL,
        EVIL,
        0.9,
        0,
        Where(EVIL, EVIL, EVIL, EVIL, 3, EVIL),
        EVIL,
        (Evidence(EVIL, EVIL),),
        (EVIL,),
        (EVIL,),
    )
    writer.findings([evil])
    writer.crash({"title": EVIL, "why": EVIL, "where": {"file": EVIL, "line": 3, "code": EVIL}, "fix": [EVIL]})
    writer.close()
    html.write(open_run(tmp_path / "run"), tmp_path / "page.html", [evil])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.elements
    assert "alert('x')" in page.text
    assert "\x1b" not in text


def test_a_healthy_run_says_so(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info())
    writer.step(StepRecord(0, 1.0, 0.1, loss=0.5, losses=(0.5,)))
    writer.end(RunEnd("finished", 1.0, 1))
    writer.close()
    assert "Nothing was found wrong." in Page(html.page(open_run(tmp_path / "run"))).text


def test_a_run_without_a_step_is_not_called_healthy(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info())
    writer.end(RunEnd("finished", 1.0, 0))
    writer.close()
    text = Page(html.page(open_run(tmp_path / "run"))).text
    assert "No call of a model was seen, so nothing was judged." in text
    assert "No loss was seen." in text


def test_losses_that_were_never_finite_are_said_in_words(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info())
    writer.step(StepRecord(0, 1.0, 0.1, loss=math.nan, losses=(math.nan,)))
    writer.close()
    assert "No loss was finite: nan from step 0 on." in Page(html.page(open_run(tmp_path / "run"))).text


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [2.0, 2.0, 2.0],
        [1e-8, 1.0, 1e30],
        [-1.7e308, 0.0, 1.7e308],
        [1.0, math.nan, 0.5, math.inf, -math.inf, 2.0],
        [math.sin(step) if step % 97 else math.nan for step in range(20_000)],
    ],
)
def test_a_curve_has_finite_places_whatever_its_values(values: list[float]) -> None:
    drawn = curve(list(enumerate(values)), {0: "begin"})
    Page(drawn)
    places = re.findall(r'(?:points|x|y|cx|cy|x1|x2|y1|y2)="([^"]*)"', drawn)
    numbers = [float(number) for place in places for number in re.split("[ ,]", place)]
    assert numbers
    assert all(-20 <= number <= 820 for number in numbers)
    assert len(drawn) < 100_000


def test_a_curve_without_a_finite_value_is_empty() -> None:
    assert curve([(0, math.nan), (1, math.inf)]) == ""
