"""A real Chromium, and pages in it that must not complain."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.page.recorded import print_lines, write_run
from tests.page.trainings import record
from tests.server.serving import TOKEN, Served, serving

LONG = 60_000

Open = Callable[..., Page]


def chromium() -> str:
    for name in (os.environ.get("TENSIGHT_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise RuntimeError("the page's tests need Chromium: install it, or name it in TENSIGHT_CHROMIUM")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield made
        made.close()


class Watched:
    """A context whose pages are watched for errors and for requests to anybody else."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.errors: list[str] = []
        self.hosts: set[str] = set()

    def page(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(LONG)
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or ""))
        return page

    def _said(self, kind: str, text: str) -> None:
        # A refused request, or a server that is gone, is told by the browser itself; the page handles both.
        if kind == "error" and not text.startswith(("Failed to load resource", "WebSocket connection to")):
            self.errors.append(text)


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    made = Watched(context)
    yield made
    context.close()
    assert made.errors == []
    assert made.hosts <= {"127.0.0.1"}


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    print_lines(write_run(folder / "lenet-1"))
    write_run(folder / "healthy-2", steps=30, bad_from=None, watch=())
    return folder


@pytest.fixture(scope="package")
def served(runs: Path) -> Iterator[Served]:
    with serving(runs) as made:
        yield made


@pytest.fixture
def open_page(served: Served, watched: Watched) -> Open:
    """Opens an address of the recorded runs with the token."""

    def open_it(path: str = "/", server: Served = served) -> Page:
        page = watched.page()
        sign = "&" if "?" in path else "?"
        page.goto(f"{server.base}{path}{sign}token={TOKEN}")
        return page

    return open_it


@pytest.fixture(scope="package")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trainings of PyTorch: 'gpt', whose step 6 goes wrong, 'resnet' and 'gan'."""
    folder = tmp_path_factory.mktemp("real")
    for name in ("gpt", "resnet", "gan"):
        record(folder, name)
    return folder


@pytest.fixture(scope="package")
def real(recorded: Path) -> Iterator[Served]:
    """The recorded trainings, served."""
    with serving(recorded / "runs") as made:
        yield made


@pytest.fixture(scope="package")
def ranked(recorded: Path, real: Served) -> Served:
    """Beside the others 'ranks', a GAN of two ranks."""
    with ThreadPoolExecutor(2) as both:
        list(both.map(lambda rank: record(recorded, "ranks", rank, 2), (0, 1)))
    return real


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever comes first records the trainings: several programs that import PyTorch."""
    for item in items:
        if {"recorded", "handed"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(1200))
