"""Decides when a copy of the training is made, when it looks again, and what is said of it."""

from __future__ import annotations

import atexit
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tensight.frameworks.rewinds import Look, Report, Rewinds, Seen
from tensight.records import Replay
from tensight.replay import copying, isolation
from tensight.replay.copying import Copy, Woken, make_copy
from tensight.replay.orders import ANSWER, ORDER, Answer, Losses, Order, bits, encode, same_bits

STANDING, AT_THE_HIT, GRAPH = "standing child", "fork at the hit", "graph"
PATIENCE = 20.0
"""Seconds the end of a run waits for a copy that is still looking."""

_REMEMBERED = 500  # losses of so many steps tell whether a copy gave the same bits


class Rewinder:
    """Looks again at bad steps of one training, in copies of its process.

    `publish` is given what a look has shown. `become_copy` silences the rest of Tensight in a copy. `share` is the part
    of the training's time that keeping ready may take.
    """

    def __init__(
        self,
        rewinds: Rewinds,
        folder: Path,
        *,
        publish: Callable[[Replay], object],
        become_copy: Callable[[], None],
        report: Report,
        share: float = 0.01,
        most: int = 8,
        patience: float = PATIENCE,
        say: Callable[[str], None] = lambda text: None,
        name: str = "replay",
    ) -> None:
        self.replays = 0
        self._rewinds = rewinds
        self._folder = folder
        self._publish = publish
        self._become_copy = become_copy
        self._report = report
        self._share = share
        self._most = most
        self._patience = patience
        self._say = say
        self._name = name
        self._copies: list[Copy] = []  # waiting or looking, oldest first
        self._asked: tuple[int, float] | None = None  # the step that is looked at again, and since when
        self._hit: int | None = None  # to be looked at when the next batch is asked for
        self._losses: dict[int, Losses] = {}
        self._suspect = 0  # the first step that may have gone bad unseen
        self._next_step = 0
        self._inside = False  # of a step
        self._in_trouble = False
        self._not_before = -math.inf
        self._kept_step = -1
        self._kept_bytes = 0
        self._refused = ""
        self._follows_losses = False
        self._copy: _InCopy | None = None
        rewinds.serve_batches(self._batch_asked)

    # what the training tells

    def began(self, step: int) -> None:
        """A step begins."""
        self._inside = True
        if self._copy is None and not self._copies and not self._in_trouble and self._kept_step < 0:
            self._stand(step)

    def ended(self, step: int, losses: Sequence[float], *, trouble: bool, clean: bool) -> None:
        """A step is over. `clean`: gradients and weights were looked at too and are all finite."""
        self._inside = False
        if self._copy is not None:
            self._copy.ended(step, losses)
            return
        self._next_step = step + 1
        self._collect(0.0)
        self._losses[step] = bits(losses)
        self._losses.pop(step - _REMEMBERED, None)
        finite = all(math.isfinite(value) for value in losses)
        if trouble:
            if not self._in_trouble:
                self._in_trouble = True
                self._look_again(step)
            return
        if clean:
            self._in_trouble = False
            self._suspect = step + 1
        elif finite and losses:
            self._suspect = max(self._suspect, step)
        if self._in_trouble or not finite:
            return
        if self._asked is None:
            self._retire(step)
            if self._kept_step < 0 and time.monotonic() >= self._not_before:
                self._stand(step + 1)

    def ending(self) -> None:
        """The script is over: wait a little for what is still looking, then leave nothing behind."""
        if self._copy is not None:
            self._copy.over()
        if self._asked is not None:
            self._say(f"looking again at step {self._asked[0]} …")
            try:
                self.wait(self._patience)
            except KeyboardInterrupt:
                self._say("not waited for")
        if self._asked is not None:
            strategy = AT_THE_HIT if self._kept_step >= 0 else STANDING
            self._not_possible(
                self._asked[0], strategy, f"the copy was not done {self._patience:.0f} s after the end of the script"
            )
            self._asked = None
        if self._hit is not None:
            self._not_possible(self._hit, AT_THE_HIT, "the script asked for no further batch")
            self._hit = None
        self._end_copies()
        self._rewinds.drop()

    def wait(self, seconds: float) -> None:
        """Wait at most so long for a copy that is looking."""
        self._collect(seconds)

    @property
    def memory(self) -> int:
        """Bytes of state that are kept in this process."""
        return self._kept_bytes

    # standing copies

    def _stand(self, step: int) -> None:
        if self.replays >= self._most:
            return
        self._refused = copying.hindrance() or self._rewinds.hindrance()
        if self._refused:
            self._not_before = time.monotonic() + 1.0
            if not self._follows_losses:
                self._follows_losses = True
                self._rewinds.follow_losses()
            return
        begun = time.perf_counter()
        made = make_copy(step)
        if isinstance(made, Woken):
            self._enter(made, step, shift=0, strategy=STANDING)
            return
        self._copies.append(made)
        # Pages that both change are copied later: about as much again as the fork itself.
        self._wait_for_next(2 * (time.perf_counter() - begun))

    def _wait_for_next(self, cost: float) -> None:
        self._not_before = time.monotonic() + cost / self._share

    def _retire(self, step: int) -> None:
        """A finite loss shows that the weights were good when the newest copy was made: older ones are not needed."""
        if len(self._copies) > 1 and step >= self._copies[-1].step:
            for copy in self._copies[:-1]:
                copy.end()
            self._copies = self._copies[-1:]

    def _look_again(self, step: int) -> None:
        if self.replays >= self._most or self._asked is not None or self._hit is not None:
            return
        self.replays += 1
        if self._kept_step >= 0 and not self._copies:
            self._hit = step
            return
        reason = self._refused or copying.hindrance() or self._rewinds.hindrance()
        if reason or not self._copies:
            self._end_copies()
            self._from_graph(step, reason or "no copy of the process was kept")
            return
        self._asked = (step, time.monotonic())
        self._tell(step)

    def _from_graph(self, step: int, reason: str) -> None:
        """No copy may run: what the graph of the bad loss has shown is all there is."""
        seen = self._rewinds.walked()
        if seen is None:
            self._not_possible(step, STANDING, reason)
            return
        self._publish(
            msgspec.structs.replace(
                seen.replay,
                step=step,
                strategy=GRAPH,
                reason=f"read from what autograd had saved; not run again, since {reason}",
                tensors=_store(self._folder, self._name, seen),
            )
        )

    def _tell(self, step: int) -> None:
        """Wake the newest copy that was made before anything can have gone bad."""
        early = [copy for copy in self._copies if copy.step <= self._suspect and not copy.told]
        chosen = early[-1] if early else self._copies[0]
        known = {number: losses for number, losses in self._losses.items() if number >= chosen.step}
        chosen.tell(encode(Order(bad=step, suspect=max(chosen.step, min(self._suspect, step)), losses=known)))

    def _collect(self, patience: float) -> None:
        """Take the answer of the copy that looks, when there is one."""
        if self._asked is None:
            return
        step, since = self._asked
        looking = [copy for copy in self._copies if copy.told]
        answer = looking[-1].wait(patience) if patience else looking[-1].answer()
        if answer is None:
            return
        self._asked = None
        self._end_copies()
        strategy = AT_THE_HIT if self._kept_step >= 0 else STANDING
        if not answer:
            self._not_possible(step, strategy, "the copy of the process ended without an answer")
            return
        found = ANSWER.decode(answer)
        if found.late:
            self._not_possible(step, strategy, "the weights were bad already when the copy was made")
        elif found.replay is not None:
            taken = time.monotonic() - since
            self._publish(msgspec.structs.replace(found.replay, seconds=taken, memory=self._kept_bytes))

    def _end_copies(self) -> None:
        for copy in self._copies:
            copy.end()
        self._copies.clear()

    def _not_possible(self, step: int, strategy: str, reason: str) -> None:
        self._publish(Replay(step=step, status="not possible", strategy=strategy, reason=reason))

    # kept state and batches

    def _batch_asked(self, workers: bool) -> None:
        """Inside the training's request for a batch. An error here must not reach it."""
        try:
            self._at_batch(workers)
        except Exception as error:
            self._report("rewind at a batch", error)

    def _at_batch(self, workers: bool) -> None:
        if self._copy is not None or self._inside:
            return
        if self._hit is not None:
            if self._rewinds.can_restore():
                self._fork_at_the_hit(self._hit)
                if self._copy is None:
                    self._hit = None
            return
        needed = workers or bool(self._refused)
        due = self._kept_step < 0 or time.monotonic() >= self._not_before
        if not needed or not due or self._in_trouble or self._asked is not None or self.replays >= self._most:
            return
        if self._rewinds.never():
            return
        if self._kept_step < 0:
            self._end_copies()  # they could not run on: they have no loader workers
        begun = time.perf_counter()
        self._kept_bytes = self._rewinds.keep()
        self._kept_step = self._next_step
        self._wait_for_next(time.perf_counter() - begun)

    def _fork_at_the_hit(self, step: int) -> None:
        known = {number: losses for number, losses in self._losses.items() if number >= self._kept_step}
        order = encode(Order(bad=step, suspect=max(self._kept_step, min(self._suspect, step)), losses=known))
        made = make_copy(self._kept_step, order)
        if isinstance(made, Woken):
            self._enter(made, self._kept_step, shift=self._next_step - self._kept_step, strategy=AT_THE_HIT)
            return
        made.told = True
        self._copies.append(made)
        self._asked = (step, time.monotonic())

    # in a copy

    def _enter(self, woken: Woken, step: int, *, shift: int, strategy: str) -> None:
        copy = _InCopy(self._rewinds, woken, self._folder, self._name, step, shift=shift, strategy=strategy)
        self._copy = copy
        copy.begin(self._become_copy, restore=strategy == AT_THE_HIT)


