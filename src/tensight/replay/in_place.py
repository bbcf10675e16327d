"""The bad step once more in the training's own process: only where the training ends at its first trouble anyway.

Weights, buffers, optimizers, schedulers, scalers and random generators are put back and the loader hands out the same
batches again. What cannot be undone is what the script did besides: lines it printed, files it wrote, its own counters.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tensight.frameworks.rewinds import Look, Seen
from tensight.records import Replay
from tensight.replay.orders import Losses, Order, bits, same_bits

UNDONE = "what the script printed, wrote and counted in these steps it did twice"


class InPlace:
    """Follows the training through the steps it runs again. `shift`: how far its count of steps is ahead of them."""

    def __init__(self, look: Look, order: Order, shift: int) -> None:
        self.look = look
        self.order = order
        self._shift = shift
        self._losses: dict[int, Losses] = {}

    def ended(self, step: int, losses: Sequence[float]) -> tuple[Replay, Seen | None] | None:
        """A step has ended; what there is to say when it was the last, None when the training shall run on."""
        step -= self._shift
        self._losses[step] = bits(losses)
        final = step >= self.order.bad
        seen = self.look.seen(step, final=final)
        if seen is None and not final:
            self.look.step_over(step + 1)
            return None
        self.look.stop()
        if seen is None:
            reason = f"the steps were run again and no operator showed bad values; {UNDONE}"
            return Replay(step=self.order.bad, status="not reproduced", reason=reason), None
        exact = same_bits(self.order.losses, self._losses)
        same = "the same losses, bit by bit" if exact else "the losses differ in their last bits"
        reason = f"{same}; {UNDONE}"
        return msgspec.structs.replace(seen.replay, status="exact" if exact else "close", reason=reason), seen
