"""The suite refuses adapters that break the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
import torch
from torch import nn

from tensight.frameworks.adapter import Adapter, Sink
from tensight.frameworks.torch.adapter import TorchAdapter
from tests.adapters import test_torch_suite as on_torch


class DrawsNumbers(TorchAdapter):
    def attach(self, sink: Sink) -> None:
        tell = sink.forward

        def forward(network: str, training: bool) -> None:
            torch.rand(1)
            tell(network, training)

        sink.forward = forward  # type: ignore[method-assign]
        super().attach(sink)


class LeavesSomething(TorchAdapter):
    def attach(self, sink: Sink) -> None:
        super().attach(sink)
        nn.Module.left_by_adapter = True  # type: ignore[assignment]


class LacksSilently(TorchAdapter):
    cannot: ClassVar[Mapping[str, str]] = {"frozen": "too hard"}


class Suite(on_torch.TestTorch):
    """The suite on an adapter that a test chooses. Not collected by itself: its name says no test."""

    kind: type[TorchAdapter] = TorchAdapter

    def adapter(self) -> Adapter:
        return self.kind()


def suite(kind: type[TorchAdapter]) -> Suite:
    made: Suite = type(f"On{kind.__name__}", (Suite,), {"kind": kind})()
    return made


@pytest.fixture
def _cleaned() -> Iterator[None]:
    yield
    del nn.Module.left_by_adapter


def test_a_random_number_that_is_drawn_is_noticed() -> None:
    with pytest.raises(AssertionError, match="random number"):
        suite(DrawsNumbers).test_a_training_is_bitwise_the_same("train")


@pytest.mark.usefixtures("_cleaned")
def test_something_left_behind_is_noticed() -> None:
    with pytest.raises(AssertionError):
        suite(LeavesSomething).test_detach_leaves_nothing_behind()


def test_a_capability_that_lacks_without_being_published_is_noticed() -> None:
    with pytest.raises(KeyError, match="frozen"):
        suite(LacksSilently).test_frozen_parameters_are_told_apart()
