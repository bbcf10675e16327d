"""The kit imports no framework by itself."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import tensight.kit.callbacks.summary, tensight.kit.callbacks.stopping, tensight.kit.data_check, tensight.kit.hooks
import tensight.kit.logs, tensight.kit.loop, tensight.kit.model, tensight.kit.precision, tensight.kit.printing
import tensight.kit.rate_range, tensight.kit.schedules
heavy = {"torch", "mindspore", "sklearn", "torchmetrics", "tensorboard", "lightning", "transformers", "accelerate"}
print(sorted(heavy & set(sys.modules)))
"""


def test_the_kit_imports_no_framework_and_no_extra() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    import tensight.kit.metrics

    for name in tensight.kit.__all__:
        assert getattr(tensight.kit, name) is not None
    metrics = {name for name in tensight.kit.__all__ if name in tensight.kit.metrics.__all__}
    assert set(tensight.kit.__all__) == set(tensight.kit._PUBLIC) | metrics
