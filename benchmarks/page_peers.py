"""The same graph in Tensight's page, in TensorBoard and in Model Explorer: how long until it is drawn.

    python benchmarks/page_peers.py [--operators 100000] [--model-explorer PATH] [--times 3]

The graph is the one of `benchmarks/page.py`. TensorBoard must be installed beside Tensight; Model Explorer is best
installed in an environment of its own, whose `model-explorer` is named. Each tool is served by itself and opened in
Chromium anew; the time is from asking for the address until the first boxes are there. The longest task is the longest
time in which the page could not answer. What does not open within the limit is said so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.page import WATCH_TASKS, longest, make_run
from playwright.sync_api import Browser, Error, sync_playwright

from tensight.records import Graph
from tensight.store import Reader
from tests.page.conftest import chromium
from tests.server.serving import TOKEN, serving

LIMIT = 180.0  # seconds
Open = Callable[[Path, Graph], "contextlib.AbstractContextManager[tuple[str, str]]"]


def space(graph: Graph, scope: int) -> str:
    """A module as a path with slashes."""
    found = graph.scopes[scope]
    return "/".join([*([found.network] if found.network else []), *(found.path.split(".") if found.path else [])])


@contextlib.contextmanager
def tensight(folder: Path, graph: Graph) -> Iterator[tuple[str, str]]:
    with serving(folder) as served:
        yield f"{served.base}/run/large?tab=graph&token={TOKEN}", ".sheet .box.module, .sheet .box.range"


@contextlib.contextmanager
def tensorboard(folder: Path, graph: Graph) -> Iterator[tuple[str, str]]:
    from tensorboard.compat.proto import event_pb2, graph_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    made = graph_pb2.GraphDef()
    names = [f"{space(graph, node.scope)}/{node.name}_{place}".lstrip("/") for place, node in enumerate(graph.nodes)]
    for place, node in enumerate(graph.nodes):
        made.node.add(name=names[place], op=node.name, input=[names[one] for one in node.inputs])
    logs = folder / "logs"
    writer = EventFileWriter(str(logs))
    writer.add_event(event_pb2.Event(wall_time=time.time(), graph_def=made.SerializeToString()))
    writer.close()
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(logs),
        "--port",
        str(port),
        "--load_fast=false",
    ]
    with running(command, f"http://127.0.0.1:{port}/data/plugin/graphs/info") as base:
        yield f"{base}/#graphs", "g.node"


def model_explorer(program: str) -> Open:
    @contextlib.contextmanager
    def opened(folder: Path, graph: Graph) -> Iterator[tuple[str, str]]:
        nodes = [
            {
                "id": str(place),
                "label": node.name,
                "namespace": space(graph, node.scope),
                "incomingEdges": [{"sourceNodeId": str(one)} for one in node.inputs],
            }
            for place, node in enumerate(graph.nodes)
        ]
        file = folder / "graph.json"
        file.write_text(json.dumps({"label": "large", "graphs": [{"id": "step 2", "nodes": nodes}]}))
        port = free_port()
        command = [program, "--no_open_in_browser", "--host", "127.0.0.1", "--port", str(port), str(file)]
        with running(command, f"http://127.0.0.1:{port}/") as base:
            asked = json.dumps({"models": [{"url": str(file)}]})
            yield f"{base}/?data={urllib.request.quote(asked)}", "webgl-renderer canvas"

    return opened


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], ready: str) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + LIMIT
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(ready, timeout=5):
                break
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"{command[0]} does not answer")
            time.sleep(0.2)
        yield "http://" + ready.split("/")[2]
    finally:
        process.terminate()
        process.wait(30)


def measure(browser: Browser, address: str, box: str) -> tuple[float, float]:
    """Seconds until a box is drawn, and the longest task in milliseconds."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        page = context.new_page()
        page.add_init_script(WATCH_TASKS)
        began = time.perf_counter()
        page.goto(address, timeout=LIMIT * 1000)
        page.wait_for_selector(box, timeout=LIMIT * 1000)
        return time.perf_counter() - began, longest(page)
    finally:
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=100_000)
    parser.add_argument("--model-explorer", default="model-explorer")
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    tools: dict[str, Open] = {"Tensight": tensight, "TensorBoard": tensorboard}
    program = shutil.which(asked.model_explorer)
    if program:
        tools["Model Explorer"] = model_explorer(program)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        folder = Path(made)
        make_run(folder / "large", asked.operators, 1000, 64)
        graph = Reader(folder / "large", 0).graph("step 2")
        assert graph is not None
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, tool in tools.items():
            try:
                with tool(folder, graph) as (address, box):
                    found = [measure(browser, address, box) for _ in range(asked.times)]
                drawn, tasks = ([one[part] for one in found] for part in (0, 1))
                each = ", ".join(f"{one:.1f}" for one in drawn)
                said = f"drawn after {statistics.median(drawn):6.1f} s ({each})"
                print(f"{name:16} {said}, longest task {statistics.median(tasks):7.0f} ms", flush=True)
            except (Error, RuntimeError) as error:
                print(f"{name:16} not drawn: {str(error).splitlines()[0]}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
