"""Watchpoints as text, for the command line and for files.

    TL(max_gt=100) on gradient:encoder.* after=10 at_most=5 action=pause
    max > 3 * median(max, 100) on activation:*

In a TOML file:

    watch = ["TO on gradient:*"]

    [[watchpoint]]
    condition = "TL"
    parameters = { max_gt = 100 }
    on = "gradient:encoder.*"
    action = "pause"

    [[watchpoint]]
    expression = "max > 3 * median(max, 100)"
    on = "activation:*"
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensight.errors import SpecError
from tensight.records import Watchpoint
from tensight.watchpoints.catalogue import EXPRESSION, find
from tensight.watchpoints.condition import Condition
from tensight.watchpoints.expression import Expression
from tensight.watchpoints.limits import LEAST
from tensight.watchpoints.selectors import shortened

LONGEST = 5000
LARGEST_FILE = 1 << 20
MOST = 10_000

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_OPTIONS = (*LEAST, "action", "name")
_OPTION = re.compile(rf'\s({"|".join(_OPTIONS)})\s*=\s*("(?:[^"\\]|\\.)*"|[^\s"=]+)\s*$', re.DOTALL)
_CALL = re.compile(r"\s*([A-Za-z]\w*)\s*(?:\(([^()]*)\))?\s*", re.ASCII)
_ON = re.compile(r"\son\s")


def parse(text: str, id: int) -> Watchpoint:
    """Read a watchpoint; a SpecError says in one sentence what is wrong.

    >>> parse("TL(max_gt=100) on gradient:encoder.* after=10", 1).parameters
    {'max_gt': 100.0}
    >>> parse("max > 3 * median(max, 100) on activation:*", 2).expression
    'max > 3 * median(max, 100)'
    """
    if len(text) > LONGEST:
        raise SpecError(f"a watchpoint has at most {LONGEST} characters, not {len(text)}.")
    if not text.strip():
        raise SpecError("a watchpoint is empty: write e.g. 'TO on gradient:*'.")
    rest, options = _options(" " + text.strip())
    parts = _ON.split(rest + " ")
    if len(parts) > 2:
        raise SpecError(f"{shortened(text.strip())!r} says 'on' more than once: join selectors by commas.")
    if len(parts) == 2 and not parts[1].strip():
        raise SpecError(f"{shortened(text.strip())!r} names no tensors after 'on': write e.g. 'on gradient:*'.")
    condition = _condition(parts[0].strip())
    return condition.watchpoint(id, parts[1].strip() if len(parts) == 2 else "*", **options)


def _options(text: str) -> tuple[str, dict[str, Any]]:
    """Take `after=5 action=pause name="…"` off the end of a text."""
    options: dict[str, Any] = {}
    while (match := _OPTION.search(text)) is not None:
        name, value = match[1], match[2]
        if name in options:
            raise SpecError(f"{name} is given twice.")
        options[name] = _option(name, value)
        text = text[: match.start()]
    return text, options


def _option(name: str, value: str) -> Any:
    if value.startswith('"'):
        try:
            value = json.loads(value, strict=False)
        except ValueError:
            raise SpecError(f"{name}={shortened(value)!r} is not a quoted text.") from None
    if name in LEAST:
        return int(value) if re.fullmatch(r"\d{1,18}", value, re.ASCII) else value
    return value


def _condition(text: str) -> Condition:
    match = _CALL.fullmatch(text)
    if match is None or (match[1] in ("not", "abs") and match[2]):
        return Expression(text)
    return find(match[1])(**_arguments(match[1], match[2] or ""))


def _arguments(code: str, text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for piece in text.split(",") if text.strip() else ():
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not name or not _NUMBER.fullmatch(value):
            raise SpecError(
                f"{code}: {shortened(piece.strip())!r} is no parameter: write 'name=number', e.g. 'max_gt=100'."
            )
        if name in values:
            raise SpecError(f"{code}: {name} is given twice.")
        values[name] = float(value)
    return values


def to_text(watchpoint: Watchpoint) -> str:
    """The watchpoint as text that `parse` reads back to the same.

    >>> to_text(parse("TL( max_gt = 1e2 ) on  gradient:*   every=2", 1))
    'TL(max_gt=100) on gradient:* every=2'
    """
    words = [what(watchpoint)]
    for name, least in LEAST.items():
        if (value := getattr(watchpoint, name)) != least:
            words.append(f"{name}={value}")
    if watchpoint.action:
        words.append(f"action={watchpoint.action}")
    if watchpoint.name:
        words.append(f"name={json.dumps(watchpoint.name, ensure_ascii=False)}")
    return " ".join(words)


def what(watchpoint: Watchpoint) -> str:
    """Condition and selector alone: what a watchpoint without a name is called."""
    if watchpoint.condition == EXPRESSION:
        head = watchpoint.expression
    else:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in watchpoint.parameters.items())
        head = f"{watchpoint.condition}({given})" if given else watchpoint.condition
    return f"{head} on {watchpoint.on}"


def _shown(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def load(path: str | Path, first_id: int = 1) -> list[Watchpoint]:
    """Read all watchpoints of a TOML file; a SpecError names the file and the watchpoint that is wrong."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror or error}.") from error
    if len(raw) > LARGEST_FILE:
        raise SpecError(f"{path} is larger than {LARGEST_FILE} bytes: that is no file of watchpoints.")
    try:
        content = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path} is not TOML: {shortened(str(error) or 'nested too deep', 200)}.") from error
    return _from_table(content, str(path), first_id)


def _from_table(content: Mapping[str, Any], path: str, first_id: int) -> list[Watchpoint]:
    unknown = sorted(set(content) - {"watch", "watchpoint"})
    if unknown:
        raise SpecError(f"{path}: {shortened(unknown[0])!r} is not known: a file has 'watch' and '[[watchpoint]]'.")
    texts, tables = content.get("watch", []), content.get("watchpoint", [])
    if not isinstance(texts, list) or not isinstance(tables, list):
        raise SpecError(f'{path}: write watch = ["…"] and [[watchpoint]].')
    if len(texts) + len(tables) > MOST:
        raise SpecError(f"{path} has more than {MOST} watchpoints.")
    found: list[Watchpoint] = []
    for number, entry in enumerate((*texts, *tables), 1):
        try:
            found.append(_entry(entry, first_id + len(found)))
        except SpecError as error:
            raise SpecError(f"{path}, watchpoint {number}: {error}") from None
    return found


def _entry(entry: object, id: int) -> Watchpoint:
    if isinstance(entry, str):
        return parse(entry, id)
    if not isinstance(entry, dict):
        raise SpecError(f"a watchpoint is a text or a table, not {shortened(repr(entry))}.")
    known = ("condition", "parameters", "expression", "on", *_OPTIONS)
    for key in entry:
        if key not in known:
            raise SpecError(f"{shortened(key)!r} is not known: a watchpoint has {', '.join(known)}.")
    if ("condition" in entry) == ("expression" in entry):
        raise SpecError("give either a condition or an expression.")
    for key in ("condition", "expression", "on", "name", "action"):
        if not isinstance(entry.get(key, ""), str):
            raise SpecError(f"{key} must be a text, not {shortened(repr(entry[key]))}.")
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise SpecError("parameters must be a table, e.g. { max_gt = 100 }.")
    options = {key: entry[key] for key in _OPTIONS if key in entry}
    if "expression" in entry:
        if parameters:
            raise SpecError("an expression has no parameters.")
        return Expression(entry["expression"]).watchpoint(id, entry.get("on", "*"), **options)
    return find(entry["condition"])(**parameters).watchpoint(id, entry.get("on", "*"), **options)
