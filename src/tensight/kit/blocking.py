"""Synchronous mode, by one name on every framework."""

from __future__ import annotations

import os

from tensight.kit.backend import imported


def launch_blocking() -> list[str]:
    """Run operators one after the other, so that an error's stack ends at the line that made it. Slower.

    Call it before the first operator. Answers, for each framework that is imported, what was done.

        import tensight
        print(*tensight.launch_blocking(), sep="\n")
    """
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # read by CUDA when it starts, whoever starts it
    return [f"{one.name}: {one.launch_blocking()}" for one in imported()]
