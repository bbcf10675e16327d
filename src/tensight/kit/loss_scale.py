"""Loss scale, fixed and dynamic: plain rules, the same for every framework."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tensight.errors import TensightError, UsageError

MOST_OVERFLOWS = 1000  # in a row


class LossScale(ABC):
    """What a loss is multiplied by before the gradient is taken. `update` is told of every step."""

    drop_overflow_update = True

    def __init__(self, scale: float) -> None:
        if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 1 <= scale < float("inf"):
            raise UsageError(f"a loss scale is a number from 1 on, not {scale!r}")
        self.scale = float(scale)
        self.overflows = 0  # in a row
        self.skipped = 0

    def get_loss_scale(self) -> float:
        return self.scale

    def update(self, overflow: bool) -> float:
        """Take note of a step; answers the scale of the next."""
        self.overflows = self.overflows + 1 if overflow else 0
        self.skipped += overflow and self.drop_overflow_update
        if self.overflows > MOST_OVERFLOWS:
            raise TensightError(
                f"loss scale: gradients overflowed in {self.overflows} steps in a row; an operator overflows whatever"
                " the scale: find it with tensight.kit.precision.scale_one_test"
            )
        return self.scale

    def update_loss_scale(self, overflow: bool) -> None:
        self.update(bool(overflow))

    @abstractmethod
    def advice(self) -> str:
        """What to do, '' when all is well."""


class FixedLossScaleManager(LossScale):
    """The same scale in every step. Steps whose gradients overflow change nothing when `drop_overflow_update`.

    >>> scale = FixedLossScaleManager(128.0)
    >>> [scale.update(overflow) for overflow in (False, True)], scale.skipped
    ([128.0, 128.0], 1)
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        super().__init__(loss_scale)
        self.drop_overflow_update = drop_overflow_update

    def advice(self) -> str:
        """
        >>> scale = FixedLossScaleManager(1024)
        >>> for _ in range(3): _ = scale.update(True)
        >>> scale.advice()
        'the fixed scale of 1024.0 overflowed in 3 steps in a row: lower it to 512.0 or use DynamicLossScaleManager'
        """
        if self.overflows < 3:
            return ""
        if self.scale <= 1:
            return (
                "gradients overflow with a scale of 1: not the scale, an operator overflows (scale_one_test names it)"
            )
        return (
            f"the fixed scale of {self.scale} overflowed in {self.overflows} steps in a row: lower it to"
            f" {max(1.0, self.scale / 2)} or use DynamicLossScaleManager"
        )


class DynamicLossScaleManager(LossScale):
    """Halved on overflow, and the step is left out; doubled after `scale_window` steps without one.

    >>> scale = DynamicLossScaleManager(4, 2, 3)
    >>> [int(scale.update(bit == "1")) for bit in "0000100001111"]
    [4, 4, 8, 8, 4, 4, 4, 8, 8, 4, 2, 1, 1]
    """

    def __init__(self, init_loss_scale: float = 2**24, scale_factor: float = 2, scale_window: int = 2000) -> None:
        super().__init__(init_loss_scale)
        if not scale_factor > 1:
            raise UsageError(f"scale_factor is {scale_factor}; give a number above 1")
        if isinstance(scale_window, bool) or not isinstance(scale_window, int) or scale_window < 1:
            raise UsageError(f"scale_window is {scale_window!r}; give a whole number from 1 on")
        self.factor = float(scale_factor)
        self.window = scale_window
        self._good = 0

    def update(self, overflow: bool) -> float:
        super().update(overflow)
        if overflow:
            self.scale = max(self.scale / self.factor, 1.0)
            self._good = 0
        else:
            self._good += 1
            if self._good >= self.window:
                self.scale *= self.factor
                self._good = 0
        return self.scale

    def advice(self) -> str:
        if self.overflows < 10:
            return ""
        if self.scale <= 1:
            return (
                "the dynamic scale fell to 1 and gradients still overflow: an operator does (scale_one_test names it)"
            )
        return (
            f"gradients overflowed in {self.overflows} steps in a row; the dynamic scale has come down to {self.scale}"
        )
