"""Has all ranks of a training hold behind the same step, or none of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

from tensight.control.messages import Agreed, Boundary, Dissolved, Meet

WITHIN = 20.0  # seconds in which the ranks must have agreed
ANSWER = 3.0  # seconds for a rank's link to answer; it needs none of the training's own time
NAP = 0.02  # seconds after which a rank that sleeps through steps is asked again
FURTHEST = 4096  # steps ahead: more than any training makes while a message travels

rounds = itertools.count(1)


class Rank(Protocol):
    """One connected rank, as far as agreeing goes."""

    open: bool
    boundaries: asyncio.Queue[Boundary]

    async def send(self, message: Meet | Agreed | Dissolved) -> None: ...


async def agree(ranks: Callable[[], Sequence[Rank]], reason: str, *, within: float = WITHIN) -> bool:
    """Propose a step until all ranks can hold there. False when they cannot: then none holds.

    `ranks` is asked in every round: who has gone meanwhile is not waited for.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    furthest, ahead = -1, 0  # the first round only asks where everybody is
    number = 0
    while clock() < deadline:
        there = list(ranks())
        if not there:
            return False
        number = next(rounds)
        meet = Meet(number, furthest + ahead if ahead else -1)
        answers = await asyncio.gather(*(_ask(one, meet) for one in there))
        came = [answer for answer in answers if answer is not None]
        if len(came) < len(there):
            if any(one.open and answer is None for one, answer in zip(there, answers, strict=True)):
                break  # a rank is there and says nothing: holding the others would be wrong
            continue
        if all(answer.yes for answer in came):
            await asyncio.gather(*(one.send(Agreed(number, reason)) for one in there))
            return True
        furthest = max(answer.step for answer in came)
        ahead = min(2 * ahead, FURTHEST) or 1
        if any(answer.asleep for answer in came):
            ahead = 1
            await asyncio.sleep(NAP)
    await asyncio.gather(*(one.send(Dissolved(number)) for one in ranks()))
    return False


async def _ask(rank: Rank, meet: Meet) -> Boundary | None:
    """What a rank answers; None when it is gone, or silent."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ANSWER
    await rank.send(meet)
    while rank.open:
        left = deadline - loop.time()
        if left <= 0:
            return None
        try:
            answer = await asyncio.wait_for(rank.boundaries.get(), min(left, 0.1))
        except asyncio.TimeoutError:
            continue
        if answer.round == meet.round:
            return answer
    return None
