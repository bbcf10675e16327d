"""What the MindSpore adapter cannot do, and why. Imports nothing: the published table is made from it."""

from __future__ import annotations

CANNOT: dict[str, str] = {
    "compiled": (
        "graph mode and jit run outside Python; loss, parameters, updates and steps are seen from outside, and a"
        " session looks inside by running a step again as Python, in a copy of the process, from time to time"
    ),
}
