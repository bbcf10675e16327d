"""What to dump: MindSpore's dump JSON, of r1.1 and of the newest version, checked key by key.

Every wrong key, value or combination gives a sentence with the key, what was found and what is allowed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensight.dump.asking import ENVIRONMENT
from tensight.dump.choosing import Iterations, Kernels
from tensight.errors import UsageError

DIAGNOSTICS = "MS_DIAGNOSTIC_DATA_PATH"
MOST_BYTES = 1 << 20
CATEGORIES = {
    "max": "Max Value",
    "min": "Min Value",
    "avg": "Avg Value",
    "count": "Count",
    "negative zero count": "Negative Zero Count",
    "positive zero count": "Positive Zero Count",
    "nan count": "NaN Count",
    "negative inf count": "Negative Inf Count",
    "positive inf count": "Positive Inf Count",
    "zero count": "Zero Count",
    "md5": "MD5",
    "l2norm": "L2Norm Value",
}
"""Statistics by their word in `statistic_category`, and the column of statistic.csv."""
USUAL_CATEGORIES = ("max", "min", "l2norm")
_EIGHT = (0, 1, 2, 3, 4, 5, 6, 7)
_LEVELS = ("operator", "module")


@dataclass(frozen=True)
class DumpSettings:
    """What to dump, checked. `parse` reads MindSpore's JSON; see docs/reference/dump.md for each key."""

    path: Path
    net_name: str = "Net"
    dump_mode: int = 0
    iterations: Iterations = field(default_factory=lambda: Iterations.parse("all"))
    inputs: bool = True
    outputs: bool = True
    kernels: Kernels = field(default_factory=lambda: Kernels(()))
    devices: tuple[int, ...] = _EIGHT
    tensors: bool = True
    statistics: bool = False
    categories: tuple[str, ...] = USUAL_CATEGORIES
    op_debug_mode: int = 0
    overflow_number: int = 0
    initial_iteration: int = 0
    sample: int | None = None  # values of each tensor that are written; None: all
    asynchronous: bool = False
    file_format: str = "npy"
    trans_flag: bool = False
    level: str = "operator"
    queue_bytes: int = 1 << 30
    wait_seconds: float = 10.0
    given: Mapping[str, Any] | None = None  # the JSON as it was, kept beside the dump

    @property
    def overflow_only(self) -> bool:
        return self.op_debug_mode in (1, 2, 3)

    @property
    def exception_only(self) -> bool:
        return self.op_debug_mode == 4


class _Block:
    """One object of the JSON. Reading a key takes it; what is left over was not known."""

    def __init__(self, name: str, values: Any, troubles: list[str]) -> None:
        self.name = name
        self.troubles = troubles
        if not isinstance(values, dict):
            troubles.append(f"{name} is {_shown(values)}: it has to be an object, {{…}}")
            values = {}
        self.values: dict[str, Any] = dict(values)
        self.there = bool(values)
        self.known: list[str] = []

    def block(self, key: str) -> _Block:
        """An object inside this one; an empty one when it is not there."""
        self.known.append(key)
        return _Block(key, self.values.pop(key, {}), self.troubles)

    def take(self, key: str, default: Any, allowed: str, check: Callable[[Any], bool]) -> Any:
        self.known.append(key)
        if key not in self.values:
            return default
        value = self.values.pop(key)
        try:
            fits = check(value)
        except (TypeError, ValueError):
            fits = False
        if fits:
            return value
        self.troubles.append(f"{self.name}.{key} is {_shown(value)}: allowed is {allowed}")
        return default

    def one_of(self, key: str, default: Any, allowed: tuple[Any, ...]) -> Any:
        words = ", ".join(json.dumps(one) for one in allowed)
        return self.take(key, default, words, lambda v: any(v == one and type(v) is type(one) for one in allowed))

    def number(self, key: str, default: int, least: int = 0) -> int:
        found: int = self.take(key, default, f"a whole number from {least} on", lambda v: _whole(v) and v >= least)
        return found

    def switch(self, key: str, default: bool) -> bool:
        found: bool = self.take(key, default, "true or false", lambda v: isinstance(v, bool))
        return found

    def end(self) -> None:
        for key in self.values:
            self.troubles.append(
                f"{self.name} has the unknown key {_shown(key)}: known are {', '.join(sorted(self.known))}"
            )


