"""What a search is to do: a YAML file of ours, or one of MindInsight's mindoptimizer."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tensight.errors import MissingExtra, UsageError
from tensight.records.patterns import compiled

SAMPLERS = ("tpe", "random", "gp", "cmaes", "qmc", "grid")
PRUNERS = ("median", "hyperband", "halving", "none")
FINDINGS = ("numeric-nonfinite", "gradient-flow", "lr-schedule", "initialisation")
_RANGE = re.compile(r"\s*([-+0-9.eE]+)\s*\.\.\s*([-+0-9.eE]+)\s*(log)?\s*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_LARGEST_FILE = 1 << 16  # the reader of YAML takes seconds for more
_MOST_VALUES = 10_000
_DEEPEST = 20
_DEEPEST_BRACKETS = 100
_KEYS = {
    "command",
    "parameters",
    "minimize",
    "maximize",
    "trials",
    "workers",
    "sampler",
    "pruner",
    "prune_findings",
    "storage",
    "seed",
    "name",
    "timeout",
    "pattern",
    "environment",
    "summary_base_dir",
    "tuner",
    "target",
}


@dataclass(frozen=True)
class Parameter:
    """One value that is searched for: from a range, or one of several."""

    name: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = False
    choices: tuple[Any, ...] = ()
    decimal: int | None = None
    open_above: bool = False  # the upper bound itself is left out


@dataclass(frozen=True)
class Config:
    """A search, checked."""

    command: str
    parameters: tuple[Parameter, ...]
    target: str = "loss"
    goal: Literal["minimize", "maximize"] = "minimize"
    trials: int = 20
    workers: int = 1
    sampler: str = "tpe"
    pruner: str = "median"
    prune_findings: tuple[str, ...] = FINDINGS
    storage: str = ""
    seed: int | None = None
    name: str = "search"
    timeout: float = 3600.0
    pattern: str = ""
    summary_base_dir: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load(path: Path) -> Config:
    """Read and check a file; what is wrong with it is said in one sentence."""
    try:
        import yaml
    except ImportError:
        raise MissingExtra("PyYAML", "tune", "tensight tune") from None
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise UsageError(f"{path}: has more than {_LARGEST_FILE:,} bytes, and is no search")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    _shallow(text, path)
    try:
        found = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        at = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise UsageError(f"{path}: is not YAML: {at}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: must hold keys like command and parameters")
    _limited(found, path)
    return parse(found, name=path.stem, where=str(path))


def _shallow(text: str, path: Path) -> None:
    """Brackets within brackets are refused before they are parsed, which takes time by the square of their depth."""
    depth = 0
    for char in text:
        depth = max(0, depth + (char in "[{") - (char in "]}"))
        if depth > _DEEPEST_BRACKETS:
            raise UsageError(f"{path}: holds brackets more than {_DEEPEST_BRACKETS} deep, and is no search")


def _limited(found: Any, path: Path) -> None:
    """A few lines that repeat each other by references can stand for more than any memory holds."""
    waiting, seen = [(found, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if seen > _MOST_VALUES or depth > _DEEPEST:
            raise UsageError(f"{path}: holds more values, or deeper ones, than any search needs")
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(inner, depth + 1) for inner in value]


def parse(found: dict[str, Any], *, name: str = "search", where: str = "config") -> Config:
    """A search from plain data.

    >>> parse({"command": "python train.py --lr {lr}", "parameters": {"lr": "1e-4..1e-1 log"}}).parameters[0].log
    True
    """
    unknown = sorted(str(key) for key in found if key not in _KEYS)
    if unknown:
        raise UsageError(f"{where}: {unknown[0]!r} is no key of a search; there are {', '.join(sorted(_KEYS))}")
    command = found.get("command")
    if not isinstance(command, str) or not command.strip():
        raise UsageError(f"{where}: needs a command, e.g. `command: python train.py --lr {{lr}}`")
    rows = found.get("parameters")
    if not isinstance(rows, dict) or not rows:
        raise UsageError(f"{where}: needs parameters, e.g. `parameters: {{lr: 1e-4..1e-1 log}}`")
    parameters = tuple(_parameter(str(key), value, where) for key, value in rows.items())
    target, goal = _target(found, where)
    notes: list[str] = []
    sampler, note = _sampler(found, where)
    if note:
        notes.append(note)
    pruner = str(found.get("pruner", "median")).lower()
    if pruner not in PRUNERS:
        raise UsageError(f"{where}: pruner {pruner!r} is none of {', '.join(PRUNERS)}")
    pattern = str(found.get("pattern", ""))
    try:
        compiled(pattern)
    except UsageError as error:
        raise UsageError(f"{where}: pattern {error}") from None
    seed = found.get("seed")
    return Config(
        command=command,
        parameters=parameters,
        target=target,
        goal=goal,
        trials=_count(found, "trials", 20, where),
        workers=_count(found, "workers", 1, where),
        sampler=sampler,
        pruner=pruner,
        prune_findings=_findings(found, where),
        storage=str(found.get("storage", "")),
        seed=seed if isinstance(seed, int) else None,
        name=re.sub(r"[^A-Za-z0-9_.-]", "-", str(found.get("name", name))) or "search",
        timeout=_float(found.get("timeout", 3600), f"{where}: timeout"),
        pattern=pattern,
        summary_base_dir=str(found.get("summary_base_dir", "")),
        environment={str(key): str(value) for key, value in _table(found, "environment", where).items()},
        notes=tuple(notes),
    )


def _parameter(name: str, value: Any, where: str) -> Parameter:
    place = f"{where}: parameter {name!r}"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}: is no name; use letters, digits and _")
    if isinstance(value, list):
        return _choices(name, value, place)
    if isinstance(value, str):
        match = _RANGE.fullmatch(value)
        if not match:
            raise UsageError(f"{place}: {value!r} is no range; write e.g. 1e-4..1e-1 log, 2..8, or a list of choices")
        whole = all(re.fullmatch(r"[-+]?\d+", text) for text in match.groups()[:2])
        return _range(name, _float(match[1], place), _float(match[2], place), whole, bool(match[3]), place)
    if not isinstance(value, dict):
        raise UsageError(f"{place}: give a range, a list of choices, or bounds and type")
    if ("bounds" in value) == ("choice" in value) and "low" not in value:
        raise UsageError(f"{place}: give either bounds or choice")
    if "choice" in value:
        return _choices(name, value["choice"], place)
    if "low" in value:
        low, high, log = value["low"], value.get("high"), bool(value.get("log", False))
        whole = isinstance(low, int) and isinstance(high, int)
        return _range(name, _float(low, place), _float(high, place), whole, log, place)
    bounds = value["bounds"]
    kind = value.get("type")
    if kind not in ("int", "float"):
        raise UsageError(f"{place}: bounds need a type, int or float")
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise UsageError(f"{place}: bounds must be two numbers, the lower and the upper")
    made = _range(name, _float(bounds[0], place), _float(bounds[1], place), kind == "int", False, place)
    decimal = value.get("decimal")
    return Parameter(
        name, made.low, made.high, made.whole, decimal=decimal if isinstance(decimal, int) else None, open_above=True
    )


def _choices(name: str, values: Any, place: str) -> Parameter:
    if not isinstance(values, list) or not values:
        raise UsageError(f"{place}: a choice needs a list of at least one value")
    if not all(isinstance(one, (int, float, str, bool)) for one in values):
        raise UsageError(f"{place}: choices must be numbers, words, true or false")
    return Parameter(name, choices=tuple(values))


def _range(name: str, low: float, high: float, whole: bool, log: bool, place: str) -> Parameter:
    if not low < high:
        raise UsageError(f"{place}: the upper bound must be greater than the lower one")
    if log and low <= 0:
        raise UsageError(f"{place}: a range on a log scale must begin above 0")
    if whole and math.ceil(low) > math.floor(high):
        raise UsageError(f"{place}: there is no whole number in the range")
    return Parameter(name, low, high, whole, log)


def _float(value: Any, place: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{place}: {value!r} is no number") from None
    if not math.isfinite(number):
        raise UsageError(f"{place}: {value!r} is no finite number")
    return number


def _target(found: dict[str, Any], where: str) -> tuple[str, Literal["minimize", "maximize"]]:
    asked = [word for word in ("minimize", "maximize") if word in found]
    if len(asked) > 1 or (asked and "target" in found):
        raise UsageError(f"{where}: give one of minimize, maximize and target")
    if asked:
        return str(found[asked[0]]), asked[0]
    target = found.get("target")
    if target is None:
        return "loss", "minimize"
    if not isinstance(target, dict) or "name" not in target:
        raise UsageError(f"{where}: target needs a name, e.g. `target: {{name: Accuracy, goal: maximize}}`")
    name, group = str(target["name"]), target.get("group")
    if group not in (None, "system_defined", "metric", "user_defined"):
        raise UsageError(f"{where}: target group {group!r} is none of system_defined, metric, user_defined")
    goal = str(target.get("goal", "minimize" if name == "loss" else "maximize"))
    if goal not in ("minimize", "maximize"):
        raise UsageError(f"{where}: target goal {goal!r} is neither minimize nor maximize")
    return name, goal  # type: ignore[return-value]


def _sampler(found: dict[str, Any], where: str) -> tuple[str, str]:
    tuner = found.get("tuner")
    if tuner is not None:
        if not isinstance(tuner, dict) or str(tuner.get("name", "")).lower() != "gp":
            raise UsageError(f"{where}: tuner must have the name gp")
        method = str(_table(tuner, "args", where).get("method", "ei")).lower()
        if method not in ("ucb", "pi", "ei"):
            raise UsageError(f"{where}: tuner method {method!r} is none of ucb, pi, ei")
        note = "" if method == "ei" else f"acquisition {method} is searched with expected improvement"
        return "gp", note
    sampler = str(found.get("sampler", "tpe")).lower()
    if sampler not in SAMPLERS:
        raise UsageError(f"{where}: sampler {sampler!r} is none of {', '.join(SAMPLERS)}")
    return sampler, ""


def _findings(found: dict[str, Any], where: str) -> tuple[str, ...]:
    value = found.get("prune_findings", True)
    if value is True:
        return FINDINGS
    if value is False or value is None:
        return ()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise UsageError(f"{where}: prune_findings is true, false or a list of categories and faults")


def _table(found: dict[str, Any], key: str, where: str) -> dict[Any, Any]:
    value = found.get(key) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {key} must be a table of names and values")
    return value


def _count(found: dict[str, Any], key: str, default: int, where: str) -> int:
    value = found.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise UsageError(f"{where}: {key} must be a whole number of at least 1")
    return value
