"""How quickly the page shows what is large, in a real Chromium.

    python benchmarks/page.py [--operators 100000] [--rows 1000000] [--side 4096]

Makes a run with a graph of many operators in about 2,000 modules, many rows of statistics and one large kept tensor,
serves it, and measures from outside: first useful paint of the graph, opening a block, search, the curve of a
statistic, the heat map and the processor time it takes the server, the longest task on the page's own thread, and the
size of the page's files.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tensight.records import Module, Network, Observation, RunEnd, RunInfo, Stats, StepRecord, TensorInfo
from tensight.records.graph import Frame
from tensight.records.graph_builder import GraphBuilder
from tensight.server.app import STATIC
from tensight.store import Writer
from tests.page.conftest import chromium
from tests.server.serving import TOKEN, serving

PARTS = (
    "norm1",
    "attention.q",
    "attention.k",
    "attention.v",
    "attention.out",
    "norm2",
    "mlp.up",
    "mlp.gate",
    "mlp.down",
)
WATCH_TASKS = """window.tasks = [];
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.tasks.push(one.duration); })
  .observe({ type: "longtask", buffered: true });"""


def paths(blocks: int) -> list[str]:
    return [f"layers.{block}.{part}" for block in range(blocks) for part in PARTS]


def make_graph(writer: Writer, operators: int, blocks: int) -> None:
    """A chain of blocks; the operators are spread over the modules, forward and backward."""
    builder = GraphBuilder("step 2", 2, most=operators + 10)
    modules = paths(blocks)
    each = max(1, operators // (2 * len(modules)))
    stack = builder.stack([Frame("model.py", 40, "forward", "x = layer(x)")])
    last = builder.add("input", builder.scope("", ""), kind="input", outputs=("float32[8, 512, 1024]",))
    made: list[tuple[int, int]] = []
    for place, path in enumerate(modules):
        scope = builder.scope("net", path, path.rpartition(".")[2].capitalize())
        weight = builder.add("weight", scope, kind="parameter", outputs=("float32[1024, 1024]",))
        for number in range(each):
            # some differ, so that not all blocks are alike
            name = (
                "aten.mul" if number == 3 and place % 450 == 0 else ("aten.addmm", "aten.view", "aten.add")[number % 3]
            )
            last = builder.add(
                name, scope, inputs=(last, weight) if number == 0 else (last,), outputs=("float32[8, 64]",), stack=stack
            )
            made.append((last, scope))
    for forward, scope in reversed(made):
        last = builder.add("aten.backward", scope, phase="backward", inputs=(last,), forward=forward)
    writer.graph(builder.build())


def make_run(folder: Path, operators: int, rows: int, side: int, blocks: int = 200) -> None:
    writer = Writer(folder, RunInfo(folder.name, ("train.py",), time.time(), "torch", "2"), retention_bytes=1 << 34)
    modules = ["", *dict.fromkeys(above for path in paths(blocks) for above in (path.rpartition(".")[0], path))]
    writer.network(Network("net", "Net", tuple(Module(path, "Module") for path in sorted(modules))))
    make_graph(writer, operators, blocks)
    tensors = 500
    for number, path in enumerate(paths(blocks)[:tensors]):
        writer.tensor(TensorInfo(number, "output", path, "output.0", "net", shape=(side, side), dtype="float32"))
    steps = max(2, rows // tensors)
    wave = np.abs(np.sin(np.arange(steps) / 40)) + 0.1
    for step in range(steps):
        level = float(wave[step])
        seen = tuple(
            Observation(number, number, Stats(100, 0, 0, 0, 1, 40, 59, -level, level, 0.0, level / 2, level / 3, level))
            for number in range(tensors)
        )
        writer.step(StepRecord(step, time.time(), 0.1, loss=level, observations=seen))
    writer.tensors(steps - 1, {0: np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)})
    writer.end(RunEnd("finished", time.time(), 0, steps))
    writer.close()


def until(page: Page, action: str, done: str) -> float:
    """Milliseconds from an action in the page until something is painted."""
    return page.evaluate(
        """([action, done]) => new Promise((finish, fail) => {
          const start = performance.now();
          const ready = new Function("return " + done);
          const look = () => {
            if (ready()) requestAnimationFrame(() => setTimeout(() => finish(performance.now() - start)));
            else if (performance.now() - start > 60000) fail(new Error("not within a minute: " + done));
            else requestAnimationFrame(look);
          };
          new Function(action)();
          look();
        })""",
        [action, done],
    )


def longest(page: Page) -> float:
    page.wait_for_timeout(300)
    return max([0.0, *page.evaluate("window.tasks")])


def click(box: str) -> str:
    return (
        f"document.querySelector('.sheet {box} > .opener').dispatchEvent(new MouseEvent('click', {{bubbles: true}}));"
    )


def fill(label: str, text: str) -> str:
    return (
        f"const box = document.querySelector('[aria-label=\"{label}\"]'); box.value = '{text}'; "
        "box.dispatchEvent(new Event('input', { bubbles: true }));"
    )


def measure(page: Page, base: str, first: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    started = time.perf_counter()
    page.goto(f"{base}/run/large?tab=graph&token={TOKEN}")
    page.wait_for_selector(".sheet .box.module, .sheet .box.range")
    found["graph, first useful paint" + (" (cold)" if first else "")] = (time.perf_counter() - started) * 1000
    page.wait_for_timeout(500)
    count = "document.querySelectorAll('.sheet .box').length"
    page.evaluate(f"window.before = {count}")
    found["graph, open a block"] = until(
        page, f"window.before = {count}; {click('.box:not(.open)')}", f"{count} > window.before"
    )
    found["graph, open a range in it"] = until(
        page,
        f"window.before = {count}; {click('.box.range:not(.open)')}",
        f"{count} > window.before",
    )
    found["graph, search"] = until(
        page, fill("Search the graph", "layers.77 addmm"), "document.querySelectorAll('.graph-found button').length > 0"
    )
    found["graph, longest task"] = longest(page)
    page.goto(f"{base}/run/large/node/layers.0.norm1?tab=findings")
    page.wait_for_selector(".inspector .tensor")
    found["curve of a statistic"] = until(
        page,
        "document.querySelector('[aria-label^=\"Curve of\"]').click()",
        "[...document.querySelectorAll('.curve path.line')].some((one) => (one.getAttribute('d') || '').length > 3000)",
    )
    page.goto(f"{base}/run/large?tab=findings")
    page.wait_for_selector(".tabs")
    used = time.process_time()
    found["heat map"] = until(
        page,
        "history.pushState(null, '', '/run/large?tab=tensor&tensor=0'); dispatchEvent(new PopStateEvent('popstate'));",
        "document.querySelector('.heat canvas')?.dataset.painted !== undefined",
    )
    # the server is a thread of this process; what others do on the machine does not count here
    found["heat map, processor time of the server"] = (time.process_time() - used) * 1000
    found["other views, longest task"] = longest(page)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    sizes = {
        file.name: len(gzip.compress(file.read_bytes(), 9)) for file in sorted(STATIC.rglob("*")) if file.is_file()
    }
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder) / "large", asked.operators, asked.rows, asked.side)
        found: dict[str, list[float]] = {}
        with serving(Path(folder)) as served, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for turn in range(asked.times):
                page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                page.add_init_script(WATCH_TASKS)
                for name, value in measure(page, served.base, turn == 0).items():
                    found.setdefault(name, []).append(value)
                page.context.close()
            browser.close()
    print(f"{asked.operators} operators, {asked.rows} rows, a tensor of {asked.side}x{asked.side}; milliseconds")
    for name, values in found.items():
        print(f"{name:40} {statistics.median(values):8.0f}   ({', '.join(f'{one:.0f}' for one in values)})")
    print(f"page, gzip: {sum(sizes.values()) / 1000:.1f} kB", sizes)


if __name__ == "__main__":
    main()