def load(file: str | Path) -> DumpSettings:
    """Settings out of a JSON file."""
    path = Path(file)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has more than {MOST_BYTES:,} bytes: it is no dump configuration")
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"the dump configuration {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the dump configuration {path} cannot be read: it is not UTF-8 text") from error
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the dump configuration {path} is not JSON: {error}") from error
    return parse(values, where=str(path))


def from_environment() -> DumpSettings | None:
    """Settings that `TENSIGHT_DUMP_CONFIG` or `MINDSPORE_DUMP_CONFIG` ask for."""
    for name in ENVIRONMENT:
        if os.environ.get(name):
            return load(os.environ[name])
    return None


def parse(values: Any, *, where: str = "the dump configuration") -> DumpSettings:
    """Settings out of the JSON's values.

    >>> found = parse({"common_dump_settings": {"path": "/tmp/dump", "iteration": "0|5-8"}})
    >>> found.net_name, [step for step in range(10) if step in found.iterations]
    ('Net', [0, 5, 6, 7, 8])
    >>> parse({"common_dump_settings": {"path": "/tmp/dump", "iteration": 0, "dump_mod": 1}})
    Traceback (most recent call last):
    tensight.errors.UsageError: the dump configuration: common_dump_settings has the unknown key "dump_mod": ...
    """
    troubles: list[str] = []
    top = _Block("the file", values, troubles)
    if "common_dump_settings" not in top.values:
        troubles.append("common_dump_settings is missing: it says what is dumped and where to")
    blocks = [top.block(f"{name}_dump_settings") for name in ("common", "e2e", "async")]
    top.end()
    common, e2e, later = blocks
    asynchronous = _way(e2e, later, troubles)
    found = {**_common(common, troubles), **_synchronous(e2e), **_asynchronous(later)}
    for block in blocks:
        block.end()
    mode = found.pop("async_op_debug_mode")
    if mode and found["op_debug_mode"] not in (0, mode):
        troubles.append(
            f"op_debug_mode is {found['op_debug_mode']} in common_dump_settings and {mode} in async_dump_settings: "
            "give it once"
        )
    found["op_debug_mode"] = found["op_debug_mode"] or mode
    iteration = found.pop("iteration")
    troubles += _combinations(found, asynchronous)
    if troubles:
        raise UsageError(f"{where}: " + "; ".join(troubles))
    # r1.1, asynchronous without sinking: the number 0 meant every iteration
    every = asynchronous and iteration == 0 and not isinstance(iteration, str)
    found["iterations"] = Iterations.parse("all" if every else str(iteration))
    return DumpSettings(asynchronous=asynchronous, given=values, **found)


def _way(e2e: _Block, later: _Block, troubles: list[str]) -> bool:
    """Whether to write asynchronously; a block that is not there is not enabled, unless there is none at all."""
    now = e2e.switch("enable", e2e.there or not later.there)
    then = later.switch("enable", later.there and not e2e.there)
    if now and then:
        troubles.append("e2e_dump_settings.enable and async_dump_settings.enable are both true: set one to false")
    if not now and not then:
        troubles.append("enable is true in neither e2e_dump_settings nor async_dump_settings: set one to true")
    return then


