"""Takes pictures of every view and state of the page, light and dark, in two sizes.

    python scripts/screenshots.py docs/_static/screens [--only NAME …]

What is shown are the tests' own runs: written by hand, or for graph, tensor and stacks recorded with PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, Page, sync_playwright

from tests.compare.written import chain
from tests.page import test_time, test_tune
from tests.page.conftest import chromium
from tests.page.recorded import print_lines, write_ranks, write_run
from tests.page.test_live import training
from tests.page.trainings import record
from tests.server.serving import TOKEN, Served, serving

SIZES = {"wide": (1440, 900), "small": (1024, 768)}
SCHEMES = ("light", "dark")
Ready = Callable[[Page], None]
Only = frozenset[str]  # names of views; none means all


def wanted(only: Only, name: str) -> bool:
    return not only or name in only


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
    "killed": ("/run/killed-4", wait("text=it was killed")),
    "ranks": ("/run/ranks-5?tab=run", wait("section[aria-label=Ranks] td")),
    "muted": ("/run/muted-6", muted),
    "healthy": ("/run/healthy-2", wait("text=Nothing wrong was found")),
    "unreadable": ("/run/broken-3", wait("text=This run cannot be shown")),
    "missing": ("/run/nothing", wait("text=This run is not here")),
}


def nodes_graph(page: Page) -> None:
    page.locator(".sheet .box.on").wait_for()


def whole_graph(page: Page) -> None:
    page.get_by_role("button", name="Open layers", exact=True).click()
    page.locator(".sheet .box.range").wait_for()


def operator(page: Page) -> None:
    page.get_by_label("Search the graph").fill("layers.5.attention.qkv addmm")
    page.get_by_label("Found in the graph").get_by_role("button").first.click()
    page.locator(".operator-panel").wait_for()
    page.locator(".sheet .box.on").wait_for()


def tensor(page: Page) -> None:
    page.get_by_label("View output layers.3.mlp output.0", exact=True).click()
    page.locator(".heat canvas[data-painted]").wait_for()
    page.get_by_role("region", name="Relations").locator(".sheet .box.on").wait_for()


def difference(page: Page) -> None:
    tensor(page)
    page.get_by_label("Compare with").select_option("step:4")
    page.get_by_test_id("difference").wait_for()


def images(page: Page) -> None:
    page.get_by_label(re.compile("^View input")).first.click()
    page.get_by_role("button", name="images").click()
    page.get_by_alt_text("Image 0 of the batch").wait_for()


def tree_filters(page: Page) -> None:
    page.get_by_label("Rank of modules").select_option("1")
    page.get_by_label("Network of modules").select_option("generator")
    page.get_by_role("treeitem", name="3 Tanh").click()
    page.wait_for_selector(".inspector .tensor")


def compared_time(page: Page) -> None:
    page.get_by_role("region", name="Compared").scroll_into_view_if_needed()


def stacks(page: Page) -> None:
    page.locator(".line-rows tr.hit").filter(has_text="gpt.py:18").click()
    page.get_by_label("Source around the line").wait_for()


REAL: dict[str, tuple[str, Ready]] = {
    "graph": ("/run/gpt?tab=graph", whole_graph),
    "graph-near": ("/run/gpt/step/6/node/layers.3.attention.qkv?tab=graph", nodes_graph),
    "graph-operator": ("/run/gpt?tab=graph", operator),
    "graph-networks": ("/run/gan?tab=graph", wait(".sheet .box")),
    "tensor": ("/run/gpt/step/5/node/layers.3.mlp?tab=hits", tensor),
    "tensor-difference": ("/run/gpt/step/5/node/layers.3.mlp?tab=hits", difference),
    "tensor-images": ("/run/resnet/step/3/node/~?tab=tensor", images),
    "stacks": ("/run/gpt?tab=stacks", stacks),
    "tree-filters": ("/run/ranks", tree_filters),
    "prints": ("/run/handing?tab=output&part=prints", wait(".prints li")),
    "data": ("/run/handing?tab=data", wait(".data article")),
    "hooks": ("/run/handing?tab=run", wait("section[aria-label=Hooks]")),
}
OTHER: dict[str, tuple[str, Ready]] = {
    "compare": ("/compare?a=right&b=ported", wait(".fault")),
    "time": ("/run/slow-1?tab=time", wait("section[aria-label=Timeline]")),
    "time-compared": ("/run/slow-1?tab=time&against=fast-2", compared_time),
    "tune": ("/tune/search-tune-1", wait("section[aria-label=Trials]")),
}


LIVE = ("live-paused", "live-terminate", "live-node", "live-running", "live-lost")


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


def views(camera: Camera, served: Served, only: Only, table: dict[str, tuple[str, Ready]]) -> None:
    for name, (path, ready) in table.items():
        if wanted(only, name):
            sign = "&" if "?" in path else "?"
            camera.take(name, f"{served.base}{path}{sign}token={TOKEN}", ready)


def recorded(camera: Camera, served: Served, only: Only) -> None:
    views(camera, served, only, RECORDED)
    if wanted(only, "locked"):
        camera.take("locked", f"{served.base}/run/lenet-1", wait(".empty-title"))


def real(camera: Camera, folder: Path, only: Only) -> None:
    if not any(wanted(only, name) for name in REAL):
        return
    folder.mkdir()
    for name in ("gpt", "resnet", "gan", "handing"):
        record(folder, name)
    for rank in (0, 1):
        record(folder, "ranks", rank, 2)
    with serving(folder / "runs") as served:
        views(camera, served, only, REAL)


def other(camera: Camera, folder: Path, only: Only) -> None:
    if not any(wanted(only, name) for name in OTHER):
        return
    folder.mkdir()
    chain(folder / "right")
    chain(folder / "ported", wrong_from=25)
    test_time.write(folder / "slow-1", [test_time.profile(0), test_time.profile(1, 0.11)])
    test_time.write(folder / "fast-2", [test_time.profile(0, 0.001)])
    test_tune.write(folder)
    with serving(folder) as served:
        views(camera, served, only, OTHER)


def live(camera: Camera, folder: Path, only: Only) -> None:
    if not any(wanted(only, name) for name in LIVE):
        return
    with training(folder / "live" / "lenet-4", "--bad-from", "80", "--wait-for-page") as running:
        url = running.until("url")["url"]
        if wanted(only, "live-paused"):
            camera.take("live-paused", url, wait(".pill.paused"))
        if wanted(only, "live-terminate"):
            camera.take("live-terminate", url, terminate)
        if wanted(only, "live-node"):
            camera.take("live-node", url, at_node)
    with training(folder / "live" / "lenet-5", "--no-recommended", "--pace", "0.1") as running:
        if wanted(only, "live-running"):
            camera.take("live-running", running.until("url")["url"], wait(".pill.running"))
    if wanted(only, "live-lost"):
        with serving(None, mode="serve") as own:
            with training(folder / "live" / "lenet-6", "--server", f"127.0.0.1:{own.port}") as running:
                running.until("url")
                while not own.http.get("/api/runs").json():
                    time.sleep(0.1)
            camera.take("live-lost", f"{own.base}/run/lenet-6?token={TOKEN}", wait(".pill.killed"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[])
    asked = parser.parse_args()
    only = frozenset(asked.only)
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
        recorded(camera, stack.enter_context(serving(runs)), only)
        if wanted(only, "waiting"):
            waiting = stack.enter_context(serving(None, mode="serve"))
            camera.take("waiting", f"{waiting.base}/?token={TOKEN}", wait(".empty-title"))
        other(camera, made / "other", only)
        real(camera, made / "real", only)
        live(camera, made, only)
        browser.close()


if __name__ == "__main__":
    main()
