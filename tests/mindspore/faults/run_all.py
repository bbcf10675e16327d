"""Runs programs of this folder, each in a session of its own, and prints what is found in each as a line of JSON.

python -m tests.mindspore.faults.run_all FOLDER [NAME…]
"""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import mindspore as ms

from tensight.frameworks.mindspore import inside
from tensight.replay import copying, shadowing
from tensight.session.companions import companions
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tests.mindspore.faults.programs import PROGRAMS


def run(name: str, *, bad: bool) -> None:
    program = PROGRAMS[name]
    if program.graph:
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        program.run(bad)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def watched(name: str, folder: Path, *, bad: bool) -> dict[str, object]:
    """What a session finds in a program, what it has lost, and what it printed."""
    words = io.StringIO()
    session = Session(Settings(run_dir=folder, page=False, budget=100.0), Terminal(words), companions)
    session.start()
    try:
        run(name, bad=bad)
    finally:
        session.finish("finished", script_exit=0)
    assert session.end is not None
    found = [
        {
            "fault": one.fault,
            "place": f"{one.where.code} {one.where.module} {one.where.op} {one.where.parameter}",
            "replay": one.replay,
        }
        for one in session.findings
    ]
    return {"name": name, "bad": bad, "findings": found, "lost": session.end.lost, "words": words.getvalue()}


def be_patient() -> None:
    """However slow the machine is, compiled steps are looked into, and bad ones are run again."""
    inside.ENOUGH = math.inf
    shadowing.PATIENCE = copying.LIMIT = 500.0


def main() -> None:
    be_patient()
    ms.runtime.launch_blocking()  # MindSpore's threads wait busily for each other; tests have few cores
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or PROGRAMS:
        for bad in (True, False):
            print(json.dumps(watched(name, folder / f"{name}-{bad}", bad=bad)), flush=True)


if __name__ == "__main__":
    main()
