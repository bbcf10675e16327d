"""Copies of weights, which tell how an update has changed them."""

from __future__ import annotations

import pytest
import torch

from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.room import Room


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last),
        torch.randn(4, 6).t(),
        torch.randn(8, 8)[:, ::2],
        torch.randn(5).to(torch.bfloat16),
    ],
    ids=["plain", "channels last", "transposed", "with gaps", "bfloat16"],
)
def test_copies_of_weights_have_their_values_whatever_their_layout(tensor: torch.Tensor) -> None:
    (copy,) = Room().hand_out([tensor])
    statistics.copy_values([copy], [tensor])
    assert torch.equal(copy, tensor)
    assert copy.stride() == tensor.stride()