class _InCopy:
    """The same training in a copy of its process: runs on to the bad step, looks, answers, ends."""

    def __init__(
        self, rewinds: Rewinds, woken: Woken, folder: Path, name: str, step: int, *, shift: int, strategy: str
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

    def begin(self, become_copy: Callable[[], None], *, restore: bool) -> None:
        try:
            refused = self._rewinds.enter_copy()
            mapped = isolation.shared_memory()
            if refused or mapped:
                refused = refused or f"the training maps {mapped}, and a copy could change it"
                self._leave(Answer(self._impossible(refused)))
            self._give_back = isolation.no_changes_outside(str(self._folder))
            become_copy()
            if restore and not self._rewinds.restore():
                self._leave(Answer(self._impossible("no state was kept")))
            if not self._rewinds.healthy():
                self._leave(Answer(late=True))
            atexit.register(self.over)
            self._look_from(self._step)
        except Exception as error:
            self._leave(Answer(self._impossible(f"{type(error).__name__}: {error}")))

    def ended(self, step: int, losses: Sequence[float]) -> None:
        step -= self._shift
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
            status="exact" if exact else "close",
            strategy=self._strategy,
            reason=reason,
            tensors=_store(self._folder, self._name, seen),
        )
        self._leave(Answer(replay))

    def _leave(self, answer: Answer) -> None:
        self._woken.leave(encode(answer))


def _store(folder: Path, name: str, seen: Seen) -> str:
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
