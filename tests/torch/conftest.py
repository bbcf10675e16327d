"""An attached adapter and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tensight.frameworks.torch.adapter import TorchAdapter

from .recording import RecordingSink

Watch = Callable[..., RecordingSink]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """`watch(**sink_settings)` attaches a new adapter; no probe of it may have failed when the test ends."""
    adapter = TorchAdapter()
    sinks: list[RecordingSink] = []

    def attach(**settings: Any) -> RecordingSink:
        torch.manual_seed(0)
        sink = RecordingSink(**settings)
        sink.adapter = adapter
        sinks.append(sink)
        adapter.attach(sink)
        return sink

    yield attach
    adapter.detach()
    for sink in sinks:
        assert [repr(error) for _, error in sink.failures] == []
