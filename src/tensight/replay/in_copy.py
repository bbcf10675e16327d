"""The same training in a copy of its process: it runs on to the bad step, looks, answers and ends."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from tensight.frameworks.rewinds import Look, Rewinds, Seen
from tensight.records import Replay
from tensight.replay import isolation
from tensight.replay.copying import Woken
from tensight.replay.experiments import LowerRate, on_operator
from tensight.replay.orders import ORDER, Answer, Losses, bits, encode, same_bits


class Keeper(Protocol):
    """Who knows the training's tensors, and keeps those of the bad step in a copy."""

    def numbers(self) -> Mapping[str, int]:
        """In the training: the number of each tensor by a name that says what it is."""
        ...

    def begin(self) -> None:
        """In a copy: from now on keep the tensors of each step."""
        ...

    def store(self, step: int, numbers: Mapping[str, int]) -> tuple[tuple[int, ...], int]:
        """In a copy: write those of the step that has just ended into the run, under the training's numbers.

        Answers which were written, and the size of the file.
        """
        ...

    def stored(self, step: int, tensors: Sequence[int], size: int) -> None:
        """In the training: a copy has written these."""
        ...


class InCopy:
    """The same training in a copy of its process: runs on to the bad step, looks, answers, ends."""

    def __init__(
        self,
        rewinds: Rewinds,
        woken: Woken,
        folder: Path,
        name: str,
        step: int,
        *,
        shift: int,
        strategy: str,
        keeper: Keeper | None = None,
    ) -> None:
        self._rewinds = rewinds
        self._woken = woken
        self._folder = folder
        self._name = name
        self._step = step
        self._shift = shift  # how far the copy's count of steps is ahead of the step it runs
        self._strategy = strategy
        self._order = ORDER.decode(woken.order)
        self._losses: dict[int, Losses] = {}
        self._look: Look | None = None
        self._give_back: Callable[[], None] = lambda: None
        self._trouble = ""
        self._own = os.getpid()
        self._keeper = keeper
        self._looked = -1  # the step that has ended last
        self._rate = LowerRate(step, self._order.bad)

    def begin(self, become_copy: Callable[[], None], *, restore: bool) -> None:
        try:
            refused = self._rewinds.enter_copy()
            mapped = isolation.shared_memory()
            if refused or mapped:
                refused = refused or f"the training maps {mapped}, and a copy could change it"
                self._leave(Answer(self._impossible(refused)))
            self._rate.begin(self._rewinds)  # two processes from here on
            self._own = os.getpid()
            self._give_back = isolation.no_changes_outside(str(self._folder))
            become_copy()
            if restore and not self._rewinds.restore():
                self._leave(Answer(self._impossible("no state was kept")))
            if not self._rewinds.healthy():
                self._leave(Answer(late=True))
            atexit.register(self.over)
            if not self._rate.running:
                self._look_from(self._step)
        except Exception as error:
            self._leave(Answer(self._impossible(f"{type(error).__name__}: {error}")))

    def ended(self, step: int, losses: Sequence[float]) -> None:
        step -= self._shift
        if self._rate.running:
            self._rate.ended(step, losses)
            return
        self._looked = step
        try:
            self._losses[step] = bits(losses)
            if self._look is not None:
                seen = self._look.seen(step, final=step >= self._order.bad)
                if seen is not None:
                    self._answer(seen)
            if step >= self._order.bad:
                self._answer(None)
            if self._look is not None:
                self._look.step_over(step + 1)
            self._look_from(step + 1)
        except Exception as error:
            self._leave(Answer(self._impossible(f"{type(error).__name__}: {error}")))

    def over(self) -> None:
        """The script ended in the copy before the bad step did: by an error, or by its own choice."""
        if os.getpid() != self._own:
            return
        if self._rate.running:
            self._rate.leave()
        try:
            if self._look is not None:
                self._answer(self._look.seen(self._order.bad, final=True))
            self._answer(None)
        except Exception as error:
            self._leave(Answer(self._impossible(f"{type(error).__name__}: {error}")))

    def _look_from(self, step: int) -> None:
        if self._look is None and step >= self._order.suspect:
            self._look = self._rewinds.look(self._failed)
            self._look.step_over(step)
            if self._keeper is not None:
                self._keeper.begin()

    def _failed(self, where: str, error: BaseException) -> None:
        self._trouble = f"{where}: {type(error).__name__}: {error}"

    def _impossible(self, reason: str) -> Replay:
        return Replay(step=self._order.bad, status="not possible", strategy=self._strategy, reason=reason)

    def _answer(self, seen: Seen | None) -> None:
        if seen is None:
            reason = "the step was run again and all its values were finite"
            if same_bits(self._order.losses, self._losses):
                reason = "the bad values could not be traced to an operator"
            if self._trouble:
                reason += f"; the look itself failed: {self._trouble}"
            self._leave(
                Answer(Replay(step=self._order.bad, status="not reproduced", strategy=self._strategy, reason=reason))
            )
        assert seen is not None
        exact = same_bits(self._order.losses, self._losses)
        reason = "the same losses, bit by bit" if exact else "the losses of the copy differ in their last bits"
        self._give_back()
        replay = msgspec.structs.replace(
            seen.replay,
            facts={**seen.replay.facts, **self._experiments(seen)},
            status="exact" if exact else "close",
            strategy=self._strategy,
            reason=reason,
            tensors=store_inputs(self._folder, self._name, seen),
        )
        kept, size = self._store_tensors(replay.step)
        self._leave(Answer(replay, kept=kept, kept_bytes=size))

    def _experiments(self, seen: Seen) -> dict[str, str]:
        """What changing one thing does; nothing when that fails."""
        if self._look is not None:
            self._look.stop()
            self._look = None
        try:
            return {**on_operator(self._rewinds, seen), **self._rate.result()}
        except Exception:
            return {}

    def _store_tensors(self, step: int) -> tuple[tuple[int, ...], int]:
        """Tensors of the bad step, under the numbers that the training has for them; nothing when that fails."""
        if self._keeper is None or step != self._looked:
            return (), 0
        try:
            return self._keeper.store(step, self._order.tensors)
        except Exception:
            return (), 0  # the answer itself matters more

    def _leave(self, answer: Answer) -> None:
        if self._rate.running:
            self._rate.leave()
        self._woken.leave(encode(answer))


def store_inputs(folder: Path, name: str, seen: Seen) -> str:
    """The guilty operator's inputs as a file in the run; '' when they could not be written."""
    if not seen.values:
        return ""
    from safetensors.numpy import save_file

    target = folder / "replays" / f"{name}-step-{seen.replay.step}.safetensors"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(seen.values), str(target))
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return str(target.relative_to(folder))
