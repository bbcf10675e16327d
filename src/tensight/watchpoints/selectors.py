"""Which tensors a watchpoint is set on: `kind:glob` joined by commas.

    gradient:encoder.*.weight      gradients of the parameters that the glob names
    weight:encoder                 a scope: every weight below `encoder`
    gradient:activation:decoder    gradients of the outputs of modules below `decoder`
    activation[relu|gelu]:*        activations of these types
    operator[aten.sqrt]:*          operators by name
    head, weight:*                 everything of `head`, and all weights
    generator/*                    everything of the network called `generator`

`*` stands for any characters, dots too, and `?` for one. A glob matches a name, or a scope above it. Matching takes
time proportional to the name, whatever the pattern.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Set
from dataclasses import dataclass
from typing import get_args

from tensight.errors import SpecError
from tensight.records import Kind, TensorInfo

KINDS: dict[str, frozenset[Kind]] = {
    "weight": frozenset({"weight"}),
    "parameter": frozenset({"weight", "frozen", "buffer"}),
    "frozen": frozenset({"frozen"}),
    "buffer": frozenset({"buffer"}),
    "gradient": frozenset({"gradient"}),
    "gradient:activation": frozenset({"output_gradient", "input_gradient"}),
    "activation": frozenset({"activation"}),
    "output": frozenset({"output", "activation"}),
    "loss": frozenset({"loss"}),
    "input": frozenset({"input"}),
    "target": frozenset({"target"}),
    "prediction": frozenset({"prediction"}),
    "module_input": frozenset({"module_input"}),
    "output_gradient": frozenset({"output_gradient"}),
    "input_gradient": frozenset({"input_gradient"}),
    "operator": frozenset({"operator", "operator_gradient"}),
    "operator_gradient": frozenset({"operator_gradient"}),
}
"""The kinds a selector may name, and what each stands for in the records."""

ALL_KINDS: frozenset[Kind] = frozenset(get_args(Kind))

_LONGEST = 500
_MOST_TERMS = 200
_TERM = re.compile(r"(?:(?P<kind>[A-Za-z_*]+)(?:\[(?P<types>[^\[\]]*)\])?:)?(?P<rest>.*)", re.DOTALL)


class Glob:
    """A pattern with `*` and `?`, run as a set of states over the name: no pattern makes it slow.

    >>> Glob("encoder.*.weight").matches("encoder.0.attn.weight")
    True
    >>> Glob("encoder").covers("encoder.0.weight"), Glob("encoder").covers("encoder2")
    (True, False)
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise SpecError(f"a selector's pattern has at most {_LONGEST} characters, not {len(pattern)}.")
        self.pattern = pattern
        tokens = re.sub(r"\*+", "*", pattern)
        self._accept = 1 << len(tokens)
        self._stars = sum(1 << place for place, token in enumerate(tokens) if token == "*")
        self._any = sum(1 << place for place, token in enumerate(tokens) if token == "?")
        self._letters: dict[str, int] = {}
        for place, token in enumerate(tokens):
            if token not in "*?":
                self._letters[token] = self._letters.get(token, 0) | 1 << place

    def matches(self, name: str) -> bool:
        """Whether the pattern is the whole name."""
        return self._run(name, scopes=False)

    def covers(self, name: str) -> bool:
        """Whether the pattern is the name or a scope above it."""
        return self._run(name, scopes=True)

    def _run(self, name: str, scopes: bool) -> bool:
        stars = self._stars
        states = 1 | (1 & stars) << 1
        for place, letter in enumerate(name):
            if scopes and place and letter in ".#" and states & self._accept:
                return True
            moved = (states & (self._letters.get(letter, 0) | self._any)) << 1 | states & stars
            states = moved | (moved & stars) << 1
            if not states:
                return False
        return bool(states & self._accept)


