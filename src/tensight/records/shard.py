"""The part of a tensor that one rank holds."""

from __future__ import annotations

import msgspec


class Shard(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which part of a tensor this rank holds, in a mesh of ranks.

    `placements` has one word for each dimension of the mesh: 'S(0)' cut along dimension 0 of the tensor, 'R' whole on
    each, 'P(sum)' still to be summed. `at` is this rank's place in the mesh; `ranks` hold the very same part.
    """

    shape: tuple[int, ...]  # of the whole tensor
    placements: tuple[str, ...]
    mesh: tuple[int, ...]
    names: tuple[str, ...] = ()  # of the mesh's dimensions
    at: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def part(self) -> tuple[int, ...]:
        """Which part it is: the place in those dimensions of the mesh along which the tensor is not whole.

        >>> Shard((8, 4), ("R", "S(0)"), (2, 2), ("dp", "tp"), at=(1, 0)).part
        (0,)
        """
        return tuple(place for placement, place in zip(self.placements, self.at) if placement != "R")

    @property
    def partial(self) -> bool:
        """Whether the values of several ranks have to be summed to be those of the tensor."""
        return any(placement.startswith("P") for placement in self.placements)

    def words(self) -> str:
        """
        >>> Shard((8, 4), ("S(0)",), (2,), ("tp",), at=(1,)).words()
        'a part of 8x4: S(0) over tp (2 ranks), place 1'
        """
        names = self.names or tuple(str(number) for number in range(len(self.mesh)))
        over = ", ".join(
            f"{placement} over {name} ({size} ranks), place {place}"
            for placement, name, size, place in zip(self.placements, names, self.mesh, self.at or (0,) * len(self.mesh))
        )
        return f"a part of {'x'.join(map(str, self.shape)) or 'a number'}: {over}"
