"""Reads expressions over statistics: a tokenizer and a parser of its own, so that nothing is run as Python.

    or        = and { "or" and }
    and       = not { "and" not }
    not       = "not" not | compare
    compare   = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
    sum       = product { ("+" | "-") product }
    product   = sign { ("*" | "/") sign }
    sign      = "-" sign | atom
    atom      = number | statistic | function "(" sum { "," sum } ")" | "(" or ")"

Every part becomes a small function of the statistics now and before. `None` stands for 'no value' and travels
through arithmetic; a comparison with it is neither true nor false.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any, NamedTuple, NoReturn

from tensight.errors import SpecError
from tensight.records import Stats
from tensight.watchpoints.selectors import shortened
from tensight.watchpoints.statistics import STATISTICS

Run = Callable[[Stats, Sequence[Stats]], "float | bool | None"]

LONGEST = 1000
MOST_TOKENS = 300
DEEPEST = 30
LONGEST_HISTORY = 1000
MOST_WINDOWS = 20

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign><=|>=|==|!=|[-+*/()<>,]))",
    re.ASCII,
)
_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_WORDS = ("and", "or", "not")

WINDOWS: dict[str, tuple[Callable[[Sequence[float]], float], str]] = {
    "median": (median, "median(x, n): median of x over the last n observations before now"),
    "mean": (fmean, "mean(x, n): mean of them"),
    "min": (min, "min(x, n): smallest of them"),
    "max": (max, "max(x, n): largest of them"),
}
"""Functions over the history of the same tensor."""

LOOKBACKS = {
    "previous": "previous(x) or previous(x, n): x one or n observations ago",
    "change": "change(x) or change(x, n): x now minus x then",
}

PLAIN: dict[str, tuple[Callable[[float], float], str]] = {
    "abs": (abs, "abs(x): absolute value"),
    "sqrt": (math.sqrt, "sqrt(x): square root"),
    "log": (math.log, "log(x): natural logarithm"),
}


class Token(NamedTuple):
    kind: str  # 'number' | 'name' | 'sign' | 'end'
    text: str
    start: int
    end: int


class Part(NamedTuple):
    """A piece of an expression: what it computes and where it stands in the text."""

    run: Run
    truth: bool  # a comparison or a combination of them, not a number
    start: int
    end: int


class Comparison(NamedTuple):
    """A comparison inside an expression, so that a hit can name both sides."""

    text: str
    left: Run
    right: Run
    run: Run


class Parser:
    """Reads one expression; afterwards `run`, `comparisons`, `history`, `names` tell what it is."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise SpecError(f"an expression has at most {LONGEST} characters, not {len(text)}.")
        self.text = text
        self.tokens = self._tokens()
        self.at = 0
        self.depth = 0
        self.windows = 0
        self.history = 0
        self.names: set[str] = set()
        self.comparisons: list[Comparison] = []
        whole = self._or()
        if self._now.kind != "end":
            self._fail("expected the end, 'and' or 'or'", self._now.start)
        if not whole.truth:
            self._fail("an expression must compare, e.g. 'max > 3'", whole.start)
        self.run = whole.run

    def _tokens(self) -> list[Token]:
        tokens: list[Token] = []
        place = 0
        end = len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if match is None:
                start = place + len(self.text[place:]) - len(self.text[place:].lstrip())
                self._fail(f"{self.text[start]!r} has no meaning here", start)
            kind = str(match.lastgroup)
            tokens.append(Token(kind, match[kind], match.start(kind), match.end(kind)))
            place = match.end()
            if len(tokens) > MOST_TOKENS:
                raise SpecError(f"an expression has at most {MOST_TOKENS} words, numbers and signs.")
        tokens.append(Token("end", "", end, end))
        return tokens

    @property
    def _now(self) -> Token:
        return self.tokens[self.at]

    def _take(self, *texts: str) -> Token | None:
        token = self._now
        if token.kind in ("sign", "name") and token.text in texts:
            self.at += 1
            return token
        return None

    def _fail(self, why: str, place: int) -> NoReturn:
        raise SpecError(f"cannot read {shortened(self.text)!r} at position {place + 1}: {why}.")

    def _deeper(self, step: int) -> None:
        self.depth += step
        if self.depth > DEEPEST:
            self._fail(f"more than {DEEPEST} levels deep", self._now.start)

    def _or(self) -> Part:
        return self._joined("or", self._and, _either)

    def _and(self) -> Part:
        return self._joined("and", self._not, _both)

    def _joined(self, word: str, inner: Callable[[], Part], join: Callable[[Run, Run], Run]) -> Part:
        left = inner()
        while self._take(word):
            right = inner()
            self._must_compare(left, word)
            self._must_compare(right, word)
            left = Part(join(left.run, right.run), True, left.start, right.end)
        return left

    def _not(self) -> Part:
        token = self._take("not")
        if token is None:
            return self._compare()
        self._deeper(1)
        inner = self._not()
        self._deeper(-1)
        self._must_compare(inner, "not")
        return Part(_negated(inner.run), True, token.start, inner.end)

    def _compare(self) -> Part:
        left = self._sum()
        token = self._take(*_COMPARISONS)
        if token is None:
            return left
        right = self._sum()
        self._must_count(left, token.text)
        self._must_count(right, token.text)
        if self._take(*_COMPARISONS):
            self._fail("one comparison at a time: join two with 'and'", self.tokens[self.at - 1].start)
        run = _compared(_COMPARISONS[token.text], left.run, right.run)
        self.comparisons.append(Comparison(self.text[left.start : right.end], left.run, right.run, run))
        return Part(run, True, left.start, right.end)

    def _sum(self) -> Part:
        return self._arithmetic({"+": operator.add, "-": operator.sub}, self._product)

    def _product(self) -> Part:
        return self._arithmetic({"*": operator.mul, "/": operator.truediv}, self._sign)

    def _arithmetic(self, signs: dict[str, Callable[[float, float], float]], inner: Callable[[], Part]) -> Part:
        left = inner()
        while (token := self._take(*signs)) is not None:
            right = inner()
            self._must_count(left, token.text)
            self._must_count(right, token.text)
            left = Part(_computed(signs[token.text], left.run, right.run), False, left.start, right.end)
        return left

    def _sign(self) -> Part:
        token = self._take("-")
        if token is None:
            return self._atom()
        self._deeper(1)
        inner = self._sign()
        self._deeper(-1)
        self._must_count(inner, "-")
        return Part(_computed(operator.mul, _constant(-1.0), inner.run), False, token.start, inner.end)

    def _atom(self) -> Part:
        token = self._now
        self.at += 1
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                self._fail("the number is too large", token.start)
            return Part(_constant(value), False, token.start, token.end)
        if token.kind == "sign" and token.text == "(":
            self._deeper(1)
            inner = self._or()
            self._deeper(-1)
            closing = self._closed(token)
            return Part(inner.run, inner.truth, token.start, closing.end)
        if token.kind == "name" and token.text not in _WORDS:
            if self._take("("):
                return self._call(token)
            return self._statistic(token)
        self.at -= 1
        return self._fail("expected a number, a statistic or '('", token.start)

    def _closed(self, opening: Token) -> Token:
        closing = self._take(")")
        if closing is None:
            self._fail(f"the '(' of position {opening.start + 1} is not closed", self._now.start)
        return closing

    def _statistic(self, token: Token) -> Part:
        known = STATISTICS.get(token.text)
        if known is None:
            self._unknown("statistic", token, STATISTICS)
        self.names.add(token.text)
        measure = known.measure
        return Part(lambda now, _: measure(now), False, token.start, token.end)

    def _call(self, token: Token) -> Part:
        name, opening = token.text, self.tokens[self.at - 1]
        if name not in (*WINDOWS, *LOOKBACKS, *PLAIN):
            self._unknown("function", token, (*WINDOWS, *LOOKBACKS, *PLAIN))
        self._deeper(1)
        before = self.windows
        inner = self._sum()
        self._deeper(-1)
        self._must_count(inner, name)
        length: int | None = None
        if self._take(","):
            if name in PLAIN:
                self._fail(f"{name} takes one value", self.tokens[self.at - 1].start)
            length = self._length()
        closing = self._closed(opening)
        if name in PLAIN:
            return Part(_applied(PLAIN[name][0], inner.run), False, token.start, closing.end)
        if self.windows > before:
            self._fail("a function over the history cannot stand inside another", token.start)
        self.windows += 1
        if self.windows > MOST_WINDOWS:
            self._fail(f"at most {MOST_WINDOWS} functions over the history", token.start)
        if name in LOOKBACKS:
            back = length or 1
            run = _back(inner.run, back) if name == "previous" else _changed(inner.run, back)
        elif length is None:
            self._fail(
                f"{name} needs how many observations: {name}({self.text[inner.start : inner.end]}, 100)", token.start
            )
        else:
            back, run = length, _window(WINDOWS[name][0], inner.run, length)
        self.history = max(self.history, back)
        return Part(run, False, token.start, closing.end)

    def _length(self) -> int:
        token = self._now
        if token.kind != "number" or not token.text.isdigit() or not 1 <= int(token.text) <= LONGEST_HISTORY:
            self._fail(f"expected a whole number from 1 to {LONGEST_HISTORY}", token.start)
        self.at += 1
        return int(token.text)

    def _must_compare(self, part: Part, word: str) -> None:
        if not part.truth:
            self._fail(f"'{word}' joins comparisons, and this is a number", part.start)

    def _must_count(self, part: Part, word: str) -> None:
        if part.truth:
            self._fail(f"'{word}' needs a number, and this is a comparison", part.start)

    def _unknown(self, what: str, token: Token, known: Sequence[str] | dict[str, Any]) -> NoReturn:
        near = difflib.get_close_matches(token.text, known, 1)
        hint = f"did you mean {near[0]!r}" if near else f"there are {', '.join(known)}"
        self._fail(f"there is no {what} {shortened(token.text, 40)!r}: {hint}", token.start)


