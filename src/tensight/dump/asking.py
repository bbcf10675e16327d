"""Whether a dump is asked for: apart from what it is to hold, so that a training without one need not know it."""

from __future__ import annotations

import os

ENVIRONMENT = ("TENSIGHT_DUMP_CONFIG", "MINDSPORE_DUMP_CONFIG")


def asked() -> bool:
    """Whether the environment names a dump's configuration."""
    return any(os.environ.get(name) for name in ENVIRONMENT)
