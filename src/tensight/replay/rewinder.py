"""Decides when a copy of the training is made, when it looks again, and what is said of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tensight.frameworks.rewinds import Look, Report, Rewinds, Seen
from tensight.records import Replay
from tensight.replay import copying, pages
from tensight.replay.copying import Copy, Woken, make_copy
from tensight.replay.in_copy import InCopy, Keeper, store_inputs
from tensight.replay.in_place import InPlace
from tensight.replay.orders import ANSWER, Losses, Order, bits, encode
from tensight.replay.pace import Pace

STANDING, AT_THE_HIT, GRAPH = "standing child", "fork at the hit", "graph"
NEXT, IN_PLACE = "next step", "in place"
PATIENCE = 20.0
"""Seconds the end of a run waits for a copy that is still looking."""

_REMEMBERED = 500  # losses of so many steps tell whether a copy gave the same bits


class Rewinder:
    """Looks again at bad steps of one training, in copies of its process.

    `publish` is given what a look has shown. `become_copy` silences the rest of Tensight in a copy. `share` is the part
    of the training's time that keeping ready may take. `now` tells the step that runs where not every step is told of,
    and `keeper` keeps the tensors of the bad step.

    `stopping`: the training ends at its first trouble anyway. Then, where no copy can be made, the step is run again in
    this very process; `hold` is told when that is wanted ('wait'), begins ('begin') and is over ('end').
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
        now: Callable[[], int] | None = None,
        keeper: Keeper | None = None,
        stopping: bool = False,
        hold: Callable[[str], None] = lambda stage: None,
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
        self._now = now
        self._keeper = keeper
        self._stopping = stopping
        self._hold = hold
        self._in_place: InPlace | None = None
        self._copies: list[Copy] = []  # waiting or looking, oldest first
        self._leaving: list[Copy] = []  # ended, their exit status not yet taken
        self._asked: tuple[int, float] | None = None  # the step that is looked at again, and since when
        self._hit: int | None = None  # to be looked at when the next batch is asked for
        self._losses: dict[int, Losses] = {}
        self._suspect = 0  # the first step that may have gone bad unseen
        self._next_step = 0
        self._inside = False  # of a step
        self._in_trouble = False
        self._not_before = self._kept_at = -math.inf
        self._pace = Pace()
        self._written = 0  # pages, when the last copy was made
        self._kept_step = -1
        self._kept_bytes = 0
        self._refused = ""
        self._follows_losses = False
        self._finite = True  # the losses of the step that has ended last
        self._in_graph: Seen | None = None  # what the graph of the bad loss has shown, should a copy show nothing
        self._watched: tuple[int, str, Look] | None = None  # the step after this bad one is observed, and why
        self._copy: InCopy | None = None
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
        if self._in_place is not None:
            self._ran_in_place(step, losses)
            return
        if self._pace.ended(step):
            self._not_before = self._kept_at + self._pace.cost / self._share
        try:
            self._judge(step, losses, trouble=trouble, clean=clean)
        finally:
            self._pace.go_on()

    def _judge(self, step: int, losses: Sequence[float], *, trouble: bool, clean: bool) -> None:
        self._next_step = step + 1
        self._let_leave()
        self._collect(0.0)
        self._next_watched(step)
        self._losses[step] = bits(losses)
        self._losses.pop(step - _REMEMBERED, None)
        finite = self._finite = all(math.isfinite(value) for value in losses)
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
            if self._kept_step < 0 and time.thread_time() >= self._not_before and self._paid_for():
                self._stand(step + 1)

    def ending(self) -> None:
        """The script is over: wait a little for what is still looking, then leave nothing behind."""
        if self._copy is not None:
            self._copy.over()
        self._next_watched(None)
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
        if self._in_place is not None:
            self._hold("end")
            self._in_place.look.stop()
            self._not_possible(self._in_place.order.bad, IN_PLACE, "the script ended before it came to the step again")
            self._in_place = None
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
        begun = time.perf_counter()
        self._refused = self._rewinds.hindrance() or copying.hindrance(self._rewinds.idle_threads())
        if self._refused:
            self._not_before = time.thread_time() + 1.0
            self._follow_losses()
            return
        with pages.Sample() as sample:
            made = make_copy(step)
            if isinstance(made, Woken):
                self._enter(made, step, shift=0, strategy=STANDING)
                return
            taken = time.perf_counter() - begun
            self._pace.forked(step, taken, sample.price())
            self._written = pages.written()
        self._copies.append(made)
        self._wait_for_next(self._pace.cost)

    def _follow_losses(self) -> None:
        """The graph of a bad loss is what is left when no copy shows anything."""
        if not self._follows_losses:
            self._follows_losses = True
            self._rewinds.follow_losses()

    def _paid_for(self) -> bool:
        """Whether the training has gone on for long enough to pay for another copy of the size it has grown to."""
        count = min(
            pages.private(), pages.written() - self._written
        )  # those it has written since will be written again
        self._not_before = self._kept_at + self._pace.expected(count) / self._share
        return time.thread_time() >= self._not_before

    def _wait_for_next(self, cost: float) -> None:
        self._kept_at = time.thread_time()  # a script that waits pays for nothing
        self._not_before = self._kept_at + cost / self._share

    def _retire(self, step: int) -> None:
        """A finite loss shows that the weights were good when the newest copy was made: older ones are not needed."""
        if len(self._copies) > 1 and step >= self._copies[-1].step:
            for copy in self._copies[:-1]:
                copy.leave()
            self._leaving += self._copies[:-1]
            self._copies = self._copies[-1:]

    def _let_leave(self) -> None:
        for copy in self._leaving[:]:
            used = copy.left()
            if used is not None:
                self._leaving.remove(copy)
                self._pace.left(used)

    def _look_again(self, step: int) -> None:
        if self.replays >= self._most or self._asked is not None or self._hit is not None:
            return
        self.replays += 1
        if self._kept_step >= 0 and not self._copies:
            alone = self._rewinds.unrepeatable()
            if alone:
                self._from_graph(step, alone)
                return
            self._hit = step
            self._in_graph = self._rewinds.walked()
            if self._rewinds.never():
                self._hold("wait")
            return
        reason = self._refused or self._rewinds.hindrance() or copying.hindrance(self._rewinds.idle_threads())
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
            self._watch_next(step, reason)
        else:
            self._publish_graph(step, seen, f"not run again, since {reason}")

    def _publish_graph(self, step: int, seen: Seen, reason: str) -> None:
        tensors = store_inputs(self._folder, self._name, seen)
        reason = f"read from what autograd had saved; {reason}"
        self._publish(msgspec.structs.replace(seen.replay, step=step, strategy=GRAPH, reason=reason, tensors=tensors))

    def _watch_next(self, step: int, reason: str) -> None:
        """Only gradients are bad, and their graph is gone. They may well be bad again: the next step is observed.

        Running the backward pass a second time would need the graph of every step to be held, and would run the user's
        hooks twice.
        """
        unwatchable = self._rewinds.unwatchable()
        if unwatchable or not self._finite:
            self._not_possible(step, GRAPH, f"{reason}; {unwatchable}" if unwatchable else reason)
            return
        look = self._rewinds.look(self._report)
        look.step_over(step + 1)
        self._watched = (step, reason, look)

    def _next_watched(self, step: int | None) -> None:
        """The step after a bad one has ended, or with None never will."""
        if self._watched is None:
            return
        before, reason, look = self._watched
        self._watched = None
        seen = None if step is None else look.seen(step, final=True)
        look.stop()
        if seen is None or step is None or (seen.replay.facts.get("kind") == "given" and seen.replay.facts.get("name")):
            came = "the script ended" if step is None else "the step after it did not show where bad values begin"
            self._not_possible(before, NEXT, f"{reason}; {came}")
            return
        self._publish(
            msgspec.structs.replace(
                seen.replay,
                step=step,
                strategy=NEXT,
                reason=f"step {before} was not run again, since {reason}; step {step} went bad too and was observed",
                tensors=store_inputs(self._folder, self._name, seen),
            )
        )

    def _tell(self, step: int) -> None:
        """Wake the newest copy that was made before anything can have gone bad."""
        early = [copy for copy in self._copies if copy.step <= self._suspect and not copy.told]
        chosen = early[-1] if early else self._copies[0]
        chosen.tell(encode(self._order(step, chosen.step)))

    def _order(self, step: int, start: int) -> Order:
        known = {number: losses for number, losses in self._losses.items() if number >= start}
        numbers = {} if self._keeper is None else dict(self._keeper.numbers())
        return Order(bad=step, suspect=max(start, min(self._suspect, step)), losses=known, tensors=numbers)

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
        seen, self._in_graph = self._in_graph, None
        if seen is not None and found.replay is not None and not found.replay.operator:
            # Counters of the script's own are not put back: a fault that hangs on them stays away in the copy.
            self._publish_graph(step, seen, found.replay.reason)
        elif found.late:
            self._not_possible(step, strategy, "the weights were bad already when the copy was made")
        elif found.replay is not None:
            taken = time.monotonic() - since
            if found.kept and self._keeper is not None:
                self._keeper.stored(found.replay.step, found.kept, found.kept_bytes)
            self._publish(msgspec.structs.replace(found.replay, seconds=taken, memory=self._kept_bytes))

    def _end_copies(self) -> None:
        for copy in self._copies:
            copy.end()
        for copy in self._leaving:
            copy.left(wait=True)
        self._copies.clear()
        self._leaving.clear()

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
        if self._copy is not None or self._in_place is not None or self._inside:
            return
        if self._hit is not None:
            if self._rewinds.can_restore():
                if self._rewinds.never():
                    self._begin_in_place(self._hit)
                else:
                    self._fork_at_the_hit(self._hit)
                if self._copy is None:
                    self._hit = None
            return
        needed = workers or bool(self._refused)
        due = self._kept_step < 0 or time.thread_time() >= self._not_before
        if not needed or not due or self._in_trouble or self._asked is not None or self.replays >= self._most:
            return
        if self._rewinds.never() and (not self._stopping or self._rewinds.unrepeatable()):
            return
        if self._kept_step < 0:
            self._end_copies()  # they could not run on: they have no loader workers
        self._follow_losses()
        begun = time.perf_counter()
        held = self._rewinds.keep()
        if held is None:
            return
        self._kept_bytes = held
        self._kept_step = self._coming()
        self._wait_for_next(time.perf_counter() - begun)

    def _coming(self) -> int:
        """The step that the next batch belongs to."""
        return self._next_step if self._now is None else self._now()

    def _fork_at_the_hit(self, step: int) -> None:
        order = encode(self._order(step, self._kept_step))
        with pages.left_out(self._rewinds.replaced()):
            made = make_copy(self._kept_step, order)
        if isinstance(made, Woken):
            self._enter(made, self._kept_step, shift=self._coming() - self._kept_step, strategy=AT_THE_HIT)
            return
        made.told = True
        self._copies.append(made)
        self._asked = (step, time.monotonic())

    # in this very process

    def _begin_in_place(self, step: int) -> None:
        self._hold("begin")
        look = self._rewinds.look(self._report) if self._rewinds.restore() else None
        if look is None:
            self._hold("end")
            self._not_possible(step, IN_PLACE, "no state was kept")
            return
        look.step_over(self._kept_step)
        self._in_place = InPlace(look, self._order(step, self._kept_step), self._coming() - self._kept_step)

    def _ran_in_place(self, step: int, losses: Sequence[float]) -> None:
        assert self._in_place is not None
        ended = self._in_place.ended(step, losses)
        if ended is not None:
            self._in_place = None
            self._hold("end")
            replay, seen = ended
            kept = "" if seen is None else store_inputs(self._folder, self._name, seen)
            self._publish(msgspec.structs.replace(replay, strategy=IN_PLACE, memory=self._kept_bytes, tensors=kept))

    # in a copy

    def _enter(self, woken: Woken, step: int, *, shift: int, strategy: str) -> None:
        copy = InCopy(
            self._rewinds, woken, self._folder, self._name, step, shift=shift, strategy=strategy, keeper=self._keeper
        )
        self._copy = copy
        copy.begin(self._become_copy, restore=strategy == AT_THE_HIT)
