"""Lines of the user's code by what they do to a name: where a value was made, where it is kept."""

from __future__ import annotations

import linecache
import re

from tensight.frameworks.source import source_of
from tensight.records import Source

_FAR = 60  # lines to look back or ahead

_NUMBERS = re.compile(r"\.(?:item|detach|tolist|numpy)\(|\.data\b|\b(?:float|int)\(")  # what keeps no graph

Site = tuple[str, int, str]


def made_before(site: Site, called: str) -> Source | None:
    """The line above `site` that assigns the name on which `called` is called there; None when it is not that plain.

    `site` is (file, line, function).
    """
    file, line, function = site
    found = re.search(rf"\b([A-Za-z_]\w*)\.{called}\(", linecache.getline(file, line))
    if found is None:
        return None
    assigned = re.compile(rf"^\s*{found.group(1)}\s*[-+*/]?=[^=]")
    for number in range(line - 1, max(0, line - _FAR), -1):
        text = linecache.getline(file, number)
        if re.match(r"\s*(?:async\s+)?def ", text):
            return None
        if assigned.match(text):
            return source_of(file, number, function)
    return None


def kept_after(site: Site) -> Source | None:
    """The line below `site` that keeps what `site` assigns, or what is made of that: in a list, or in a sum."""
    file, line, function = site
    text = linecache.getline(file, line)
    found = re.match(r"\s*\(?([A-Za-z_][\w\s,]*?)\)?\s*=[^=]", text)
    if found is None:
        return source_of(file, line, function) if re.search(r"\.append\(|\+=", text) else None
    names = set(re.findall(r"\w+", found.group(1)))
    for number in range(line + 1, line + _FAR):
        text = linecache.getline(file, number)
        if re.match(r"\s*(?:async\s+)?(?:def|class) ", text):
            return None
        if _NUMBERS.search(text) or names.isdisjoint(re.findall(r"(?<![.\w\"'])[A-Za-z_]\w*", text)):
            continue
        kept = re.search(r"(?:\.append\(|\+=|\]\s*=(?!=))(.*)", text)
        if kept is not None and not names.isdisjoint(re.findall(r"(?<![.\w\"'])[A-Za-z_]\w*", kept.group(1))):
            return source_of(file, number, function)
        made = re.match(r"\s*\(?([A-Za-z_][\w\s,]*?)\)?\s*=(?!=)", text)
        if made is not None:
            names |= set(re.findall(r"\w+", made.group(1)))
    return None


def given_by(site: Site) -> Source | None:
    """The line above `site` that makes what is handed on there: `x, y = next_batch()` before `net(x)`.

    A line that only reshapes, casts or picks from a value leads on to the line that made that one.
    """
    file, line, function = site
    inside = linecache.getline(file, line).partition("(")[2]
    names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*(?!\w*\s*\()", inside))
    found = None
    for number in range(line - 1, max(0, line - _FAR), -1):
        text = linecache.getline(file, number)
        if re.match(r"\s*(?:async\s+)?(?:def|class) ", text):
            break
        made = re.match(r"\s*(?:for\s+)?\(?([A-Za-z_][\w\s,*()]*?)\)?\s*(?:=(?!=)|\bin\b)(.*)", text)
        if made is None or names.isdisjoint(re.findall(r"\w+", made.group(1))):
            continue
        found = source_of(file, number, function)
        only = re.match(
            r"\s*\(?([A-Za-z_]\w*)\s*(?:\[|\.(?:to|view|reshape|float|unsqueeze|permute|cuda|cpu)\()", made.group(2)
        )
        if only is None:
            break
        names = {only.group(1)}
    return found
