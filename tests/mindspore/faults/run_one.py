"""Runs one program of this folder: `python run_one.py NAME good|bad`. Started by hand; tests call `watched`."""

from __future__ import annotations

import sys

import mindspore as ms

from tests.mindspore.faults.programs import PROGRAMS


def run(name: str, *, bad: bool) -> None:
    program = PROGRAMS[name]
    if program.graph:
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        program.run(bad)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


if __name__ == "__main__":
    run(sys.argv[1], bad=sys.argv[2] == "bad")
