"""When a step ends.

A step ends with an optimizer step; with several optimizers, when the last of the round has stepped. A loop that
updates weights without an optimizer object ends its step where weights change after a backward. Without training, one
step is one call of the outermost model.

An optimizer that was created has not trained yet. Calls before the first backward may be an evaluation before a
training, which must not shift its counting, or all that the program does (a checkpoint may bring an optimizer along).
So they are no steps while the program runs; when it ends and nothing was trained, each of them was one.

Which optimizers make up a round is only known after the fact: an optimizer may be created and never used, or be
replaced by another. So the clock may find out late that steps have ended, and answers with a list: each entry is the
number of updates, counted from the last end, after which a step ended.
"""

from __future__ import annotations

PATIENCE = 5  # updates of others that one is waited for which is not known to step so rarely: critics have as many
LONGEST_ROUND = 32  # updates between two of one that steps rarely: what comes seldomer is no part of each round


class Clock:
    """Counts steps from what happens in the training. Pure: no time, no input, no output.

    >>> clock = Clock()
    >>> clock.optimizer("D"); clock.optimizer("G")
    >>> clock.updated("D"), clock.updated("G")
    ([], [2])
    """

    def __init__(self) -> None:
        self._round: dict[str, int] = {}  # optimizer → the longest run of other updates between two of its own
        self._updates = 0  # of all optimizers so far
        self._last: dict[str, int] = {}  # optimizer → the number of its own last update, of those in the round
        self._left: dict[str, int] = {}  # the same of those that were taken out of the round
        self._latest = ""  # the optimizer that stepped last
        self._row: dict[str, int] = {}  # optimizer → how often it stepped in a row when it did last
        self._stepped: list[str] = []  # updates since the last end
        self._ever: set[str] = set()
        self._trains = False
        self._expects = False  # an optimizer was created: calls before the first backward are no steps yet
        self._called = False  # a model was called since the last end, and nothing else happened
        self._backwards = 0

    def optimizer(self, name: str) -> None:
        """An optimizer was created: it is expected in the round until shown otherwise."""
        self._expects = True
        self._round.setdefault(name, 0)

    def forward(self) -> list[int]:
        """The outermost model is about to be called."""
        if self._called and not self._trains and not self._expects:
            self._called = False
            return [0]
        return []

    @property
    def undecided(self) -> bool:
        """Whether a call that has ended is a step if nothing is ever trained, and none otherwise."""
        return self._called and self._expects and not self._trains

    def forwarded(self) -> None:
        self._called = True

    def backward(self) -> None:
        self._trains = True
        self._called = False
        self._backwards += 1

    @property
    def backwards(self) -> int:
        """Backward passes since the last end."""
        return self._backwards

    def weights_changed(self) -> list[int]:
        if self._round and self._ever:
            return []  # an optimizer does it; what else moves weights (averaging, clipping) ends no step
        self._reset()
        return [0]

    def updated(self, name: str) -> list[int]:
        """An optimizer has stepped: where steps have ended, in updates since the last end."""
        self._updates += 1
        if len(self._round) == 1 and not self._stepped and name in self._last and len(self._last) == 1:
            self._last[name] = self._updates
            self._row[name] += 1
            self._backwards = 0  # the one there is: so it goes nearly always, and it is asked in every step
            return [1]
        self._trains = True
        self._round.setdefault(name, 0)
        missing = [other for other in self._round if other not in self._stepped and other != name]
        repeated = name in self._stepped
        if repeated:
            for other in missing:
                self._drop_if_silent(other)
        self._stepped.append(name)
        self._note(name)
        ends = self._ends()
        if ends:
            del self._stepped[: ends[-1]]
            self._backwards = 0
        return ends

    def pending(self) -> bool:
        """Whether something happened since the last end that makes a step of its own when the run ends."""
        return bool(self._stepped) or (self._called and not self._trains)

    def over(self) -> list[int]:
        """The run ends: where steps have ended for which an optimizer was waited for that has never stepped."""
        for other in [name for name in self._round if name not in self._ever]:
            del self._round[other]
        ends = self._ends()
        if self._stepped and (not ends or ends[-1] < len(self._stepped)):
            ends.append(len(self._stepped))
        self._stepped.clear()
        return ends

    def _drop_if_silent(self, other: str) -> None:
        # One that stepped several times in a row was alone then, as in phases of a training: it may well be over.
        patience = PATIENCE if self._row.get(other, 1) == 1 else 0
        if len(self._stepped) >= max(patience, 2 * self._round[other] + 3):
            del self._round[other]
            if other in self._last:
                self._left[other] = self._last.pop(other)

    def _note(self, name: str) -> None:
        last = self._last.get(name, self._left.pop(name, None))
        if last is not None:
            run = self._updates - last - 1
            # One that was taken out and is back was only slow (a generator), unless all take turns in longer phases.
            if name in self._last or (run <= LONGEST_ROUND and self._row[name] == 1):
                self._round[name] = max(self._round[name], run)
        self._last[name] = self._updates
        self._row[name] = self._row[name] + 1 if name == self._latest else 1
        self._latest = name
        self._ever.add(name)

    def _ends(self) -> list[int]:
        ends: list[int] = []
        seen: set[str] = set()
        for count, name in enumerate(self._stepped, 1):
            seen.add(name)
            if seen >= set(self._round):
                ends.append(count)
                seen = set()
        return ends

    def _reset(self) -> None:
        self._stepped.clear()
        self._called = False
        self._backwards = 0
