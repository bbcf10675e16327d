"""One call that seeds everything."""

from __future__ import annotations

import os
import random
import sys

import numpy as np


def seed_all(seed: int = 1, *, deterministic: bool = False) -> None:
    """Seed Python, NumPy and those of PyTorch and MindSpore that the program has imported.

    `deterministic` also asks the frameworks for operators with a fixed order of sums, which may be slower.

    >>> seed_all(3); first = random.random(); seed_all(3); first == random.random()
    True
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)  # every device
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
    mindspore = sys.modules.get("mindspore")
    if mindspore is not None:
        mindspore.set_seed(seed)
        mindspore.dataset.config.set_seed(seed)
        if deterministic:
            mindspore.set_deterministic(True)
