"""Whether pictures and the pictures they are to become lie upon each other: asked once, of the first samples.

Where a target shows the same thing as its input (a mask, a sharper or cleaner picture), the two are correlated place by
place, and in the same sense in all samples. When a mirrored target fits an input well and the target itself does not,
something has turned the one and not the other. Smooth pictures fit each other by chance, one way in one sample and the
opposite way in the next: what cancels out is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching

SAMPLES = 64
SMALLEST = 8  # side of a picture
LARGEST = 64  # side at which they are compared
FITS = 0.5  # correlation
APART = 0.3  # by which another way round must fit better
FEWEST = 0.1  # share of the samples that must show which way they fit


class PictureProbe:
    """Gathers samples from calls of a loss until there are enough, then tells and is done."""

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._count = 0
        self._turned = 0
        self._upright = 0
        self._done = False

    def look(self, inputs: Sequence[torch.Tensor], target: torch.Tensor | None) -> None:
        if self._done or type(target) not in PLAIN or target is None or target.device.type != "cpu":
            return
        fed = next((one for one in inputs if type(one) in PLAIN and _match(one, target)), None)
        if fed is None:
            return
        with torch.no_grad():
            turned, upright = compare(fed.detach()[:SAMPLES], target.detach()[:SAMPLES])
        self._count += min(len(fed), SAMPLES)
        self._turned += turned
        self._upright += upright
        if self._count >= SAMPLES:
            self._done = True
            turned, upright = abs(self._turned), abs(self._upright)
            if turned + upright >= FEWEST * self._count:
                self.watching.sink.scalar("probe/turned_targets", turned / (turned + upright))


def compare(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[int, int]:
    """How many targets fit their input only when they are mirrored, and how many fit as they are, beyond chance.

    >>> pictures = torch.randn(8, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    >>> compare(pictures, pictures), compare(pictures, pictures.flip(-1))
    ((0, 8), (8, 0))
    >>> sense = torch.tensor([1.0, -1.0]).repeat(4)[:, None, None, None]
    >>> compare(pictures, sense * pictures.flip(-1))
    (0, 0)
    """
    pictures, wanted = _flat(inputs), _flat(targets)
    plain = _correlation(pictures, wanted)
    ways = [(-1,), (-2,), (-1, -2)]
    flipped = torch.stack([_correlation(pictures, wanted.flip(way)) for way in ways])
    largest = flipped.abs().argmax(0, keepdim=True)
    best = flipped.gather(0, largest)[0]
    return _beyond_chance(best, plain), _beyond_chance(plain, best)


def _beyond_chance(fits: torch.Tensor, other: torch.Tensor) -> int:
    """How many more fit this way and not the other in one sense than in the opposite one, which counts below 0."""
    clear = (fits.abs() > FITS) & (fits.abs() > other.abs() + APART)
    return int(fits[clear].sign().sum())


def _match(fed: torch.Tensor, target: torch.Tensor) -> bool:
    if fed.dim() != 4 or not fed.is_floating_point() or target.dim() not in (3, 4) or target.is_complex():
        return False
    same = fed.shape[0] == target.shape[0] and fed.shape[-2:] == target.shape[-2:]
    return same and min(fed.shape[-2:]) >= SMALLEST and fed.device == target.device


def _flat(pictures: torch.Tensor) -> torch.Tensor:
    """One channel, small, without mean and of length one."""
    values = pictures.to(torch.float32)
    if values.dim() == 4:
        values = values.mean(1)
    height, width = (max(1, side // LARGEST) for side in values.shape[-2:])
    values = values[:, ::height, ::width]
    values = values - values.mean((-2, -1), keepdim=True)
    return values / values.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]


def _correlation(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum((-2, -1))
