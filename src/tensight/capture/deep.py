"""The steps that are captured at full depth: `--steps 3-5,9`."""

from __future__ import annotations

from tensight.errors import UsageError


class DeepSteps:
    """A set of steps written as ranges.

    >>> deep = DeepSteps.parse("3-5,9")
    >>> [step for step in range(12) if step in deep]
    [3, 4, 5, 9]
    """

    def __init__(self, ranges: tuple[tuple[int, int], ...] = ()) -> None:
        self.ranges = ranges

    @classmethod
    def parse(cls, text: str) -> DeepSteps:
        ranges = []
        for piece in text.split(","):
            first, dash, last = piece.strip().partition("-")
            if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
                raise UsageError(f"--steps {text!r}: {piece.strip()!r} is not a step or a range; write e.g. 3-5,9")
            ranges.append((int(first), int(last) if dash else int(first)))
        return cls(tuple(ranges))

    def __contains__(self, step: int) -> bool:
        return any(first <= step <= last for first, last in self.ranges)

    def and_step(self, step: int) -> DeepSteps:
        """These and one more.

        >>> 7 in DeepSteps.parse("3-5").and_step(7)
        True
        """
        return DeepSteps((*self.ranges, (step, step)))

    def distance(self, step: int) -> int:
        """Steps from this one to the next in the set; many when there is none.

        >>> DeepSteps.parse("3-5,9").distance(6)
        3
        """
        return min((first - step for first, _ in self.ranges if first > step), default=1 << 30)
