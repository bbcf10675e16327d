"""Crashes of things that do not fit together: tensors in a list, the terms of an einsum, a checkpoint and its model."""

from __future__ import annotations

import re

from tensight.diagnosis.crash_patterns import Explanation, Patterns
from tensight.frameworks.crash import Crash, Input

FITTING = Patterns()
_when = FITTING.when


@_when(
    r"Expected size \d+ but got size \d+ for tensor number (?P<number>\d+) in the list"
    r"|stack expects each tensor to be equal size|Sizes of tensors must match except in dimension"
)
def _stack(crash: Crash, match: re.Match[str]) -> Explanation:
    given = [item for item in crash.inputs if item.shape is not None]
    number = match["number"]
    if number is not None and int(number) < len(given):
        odd: Input | None = given[int(number)]
    else:
        odd = next((item for item in given if item.shape != given[0].shape), None)
    said = crash.message.splitlines()[0]
    operator = crash.operator or "stack"
    free = re.search(r"except in dimension (\d+)", said)
    apart = _apart(given[0], odd, int(free[1]) if free else None) if odd is not None else ""
    wants = f"the same size in every dimension but {free[1]}" if free else "the same shape of all"
    return Explanation(
        "tensors of different shapes cannot be put together" + (f": {odd.name} differs" if odd is not None else ""),
        f"{operator} needs {wants}" + (f"; {apart}" if apart else f": {said}"),
        ("pad or crop them to one shape; for samples of a loader give it a collate_fn that pads",),
    )


def _apart(first: Input, other: Input, free: int | None) -> str:
    """Where the shapes of two tensors part, leaving out the dimension that may differ."""
    one, two = first.shape or (), other.shape or ()
    if len(one) != len(two):
        return f"{first.name} has {len(one)} dimensions and {other.name} has {len(two)}"
    places = [place for place, (a, b) in enumerate(zip(one, two, strict=True)) if a != b and place != free]
    parts = [f"{one[place]} against {two[place]} in dimension {place}" for place in places]
    return f"{first.name} and {other.name} have {' and '.join(parts)}" if parts else ""


@_when(r"einsum\(\): subscript (\w) has size (\d+) for operand (\d+) which does not broadcast with previously seen")
def _einsum_size(crash: Crash, match: re.Match[str]) -> Explanation:
    letter, size, operand = match[1], int(match[2]), int(match[3])
    seen = re.search(r"previously seen size (\d+)", crash.message)
    terms = _terms(crash)
    name, earlier = f"operand {operand}", "an earlier one"
    tensors = [item for item in crash.inputs if item.shape is not None]
    if operand < len(tensors):
        name = f"{tensors[operand].name} {list(tensors[operand].shape or ())}"
    before = next((place for place, term in enumerate(terms[:operand]) if letter in term), None)
    if before is not None and before < len(tensors):
        earlier = f"{tensors[before].name} {list(tensors[before].shape or ())}"
    written = f" (written {terms[operand]})" if operand < len(terms) else ""
    return Explanation(
        f"einsum: {letter} is {seen[1] if seen else 'another size'} in one tensor and {size} in another",
        f"a letter stands for one size in all tensors; {letter} is {seen[1] if seen else 'another'} in {earlier}"
        f" and {size} in {name}{written}",
        (f"make the dimensions that share {letter} equally large, or give them letters of their own",),
    )


@_when(
    r"einsum\(\): the number of subscripts in the equation \((\d+)\).*?number of dimensions \((\d+)\) for operand (\d+)"
)
def _einsum_count(crash: Crash, match: re.Match[str]) -> Explanation:
    letters, dimensions, operand = match[1], match[2], int(match[3])
    tensors = [item for item in crash.inputs if item.shape is not None]
    name = tensors[operand].name if operand < len(tensors) else f"operand {operand}"
    return Explanation(
        f"einsum: {letters} letters for {name}, which has {dimensions} dimensions",
        f"each dimension of a tensor needs one letter; {name} has {dimensions} and the equation writes {letters}",
        ("write one letter for each dimension, or '...' for those that are only carried along",),
    )


def _terms(crash: Crash) -> list[str]:
    """The letters of each tensor, where the equation is written out in the call."""
    found = re.search(r"""['"]([\w.,\s]+)->""", f"{crash.call} {crash.source.code if crash.source is not None else ''}")
    return [term.strip() for term in found[1].split(",")] if found else []


_MISSING = re.compile(r"Missing key\(s\) in state_dict: (.*?)\.\s*$", re.M)
_UNEXPECTED = re.compile(r"Unexpected key\(s\) in state_dict: (.*?)\.\s*$", re.M)
_SIZES = re.compile(
    r"size mismatch for (\S+): copying a param with shape torch\.Size\((\[[\d, ]*\])\) from checkpoint,"
    r" the shape in current model is torch\.Size\((\[[\d, ]*\])\)"
)


@_when(r"Error\(s\) in loading state_dict for (\w+):(.*)")
def _state(crash: Crash, match: re.Match[str]) -> Explanation:
    text = match[2]
    missing, unexpected = (_names(pattern.search(text)) for pattern in (_MISSING, _UNEXPECTED))
    sizes = _SIZES.findall(text)
    parts = []
    if missing:
        parts.append(f"the model has {_some(missing)}, which the checkpoint has not")
    if unexpected:
        parts.append(f"the checkpoint has {_some(unexpected)}, which the model has not")
    if sizes:
        parts.append(
            _some([f"{name} is {saved} in the checkpoint and {now} in the model" for name, saved, now in sizes])
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fixes = []
    if "module." in text:
        fixes.append("the checkpoint was written from a wrapped model: strip 'module.' from its names")
    elif "_orig_mod." in text:
        fixes.append("the checkpoint was written from a compiled model: strip '_orig_mod.' from its names")
    elif (renamed := _renamed(missing, unexpected)) is not None:
        fixes.append(f"only the beginning of the names differs: rename {renamed[0]!r} to {renamed[1]!r} before loading")
    if not fixes or sizes:
        fixes.append("build the model as it was when the checkpoint was written")
    return Explanation(f"the checkpoint does not fit {match[1]}", "; ".join(parts or lines[:3]), tuple(fixes))


def _names(found: re.Match[str] | None) -> list[str]:
    return re.findall(r'"([^"]+)"', found[1]) if found is not None else []


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _renamed(missing: list[str], unexpected: list[str]) -> tuple[str, str] | None:
    """The beginnings that must be exchanged so that the names are the same, if that is all they differ in.

    >>> _renamed(["encoder.0.weight", "encoder.0.bias"], ["body.0.weight", "body.0.bias"])
    ('body.', 'encoder.')
    """
    if not missing or len(missing) != len(unexpected):
        return None
    first, second = missing[0], unexpected[0]
    while "." in first and "." in second and first.rpartition(".")[2] == second.rpartition(".")[2]:
        first, second = first.rpartition(".")[0], second.rpartition(".")[0]
    new, old = first + ".", second + "."
    if {old + name.removeprefix(new) for name in missing} == set(unexpected):
        return old, new
    return None
