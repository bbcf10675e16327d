"""Small trainings as people write them, each with something that a debugger could disturb.

Each is a function of a `Setting` that trains a few steps and returns everything that must not change: losses, weights,
buffers, optimizer states and the states of the random generators.
"""

from __future__ import annotations

import random

import numpy as np
import torch

from tests.harm import architectures, loops  # noqa: F401  (each adds its own to NETWORKS)
from tests.harm.setting import NETWORKS, Result, Setting


def run(name: str, setting: Setting) -> Result:
    """A training from its seed on, with the process left as it was found."""
    threads = torch.get_num_threads()
    torch.set_num_threads(setting.threads)
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    try:
        return NETWORKS[name](setting)
    finally:
        torch.set_num_threads(threads)
