"""The limits of a watchpoint: when it is asked, how often it may hit, and what a hit does."""

from __future__ import annotations

from typing import Any, get_args

from tensight.errors import SpecError
from tensight.records import Watchpoint
from tensight.records.hit import Action

LEAST = {"after": 0, "every": 1, "at_most": 0, "in_a_row": 1}
"""Each numeric limit with its least value, which is also its default."""

MOST = 2**53
ACTIONS: tuple[Action, ...] = get_args(Action)


def checked(**given: object) -> dict[str, Any]:
    """The limits, checked; a SpecError names the one that is wrong.

    >>> checked(after=5, action="pause")
    {'after': 5, 'action': 'pause'}
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name == "action":
            if value not in ACTIONS:
                raise SpecError(f"action must be one of {', '.join(filter(None, ACTIONS))}, not {value!r}.")
        elif name not in LEAST:
            raise SpecError(f"there is no limit {name!r}: there are {', '.join(LEAST)} and action.")
        elif isinstance(value, bool) or not isinstance(value, int) or not LEAST[name] <= value <= MOST:
            raise SpecError(f"{name} must be a whole number of {LEAST[name]} or more, not {value!r}.")
        values[name] = value
    return values


def asked(watchpoint: Watchpoint, step: int) -> bool:
    """Whether a watchpoint is asked in this step: from step `after` on, every `every` steps.

    >>> [step for step in range(8) if asked(Watchpoint(1, "TO", after=3, every=2), step)]
    [3, 5, 7]
    """
    return step >= watchpoint.after and (step - watchpoint.after) % watchpoint.every == 0