@dataclass(frozen=True)
class Term:
    """One `kind:glob` of a selector."""

    text: str
    kinds: frozenset[Kind] | None  # None: whatever the condition is for
    types: tuple[Glob, ...]
    network: Glob | None
    glob: Glob

    def selects(self, info: TensorInfo, otherwise: Set[Kind], allowed: Set[Kind]) -> bool:
        if info.kind not in (otherwise if self.kinds is None else self.kinds) or info.kind not in allowed:
            return False
        if self.types:
            names = [plain for word in (info.type, info.op) if (plain := _plain(word))]
            if not any(glob.matches(name) for glob in self.types for name in names):
                return False
        if self.network is not None and not self.network.matches(info.network):
            return False
        return self.glob.covers(info.name)


@dataclass(frozen=True)
class Selector:
    """The tensors that any of its terms selects."""

    text: str
    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read a selector; a SpecError says what is wrong with it.

        >>> info = TensorInfo(id=0, kind="gradient", node="encoder.0", slot="weight")
        >>> Selector.parse("loss, gradient:encoder.*").selects(info)
        True
        """
        pieces = [piece.strip() for piece in text.split(",")]
        if len(pieces) > _MOST_TERMS:
            raise SpecError(f"a selector has at most {_MOST_TERMS} parts, not {len(pieces)}.")
        if not all(pieces):
            raise SpecError(
                f"the selector {shortened(text)!r} has an empty part: write e.g. 'weight:*' or 'encoder.*'."
            )
        return cls(text, tuple(_term(piece) for piece in pieces))

    def selects(self, info: TensorInfo, otherwise: Set[Kind] = ALL_KINDS, allowed: Set[Kind] = ALL_KINDS) -> bool:
        """Whether a tensor is meant.

        `otherwise` are the kinds that a term without a kind stands for, `allowed` those the condition can judge.
        """
        return any(term.selects(info, otherwise, allowed) for term in self.terms)

    def require(self, code: str, allowed: Set[Kind]) -> None:
        """Raise a SpecError when no tensor it selects can be judged by a condition on these kinds (empty: all)."""
        for term in self.terms:
            if allowed and term.kinds is not None and not term.kinds & allowed:
                raise SpecError(f"{code} cannot be set on {term.text!r}: it judges {', '.join(sorted(allowed))}.")


def _term(text: str) -> Term:
    match = _TERM.fullmatch(text)
    assert match is not None  # the pattern takes any text
    kind, types, rest = match["kind"], match["types"], match["rest"]
    if kind is None and (text in KINDS or text == "*"):
        kind, rest = text, "*"
    if kind is None and (bare := re.fullmatch(r"([A-Za-z_]+)\[([^\[\]]*)\]", text)):
        kind, types, rest = bare[1], bare[2], "*"
    if kind == "gradient" and (rest == "activation" or rest.startswith("activation:")):
        kind, rest = "gradient:activation", rest[len("activation:") :] or "*"
    kinds: frozenset[Kind] | None = None
    if kind is not None and kind != "*":
        if kind not in KINDS:
            near = difflib.get_close_matches(kind, KINDS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"kinds are {', '.join(KINDS)}."
            raise SpecError(f"there is no kind {shortened(kind)!r} of tensors in {shortened(text)!r}: {hint}")
        kinds = KINDS[kind]
    if not rest or any(letter.isspace() or letter in '[]:"()' for letter in rest):
        raise SpecError(f"{shortened(text)!r} is no selector: write 'kind:glob', e.g. 'gradient:encoder.*.weight'.")
    network, slash, glob = rest.partition("/")
    names = tuple(Glob(_plain(name)) for name in (types or "").split("|") if name.strip())
    if types is not None and not names:
        raise SpecError(f"{shortened(text)!r} names no type between [ and ]: write e.g. 'activation[relu]:*'.")
    if slash and not (network and glob):
        raise SpecError(f"{shortened(text)!r} is no selector: write 'network/glob', e.g. 'generator/*'.")
    return Term(text, kinds, names, Glob(network) if slash else None, Glob(glob if slash else rest))


def _plain(word: str) -> str:
    """Types are compared without case and underscores, so that 'LeakyReLU' and 'leaky_relu' are the same."""
    return word.strip().lower().replace("_", "")


def shortened(text: str, most: int = 80) -> str:
    """A text for an error message: not longer than a line, whatever was typed.

    >>> shortened("a" * 100, 8)
    'aaaaaaa…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