def _constant(value: float) -> Run:
    return lambda now, earlier: value


def _computed(function: Callable[[float, float], float], left: Run, right: Run) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> float | None:
        a, b = left(now, earlier), right(now, earlier)
        if a is None or b is None:
            return None
        try:
            return _value(function(a, b))
        except (ZeroDivisionError, OverflowError):
            return None

    return run


def _applied(function: Callable[[float], float], inner: Run) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> float | None:
        value = inner(now, earlier)
        try:
            return None if value is None else _value(function(value))
        except (ValueError, OverflowError):
            return None

    return run


def _value(value: float) -> float | None:
    return None if value != value else value


def _compared(function: Callable[[float, float], bool], left: Run, right: Run) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> bool | None:
        a, b = left(now, earlier), right(now, earlier)
        return None if a is None or b is None else function(a, b)

    return run


def _either(left: Run, right: Run) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> bool | None:
        a = left(now, earlier)
        if a:
            return True
        b = right(now, earlier)
        return True if b else None if a is None or b is None else False

    return run


def _both(left: Run, right: Run) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> bool | None:
        a = left(now, earlier)
        if a is False:
            return False
        b = right(now, earlier)
        return False if b is False else None if a is None or b is None else True

    return run


def _negated(inner: Run) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> bool | None:
        value = inner(now, earlier)
        return None if value is None else not value

    return run


def _window(function: Callable[[Sequence[float]], float], inner: Run, length: int) -> Run:
    def run(now: Stats, earlier: Sequence[Stats]) -> float | None:
        values = [value for stats in earlier[-length:] if (value := inner(stats, ())) is not None]
        try:
            return _value(function(values)) if values else None
        except OverflowError:
            return None

    return run


def _back(inner: Run, steps: int) -> Run:
    return lambda now, earlier: inner(earlier[-steps], ()) if len(earlier) >= steps else None


def _changed(inner: Run, steps: int) -> Run:
    return _computed(operator.sub, inner, _back(inner, steps))
