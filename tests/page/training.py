"""A training without any framework, under control: what a session does, with made-up numbers.

    python -m tests.page.training FOLDER [--server HOST:PORT] [--bad-from N] [--steps N] [--wait-for-page] …

Prints one JSON object with its address, then, when it ends, one with how.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from tensight.capture.recorder import Recorder
from tensight.control import launch
from tensight.control.address import find
from tensight.control.link import Link
from tensight.control.messages import Hello
from tensight.records import Coverage, Finding, RunEnd, RunInfo
from tensight.session.controlling import Controlling, RecorderDesk
from tensight.store import Writer
from tensight.watchpoints import recommended
from tensight.watchpoints.checker import Checker
from tests.page.recorded import LAYERS, finding, network, record, tensors


class Stopped(SystemExit):
    """How the fake session ends a script."""


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server")
    parser.add_argument("--bad-from", type=int)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--pace", type=float, default=0.02)
    parser.add_argument("--on-hit")
    parser.add_argument("--on-finding")
    parser.add_argument("--on-leave", default="continue")
    parser.add_argument("--grace", type=float, default=30.0)
    parser.add_argument("--no-recommended", action="store_true")
    parser.add_argument("--wait-for-page", action="store_true")
    asked = parser.parse_args()

    info = RunInfo(asked.folder.name, ("train.py",), time.time(), "torch", "2.13.0", pid=os.getpid())
    writer = Writer(asked.folder, info)
    address = launch.start(asked.folder) if asked.server is None else find(asked.server)
    infos = tensors()
    checker = Checker([] if asked.no_recommended else recommended.watchpoints(first_id=1))
    for point in checker.watchpoints:
        writer.watchpoint(point)
    writer.network(network())
    for one in infos:
        writer.tensor(one)
    recorder = cast("Recorder", SimpleNamespace(checker=checker, writer=writer))
    stopping: list[str] = []
    link = Link(address, Hello.of(info, asked.folder, "cpu")).start()
    control = Controlling(
        link,
        RecorderDesk(recorder),
        stopping.append,
        lambda text: say(said=text),
        on_finding=cast("Any", asked.on_finding),
        on_hit=cast("Any", asked.on_hit),
        on_leave=cast("Any", asked.on_leave),
        grace=asked.grace,
    )
    say(url=address.url, port=address.port, token=address.token, pid=os.getpid())
    known = {one.id: one for one in infos}
    control.started()
    while asked.wait_for_page and not link.pages:
        time.sleep(0.01)
    step = -1
    for step in range(asked.steps):
        control.step_began(step)
        for path, _ in LAYERS[1:]:
            if control.wants_nodes:
                control.node(path, "forward")
        time.sleep(asked.pace)
        seen = record(step, infos, bad_from=asked.bad_from, time=info.started)
        hits = checker.check(step, seen.observations, known, updates=step)
        seen = msgspec.structs.replace(seen, hits=tuple(hits), time=time.time())
        writer.step(seen)
        if step == 3:
            writer.coverage(Coverage(("LeNet",), ("SGD",), tensors=len(infos), watched=len(infos)))
        new: list[Finding] = [finding(step)] if step == asked.bad_from else []
        if new:
            writer.findings(new)
        control.step_ended(seen, new)
        if stopping:
            break
    end = RunEnd("stopped" if stopping else "finished", time.time(), 0, step + 1)
    writer.end(end)
    control.ended(end)
    writer.close()
    cpu = time.process_time()
    say(ended=end.ended, steps=step + 1, reason=stopping[0] if stopping else "", paused=control.paused_seconds, cpu=cpu)


if __name__ == "__main__":
    main()
