"""One number for all bits of a tensor, cheap enough to take of every weight: replicas are compared by it.

The bytes are added up as 64-bit numbers in blocks, and the blocks with odd factors: everything modulo 2**64. A changed
bit changes a block by a power of two, and that times an odd number is never 0 modulo 2**64: a single changed bit is
always seen, and so are values that have moved from one block to another.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tensight.frameworks.torch.shards import local

BLOCK = 256  # numbers of 8 bytes
_FACTOR = 0x9E3779B97F4A7C15  # odd, its bits well spread
_MODULO = 1 << 64


def checksums(tensors: Sequence[torch.Tensor]) -> list[int]:
    """A checksum of each; of a DTensor of what this rank holds.

    >>> one = torch.ones(3)
    >>> before = checksums([one])
    >>> one.view(torch.int32)[1] ^= 1
    >>> checksums([one]) == before
    False
    """
    with torch.no_grad():
        found = [_sum(tensor) for tensor in tensors]
        heads = [head for head, _ in found]
        if heads:
            devices = {head.device for head in heads}
            values = torch.stack(heads).tolist() if len(devices) == 1 else [int(head.item()) for head in heads]
        else:
            values = []
        return [(value + tail) % _MODULO for value, (_, tail) in zip(values, found)]


def _sum(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The sum over whole numbers of 8 bytes, and what is left over behind them."""
    values = local(tensor).detach()
    if values.layout is not torch.strided:
        values = values.coalesce().values() if values.layout is torch.sparse_coo else values.to_dense()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    raw = values.contiguous().reshape(-1).view(torch.uint8)
    if raw.storage_offset() % 8:
        raw = raw.clone()
    count = raw.numel() // 8
    numbers = raw[: 8 * count].view(torch.int64)
    left = raw[8 * count :]
    tail = int.from_bytes(bytes(left.tolist()), "little") * _FACTOR if left.numel() else 0
    whole = count // BLOCK * BLOCK
    blocks = numbers[:whole].view(-1, BLOCK).sum(1)
    if whole < count:
        blocks = torch.cat((blocks, numbers[whole:].sum().reshape(1)))
    factors = torch.arange(1, 2 * blocks.numel() + 1, 2, device=blocks.device) * _signed(_FACTOR)
    return (blocks * factors).sum(), tail


def _signed(value: int) -> int:
    return value - _MODULO if value >= _MODULO // 2 else value
