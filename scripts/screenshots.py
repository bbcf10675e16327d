"""Takes pictures of every view and state of the page, light and dark, in two sizes.

    python scripts/screenshots.py docs/_static/screens [--only NAME]

Everything shown is made up by the tests' own recorded run and training, so no framework is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.conftest import chromium
from tests.page.recorded import print_lines, write_ranks, write_run
from tests.page.test_live import training
from tests.server.serving import TOKEN, Served, serving

SIZES = {"wide": (1440, 900), "small": (1024, 768)}
SCHEMES = ("light", "dark")
Ready = Callable[[Page], None]


def wait(selector: str) -> Ready:
    def ready(page: Page) -> None:
        page.wait_for_selector(selector)

    return ready


def hits(page: Page) -> None:
    page.get_by_label("Condition").select_option("TO")
    page.locator("tr.hit").first.click()
    page.wait_for_selector(".advice")
    page.wait_for_selector(".tensor")


def curves(page: Page) -> None:
    page.wait_for_selector(".curve")
    page.get_by_label("Curve of head.fc.weight").first.click()
    page.get_by_role("img", name="weight head.fc.weight").locator("path.line").wait_for()


def form(page: Page) -> None:
    page.get_by_label("New watchpoint").click()
    page.get_by_role("dialog").get_by_label("Condition").select_option("TL")
    page.get_by_role("dialog").locator("[name=max_gt]").fill("100")
    page.get_by_role("dialog").locator("[name=on]").fill("gradient:head.*")
    page.get_by_text("1 tensor now").wait_for()


def help_(page: Page) -> None:
    page.wait_for_selector(".finding")
    page.keyboard.press("?")
    page.wait_for_selector("dialog")


def recommended(page: Page) -> None:
    page.get_by_role("button", name="Recommended (").click()
    page.locator(".points").last.wait_for()


def muted(page: Page) -> None:
    page.locator(".finding, .muted-findings").first.wait_for()
    if page.get_by_text("1 muted finding").count() == 0:
        page.get_by_role("button", name="Mute", exact=True).click()
    page.get_by_text("1 muted finding").wait_for()


def terminate(page: Page) -> None:
    page.get_by_role("button", name="Terminate").click()
    page.wait_for_selector("dialog")


def at_node(page: Page) -> None:
    page.locator(".pill.paused, .pill.running").first.wait_for()
    if page.get_by_role("button", name="Pause").is_enabled():
        page.get_by_role("button", name="Pause").click()
    page.wait_for_selector(".pill.paused")
    page.get_by_role("button", name="Next node").click()
    page.get_by_role("link", name="Current node").click()
    page.wait_for_selector(".inspector .tensor")


RECORDED: dict[str, tuple[str, Ready]] = {
    "runs": ("/", wait("table.runs a")),
    "findings": ("/run/lenet-1", wait(".finding")),
    "node": ("/run/lenet-1/step/153/node/head.fc", wait(".tensor")),
    "hits": ("/run/lenet-1?tab=hits", hits),
    "curves": ("/run/lenet-1/node/head.fc?tab=curves", curves),
    "run": ("/run/lenet-1?tab=run", wait(".about")),
    "form": ("/run/lenet-1", form),
    "help": ("/run/lenet-1", help_),
    "recommended": ("/run/lenet-1", recommended),
    "output": ("/run/lenet-1?tab=output", wait(".print")),
    "killed": ("/run/killed-4", wait(".empty")),
    "ranks": ("/run/ranks-5?tab=run", wait("section[aria-label=Ranks] td")),
    "muted": ("/run/muted-6", muted),
    "healthy": ("/run/healthy-2", wait(".empty")),
    "unreadable": ("/run/broken-3", wait("text=This run cannot be shown")),
    "missing": ("/run/nothing", wait("text=This run is not here")),
}


class Camera:
    """Opens a page in each size and colour and takes its picture."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    def take(self, name: str, address: str, ready: Ready) -> None:
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                context = self._browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if scheme == "dark" else "light",
                    reduced_motion="reduce",
                )
                page = context.new_page()
                page.goto(address)
                ready(page)
                page.evaluate("document.fonts.ready")
                page.screenshot(path=self._folder / f"{name}-{size}-{scheme}.png")
                context.close()


def recorded(camera: Camera, served: Served, only: str | None) -> None:
    for name, (path, ready) in RECORDED.items():
        if only in (None, name):
            sign = "&" if "?" in path else "?"
            camera.take(name, f"{served.base}{path}{sign}token={TOKEN}", ready)
    if only in (None, "locked"):
        camera.take("locked", f"{served.base}/run/lenet-1", wait(".empty-title"))


def live(camera: Camera, folder: Path, only: str | None) -> None:
    with training(folder / "live" / "lenet-4", "--bad-from", "80", "--wait-for-page") as running:
        url = running.until("url")["url"]
        if only in (None, "live-paused"):
            camera.take("live-paused", url, wait(".pill.paused"))
        if only in (None, "live-terminate"):
            camera.take("live-terminate", url, terminate)
        if only in (None, "live-node"):
            camera.take("live-node", url, at_node)
    with training(folder / "live" / "lenet-5", "--no-recommended", "--pace", "0.1") as running:
        if only in (None, "live-running"):
            camera.take("live-running", running.until("url")["url"], wait(".pill.running"))
    if only in (None, "live-lost"):
        with serving(None, mode="serve") as own:
            with training(folder / "live" / "lenet-6", "--server", f"127.0.0.1:{own.port}") as running:
                running.until("url")
                while not own.http.get("/api/runs").json():
                    time.sleep(0.1)
            camera.take("live-lost", f"{own.base}/run/lenet-6?token={TOKEN}", wait(".pill.killed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runs = made / "runs"
        print_lines(write_run(runs / "lenet-1"))
        write_run(runs / "killed-4", steps=40, bad_from=None, killed=True, watch=())
        write_ranks(runs / "ranks-5")
        write_run(runs / "muted-6", steps=20, bad_from=15)
        write_run(runs / "healthy-2", steps=60, bad_from=None, watch=())
        (runs / "broken-3" / "rank-0").mkdir(parents=True)
        (runs / "broken-3" / "rank-0" / "000000.log").write_bytes(b"this is no run")
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        camera = Camera(browser, asked.folder)
        recorded(camera, stack.enter_context(serving(runs)), asked.only)
        if asked.only in (None, "waiting"):
            waiting = stack.enter_context(serving(None, mode="serve"))
            camera.take("waiting", f"{waiting.base}/?token={TOKEN}", wait(".empty-title"))
        live(camera, made, asked.only)
        browser.close()


if __name__ == "__main__":
    main()