def _common(block: _Block, troubles: list[str]) -> dict[str, Any]:
    path = block.take("path", "", "an absolute path", lambda v: isinstance(v, str) and "\0" not in v)
    if not path and os.environ.get(DIAGNOSTICS):
        path = str(Path(os.environ[DIAGNOSTICS]) / "debug_dump")
    if not path:
        troubles.append(f"common_dump_settings.path is empty: give an absolute path, or set {DIAGNOSTICS}")
    elif not os.path.isabs(path):
        troubles.append(f"common_dump_settings.path is {_shown(path)}: allowed is an absolute path")
    direction = block.one_of("input_output", 0, (0, 1, 2))
    saved = block.one_of("saved_data", "tensor", ("tensor", "statistic", "full"))
    kernels = block.take(
        "kernels",
        [],
        'a list of names, operator types, or "name-regex(…)"',
        lambda v: isinstance(v, list) and all(isinstance(one, str) and one for one in v),
    )
    chosen = Kernels(())
    try:
        chosen = Kernels.parse(kernels)
    except UsageError as error:
        chosen = Kernels([(word, None) for word in kernels])  # there are some: one complaint is enough
        troubles.append(f"common_dump_settings.kernels holds a pattern that cannot be read: {error}")
    devices = block.take(
        "support_device",
        list(_EIGHT),
        "a list of device numbers",
        lambda v: isinstance(v, list) and all(_whole(one) and one >= 0 for one in v),
    )
    categories = block.take(
        "statistic_category",
        list(USUAL_CATEGORIES),
        f"a list of {', '.join(CATEGORIES)}",
        lambda v: isinstance(v, list) and bool(v) and all(one in CATEGORIES for one in v),
    )
    return {
        "path": Path(path or "."),
        "dump_mode": block.one_of("dump_mode", 0, (0, 1, 2)),
        "net_name": block.take("net_name", "Net", "a name of letters, digits, _ and -", _is_name),
        "iteration": block.take(
            "iteration", 0, 'a number, or text such as "0|5-8|100-120" or "all"', Iterations.understands
        ),
        "inputs": direction != 2,
        "outputs": direction != 1,
        "kernels": chosen,
        "devices": tuple(devices),
        "tensors": saved != "statistic",
        "statistics": saved != "tensor",
        "categories": tuple(categories),
        "op_debug_mode": block.one_of("op_debug_mode", 0, (0, 1, 2, 3, 4)),
        "overflow_number": block.number("overflow_number", 0),
        "initial_iteration": block.number("initial_iteration", 0),
        "level": block.one_of("level", "operator", _LEVELS),
    }


def _synchronous(block: _Block) -> dict[str, Any]:
    sampled = block.one_of("sample_mode", 0, (0, 1))
    count = block.number("sample_num", 100, 1)
    block.one_of("stat_calc_mode", "host", ("host", "device"))
    block.one_of("device_stat_precision_mode", "high", ("high", "low"))
    block.switch("save_kernel_args", False)
    return {"trans_flag": block.switch("trans_flag", False), "sample": count if sampled else None}


def _asynchronous(block: _Block) -> dict[str, Any]:
    return {
        "async_op_debug_mode": block.one_of("op_debug_mode", 0, (0, 1, 2, 3, 4)),
        "file_format": block.one_of("file_format", "npy", ("npy", "bin")),
        "queue_bytes": block.number("queue_mb", 1024, 1) << 20,
        "wait_seconds": float(
            block.take(
                "wait_seconds",
                10,
                "a number of seconds from 0 on",
                lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and 0 <= v < 1e6,
            )
        ),
    }


def _combinations(found: Mapping[str, Any], asynchronous: bool) -> list[str]:
    """What is right by itself and wrong together."""
    wrong = []
    if found["dump_mode"] == 1 and not found["kernels"]:
        wrong.append("dump_mode is 1 and kernels is empty: name the kernels, or set dump_mode to 0")
    if found["dump_mode"] == 2 and not found["kernels"]:
        wrong.append(
            "dump_mode is 2, which dumps targets, and there are none: give them from Python, "
            "tensight.dump(model, targets=[model.encoder], …), or name them in kernels"
        )
    if found["overflow_number"] and found["op_debug_mode"] not in (1, 2, 3):
        wrong.append(
            f"overflow_number is {found['overflow_number']} and op_debug_mode is {found['op_debug_mode']}: "
            "it counts overflows, so op_debug_mode has to be 1, 2 or 3"
        )
    if found["op_debug_mode"] and not found["tensors"]:
        wrong.append(
            f'op_debug_mode is {found["op_debug_mode"]} and saved_data is "statistic": '
            'operators that overflow or fail are written with their values, so saved_data has to be "tensor" or "full"'
        )
    if found["file_format"] == "bin" and not asynchronous:
        wrong.append('file_format is "bin" and the dump is synchronous: it counts only for async_dump_settings')
    return wrong


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,128}", value) is not None
